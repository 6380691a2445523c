//! What an engine can do, as the experiments ask for it.
//!
//! What it is for: the command `kv`, and any workload that is to run on more than latchkv. What it is not: a
//! complete interface to any engine.
//!
//! ```text
//! Store    writes: one commit a record, one for many, bulk load, removal, retain; compaction; closing
//!   reader() -> Reader   the engine's quickest way to read now; for LMDB and redb a transaction
//!   pin()    -> Reader   one state of the store for as long as it is kept
//! Source   what an engine implements to be a Reader: a look-up and a scan, both generic
//! ```
//!
//! Most calls are made once for a round of work, so that no call through the trait is timed with an operation;
//! `put`, `change`, and a `reader` for one `see` or `scan`, are there for mixes of operations, and cost every engine
//! such a call or two and, for a reader, a piece of memory. Records come from an
//! iterator, which costs every engine the same.
//!
//! Commits are durable, or not, as the store was opened ([`Setup::durable`]): each engine's [`Ways`] say by which
//! setting. Tested with `kind`: all engines agree on the contents after the same work.

use super::Touch;
use crate::Fail;
use crate::data::{Key, Record};
use crate::latency::histogram;
use hdrhistogram::Histogram;
use std::time::Instant;

/// Records of a commit where the experiment does not say how many.
pub(crate) const BATCH_RECORDS: usize = 1000;

/// Records, one after the other.
pub(crate) type Records<'a> = dyn Iterator<Item = Record> + 'a;
/// Keys, one after the other.
pub(crate) type Keys<'a> = dyn Iterator<Item = Key> + 'a;
/// Sees a key and its value.
pub(crate) type See<'a> = dyn FnMut(&[u8], &[u8]) + 'a;
/// Whether the record of a key is to stay.
pub(crate) type Keep<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Memory for pages or blocks, where the engine has such a cache of its own.
    pub(crate) cache_bytes: u64,
    /// A commit that returns is on the medium. Otherwise the engine makes it durable when it likes.
    pub(crate) durable: bool,
    /// The log is not made obsolete while it is written: what opening replays then has a known length.
    pub(crate) keep_log: bool,
    /// Every sync is a system call of its own, so that they can be counted.
    pub(crate) plain_syncs: bool,
}

/// By which means of its own an engine does what is asked, in words for the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// How a commit is durable.
    pub(crate) durable: &'static str,
    /// Whether that reaches the medium, past the cache of the device.
    pub(crate) to_medium: bool,
    /// How records that are sorted are loaded into an empty store.
    pub(crate) load: &'static str,
    /// How records are removed by a predicate.
    pub(crate) retain: &'static str,
    /// What is called to compact, if there is anything.
    pub(crate) compact: Option<&'static str>,
    /// How records are counted.
    pub(crate) len: &'static str,
    /// Whose memory pages or blocks are cached in.
    pub(crate) cache: &'static str,
}

/// The engine has nothing of the kind that was asked for. Not a failure: the row is left empty.
#[derive(Debug)]
pub(crate) struct Lacks(pub(crate) &'static str);

impl std::fmt::Display for Lacks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Lacks {}

/// What an engine gives to read from.
pub(crate) trait Source {
    /// Sees the value of `key`, if there is one.
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail>;

    /// Sees up to `take` records, in ascending order from `start` on.
    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail>;
}

/// A way to read, for the thread that asked for it.
pub(crate) trait Reader {
    /// Sees the value of `key`. False: there is none.
    fn see(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Fail>;

    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let mut copy = None;
        self.see(key, &mut |value| copy = Some(value.to_vec()))?;
        Ok(copy)
    }

    /// Sees up to `take` records, in ascending order from `start` on.
    fn scan(&self, start: &[u8], take: usize, see: &mut See<'_>) -> Result<(), Fail>;

    /// Reads the values of `keys` and sums over them. A key that is absent is an error.
    fn reads(&self, keys: &[Key], touch: Touch) -> Result<u64, Fail>;

    /// From each of `starts` on reads up to `take` records and sums over keys and values.
    fn ranges(&self, starts: &[Key], take: usize, touch: Touch) -> Result<u64, Fail>;
}

impl<S: Source> Reader for S {
    fn see(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Fail> {
        Ok(self.get_with(key, see)?.is_some())
    }

    fn scan(&self, start: &[u8], take: usize, see: &mut See<'_>) -> Result<(), Fail> {
        self.scan_with(start, take, see)
    }

    fn reads(&self, keys: &[Key], touch: Touch) -> Result<u64, Fail> {
        let mut sum = 0_u64;
        for key in keys {
            match self.get_with(key, |value| touch.sum(value))? {
                Some(part) => sum = sum.wrapping_add(part),
                None => return Err(format!("key {} is absent", key.escape_ascii()).into()),
            }
        }
        Ok(sum)
    }

    fn ranges(&self, starts: &[Key], take: usize, touch: Touch) -> Result<u64, Fail> {
        let mut sum = 0_u64;
        for start in starts {
            self.scan_with(start, take, |key, value| {
                sum = sum.wrapping_add(touch.sum(key)).wrapping_add(touch.sum(value));
            })?;
        }
        Ok(sum)
    }
}

/// An open store. Several threads may use it at once.
pub(crate) trait Store: Send + Sync {
    /// Loads sorted records into the store, which is empty, by the engine's quickest way. Durable afterwards.
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail>;

    /// Puts a record, in a commit of its own.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail>;

    /// Reads the value of `key`, changes it and puts it back: in one transaction, where the engine has them. Says
    /// whether there was one.
    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail>;

    /// Puts all records in one commit.
    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail>;

    /// Removes all keys, which must be there, in one commit.
    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail>;

    /// Removes all records but those whose keys are to be kept, in one commit.
    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail>;

    /// Puts each record in a commit of its own.
    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.put(&key, &value)?;
        }
        Ok(())
    }

    /// Puts the records, `batch` to a commit.
    fn put_batches(&self, records: &mut Records<'_>, batch: usize) -> Result<(), Fail> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.put_all(&mut records.by_ref().take(batch))?;
        }
        Ok(())
    }

    /// Puts the records in commits that make the longest log, of which only the last need be durable. An
    /// engine whose commits are all durable, or that has no log, takes [`BATCH_RECORDS`] a commit.
    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.put_batches(records, BATCH_RECORDS)
    }

    /// Number of records, exactly.
    fn len(&self) -> Result<u64, Fail> {
        let mut records = 0;
        self.reader()?.scan(&[], usize::MAX, &mut |_, _| records += 1)?;
        Ok(records)
    }

    /// The quickest way to read.
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail>;

    /// One state of the store. No other reader of the same thread may be there meanwhile.
    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail>;

    /// Begins readers of one state, one after the other, until `until`. Gives the nanoseconds that beginning
    /// one took.
    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail>;

    /// Makes the files as small as the engine can, and closes the store.
    fn compact(self: Box<Self>) -> Result<(), Fail>;

    /// Closes the store.
    fn close(self: Box<Self>) -> Result<(), Fail>;
}

/// What [`Store::begins`] does, for an engine that begins a reader by `begin`.
pub(super) fn time_begins<R>(
    until: Instant,
    mut begin: impl FnMut() -> Result<R, Fail>,
) -> Result<Histogram<u64>, Fail> {
    let mut times = histogram();
    loop {
        let before = Instant::now();
        let reader = begin()?;
        let after = Instant::now();
        times.saturating_record((after - before).as_nanos() as u64);
        drop(reader);
        if after >= until {
            return Ok(times);
        }
    }
}
