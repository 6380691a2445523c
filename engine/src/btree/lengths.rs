//! How many records a tree has, without a read-modify-write an update.
//!
//! Each thread adds to a stripe of its own with plain loads and stores; who asks sums the stripes. A sum
//! taken while others write may miss what they are doing; with the gate closed it is exact.
//!
//! * [L1] Stripe `i` is stored to only by the thread whose `thread_index` is `i`. An index that changes hands
//!   does so through the lock of the index list, which orders the old owner's stores before the new owner's
//!   loads.

use crossbeam_utils::CachePadded;
use latchkv_latch::primitives::{AtomicU64, Ordering};
use latchkv_latch::thread_index;
use std::sync::OnceLock;

/// Threads beyond this share one counter.
const STRIPES: usize = 32;

/// The number of records of one tree.
#[derive(Debug)]
pub(crate) struct Lengths {
    base: AtomicU64,
    /// Made by the first update, so that a tree only read costs nothing.
    stripes: OnceLock<Box<[CachePadded<AtomicU64>; STRIPES]>>,
    shared: AtomicU64,
}

impl Lengths {
    pub(super) fn new(length: u64) -> Lengths {
        Lengths {
            base: AtomicU64::new(length),
            stripes: OnceLock::new(),
            shared: AtomicU64::new(0),
        }
    }

    /// Adds `change` records; the caller is inside the gate.
    #[inline]
    pub(crate) fn add(&self, change: i64) {
        let change = change as u64;
        let stripes = self
            .stripes
            .get_or_init(|| Box::new([const { CachePadded::new(AtomicU64::new(0)) }; STRIPES]));
        match stripes.get(thread_index()) {
            Some(stripe) => {
                // Relaxed, [L1]: nobody else stores here; the gate orders it before a checkpoint's sum.
                let before = stripe.load(Ordering::Relaxed);
                stripe.store(before.wrapping_add(change), Ordering::Relaxed);
            }
            None => {
                // Relaxed: only the sum matters.
                self.shared.fetch_add(change, Ordering::Relaxed);
            }
        }
    }

    /// Number of records.
    pub(crate) fn sum(&self) -> u64 {
        // Relaxed: a count without edges; exact for a caller that closed the gate.
        let mut sum = self.base.load(Ordering::Relaxed);
        sum = sum.wrapping_add(self.shared.load(Ordering::Relaxed));
        for stripe in self.stripes.get().into_iter().flat_map(|stripes| stripes.iter()) {
            sum = sum.wrapping_add(stripe.load(Ordering::Relaxed));
        }
        // A sum caught between a record's insert and another's removal may be one below nothing.
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// Sets the number; the caller keeps the gate closed.
    pub(crate) fn set(&self, length: u64) {
        // Relaxed: as in `sum`. The stripes stay as they are, so that [L1] holds.
        let now = self.sum();
        let base = self.base.load(Ordering::Relaxed);
        self.base.store(base.wrapping_sub(now).wrapping_add(length), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_add_up() {
        let lengths = Lengths::new(10);
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    for _ in 0..100 {
                        lengths.add(3);
                        lengths.add(-2);
                    }
                });
            }
        });
        assert_eq!(lengths.sum(), 10 + 2 * STRIPES as u64 * 100);
        lengths.set(5);
        assert_eq!(lengths.sum(), 5);
    }
}
