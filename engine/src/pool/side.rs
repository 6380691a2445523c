//! Images put aside for the checkpoint in progress.
//!
//! A writer that is about to change a page which the checkpoint has yet to write leaves its image here and
//! goes on. Room is bounded by the budget; a writer that finds none writes the image itself.
//!
//! ```text
//!   empty --take_buffer--> with a writer --put--> waiting --drain--> with the checkpoint --give_back--> empty
//!                                          \--(aborted meanwhile)--------------------------------------^
//! ```
//!
//! * [S1] An image is taken in only while its checkpoint is in progress, decided under the lock under which
//!   an abort ends it. So no image outlives its checkpoint.
//! * [S2] Lock order: this lock, then those of the store. The store does not call back.

use crate::error::Error;
use crate::id::{Epoch, PageId};
use crate::io::AlignedBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One image put aside.
#[derive(Debug)]
pub(super) struct SideImage {
    pub(super) page: PageId,
    pub(super) epoch: Epoch,
    pub(super) bytes: usize,
    pub(super) buf: AlignedBuf,
}

#[derive(Debug)]
struct State {
    empty: Vec<AlignedBuf>,
    waiting: Vec<SideImage>,
    doomed: Option<Error>,
}

/// Bounded room for images.
#[derive(Debug)]
pub(super) struct SideImages(Mutex<State>);

impl SideImages {
    /// Room for `count` images of pages of `page_bytes` bytes.
    pub(super) fn new(count: usize, page_bytes: usize) -> SideImages {
        let empty = (0..count).map(|_| AlignedBuf::new(page_bytes)).collect();
        SideImages(Mutex::new(State { empty, waiting: Vec::with_capacity(count), doomed: None }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is no harm: each statement leaves the state whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty buffer, if there is one.
    pub(super) fn take_buffer(&self) -> Option<AlignedBuf> {
        self.state().empty.pop()
    }

    /// Hands an image over, or drops it if `in_progress` says that its checkpoint is over, [S1].
    pub(super) fn put(
        &self,
        page: PageId,
        epoch: Epoch,
        buf: AlignedBuf,
        bytes: usize,
        in_progress: impl FnOnce() -> bool,
    ) {
        let mut state = self.state();
        if in_progress() {
            state.waiting.push(SideImage { page, epoch, bytes, buf });
        } else {
            state.empty.push(buf);
        }
    }

    /// Everything that waits.
    pub(super) fn drain(&self) -> Vec<SideImage> {
        std::mem::take(&mut self.state().waiting)
    }

    /// Images that wait.
    pub(super) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// The buffers of images that have been written, or never will be.
    pub(super) fn give_back(&self, images: Vec<SideImage>) {
        self.state().empty.extend(images.into_iter().map(|image| image.buf));
    }

    /// An image that the checkpoint needs is lost.
    pub(super) fn doom(&self, error: Error) {
        self.state().doomed.get_or_insert(error);
    }

    /// Why the checkpoint cannot become whole.
    pub(super) fn doomed(&self) -> Option<Error> {
        self.state().doomed.clone()
    }

    /// A new checkpoint begins. The gate is closed, so no writer is at work.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        debug_assert!(state.waiting.is_empty(), "[S1]");
        state.doomed = None;
    }

    /// The checkpoint is given up: `abort` ends it in the store, and what waits is dropped, [S1].
    pub(super) fn abandon(&self, abort: impl FnOnce()) {
        let mut state = self.state();
        abort();
        let waiting = std::mem::take(&mut state.waiting);
        state.empty.extend(waiting.into_iter().map(|image| image.buf));
    }
}
