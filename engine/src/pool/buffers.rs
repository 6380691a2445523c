//! Buffers of one page each, for reads from disk and for writers that write an image themselves.
//!
//! Who holds a buffer only reads, writes and copies with it, and waits for nothing but the disk: so waiting
//! for one is allowed while a frame is latched. Who takes several takes what is there, before it holds anything
//! else, and leaves some for those who wait for one. Their number is fixed by the budget.

use crate::io::AlignedBuf;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Buffers of one page each.
#[derive(Debug)]
pub(super) struct Buffers {
    state: Mutex<State>,
    given_back: Condvar,
    count: usize,
    /// Left by those who take several.
    left: usize,
}

#[derive(Debug)]
struct State {
    free: Vec<AlignedBuf>,
    /// Who wait for a buffer. To wake nobody costs a system call.
    waiting: usize,
}

/// A buffer in use; goes back on drop.
#[derive(Debug)]
pub(super) struct Buffer<'a> {
    buffers: &'a Buffers,
    buf: AlignedBuf,
}

impl Buffers {
    /// `count` buffers, at least one, of `page_bytes` bytes.
    pub(super) fn new(count: usize, page_bytes: usize) -> Buffers {
        let count = count.max(1);
        let free = (0..count).map(|_| AlignedBuf::new(page_bytes)).collect();
        let state = Mutex::new(State { free, waiting: 0 });
        let left = (count / 4).max(1);
        Buffers { state, given_back: Condvar::new(), count, left }
    }

    /// How many [`Buffers::take_spare`] gives at most. One is not worth it: it would be all but one.
    pub(super) fn spare_max(&self) -> usize {
        match self.count - self.left {
            1 => 0,
            spare => spare,
        }
    }

    /// Up to `count` buffers, but for those to be left, without waiting. They hold whatever they held last.
    pub(super) fn take_spare(&self, count: usize) -> Vec<Buffer<'_>> {
        let free = &mut self.state().free;
        let from = free.len().saturating_sub(count).max(self.left).min(free.len());
        free.drain(from..).map(|buf| Buffer { buffers: self, buf }).collect()
    }

    /// A buffer, once there is one. It holds whatever it held last.
    pub(super) fn take(&self) -> Buffer<'_> {
        let mut state = self.state();
        loop {
            if let Some(buf) = state.free.pop() {
                return Buffer { buffers: self, buf };
            }
            state.waiting += 1;
            state = self.given_back.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is no harm: the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.buf);
        let mut state = self.buffers.state();
        state.free.push(buf);
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.buffers.given_back.notify_one();
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = AlignedBuf;

    fn deref(&self) -> &AlignedBuf {
        &self.buf
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut AlignedBuf {
        &mut self.buf
    }
}
