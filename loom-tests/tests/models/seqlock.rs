//! Begin, read, validate, against one writer.

use latchkv_latch::Latch;
use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_loom_tests::check;
use loom::sync::Arc;
use loom::thread;

/// Would falsify: a reader whose validation succeeds has read either both old words or both new ones.
#[test]
fn a_validated_read_is_never_torn() {
    let mutants = [
        Mutant::BeginRelaxed,
        Mutant::ValidateByAcquireLoad,
        Mutant::ExclusiveWithoutFence,
        Mutant::ReleaseRelaxed,
    ];
    check(3, &mutants, || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(0), AtomicU64::new(0)));
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let x = shared.0.exclusive();
                shared.1.store(1, Relaxed);
                shared.2.store(1, Relaxed);
                drop(x);
            })
        };
        if let Some(at) = shared.0.try_begin() {
            let first = shared.1.load(Relaxed);
            let second = shared.2.load(Relaxed);
            if shared.0.validate(at) {
                assert_eq!(first, second);
            }
        }
        writer.join().unwrap();
    });
}

/// Would falsify: a reader that waits for X to end gets woken, and then sees all that was written.
#[test]
fn begin_waits_for_the_writer_and_sees_its_words() {
    check(
        3,
        &[
            Mutant::ReleaseForgetsWake,
            Mutant::ParkWithoutRecheck,
            Mutant::ReleaseRelaxed,
        ],
        || {
            let shared = Arc::new((Latch::new(), AtomicU64::new(0), AtomicU64::new(0)));
            let x = shared.0.exclusive();
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let at = shared.0.begin();
                    let seen = (shared.1.load(Relaxed), shared.2.load(Relaxed));
                    assert!(shared.0.validate(at));
                    assert_eq!(seen, (1, 1));
                })
            };
            shared.1.store(1, Relaxed);
            shared.2.store(1, Relaxed);
            drop(x);
            reader.join().unwrap();
        },
    );
}
