//! Byte strings kept in words: compare, copy out, copy in.
//!
//! Byte `i` of a string is byte `i % 8`, counted from the low end, of word `i / 8`. On a little-endian
//! machine that is the memory order. Each routine is checked against a naive one in `tests.rs`.
//!
//! * [Y1] A slice of `u64` is initialised memory of 8 bytes an element, and any of it is a valid, aligned
//!   `u8`.

use super::Page;
use std::cmp::Ordering;

/// Words that `bytes` bytes take.
#[inline(always)]
pub(crate) const fn words_for(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Length of the longest common prefix.
pub(crate) fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The bytes of `words`, whose values are in the machine's own order after `to_le`.
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: [Y1]; the borrow is carried over.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), words.len() * 8) }
}

/// Up to 8 bytes as a big-endian number, padded with zeros.
#[inline(always)]
fn be_chunk(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(chunk)
        }
    }
}

/// The four bytes of `key` behind `prefix` bytes, big-endian, padded with zeros.
#[inline(always)]
pub(super) fn head_of(key: &[u8], prefix: usize) -> u32 {
    let rest = key.get(prefix..).unwrap_or(&[]);
    match rest.first_chunk::<4>() {
        Some(chunk) => u32::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 4];
            chunk[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(chunk)
        }
    }
}

impl Page<'_> {
    /// Compares `stored_len` bytes that start at word `at` with `probe`.
    #[inline(always)]
    pub(super) fn cmp_bytes(self, at: usize, stored_len: usize, probe: &[u8]) -> Ordering {
        let common = stored_len.min(probe.len());
        let mut done = 0;
        while done + 8 <= common {
            let stored = self.load(at + done / 8).swap_bytes();
            let other = be_chunk(&probe[done..]);
            if stored != other {
                return stored.cmp(&other);
            }
            done += 8;
        }
        let rest = common - done;
        if rest > 0 {
            let keep = u64::MAX << (64 - 8 * rest);
            let stored = self.load(at + done / 8).swap_bytes() & keep;
            let other = be_chunk(&probe[done..]) & keep;
            if stored != other {
                return stored.cmp(&other);
            }
        }
        stored_len.cmp(&probe.len())
    }

    /// Appends `len` bytes that start `skip` bytes behind word `at`.
    #[inline]
    pub(super) fn append_bytes(self, at: usize, skip: usize, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let first = at + skip / 8;
        let skip = skip % 8;
        // Whole words go in, skipped bytes first; the surplus comes off both ends.
        let words = words_for(skip + len);
        out.resize(start + words * 8, 0);
        for (at, chunk) in (first..).zip(out[start..].chunks_exact_mut(8)) {
            chunk.copy_from_slice(&self.load(at).to_le_bytes());
        }
        if skip > 0 {
            out.copy_within(start + skip..start + skip + len, start);
        }
        out.truncate(start + len);
    }

    /// Caller holds X: writes `bytes` from word `at` on, the rest of the last word zero.
    pub(super) fn put_bytes(self, mut at: usize, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.store(at, u64::from_le_bytes(chunk.try_into().expect("chunks of eight")));
            at += 1;
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.store(at, u64::from_le_bytes(last));
        }
    }
}
