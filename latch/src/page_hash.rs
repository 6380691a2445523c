//! Page -> frame, as an array of [`cell`](crate::cell)s with a latch each.
//!
//! What it is for: finding the frame of a page whose hint was wrong, and being the one place that decides
//! which frame has a page. What it is not: a general map, growable, or iterable. It has room for as many
//! entries as there are frames, and never fails for want of room.
//!
//! ```text
//!   cells   [ home 0 | home 1 | ... | home n-1 | overflow 0 | overflow 1 | ... ]
//!                        |                            ^  |           ^
//!                        +-- link in last entry ------+  +-- link ---+
//! ```
//!
//! Home cell of a page: the top bits of `page * 2^64/phi`. The number of home cells is the power of two that
//! leaves between 0.3 and 0.6 of their entries filled when every frame has a page; about 0.5 to 5 % of
//! entries then overflow.
//!
//! # Invariants
//!
//! * \[HASH1] Entries and links of a chain are stored only under X of its home cell.
//! * \[HASH2] Whenever that X is not held, the entries of a chain are a prefix: no hole before an entry, and
//!   every overflow cell of a chain but the last ends in a link. The last one has at least two entries.
//! * \[HASH3] A page is in the chain of its home cell at most once, and in no other.
//! * \[HASH4] So a chain of k overflow cells has at least (ENTRIES - 1) k + 2 entries, and all chains
//!   together need at most frames / (ENTRIES - 1) overflow cells: there is always one more while there are
//!   fewer entries than frames.
//! * \[HASH5] `cells` points to `home + overflow` cells, for as long as the hash lives, and nothing else
//!   refers to them.
//!
//! # Reading
//!
//! A hit is returned at once: no validation, no read-modify-write, one line touched if the page is in its
//! home cell. The entry is one word, so the mapping was true at some instant; the caller confirms it by the
//! frame's header. A miss is believed only after the home cell's version has been validated (ordering rows O1
//! and O2 of [`latch`](crate::latch)): an entry may move within its chain while it is scanned. A link is
//! followed only after validation too, so a walk is never led into cells that have been freed and used again.
//!
//! # Latches apart
//!
//! [`LatchPlacement::Outside`] is there to measure what other engines do: a few latches in an array apart,
//! and lookups that take S. It is not made for speed.
//!
//! With the feature `measure` a hash counts the lookups that met somebody else at their latch
//! (`PageHash::crowded`), and only those: a lookup that meets nobody is the same code.
//!
//! # Tests
//!
//! Below against `HashMap`, chains of every length included; loom models `page_hash::*`.

use crate::cell::sealed::{Cell, Sealed};
use crate::cell::{
    FRAME_END, Line64, PAGE_MAX, Stride, entry, frame_of, link, linked, page_of, scan,
};
use crate::latch::{Exclusive, Latch, Shared};
use crate::order::HoldsCell;
use crate::prefetch::prefetch_line;
use crate::primitives::Ordering::Relaxed;
use crate::primitives::{AtomicU64, Mutant, mutant};
use crate::spare::Spare;
use crate::word::Version;
use std::fmt;
use std::ptr::NonNull;

/// Where the latches of the cells are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LatchPlacement {
    /// One in each cell; lookups are optimistic.
    #[default]
    PerCell,
    /// In an array apart, padded to 128 bytes each; lookups take S. For measurements.
    Outside {
        /// How many latches the cells share. 0 counts as 1.
        count: usize,
    },
}

/// A latch that shares no line, nor pair of lines, with another.
#[repr(align(128))]
#[derive(Debug, Default)]
struct PaddedLatch(Latch);

/// A count that shares no line with what lookups read.
#[cfg(feature = "measure")]
#[repr(align(128))]
#[derive(Debug, Default)]
struct Crowded(std::sync::atomic::AtomicU64);

/// Page -> frame. See the module head.
pub struct PageHash<S: Stride = Line64> {
    /// \[HASH5].
    cells: NonNull<S::Cell>,
    /// 64 - log2 of the number of home cells.
    shift: u32,
    home: usize,
    overflow: usize,
    /// Whether `cells` is a `Box<[S::Cell]>` to be given back.
    owned: bool,
    /// Latches apart, for [`LatchPlacement::Outside`].
    outside: Option<Box<[PaddedLatch]>>,
    /// Overflow cells in no chain.
    spare: Spare,
    #[cfg(feature = "measure")]
    crowded: Crowded,
}

// SAFETY: [HASH5]: the cells belong to this hash as if it held them in a box, and they are `Send`.
unsafe impl<S: Stride> Send for PageHash<S> {}
// SAFETY: [HASH5], and cells are shared only by reference; they are `Sync`, being atomics.
unsafe impl<S: Stride> Sync for PageHash<S> {}

/// Numbers of home and overflow cells for `frames` entries.
fn shape<S: Stride>(frames: usize) -> (usize, usize) {
    let home = (frames * 10).div_ceil(S::ENTRIES * 6).next_power_of_two().max(2);
    // HASH4.
    (home, frames / (S::ENTRIES - 1) + 1)
}

impl<S: Stride> PageHash<S> {
    /// An empty hash with room for `frames` entries, in memory of its own. `frames` is less than 2^24.
    pub fn new(frames: usize, placement: LatchPlacement) -> PageHash<S> {
        let (home, overflow) = shape::<S>(frames);
        PageHash::boxed(home, overflow, placement)
    }

    /// An empty hash of a shape that a model or a test wants: `home` cells, a power of two from 2, and
    /// `overflow` cells.
    #[cfg(any(test, latchkv_loom))]
    pub fn with_shape(home: usize, overflow: usize, placement: LatchPlacement) -> PageHash<S> {
        PageHash::boxed(home, overflow, placement)
    }

    fn boxed(home: usize, overflow: usize, placement: LatchPlacement) -> PageHash<S> {
        let cells: Box<[S::Cell]> = (0..home + overflow).map(|_| S::Cell::default()).collect();
        let cells = NonNull::from(Box::leak(cells)).cast::<S::Cell>();
        PageHash::over(cells, home, overflow, true, placement)
    }

    /// Bytes that [`PageHash::with_memory`] wants for `frames` entries.
    pub fn bytes_needed(frames: usize) -> usize {
        let (home, overflow) = shape::<S>(frames);
        (home + overflow) * size_of::<S::Cell>()
    }

    /// An empty hash with room for `frames` entries, its cells in memory of the caller's (huge pages, say).
    /// `frames` is less than 2^24. Latches apart, if asked for, are allocated by the hash.
    ///
    /// # Panics
    ///
    /// If `bytes` is less than [`PageHash::bytes_needed`], or `memory` is not aligned to 128.
    ///
    /// # Safety
    ///
    /// `memory` points to `bytes` bytes that are zero, valid for reads and writes for as long as the hash
    /// lives, and used by nobody else meanwhile.
    #[cfg(not(latchkv_loom))]
    pub unsafe fn with_memory(
        memory: NonNull<u8>,
        bytes: usize,
        frames: usize,
        placement: LatchPlacement,
    ) -> PageHash<S> {
        assert!(
            bytes >= PageHash::<S>::bytes_needed(frames),
            "too little memory for the page hash"
        );
        assert!(memory.addr().get().is_multiple_of(128), "memory of the page hash is not aligned");
        let (home, overflow) = shape::<S>(frames);
        // The caller's promises and the two checks give [HASH5]; [C1] makes zeroed memory an array of cells.
        PageHash::over(memory.cast(), home, overflow, false, placement)
    }

    fn over(
        cells: NonNull<S::Cell>,
        home: usize,
        overflow: usize,
        owned: bool,
        placement: LatchPlacement,
    ) -> PageHash<S> {
        assert!(home.is_power_of_two() && home >= 2, "home cells: a power of two from 2");
        assert!(overflow < FRAME_END as usize, "more overflow cells than a link can name");
        let outside = match placement {
            LatchPlacement::PerCell => None,
            LatchPlacement::Outside { count } => {
                Some((0..count.max(1)).map(|_| PaddedLatch::default()).collect())
            }
        };
        PageHash {
            cells,
            shift: 64 - home.trailing_zeros(),
            home,
            overflow,
            owned,
            outside,
            spare: Spare::new(overflow),
            #[cfg(feature = "measure")]
            crowded: Crowded::default(),
        }
    }

    /// All cells, home cells first.
    #[inline(always)]
    fn cells(&self) -> &[S::Cell] {
        // SAFETY: [HASH5].
        unsafe { std::slice::from_raw_parts(self.cells.as_ptr(), self.home + self.overflow) }
    }

    /// Which home cell `page` belongs to, below the number of home cells. For tests and statistics.
    #[inline(always)]
    pub fn home_of(&self, page: u64) -> usize {
        (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline(always)]
    fn home_cell(&self, page: u64) -> &S::Cell {
        &self.cells()[self.home_of(page)]
    }

    /// The overflow cell that a link names. `None` for a link that was never one.
    #[inline]
    fn overflow_cell(&self, index: u32) -> Option<&S::Cell> {
        self.cells().get(self.home + index as usize)
    }

    /// The word of a spare cell that links to the next one.
    fn next_spare(&self, index: u32) -> &AtomicU64 {
        &self.overflow_cell(index).expect("only cells that exist are spare").entries()[0]
    }

    /// The latch that covers the chain of home cell `home`.
    #[inline]
    fn latch(&self, home: usize) -> &Latch {
        match &self.outside {
            None => self.cells()[home].latch(),
            Some(latches) => &latches[home % latches.len()].0,
        }
    }

    /// The frame of `page`, or `None` if no frame has it.
    ///
    /// `Some` is a mapping that was true at some instant: the caller confirms it by the frame's header.
    /// `None` was validated: there was an instant during the call at which no frame had the page. A page of 0
    /// or above 40 bits is in no frame. Waits for X of the cell to end before it gives `None`, hence the
    /// caller holds no cell.
    #[inline(always)]
    pub fn lookup(&self, page: u64) -> Option<u32> {
        if self.outside.is_some() {
            return self.lookup_shared(page);
        }
        if page.wrapping_sub(1) >= PAGE_MAX {
            return None;
        }
        let cell = self.home_cell(page);
        let at = cell.latch().try_begin();
        match scan(cell, page) {
            Some(frame) => Some(frame),
            None => self.lookup_missed(cell, page, at),
        }
    }

    /// The rest of a lookup that did not find the page in the home cell when that was at version `at`.
    #[inline(never)]
    fn lookup_missed(&self, home: &S::Cell, page: u64, mut at: Option<Version>) -> Option<u32> {
        loop {
            if let Some(at) = at
                && let Some(answer) = self.walk(home, page, at)
            {
                return answer;
            }
            self.note_crowded();
            at = Some(home.latch().begin());
            if let Some(frame) = scan(home, page) {
                return Some(frame);
            }
        }
    }

    /// Follows the links of a chain whose home cell has been scanned in vain since `at`. The outer `None`
    /// says that the home cell has changed since: begin again.
    #[inline]
    fn walk(&self, home: &S::Cell, page: u64, at: Version) -> Option<Option<u32>> {
        let mut here = home;
        loop {
            let last = here.entries()[S::ENTRIES - 1].load(Relaxed);
            if !home.latch().validate(at) && !mutant(Mutant::MissWithoutValidation) {
                return None;
            }
            let Some(index) = linked(last) else {
                return Some(None);
            };
            here = self.overflow_cell(index)?;
            if let Some(frame) = scan(here, page) {
                return Some(Some(frame));
            }
        }
    }

    /// As [`PageHash::lookup`], but under S of the latch that covers the page's chain, wherever that latch
    /// is. It is what `lookup` does if latches are apart; of a hash with a latch in each cell only measurements
    /// ask for it. Waits for X of the chain to end.
    #[inline(never)]
    pub fn lookup_shared(&self, page: u64) -> Option<u32> {
        if page.wrapping_sub(1) >= PAGE_MAX {
            return None;
        }
        let home = self.home_of(page);
        let _shared = self.shared(home);
        let mut here = &self.cells()[home];
        loop {
            if let Some(frame) = scan(here, page) {
                return Some(frame);
            }
            let index = linked(here.entries()[S::ENTRIES - 1].load(Relaxed))?;
            here = self.overflow_cell(index)?;
        }
    }

    /// S of the latch that covers home cell `home`.
    #[inline(always)]
    fn shared(&self, home: usize) -> Shared<'_> {
        let latch = self.latch(home);
        #[cfg(feature = "measure")]
        if let Some(shared) = latch.shared_in_one_try() {
            return shared;
        }
        self.note_crowded();
        latch.shared()
    }

    /// A lookup has met somebody else at its latch.
    #[inline(always)]
    fn note_crowded(&self) {
        // Relaxed: a number that stands for itself.
        #[cfg(feature = "measure")]
        self.crowded.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Lookups that met somebody else at their latch. Of latches apart: S was not had in the first try, since X was held or
    /// another lookup took or gave S in the same moment (or, on processors without a compare-exchange of their own, for no
    /// reason). Of latches in cells: a miss began anew, since a writer was there.
    /// For measurements.
    #[cfg(feature = "measure")]
    pub fn crowded(&self) -> u64 {
        // Relaxed: as above.
        self.crowded.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Enters that `frame` has `page`, or gives the frame that has it already. Waits for the cell.
    ///
    /// # Panics
    ///
    /// If `page` or `frame` does not fit an entry, or the hash holds more entries than it was made for.
    pub fn insert(&self, page: u64, frame: u32) -> Result<(), u32> {
        assert!(page.wrapping_sub(1) < PAGE_MAX, "page {page} does not fit an entry");
        assert!(frame < FRAME_END, "frame {frame} does not fit an entry");
        let home = self.home_of(page);
        let x = self.latch(home).exclusive();
        let _held = HoldsCell::new();
        match self.insert_under(home, page, frame) {
            Ok(()) => {
                drop(x);
                Ok(())
            }
            Err(existing) => {
                let _ = x.release_clean();
                Err(existing)
            }
        }
    }

    /// [`PageHash::insert`] under X of the home cell. Relaxed throughout: X orders it.
    fn insert_under(&self, home: usize, page: u64, frame: u32) -> Result<(), u32> {
        let mut here = &self.cells()[home];
        loop {
            let entries = here.entries();
            for slot in entries {
                let word = slot.load(Relaxed);
                if word == 0 {
                    slot.store(entry(page, frame), Relaxed);
                    return Ok(());
                }
                if page_of(word) == page && !mutant(Mutant::InsertWithoutSearch) {
                    return Err(frame_of(word));
                }
            }
            let last = &entries[S::ENTRIES - 1];
            let word = last.load(Relaxed);
            match linked(word).and_then(|index| self.overflow_cell(index)) {
                Some(next) => here = next,
                None => {
                    let index = self.spare.take(|index| self.next_spare(index));
                    let next = self.overflow_cell(index).expect("only cells that exist are given");
                    next.entries()[0].store(word, Relaxed);
                    next.entries()[1].store(entry(page, frame), Relaxed);
                    last.store(link(index), Relaxed);
                    return Ok(());
                }
            }
        }
    }

    /// Removes the entry that `frame` has `page`; false if there is none. Waits for the cell.
    pub fn remove(&self, page: u64, frame: u32) -> bool {
        let home = self.home_of(page);
        self.remove_holding(self.latch(home).exclusive(), home, page, frame)
    }

    /// As [`PageHash::remove`], but `None` at once if anyone holds the cell: for callers that may not wait.
    pub fn try_remove(&self, page: u64, frame: u32) -> Option<bool> {
        let home = self.home_of(page);
        let x = self.latch(home).try_exclusive()?;
        Some(self.remove_holding(x, home, page, frame))
    }

    fn remove_holding(&self, x: Exclusive<'_>, home: usize, page: u64, frame: u32) -> bool {
        let _held = HoldsCell::new();
        let removed = self.remove_under(home, entry(page, frame));
        if removed {
            drop(x);
        } else {
            let _ = x.release_clean();
        }
        removed
    }

    /// Removes the word `target` from a chain, under X of its home cell: the last entry takes its place, and
    /// an overflow cell left with one entry gives that to the slot of the link to it. Relaxed throughout: X
    /// orders it.
    fn remove_under(&self, home: usize, target: u64) -> bool {
        let mut here = &self.cells()[home];
        // The last entry slot of the cell before `here`, and the overflow cell that it links to.
        let mut linked_from: Option<(&AtomicU64, u32)> = None;
        let mut found: Option<&AtomicU64> = None;
        let (tail, left) = loop {
            let entries = here.entries();
            let next = linked(entries[S::ENTRIES - 1].load(Relaxed));
            let limit = if next.is_some() { S::ENTRIES - 1 } else { S::ENTRIES };
            let filled =
                entries[..limit].iter().position(|slot| slot.load(Relaxed) == 0).unwrap_or(limit);
            found = found.or(entries[..filled].iter().find(|slot| slot.load(Relaxed) == target));
            match next.and_then(|index| Some((index, self.overflow_cell(index)?))) {
                Some((index, cell)) => {
                    linked_from = Some((&entries[S::ENTRIES - 1], index));
                    here = cell;
                }
                None => break (entries[..filled].last(), filled.saturating_sub(1)),
            }
        };
        let (Some(found), Some(tail)) = (found, tail) else {
            return false;
        };
        found.store(tail.load(Relaxed), Relaxed);
        tail.store(0, Relaxed);
        if let Some((slot, index)) = linked_from
            && left == 1
        {
            let last = &here.entries()[0];
            slot.store(last.load(Relaxed), Relaxed);
            self.spare.give(index, last);
        }
        true
    }

    /// Asks for the line of the page's home cell.
    #[inline(always)]
    pub fn prefetch(&self, page: u64) {
        prefetch_line(self.home_cell(page));
    }

    /// Bytes of the cells and of latches apart. Overflow cells count though most are never touched.
    pub fn bytes(&self) -> usize {
        let outside = self.outside.as_ref().map_or(0, |latches| latches.len());
        (self.home + self.overflow) * size_of::<S::Cell>() + outside * size_of::<PaddedLatch>()
    }

    /// Home cells.
    pub fn home_cells(&self) -> usize {
        self.home
    }

    /// Overflow cells in use, about.
    pub fn overflow_cells(&self) -> usize {
        self.spare.in_use()
    }
}

impl<S: Stride> Drop for PageHash<S> {
    fn drop(&mut self) {
        if self.owned {
            let cells = NonNull::slice_from_raw_parts(self.cells, self.home + self.overflow);
            // SAFETY: `owned` says that `boxed` leaked exactly this slice, and [HASH5] that nothing else
            // refers to it.
            drop(unsafe { Box::<[<S as Sealed>::Cell]>::from_raw(cells.as_ptr()) });
        }
    }
}

impl<S: Stride> fmt::Debug for PageHash<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageHash")
            .field("entries_per_cell", &S::ENTRIES)
            .field("home_cells", &self.home)
            .field("overflow_cells", &self.overflow)
            .field("chained", &self.overflow_cells())
            .field("outside_latches", &self.outside.as_ref().map(|latches| latches.len()))
            .finish()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
#[path = "page_hash_tests.rs"]
mod tests;
