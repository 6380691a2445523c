//! [`Guarded`]: a value behind a latch, as plain memory.
//!
//! What it is for: the shards of the old versions, which many threads read at once for a short time. Not for
//! optimistic readers, which need atomic words: here a reader holds S.
//!
//! # Invariants
//!
//! - \[G1\] The value is reached only through [`Guarded::shared`], by `&` while this thread holds S, and through
//!   [`Guarded::exclusive`], by `&mut` while it holds X. The latch lets no S exist beside X, and what one holder
//!   stored is seen by the next (its rows O1 and O3), so neither races with the other.
//! - \[G2\] The latch is released after the last use of the reference: the guard is dropped behind the closure, on
//!   a panic too, and the closure's result cannot borrow from the value.
//!
//! A closure must not enter the same `Guarded` again: it would wait for itself. A panic inside a closure leaves the
//! value as it was then.

use latchkv_latch::Latch;
use std::cell::UnsafeCell;
use std::fmt;

/// A value shared by its own latch. Two lines long at least, so that neighbours do not disturb each other.
#[repr(align(128))]
pub(super) struct Guarded<T> {
    latch: Latch,
    value: UnsafeCell<T>,
}

// SAFETY: [G1] `&T` is given to many threads at once (T: Sync) and `&mut T` to one after the other (T: Send).
unsafe impl<T: Send + Sync> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(super) fn new(value: T) -> Guarded<T> {
        Guarded { latch: Latch::new(), value: UnsafeCell::new(value) }
    }

    /// Gives the value to `read`, with other readers.
    #[inline]
    pub(super) fn shared<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let _held = self.latch.shared();
        // SAFETY: [G1] S is held, and [G2] until the reference is gone.
        read(unsafe { &*self.value.get() })
    }

    /// Gives the value to `change`, alone.
    #[inline]
    pub(super) fn exclusive<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let _held = self.latch.exclusive();
        // SAFETY: [G1] X is held, and [G2] until the reference is gone.
        change(unsafe { &mut *self.value.get() })
    }
}

impl<T> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("latch", &self.latch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_many_threads_are_all_there_and_seen_whole() {
        let guarded = Guarded::new([0u64; 4]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        guarded.exclusive(|words| words.iter_mut().for_each(|word| *word += 1));
                        let seen = guarded.shared(|words| *words);
                        assert!(seen.iter().all(|&word| word == seen[0]));
                    }
                });
            }
        });
        assert_eq!(guarded.shared(|words| *words), [1500; 4]);
    }

    #[test]
    fn a_panic_releases_the_latch() {
        let guarded = Guarded::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guarded.exclusive(|_| panic!("on purpose"))
        }));
        assert!(panicked.is_err());
        assert_eq!(guarded.exclusive(|value| *value), 1);
    }
}
