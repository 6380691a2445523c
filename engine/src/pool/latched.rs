//! A frame under its X latch, and what has to happen before its page changes.
//!
//! ```text
//! dirty_epoch     touch in epoch e does
//! 0               dirty_epoch = e
//! e               nothing, and costs two loads
//! <= frozen       the image as of the freeze goes aside (or, if there is no room, to disk); then dirty_epoch = e
//! other < e       dirty_epoch = e: an aborted checkpoint left the page dirty, its older state is no longer wanted
//! ```
//!
//! * [T1] The caller is inside the gate from before `touch` until its change is complete. So the epoch does
//!   not move under it, and no checkpoint sees half a change.
//! * [T2] While a frame with `0 < dirty_epoch <= frozen` exists, the checkpoint is not over, or it was
//!   aborted. The image is handed over *before* the dirty epoch moves on, so the checkpoint's last scan finds
//!   one or the other.

use super::Pool;
use crate::error::Result;
use crate::id::{Epoch, FrameId, PageId};
use crate::node::{Page, image};
use crate::store::Image;
use latchkv_latch::primitives::Ordering;
use latchkv_latch::{Exclusive, Version, residency};

/// A frame whose X latch is held. Dropping it releases the latch and moves the version.
#[derive(Debug)]
#[must_use]
pub(crate) struct FrameX<'p> {
    pool: &'p Pool,
    frame: FrameId,
    latch: Exclusive<'p>,
}

impl<'p> FrameX<'p> {
    pub(super) fn new(pool: &'p Pool, frame: FrameId, latch: Exclusive<'p>) -> FrameX<'p> {
        FrameX { pool, frame, latch }
    }

    /// The frame.
    pub(crate) fn frame(&self) -> FrameId {
        self.frame
    }

    /// Its words.
    pub(crate) fn page(&self) -> Page<'p> {
        self.pool.page(self.frame)
    }

    /// The page that it holds.
    pub(crate) fn page_id(&self) -> PageId {
        // Relaxed: [P2], X is held.
        PageId(self.pool.frames.header(self.frame).ident.load(Ordering::Relaxed))
    }

    /// Releases the latch and keeps the version: nothing was stored in the page.
    pub(crate) fn release_clean(self) {
        self.latch.release_clean();
    }

    pub(super) fn into_latch(self) -> Exclusive<'p> {
        self.latch
    }
}

impl Pool {
    /// The frame's X latch, if the frame is still at version `at`. Waits for those who hold S; gives up at
    /// once when the version has moved or another has X.
    pub(crate) fn exclusive_at(&self, frame: FrameId, at: Version) -> Option<FrameX<'_>> {
        let latch = self.latch(frame).upgrade(at)?;
        Some(FrameX::new(self, frame, latch))
    }

    /// To be called inside the gate before a page is changed; a page already dirty in this epoch costs two
    /// loads. `committed`: the log has the change already, so it is made even if a checkpoint in progress must be
    /// given up for it, and no error comes.
    ///
    /// # Errors
    /// `Full`, `Io` or `Poisoned` if the page's older image was needed by a checkpoint, there was no room to
    /// put it aside, and writing it failed. The page must not be changed then.
    #[inline]
    pub(crate) fn touch(&self, x: &FrameX<'_>, committed: bool) -> Result<()> {
        debug_assert!(std::ptr::eq(self, x.pool));
        // Relaxed: [T1], the gate carries the edge from the freeze that set it.
        let epoch = self.store.epoch();
        // Relaxed: [P2], X is held.
        if self.frames.header(x.frame).dirty_epoch.load(Ordering::Relaxed) == epoch.0 {
            return Ok(());
        }
        self.touch_first(x, epoch, committed)
    }

    #[cold]
    fn touch_first(&self, x: &FrameX<'_>, epoch: Epoch, committed: bool) -> Result<()> {
        match self.keep_for_checkpoint(x) {
            // The checkpoint cannot become whole: it will fail with this.
            Err(error) if committed => self.side.doom(error),
            kept => kept?,
        }
        let header = self.frames.header(x.frame);
        // Relaxed: [P2], X is held.
        if header.dirty_epoch.load(Ordering::Relaxed) == 0 {
            if !committed && !self.has_clean_to_spare() {
                // Several writers passed `leave_some_clean` together: no more of them once writing fails.
                self.check_writeback()?;
            }
            self.counters.dirty.add(1);
        }
        // Release: [T2], pairs with the scan of a checkpoint.
        header.dirty_epoch.store(epoch.0, Ordering::Release);
        self.counters.dirtied_bytes.add(self.budget.page_bytes as u64);
        Ok(())
    }

    /// The page is about to change or to go: if the checkpoint in progress has yet to write it as it is, its
    /// image is put aside, or written at once if there is no room.
    fn keep_for_checkpoint(&self, x: &FrameX<'_>) -> Result<()> {
        // Relaxed: [P2], X is held.
        let dirty = Epoch(self.frames.header(x.frame).dirty_epoch.load(Ordering::Relaxed));
        // By [T1] this is at most stale in that the checkpoint was aborted; `put` looks again.
        if dirty.0 == 0 || dirty > self.store.frozen_epoch() {
            return Ok(());
        }
        let page = x.page_id();
        if let Some(mut buf) = self.side.take_buffer() {
            let bytes = image::encode(x.page(), buf.as_words_mut());
            self.side.put(page, dirty, buf, bytes, || dirty <= self.store.frozen_epoch());
            self.counters.put_aside.add(1);
            return Ok(());
        }
        let mut buf = self.read_buffers.take();
        let bytes = image::encode(x.page(), buf.as_words_mut());
        let placements = self.store.write_images(&[Image { page, bytes: &buf[..bytes] }])?;
        for placement in placements {
            self.store.install(page, placement, dirty);
            self.counters.writebacks.add(1);
        }
        Ok(())
    }

    /// The page leaves its tree and its frame becomes free. The caller is inside the gate, and no node that a
    /// reader can validate names the page any more.
    pub(crate) fn free(&self, x: FrameX<'_>) {
        if let Err(error) = self.keep_for_checkpoint(&x) {
            // The checkpoint cannot become whole: it will fail with this. The tree is not affected.
            self.side.doom(error);
        }
        let (frame, page) = (x.frame, x.page_id());
        let header = self.frames.header(frame);
        // Relaxed: [P2], X is held.
        if header.dirty_epoch.load(Ordering::Relaxed) != 0 {
            self.counters.dirty.sub(1);
            // Release: [T2], pairs with the scan of a checkpoint.
            header.dirty_epoch.store(0, Ordering::Release);
        }
        // Out of the map before it is out of the hash: nobody loads what was freed.
        self.store.free_page(page);
        residency::unclaim(self.frames.headers(), self.frames.hash(), frame.0, x.into_latch());
        self.give_back(frame);
    }

    /// A page that the caller did not fix leaves its tree: a large value, which never has a frame, or a tree
    /// page whose content is not needed. The caller is inside the gate, holds no latch on the page, and no
    /// node that a reader can validate names the page any more.
    pub(crate) fn free_unloaded(&self, page: PageId) {
        while let Some(frame) = self.frames.hash().lookup(page.0) {
            let frame = FrameId(frame);
            let x = FrameX::new(self, frame, self.latch(frame).exclusive());
            if x.page_id() == page {
                return self.free(x);
            }
            x.release_clean();
        }
        // A reader with a stale id may load the page right now: it leaves a clean frame that nobody believes.
        self.store.free_page(page);
    }
}
