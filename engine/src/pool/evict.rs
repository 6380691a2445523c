//! A free frame, from wherever.
//!
//! ```text
//! take_frame: free list -> clock hand finds a clean victim -> evict it
//!                       -> only dirty victims: write a batch of them, evict those
//!                       -> nothing at all: wait a little, from the start
//! ```
//!
//! Evict: try-X frame, clean, try-X cell, remove, ident = 0, release with a version bump. Nothing here waits
//! for a latch.
//!
//! # Why a waiter gets its frame
//!
//! By [P4] the caller holds no latch, so it is nobody's obstacle. Each frame is free, or in the hash, or held
//! by a loader, one who reads ahead or a reservation. Loaders let go after one read, those who read ahead after
//! one batch ([A1] of `ahead`). Reservations hold at most half of the frames.
//! A frame in the hash is latched for finite time, since latch holders wait only for latches (in their
//! order), buffers and the disk. So some frame in the hash is at some time unlatched, and after at most three
//! passes the hand takes it ([C1]); if it is dirty it is written first, which needs the batch that another
//! evictor holds for finite time. Which waiter gets the frame is left to chance; those who are restarted too
//! often take the ticket.
//!
//! If writing fails (full disk, poisoned store), clean pages still leave, so that reads go on; only when
//! there is no clean page left does the caller get the error.

use super::Pool;
use super::budget::BATCH_IMAGES_MAX;
use super::clock::{ClockWord, ROUNDS_MAX};
use super::writeback::Batch;
use crate::error::Result;
use crate::id::FrameId;
use latchkv_latch::primitives::{self, Ordering};
use latchkv_latch::residency;
use std::sync::{MutexGuard, TryLockError};
use std::time::Duration;

/// Most frames that [`Pool::clean_ahead`] keeps free.
const FREE_AHEAD_MAX: usize = 256;

/// Most frames that writers leave clean, so that reads go on when dirty pages cannot be written. A small pool spares a
/// quarter: a descent needs the pages of two levels at a time.
const CLEAN_MAX: usize = 64;

/// How often one who needs a frame fails to write dirty pages before it gives up on clean ones.
const WRITE_FAILURES_MAX: u32 = 32;

/// Dirty victims, at most one batch.
#[derive(Debug)]
struct Victims {
    frames: [FrameId; BATCH_IMAGES_MAX],
    len: usize,
    limit: usize,
}

impl Victims {
    fn new(limit: usize) -> Victims {
        Victims {
            frames: [FrameId::NO_HINT; BATCH_IMAGES_MAX],
            len: 0,
            limit: limit.min(BATCH_IMAGES_MAX),
        }
    }

    fn as_slice(&self) -> &[FrameId] {
        &self.frames[..self.len]
    }

    fn is_full(&self) -> bool {
        self.len == self.limit
    }

    fn push(&mut self, frame: FrameId) {
        if !self.is_full() && !self.as_slice().contains(&frame) {
            self.frames[self.len] = frame;
            self.len += 1;
        }
    }
}

/// What the hand did in one step.
pub(super) enum Step {
    Nothing,
    Evicted(FrameId),
    Dirty(FrameId),
}

/// Growing pauses of one who waits for others to let go of a frame.
#[derive(Debug, Default)]
struct Patience(u32);

impl Patience {
    fn pause(&mut self) {
        self.0 += 1;
        if self.0 <= 4 {
            primitives::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(20 << self.0.min(11).saturating_sub(5)));
        }
    }
}

impl Pool {
    /// A free frame that is the caller's alone: not in the hash, ident 0. The caller holds no latch, [P4].
    ///
    /// # Errors
    /// Those of writing a dirty page, if no clean one can leave.
    pub(super) fn take_frame(&self) -> Result<FrameId> {
        match self.free.pop() {
            Some(frame) => Ok(frame),
            None => self.make_room(),
        }
    }

    #[cold]
    fn make_room(&self) -> Result<FrameId> {
        let mut patience = Patience::default();
        let mut failures = 0;
        loop {
            if let Some(frame) = self.free.pop() {
                return Ok(frame);
            }
            let mut victims = Victims::new(self.budget.batch_images);
            if let Some(frame) = self.sweep(Some(&mut victims)) {
                return Ok(frame);
            }
            if let Some(mut batch) = self.idle_batch(&victims) {
                match self.write_back(victims.as_slice(), &mut batch) {
                    Ok(0) => {}
                    Ok(_) => continue,
                    Err(error) => {
                        if let Some(frame) = self.sweep(None) {
                            return Ok(frame);
                        }
                        // What is clean may be in the hands of loaders for a moment.
                        failures += 1;
                        let all_dirty = self.counters.dirty.get() >= self.frame_count() as u64;
                        if all_dirty || failures > WRITE_FAILURES_MAX {
                            return Err(error);
                        }
                    }
                }
            }
            patience.pause();
        }
    }

    /// Moves the hand until a clean page has left or `victims` is full, at most as far as [C1] says. Without
    /// `victims` dirty pages are passed over.
    fn sweep(&self, mut victims: Option<&mut Victims>) -> Option<FrameId> {
        for _ in 0..ROUNDS_MAX * self.frame_count() {
            match self.step() {
                Step::Nothing => {}
                Step::Evicted(frame) => return Some(frame),
                Step::Dirty(frame) => {
                    if let Some(victims) = &mut victims {
                        victims.push(frame);
                        if victims.is_full() {
                            return None;
                        }
                    }
                }
            }
        }
        None
    }

    /// One step of the hand. Waits for nothing.
    pub(super) fn step(&self) -> Step {
        let frame = self.hand.advance(self.frame_count());
        let header = self.frames.header(frame);
        // Acquire on both: a guess without the latch, see the ordering table of the pool; checked again under
        // X.
        if header.ident.load(Ordering::Acquire) == 0 {
            return Step::Nothing;
        }
        if !ClockWord(&header.clock).pass(|| self.page(frame).level() > 0) {
            return Step::Nothing;
        }
        if header.dirty_epoch.load(Ordering::Acquire) != 0 {
            return Step::Dirty(frame);
        }
        if self.try_evict(frame) { Step::Evicted(frame) } else { Step::Nothing }
    }

    /// Evicts a clean page if neither its frame nor its cell is latched.
    fn try_evict(&self, frame: FrameId) -> bool {
        let header = self.frames.header(frame);
        let Some(x) = header.latch.try_exclusive() else {
            return false;
        };
        // Relaxed: [P2], X is held.
        let occupied = header.ident.load(Ordering::Relaxed) != 0;
        if !occupied || header.dirty_epoch.load(Ordering::Relaxed) != 0 {
            x.release_clean();
            return false;
        }
        match residency::try_evict(self.frames.headers(), self.frames.hash(), frame.0, x) {
            Ok(_page) => {
                self.counters.evictions.add(1);
                true
            }
            Err(x) => {
                x.release_clean();
                false
            }
        }
    }

    /// The buffers for a batch, if there is something to write and no other evictor uses them.
    fn idle_batch(&self, victims: &Victims) -> Option<MutexGuard<'_, Batch>> {
        if victims.as_slice().is_empty() {
            return None;
        }
        self.batches.iter().find_map(|batch| match batch.try_lock() {
            Ok(guard) => Some(guard),
            // A batch is cleared before it is used.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    /// To be called by writers before they enter the gate or latch anything: if nearly every frame is dirty, a batch is
    /// written first. Reads thus find frames even if writing fails from now on.
    ///
    /// # Errors
    /// `Full`, `Io` or `Poisoned` if writing failed; nothing is lost by that.
    #[inline(always)]
    pub(crate) fn leave_some_clean(&self) -> Result<()> {
        if self.has_clean_to_spare() { Ok(()) } else { self.clean_some() }
    }

    /// More frames are clean than writers have to leave, as far as can be told without a latch.
    #[inline(always)]
    pub(super) fn has_clean_to_spare(&self) -> bool {
        let left = (self.frame_count() / 4).min(CLEAN_MAX);
        self.counters.dirty.get() + left as u64 <= self.frame_count() as u64
    }

    #[cold]
    fn clean_some(&self) -> Result<()> {
        let mut victims = Victims::new(self.budget.batch_images);
        for _ in 0..self.frame_count() {
            let frame = self.hand.advance(self.frame_count());
            // Acquire: a guess, see the ordering table of the pool; read again under S.
            if self.frames.header(frame).dirty_epoch.load(Ordering::Acquire) != 0 {
                victims.push(frame);
            }
            if victims.is_full() {
                break;
            }
        }
        match self.idle_batch(&victims) {
            Some(mut batch) => self.write_back(victims.as_slice(), &mut batch).map(drop),
            // Somebody else is at it.
            None => Ok(()),
        }
    }

    /// Frames that a background thread should keep free. A small pool cannot spare any.
    fn free_ahead(&self) -> usize {
        (self.frame_count() / 64).min(FREE_AHEAD_MAX)
    }

    /// One step of a background thread: tops up the free list ahead of those who need frames, writing a batch
    /// of dirty pages for it. True if it did something, so that the caller comes again soon.
    ///
    /// # Errors
    /// `Full`, `Io` or `Poisoned` if writing failed; nothing is lost by that.
    pub(crate) fn clean_ahead(&self) -> Result<bool> {
        let wanted = self.free_ahead();
        let mut victims = Victims::new(self.budget.batch_images);
        let mut acted = false;
        for _ in 0..self.frame_count() {
            if victims.is_full() || self.free.len() + victims.len >= wanted {
                break;
            }
            match self.step() {
                Step::Nothing => {}
                Step::Evicted(frame) => {
                    self.give_back(frame);
                    acted = true;
                }
                Step::Dirty(frame) => victims.push(frame),
            }
        }
        if let Some(mut batch) = self.idle_batch(&victims) {
            acted |= self.write_back(victims.as_slice(), &mut batch)? > 0;
        }
        Ok(acted)
    }
}
