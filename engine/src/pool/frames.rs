//! The memory of a pool: frames, their headers and the page hash, in one region that is never unmapped
//! while the pool lives and never moves.
//!
//! ```text
//! region.ptr()                         2 MiB aligned
//! [ frame 0 | frame 1 | ... ][ header 0 | header 1 | ... ][ cells ]
//!   page_bytes each            64 bytes each                64-byte lines
//! ```
//!
//! * [F1] The region is zeroed, is at least `Budget::region_bytes` long, and lives as long as `Frames`;
//!   the three parts do not overlap.
//! * [F2] Frames and headers are only ever reached as atomics through shared references; all bit patterns
//!   are valid for them.
//! * [F3] Frame ids are checked against the number of frames before they become addresses.
//! * [F4] Page sizes are multiples of 4096 and the headers are rounded up to 128, so the cells are aligned to
//!   128.
//!
//! Zero bytes are a free header (latch released at version 0, ident 0, clean) and an empty hash.

use super::budget::Budget;
use crate::error::{Error, Result};
use crate::id::FrameId;
use crate::node::Page;
use latchkv_alloc::{HugePages, Region, RegionOptions};
use latchkv_latch::prefetch::prefetch_line;
use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::{FrameHeader, Latch, Line64};
use std::ptr::NonNull;
use std::sync::Arc;

/// The page hash of the pool: cells of one 64-byte line.
pub(super) type PageHash = latchkv_latch::PageHash<Line64>;

/// Bytes of a line, as far as prefetching goes.
const LINE_BYTES: usize = 64;

const _: () = assert!(size_of::<FrameHeader>() == 64 && align_of::<FrameHeader>() == 64);

/// Frames, headers and page hash.
#[derive(Debug)]
pub(super) struct Frames {
    words: NonNull<AtomicU64>,
    headers: NonNull<FrameHeader>,
    count: usize,
    page_words: usize,
    /// A shift is on every descent's critical path; a multiplication takes three times as long.
    page_words_log2: u32,
    /// Lies in `region`; declared before it, so dropped before it.
    hash: PageHash,
    region: Region,
}

// SAFETY: [F1], [F2]: the pointers name memory that `region` owns and that is only used as atomics.
unsafe impl Send for Frames {}
// SAFETY: [F2]: all shared access is to atomics.
unsafe impl Sync for Frames {}

impl Frames {
    /// Maps the memory.
    ///
    /// # Errors
    /// [`Error::Io`] if the operating system gives none.
    pub(super) fn new(budget: &Budget, prefault: bool) -> Result<Frames> {
        let options = RegionOptions { huge_pages: budget.huge_pages, prefault };
        let region = Region::map(budget.region_bytes(), options).map_err(|source| Error::Io {
            op: "map memory for the cache",
            path: "(memory)".into(),
            source: Arc::new(source),
        })?;
        assert!(region.len() >= budget.region_bytes(), "a region is as long as was asked");
        let base = region.ptr();
        // SAFETY: [F1]: the headers start inside the region.
        let headers = unsafe { base.add(budget.frame_bytes()) };
        // SAFETY: [F1]: the hash starts inside the region.
        let cells = unsafe { headers.add(budget.header_bytes()) };
        // SAFETY: [F1], [F4]: zeroed, aligned, `hash_bytes` long, and it outlives the hash, which is dropped
        // first.
        let hash = unsafe {
            PageHash::with_memory(cells, budget.hash_bytes, budget.frames, budget.placement)
        };
        Ok(Frames {
            words: base.cast(),
            headers: headers.cast(),
            count: budget.frames,
            page_words: budget.page_bytes / 8,
            page_words_log2: (budget.page_bytes / 8).trailing_zeros(),
            hash,
            region,
        })
    }

    /// Number of frames.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Page -> frame.
    #[inline(always)]
    pub(super) fn hash(&self) -> &PageHash {
        &self.hash
    }

    /// All headers.
    #[inline(always)]
    pub(super) fn headers(&self) -> &[FrameHeader] {
        // SAFETY: [F1], [F2]: `count` headers start there, zeroed at first, reached only as atomics.
        unsafe { std::slice::from_raw_parts(self.headers.as_ptr(), self.count) }
    }

    /// The header of a frame.
    #[inline(always)]
    pub(super) fn header(&self, frame: FrameId) -> &FrameHeader {
        &self.headers()[frame.0 as usize]
    }

    /// The latch of a frame.
    #[inline(always)]
    pub(super) fn latch(&self, frame: FrameId) -> &Latch {
        &self.header(frame).latch
    }

    /// The words of a frame.
    #[inline(always)]
    pub(super) fn page(&self, frame: FrameId) -> Page<'_> {
        let frame = frame.0 as usize;
        assert!(frame < self.count, "frame ids that leave the pool are below the number of frames");
        // SAFETY: [F1], [F3]: the frame lies inside the region.
        let first = unsafe { self.words.add(frame << self.page_words_log2) };
        // SAFETY: [F1], [F2], [F3]: a frame is `page_words` aligned words, reached only as atomics.
        Page::new(unsafe { std::slice::from_raw_parts(first.as_ptr(), self.page_words) })
    }

    /// Asks the processor for the header and the first `lines` lines of a frame; `hint` may be any number.
    #[inline(always)]
    pub(super) fn prefetch(&self, hint: FrameId, lines: usize) {
        let frame = hint.0 as usize;
        if frame >= self.count {
            return;
        }
        prefetch_line(self.headers.as_ptr().wrapping_add(frame));
        let page: *const u8 =
            self.words.as_ptr().wrapping_add(frame << self.page_words_log2).cast();
        for line in 0..lines {
            prefetch_line(page.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Kind of pages that the operating system gave.
    pub(super) fn granted(&self) -> HugePages {
        self.region.granted()
    }

    /// Bytes that really lie in huge pages, as far as the operating system tells.
    pub(super) fn huge_bytes(&self) -> Option<u64> {
        self.region.huge_bytes().ok()
    }
}
