//! [`Bump`]: memory for one operation, handed out by moving a pointer and given back as a whole.
//!
//! ```text
//!   blocks   [ small, spent ][ 1.5x, spent ][ own block of a large request ][ 1.5x, current      ]
//!                                                                            |  used  |   room   |
//!                                                                                     ^ cursor
//! ```
//!
//! A write set or a scan buffer is built of many small pieces with one lifetime. Here each piece costs
//! an addition and a comparison, and dropping all of them costs one call per block.
//!
//! Not a general allocator: no piece is given back alone. **No destructors run**: the arena hands out
//! bytes, and what the caller builds in them is simply forgotten. Memory is never zeroed.
//!
//! # Growth
//!
//! Each new block is half again as large as the one before. A request that is at least as large as the
//! next block would be gets a block of its own, and the current block stays in use: one large value does
//! not waste the room of the small ones. [`Bump::reset`] keeps the current block, which is the largest
//! of the ordinary ones, and the grown size, so that a loop that resets settles on one block.
//!
//! # Invariants
//!
//! - \[B1\] `cursor` points into, or one past the end of, the current block, and `room` bytes from it on
//!   belong to that block and were not handed out since the last `reset`. Without a block, `room` is 0.
//! - \[B2\] Each block was allocated with the layout it carries and is freed once, by `clear`, `reset` or
//!   `drop`. These take the arena by `&mut` or by value, so nothing handed out is alive then.
//! - \[B3\] Nothing handed out overlaps anything else handed out and still alive.
//!
//! Tested below against a model that remembers every byte handed out; runs under Miri.

use crate::Exhausted;
use std::alloc::{self, Layout};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Alignment that every block has anyway.
const BLOCK_ALIGN: usize = 16;

/// Smallest first block that makes sense; less is rounded up.
const BLOCK_BYTES_MIN: usize = 64;

/// A piece of memory from the system.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

/// An arena that hands out uninitialised bytes by moving a pointer. One thread at a time uses it; it may
/// be sent to another.
pub struct Bump {
    cursor: Cell<NonNull<u8>>,
    room: Cell<usize>,
    /// The current block is at `current`, if there is one; all others are spent or large.
    blocks: RefCell<Vec<Block>>,
    current: Cell<Option<usize>>,
    block_bytes_first: usize,
    block_bytes_next: Cell<usize>,
    limit_bytes: usize,
    held_bytes: Cell<usize>,
    handed_bytes: Cell<usize>,
}

// SAFETY: [B2] the blocks belong to this value and to no thread, and `&Bump` cannot cross threads
// because of the cells.
unsafe impl Send for Bump {}

impl Bump {
    /// An arena whose first block will have `block_bytes_first` bytes (at least 64). Allocates nothing yet.
    pub fn new(block_bytes_first: usize) -> Bump {
        Bump::with_limit(block_bytes_first, usize::MAX)
    }

    /// As [`Bump::new`], and never holds more than `limit_bytes` of blocks.
    pub fn with_limit(block_bytes_first: usize, limit_bytes: usize) -> Bump {
        let block_bytes_first = block_bytes_first.max(BLOCK_BYTES_MIN);
        Bump {
            cursor: Cell::new(NonNull::dangling()),
            room: Cell::new(0),
            blocks: RefCell::new(Vec::new()),
            current: Cell::new(None),
            block_bytes_first,
            block_bytes_next: Cell::new(block_bytes_first),
            limit_bytes,
            held_bytes: Cell::new(0),
            handed_bytes: Cell::new(0),
        }
    }

    /// Memory for `layout`, not zeroed, for as long as the arena is borrowed.
    ///
    /// Ends the process as `Vec` does when memory is short; use [`Bump::try_alloc`] for sizes from outside.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> &mut [MaybeUninit<u8>] {
        self.try_alloc(layout).unwrap_or_else(|_| alloc::handle_alloc_error(layout))
    }

    /// As [`Bump::alloc`], for any size.
    ///
    /// # Errors
    /// [`Exhausted`] when the system has no such memory or the limit would be passed. The arena goes on.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "each call hands out other bytes [B3]")]
    pub fn try_alloc(&self, layout: Layout) -> Result<&mut [MaybeUninit<u8>], Exhausted> {
        let start = match self.take(layout) {
            Some(start) => start,
            None => self.take_grown(layout)?,
        };
        self.handed_bytes.set(self.handed_bytes.get() + layout.size());
        // SAFETY: `start` has layout.size() bytes that nobody else was given [B3], valid while the arena
        // is borrowed [B2]; MaybeUninit needs no initialisation.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.as_ptr().cast(), layout.size()) })
    }

    /// A copy of `bytes` in the arena, unaligned. Ends the process as [`Bump::alloc`] does.
    #[inline]
    pub fn alloc_slice_copy(&self, bytes: &[u8]) -> &mut [u8] {
        self.alloc(Layout::for_value(bytes)).write_copy_of_slice(bytes)
    }

    /// As [`Bump::alloc_slice_copy`], for any size.
    ///
    /// # Errors
    /// As [`Bump::try_alloc`].
    #[inline]
    pub fn try_alloc_slice_copy(&self, bytes: &[u8]) -> Result<&mut [u8], Exhausted> {
        Ok(self.try_alloc(Layout::for_value(bytes))?.write_copy_of_slice(bytes))
    }

    /// Gives all memory back to the system and forgets the growth.
    pub fn clear(&mut self) {
        self.free_blocks_except(None);
        self.block_bytes_next.set(self.block_bytes_first);
    }

    /// Forgets all that was handed out, keeping the current block and the grown size for what comes next.
    #[inline]
    pub fn reset(&mut self) {
        // A loop that has settled on one block: there is nothing to free, and it is not looked at.
        if let ([block], Some(_)) = (&self.blocks.get_mut()[..], self.current.get()) {
            self.cursor.set(block.start);
            self.room.set(block.layout.size());
            self.handed_bytes.set(0);
            return;
        }
        self.free_blocks_except(self.current.get());
    }

    /// Bytes of all blocks, used or not.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    /// Bytes handed out since the last [`Bump::reset`] or [`Bump::clear`], without padding.
    pub fn handed_bytes(&self) -> usize {
        self.handed_bytes.get()
    }

    /// Takes from the current block, if there is room for the bytes and their padding.
    #[inline]
    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let cursor = self.cursor.get();
        let padding = cursor.addr().get().wrapping_neg() & (layout.align() - 1);
        let taken = padding.checked_add(layout.size())?;
        let room = self.room.get().checked_sub(taken)?;
        // SAFETY: padding <= taken <= room, so it stays inside the current block or at its end [B1]; an
        // arena without a block has room 0, so the offset is 0.
        let start = unsafe { cursor.add(padding) };
        // SAFETY: as above, for all of `taken`.
        let after = unsafe { cursor.add(taken) };
        self.cursor.set(after);
        self.room.set(room);
        Some(start)
    }

    /// Gets a block first: one of its own for a large request, else a new current one.
    #[cold]
    fn take_grown(&self, layout: Layout) -> Result<NonNull<u8>, Exhausted> {
        let next_bytes = self.block_bytes_next.get();
        // A fresh block is aligned to BLOCK_ALIGN, so more alignment may cost padding.
        let needed = layout.size().saturating_add(layout.align().saturating_sub(BLOCK_ALIGN));
        #[cfg(feature = "measure")]
        let next_bytes = if crate::measure::asks_for_each_piece() { 0 } else { next_bytes };
        if needed >= next_bytes {
            let align = layout.align().max(BLOCK_ALIGN);
            return self.add_block(layout.size().max(1), align);
        }
        let start = self.add_block(next_bytes, BLOCK_ALIGN)?;
        self.current.set(Some(self.blocks.borrow().len() - 1));
        self.cursor.set(start);
        self.room.set(next_bytes);
        self.block_bytes_next.set(next_bytes.saturating_add(next_bytes / 2));
        // needed < next_bytes, so it fits.
        Ok(self.take(layout).expect("a fresh block has room for a request smaller than it"))
    }

    /// A block from the system, remembered for freeing.
    fn add_block(&self, bytes: usize, align: usize) -> Result<NonNull<u8>, Exhausted> {
        let held_bytes = self.held_bytes.get();
        let exhausted = Exhausted { asked_bytes: bytes, held_bytes, limit_bytes: self.limit_bytes };
        let held_after = held_bytes
            .checked_add(bytes)
            .filter(|&held| held <= self.limit_bytes)
            .ok_or(exhausted)?;
        let layout = Layout::from_size_align(bytes, align).map_err(|_| exhausted)?;
        // SAFETY: both callers ask for at least one byte.
        let start = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or(exhausted)?;
        self.blocks.borrow_mut().push(Block { start, layout });
        self.held_bytes.set(held_after);
        Ok(start)
    }

    /// Frees all blocks but one, which becomes the current, empty one.
    #[inline(never)]
    fn free_blocks_except(&mut self, kept: Option<usize>) {
        let blocks = self.blocks.get_mut();
        let kept = kept.map(|index| blocks.swap_remove(index));
        for block in blocks.drain(..) {
            // SAFETY: [B2] allocated with this layout, no longer remembered, and nothing points into it.
            unsafe { alloc::dealloc(block.start.as_ptr(), block.layout) };
        }
        let (cursor, room) = match &kept {
            Some(block) => (block.start, block.layout.size()),
            None => (NonNull::dangling(), 0),
        };
        self.cursor.set(cursor);
        self.room.set(room);
        self.held_bytes.set(room);
        self.handed_bytes.set(0);
        self.current.set(kept.as_ref().map(|_| 0));
        blocks.extend(kept);
    }
}

impl Drop for Bump {
    fn drop(&mut self) {
        self.free_blocks_except(None);
    }
}

impl fmt::Debug for Bump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bump")
            .field("held_bytes", &self.held_bytes.get())
            .field("handed_bytes", &self.handed_bytes.get())
            .field("room_bytes", &self.room.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("small layout")
    }

    #[test]
    fn a_large_request_leaves_the_current_block_usable() {
        let bump = Bump::new(1024);
        let first = bump.alloc(layout(16, 1)).as_ptr().addr();
        let large = bump.alloc(layout(1 << 14, 1));
        large.fill(MaybeUninit::new(1));
        let second = bump.alloc(layout(16, 1)).as_ptr().addr();
        assert_eq!(second, first + 16);
        assert_eq!(bump.held_bytes(), 1024 + (1 << 14));
        assert_eq!(bump.handed_bytes(), 32 + (1 << 14));
    }

    #[test]
    fn blocks_grow_by_half() {
        let bump = Bump::new(1000);
        let mut held = Vec::new();
        for _ in 0..40 {
            bump.alloc(layout(200, 1));
            if held.last() != Some(&bump.held_bytes()) {
                held.push(bump.held_bytes());
            }
        }
        assert_eq!(held, [1000, 2500, 4750, 8125, 13187]);
    }

    #[test]
    fn a_loop_of_resets_settles_on_one_block() {
        let mut bump = Bump::new(64);
        for _ in 0..24 {
            for _ in 0..100 {
                bump.alloc_slice_copy(&[7; 50]);
            }
            bump.reset();
            assert_eq!(bump.handed_bytes(), 0);
        }
        let held = bump.held_bytes();
        for _ in 0..100 {
            bump.alloc_slice_copy(&[7; 50]);
        }
        assert_eq!(bump.held_bytes(), held);
        bump.clear();
        assert_eq!(bump.held_bytes(), 0);
        assert_eq!(bump.alloc_slice_copy(b"again"), b"again");
    }

    #[test]
    fn a_reset_hands_the_kept_block_out_from_its_start_whether_others_were_freed_or_not() {
        let mut bump = Bump::new(1024);
        let first = bump.alloc(layout(16, 1)).as_ptr().addr();
        for large in [0, 1 << 14, 0] {
            bump.alloc(layout(large, 1));
            bump.alloc(layout(100, 1));
            bump.reset();
            assert_eq!((bump.held_bytes(), bump.handed_bytes()), (1024, 0));
            assert_eq!(bump.alloc(layout(1024, 1)).as_ptr().addr(), first);
            bump.reset();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri stops where memory ends")]
    fn absurd_sizes_are_refused_and_the_arena_goes_on() {
        let bump = Bump::with_limit(128, 1000);
        let huge = layout(isize::MAX as usize - 64, 16);
        assert!(bump.try_alloc(huge).is_err());
        let refused = bump.try_alloc(layout(2000, 1)).expect_err("over the limit");
        assert_eq!(refused, Exhausted { asked_bytes: 2000, held_bytes: 0, limit_bytes: 1000 });
        assert_eq!(bump.try_alloc_slice_copy(b"small").expect("fits"), b"small");
        let unlimited = Bump::new(128);
        assert!(unlimited.try_alloc(huge).is_err());
        assert_eq!(unlimited.alloc_slice_copy(b"small"), b"small");
    }

    #[test]
    fn empty_requests_are_aligned_and_cost_nothing() {
        let bump = Bump::new(64);
        for align in [1, 8, 64, 4096] {
            let empty = bump.alloc(layout(0, align));
            assert_eq!((empty.len(), empty.as_ptr().addr() % align), (0, 0));
        }
        assert!(bump.alloc_slice_copy(&[]).is_empty());
        assert_eq!(bump.handed_bytes(), 0);
    }

    #[test]
    fn an_arena_can_move_to_another_thread() {
        let mut bump = Bump::new(64);
        bump.alloc_slice_copy(b"here");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                bump.reset();
                assert_eq!(bump.alloc_slice_copy(b"there"), b"there");
            });
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 64 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Every piece keeps the pattern written to it, which no overlap would leave standing.
        #[test]
        fn pieces_are_aligned_and_never_overlap(
            first in 0usize..5000,
            rounds in prop::collection::vec(
                prop::collection::vec((0usize..1500, 0u32..9), 1..60),
                1..4,
            ),
        ) {
            let mut bump = Bump::new(first);
            for round in rounds {
                let mut pieces: Vec<&mut [u8]> = Vec::new();
                let mut handed = 0;
                for (number, &(size, align_log2)) in round.iter().enumerate() {
                    let piece = bump.alloc(layout(size, 1 << align_log2));
                    prop_assert_eq!(piece.len(), size);
                    prop_assert_eq!(piece.as_ptr().addr() % (1 << align_log2), 0);
                    pieces.push(piece.write_copy_of_slice(&vec![number as u8; size]));
                    handed += size;
                }
                for (number, piece) in pieces.iter().enumerate() {
                    prop_assert!(piece.iter().all(|&byte| byte == number as u8));
                }
                prop_assert_eq!(bump.handed_bytes(), handed);
                prop_assert!(bump.held_bytes() >= handed);
                bump.reset();
            }
        }
    }
}
