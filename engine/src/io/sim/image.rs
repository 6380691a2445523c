//! [`Image`]: the bytes of a simulated file, cheap to copy.
//!
//! ```text
//!   chunks: [ Arc ][ none ][ Arc ] ...        1 MiB each, none = zeros
//!              |
//!              +-> [ Arc page ][ none ] ...   4 KiB each, shared between images until written
//! ```
//!
//! A copy costs one counter per MiB of file, so a test can keep thousands of states. Sparse: a write at 4 GiB
//! takes a few pages.
//!
//! Invariant \[I1\]: no byte at or past `len_bytes` is other than zero, so growing shows zeros.

use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
const CHUNK_PAGES: usize = 256;
const CHUNK_BYTES: u64 = (PAGE_BYTES * CHUNK_PAGES) as u64;

type Page = [u8; PAGE_BYTES];
type Chunk = [Option<Arc<Page>>; CHUNK_PAGES];

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    chunks: Vec<Option<Arc<Chunk>>>,
    len_bytes: u64,
}

impl Image {
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Fills `buf` from `offset`; what lies past the end reads as zeros.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        for_pages(offset, buf.len(), |chunk, page, start, range| {
            let page = self.chunks.get(chunk).and_then(|chunk| chunk.as_ref()?[page].as_ref());
            let target = &mut buf[range];
            match page {
                Some(page) => target.copy_from_slice(&page[start..start + target.len()]),
                None => target.fill(0),
            }
        });
    }

    /// Stores bytes, and lengthens the file to hold them.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.len_bytes = self.len_bytes.max(offset + bytes.len() as u64);
        let count = self.len_bytes.div_ceil(CHUNK_BYTES) as usize;
        if self.chunks.len() < count {
            self.chunks.resize(count, None);
        }
        for_pages(offset, bytes.len(), |chunk, page, start, range| {
            let source = &bytes[range];
            let chunk =
                self.chunks[chunk].get_or_insert_with(|| Arc::new([const { None }; CHUNK_PAGES]));
            let page = &mut Arc::make_mut(chunk)[page];
            let page = page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[start..start + source.len()].copy_from_slice(source);
        });
    }

    /// Makes all bytes from `from` to the end zero, the length unchanged.
    pub(super) fn zero_tail(&mut self, from: u64) {
        let len_bytes = self.len_bytes;
        self.set_len(from.min(len_bytes));
        self.set_len(len_bytes);
    }

    /// Cuts or lengthens the file.
    pub(super) fn set_len(&mut self, len_bytes: u64) {
        if len_bytes < self.len_bytes {
            let whole_pages = len_bytes.next_multiple_of(PAGE_BYTES as u64);
            let tail = vec![0; (whole_pages.min(self.len_bytes) - len_bytes) as usize];
            self.write(len_bytes, &tail);
            let first = (whole_pages / PAGE_BYTES as u64 % CHUNK_PAGES as u64) as usize;
            let chunk = (whole_pages / CHUNK_BYTES) as usize;
            self.chunks.truncate(if first == 0 { chunk } else { chunk + 1 });
            if first != 0
                && let Some(Some(last)) = self.chunks.get_mut(chunk)
            {
                Arc::make_mut(last)[first..].fill(None);
            }
        }
        self.len_bytes = len_bytes;
    }
}

/// Calls `visit(chunk, page in chunk, start in page, range of the buffer)` for each page that a range
/// touches.
fn for_pages(
    offset: u64,
    len: usize,
    mut visit: impl FnMut(usize, usize, usize, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let step = (PAGE_BYTES - start).min(len - done);
        let page = (at % CHUNK_BYTES) as usize / PAGE_BYTES;
        visit((at / CHUNK_BYTES) as usize, page, start, done..done + step);
        done += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &Image, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0xee; len];
        image.read(offset, &mut buf);
        buf
    }

    #[test]
    fn copies_do_not_see_later_writes() {
        let mut image = Image::default();
        image.write(4090, b"across a page");
        let copy = image.clone();
        image.write(4090, b"ACROSS");
        assert_eq!(bytes(&copy, 4090, 13), b"across a page");
        assert_eq!(bytes(&image, 4090, 13), b"ACROSS a page");
    }

    #[test]
    fn what_was_cut_off_is_zero_when_the_file_grows_again() {
        for cut in [0, 1, 4095, 4096, 5000, 8192, CHUNK_BYTES, CHUNK_BYTES + 4096 + 7] {
            let mut image = Image::default();
            image.write(0, &vec![7; 2 * CHUNK_BYTES as usize + 100]);
            image.set_len(cut);
            image.set_len(2 * CHUNK_BYTES);
            let all = bytes(&image, 0, 2 * CHUNK_BYTES as usize);
            assert!(all[..cut as usize].iter().all(|&byte| byte == 7), "before {cut}");
            assert!(all[cut as usize..].iter().all(|&byte| byte == 0), "after {cut}");
        }
    }

    #[test]
    fn far_offsets_take_little() {
        let mut image = Image::default();
        image.write(5 << 30, b"far");
        assert_eq!(image.len_bytes(), (5 << 30) + 3);
        assert_eq!(bytes(&image, (5 << 30) - 1, 4), b"\0far");
        assert_eq!(image.chunks.iter().flatten().count(), 1);
        image.zero_tail((5 << 30) + 1);
        assert_eq!(bytes(&image, (5 << 30) - 1, 5), b"\0f\0\0\0");
    }
}
