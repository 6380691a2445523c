//! From the room for a record to its application: [`Reserved`], then [`Applying`].
//!
//! ```text
//!   reserve ----> Reserved ----copy----> Applying ----applied----> end
//!      |             |                      |
//!   Full,         dropped:               dropped: the commit is half applied;
//!   Poisoned,     a void record          `visible` never passes it, and writing stops
//!   nothing done
//! ```
//!
//! Whatever may be refused is refused before anything is reserved: what is reserved lies in the way of all
//! that comes after. So both states finish themselves when they are dropped, and the ring never stands still.
//!
//! Tested in `tests::records` and `tests::threads`.

use super::Log;
use super::flush::Wish;
use super::record::{Header, RecordKind, put, record_bytes};
use crate::error::{Error, Result, Usage};
use latchkv_latch::backoff::Backoff;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::primitives::nap;
use std::io;

/// Room for one record, and its lsn. Becomes a void record when dropped.
#[must_use = "becomes a void record when dropped"]
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    log: &'a Log,
    lsn: u64,
    ops_len: u32,
    is_done: bool,
}

/// A record that is copied, and whose operations are being applied. Dropping it gives the commit up.
#[must_use = "the commit is given up, and writing stops, when this is dropped"]
#[derive(Debug)]
pub(crate) struct Applying<'a> {
    log: &'a Log,
    lsn: u64,
    end: u64,
    is_done: bool,
}

impl Log {
    /// Room for a record with `ops_len` bytes of operations. Waits for room in memory, flushing itself if need
    /// be, and adds to the file where it ends. The caller may hold the checkpoint gate and latches of stripes,
    /// but nothing reserved and not copied, and no latch of a frame that another commit may want to apply.
    ///
    /// # Errors
    /// Nothing is reserved then. [`Usage::ValueTooLarge`] above [`Log::ops_bytes_max`]; [`Error::Full`] when
    /// the disk is; [`Error::Poisoned`].
    #[inline]
    pub(crate) fn reserve(&self, ops_len: u32) -> Result<Reserved<'_>> {
        self.health()?;
        self.check_ops_len(ops_len)?;
        let bytes = record_bytes(ops_len) as u32;
        let lsn = match self.ring.reserve(bytes) {
            Some(lsn) => lsn,
            None => self.reserve_slow(bytes)?,
        };
        Ok(Reserved { log: self, lsn, ops_len, is_done: false })
    }

    /// As [`Log::reserve`], but without waiting: `None` if there is no room just now. For callers that hold a latch
    /// of a frame.
    ///
    /// # Errors
    /// [`Usage::ValueTooLarge`], [`Error::Poisoned`].
    #[inline]
    pub(crate) fn try_reserve(&self, ops_len: u32) -> Result<Option<Reserved<'_>>> {
        self.health()?;
        self.check_ops_len(ops_len)?;
        let lsn = self.ring.reserve(record_bytes(ops_len) as u32);
        Ok(lsn.map(|lsn| Reserved { log: self, lsn, ops_len, is_done: false }))
    }

    /// Waits until there is room for a record with `ops_len` bytes of operations; another may take it first.
    ///
    /// # Errors
    /// Those of [`Log::reserve`].
    pub(crate) fn wait_room(&self, ops_len: u32) -> Result<()> {
        self.check_ops_len(ops_len)?;
        let bytes = record_bytes(ops_len) as u32;
        let mut backoff = Backoff::new();
        while self.make_room(bytes, &mut backoff)? {}
        Ok(())
    }

    fn check_ops_len(&self, ops_len: u32) -> Result<()> {
        if ops_len > self.ops_bytes_max() {
            let (actual, maximum) = (ops_len as usize, self.ops_bytes_max() as usize);
            return Err(Usage::ValueTooLarge { actual, maximum }.into());
        }
        Ok(())
    }

    /// Does something for room of a record of `bytes` bytes. False: there is room.
    fn make_room(&self, bytes: u32, backoff: &mut Backoff) -> Result<bool> {
        self.health()?;
        let wanted = self.tail() + u64::from(bytes);
        // Relaxed: L-e.
        if self.granted.load(Relaxed) < wanted {
            self.grant(wanted)?;
            return Ok(true);
        }
        if self.ring_has_room(bytes) {
            return Ok(false);
        }
        self.flush_now(Wish::Write);
        if !self.ring_has_room(bytes) && !backoff.wait() {
            nap();
        }
        Ok(true)
    }

    #[cold]
    fn reserve_slow(&self, bytes: u32) -> Result<u64> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(lsn) = self.ring.reserve(bytes) {
                return Ok(lsn);
            }
            self.make_room(bytes, &mut backoff)?;
        }
    }

    fn ring_has_room(&self, bytes: u32) -> bool {
        self.tail() + u64::from(bytes) <= self.ring.retired() + self.ring.bytes() as u64
    }

    /// Prepares the next slot when less than one is left. Whether the file grew; a full disk is no failure.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(super) fn prepare_ahead(&self) -> Result<bool> {
        match self.grant(self.tail() + self.space.geometry().data_bytes()) {
            Err(Error::Full { .. }) => Ok(false),
            granted => granted,
        }
    }

    /// Prepares slots until all below `wanted` can be reserved. Whether the file grew.
    ///
    /// # Errors
    /// [`Error::Full`], and nothing has changed; [`Error::Poisoned`] after any other failure.
    fn grant(&self, wanted: u64) -> Result<bool> {
        let mut grew = false;
        // Relaxed: L-e.
        while self.granted.load(Relaxed) < wanted {
            self.health()?;
            // Relaxed: L-b.
            let synced = self.marks.synced.load(Relaxed);
            let raise = |granted| {
                self.ring.set_limit(granted);
                // Relaxed: L-e.
                self.granted.store(granted, Relaxed);
            };
            match self.space.prepare(wanted, synced, raise) {
                Ok(is_new) => grew |= is_new,
                Err(error @ Error::Full { .. }) => return Err(error),
                Err(error) => return Err(self.poison(error)),
            }
        }
        Ok(grew)
    }
}

impl<'a> Reserved<'a> {
    /// Where the record begins: the timestamp of the commit.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Where the record ends: what to wait for.
    pub(crate) fn end(&self) -> u64 {
        self.lsn + record_bytes(self.ops_len)
    }

    /// Copies the record, which from now on survives a crash as soon as it is written. `ops` are its
    /// operations in one or several slices, together as long as was reserved. A `Part` is to be marked applied
    /// at once.
    ///
    /// # Panics
    /// If they are not as long as that; the record is void then.
    pub(crate) fn copy(mut self, kind: RecordKind, ops: &[&[u8]]) -> Applying<'a> {
        let bytes: usize = ops.iter().map(|slice| slice.len()).sum();
        assert_eq!(bytes, self.ops_len as usize, "a record of another length was reserved");
        self.put(kind, ops);
        Applying { log: self.log, lsn: self.lsn, end: self.end(), is_done: false }
    }

    fn put(&mut self, kind: RecordKind, ops: &[&[u8]]) {
        self.is_done = true;
        // Relaxed: L-b.
        let synced = self.log.marks.synced.load(Relaxed);
        let header = Header::new(kind, self.lsn, self.ops_len, synced);
        put(&self.log.ring, self.log.salt, header, ops);
        self.log.ring.copied(self.lsn);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.put(RecordKind::Void, &[]);
            self.log.ring.applied(self.lsn);
        }
    }
}

impl Applying<'_> {
    /// All operations are applied: the record may become visible. Gives its end, for [`Log::acknowledge`].
    pub(crate) fn applied(mut self) -> u64 {
        self.is_done = true;
        self.log.ring.applied(self.lsn);
        self.end
    }
}

impl Drop for Applying<'_> {
    #[cold]
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // Relaxed: L-c.
        let mut frozen = self.log.frozen.load(Relaxed);
        while self.lsn < frozen {
            match self.log.frozen.compare_exchange(frozen, self.lsn, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => frozen = now,
            }
        }
        let source = io::Error::other("a commit was given up when it was half applied");
        let _ = self.log.poison(self.log.space.failed("applying a commit", source));
        self.log.ring.applied(self.lsn);
    }
}
