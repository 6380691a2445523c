//! The two other ways to end X.

use latchkv_latch::Latch;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::primitives::{AtomicU64, yield_now};
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Would falsify: a clean release leaves the version as it was, and wakes whoever waited.
#[test]
fn a_clean_release_keeps_the_version_and_wakes() {
    check(
        3,
        &[
            Mutant::CleanReleaseMovesVersion,
            Mutant::CleanReleaseForgetsWake,
        ],
        || {
            let latch = Arc::new(Latch::new());
            let at = latch.begin();
            let other = {
                let latch = latch.clone();
                thread::spawn(move || {
                    let x = latch.exclusive();
                    let _ = x.release_clean();
                })
            };
            let x = latch.exclusive();
            let _ = x.release_clean();
            other.join().unwrap();
            assert!(latch.validate(at));
        },
    );
}

struct Guarded(Latch, UnsafeCell<u32>);

// SAFETY: the data is reached under X only; that this suffices is what the model checks.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}

/// Would falsify: what was read under an X that was released clean was read before the next writer wrote.
#[test]
fn a_clean_release_orders_what_was_read_before_the_next_writer() {
    check(
        3,
        &[Mutant::CleanReleaseRelaxed, Mutant::ExclusiveRelaxed],
        || {
            let shared = Arc::new(Guarded(Latch::new(), UnsafeCell::new(0)));
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let x = shared.0.exclusive();
                    // SAFETY: X is held, and loom checks that this excludes every other access.
                    let seen = shared.1.with(|data| unsafe { *data });
                    let _ = x.release_clean();
                    assert!(seen <= 1);
                })
            };
            let x = shared.0.exclusive();
            // SAFETY: X is held, and loom checks that this excludes every other access.
            shared.1.with_mut(|data| unsafe { *data = 1 });
            drop(x);
            reader.join().unwrap();
        },
    );
}

/// Would falsify: after X -> S readers see what was written under X, no writer comes between, and the version moved.
#[test]
fn a_downgrade_publishes_and_keeps_writers_out() {
    check(3, &[Mutant::DowngradeRelaxed], || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let at = shared.0.begin();
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let x = shared.0.exclusive();
                shared.1.store(1, Relaxed);
                shared.2.store(1, Relaxed);
                let s = x.downgrade();
                let seen = (shared.1.load(Relaxed), shared.2.load(Relaxed));
                let moved = s.version() != at;
                drop(s);
                assert!(moved && seen == (1, 1));
            })
        };
        let s = shared.0.shared();
        let seen = (shared.1.load(Relaxed), shared.2.load(Relaxed));
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
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let s = shared.0.shared();
                shared.1.store(1, Relaxed);
                drop(s);
            })
        };
        let s = x.downgrade();
        while shared.1.load(Relaxed) == 0 {
            yield_now();
        }
        drop(s);
        reader.join().unwrap();
    });
}
