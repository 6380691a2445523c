//! What the models stand on: that loom runs the interleavings they need.

use crate::setup::beside;
use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Ordering::Relaxed;
use loom::sync::Arc;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// loom 0.7 remembers only the last access to an atomic, so a thread that loads a word before it stores to it
/// was never run before another thread's load, and the mutants `BeginRelaxed`, `MissWithoutValidation` and
/// `IdentBeforeBegin` went unnoticed. The shadows of the model's atomics put that right.
#[test]
fn a_load_before_a_store_hides_no_interleaving() {
    static SEEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());
    loom::model(|| {
        let words = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let writer = beside(&words, move |words| {
            let first = words.0.load(Relaxed);
            words.0.store(first + 1, Relaxed);
            let second = words.1.load(Relaxed);
            words.1.store(second + 1, Relaxed);
        });
        let seen = (words.0.load(Relaxed), words.1.load(Relaxed));
        writer.join().unwrap();
        SEEN.lock().unwrap().insert(seen);
    });
    let all = BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(*SEEN.lock().unwrap(), all);
}
