//! Readers that register their snapshot against a reclaimer that drops what none of them can ask for.

use crate::setup::beside;
use latchkv_latch::Snapshots;
use latchkv_latch::primitives::Ordering::{Acquire, Relaxed, Release};
use latchkv_latch::primitives::{AtomicU64, Mutant, mutant};
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// One old version, which the record at lsn 8 superseded: snapshots at 8 and below ask for it. A commit moves
/// `visible` from 8 to 16.
struct Database {
    snapshots: Snapshots,
    visible: AtomicU64,
    /// For readers that are never ended: two accesses that are not ordered are an error.
    old: UnsafeCell<bool>,
    /// For readers that may be: 1, and something else once it was dropped.
    word: AtomicU64,
}

// SAFETY: the old version is reached by a registered reader, or by the reclaimer above its horizon; that this
// suffices is what the models check.
unsafe impl Sync for Database {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Database {}

impl Database {
    fn new() -> Arc<Database> {
        Arc::new(Database {
            snapshots: Snapshots::new(),
            visible: AtomicU64::new(8),
            old: UnsafeCell::new(true),
            word: AtomicU64::new(1),
        })
    }

    fn commit(&self) {
        self.visible.store(16, Release);
    }

    fn visible(&self) -> u64 {
        self.visible.load(Acquire)
    }

    /// Reads as the thread `index`.
    fn read(&self, index: usize) {
        let early = mutant(Mutant::RegisterReadsFirst).then(|| self.visible());
        let read = || early.unwrap_or_else(|| self.visible());
        let slot = self.snapshots.register_as(index, 0, read);
        if self.snapshots.lsn(slot) <= 8 {
            // SAFETY: the snapshot holds it, and loom checks that this excludes the drop.
            assert!(self.old.with(|old| unsafe { *old }));
        }
        self.snapshots.release(slot);
    }

    fn horizon(&self, before: u64) -> u64 {
        if mutant(Mutant::HorizonUpperLast) {
            let scanned = self.snapshots.horizon(|| u64::MAX, before);
            return scanned.min(self.visible());
        }
        self.snapshots.horizon(|| self.visible(), before)
    }

    /// Looks twice, and drops the old version once nobody can ask for it.
    fn reclaim(&self) {
        let mut horizon = 8;
        for _ in 0..2 {
            if horizon <= 8 {
                horizon = self.horizon(horizon);
                if horizon > 8 {
                    // SAFETY: nobody asks for it, and loom checks that.
                    self.old.with_mut(|old| unsafe { *old = false });
                }
            }
        }
    }
}

/// Would falsify: no version is dropped that a reader has or will ask for, and its reads come before the drop.
#[test]
fn what_a_snapshot_may_ask_for_is_not_dropped() {
    let mutants = [
        Mutant::RegisterWithoutFence,
        Mutant::RegisterReadsFirst,
        Mutant::SnapshotReleaseRelaxed,
        Mutant::HorizonWithoutFence,
        Mutant::HorizonUpperLast,
        Mutant::HorizonRelaxed,
        Mutant::HorizonIgnoresPending,
    ];
    check(3, &mutants, || {
        let database = Database::new();
        let reader = beside(&database, |database| database.read(0));
        let committer = beside(&database, |database| database.commit());
        database.reclaim();
        reader.join().unwrap();
        committer.join().unwrap();
    });
}

/// Would falsify: a reader that was ended believes nothing that it read after the drop, though it was ended
/// by another than who drops.
#[test]
fn an_ended_reader_does_not_believe_what_was_dropped() {
    let mutants = [Mutant::IsEndedWithoutFence, Mutant::HorizonWithoutReleaseFence];
    check(3, &mutants, || {
        let database = Database::new();
        let slot = database.snapshots.register_as(0, 0, || database.visible());
        database.commit();
        let ender = beside(&database, move |database| {
            database.snapshots.each(|slot, lsn, _| {
                assert!(database.snapshots.end(slot, lsn));
            });
        });
        let reader = beside(&database, move |database| {
            let seen = database.word.load(Relaxed);
            assert!(database.snapshots.is_ended(slot) || seen == 1);
        });
        if database.horizon(8) > 8 {
            database.word.store(2, Relaxed);
        }
        ender.join().unwrap();
        reader.join().unwrap();
        assert!(database.snapshots.is_ended(slot));
    });
}

/// Would falsify: whoever ends a snapshot leaves the next one in the same slot alone, though it has the same
/// lsn.
///
/// Not asked here is whether the next one finds itself ended: loom does not know that a read-modify-write
/// comes right behind the store that it read, and so before the stores of the slot's owner that followed.
#[test]
fn ending_a_snapshot_hits_no_later_one() {
    check(3, &[Mutant::EndIgnoresGeneration], || {
        let database = Database::new();
        let slot = database.snapshots.register_as(0, 0, || 8);
        let ender = beside(&database, move |database| {
            let is_later = database.visible() == 16;
            assert!(!database.snapshots.end(slot, 8) || !is_later);
        });
        database.snapshots.release(slot);
        database.snapshots.register_as(0, 0, || 8);
        database.commit();
        ender.join().unwrap();
    });
}

/// Would falsify: the listing gives an lsn with the `since` of the same snapshot.
#[test]
fn the_listing_never_mixes_two_snapshots_of_a_slot() {
    check(3, &[Mutant::EachWithoutFence], || {
        let database = Database::new();
        let owner = beside(&database, |database| {
            for (lsn, since) in [(8, 1), (16, 2)] {
                let slot = database.snapshots.register_as(0, since, || lsn);
                database.snapshots.release(slot);
            }
        });
        database.snapshots.each(|_, lsn, since| assert_eq!(lsn, 8 * since));
        owner.join().unwrap();
    });
}
