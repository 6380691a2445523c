//! S against X, with parking. The data is a loom `UnsafeCell`: two accesses that are not ordered are an
//! error.

use crate::setup::{Guarded, beside};
use latchkv_latch::primitives::Mutant;
use latchkv_loom_tests::check;

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
        let writers: Vec<_> =
            (0..2).map(|_| beside(&guarded, move |guarded| guarded.write())).collect();
        assert!(guarded.read() <= 2);
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(guarded.read(), 2);
    });
}

/// Would falsify: readers run together, a writer that waits for both is woken by the last of them, and a
/// reader that waits behind that writer is woken too.
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
        let readers: Vec<_> =
            (0..2).map(|_| beside(&guarded, move |guarded| assert!(guarded.read() <= 1))).collect();
        guarded.write();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// Would falsify: where S is full (two holders, under loom) the third reader waits and is woken when there is
/// room.
#[test]
fn a_reader_waits_for_room_and_gets_it() {
    check(2, &[Mutant::SharedReleaseForgetsWake, Mutant::ParkWithoutRecheck], || {
        let guarded = Guarded::new();
        let first = guarded.latch.shared();
        let readers: Vec<_> = (0..2)
            .map(|_| beside(&guarded, move |guarded| assert_eq!(guarded.read(), 0)))
            .collect();
        drop(first);
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
