//! Begin, read, validate, against one writer.

use crate::setup::{Words, beside};
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_loom_tests::check;

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
        let shared = Words::new();
        let writer = beside(&shared, move |shared| shared.write());
        if let Some(at) = shared.latch.try_begin() {
            let first = shared.first.load(Relaxed);
            let second = shared.second.load(Relaxed);
            if shared.latch.validate(at) {
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
        &[Mutant::ReleaseForgetsWake, Mutant::ParkWithoutRecheck, Mutant::ReleaseRelaxed],
        || {
            let shared = Words::new();
            let x = shared.latch.exclusive();
            let reader = beside(&shared, move |shared| {
                let at = shared.latch.begin();
                let seen = shared.read();
                assert!(shared.latch.validate(at));
                assert_eq!(seen, (1, 1));
            });
            shared.store();
            drop(x);
            reader.join().unwrap();
        },
    );
}
