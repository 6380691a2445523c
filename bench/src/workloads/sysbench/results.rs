//! Rows on their way to a client: a column is copied into a piece of memory of its own and hashed on the way.
//!
//! ```text
//! SELECT c ..     [ length : 1 ][ c without the spaces behind it ]     a piece for each row, given back with the result
//! ```
//!
//! The pieces come from a [`Memory`]: the global allocator, the same with its promise hidden, or the arena.
//!
//! # The promise
//!
//! The compiler knows that what the global allocator returns is reached by no other pointer, and may keep what lies
//! behind others in registers while a new piece is filled. [`Global`] without the promise makes the same call and passes
//! the pointer through an empty `asm!`, which costs no instruction and of which the compiler knows nothing.
//!
//! So that there is something to keep in registers, the state of the hash lies behind a shared reference, and the text is
//! copied byte by byte, as in the code that the reported figure is about; `memcpy` would need no promise.
//!
//! A piece is filled in one of two ways. [`Filled::ByPointer`] is as in C: only the allocator's promise is there.
//! [`Filled::ByReference`] is as in Rust: the piece is an argument `&mut [..]`, whose type carries the same promise,
//! wherever the memory came from. The arena, of whose memory the compiler knows nothing, is filled so.
//!
//! # Invariants
//!
//! - \[R1\] A [`Memory`] hands out as many bytes as were asked for, which nobody else has until they are given back.
//! - \[R2\] `pieces` holds what the memory has handed out since the last reset, each written whole; the lengths are
//!   those with which it was asked for, and above 0.
//!
//! Tested below; with them, `event` is tested with each memory.

use latchkv_alloc::Bump;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Where pieces come from.
///
/// # Safety
/// \[R1\].
pub(crate) unsafe trait Memory: Default {
    /// How pieces are filled.
    const FILLED: Filled;

    /// `bytes` bytes, more than 0, not initialised.
    fn take(&self, bytes: usize) -> NonNull<u8>;

    /// Takes everything back that it handed out.
    ///
    /// # Safety
    /// `pieces` are all those that `take` gave since the last call, with their lengths, and nobody uses them later.
    unsafe fn give_back(&mut self, pieces: &[(NonNull<u8>, usize)]);
}

/// How a piece is filled: see the module head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filled {
    ByPointer,
    ByReference,
}

/// The global allocator.
#[derive(Default, Debug)]
pub(crate) struct Global<const PROMISE: bool, const BY_REFERENCE: bool>;

/// Known to the compiler, filled by pointer.
pub(crate) type Known = Global<true, false>;
/// Hidden from the compiler, filled by pointer.
pub(crate) type Hidden = Global<false, false>;
/// Hidden from the compiler, filled by reference.
pub(crate) type Referenced = Global<false, true>;

fn layout(bytes: usize) -> Layout {
    Layout::array::<u8>(bytes).expect("pieces are no longer than a column")
}

// SAFETY: [R1], by the contract of the global allocator.
unsafe impl<const PROMISE: bool, const BY_REFERENCE: bool> Memory
    for Global<PROMISE, BY_REFERENCE>
{
    const FILLED: Filled = if BY_REFERENCE { Filled::ByReference } else { Filled::ByPointer };

    #[inline(always)]
    #[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read through it there")]
    fn take(&self, bytes: usize) -> NonNull<u8> {
        let layout = layout(bytes);
        // SAFETY: [R2], the length is above 0.
        let mut piece = unsafe { alloc(layout) };
        if !PROMISE {
            // SAFETY: [R1], there is no instruction, so `piece` stays what it is.
            unsafe {
                std::arch::asm!("/* {0} */", inout(reg) piece,
                    options(pure, nomem, nostack, preserves_flags));
            }
        }
        NonNull::new(piece).unwrap_or_else(|| handle_alloc_error(layout))
    }

    #[inline(always)]
    unsafe fn give_back(&mut self, pieces: &[(NonNull<u8>, usize)]) {
        for &(piece, bytes) in pieces {
            // SAFETY: [R2], `take` gave it for this length, and the caller uses it no more.
            unsafe { dealloc(piece.as_ptr(), layout(bytes)) };
        }
    }
}

/// The arena of the engine.
#[derive(Debug)]
pub(crate) struct Arena(Bump);

/// First block of the arena, in bytes: as that of a write set.
const BLOCK_BYTES_FIRST: usize = 4 << 10;

impl Default for Arena {
    fn default() -> Arena {
        Arena(Bump::new(BLOCK_BYTES_FIRST))
    }
}

// SAFETY: [R1], as `Bump` hands out no byte twice before it is reset.
unsafe impl Memory for Arena {
    const FILLED: Filled = Filled::ByReference;

    #[inline(always)]
    fn take(&self, bytes: usize) -> NonNull<u8> {
        NonNull::from(self.0.alloc(layout(bytes))).cast()
    }

    #[inline(always)]
    unsafe fn give_back(&mut self, _: &[(NonNull<u8>, usize)]) {
        self.0.reset();
    }
}

/// What was sent in all. Shared, as the counters of a server's connection are.
#[derive(Default, Debug)]
struct Sent {
    bytes: Cell<u64>,
    hash: Cell<u64>,
}

/// The rows of one statement at a time.
#[derive(Default, Debug)]
pub(crate) struct Results<M: Memory> {
    memory: M,
    /// \[R2\].
    pieces: Vec<(NonNull<u8>, usize)>,
    sent: Sent,
}

impl<M: Memory> Results<M> {
    /// Adds a row of one CHAR column, of up to 255 bytes.
    #[inline]
    pub(super) fn add(&mut self, column: &[u8]) {
        let spaces = column.iter().rev().take_while(|&&byte| byte == b' ').count();
        let text = &column[..column.len() - spaces];
        let piece = self.memory.take(1 + text.len());
        match M::FILLED {
            // SAFETY: [R1], the piece has 1 + text.len() bytes.
            Filled::ByPointer => unsafe { self.sent.fill_pointer(text, piece) },
            Filled::ByReference => {
                let piece = NonNull::slice_from_raw_parts(piece.cast(), 1 + text.len());
                // SAFETY: [R1], as above, and nobody else has them.
                self.sent.fill_reference(text, unsafe { &mut *piece.as_ptr() });
            }
        }
        self.pieces.push((piece, 1 + text.len()));
    }

    /// The rows.
    fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|&(piece, bytes)| {
            // SAFETY: [R2], written whole and not given back while the result is borrowed.
            unsafe { std::slice::from_raw_parts(piece.as_ptr(), bytes) }
        })
    }

    /// Sorts the rows, and gives their number without those that equal another, if so asked.
    pub(super) fn sort(&mut self, distinct: bool) -> u64 {
        let row = |&(piece, bytes): &(NonNull<u8>, usize)| {
            // SAFETY: [R2], as above; the slice does not leave the comparison.
            unsafe { std::slice::from_raw_parts(piece.as_ptr(), bytes) }
        };
        self.pieces.sort_unstable_by(|a, b| row(a).cmp(row(b)));
        if !distinct {
            return self.pieces.len() as u64;
        }
        let mut last = None;
        self.rows().filter(|&row| last.replace(row) != Some(row)).count() as u64
    }

    /// Ends the statement: gives the memory back, and the number of rows.
    #[inline]
    pub(super) fn end(&mut self) -> u64 {
        // SAFETY: [R2], and they are forgotten here.
        unsafe { self.memory.give_back(&self.pieces) };
        let rows = self.pieces.len() as u64;
        self.pieces.clear();
        rows
    }

    /// A sum over everything that was sent.
    pub(crate) fn sum(&self) -> u64 {
        self.sent.hash.get() ^ self.sent.bytes.get()
    }
}

impl<M: Memory> Drop for Results<M> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Both write the length of `text`, up to 255, and `text`, and take it into what was sent: behind the shared reference,
/// byte by byte, as the module head says.
impl Sent {
    /// # Safety
    /// `to` has room for 1 + text.len() bytes, which nobody else has.
    #[inline(always)]
    unsafe fn fill_pointer(&self, text: &[u8], to: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { to.write(text.len() as u8) };
        for (at, &byte) in text.iter().enumerate() {
            // SAFETY: the caller's promise: 1 + at is at most text.len().
            let place = unsafe { to.add(1 + at) };
            // SAFETY: as above.
            unsafe { place.write(byte) };
            self.count(byte);
        }
    }

    /// `to` has 1 + text.len() bytes.
    #[inline]
    fn fill_reference(&self, text: &[u8], to: &mut [MaybeUninit<u8>]) {
        if let [length, places @ ..] = to {
            length.write(text.len() as u8);
            for (place, &byte) in places.iter_mut().zip(text) {
                place.write(byte);
                self.count(byte);
            }
        }
    }

    #[inline(always)]
    fn count(&self, byte: u8) {
        self.hash.set((self.hash.get() ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        self.bytes.set(self.bytes.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_are_trimmed_sorted_and_given_back<M: Memory>() -> u64 {
        let mut results = Results::<M>::default();
        for _ in 0..3 {
            for column in ["b  ", "a ", "b", "", "c"] {
                results.add(column.as_bytes());
            }
            assert_eq!(results.sort(true), 4);
            assert_eq!(results.sort(false), 5);
            let rows: Vec<&[u8]> = results.rows().collect();
            assert_eq!(rows, [b"\0".as_slice(), b"\x01a", b"\x01b", b"\x01b", b"\x01c"]);
            assert_eq!(results.end(), 5);
            assert_eq!(results.end(), 0);
        }
        results.add(b"not ended");
        results.sum()
    }

    #[test]
    fn every_memory_gives_the_same_rows_and_the_same_sum() {
        let sum = rows_are_trimmed_sorted_and_given_back::<Arena>();
        assert_eq!(rows_are_trimmed_sorted_and_given_back::<Known>(), sum);
        assert_eq!(rows_are_trimmed_sorted_and_given_back::<Hidden>(), sum);
        assert_eq!(rows_are_trimmed_sorted_and_given_back::<Referenced>(), sum);
    }
}
