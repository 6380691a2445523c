//! The overflow cells of a page hash that are in no chain.
//!
//! A stack, linked through the first entry of each spare cell, and behind it the cells that have never been
//! used, so that their memory is not touched before it is needed.
//!
//! ```text
//!   head  tag:32 | link:32  -->  cell  -->  cell  -->  0          fresh .. limit: never used
//! ```
//!
//! The tag moves with every change, so that a compare-exchange is not fooled by a cell that went and came
//! back.
//!
//! * \[SP1] A cell is given to one taker until that one gives it back.
//! * \[SP2] The word by which a spare cell links to the next looks like a link, or empty, to whoever still
//!   walks the chain that the cell was in; so like no entry.
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[S-a] | give: CAS Release | take: load and CAS Acquire | the giver's last stores into the cell come before the taker's | an entry of the old chain turns up in the new one |
//!
//! Tested through the page hash; loom models `two_chains_never_share_an_overflow_cell` and
//! `an_overflow_cell_that_changes_chains_misleads_nobody`.

use crate::cell::{link, linked};
use crate::primitives::Ordering::{Acquire, Relaxed, Release};
use crate::primitives::{AtomicU64, AtomicUsize};

/// The link of a head, or of a spare cell's first word.
const LINK: u64 = u32::MAX as u64;

/// See the module head. Takes and gives are rare: once for seven entries of a cell that is too full.
#[derive(Debug)]
pub(crate) struct Spare {
    head: AtomicU64,
    /// Cells from here on have never been used.
    fresh: AtomicUsize,
    /// Number of cells.
    limit: usize,
    /// Cells that are taken. A statistic, so Relaxed.
    taken: AtomicUsize,
}

impl Spare {
    /// `limit` cells, all spare and never used.
    pub(crate) fn new(limit: usize) -> Spare {
        Spare {
            head: AtomicU64::new(0),
            fresh: AtomicUsize::new(0),
            limit,
            taken: AtomicUsize::new(0),
        }
    }

    /// Takes a cell; all of its entries but the first are 0. `next_of` gives the first entry of a cell.
    ///
    /// # Panics
    ///
    /// If no cell is spare.
    pub(crate) fn take<'c>(&self, next_of: impl Fn(u32) -> &'c AtomicU64) -> u32 {
        self.taken.fetch_add(1, Relaxed);
        // S-a.
        let mut head = self.head.load(Acquire);
        while let Some(index) = linked(head & LINK) {
            // Relaxed: S-a ordered it. If the cell has been taken meanwhile this is nonsense, and the tag has
            // moved.
            let next = next_of(index).load(Relaxed) & LINK;
            match self.head.compare_exchange(head, tagged(head, next), Acquire, Acquire) {
                Ok(_) => return index,
                Err(now) => head = now,
            }
        }
        // Relaxed: the cell has never been touched, and the counter alone decides whose it is.
        let index = self.fresh.fetch_add(1, Relaxed);
        assert!(index < self.limit, "the page hash holds more entries than it was made for");
        index as u32
    }

    /// Gives back the cell `index`, which nothing links to and whose entries are 0 but for `first`.
    pub(crate) fn give(&self, index: u32, first: &AtomicU64) {
        // Relaxed: the value goes into the cell and is compared; nothing is read through it.
        let mut head = self.head.load(Relaxed);
        loop {
            // SP2.
            first.store(head & LINK, Relaxed);
            // S-a.
            match self.head.compare_exchange(head, tagged(head, link(index)), Release, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.taken.fetch_sub(1, Relaxed);
    }

    /// Cells that are taken, about.
    pub(crate) fn in_use(&self) -> usize {
        self.taken.load(Relaxed)
    }
}

/// The head that follows `head`.
fn tagged(head: u64, link: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32 | link
}
