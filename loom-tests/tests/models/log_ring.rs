//! Committers that fill the log's ring, the flusher that drains it, and `visible` between them. What a record
//! stands for is a loom `UnsafeCell`: two accesses that are not ordered are an error. The ring has room for
//! two records.

use crate::setup::beside;
use latchkv_latch::LogRing;
use latchkv_latch::primitives::Mutant;
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Bytes of each record here.
const LEN: u32 = 32;

struct Log {
    ring: LogRing,
    /// For each place of the ring the lsn of the record there, stored before that is marked.
    cells: [UnsafeCell<u64>; 2],
}

// SAFETY: the cells are reached as the ring allows; that this suffices is what the models check.
unsafe impl Sync for Log {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Log {}

impl Log {
    fn new() -> Log {
        Log { ring: LogRing::new(64, 0), cells: std::array::from_fn(|_| UnsafeCell::new(0)) }
    }

    /// With two records reserved and copied.
    fn copied() -> Arc<Log> {
        let log = Log::new();
        for lsn in [0, 32] {
            assert_eq!(log.ring.reserve(LEN), Some(lsn));
            log.copy(lsn);
        }
        Arc::new(log)
    }

    fn store(&self, lsn: u64) {
        // SAFETY: the caller owns the place in the ring, and loom checks that this excludes others.
        self.cells[(lsn / 32 % 2) as usize].with_mut(|cell| unsafe { *cell = lsn });
    }

    fn load(&self, lsn: u64) -> u64 {
        // SAFETY: the record is marked and not retired, and loom checks that this excludes writes.
        self.cells[(lsn / 32 % 2) as usize].with(|cell| unsafe { *cell })
    }

    fn copy(&self, lsn: u64) {
        self.ring.copy(lsn, 0, &[LEN.into(), !lsn]);
        self.ring.copied(lsn);
    }

    /// Waits for room and marks a record copied.
    fn append(&self) -> u64 {
        let lsn = loop {
            match self.ring.reserve(LEN) {
                Some(lsn) => break lsn,
                None => assert!(self.ring.wait_room(LEN, || false)),
            }
        };
        self.store(lsn);
        self.copy(lsn);
        lsn
    }

    /// A log that is full of records that are applied.
    fn full() -> Arc<Log> {
        let log = Log::new();
        for _ in 0..2 {
            let lsn = log.append();
            log.ring.applied(lsn);
        }
        Arc::new(log)
    }

    /// Reads all there is from `from` on, and gives its end.
    fn flush(&self, from: u64) -> u64 {
        let end = self.ring.copied_end(from);
        for lsn in (from..end).step_by(LEN as usize) {
            let mut words = [0; 2];
            self.ring.read(lsn, &mut words);
            assert_eq!(words, [LEN.into(), !lsn]);
            assert_eq!(self.load(lsn), lsn);
        }
        end
    }
}

/// Would falsify: the flusher reads what was copied, whoever was first.
#[test]
fn the_flusher_reads_what_two_reservers_copied() {
    check(3, &[Mutant::CopiedRelaxed, Mutant::CopiedEndRelaxed], || {
        let log = Arc::new(Log::new());
        let others = [(); 2].map(|()| beside(&log, |log| log.append()));
        let from = log.flush(0);
        log.flush(from);
        let lsns = others.map(|other| other.join().unwrap());
        assert!(lsns == [0, 32] || lsns == [32, 0]);
        assert_eq!(log.flush(0), 64);
    });
}

/// Would falsify: no place of the ring is used again before it was read, and a committer that waits for room
/// gets it.
#[test]
fn a_place_is_used_again_only_after_it_was_read() {
    let mutants = [
        Mutant::ReserveRelaxed,
        Mutant::RetireRelaxed,
        Mutant::ReserveIgnoresRoom,
        Mutant::RetireForgetsWake,
        Mutant::RoomParkWithoutRecheck,
    ];
    check(3, &mutants, || {
        let log = Log::full();
        let other = beside(&log, |log| [log.append(), log.append()]);
        for end in [32, 64] {
            assert!(log.flush(end - 32) >= end);
            log.ring.retire(end);
        }
        assert_eq!(other.join().unwrap(), [64, 96]);
        assert_eq!(log.flush(64), 128);
    });
}

/// Would falsify: two committers that wait for room get it as it comes, each for itself.
#[test]
fn two_reservers_take_turns_at_a_full_ring() {
    check(1, &[Mutant::RetireForgetsWake], || {
        let log = Log::full();
        let others = [(); 2].map(|()| beside(&log, |log| log.append()));
        for end in [32, 64] {
            log.ring.retire(end);
        }
        let lsns = others.map(|other| other.join().unwrap());
        assert!(lsns == [64, 96] || lsns == [96, 64]);
        assert_eq!(log.flush(64), 128);
    });
}

/// Would falsify: a committer that waits for room gives up when it is woken for that.
#[test]
fn whoever_waits_for_room_is_woken_to_give_up() {
    use latchkv_latch::primitives::AtomicBool;
    use latchkv_latch::primitives::Ordering::{Acquire, Release};

    check(2, &[Mutant::RoomParkWithoutRecheck], || {
        let log = Arc::new((Log::copied(), AtomicBool::new(false)));
        let waiter = beside(&log, |log| log.0.ring.wait_room(LEN, || log.1.load(Acquire)));
        log.1.store(true, Release);
        log.0.ring.wake_waiters();
        assert!(!waiter.join().unwrap());
    });
}

/// Would falsify: of two neighbours that finish at the same time one moves `visible` past both.
#[test]
fn of_two_neighbours_that_finish_one_passes_both() {
    check(3, &[Mutant::AppliedWithoutFence], || {
        let log = Log::copied();
        let other = beside(&log, |log| log.ring.applied(32));
        log.ring.applied(0);
        other.join().unwrap();
        assert_eq!(log.ring.visible(), 64);
    });
}

/// Would falsify: whoever begins its walk at an old `visible`, where another record lies by now, walks on.
#[test]
fn a_walk_from_an_old_visible_goes_on_over_a_place_used_again() {
    check(3, &[Mutant::HelpWithoutReload], || {
        let log = Log::copied();
        let other = beside(&log, |log| log.ring.applied(32));
        log.ring.applied(0);
        log.ring.retire(32);
        assert_eq!(log.ring.reserve(LEN), Some(64));
        log.copy(64);
        other.join().unwrap();
        assert_eq!(log.ring.visible(), 64);
    });
}

/// Would falsify: whoever sees `visible` above a record sees the record applied, whoever moved it.
#[test]
fn what_is_visible_is_seen_applied() {
    let mutants = [
        Mutant::AppliedRelaxed,
        Mutant::HelpRelaxed,
        Mutant::HelpPublishesRelaxed,
        Mutant::VisibleRelaxed,
    ];
    check(3, &mutants, || {
        let log = Log::copied();
        let others = [0, 32].map(|lsn| {
            beside(&log, move |log| {
                log.store(lsn);
                log.ring.applied(lsn);
            })
        });
        for lsn in (0..log.ring.visible()).step_by(LEN as usize) {
            assert_eq!(log.load(lsn), lsn);
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(log.ring.visible(), 64);
    });
}
