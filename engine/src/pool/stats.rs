//! The numbers of a pool, for people.
//!
//! Counting must not cost the hot path a shared read-modify-write: what is counted with one happens on slow
//! paths only (a load, a first change in an epoch). Page-hash hits are counted by each thread in a place of its
//! own, on lines that no other thread stores to, however many threads there are.

use super::Pool;
use super::budget::THREAD_COUNTER_BYTES;
use latchkv_alloc::HugePages;
use latchkv_latch::primitives::{AtomicU64, Ordering};
use latchkv_latch::{PerThread, thread_index};

/// A number counted on slow paths. Relaxed throughout: nothing is inferred from it.
#[derive(Debug)]
pub(super) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Counter {
        Counter(AtomicU64::new(0))
    }
}

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    pub(super) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter of one thread, alone on its lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadCounter(AtomicU64);

const _: () = assert!(size_of::<ThreadCounter>() == THREAD_COUNTER_BYTES);

/// All counters of a pool.
#[derive(Debug)]
pub(super) struct Counters {
    hash_hits: PerThread<ThreadCounter>,
    pub(super) loads: Counter,
    pub(super) loads_ahead: Counter,
    pub(super) evictions: Counter,
    pub(super) writebacks: Counter,
    pub(super) put_aside: Counter,
    pub(super) hint_repairs: Counter,
    pub(super) checkpoints: Counter,
    pub(super) gate_closed_ns: Counter,
    pub(super) dirty: Counter,
    pub(super) dirtied_bytes: Counter,
}

impl Default for Counters {
    fn default() -> Counters {
        let hash_hits = PerThread::new();
        // Those of the first threads are made here: a read allocates nothing.
        hash_hits.get(0);
        Counters {
            hash_hits,
            loads: Counter::default(),
            loads_ahead: Counter::default(),
            evictions: Counter::default(),
            writebacks: Counter::default(),
            put_aside: Counter::default(),
            hint_repairs: Counter::default(),
            checkpoints: Counter::default(),
            gate_closed_ns: Counter::default(),
            dirty: Counter::default(),
            dirtied_bytes: Counter::default(),
        }
    }
}

impl Counters {
    /// A page was found by the page hash. No read-modify-write.
    #[inline]
    pub(super) fn hash_hit(&self) {
        let own: &ThreadCounter = self.hash_hits.get(thread_index());
        // Relaxed: as for `Counter`. Nobody else stores to it.
        own.0.store(own.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn hash_hits(&self) -> u64 {
        self.hash_hits
            .iter()
            .fold(0, |sum, (_, one)| sum.wrapping_add(one.0.load(Ordering::Relaxed)))
    }
}

/// What a pool is made of and what it did since it was opened. Numbers are read one after the other, not at
/// one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Frames.
    pub frames: u64,
    /// Frames that hold nothing.
    pub frames_free: u64,
    /// Frames whose page is to be written.
    pub frames_dirty: u64,
    /// Bytes of pages changed since the last checkpoint began, each page once.
    pub dirtied_bytes: u64,
    /// Pages found by the page hash, not by a hint.
    pub hash_hits: u64,
    /// Pages read from disk.
    pub loads: u64,
    /// Of these, pages read in batches, ahead of who needs them.
    pub loads_ahead: u64,
    /// Pages taken out of their frames.
    pub evictions: u64,
    /// Page images written, by evictors, checkpoints and writers.
    pub writebacks: u64,
    /// Images put aside for a checkpoint.
    pub put_aside: u64,
    /// Images that wait for the checkpoint now.
    pub put_aside_waiting: u64,
    /// Hints repaired.
    pub hint_repairs: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// How long the last checkpoint kept writers out, in nanoseconds.
    pub gate_closed_ns: u64,
    /// What the operating system granted.
    pub huge_pages: HugePages,
    /// Bytes that lie in huge pages now, if the operating system tells.
    pub huge_bytes: Option<u64>,
    /// Bytes of frames.
    pub frame_bytes: u64,
    /// Bytes of frame headers.
    pub header_bytes: u64,
    /// Bytes of the page hash.
    pub hash_bytes: u64,
    /// Bytes of buffers for images: batches, images put aside, reads.
    pub buffer_bytes: u64,
    /// Bytes of lists and counters.
    pub list_bytes: u64,
    /// Bytes of all of it, rounding included; never above the budget.
    pub total_bytes: u64,
}

impl Pool {
    /// Pages read from disk so far.
    #[inline(always)]
    pub(crate) fn loads(&self) -> u64 {
        self.counters.loads.get()
    }

    /// Bytes of pages changed since the last checkpoint began, each page counted once. Approximate.
    pub(crate) fn dirtied_bytes(&self) -> u64 {
        self.counters.dirtied_bytes.get()
    }

    /// Look-ups that met somebody else at their latch.
    #[cfg(feature = "measure")]
    pub(crate) fn hash_crowded(&self) -> u64 {
        self.frames.hash().crowded()
    }

    /// The numbers. Asks the operating system about huge pages, which reads a file: not for a hot path.
    pub(crate) fn stats(&self) -> PoolStats {
        let (counters, budget) = (&self.counters, &self.budget);
        PoolStats {
            frames: self.frame_count() as u64,
            frames_free: self.free.len() as u64,
            frames_dirty: counters.dirty.get(),
            dirtied_bytes: counters.dirtied_bytes.get(),
            hash_hits: counters.hash_hits(),
            loads: counters.loads.get(),
            loads_ahead: counters.loads_ahead.get(),
            evictions: counters.evictions.get(),
            writebacks: counters.writebacks.get(),
            put_aside: counters.put_aside.get(),
            put_aside_waiting: self.side.waiting() as u64,
            hint_repairs: counters.hint_repairs.get(),
            checkpoints: counters.checkpoints.get(),
            gate_closed_ns: counters.gate_closed_ns.get(),
            huge_pages: self.frames.granted(),
            huge_bytes: self.frames.huge_bytes(),
            frame_bytes: budget.frame_bytes() as u64,
            header_bytes: budget.header_bytes() as u64,
            hash_bytes: self.frames.hash().bytes() as u64,
            buffer_bytes: budget.buffer_bytes() as u64,
            list_bytes: budget.list_bytes() as u64,
            total_bytes: budget.bytes_total() as u64,
        }
    }
}
