//! The log: what was committed since the last checkpoint, in order, on disk before it is acknowledged.
//!
//! What it is: one file, a stream of bytes in it whose positions are the commits' timestamps, the memory that
//! the next of them are copied to, and the protocol by which many threads make theirs durable together. What
//! it is not: it knows no trees and no pages, and what a record holds means nothing to it (`ops` alone knows
//! how an operation is spelled, for those above).
//!
//! ```text
//!   commit   reserve ---> copy ---> applied ------> wait(end, level)
//!               |          |           |                |
//!            [ LogRing: tail, marks, visible, limit ]   |        memory, by lsn
//!                          |                            v
//!                       flush  <------------------- turn: one leads for all
//!                          |
//!            [ slot | slot | slot | slot ]                       disk, space
//!                          |
//!   open     recover: headers -> runs -> records, to the first that is not whole
//! ```
//!
//! The parts, in order of descent:
//!
//! | file | what |
//! |---|---|
//! | `reserve` | from the room for a record to its application |
//! | `turn` | who leads, who follows, who is woken |
//! | `flush` | writing what was copied, syncing it, letting go of its memory |
//! | `space` | which slots hold what, adding, recycling and releasing them |
//! | `recover` | from the headers to the last whole record, and to the next run |
//! | `damage` | whether what follows the last whole record says that more was synced |
//! | `stream` | the bytes of the stream, out of the slots |
//! | `slots` | geometry, and the header of a slot |
//! | `record` | bytes of one record |
//! | `ops` | bytes of one operation |
//!
//! # Invariants
//!
//! - \[W1] A record is acknowledged as durable only after a sync that returned success, and that was called
//!   after the write of the record, and of every record before it, had returned.
//! - \[W2] After a write or sync that failed nothing is written or synced any more. The failed call is not
//!   repeated; the first cause is kept.
//! - \[W3] A slot is written only if it holds records of the current run, or none that a checkpoint is not
//!   past ([`Log::release`]).
//! - \[W4] A run's first slot header is synced before any record of the run is written. A run is what one
//!   opening of the log writes; it has a salt of its own, which seeds the checks of its records, and it says
//!   where the run before it was found to end.
//! - \[W5] What a record or header claims to be synced was synced before it was written.
//! - \[W6] Blocks are written by whoever leads, except those of a slot that no lsn below the ring's limit
//!   lies in, which are written by whoever prepares it.
//!
//! From \[W4] follows that what a crash left of an earlier run never continues a later one: its checks have
//! another seed. And reading finds its way from run to run: where one ends, the next says so.
//!
//! # Orderings
//!
//! The ring has its own table. Here:
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[L-a] | flush: `written`, `durable` Release | `wait` Acquire | what the caller does next comes after the flush | nothing in memory hangs on it; kept for callers |
//! | \[L-b] | `synced` Relaxed | copy Relaxed | \[W5]: any value it ever had is true | |
//! | \[L-c] | `frozen` Relaxed, then mark applied (Release in the ring) | `visible`: ring Acquire, then `frozen` Relaxed | who sees the record applied sees the stop before it | half a commit visible |
//! | \[L-d] | `watched` Relaxed under the flusher's lock | the flusher, under the same lock | | |
//! | \[L-e] | `granted` Relaxed | reserve Relaxed | a hint which of two limits was met; the ring's own limit decides | |
//! | \[L-f] | `held_from` Relaxed under the lock of the turn, before the held record is copied | `wait`, after `written` Acquire | who sees it written sees it held, by the ring and L-a | a commit behind a Fill acknowledged that a crash of the process takes back |
//!
//! Order of locks: preparing, places; turn alone or below flusher; flusher, places. Nobody waits for a record to
//! be applied while it holds one, and for one to be copied only the leader does, for a moment, with the
//! flusher's alone.
//!
//! Tested in `tests`: round trips, every cut and flip of the last record, damage before a synced place,
//! stale slots, failures at every call, crash images of concurrent histories.

mod reserve;
mod turn;
mod flush;
mod space;
mod recover;
mod damage;
mod stream;
mod slots;
mod record;
pub(crate) mod ops;
#[cfg(test)]
mod tests;

pub(crate) use flush::Retired;
pub(crate) use record::RecordKind;
pub(crate) use recover::Recovering;
pub(crate) use reserve::{Applying, Reserved};

use crate::error::{Error, Result, Usage};
use crate::io::Disk;
use flush::Flusher;
use latchkv_latch::LogRing;
use latchkv_latch::primitives::Ordering::{Acquire, Relaxed};
use latchkv_latch::primitives::{AtomicBool, AtomicU64};
use record::{HEADER_BYTES, RECORD_BYTES_MAX};
use slots::{SLOT_BYTES_MAX, SLOT_BYTES_MIN};
use space::Space;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use turn::Turn;

/// lsns are below this: they have 48 bits.
const LSN_END: u64 = 1 << 48;
/// Least memory for records that are not written yet.
const BUFFER_BYTES_MIN: usize = 64 << 10;
/// Greatest memory for records that are not written yet.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// What a commit waits for before it is acknowledged.
///
/// Whatever the level, commits become visible to others in one order, and a crash keeps a prefix of that
/// order: no commit survives one that it may have read from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Durability {
    /// For nothing. A crash of the process may take back the commits of the last tens of milliseconds, a power
    /// cut more of them.
    None,
    /// Until the operating system has it: survives a crash of the process, not a power cut.
    Buffered,
    /// Until the disk has it: survives a power cut. Commits of several threads share the syncs of the disk.
    #[default]
    Sync,
}

/// How a log is laid out and how much memory it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogOptions {
    /// Bytes of a slot of a file that is new: a power of two from 64 KiB to 1 GiB. A file that exists keeps
    /// its own.
    pub(crate) slot_bytes: u64,
    /// Memory for records that are not yet written, applied and handed on: from 64 KiB to 1 GiB, rounded up
    /// to a power of two.
    pub(crate) buffer_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { slot_bytes: 4 << 20, buffer_bytes: 8 << 20 }
    }
}

impl LogOptions {
    pub(crate) fn validate(self) -> Result<LogOptions> {
        let slot_fits = (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&self.slot_bytes);
        if !slot_fits || !self.slot_bytes.is_power_of_two() {
            return Err(Usage::BadOption {
                option: "log slot_bytes",
                actual: self.slot_bytes.to_string(),
                allowed: "a power of two from 64 KiB to 1 GiB".into(),
            }
            .into());
        }
        if !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&self.buffer_bytes) {
            return Err(Usage::BadOption {
                option: "log buffer_bytes",
                actual: self.buffer_bytes.to_string(),
                allowed: "64 KiB to 1 GiB".into(),
            }
            .into());
        }
        Ok(self)
    }
}

/// What the newest checkpoint says of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Anchor {
    /// It holds the commits below; 0 if it knew no log.
    pub(crate) lsn: u64,
    /// How long the file is at least, in bytes ([`Log::pledge`]); 0 = not said.
    pub(crate) file_bytes: u64,
}

/// What the log takes and has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogUsage {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Bytes from the last checkpoint to the end: what an opening after a crash would read.
    pub live_bytes: u64,
    /// End of what was reserved.
    pub tail: u64,
    /// All commits below are visible.
    pub visible: u64,
    /// All records below were given to the operating system.
    pub written: u64,
    /// All records below are synced, and acknowledged as that.
    pub durable: u64,
    /// Rounds of writing, since the log was opened as all that follows.
    pub flushes: u64,
    /// Syncs of the file.
    pub syncs: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written, whole blocks; new and recycled slots not counted.
    pub bytes_written: u64,
    /// Commits that had to wait for a flush.
    pub waits: u64,
}

/// The log of a database, open for writing. See the module head.
pub(crate) struct Log {
    ring: LogRing,
    space: Space,
    /// Seeds the checks of this run's records.
    salt: u64,
    record_bytes_max: u32,
    marks: Marks,
    /// End of the slots that are prepared \[L-e].
    granted: AtomicU64,
    /// The first commit that will never be wholly applied, or `u64::MAX` \[L-c].
    frozen: AtomicU64,
    /// The least lsn that is held, or `u64::MAX` \[L-f].
    held_from: AtomicU64,
    poison: OnceLock<Arc<Error>>,
    turn: Mutex<Turn>,
    /// Where the members of groups with even and with odd numbers wait.
    gathered: [Condvar; 2],
    /// Where those wait whose records lie above a place that is held.
    let_go: Condvar,
    flusher: Mutex<Flusher>,
    /// Whether anybody consumes retired records \[L-d].
    watched: AtomicBool,
}

/// How far the stream has come; read by every commit, so on a line apart from what it writes.
#[repr(align(128))]
#[derive(Debug)]
struct Marks {
    /// End of what was given to the operating system.
    written: AtomicU64,
    /// End of what is synced.
    synced: AtomicU64,
    /// End of what is synced and not held back; never above `synced`.
    durable: AtomicU64,
}

impl Log {
    /// Reads what is there, which may be nothing; writes nothing. `anchor` is what the newest checkpoint says of it.
    ///
    /// # Errors
    /// [`Usage::BadOption`]; [`Error::Io`]; [`Error::Open`] when the file is of another database or a newer
    /// program; [`Error::Corrupt`] when the place of the checkpoint is not in it.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        uuid: [u8; 16],
        anchor: Anchor,
        options: LogOptions,
    ) -> Result<Recovering> {
        Recovering::open(disk, path, uuid, anchor, options.validate()?)
    }

    /// A log that goes on at `start`, the first lsn of a run whose first slot is prepared and synced.
    fn start(space: Space, start: u64, salt: u64, buffer_bytes: usize) -> Log {
        let ring_bytes = buffer_bytes.next_power_of_two();
        let ring = LogRing::new(ring_bytes, start);
        let granted = space.granted();
        ring.set_limit(granted);
        Log {
            ring,
            salt,
            record_bytes_max: RECORD_BYTES_MAX.min((ring_bytes / 4) as u32),
            marks: Marks {
                written: AtomicU64::new(start),
                synced: AtomicU64::new(start),
                durable: AtomicU64::new(start),
            },
            granted: AtomicU64::new(granted),
            frozen: AtomicU64::new(u64::MAX),
            held_from: AtomicU64::new(u64::MAX),
            poison: OnceLock::new(),
            turn: Mutex::new(Turn::default()),
            gathered: [Condvar::new(), Condvar::new()],
            let_go: Condvar::new(),
            flusher: Mutex::new(Flusher::new(start, ring_bytes)),
            watched: AtomicBool::new(false),
            space,
        }
    }

    /// Greatest `ops_len` of [`Log::reserve`]: what a quarter of the buffer holds, at most 4 MiB less a header. A
    /// commit that is greater is split into `Part` records by the caller.
    pub(crate) fn ops_bytes_max(&self) -> u32 {
        self.record_bytes_max - HEADER_BYTES as u32
    }

    /// All commits with a smaller lsn are applied. Never passes a commit whose application was given up.
    #[inline]
    pub(crate) fn visible(&self) -> u64 {
        let visible = self.ring.visible();
        // Relaxed: L-c, and after the load above.
        visible.min(self.frozen.load(Relaxed))
    }

    /// Waits until everything with a smaller lsn is applied, void, or given up. The record at `lsn` itself, if
    /// it is the caller's, may be unfinished.
    pub(crate) fn wait_visible(&self, lsn: u64) {
        self.ring.wait_visible(lsn);
    }

    /// All records with a smaller lsn are synced, and the place is not above one that is held.
    pub(crate) fn durable(&self) -> u64 {
        // Acquire: L-a.
        self.marks.durable.load(Acquire)
    }

    /// All records with a smaller lsn were given to the operating system.
    pub(crate) fn written(&self) -> u64 {
        // Acquire: L-a.
        self.marks.written.load(Acquire)
    }

    /// End of what was reserved: the next record's lsn.
    pub(crate) fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// The first failure, if there was one: then nothing is written any more.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    #[inline]
    pub(crate) fn health(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: Arc::clone(cause) }),
        }
    }

    /// Stops all writing: something failed that leaves the state on disk, or in memory, unknown. Keeps the
    /// first cause and gives the error that everybody gets from now on.
    #[cold]
    pub(crate) fn poison(&self, cause: Error) -> Error {
        let cause = match cause {
            Error::Poisoned { cause } => cause,
            cause => Arc::new(cause),
        };
        let cause = Arc::clone(self.poison.get_or_init(|| cause));
        // Under the lock, so that nobody who looked before it waits after it.
        let turn = self.turn();
        self.gathered.iter().chain([&self.let_go]).for_each(Condvar::notify_all);
        drop(turn);
        Error::Poisoned { cause }
    }

    /// For a checkpoint at `checkpoint_lsn`, up to which all is synced: how long the file is at least, in bytes, as it
    /// is durable. It is not cut shorter before the [`Log::release`] of a greater lsn; so if it is found shorter, it was
    /// not the log or a crash that cut it.
    pub(crate) fn pledge(&self, checkpoint_lsn: u64) -> u64 {
        self.space.pledge(checkpoint_lsn)
    }

    /// Slots that lie wholly below the checkpoint are free for use again, and if more than a few are, the end
    /// of the file is cut. To be called when the superblock that names `checkpoint_lsn` is durable.
    pub(crate) fn release(&self, checkpoint_lsn: u64) {
        // Relaxed: L-b. A checkpoint is never above what is synced; if one were, its slots stay.
        self.space.release(checkpoint_lsn.min(self.marks.synced.load(Relaxed)));
    }

    /// What the log takes and has done.
    pub(crate) fn stats(&self) -> LogUsage {
        let (mut usage, waits) = {
            let turn = self.turn();
            (turn.usage, turn.waits)
        };
        let (file_bytes, released) = self.space.usage();
        usage.file_bytes = file_bytes;
        usage.tail = self.tail();
        usage.live_bytes = usage.tail.saturating_sub(released);
        usage.visible = self.visible();
        usage.written = self.written();
        usage.durable = self.durable();
        usage.waits = waits;
        usage
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("tail", &self.tail())
            .field("marks", &self.marks)
            .field("poison", &self.poison.get())
            .finish_non_exhaustive()
    }
}
