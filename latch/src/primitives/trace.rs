//! What a thread does to the atomics of this module, written down word by word. Feature `trace` only.
//!
//! What it is for: models of what lines of memory go through, which replay what the shipped code did instead
//! of what somebody thinks it does. What it is not: of any use to a program that runs. Without the feature
//! there is nothing of it: not a branch, not a thread-local.
//!
//! Not seen are plain loads and stores (fields that never change, the stack), prefetches, and atomics that
//! are not of this module. A compare-exchange counts as a read-modify-write also where it fails: it takes the
//! line all the same on the processors this is about.
//!
//! Tested below.

use std::cell::{Cell, RefCell};

/// What is done to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// `compare_exchange`, `swap`, `fetch_*`.
    ReadModifyWrite,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Address of the word.
    pub address: usize,
    /// What was done to it.
    pub access: Access,
}

thread_local! {
    /// Apart from `STEPS`, for it has no destructor: an access may come when that is gone.
    static ON: Cell<bool> = const { Cell::new(false) };
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// Notes an access to `word`, if the thread is in [`record`].
#[inline(always)]
pub(super) fn note<T>(word: &T, access: Access) {
    if ON.get() {
        push(Step { address: std::ptr::from_ref(word).addr(), access });
    }
}

#[cold]
fn push(step: Step) {
    STEPS.with_borrow_mut(|steps| steps.push(step));
}

/// Ends the recording, also of work that panics.
struct Off;

impl Drop for Off {
    fn drop(&mut self) {
        ON.set(false);
    }
}

/// Does `work`, and gives what the calling thread did to atomics meanwhile, in order. Within another
/// recording it ends that one.
pub fn record<R>(work: impl FnOnce() -> R) -> (R, Vec<Step>) {
    STEPS.take();
    ON.set(true);
    let off = Off;
    let result = work();
    drop(off);
    (result, STEPS.take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::AtomicU64;
    use crate::primitives::Ordering::Relaxed;

    #[test]
    fn accesses_are_noted_in_order_and_only_within_the_recording() {
        let (a, b) = (AtomicU64::new(1), AtomicU64::new(2));
        a.store(3, Relaxed);
        let (seen, steps) = record(|| {
            let seen = a.load(Relaxed);
            b.store(seen, Relaxed);
            let _ = b.compare_exchange(7, 8, Relaxed, Relaxed);
            a.fetch_add(1, Relaxed)
        });
        b.load(Relaxed);
        assert_eq!(seen, 3);
        let at =
            |word: &AtomicU64, access| Step { address: std::ptr::from_ref(word).addr(), access };
        let (read, write, rmw) = (Access::Read, Access::Write, Access::ReadModifyWrite);
        assert_eq!(steps, [at(&a, read), at(&b, write), at(&b, rmw), at(&a, rmw)]);
        assert_eq!(record(|| ()).1, []);
    }

    #[test]
    fn another_thread_is_not_recorded() {
        let word = AtomicU64::new(0);
        let steps = record(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| word.store(1, Relaxed));
            });
        });
        assert!(!steps.1.iter().any(|step| step.address == std::ptr::from_ref(&word).addr()));
    }
}
