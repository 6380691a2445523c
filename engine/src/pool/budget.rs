//! How `cache_bytes` is divided. The budget is hard: everything of a pool that grows with it is counted
//! here, and what does not grow (a few hundred bytes of locks and counters) is covered by `FIXED_BYTES`.
//!
//! ```text
//! one region   [ frames ][ headers, 64 B each ][ page hash ]     asks for huge pages
//! on the heap  free list | order of a checkpoint | counters
//! buffers      batches of the evictors and of the checkpoint, side images, read buffers
//! ```
//!
//! * [B1] `bytes_total` grows with the number of frames, so the greatest number that fits is found by
//!   bisection.
//! * [B2] A pool has at least [`FRAMES_MIN`] frames; the locking arguments of `evict` and `reserve` stand on
//!   it.

use super::PageHashLatches;
use super::frames::PageHash;
use crate::id::FrameId;
use latchkv_latch::LatchPlacement;

/// Fewest frames of a pool, [B2].
pub(crate) const FRAMES_MIN: usize = 16;
/// Most images in one batch of writes.
pub(super) const BATCH_IMAGES_MAX: usize = 64;
/// Most pages that are read from disk at the same time.
const READ_BUFFERS_MAX: usize = 64;
/// Threads whose counters of page-hash hits are made with the pool. Those of more threads grow with the threads,
/// as all that is kept for each, and not with the pool.
const THREAD_COUNTERS: usize = 32;
/// Bytes of one such counter.
pub(super) const THREAD_COUNTER_BYTES: usize = 128;
/// Locks, counters and vectors that do not grow with the pool.
const FIXED_BYTES: usize = 4 << 10;
/// A region is rounded up to this at least: no operating system page is greater.
const REGION_STEP_BYTES: usize = 64 << 10;
/// Size of a huge page.
const HUGE_BYTES: usize = 2 << 20;
/// Bytes of a frame header.
const HEADER_BYTES: usize = size_of::<latchkv_latch::FrameHeader>();
/// Bytes of a latch that lies outside its cells.
const OUTSIDE_LATCH_BYTES: usize = 128;
/// Bytes of a slot of the free list: a stamp and a frame id.
const FREE_SLOT_BYTES: usize = 16;
/// Bytes of an entry of the order in which a checkpoint writes.
const ORDER_ENTRY_BYTES: usize = 16;
/// Bytes that an image costs beside its buffer while it is written: what was taken, image, placement.
const IMAGE_EXTRA_BYTES: usize = 160;

/// Bytes of the latches that the page hash keeps outside its cells.
pub(super) fn outside_bytes(latches: PageHashLatches) -> usize {
    match latches {
        PageHashLatches::PerCell => 0,
        PageHashLatches::Outside { count } => count.saturating_mul(OUTSIDE_LATCH_BYTES),
    }
}

/// The parts of a pool, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) page_bytes: usize,
    pub(super) frames: usize,
    pub(super) placement: LatchPlacement,
    pub(super) hash_bytes: usize,
    /// Bytes of latches that the hash keeps in memory of its own.
    pub(super) outside_bytes: usize,
    /// Ask for huge pages; only for a region that fills one.
    pub(super) huge_pages: bool,
    /// Images of one batch of writes.
    pub(super) batch_images: usize,
    /// Batches that evictors can fill at the same time; the checkpoint has one more.
    pub(super) evict_batches: usize,
    /// Images put aside for the checkpoint.
    pub(super) side_images: usize,
    /// Pages that can be read from disk at the same time.
    pub(super) read_buffers: usize,
    /// Frames that a checkpoint sorts at a time.
    pub(super) order_entries: usize,
}

impl Budget {
    /// The parts of a pool of `frames` frames.
    pub(super) fn of_frames(
        frames: usize,
        page_bytes: usize,
        latches: PageHashLatches,
        huge_pages: bool,
    ) -> Budget {
        let placement = match latches {
            PageHashLatches::PerCell => LatchPlacement::PerCell,
            PageHashLatches::Outside { count } => LatchPlacement::Outside { count },
        };
        let mut budget = Budget {
            page_bytes,
            frames,
            placement,
            hash_bytes: PageHash::bytes_needed(frames),
            outside_bytes: outside_bytes(latches),
            huge_pages: false,
            batch_images: (frames / 8).clamp(2, BATCH_IMAGES_MAX),
            evict_batches: if frames < 1024 { 1 } else { 2 },
            side_images: (frames / 8).clamp(2, 64),
            read_buffers: (frames / 16).clamp(2, READ_BUFFERS_MAX),
            order_entries: frames.min(16 << 10),
        };
        budget.huge_pages = huge_pages && budget.region_bytes() >= HUGE_BYTES;
        budget
    }

    /// The greatest pool that fits `cache_bytes`, [B1]; `None` if not even [`FRAMES_MIN`] frames do.
    pub(super) fn fitting(
        cache_bytes: u64,
        page_bytes: usize,
        latches: PageHashLatches,
        huge_pages: bool,
    ) -> Option<Budget> {
        let of = |frames| Budget::of_frames(frames, page_bytes, latches, huge_pages);
        let fits = |frames| of(frames).bytes_total() as u64 <= cache_bytes;
        if !fits(FRAMES_MIN) {
            return None;
        }
        let pages = usize::try_from(cache_bytes / page_bytes as u64).unwrap_or(usize::MAX);
        let (mut fit, mut over) = (FRAMES_MIN, pages.min(FrameId::COUNT_MAX) + 1);
        while over - fit > 1 {
            let middle = fit + (over - fit) / 2;
            if fits(middle) { fit = middle } else { over = middle }
        }
        Some(of(fit))
    }

    /// Bytes of the frames.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frames * self.page_bytes
    }

    /// Bytes of the headers.
    pub(super) fn header_bytes(&self) -> usize {
        (self.frames * HEADER_BYTES).next_multiple_of(128)
    }

    /// Bytes asked of the region.
    pub(super) fn region_bytes(&self) -> usize {
        self.frame_bytes() + self.header_bytes() + self.hash_bytes
    }

    /// Bytes that the region takes once it is rounded up.
    pub(super) fn region_bytes_rounded(&self) -> usize {
        self.region_bytes().next_multiple_of(if self.huge_pages {
            HUGE_BYTES
        } else {
            REGION_STEP_BYTES
        })
    }

    /// Bytes of all buffers that hold page images.
    pub(super) fn buffer_bytes(&self) -> usize {
        let batch = self.batch_images * (self.page_bytes + IMAGE_EXTRA_BYTES);
        let single = self.page_bytes + IMAGE_EXTRA_BYTES;
        (self.evict_batches + 1) * batch + (self.side_images + self.read_buffers) * single
    }

    /// Bytes on the heap beside the buffers.
    pub(super) fn list_bytes(&self) -> usize {
        let counters = THREAD_COUNTERS * THREAD_COUNTER_BYTES;
        let lists = self.frames * FREE_SLOT_BYTES + self.order_entries * ORDER_ENTRY_BYTES;
        // The number of outside latches is the caller's: it may be absurd, and then does not fit.
        (lists + counters + FIXED_BYTES).saturating_add(self.outside_bytes)
    }

    /// Everything.
    pub(super) fn bytes_total(&self) -> usize {
        (self.region_bytes_rounded() + self.buffer_bytes()).saturating_add(self.list_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATCHES: PageHashLatches = PageHashLatches::PerCell;

    #[test]
    fn the_greatest_pool_that_fits_is_found() {
        for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
            for cache_bytes in [3 << 20, 8 << 20, 100_000_000, 1 << 30] {
                for huge in [false, true] {
                    let fit = Budget::fitting(cache_bytes, page_bytes, LATCHES, huge)
                        .expect("it is above the least");
                    assert!(fit.bytes_total() as u64 <= cache_bytes);
                    let next = Budget::of_frames(fit.frames + 1, page_bytes, LATCHES, huge);
                    assert!(next.bytes_total() as u64 > cache_bytes, "{fit:?}");
                    assert!(fit.frame_bytes() as u64 > cache_bytes / 4, "{fit:?}");
                }
            }
        }
    }

    #[test]
    fn the_least_pool_has_sixteen_frames_and_one_byte_less_is_refused() {
        for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
            let least =
                Budget::of_frames(FRAMES_MIN, page_bytes, LATCHES, false).bytes_total() as u64;
            let fit =
                Budget::fitting(least, page_bytes, LATCHES, false).expect("this is the least");
            assert_eq!(fit.frames, FRAMES_MIN);
            assert_eq!(Budget::fitting(least - 1, page_bytes, LATCHES, false), None);
        }
    }
}
