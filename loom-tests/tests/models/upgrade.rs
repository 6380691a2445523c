//! Optimistic -> X and optimistic -> S.

use crate::setup::{Words, beside};
use latchkv_latch::Latch;
use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_loom_tests::check;
use loom::sync::Arc;

/// Would falsify: of two that read at one version and upgrade, exactly one gets X, so no update is lost.
#[test]
fn of_two_upgraders_at_one_version_exactly_one_wins() {
    check(3, &[Mutant::UpgradeIgnoresVersion], || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(0)));
        let at = shared.0.begin();
        let upgraders: Vec<_> = (0..2)
            .map(|_| {
                beside(&shared, move |shared| {
                    let seen = shared.1.load(Relaxed);
                    let x = shared.0.upgrade(at);
                    let won = x.is_some();
                    if won {
                        shared.1.store(seen + 1, Relaxed);
                    }
                    drop(x);
                    won
                })
            })
            .collect();
        let wins = upgraders.into_iter().map(|t| t.join().unwrap());
        assert_eq!(wins.filter(|&won| won).count(), 1);
        assert_eq!(shared.1.load(Relaxed), 1);
    });
}

/// Would falsify: what was read before an upgrade that succeeds was whole and current, with no validation
/// between.
#[test]
fn a_successful_upgrade_validates_what_was_read_before_it() {
    check(
        3,
        &[Mutant::UpgradeIgnoresVersion, Mutant::BeginRelaxed, Mutant::ReleaseRelaxed],
        || {
            let shared = Words::new();
            let writer = beside(&shared, move |shared| shared.write());
            if let Some(at) = shared.latch.try_begin() {
                let seen = shared.read();
                if let Some(x) = shared.latch.upgrade(at) {
                    let now = shared.read();
                    let _ = x.release_clean();
                    assert!(seen == now && seen.0 == seen.1);
                }
            }
            writer.join().unwrap();
        },
    );
}

/// Would falsify: an upgrade waits until shared holders have left, and is woken when they have.
#[test]
fn an_upgrade_waits_for_the_shared_holders() {
    let mutants = [
        Mutant::UpgradeIgnoresShared,
        Mutant::SharedReleaseForgetsWake,
        Mutant::ParkWithoutRecheck,
    ];
    check(3, &mutants, || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(0)));
        let at = shared.0.begin();
        let s = shared.0.shared();
        let upgrader = beside(&shared, move |shared| {
            let x = shared.0.upgrade(at).expect("a reader does not move the version");
            shared.1.store(1, Relaxed);
            drop(x);
        });
        let seen = (shared.1.load(Relaxed), shared.1.load(Relaxed));
        drop(s);
        upgrader.join().unwrap();
        assert_eq!(seen, (0, 0), "a writer was let in beside a reader");
    });
}

/// Would falsify: S taken at a version continues the optimistic read begun there.
#[test]
fn shared_at_a_version_continues_the_read() {
    check(3, &[Mutant::SharedAtIgnoresVersion], || {
        let shared = Words::new();
        let writer = beside(&shared, move |shared| shared.write());
        let at = shared.latch.begin();
        let first = shared.first.load(Relaxed);
        if let Some(s) = shared.latch.shared_at(at) {
            let second = shared.second.load(Relaxed);
            drop(s);
            assert_eq!(first, second);
        }
        writer.join().unwrap();
    });
}
