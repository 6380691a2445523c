//! From a page id to a frame.
//!
//! ```text
//! reach_hinted   headers[hint] begins, ident is the page            0 RMW, never blocks
//! reach          hash entry; header begins, ident is the page       0 RMW, parks while the page is being loaded
//!   load         take a free frame; X; claim hash entry; read; verify; release
//! ```
//!
//! * [X1] Single flight: the claim puts the hash entry under the cell's X, so of two loaders one meets the
//!   other's entry, gives its frame back and parks on the other's frame.
//! * [X2] A failed load takes the entry out again before it lets go of the frame. Who waited finds no entry,
//!   tries itself and meets the error itself.
//! * [X3] What comes from disk is copied into the frame word by word under X after its checksum was found
//!   right; the page check of `node` decides whether it is let in.
//! * [X4] A page id may be stale: the caller read it from a node and another thread freed it. Then the page
//!   is not in the map, or holds something else; the caller validates its node before it believes page or
//!   error.

use super::Pool;
use super::clock::ClockWord;
use crate::error::Result;
use crate::id::{FrameId, PageId};
use crate::io::AlignedBuf;
use crate::node::{ChildWord, image};
use latchkv_latch::primitives::{AtomicU64, Ordering};
use latchkv_latch::residency::{self, Lookup};
use latchkv_latch::{Exclusive, Version};

impl Pool {
    /// The child's frame by its hint, with the version at which it held the page. Does not block and costs no
    /// read-modify-write. `None` if the hint is wrong, the frame is latched, or the pool goes without hints.
    #[inline(always)]
    pub(crate) fn reach_hinted(&self, child: ChildWord) -> Option<(FrameId, Version)> {
        if !self.frame_hints {
            return None;
        }
        let (frame, at) =
            residency::begin_hinted(self.frames.headers(), child.page().0, child.hint().0)?;
        Some((FrameId(frame), at))
    }

    /// Sets the frame's reference bit, if it is clear: a hot page is not written.
    #[inline(always)]
    pub(crate) fn reference(&self, frame: FrameId) {
        ClockWord(&self.frames.header(frame).clock).reference();
    }

    /// The page's frame by the page hash, loading the page if it is in no frame, with the version at which it
    /// held the page. Sets the reference bit of a page that was there. The caller holds no latch.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::error::Error::Corrupt) if the page is not in the map or its image is
    /// damaged, which for a stale id ([X4]) means nothing; `Io`, `Full` or `Poisoned` if reading it failed,
    /// or if room could be made for it only by writing and that failed.
    pub(crate) fn reach(&self, page: PageId) -> Result<(FrameId, Version)> {
        match self.find(page) {
            Some(found) => Ok(found),
            None => self.load(page),
        }
    }

    /// The page's frame by the page hash, as [`Pool::reach`] gives it; `None` if the page is in no frame.
    pub(crate) fn find(&self, page: PageId) -> Option<(FrameId, Version)> {
        match residency::lookup(self.frames.headers(), self.frames.hash(), page.0) {
            Lookup::Resident(frame, at) => {
                let frame = FrameId(frame);
                self.reference(frame);
                self.counters.hash_hit();
                Some((frame, at))
            }
            Lookup::Absent => None,
        }
    }

    #[cold]
    fn load(&self, page: PageId) -> Result<(FrameId, Version)> {
        if page == PageId::NONE || page > PageId::MAX {
            let expected = format!("1 to {}", PageId::MAX);
            return Err(self.store.corrupt(
                page,
                "page id out of range",
                expected,
                page.to_string(),
            ));
        }
        loop {
            let frame = self.take_frame()?;
            // Somebody may have loaded it while we looked for a frame.
            if let Some(found) = self.find(page) {
                self.give_back(frame);
                return Ok(found);
            }
            let x = self.latch(frame).exclusive();
            match residency::claim(self.frames.headers(), self.frames.hash(), page.0, frame.0, x) {
                Ok(x) => return self.fill(page, frame, x).map(|at| (frame, at)),
                Err((x, _other)) => {
                    x.release_clean();
                    self.give_back(frame);
                    if let Some(found) = self.find(page) {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Reads the page into the claimed frame.
    fn fill(&self, page: PageId, frame: FrameId, x: Exclusive<'_>) -> Result<Version> {
        let read = self.read_into(page, frame);
        self.let_in(frame, x, read)
    }

    /// What becomes of a claimed frame once its page was read, or was not.
    pub(super) fn let_in(
        &self,
        frame: FrameId,
        x: Exclusive<'_>,
        read: Result<()>,
    ) -> Result<Version> {
        match read {
            Ok(()) => {
                let header = self.frames.header(frame);
                // Relaxed: [P2], X is held.
                header.dirty_epoch.store(0, Ordering::Relaxed);
                ClockWord(&header.clock).loaded(self.page(frame).level() > 0);
                self.counters.loads.add(1);
                Ok(x.release())
            }
            Err(error) => {
                residency::unclaim(self.frames.headers(), self.frames.hash(), frame.0, x);
                self.give_back(frame);
                Err(error)
            }
        }
    }

    fn read_into(&self, page: PageId, frame: FrameId) -> Result<()> {
        let mut buf = self.read_buffers.take();
        let bytes = self.store.read_page(page, &mut buf)?;
        self.decode(page, frame, &buf, bytes)
    }

    /// Lets an image of `bytes` bytes into a frame under X, [X3].
    pub(super) fn decode(
        &self,
        page: PageId,
        frame: FrameId,
        buf: &AlignedBuf,
        bytes: usize,
    ) -> Result<()> {
        let words = &buf.as_words()[..bytes / 8];
        image::decode(words, self.page(frame), page)
            .map_err(|fault| self.store.corrupt(page, fault.what, fault.expected, fault.got))
    }

    /// Lets the child word `old` in `slot` of the parent hint at `frame`, if the parent is still at version
    /// `at`. The parent's version does not move: readers may see either hint.
    pub(crate) fn repair_hint(
        &self,
        parent: FrameId,
        at: Version,
        slot: &AtomicU64,
        old: ChildWord,
        frame: FrameId,
    ) {
        if !self.frame_hints || old.hint() == frame {
            return;
        }
        let new = ChildWord::new(old.page(), frame);
        if residency::repair_hint(self.latch(parent), at, slot, old.0, new.0) {
            self.counters.hint_repairs.add(1);
        }
    }

    /// A frame that nobody else has goes back to the free list. Its ident is 0.
    pub(super) fn give_back(&self, frame: FrameId) {
        // Relaxed: [P3], nobody else stores to it.
        debug_assert_eq!(self.frames.header(frame).ident.load(Ordering::Relaxed), 0, "[P3]");
        self.free
            .push(frame)
            .expect("the free list has room for every frame, and [P3] each is there once");
    }
}
