//! The locks that are compared, behind one small trait.
//!
//! Each is used as its own documentation says for data that are mostly read, and no lock is given more than the
//! others: no padding of its own, no pause between two operations.
//!
//! | contender | a read | a write |
//! |---|---|---|
//! | optimistic | begin, look, validate; again if the version moved | X |
//! | shared | S | X |
//! | exclusive | X, released clean, so that optimistic readers elsewhere would go on | X |
//! | upgrade | as optimistic | begin, then X at that version; again if it moved |
//! | parking_lot, std, sharded | their read lock | their write lock |
//! | spin | the one lock | the one lock |
//!
//! An optimistic reader here never gives up being one. Beside writers that hold X for long it shows what that
//! costs; the engine takes S after some restarts.

use crossbeam_utils::sync::ShardedLock;
use latchkv_latch::Latch;
use std::hint::spin_loop;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A lock for reading and writing. What it protects lies beside it.
pub(super) trait Lock: Default + Sync {
    /// Looks, perhaps several times; the last look was not disturbed.
    fn read<R>(&self, look: impl FnMut() -> R) -> R;

    /// Changes, alone.
    fn write<R>(&self, change: impl FnOnce() -> R) -> R;
}

/// No lock: what everything else costs. For one thread.
#[derive(Default)]
pub(super) struct Unlocked;

impl Lock for Unlocked {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        look()
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        change()
    }
}

#[derive(Default)]
pub(super) struct Optimistic(Latch);

impl Lock for Optimistic {
    #[inline]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        read_optimistically(&self.0, look)
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _x = self.0.exclusive();
        change()
    }
}

#[inline]
fn read_optimistically<R>(latch: &Latch, mut look: impl FnMut() -> R) -> R {
    loop {
        let at = latch.begin();
        let seen = look();
        if latch.validate(at) {
            return seen;
        }
    }
}

#[derive(Default)]
pub(super) struct SharedReads(Latch);

impl Lock for SharedReads {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let _s = self.0.shared();
        look()
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _x = self.0.exclusive();
        change()
    }
}

#[derive(Default)]
pub(super) struct ExclusiveReads(Latch);

impl Lock for ExclusiveReads {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let x = self.0.exclusive();
        let seen = look();
        let _ = x.release_clean();
        seen
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _x = self.0.exclusive();
        change()
    }
}

#[derive(Default)]
pub(super) struct Upgrading(Latch);

impl Lock for Upgrading {
    #[inline]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        read_optimistically(&self.0, look)
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        loop {
            let at = self.0.begin();
            if let Some(_x) = self.0.upgrade(at) {
                return change();
            }
        }
    }
}

impl Lock for parking_lot::RwLock<()> {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let _guard = self.read();
        look()
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _guard = self.write();
        change()
    }
}

impl Lock for std::sync::RwLock<()> {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let _guard = self.read().unwrap_or_else(PoisonError::into_inner);
        look()
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _guard = self.write().unwrap_or_else(PoisonError::into_inner);
        change()
    }
}

impl Lock for ShardedLock<()> {
    #[inline]
    fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let _guard = self.read().unwrap_or_else(PoisonError::into_inner);
        look()
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        let _guard = self.write().unwrap_or_else(PoisonError::into_inner);
        change()
    }
}

/// A lock that spins and does nothing else: test, then test and set. It has no readers, is not fair, and when
/// there are more threads than cores it burns the time slices of those that wait for one that does not run.
#[derive(Default)]
pub(super) struct Spin(AtomicBool);

impl Spin {
    #[inline]
    fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        // Acquire: sees what the last holder did. Relaxed looks: the exchange carries the order.
        while self.0.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            while self.0.load(Relaxed) {
                spin_loop();
            }
        }
        let result = work();
        self.0.store(false, Release);
        result
    }
}

impl Lock for Spin {
    #[inline]
    fn read<R>(&self, look: impl FnMut() -> R) -> R {
        self.alone(look)
    }

    #[inline]
    fn write<R>(&self, change: impl FnOnce() -> R) -> R {
        self.alone(change)
    }
}
