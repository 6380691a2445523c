//! Pages that will be needed soon, read as one batch.
//!
//! ```text
//! buffers that are free -> frames that are free or can leave at once -> X and claim of each page
//!   -> Store::read_pages -> per page: decode, release X      or: unclaim, frame to the free list
//! ```
//!
//! What it is for: a page read alone is waited for alone. What it is not: a promise. Pages are left out if they are
//! many, if frames are short or if reading them fails; who needs one reaches it as ever, and loads it then.
//!
//! * [A1] *It waits for nobody who could wait for it.* Buffers and frames are taken as far as they are there, before
//!   anything is claimed; the X latch of an own frame is only tried. From the first claim on it waits for cells,
//!   which are held for a few stores, and for the store's locks and the disk, whose holders wait for no frame. So
//!   several frames may be held under X, and the caller may be inside the gate; it holds no latch, as for a load.
//! * [A2] Each frame goes with a read buffer, so all that read ahead at one time hold at most as many frames as
//!   there are buffers: a sixteenth of the pool, or none where one would be all that can be spared. Others who need
//!   a frame find theirs by [P4].
//! * [A3] Nothing is written for it, and the hand makes a few steps for each page: what leaves is what the next
//!   loads would have made leave. The pages that come are on probation, as loaded ones are.
//! * [A4] A failure is not told: the page is unclaimed as by [X2] of `fix`, and who needs it meets the error itself.
//!   A stale id ([X4]) is such a failure, or gives a clean page that nobody believes.
//!
//! Tested in `pool::tests::ahead`, and through scans and recovery in `engine/tests/read_ahead.rs`.

use super::Pool;
use super::buffers::Buffer;
use super::evict::Step;
use crate::id::{FrameId, PageId};
use crate::store::PageRead;
use latchkv_latch::{Exclusive, residency};

/// Steps of the hand for each page, at most, [A3].
const STEPS_A_PAGE: usize = 16;

/// A page that is claimed and not read yet.
struct Coming<'p> {
    page: PageId,
    frame: FrameId,
    x: Exclusive<'p>,
    buf: Buffer<'p>,
}

impl Pool {
    /// Pages that [`Pool::read_ahead`] brings in at a time, at most; 0 in a pool that is too small for it.
    pub(crate) fn read_ahead_max(&self) -> usize {
        self.read_buffers.spare_max()
    }

    /// Brings in those of `pages` that are in no frame, the first ones if they are too many, and waits until they are
    /// there. Gives how many came. The caller holds no latch, [A1].
    #[cold]
    pub(crate) fn read_ahead(&self, pages: &[PageId]) -> usize {
        let absent = pages.iter().copied().filter(|page| self.is_absent(*page));
        let absent: Vec<PageId> = absent.take(self.read_ahead_max()).collect();
        if absent.is_empty() {
            return 0;
        }
        let mut coming = self.claim_all(&absent);
        let mut reads: Vec<PageRead<'_>> = coming
            .iter_mut()
            .map(|coming| PageRead { page: coming.page, buf: &mut coming.buf })
            .collect();
        let outcomes = self.store.read_pages(&mut reads);
        let mut came = 0;
        for (Coming { page, frame, x, buf }, outcome) in coming.into_iter().zip(outcomes) {
            let read = outcome.and_then(|bytes| self.decode(page, frame, &buf, bytes));
            came += u64::from(self.let_in(frame, x, read).is_ok());
        }
        self.counters.loads_ahead.add(came);
        came as usize
    }

    /// No frame has the page, as far as can be told without waiting.
    pub(crate) fn is_absent(&self, page: PageId) -> bool {
        page != PageId::NONE && page <= PageId::MAX && self.frames.hash().lookup(page.0).is_none()
    }

    /// As many of `pages` as there are buffers and frames for, each in a frame under X.
    fn claim_all(&self, pages: &[PageId]) -> Vec<Coming<'_>> {
        let mut buffers = self.read_buffers.take_spare(pages.len());
        let mut frames = self.spare_frames(buffers.len());
        let mut coming = Vec::with_capacity(frames.len());
        for &page in pages {
            let Some(frame) = frames.pop() else { break };
            // Only tried, [A1]: a hand may be looking at it.
            let Some(x) = self.latch(frame).try_exclusive() else {
                self.give_back(frame);
                continue;
            };
            match residency::claim(self.frames.headers(), self.frames.hash(), page.0, frame.0, x) {
                Ok(x) => {
                    let buf = buffers.pop().expect("there are no more frames than buffers, [A2]");
                    coming.push(Coming { page, frame, x, buf });
                }
                Err((x, _other)) => {
                    x.release_clean();
                    frames.push(frame);
                }
            }
        }
        frames.into_iter().for_each(|frame| self.give_back(frame));
        coming
    }

    /// Up to `count` frames that are free or whose pages can leave at once, [A3].
    fn spare_frames(&self, count: usize) -> Vec<FrameId> {
        let mut frames = Vec::with_capacity(count);
        let mut steps = count * STEPS_A_PAGE;
        while frames.len() < count {
            let free = self.free.pop().or_else(|| self.evict_within(&mut steps));
            match free {
                Some(frame) => frames.push(frame),
                None => break,
            }
        }
        frames
    }

    /// A frame whose page has left, if the hand finds one within so many steps.
    fn evict_within(&self, steps: &mut usize) -> Option<FrameId> {
        while *steps > 0 {
            *steps -= 1;
            if let Step::Evicted(frame) = self.step() {
                return Some(frame);
            }
        }
        None
    }
}
