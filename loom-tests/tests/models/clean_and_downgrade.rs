//! The two other ways to end X.

use crate::setup::{Guarded, Words, beside};
use latchkv_latch::Latch;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::primitives::{AtomicU64, yield_now};
use latchkv_loom_tests::check;
use loom::sync::Arc;

/// Would falsify: a clean release leaves the version as it was, and wakes whoever waited.
#[test]
fn a_clean_release_keeps_the_version_and_wakes() {
    check(3, &[Mutant::CleanReleaseMovesVersion, Mutant::CleanReleaseForgetsWake], || {
        let latch = Arc::new(Latch::new());
        let at = latch.begin();
        let other = beside(&latch, move |latch| {
            let x = latch.exclusive();
            let _ = x.release_clean();
        });
        let x = latch.exclusive();
        let _ = x.release_clean();
        other.join().unwrap();
        assert!(latch.validate(at));
    });
}

/// Would falsify: what was read under an X that was released clean was read before the next writer wrote.
#[test]
fn a_clean_release_orders_what_was_read_before_the_next_writer() {
    check(3, &[Mutant::CleanReleaseRelaxed, Mutant::ExclusiveRelaxed], || {
        let guarded = Guarded::new();
        let reader = beside(&guarded, |guarded| {
            let x = guarded.latch.exclusive();
            let seen = guarded.get(&x);
            let _ = x.release_clean();
            assert!(seen <= 1);
        });
        guarded.write();
        reader.join().unwrap();
    });
}

/// Would falsify: after X -> S readers see what was written under X, no writer comes between, and the version
/// moved.
#[test]
fn a_downgrade_publishes_and_keeps_writers_out() {
    check(3, &[Mutant::DowngradeRelaxed], || {
        let shared = Words::new();
        let at = shared.latch.begin();
        let writer = beside(&shared, move |shared| {
            let x = shared.latch.exclusive();
            shared.store();
            let s = x.downgrade();
            let seen = shared.read();
            let moved = s.version() != at;
            drop(s);
            assert!(moved && seen == (1, 1));
        });
        let s = shared.latch.shared();
        let seen = shared.read();
        drop(s);
        assert_eq!(seen.0, seen.1);
        writer.join().unwrap();
    });
}

/// Would falsify: X -> S wakes the readers that wait for X, at once and not only when the S ends.
#[test]
fn a_downgrade_lets_waiting_readers_in_while_it_lasts() {
    check(2, &[Mutant::DowngradeForgetsWake], || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(0)));
        let x = shared.0.exclusive();
        let reader = beside(&shared, move |shared| {
            let s = shared.0.shared();
            shared.1.store(1, Relaxed);
            drop(s);
        });
        let s = x.downgrade();
        while shared.1.load(Relaxed) == 0 {
            yield_now();
        }
        drop(s);
        reader.join().unwrap();
    });
}
