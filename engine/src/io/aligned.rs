//! [`AlignedBuf`]: owned memory that any backend can transfer to and from.
//!
//! ```text
//!   address % 4096 == 0                                  len_bytes % 8 == 0
//!   |<------------------- len_bytes ------------------->|<- slack ->|
//!   [ block 0      ][ block 1      ] ...                [ block n-1 ]
//! ```
//!
//! Not a growable vector: the length is fixed when it is made. The memory is zeroed once, then only ever
//! holds what was written to it, so it can be read as bytes and as words alike.
//!
//! # Invariants
//!
//! - \[A1\] `blocks` holds at least `len_bytes` bytes, contiguous, initialised, at an address that is a
//!   multiple of [`BLOCK_BYTES`].
//! - \[A2\] `len_bytes` is a multiple of 8, so the words cover exactly the bytes.
//!
//! Tested below.

use crate::id::BLOCK_BYTES;
use std::collections::TryReserveError;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// One aligned block of plain bytes.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

const _: () = assert!(size_of::<Block>() == BLOCK_BYTES && align_of::<Block>() == BLOCK_BYTES);

/// A buffer at an address that is a multiple of [`BLOCK_BYTES`], with a length that is a multiple of 8. Reads
/// as bytes (by `Deref`) and as words.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    blocks: Vec<Block>,
    len_bytes: usize,
}

impl AlignedBuf {
    /// A zeroed buffer of `bytes` bytes, rounded up to a multiple of 8.
    ///
    /// Aborts when memory is short, as `Vec` does; use [`AlignedBuf::try_new`] for sizes that come from
    /// outside.
    pub fn new(bytes: usize) -> AlignedBuf {
        let blocks = vec![Block([0; BLOCK_BYTES]); bytes.div_ceil(BLOCK_BYTES)];
        AlignedBuf { blocks, len_bytes: bytes.next_multiple_of(8) }
    }

    /// As [`AlignedBuf::new`], for sizes that come from outside.
    ///
    /// # Errors
    /// When there is not that much memory, or no address space could hold it.
    pub fn try_new(bytes: usize) -> Result<AlignedBuf, TryReserveError> {
        let count = bytes.div_ceil(BLOCK_BYTES);
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count)?;
        blocks.resize(count, Block([0; BLOCK_BYTES]));
        // No overflow: a size that could be reserved is below `isize::MAX`.
        Ok(AlignedBuf { blocks, len_bytes: bytes.next_multiple_of(8) })
    }

    /// The buffer as words in native byte order.
    pub fn as_words(&self) -> &[u64] {
        // SAFETY: [A1] gives initialised memory aligned for u64; [A2] makes the length exact; the shared
        // borrow of self keeps it from being written.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.len_bytes / 8) }
    }

    /// The buffer as words in native byte order, to write.
    pub fn as_words_mut(&mut self) -> &mut [u64] {
        // SAFETY: [A1], [A2] as in `as_words`; the unique borrow of self is the only way to the memory.
        unsafe {
            std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), self.len_bytes / 8)
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: [A1] gives `len_bytes` initialised bytes; the shared borrow of self keeps them from being
        // written.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: [A1] gives `len_bytes` initialised bytes; the unique borrow of self is the only way to
        // them.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast(), self.len_bytes) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_every_size_are_aligned_and_zeroed() {
        for bytes in [0, 1, 7, 8, 9, 4095, 4096, 4097, 65536] {
            let buf = AlignedBuf::new(bytes);
            assert_eq!(buf.as_ptr() as usize % BLOCK_BYTES, 0);
            assert_eq!(buf.len(), bytes.next_multiple_of(8));
            assert_eq!(buf.as_words().len() * 8, buf.len());
            assert!(buf.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let mut buf = AlignedBuf::new(24);
        buf.as_words_mut()[1] = u64::from_ne_bytes(*b"latchkv!");
        assert_eq!(&buf[8..16], b"latchkv!");
        buf[16..24].copy_from_slice(&7u64.to_ne_bytes());
        assert_eq!(buf.as_words()[2], 7);
        assert_eq!(buf.clone()[8..16], buf[8..16]);
    }

    #[test]
    fn absurd_sizes_are_an_error() {
        assert!(AlignedBuf::try_new(usize::MAX).is_err());
        assert!(AlignedBuf::try_new(isize::MAX as usize).is_err());
        assert_eq!(AlignedBuf::try_new(10).map(|buf| buf.len()), Ok(16));
    }
}
