//! The engines as stores whose commits are durable, under one trait.
//!
//! What it is for: the command `commit`. What it is not: a way to read fast; [`Engine`](super::Engine) is that.
//!
//! A *commit* has reached the medium when it returns: [`Durable::how`] says by which setting of the engine.
//! The trait is called once for many commits, or for a commit of many records, so that no call through it is
//! timed with an operation. Records come from an iterator, which costs every engine the same.
//!
//! Tested here: what each engine committed is there when it is opened again, and what it removed is not.

mod ours;
#[cfg(feature = "peers")]
mod fjall;
#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peer-rocksdb")]
mod rocksdb;

use crate::Fail;
use crate::data::{Key, Record};
use crate::latency::histogram;
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::Instant;

/// Records of a commit where the experiment does not say how many.
pub(crate) const BATCH_RECORDS: usize = 1000;

/// Records, one after the other.
pub(crate) type Records<'a> = dyn Iterator<Item = Record> + 'a;

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Memory for pages or blocks, where the engine has such a cache of its own.
    pub(crate) cache_bytes: u64,
    /// The log is not made obsolete while it is written: what opening replays then has a known length.
    pub(crate) keep_log: bool,
    /// Every sync is a system call of its own, so that they can be counted.
    pub(crate) plain_syncs: bool,
}

/// An open store whose commits are durable. Several threads may use it at once.
pub(crate) trait Durable: Send + Sync {
    /// The setting by which a commit is durable, in words.
    fn how(&self) -> &'static str;

    /// Puts each record in a commit of its own.
    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail>;

    /// Puts all records in one commit.
    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail>;

    /// Removes all keys, which must be there, in one commit.
    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail>;

    /// Puts the records in commits that make the longest log, of which only the last need be durable. An
    /// engine whose commits are all durable, or that has no log, takes [`BATCH_RECORDS`] a commit.
    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.put_batches(records, BATCH_RECORDS)
    }

    /// Puts the records, `batch` to a commit.
    fn put_batches(&self, records: &mut Records<'_>, batch: usize) -> Result<(), Fail> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.put_all(&mut records.by_ref().take(batch))?;
        }
        Ok(())
    }

    /// Begins readers, one after the other, until `until`. Gives the nanoseconds that beginning one took.
    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail>;

    /// The value of `key`.
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail>;

    /// Closes the store.
    fn close(self: Box<Self>) -> Result<(), Fail>;
}

/// What [`Durable::begins`] does, for an engine that begins a reader by `begin`.
fn time_begins<R>(
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

/// An engine of this build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Kind {
    /// latchkv
    Latchkv,
    /// LMDB, by heed
    #[cfg(feature = "peers")]
    Lmdb,
    /// redb
    #[cfg(feature = "peers")]
    Redb,
    /// fjall
    #[cfg(feature = "peers")]
    Fjall,
    /// RocksDB, by rust-rocksdb
    #[cfg(feature = "peer-rocksdb")]
    Rocksdb,
}

impl Kind {
    /// All engines of this build, the one to compare with first.
    pub(crate) const ALL: &[Kind] = &[
        Kind::Latchkv,
        #[cfg(feature = "peers")]
        Kind::Lmdb,
        #[cfg(feature = "peers")]
        Kind::Redb,
        #[cfg(feature = "peers")]
        Kind::Fjall,
        #[cfg(feature = "peer-rocksdb")]
        Kind::Rocksdb,
    ];

    /// What it is called, in reports and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Latchkv => "latchkv",
            #[cfg(feature = "peers")]
            Kind::Lmdb => "lmdb",
            #[cfg(feature = "peers")]
            Kind::Redb => "redb",
            #[cfg(feature = "peers")]
            Kind::Fjall => "fjall",
            #[cfg(feature = "peer-rocksdb")]
            Kind::Rocksdb => "rocksdb",
        }
    }

    /// Opens the store in the directory `path`, which is made if it is not there.
    pub(crate) fn open(self, path: &Path, setup: Setup) -> Result<Box<dyn Durable>, Fail> {
        std::fs::create_dir_all(path)?;
        Ok(match self {
            Kind::Latchkv => Box::new(ours::Ours::open(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Lmdb => Box::new(lmdb::Lmdb::open(path)?),
            #[cfg(feature = "peers")]
            Kind::Redb => Box::new(redb::Redb::open(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Fjall => Box::new(fjall::Fjall::open(path, setup)?),
            #[cfg(feature = "peer-rocksdb")]
            Kind::Rocksdb => Box::new(rocksdb::Rocks::open(path, setup)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use std::time::Duration;

    const DATA: Data = Data { seed: 3, records: 60 };

    fn setup(keep_log: bool) -> Setup {
        Setup { cache_bytes: 8 << 20, keep_log, plain_syncs: true }
    }

    fn expect(store: &dyn Durable, at: u64, version: Option<u64>) {
        let found = store.get(&DATA.key(at)).expect("a look-up");
        assert_eq!(found, version.map(|version| DATA.value(at, version).to_vec()), "record {at}");
    }

    #[test]
    fn what_was_committed_is_there_after_opening_again_and_what_was_removed_is_not() {
        for &kind in Kind::ALL {
            let dir = tempfile::tempdir().expect("a directory");
            let store = kind.open(dir.path(), setup(false)).expect("a new store");
            store.put_all(&mut (0..40).map(|at| DATA.record(at, 0))).expect("a commit");
            store.put_each(&mut (30..50).map(|at| DATA.record(at, 1))).expect("commits");
            store.put_batches(&mut (50..60).map(|at| DATA.record(at, 0)), 3).expect("commits");
            store.remove_all(&mut (0..20).map(|at| DATA.key(at))).expect("a commit");
            store.close().expect("closed");

            let store = kind.open(dir.path(), setup(false)).expect("the store again");
            for at in 0..60 {
                let version = match at {
                    0..20 => None,
                    30..50 => Some(1),
                    _ => Some(0),
                };
                expect(&*store, at, version);
            }
            store.close().expect("closed");
        }
    }

    #[test]
    fn what_filled_the_log_is_there_after_opening_again() {
        for &kind in Kind::ALL {
            let dir = tempfile::tempdir().expect("a directory");
            let store = kind.open(dir.path(), setup(true)).expect("a new store");
            store.fill_log(&mut (0..60).map(|at| DATA.record(at, 0))).expect("commits");
            store.close().expect("closed");
            let store = kind.open(dir.path(), setup(true)).expect("the store again");
            (0..60).for_each(|at| expect(&*store, at, Some(0)));
            store.close().expect("closed");
        }
    }

    #[test]
    fn writers_on_several_threads_lose_nothing() {
        for &kind in Kind::ALL {
            let dir = tempfile::tempdir().expect("a directory");
            let store = kind.open(dir.path(), setup(false)).expect("a new store");
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let store = &*store;
                    let mut mine = (0..60).filter(move |at| at % 4 == thread);
                    scope.spawn(move || {
                        let records: &mut Records<'_> =
                            &mut mine.by_ref().map(|at| DATA.record(at, 0));
                        store.put_each(records).expect("commits");
                    });
                }
            });
            (0..60).for_each(|at| expect(&*store, at, Some(0)));
            store.close().expect("closed");
        }
    }

    #[test]
    fn at_least_one_reader_begins_even_if_time_is_up() {
        for &kind in Kind::ALL {
            let dir = tempfile::tempdir().expect("a directory");
            let store = kind.open(dir.path(), setup(false)).expect("a new store");
            let times = store.begins(Instant::now() - Duration::from_millis(1)).expect("a reader");
            assert_eq!(times.len(), 1, "{}", kind.name());
            store.close().expect("closed");
        }
    }
}
