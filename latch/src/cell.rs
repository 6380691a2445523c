//! A cell of the page hash: one latch word and the entries it covers, in one or two cache lines.
//!
//! ```text
//! word   0       1         2              ENTRIES
//!        latch   entry 0   entry 1   ...  last entry, or a link
//!
//! entry  page:40 | frame:24     page in 1 .. 2^40, frame in 0 .. 2^24 - 1
//! link   0 : 40  | index:24     overflow cell number `index - 1`
//! empty  0
//! ```
//!
//! The three kinds of word tell themselves apart, so a reader that races with a change of kind never takes a
//! link for an entry, and no flag in the latch word need be read together with them.
//!
//! An overflow cell has the same layout and hangs off the link of a home cell or of another overflow cell.
//! Its latch word is not used: the home cell's latch covers the whole chain.
//!
//! The stride is a compile-time choice:
//!
//! | stride | bytes | entries | for |
//! |---|---|---|---|
//! | [`Line64`] | 64 | 7 | the default: a hit touches one line |
//! | [`Line64Padded128`] | 128 | 7 | processors that fetch lines in pairs, or have 128-byte lines further out |
//! | [`Line128`] | 128 | 15 | fewer, fuller cells |
//!
//! * \[C1] A cell is `repr(C)`, consists of 64-bit words alone and is valid when all of them are 0.

use crate::latch::Latch;
use crate::primitives::AtomicU64;
use crate::primitives::Ordering::Relaxed;

/// Bits of a frame in an entry.
pub(crate) const FRAME_BITS: u32 = 24;
/// Least number that is no frame.
pub(crate) const FRAME_END: u32 = (1 << FRAME_BITS) - 1;
/// Greatest page.
pub(crate) const PAGE_MAX: u64 = (1 << 40) - 1;

/// The word of an entry.
#[inline(always)]
pub(crate) fn entry(page: u64, frame: u32) -> u64 {
    page << FRAME_BITS | u64::from(frame)
}

/// The page of an entry; 0 for a link and for an empty word.
#[inline(always)]
pub(crate) fn page_of(word: u64) -> u64 {
    word >> FRAME_BITS
}

/// The frame of an entry.
#[inline(always)]
pub(crate) fn frame_of(word: u64) -> u32 {
    (word & u64::from(FRAME_END)) as u32
}

/// The word that links to overflow cell `index`.
pub(crate) fn link(index: u32) -> u64 {
    u64::from(index) + 1
}

/// The overflow cell that `word` links to, if it is a link.
#[inline(always)]
pub(crate) fn linked(word: u64) -> Option<u32> {
    if word != 0 && page_of(word) == 0 { Some(frame_of(word) - 1) } else { None }
}

pub(crate) mod sealed {
    use super::{AtomicU64, Latch};

    /// What the hash does with a cell, whatever its layout.
    pub trait Cell: Default + Send + Sync {
        fn latch(&self) -> &Latch;
        fn entries(&self) -> &[AtomicU64];
    }

    pub trait Sealed: 'static {
        type Cell: Cell;
    }
}

/// The layout of the cells of a [`crate::PageHash`]: one of the types of this module.
pub trait Stride: sealed::Sealed {
    /// Entries in a cell.
    const ENTRIES: usize;
    /// Bytes from one cell to the next.
    const BYTES: usize;
}

macro_rules! stride {
    ($(#[$doc:meta])* $name:ident, $cell:ident, align($align:literal), entries $entries:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Stride for $name {
            const ENTRIES: usize = $entries;
            const BYTES: usize = size_of::<$cell>();
        }

        impl sealed::Sealed for $name {
            type Cell = $cell;
        }

        /// See the module head.
        #[repr(C, align($align))]
        #[derive(Debug, Default)]
        pub struct $cell {
            latch: Latch,
            entries: [AtomicU64; $entries],
        }

        impl sealed::Cell for $cell {
            #[inline(always)]
            fn latch(&self) -> &Latch {
                &self.latch
            }

            #[inline(always)]
            fn entries(&self) -> &[AtomicU64] {
                &self.entries
            }
        }

        #[cfg(not(latchkv_loom))]
        const _: () = assert!(align_of::<$cell>() == $align && $entries >= 2);
    };
}

stride! {
    /// 7 entries in one 64-byte line.
    Line64, Cell64, align(64), entries 7
}
stride! {
    /// 7 entries in the first half of 128 bytes, the other half empty.
    Line64Padded128, Cell64Padded128, align(128), entries 7
}
stride! {
    /// 15 entries in 128 bytes.
    Line128, Cell128, align(128), entries 15
}
#[cfg(latchkv_loom)]
stride! {
    /// 2 entries, so that a model overflows at the third.
    Line24, Cell24, align(8), entries 2
}

#[cfg(not(latchkv_loom))]
const _: () = {
    assert!(Line64::BYTES == 64 && 8 + 8 * Line64::ENTRIES == 64);
    assert!(Line64Padded128::BYTES == 128 && Line64Padded128::ENTRIES == Line64::ENTRIES);
    assert!(Line128::BYTES == 128 && 8 + 8 * Line128::ENTRIES == 128);
};

/// The frame of `page` in this cell, links not followed. Branchless over the entries: for the entry that
/// matches, the exclusive-or with the key leaves the frame, and more than any frame for every other word.
#[inline(always)]
pub(crate) fn scan<C: sealed::Cell>(cell: &C, page: u64) -> Option<u32> {
    let key = page << FRAME_BITS;
    // Relaxed: one word is one mapping that was true at some instant; the frame's header confirms it, and a
    // miss is validated against the latch.
    let least = cell.entries().iter().fold(u64::MAX, |least, e| least.min(e.load(Relaxed) ^ key));
    if least < u64::from(FRAME_END) { Some(least as u32) } else { None }
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::sealed::Cell as _;
    use super::*;

    #[test]
    fn entry_link_and_empty_tell_themselves_apart() {
        let word = entry(PAGE_MAX, FRAME_END - 1);
        assert_eq!((page_of(word), frame_of(word)), (PAGE_MAX, FRAME_END - 1));
        assert_eq!(linked(word), None);
        assert_eq!(linked(0), None);
        assert_eq!(linked(link(0)), Some(0));
        assert_eq!(page_of(link(7)), 0);
        assert_ne!(entry(1, 0), 0);
    }

    #[test]
    fn scan_finds_the_page_and_nothing_else() {
        let cell = Cell64::default();
        cell.entries()[0].store(entry(9, 3), Relaxed);
        cell.entries()[5].store(entry(1, 0), Relaxed);
        cell.entries()[6].store(link(4), Relaxed);
        assert_eq!(scan(&cell, 9), Some(3));
        assert_eq!(scan(&cell, 1), Some(0));
        assert_eq!(scan(&cell, 2), None);
        assert_eq!(scan(&cell, PAGE_MAX), None);
    }
}
