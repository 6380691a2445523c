//! [`Flusher`]: writes what was copied, syncs it, and lets go of its memory.
//!
//! ```text
//!   lsn      | block | block | block |
//!   written  ############             rest of the block: zeros
//!   next                 #######      the block is written again, the same bytes in front
//! ```
//!
//! Whole blocks go out, so the last block of one flush is the first of the next. Its front is kept in the
//! buffer, not read back from the ring, which may have let go of it; a sector that is written again holds the
//! same bytes as before, so a power cut that tears it takes nothing that was synced.
//!
//! # Letting go
//!
//! The ring's room below `min(written, visible)` is given back after a flush. If there is a consumer it is
//! handed each record first, in order: it sees a record once, after it was applied and written, and if the
//! flush was to sync, synced. Where `visible` was behind, the next flush, or the background, makes up for it.
//!
//! Tested in `tests`.

use super::record::{HEADER_BYTES, Header, RecordKind};
use super::{Log, LogUsage};
use crate::error::Result;
use crate::id::BLOCK_BYTES;
use crate::io::{AlignedBuf, Write};
use latchkv_latch::primitives::Ordering::{Relaxed, Release};
use std::fmt;
use std::sync::PoisonError;

/// What a flush is to do beside writing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Wish {
    /// Nothing.
    #[default]
    Write,
    /// Sync what is not synced.
    Sync,
    /// Sync even if all records are synced: there is more in the file than records.
    SyncAnyway,
}

/// Greatest write.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// A record that is written and applied, as a consumer gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retired<'a> {
    /// Where it begins: the timestamp of a commit.
    pub(crate) lsn: u64,
    /// What it is.
    pub(crate) kind: RecordKind,
    /// The operations.
    pub(crate) ops: &'a [u8],
}

/// Who is handed retired records. Called by a thread that many wait for: it must be brief, must not panic, and
/// must not call the log.
pub(crate) type Consumer = Box<dyn FnMut(Retired<'_>) + Send>;

/// See the module head. One thread at a time: who leads.
pub(super) struct Flusher {
    /// From the last block boundary at or below `end` on: the front of a block that is not full.
    buf: AlignedBuf,
    /// What is written, to the byte.
    end: u64,
    /// Where the first record that is not counted begins.
    uncounted: u64,
    consumer: Option<Consumer>,
    /// One record for the consumer.
    record: Vec<u8>,
    usage: LogUsage,
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flusher").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Log {
    /// Hands every record from the returned lsn on to `consumer`, in order, once each; or to nobody. It sees
    /// them when they are applied and written, some time before their memory is needed again. What the
    /// consumer of before was not handed yet goes to the new one.
    pub(crate) fn on_retire(&self, consumer: Option<Consumer>) -> u64 {
        let mut flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: L-d.
        self.watched.store(consumer.is_some(), Relaxed);
        flusher.consumer = consumer;
        self.ring.retired()
    }
}

impl Flusher {
    /// A flusher of a run that begins at `start`, where a block does.
    pub(super) fn new(start: u64, ring_bytes: usize) -> Flusher {
        Flusher {
            buf: AlignedBuf::new(WRITE_BYTES_MAX.min(ring_bytes)),
            end: start,
            uncounted: start,
            consumer: None,
            record: Vec::new(),
            usage: LogUsage::default(),
        }
    }

    /// What is written, to the byte: the end of a record, between two flushes.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What was done so far.
    pub(super) fn usage(&self) -> LogUsage {
        self.usage
    }

    /// Writes all records below `to`, which are copied, and syncs as wished.
    ///
    /// # Errors
    /// [`crate::Error::Io`] or [`crate::Error::Full`]; either way the log is to be poisoned \[W2].
    pub(super) fn flush(&mut self, log: &Log, to: u64, wish: Wish) -> Result<()> {
        // Relaxed: stored by leaders alone, and this is one.
        let behind = log.marks.synced.load(Relaxed) < to;
        let sync = wish == Wish::SyncAnyway || wish == Wish::Sync && behind;
        if self.end < to {
            self.usage.flushes += 1;
        }
        let mut synced = false;
        let laid_out = log.space.laid_out();
        while self.end < to {
            synced = self.write(log, to, sync)?;
        }
        // L-a.
        log.marks.written.store(to, Release);
        if sync {
            // Relaxed: L-d.
            if !log.watched.load(Relaxed) {
                self.retire(log);
            }
            if !synced {
                let disk = log.space.disk();
                disk.sync().map_err(|source| log.space.failed("syncing the log", source))?;
            }
            self.usage.syncs += 1;
            log.space.synced(laid_out);
            // Relaxed: L-b. `durable` follows under the lock of the turn.
            log.marks.synced.store(to, Relaxed);
        }
        self.retire(log);
        Ok(())
    }

    /// Writes once: up to `to`, the end of the buffer or the end of the part. Syncs as well if that was the
    /// last write of a flush that syncs; whether it did.
    fn write(&mut self, log: &Log, to: u64, sync: bool) -> Result<bool> {
        let geometry = log.space.geometry();
        let block = BLOCK_BYTES as u64;
        let base = self.end / block * block;
        let part_end = geometry.start(geometry.part(self.end) + 1);
        let stop = to.min(part_end).min(base + self.buf.len() as u64);
        let (front, back) = ((self.end - base) as usize, (stop - base) as usize);

        let words = &mut self.buf.as_words_mut()[front / 8..back / 8];
        log.ring.read(self.end, words);
        // A word's bytes in the file are little-endian.
        words.iter_mut().for_each(|word| *word = word.to_le());
        let whole = back.next_multiple_of(BLOCK_BYTES);
        self.buf[back..whole].fill(0);
        self.count(base, stop);

        let write = Write { offset: log.space.offset(base)?, bytes: &self.buf[..whole] };
        // Both at once, unless the ring's room is wanted in between.
        let in_ring = (to - log.ring.retired()) as usize;
        let syncs = sync && stop == to && in_ring <= log.ring.bytes() / 2;
        let disk = log.space.disk();
        if syncs { disk.write_and_sync(&[write]) } else { disk.write(&[write]) }
            .map_err(|source| log.space.failed("writing the log", source))?;
        self.usage.bytes_written += whole as u64;

        // The block that is not full comes to the front.
        let partial = back / BLOCK_BYTES * BLOCK_BYTES;
        if partial > 0 {
            self.buf.copy_within(partial..whole, 0);
        }
        self.end = stop;
        Ok(syncs)
    }

    /// Counts the records that begin in the buffer, which holds the stream from `base` to `stop`.
    fn count(&mut self, base: u64, stop: u64) {
        while self.uncounted < stop {
            let at = (self.uncounted - base) as usize;
            // A record is copied, so its length is right.
            let word = u64::from_le(self.buf.as_words()[at / 8]);
            self.uncounted += word & u64::from(u32::MAX);
            self.usage.records += 1;
        }
    }

    /// Gives the ring's room back, as far as it is written and visible.
    fn retire(&mut self, log: &Log) {
        // The ring's own mark: a commit that was given up has been marked as well.
        let to = self.end.min(log.ring.visible());
        if to <= log.ring.retired() {
            return;
        }
        // Relaxed: L-d.
        if log.watched.load(Relaxed) {
            self.hand_on(log, to);
        }
        log.ring.retire(to);
    }

    /// Hands the records below `to` to the consumer.
    #[cold]
    fn hand_on(&mut self, log: &Log, to: u64) {
        let Some(consumer) = &mut self.consumer else { return };
        let mut lsn = log.ring.retired();
        let mut words = [0; 512];
        while lsn < to {
            let head = &mut words[..HEADER_BYTES / 8];
            log.ring.read(lsn, head);
            let mut bytes = [0; HEADER_BYTES];
            for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(head.iter()) {
                *place = word.to_le_bytes();
            }
            let header = Header::decode(&bytes);
            self.record.clear();
            let mut at = lsn + HEADER_BYTES as u64;
            while at < header.end() {
                let left = ((header.end() - at) / 8) as usize;
                let piece = &mut words[..left.min(512)];
                log.ring.read(at, piece);
                self.record.extend(piece.iter().flat_map(|word| word.to_le_bytes()));
                at += 8 * piece.len() as u64;
            }
            if let Some(kind) = RecordKind::from_code(header.kind) {
                consumer(Retired { lsn, kind, ops: &self.record[..header.ops_len()] });
            }
            lsn = header.end();
        }
    }
}
