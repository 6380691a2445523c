//! How gate, latches of stripes, log and `visible` make commits together. The steps are those of
//! ARCHITECTURE.md, "Commit"; here they are done by the models, as the engine does them.

use crate::setup::beside;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::primitives::{AtomicU64, Mutant, mutant};
use latchkv_latch::{Gate, Latch, LogRing};
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Bytes of each record here.
const LEN: u32 = 32;
/// The lsn of the first record, and so the snapshot of all who begin before it.
const START: u64 = 64;

/// A log with room for two records, and what they change.
struct Database {
    gate: Gate,
    ring: LogRing,
    /// What each record changes, for who looks at it with the gate closed.
    data: [UnsafeCell<bool>; 2],
    /// The stripe of both keys.
    stripe: Latch,
    /// For each key the lsn of its record, 0 at first.
    keys: [AtomicU64; 2],
}

// SAFETY: the data is reached inside the gate or with it closed; that this suffices is what the models check.
unsafe impl Sync for Database {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Database {}

impl Database {
    fn new() -> Arc<Database> {
        Arc::new(Database {
            gate: Gate::new(),
            ring: LogRing::new(64, START),
            data: std::array::from_fn(|_| UnsafeCell::new(false)),
            stripe: Latch::new(),
            keys: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    fn reserve(&self) -> u64 {
        self.ring.reserve(LEN).expect("there is room for all of a model")
    }

    fn copy(&self, lsn: u64) {
        self.ring.copy(lsn, 0, &[LEN.into()]);
        self.ring.copied(lsn);
    }

    fn is_conflict(&self, key: usize) -> bool {
        // Relaxed: ordered by the stripe, or by the wait for `visible`.
        self.keys[key].load(Relaxed) >= START
    }

    /// Commits as the thread `index`, without a key.
    fn commit_in_gate(&self, index: usize) {
        let mut inside = Some(self.gate.enter_as(index));
        let lsn = self.reserve();
        self.copy(lsn);
        if mutant(Mutant::ApplyOutsideGate) {
            inside = None;
        }
        // SAFETY: the record's own, inside the gate; loom checks that this excludes others.
        self.data[((lsn - START) / 32) as usize].with_mut(|data| unsafe { *data = true });
        self.ring.applied(lsn);
        drop(inside);
    }

    /// Commits a change of the first key if nobody did since the snapshot, and says whether.
    fn commit_first(&self) -> bool {
        let early = mutant(Mutant::CheckBeforeStripe).then(|| self.is_conflict(0));
        let x = self.stripe.exclusive();
        let conflict = early.unwrap_or_else(|| self.is_conflict(0));
        if !conflict {
            let lsn = self.reserve();
            self.copy(lsn);
            self.keys[0].store(lsn, Relaxed);
            self.ring.applied(lsn);
        }
        drop(x);
        !conflict
    }

    /// Commits a change of the first key, whoever changed it before.
    fn commit_blindly(&self) {
        let early = mutant(Mutant::ReserveBeforeStripe).then(|| self.reserve());
        let x = self.stripe.exclusive();
        let lsn = early.unwrap_or_else(|| self.reserve());
        self.copy(lsn);
        let before = self.keys[0].load(Relaxed);
        self.keys[0].store(lsn, Relaxed);
        self.ring.applied(lsn);
        drop(x);
        assert!(before < lsn);
    }

    /// Commits a change of the key `writes` that rests on the key `reads`, or voids it, and says which.
    fn commit_serializable(&self, writes: usize, reads: usize) -> bool {
        let early = mutant(Mutant::ValidateBeforeReserve).then(|| self.is_conflict(reads));
        let lsn = self.reserve();
        if !mutant(Mutant::ValidateWithoutWait) {
            self.ring.wait_visible(lsn);
        }
        let conflict = early.unwrap_or_else(|| self.is_conflict(reads));
        self.copy(lsn);
        if !conflict {
            self.keys[writes].store(lsn, Relaxed);
        }
        self.ring.applied(lsn);
        !conflict
    }
}

/// A checkpoint beside a committer for each of `indices`.
fn checkpoint_beside(indices: &[usize]) {
    let database = Database::new();
    let committers: Vec<_> = indices
        .iter()
        .map(|&index| beside(&database, move |database| database.commit_in_gate(index)))
        .collect();
    let closed = database.gate.close();
    let tail = database.ring.tail();
    assert_eq!(database.ring.visible(), tail);
    for (data, lsn) in database.data.iter().zip([START, START + 32]) {
        // SAFETY: the gate is closed; loom checks that this excludes writes.
        assert_eq!(data.with(|data| unsafe { *data }), lsn < tail);
    }
    drop(closed);
    for committer in committers {
        committer.join().unwrap();
    }
}

/// Would falsify: with the gate closed, everything below the tail is applied, visible and seen, and nothing
/// else is.
#[test]
fn a_closed_gate_shows_just_the_commits_below_the_tail() {
    let mutants = [
        Mutant::EnterWithoutFence,
        Mutant::CloseWithoutFence,
        Mutant::EnterIgnoresClosed,
        Mutant::LeaveRelaxed,
        Mutant::ApplyOutsideGate,
    ];
    check(3, &mutants, || checkpoint_beside(&[0]));
}

/// Would falsify: the same where two committers move `visible`.
#[test]
fn a_closed_gate_shows_two_commits_or_one_or_none() {
    check(1, &[Mutant::EnterIgnoresClosed, Mutant::ApplyOutsideGate], || {
        checkpoint_beside(&[0, 1])
    });
}

/// Would falsify: of two committers of one key that began before either committed exactly one wins.
#[test]
fn of_two_committers_of_one_key_the_first_wins() {
    let mutants = [Mutant::CheckBeforeStripe, Mutant::ExclusiveRelaxed];
    check(3, &mutants, || {
        let database = Database::new();
        let other = beside(&database, |database| database.commit_first());
        let won = database.commit_first();
        assert!(won != other.join().unwrap());
        assert_eq!(database.ring.visible(), START + 32);
    });
}

/// Would falsify: the records of one key are applied in the order of their lsns, which is that of replay.
#[test]
fn commits_of_one_key_apply_in_the_order_of_their_lsns() {
    let mutants = [Mutant::ReserveBeforeStripe, Mutant::ExclusiveRelaxed];
    check(3, &mutants, || {
        let database = Database::new();
        let other = beside(&database, |database| database.commit_blindly());
        database.commit_blindly();
        other.join().unwrap();
        assert_eq!(database.keys[0].load(Relaxed), START + 32);
        assert_eq!(database.ring.visible(), START + 64);
    });
}

/// Would falsify: of two serializable commits that each rest on what the other changes (write skew) exactly
/// one comes true.
#[test]
fn two_serializable_commits_never_both_rest_on_what_the_other_changes() {
    let mutants = [
        Mutant::ValidateWithoutWait,
        Mutant::ValidateBeforeReserve,
        Mutant::VisibleRelaxed,
        Mutant::AppliedRelaxed,
    ];
    check(3, &mutants, || {
        let database = Database::new();
        let other = beside(&database, |database| database.commit_serializable(0, 1));
        let committed = database.commit_serializable(1, 0);
        assert!(committed != other.join().unwrap());
        assert_eq!(database.ring.visible(), START + 64);
    });
}
