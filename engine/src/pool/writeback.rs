//! Writeback: images of dirty pages to disk, a batch at a time.
//!
//! ```text
//! per frame   S latch: page id, dirty epoch, version, image     -> S released
//! per batch   Store::write_images: fresh blocks, one call       no latch is held
//! per frame   X latch at that version: install, dirty_epoch = 0 -> X released clean, or evicted at once
//! ```
//!
//! * [W1] The image is the page as of its version and dirty epoch: both are read under the same S latch.
//! * [W2] An image is installed only under X, at the same version and with the same dirty epoch (evictors),
//!   or with the same dirty epoch of a frozen epoch (checkpoint, see `checkpoint`); otherwise its blocks go
//!   back. Two writers of one image are harmless: the second finds the frame clean.
//! * [W3] A freeze between image and installation is harmless: the frame was not touched since, so the image
//!   is the page as of the freeze, and the store puts it into the frozen map by its epoch.
//! * [W4] Installing stores nothing in the page, so the version stays and optimistic readers go on.

use super::Pool;
use super::budget::Budget;
use super::clock::ClockWord;
use crate::error::{Error, Result};
use crate::id::{Epoch, FrameId, PageId};
use crate::io::AlignedBuf;
use crate::node::{Page, image};
use crate::store::{Image, Placement};
use latchkv_latch::primitives::{AtomicBool, Ordering};
use latchkv_latch::{Exclusive, Version, residency};
use std::sync::{Mutex, PoisonError};

/// What is known of one image of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) frame: FrameId,
    pub(super) page: PageId,
    pub(super) epoch: Epoch,
    pub(super) at: Version,
    bytes: usize,
}

/// Buffers for one batch of images.
#[derive(Debug)]
pub(super) struct Batch {
    buf: AlignedBuf,
    page_bytes: usize,
    taken: Vec<Taken>,
}

impl Batch {
    /// An empty batch.
    pub(super) fn new(budget: &Budget) -> Batch {
        Batch {
            buf: AlignedBuf::new(budget.batch_images * budget.page_bytes),
            page_bytes: budget.page_bytes,
            taken: Vec::with_capacity(budget.batch_images),
        }
    }

    /// Forgets the images.
    pub(super) fn clear(&mut self) {
        self.taken.clear();
    }

    /// The images, in the order in which they were added.
    pub(super) fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// Copies an image; the caller holds S. There is room, since nobody adds more than a batch holds.
    fn add(
        &mut self,
        page_view: Page<'_>,
        frame: FrameId,
        page: PageId,
        epoch: Epoch,
        at: Version,
    ) {
        let words = self.page_bytes / 8;
        let start = self.taken.len() * words;
        let bytes = image::encode(page_view, &mut self.buf.as_words_mut()[start..start + words]);
        self.taken.push(Taken { frame, page, epoch, at, bytes });
    }

    fn images(&self) -> Vec<Image<'_>> {
        let places = self.buf.chunks_exact(self.page_bytes);
        self.taken
            .iter()
            .zip(places)
            .map(|(taken, place)| Image { page: taken.page, bytes: &place[..taken.bytes] })
            .collect()
    }
}

/// Why the last batch of an evictor could not be written; nothing once one was. A guess for those who are restarted
/// again and again, so its flag is Relaxed.
#[derive(Debug, Default)]
pub(super) struct WritebackFailure {
    failed: AtomicBool,
    why: Mutex<Option<Error>>,
}

impl WritebackFailure {
    fn note<T>(&self, written: Result<T>) -> Result<T> {
        match &written {
            Ok(_) if !self.failed.load(Ordering::Relaxed) => {}
            Ok(_) => self.set(None),
            Err(error) => self.set(Some(error.clone())),
        }
        written
    }

    fn set(&self, why: Option<Error>) {
        self.failed.store(why.is_some(), Ordering::Relaxed);
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &*self.why.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl Pool {
    /// Fails if dirty pages could not be written when that was last tried.
    ///
    /// # Errors
    /// The failure: `Full`, `Io` or `Poisoned`.
    pub(crate) fn check_writeback(&self) -> Result<()> {
        self.writeback_failure.check()
    }

    /// Adds the frame's image to the batch if `wanted` says so of its dirty epoch. The caller holds S, [W1].
    pub(super) fn add_image(
        &self,
        batch: &mut Batch,
        frame: FrameId,
        at: Version,
        wanted: impl FnOnce(Epoch) -> bool,
    ) -> bool {
        let header = self.frames.header(frame);
        // Relaxed: [P2], S is held.
        let page = PageId(header.ident.load(Ordering::Relaxed));
        let epoch = Epoch(header.dirty_epoch.load(Ordering::Relaxed));
        let add = page != PageId::NONE && epoch.0 != 0 && wanted(epoch);
        if add {
            batch.add(self.page(frame), frame, page, epoch, at);
        }
        add
    }

    /// Writes the batch to fresh blocks; one placement for each image.
    pub(super) fn write_batch(&self, batch: &Batch) -> Result<Vec<Placement>> {
        let images = batch.images();
        let placements = self.store.write_images(&images)?;
        debug_assert_eq!(placements.len(), images.len());
        self.counters.writebacks.add(images.len() as u64);
        Ok(placements)
    }

    /// Installs a written image under `x`, [W2], or gives its blocks back. True if installed.
    pub(super) fn settle(&self, taken: &Taken, placement: Placement, _x: &Exclusive<'_>) -> bool {
        let header = self.frames.header(taken.frame);
        // Relaxed: [P2], X is held.
        let same = header.ident.load(Ordering::Relaxed) == taken.page.0
            && header.dirty_epoch.load(Ordering::Relaxed) == taken.epoch.0;
        if same {
            self.store.install(taken.page, placement, taken.epoch);
            // Release: pairs with the scan of a checkpoint, which takes a zero to mean "in the map".
            header.dirty_epoch.store(0, Ordering::Release);
            self.counters.dirty.sub(1);
        } else {
            self.store.discard(placement);
        }
        same
    }

    /// Writes what is dirty among `victims` and evicts what nobody used in the meantime; frames that became
    /// free are on the free list. Never waits for a latch. Gives the number of pages that were written and
    /// are clean now.
    ///
    /// # Errors
    /// If writing failed: then all is as before.
    pub(super) fn write_back(&self, victims: &[FrameId], batch: &mut Batch) -> Result<usize> {
        batch.clear();
        for &frame in victims {
            if let Some(shared) = self.latch(frame).try_shared() {
                self.add_image(batch, frame, shared.version(), |_| true);
            }
        }
        if batch.taken().is_empty() {
            return Ok(0);
        }
        let placements = self.writeback_failure.note(self.write_batch(batch))?;
        let mut cleaned = 0;
        for (taken, placement) in batch.taken().iter().zip(placements) {
            let Some(x) = self.latch(taken.frame).try_upgrade(taken.at) else {
                self.store.discard(placement);
                continue;
            };
            let installed = self.settle(taken, placement, &x);
            cleaned += usize::from(installed);
            if !installed || ClockWord(&self.frames.header(taken.frame).clock).is_referenced() {
                x.release_clean();
                continue;
            }
            match residency::try_evict(self.frames.headers(), self.frames.hash(), taken.frame.0, x)
            {
                Ok(_page) => {
                    self.counters.evictions.add(1);
                    self.give_back(taken.frame);
                }
                Err(x) => {
                    x.release_clean();
                }
            }
        }
        Ok(cleaned)
    }
}
