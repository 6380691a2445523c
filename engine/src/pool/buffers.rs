//! Buffers of one page each, for reads from disk and for writers that write an image themselves.
//!
//! Who holds a buffer only reads, writes and copies with it, and waits for nothing but the disk: so waiting
//! for one is allowed while a frame is latched. Their number is fixed by the budget.

use crate::io::AlignedBuf;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, PoisonError};

/// The buffers that nobody uses.
#[derive(Debug)]
pub(super) struct Buffers {
    free: Mutex<Vec<AlignedBuf>>,
    given_back: Condvar,
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
        let free = (0..count.max(1)).map(|_| AlignedBuf::new(page_bytes)).collect();
        Buffers { free: Mutex::new(free), given_back: Condvar::new() }
    }

    /// A buffer, once there is one. It holds whatever it held last.
    pub(super) fn take(&self) -> Buffer<'_> {
        // A poisoned lock is no harm: the vector is whole between any two statements.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(buf) = free.pop() {
                return Buffer { buffers: self, buf };
            }
            free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.buf);
        self.buffers.free.lock().unwrap_or_else(PoisonError::into_inner).push(buf);
        self.buffers.given_back.notify_one();
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
