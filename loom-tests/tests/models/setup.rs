//! What several models begin with: a second thread, and what a latch guards.

use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::{Exclusive, Latch};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

/// Runs `act` in a thread of its own, on what this one shares with it.
pub(crate) fn beside<T: 'static, R: 'static>(
    shared: &Arc<T>,
    act: impl FnOnce(&T) -> R + 'static,
) -> JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

/// A latch and two words, both 0, for readers that may be optimistic. They are to be seen equal.
pub(crate) struct Words {
    pub(crate) latch: Latch,
    pub(crate) first: AtomicU64,
    pub(crate) second: AtomicU64,
}

impl Words {
    pub(crate) fn new() -> Arc<Words> {
        Arc::new(Words { latch: Latch::new(), first: AtomicU64::new(0), second: AtomicU64::new(0) })
    }

    /// Makes both 1. The caller holds X.
    pub(crate) fn store(&self) {
        self.first.store(1, Relaxed);
        self.second.store(1, Relaxed);
    }

    /// Takes X and makes both 1.
    pub(crate) fn write(&self) {
        let x = self.latch.exclusive();
        self.store();
        drop(x);
    }

    /// Both, in order.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.first.load(Relaxed), self.second.load(Relaxed))
    }
}

/// A latch and a loom `UnsafeCell`, for readers that hold S: two accesses that are not ordered are an error.
pub(crate) struct Guarded {
    pub(crate) latch: Latch,
    data: UnsafeCell<u32>,
}

impl Guarded {
    pub(crate) fn new() -> Arc<Guarded> {
        Arc::new(Guarded { latch: Latch::new(), data: UnsafeCell::new(0) })
    }

    /// Takes X and adds one.
    pub(crate) fn write(&self) {
        let x = self.latch.exclusive();
        // SAFETY: X is held, and loom checks that this excludes every other access.
        self.data.with_mut(|data| unsafe { *data += 1 });
        drop(x);
    }

    /// Reads under S.
    pub(crate) fn read(&self) -> u32 {
        let s = self.latch.shared();
        // SAFETY: S is held, and loom checks that this excludes writes.
        let value = self.data.with(|data| unsafe { *data });
        drop(s);
        value
    }

    /// Reads under an X that the caller has.
    pub(crate) fn get(&self, _x: &Exclusive<'_>) -> u32 {
        // SAFETY: X is held, and loom checks that this excludes every other access.
        self.data.with(|data| unsafe { *data })
    }
}

// SAFETY: the data is reached through the latch only; that this suffices is what the models check.
unsafe impl Sync for Guarded {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Guarded {}
