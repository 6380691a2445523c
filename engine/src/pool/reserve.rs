//! New pages for structure modifications.
//!
//! A split must not find out half-way that there is no frame, no page id or no memory. So it reserves all of
//! them before it latches anything, and [`Reservation::create`] cannot fail.
//!
//! ```text
//! reserve: enter the gate -> permit -> n frames (each may evict) -> n page ids
//! create:  X a reserved frame; ident and hash entry; dirty in the current epoch
//! drop:    unused frames to the free list, unused ids to the store, permit, gate
//! ```
//!
//! * [R1] At most `permits * RESERVE_MAX` frames are reserved, which is at most half of the pool: `permits =
//!   max(1, (frames - 8) / 8)` and `RESERVE_MAX` = 4 give 4 of 16, and less than half of more. Whoever waits
//!   for frames with others reserved already therefore waits for loaders and latch holders only, see `evict`.
//! * [R2] Order: ticket, gate, permit, frames. Since the reservation enters the gate itself, nobody is kept
//!   out of the gate while holding a permit that somebody inside waits for.
//! * [R3] A page id is reserved by one reservation, so the claim of a new page meets another frame only if a
//!   reader with a stale id loaded, or is loading, what the id meant before. Nobody needs that: the claim
//!   waits for it and evicts it.

use super::Pool;
use super::clock::ClockWord;
use super::latched::FrameX;
use crate::error::Result;
use crate::id::{FrameId, PageId};
use latchkv_latch::primitives::Ordering;
use latchkv_latch::{Inside, residency};
use std::sync::{Condvar, Mutex, PoisonError};

/// Most pages of one reservation.
pub(crate) const RESERVE_MAX: usize = 4;

/// How many reservations may exist, [R1].
#[derive(Debug)]
pub(super) struct Permits {
    left: Mutex<usize>,
    given_back: Condvar,
}

impl Permits {
    /// As many as a pool of `frames` frames can bear.
    pub(super) fn new(frames: usize) -> Permits {
        let left = (frames.saturating_sub(8) / 8).max(1);
        debug_assert!(left * RESERVE_MAX <= frames / 2, "[R1]");
        Permits { left: Mutex::new(left), given_back: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        // A poisoned lock is no harm: the number is always whole.
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left == 0 {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
        Permit(self)
    }
}

#[derive(Debug)]
struct Permit<'p>(&'p Permits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// A permit for one structure modification with the frames and page ids it needs. Dropping it gives back what
/// was not used. The thread is inside the gate while it lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation<'p> {
    pool: &'p Pool,
    frames: Vec<FrameId>,
    pages: Vec<PageId>,
    // Fields drop in this order, after what `Drop` gives back.
    _permit: Permit<'p>,
    _inside: Inside<'p>,
}

impl Pool {
    /// Reserves `n` new pages, at most [`RESERVE_MAX`]. The caller holds no latch.
    ///
    /// # Errors
    /// Those of making room for `n` frames, and of the store if it has no page ids left.
    ///
    /// # Panics
    /// If `n` is above [`RESERVE_MAX`].
    pub(crate) fn reserve(&self, n: usize) -> Result<Reservation<'_>> {
        self.reserve_by(n, || self.store.allocate_page())
    }

    /// As [`Pool::reserve`], but checkpoints leave the pages out until [`Pool::adopt`].
    ///
    /// # Errors
    /// As [`Pool::reserve`].
    pub(crate) fn reserve_provisional(&self, n: usize) -> Result<Reservation<'_>> {
        self.reserve_by(n, || self.store.allocate_page_provisional())
    }

    /// Provisional pages become part of the next checkpoint. The caller is inside the gate and makes them
    /// reachable before it leaves.
    pub(crate) fn adopt(&self, pages: &[PageId]) {
        self.store.adopt(pages);
    }

    fn reserve_by(
        &self,
        n: usize,
        allocate: impl Fn() -> Result<PageId>,
    ) -> Result<Reservation<'_>> {
        assert!(n <= RESERVE_MAX, "a reservation is for at most {RESERVE_MAX} pages");
        let inside = self.gate.enter();
        let permit = self.permits.take();
        // From here on dropping gives back what there is.
        let mut reservation = Reservation {
            pool: self,
            frames: Vec::with_capacity(RESERVE_MAX),
            pages: Vec::with_capacity(RESERVE_MAX),
            _permit: permit,
            _inside: inside,
        };
        for _ in 0..n {
            reservation.frames.push(self.take_frame()?);
            reservation.pages.push(allocate()?);
        }
        Ok(reservation)
    }

    /// A load with a stale id left its page, or is about to fail: [R3].
    #[cold]
    fn evict_stale(&self, page: PageId, frame: u32) {
        let frame = FrameId(frame);
        let header = self.frames.header(frame);
        let x = header.latch.exclusive();
        // Relaxed: [P2], X is held.
        if header.ident.load(Ordering::Relaxed) != page.0 {
            x.release_clean();
            return;
        }
        debug_assert_eq!(
            header.dirty_epoch.load(Ordering::Relaxed),
            0,
            "nobody changes a page by a stale id"
        );
        residency::unclaim(self.frames.headers(), self.frames.hash(), frame.0, x);
        self.give_back(frame);
    }
}

impl<'p> Reservation<'p> {
    /// A new page in a frame, X latched and dirty in the current epoch. Its content is whatever the frame
    /// held: the caller formats it before it releases the latch.
    ///
    /// # Panics
    /// If it is called more often than was reserved for.
    pub(crate) fn create(&mut self) -> FrameX<'p> {
        let pool = self.pool;
        let page = self
            .pages
            .pop()
            .expect("a structure modification creates no more pages than it reserved");
        let frame = self.frames.pop().expect("there are as many frames as page ids");
        let header = pool.frames.header(frame);
        // Nobody holds it for long: a hand or a reader of the page before, that finds ident 0.
        let mut x = header.latch.exclusive();
        let x = loop {
            match residency::claim(pool.frames.headers(), pool.frames.hash(), page.0, frame.0, x) {
                Ok(x) => break x,
                Err((back, other)) => {
                    x = back;
                    pool.evict_stale(page, other);
                }
            }
        };
        // Release: pairs with the scan of a checkpoint. The epoch stands still: the thread is inside the
        // gate.
        header.dirty_epoch.store(pool.store.epoch().0, Ordering::Release);
        ClockWord(&header.clock).created();
        pool.counters.dirty.add(1);
        pool.counters.dirtied_bytes.add(pool.budget.page_bytes as u64);
        FrameX::new(pool, frame, x)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        for frame in self.frames.drain(..) {
            self.pool.give_back(frame);
        }
        for page in self.pages.drain(..) {
            self.pool.store.unallocate_page(page);
        }
    }
}
