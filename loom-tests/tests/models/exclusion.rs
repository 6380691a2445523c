//! S against X, with parking. The data is a loom `UnsafeCell`: two accesses that are not ordered are an error.

use latchkv_latch::Latch;
use latchkv_latch::primitives::Mutant;
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Guarded {
    latch: Latch,
    data: UnsafeCell<u32>,
}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded {
            latch: Latch::new(),
            data: UnsafeCell::new(0),
        })
    }

    fn write(&self) {
        let x = self.latch.exclusive();
        // SAFETY: X is held, and loom checks that this excludes every other access.
        self.data.with_mut(|data| unsafe { *data += 1 });
        drop(x);
    }

    fn read(&self) -> u32 {
        let s = self.latch.shared();
        // SAFETY: S is held, and loom checks that this excludes writes.
        let value = self.data.with(|data| unsafe { *data });
        drop(s);
        value
    }
}

// SAFETY: the data is reached through the latch only; that this suffices is what the models check.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}

/// Would falsify: two writers and a reader exclude one another, and whoever parks is woken.
#[test]
fn two_writers_and_a_reader_exclude_each_other_and_all_finish() {
    let mutants = [
        Mutant::ExclusiveRelaxed,
        Mutant::ReleaseRelaxed,
        Mutant::SharedReleaseRelaxed,
        Mutant::ReleaseForgetsWake,
        Mutant::SharedReleaseForgetsWake,
        Mutant::ParkWithoutRecheck,
    ];
    check(2, &mutants, || {
        let guarded = Guarded::new();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || guarded.write())
            })
            .collect();
        assert!(guarded.read() <= 2);
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(guarded.read(), 2);
    });
}

/// Would falsify: readers run together, a writer that waits for both is woken by the last of them, and a reader that
/// waits behind that writer is woken too.
#[test]
fn a_writer_and_two_readers_exclude_each_other_and_all_finish() {
    let mutants = [
        Mutant::ReleaseRelaxed,
        Mutant::SharedReleaseRelaxed,
        Mutant::ReleaseForgetsWake,
        Mutant::SharedReleaseForgetsWake,
        Mutant::ParkWithoutRecheck,
    ];
    check(2, &mutants, || {
        let guarded = Guarded::new();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || assert!(guarded.read() <= 1))
            })
            .collect();
        guarded.write();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// Would falsify: where S is full (two holders, under loom) the third reader waits and is woken when there is room.
#[test]
fn a_reader_waits_for_room_and_gets_it() {
    check(
        2,
        &[Mutant::SharedReleaseForgetsWake, Mutant::ParkWithoutRecheck],
        || {
            let guarded = Guarded::new();
            let first = guarded.latch.shared();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let guarded = guarded.clone();
                    thread::spawn(move || assert_eq!(guarded.read(), 0))
                })
                .collect();
            drop(first);
            for reader in readers {
                reader.join().unwrap();
            }
        },
    );
}
