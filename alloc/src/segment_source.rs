//! [`SegmentSource`]: one budget of memory for the segments of many arenas, and what happens beyond it.
//!
//! ```text
//!   take   1. a spare segment
//!          2. memory of the heap, while all of it stays within the budget
//!          3. a place in a mapped temporary file        only a source that spills
//!          4. memory of the heap beyond the budget      only a source that spills, when there is no file
//!   give   memory: kept as a spare, or freed            a place: free for the next
//! ```
//!
//! A source that does not spill refuses instead of 3. A source that spills refuses only when the system has no
//! memory either: its users keep what a reader may still need, and cannot do without. How far it had to go over
//! the budget is in [`SegmentSource::over_limit_bytes`]. After a file could not be had, the next requests do
//! not ask for one again: a full disk should not cost a system call each time.
//!
//! Not a heap: [`SegmentArena`](crate::SegmentArena) alone takes from it, in segments of one size, save for
//! records that are larger.
//!
//! # Orderings
//!
//! | row | site | order | why |
//! |---|---|---|---|
//! | \[C1] | all accesses of `held_bytes` | Relaxed | a count: it publishes no memory. Segments pass from thread to thread by the mutexes here and by the latch of whoever shares an arena. |
//!
//! Shared: every method takes `&self`. Tested below and through the arena.

use crate::Exhausted;
use crate::segments::SEGMENT_BYTES_MAX;
use crate::spill::{Place, Spill};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smallest segment that makes sense.
const SEGMENT_BYTES_MIN: usize = 64;

/// Spare segments that a source keeps unless it is told otherwise.
const SPARE_COUNT_MAX: usize = 4;

/// Requests beyond the budget that are not tried with a file after a file could not be had.
const REQUESTS_WITHOUT_FILE: u32 = 63;

/// The memory of one segment, zeroed or with what an earlier owner left.
#[derive(Debug)]
pub(crate) enum Memory {
    Heap(Vec<u8>),
    Spilled(Place),
}

impl Memory {
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Spilled(place) => place.bytes(),
        }
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Heap(bytes) => bytes,
            Memory::Spilled(place) => place.bytes_mut(),
        }
    }
}

/// Files to go to, and how long not to try again.
#[derive(Debug)]
struct Overflow {
    spill: Spill,
    without_file: u32,
}

/// Where arenas take the memory of their segments from.
#[derive(Debug)]
pub struct SegmentSource {
    segment_bytes: usize,
    limit_bytes: usize,
    spare_count_max: usize,
    /// Memory of the heap, spares included.
    held_bytes: AtomicUsize,
    spares: Mutex<Vec<Vec<u8>>>,
    overflow: Option<Mutex<Overflow>>,
}

impl SegmentSource {
    /// Segments of `segment_bytes` (64 bytes to [`SEGMENT_BYTES_MAX`], rounded into that range), of which at most
    /// `limit_bytes` exist, spare ones included. Allocates nothing yet.
    pub fn new(segment_bytes: usize, limit_bytes: usize) -> SegmentSource {
        SegmentSource {
            segment_bytes: segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
            limit_bytes,
            spare_count_max: SPARE_COUNT_MAX,
            held_bytes: AtomicUsize::new(0),
            spares: Mutex::new(Vec::new()),
            overflow: None,
        }
    }

    /// The same, keeping up to `spare_count_max` emptied segments (4 otherwise).
    pub fn with_spares(self, spare_count_max: usize) -> SegmentSource {
        SegmentSource { spare_count_max, ..self }
    }

    /// The same, taking what is over the limit from mapped files without a name in `directory`, each of
    /// `file_bytes` (at least a segment), and from memory where no file can be had.
    pub fn with_spill(self, directory: PathBuf, file_bytes: usize) -> SegmentSource {
        let spill = Spill::new(directory, self.segment_bytes, file_bytes);
        SegmentSource { overflow: Some(Mutex::new(Overflow { spill, without_file: 0 })), ..self }
    }

    /// Bytes of an ordinary segment.
    pub fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    /// Bytes of memory held, spare segments included and files not.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Relaxed) // C1
    }

    /// Bytes of memory held beyond the limit. Always 0 for a source that does not spill.
    pub fn over_limit_bytes(&self) -> usize {
        self.held_bytes().saturating_sub(self.limit_bytes)
    }

    /// Bytes of the files, free places included.
    pub fn spilled_bytes(&self) -> usize {
        self.overflow().map_or(0, |overflow| overflow.spill.held_bytes())
    }

    /// Frees the spare segments.
    pub fn trim(&self) {
        for spare in self.spares().drain(..) {
            self.held_bytes.fetch_sub(spare.len(), Relaxed); // C1
        }
    }

    /// Unmaps the files that hold nothing, but for one. Done apart from giving back, which happens under latches:
    /// unmapping a file costs time by its size.
    pub fn settle(&self) {
        let empty = self.overflow().map(|mut overflow| overflow.spill.take_empty());
        // The mutex is free again: who needs a segment now does not wait for this.
        drop(empty);
    }

    /// Memory of `bytes` bytes.
    pub(crate) fn take(&self, bytes: usize) -> Result<Memory, Exhausted> {
        if bytes == self.segment_bytes
            && let Some(spare) = self.spares().pop()
        {
            return Ok(Memory::Heap(spare));
        }
        if let Some(memory) = self.take_within_limit(bytes) {
            return Ok(memory);
        }
        let Some(mut overflow) = self.overflow() else {
            return Err(self.exhausted(bytes));
        };
        if overflow.without_file > 0 {
            overflow.without_file -= 1;
        } else {
            match overflow.spill.take(bytes) {
                Ok(place) => return Ok(Memory::Spilled(place)),
                Err(_) => overflow.without_file = REQUESTS_WITHOUT_FILE,
            }
        }
        drop(overflow);
        self.held_bytes.fetch_add(bytes, Relaxed); // C1
        self.take_counted(bytes).ok_or_else(|| self.exhausted(bytes))
    }

    /// Takes memory back.
    pub(crate) fn give(&self, memory: Memory) {
        match memory {
            Memory::Heap(bytes) => self.give_heap(bytes),
            Memory::Spilled(place) => {
                let mut overflow =
                    self.overflow().expect("a place comes from a source that spills");
                overflow.spill.give(place);
            }
        }
    }

    pub(crate) fn exhausted(&self, asked_bytes: usize) -> Exhausted {
        let (held_bytes, limit_bytes) = (self.held_bytes(), self.limit_bytes);
        Exhausted { asked_bytes, held_bytes, limit_bytes }
    }

    fn give_heap(&self, bytes: Vec<u8>) {
        if bytes.len() == self.segment_bytes && self.over_limit_bytes() == 0 {
            let mut spares = self.spares();
            if spares.len() < self.spare_count_max {
                spares.push(bytes);
                return;
            }
        }
        self.held_bytes.fetch_sub(bytes.len(), Relaxed); // C1
    }

    fn take_within_limit(&self, bytes: usize) -> Option<Memory> {
        if !self.count(bytes) {
            // Spares of another size may stand in the way.
            self.trim();
            if !self.count(bytes) {
                return None;
            }
        }
        self.take_counted(bytes)
    }

    /// Counts `bytes` as held, if the limit allows it.
    fn count(&self, bytes: usize) -> bool {
        let add = |held: usize| held.checked_add(bytes).filter(|&held| held <= self.limit_bytes);
        self.held_bytes.fetch_update(Relaxed, Relaxed, add).is_ok() // C1
    }

    /// Memory of the heap that is counted already; counted no longer if there is none.
    fn take_counted(&self, bytes: usize) -> Option<Memory> {
        let mut memory = Vec::new();
        if memory.try_reserve_exact(bytes).is_err() {
            self.held_bytes.fetch_sub(bytes, Relaxed); // C1
            return None;
        }
        memory.resize(bytes, 0);
        Some(Memory::Heap(memory))
    }

    // A panic between two steps of a list leaves it whole: a poisoned mutex is taken over.

    fn spares(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overflow(&self) -> Option<MutexGuard<'_, Overflow>> {
        let overflow = self.overflow.as_ref()?;
        Some(overflow.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_without_files_refuses_beyond_its_limit() {
        let source = SegmentSource::new(128, 300);
        let (one, two) = (source.take(128).expect("room"), source.take(128).expect("room"));
        assert!(source.take(128).is_err());
        source.give(one);
        assert_eq!(source.held_bytes(), 256, "kept as a spare");
        source.give(two);
        source.take(300).map(|all| source.give(all)).expect("spares make room for another size");
        assert_eq!((source.held_bytes(), source.over_limit_bytes()), (0, 0));
    }

    #[test]
    fn no_more_spares_are_kept_than_asked_for() {
        let source = SegmentSource::new(64, usize::MAX).with_spares(2);
        let all: Vec<Memory> = (0..5).map(|_| source.take(64).expect("no limit")).collect();
        all.into_iter().for_each(|memory| source.give(memory));
        assert_eq!(source.held_bytes(), 2 * 64);
        source.trim();
        assert_eq!(source.held_bytes(), 0);
    }

    #[test]
    fn without_a_file_memory_goes_over_the_limit_and_comes_back() {
        let source = SegmentSource::new(64, 128).with_spill("/nonexistent/directory".into(), 4096);
        let mut all: Vec<Memory> = (0..100).map(|_| source.take(64).expect("memory")).collect();
        assert_eq!(source.over_limit_bytes(), 98 * 64);
        assert!(all.iter().all(|memory| matches!(memory, Memory::Heap(_))));
        all.drain(10..).for_each(|memory| source.give(memory));
        assert_eq!(source.over_limit_bytes(), 8 * 64, "nothing is kept while over the limit");
        all.into_iter().for_each(|memory| source.give(memory));
        assert_eq!((source.over_limit_bytes(), source.held_bytes()), (0, 128));
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn what_is_over_the_limit_goes_to_files() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let source = SegmentSource::new(4096, 8192).with_spill(directory.path().to_owned(), 16384);
        let all: Vec<Memory> = (0..8).map(|_| source.take(4096).expect("memory")).collect();
        let spilled = all.iter().filter(|memory| matches!(memory, Memory::Spilled(_))).count();
        assert_eq!((spilled, source.held_bytes(), source.spilled_bytes()), (6, 8192, 2 * 16384));
        all.into_iter().for_each(|memory| source.give(memory));
        source.settle();
        assert_eq!((source.spilled_bytes(), source.over_limit_bytes()), (16384, 0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn files_are_used_again_once_they_can_be_had() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let there = directory.path().join("not yet");
        let source = SegmentSource::new(4096, 0).with_spill(there.clone(), 8192);
        let over = source.take(4096).expect("memory");
        std::fs::create_dir(&there).expect("directory");
        let all: Vec<Memory> =
            (0..=REQUESTS_WITHOUT_FILE).map(|_| source.take(4096).expect("memory")).collect();
        assert!(matches!(all.last(), Some(Memory::Spilled(_))));
        all.into_iter().chain([over]).for_each(|memory| source.give(memory));
        assert_eq!(source.held_bytes(), 0);
    }
}
