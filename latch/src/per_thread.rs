//! One slot for each thread, in an array that grows without moving.
//!
//! What it is for: protocols in which a thread stores to a place of its own and a rare walker looks at all of
//! them ([`crate::gate`], [`crate::snapshots`]). What it is not: thread-local storage; a slot stays when its
//! thread ends, and serves the next thread of that index.
//!
//! ```text
//!   chunk     0             1                  2
//!   indices   0 .. 32       32 .. 96           96 .. 224        each twice as long as the one before
//! ```
//!
//! # Invariants
//!
//! * \[PT1] A slot, once made, neither moves nor goes before the array does.
//! * \[PT2] A chunk is published with Release and found with Acquire (`OnceLock`). So a walker whose
//!   `fence(SeqCst)` comes after that of a thread that made a chunk finds the chunk: a slot that a walker does
//!   not meet is one that it would have met untouched.
//!
//! Slots are not padded here: a type that wants a cache line of its own says so by its alignment.
//!
//! Tested below, and by what stands on it.

use std::fmt;
use std::sync::OnceLock;

/// Slots in the first chunk; each later chunk has twice as many as the one before.
const FIRST_CHUNK: usize = if cfg!(latchkv_loom) { 2 } else { 32 };
/// Chunks: enough for over thirty million threads.
const CHUNKS: usize = 20;

/// A slot for each index ([`crate::thread_index()`]). See the module head.
pub struct PerThread<T> {
    /// Chunk k has `FIRST_CHUNK << k` slots, made when an index among them is first asked for.
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T: Default> PerThread<T> {
    /// No slots yet.
    pub fn new() -> PerThread<T> {
        let slots = PerThread { chunks: [const { OnceLock::new() }; CHUNKS] };
        if cfg!(latchkv_loom) {
            // loom does not see that a `OnceLock` publishes what it holds.
            slots.make_chunk(0);
        }
        slots
    }

    /// The slot of `index`. Makes it, and its neighbours, if nobody has asked for one of them before.
    ///
    /// # Panics
    ///
    /// If `index` is 32 * (2^20 - 1) or more.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        // Chunk k starts at index FIRST_CHUNK * (2^k - 1).
        let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
        let start = FIRST_CHUNK * ((1 << chunk) - 1);
        let slots = match self.chunks[chunk].get() {
            Some(slots) => slots,
            None => self.make_chunk(chunk),
        };
        &slots[index - start]
    }

    /// The slots made so far with their indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk, slots)| {
            let start = FIRST_CHUNK * ((1 << chunk) - 1);
            slots.get().into_iter().flatten().enumerate().map(move |(at, slot)| (start + at, slot))
        })
    }

    #[cold]
    fn make_chunk(&self, chunk: usize) -> &[T] {
        self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| T::default()).collect())
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new()
    }
}

impl<T> fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerThread").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_slot_of_its_own_that_stays() {
        #[repr(align(128))]
        #[derive(Default)]
        struct Padded(#[allow(dead_code, reason = "its address is what counts")] u64);

        let array: PerThread<Padded> = PerThread::new();
        let address = |index| std::ptr::from_ref(array.get(index)).addr();
        let early = address(3);
        let mut slots: Vec<usize> = (0..3_000).map(address).collect();
        assert_eq!(slots[3], early);
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] >= 128));
    }

    #[test]
    fn the_walk_meets_every_slot_made_with_its_index_and_makes_none() {
        let array: PerThread<u64> = PerThread::new();
        assert_eq!(array.iter().count(), 0);
        array.get(40);
        let indices: Vec<usize> = array.iter().map(|(index, _)| index).collect();
        assert_eq!(indices, (32..96).collect::<Vec<_>>());
        for (index, slot) in array.iter() {
            assert!(std::ptr::eq(slot, array.get(index)));
        }
    }
}
