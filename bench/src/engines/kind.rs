//! The engines of this build: their names, and how each is opened.
//!
//! Tested here: all engines come to the same contents by the same work, what each committed is there when it is opened
//! again, and what it removed is not.

use super::ours;
#[cfg(feature = "peer-rocksdb")]
use super::rocksdb;
use super::store::{Setup, Store, Ways};
#[cfg(feature = "peers")]
use super::{fjall, lmdb, redb, sled};
use crate::Fail;
use std::path::Path;

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
    /// sled
    #[cfg(feature = "peers")]
    Sled,
    /// RocksDB, by rust-rocksdb
    #[cfg(feature = "peer-rocksdb")]
    Rocksdb,
}

impl Kind {
    /// All engines of this build, latchkv first.
    pub(crate) const ALL: &[Kind] = &[
        Kind::Latchkv,
        #[cfg(feature = "peers")]
        Kind::Lmdb,
        #[cfg(feature = "peers")]
        Kind::Redb,
        #[cfg(feature = "peers")]
        Kind::Fjall,
        #[cfg(feature = "peers")]
        Kind::Sled,
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
            #[cfg(feature = "peers")]
            Kind::Sled => "sled",
            #[cfg(feature = "peer-rocksdb")]
            Kind::Rocksdb => "rocksdb",
        }
    }

    /// How it does what is asked.
    pub(crate) fn ways(self) -> Ways {
        match self {
            Kind::Latchkv => ours::WAYS,
            #[cfg(feature = "peers")]
            Kind::Lmdb => lmdb::WAYS,
            #[cfg(feature = "peers")]
            Kind::Redb => redb::WAYS,
            #[cfg(feature = "peers")]
            Kind::Fjall => fjall::WAYS,
            #[cfg(feature = "peers")]
            Kind::Sled => sled::WAYS,
            #[cfg(feature = "peer-rocksdb")]
            Kind::Rocksdb => rocksdb::WAYS,
        }
    }

    /// Opens the store in the directory `path`, which is made if it is not there.
    pub(crate) fn open(self, path: &Path, setup: Setup) -> Result<Box<dyn Store>, Fail> {
        std::fs::create_dir_all(path)?;
        Ok(match self {
            Kind::Latchkv => Box::new(ours::Ours::of(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Lmdb => Box::new(lmdb::Lmdb::open(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Redb => Box::new(redb::Redb::open(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Fjall => Box::new(fjall::Fjall::open(path, setup)?),
            #[cfg(feature = "peers")]
            Kind::Sled => Box::new(sled::Sled::open(path, setup)?),
            #[cfg(feature = "peer-rocksdb")]
            Kind::Rocksdb => Box::new(rocksdb::Rocks::open(path, setup)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::engines::Touch;
    use crate::engines::store::{Lacks, Records};
    use std::time::{Duration, Instant};

    const DATA: Data = Data { seed: 3, records: 60 };
    const DURABLE: Setup =
        Setup { cache_bytes: 8 << 20, durable: true, keep_log: false, plain_syncs: true };

    type Contents = Vec<(Vec<u8>, Vec<u8>)>;

    /// Does `work` on a store of each engine, opens it again, and gives it to `check`.
    fn each(setup: Setup, work: impl Fn(Kind, Box<dyn Store>), check: impl Fn(Kind, &dyn Store)) {
        for &kind in Kind::ALL {
            let dir = tempfile::tempdir().expect("a directory");
            work(kind, kind.open(dir.path(), setup).expect("a new store"));
            let store = kind.open(dir.path(), setup).expect("the store again");
            check(kind, &*store);
            store.close().expect("closed");
        }
    }

    fn contents(store: &dyn Store) -> Contents {
        let mut contents = Vec::new();
        let mut see = |key: &[u8], value: &[u8]| contents.push((key.to_vec(), value.to_vec()));
        store.reader().expect("a reader").scan(&[], usize::MAX, &mut see).expect("a scan");
        contents
    }

    /// What is to be found if the records have these versions.
    fn expected(records: impl Iterator<Item = (u64, u64)>) -> Contents {
        let mut expected: Contents = records
            .map(|(at, version)| (DATA.key(at).to_vec(), DATA.value(at, version).to_vec()))
            .collect();
        expected.sort();
        expected
    }

    fn put(store: &dyn Store, numbers: impl Iterator<Item = u64>) {
        store.put_all(&mut numbers.map(|at| DATA.record(at, 0))).expect("a commit");
    }

    #[test]
    fn what_was_committed_is_there_after_opening_again_and_what_was_removed_is_not() {
        each(
            DURABLE,
            |_, store| {
                put(&*store, 0..40);
                store.put_each(&mut (30..50).map(|at| DATA.record(at, 1))).expect("commits");
                store.put_batches(&mut (50..60).map(|at| DATA.record(at, 0)), 3).expect("commits");
                store.remove_all(&mut (0..20).map(|at| DATA.key(at))).expect("a commit");
                store.close().expect("closed");
            },
            |kind, store| {
                let version = |at| u64::from((30..50).contains(&at));
                let expected = expected((20..60).map(|at| (at, version(at))));
                assert_eq!(contents(store), expected, "{}", kind.name());
                assert_eq!(store.len().expect("a length"), 40, "{}", kind.name());
            },
        );
    }

    #[test]
    fn commits_that_are_not_durable_are_there_after_closing() {
        each(
            Setup { durable: false, ..DURABLE },
            |_, store| {
                put(&*store, 0..10);
                store.put_each(&mut (10..20).map(|at| DATA.record(at, 0))).expect("commits");
                store.close().expect("closed");
            },
            |kind, store| {
                assert_eq!(contents(store), expected((0..20).map(|at| (at, 0))), "{}", kind.name());
            },
        );
    }

    #[test]
    fn a_sorted_load_holds_what_puts_in_random_order_hold() {
        each(
            DURABLE,
            |_, store| {
                let sorted = DATA.sorted();
                let mut records = sorted.iter().map(|&(key, at)| (key, DATA.value(at, 0)));
                store.load_sorted(&mut records).expect("a load");
                store.close().expect("closed");
            },
            |kind, store| {
                assert_eq!(contents(store), expected((0..60).map(|at| (at, 0))), "{}", kind.name());
            },
        );
    }

    #[test]
    fn retain_and_compaction_leave_the_records_that_were_to_be_kept() {
        let keep = |key: &[u8]| key[23].is_multiple_of(3);
        each(
            DURABLE,
            |_, store| {
                put(&*store, 0..60);
                store.retain(&keep).expect("a commit");
                match store.compact() {
                    Ok(()) => {}
                    Err(error) => assert!(error.is::<Lacks>(), "{error}"),
                }
            },
            |kind, store| {
                let kept = (0..60).filter(|&at| keep(&DATA.key(at)));
                assert_eq!(contents(store), expected(kept.map(|at| (at, 0))), "{}", kind.name());
            },
        );
    }

    #[test]
    fn a_change_is_of_the_value_that_is_there() {
        each(
            DURABLE,
            |_, store| {
                put(&*store, 0..2);
                let (first, absent) = (DATA.key(0), DATA.key(2));
                let mut change = |value: &mut Vec<u8>| value[149] = value[149].wrapping_add(1);
                assert!(store.change(&first, &mut change).expect("a commit"));
                assert!(!store.change(&absent, &mut change).expect("nothing to change"));
                store.close().expect("closed");
            },
            |kind, store| {
                let mut expected = DATA.value(0, 0).to_vec();
                expected[149] = expected[149].wrapping_add(1);
                let reader = store.reader().expect("a reader");
                let get = |at| reader.get(&DATA.key(at)).expect("a look-up");
                assert_eq!(get(0), Some(expected), "{}", kind.name());
                assert_eq!(get(1), Some(DATA.value(1, 0).to_vec()), "{}", kind.name());
                assert_eq!(get(2), None, "{}", kind.name());
            },
        );
    }

    #[test]
    fn a_pinned_reader_sees_what_was_there_when_it_was_pinned() {
        each(
            DURABLE,
            |_, store| {
                put(&*store, 0..30);
                let pinned = match store.pin() {
                    Ok(pinned) => pinned,
                    Err(error) => {
                        assert!(error.is::<Lacks>(), "{error}");
                        put(&*store, 30..60);
                        return;
                    }
                };
                store.put_all(&mut (0..60).map(|at| DATA.record(at, 1))).expect("a commit");
                let get = |at| pinned.get(&DATA.key(at)).expect("a look-up");
                assert_eq!(get(0), Some(DATA.value(0, 0).to_vec()));
                assert_eq!(get(30), None);
                let mut seen = 0;
                pinned.scan(&[], usize::MAX, &mut |_, _| seen += 1).expect("a scan");
                assert_eq!(seen, 30);
            },
            |kind, store| assert_eq!(store.len().expect("a length"), 60, "{}", kind.name()),
        );
    }

    #[test]
    fn all_engines_come_to_the_same_sums() {
        let sums = std::cell::RefCell::new(Vec::new());
        each(
            DURABLE,
            |_, store| {
                put(&*store, 0..60);
                store.close().expect("closed");
            },
            |_, store| {
                let (reader, keys) = (store.reader().expect("a reader"), DATA.probes(1, 40));
                let reads = reader.reads(&keys, Touch::All).expect("reads");
                let ranges = reader.ranges(&keys, 7, Touch::Ends).expect("ranges");
                assert!(reader.reads(&[DATA.key(60)], Touch::All).is_err());
                sums.borrow_mut().push((reads, ranges));
            },
        );
        let sums = sums.into_inner();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    }

    #[test]
    fn what_filled_the_log_is_there_after_opening_again() {
        each(
            Setup { keep_log: true, ..DURABLE },
            |_, store| {
                store.fill_log(&mut (0..60).map(|at| DATA.record(at, 0))).expect("commits");
                store.close().expect("closed");
            },
            |kind, store| {
                assert_eq!(contents(store), expected((0..60).map(|at| (at, 0))), "{}", kind.name());
            },
        );
    }

    #[test]
    fn writers_on_several_threads_lose_nothing() {
        each(
            DURABLE,
            |_, store| {
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
                store.close().expect("closed");
            },
            |kind, store| assert_eq!(store.len().expect("a length"), 60, "{}", kind.name()),
        );
    }

    #[test]
    fn at_least_one_reader_begins_even_if_time_is_up() {
        each(
            DURABLE,
            |kind, store| {
                match store.begins(Instant::now() - Duration::from_millis(1)) {
                    Ok(times) => assert_eq!(times.len(), 1, "{}", kind.name()),
                    Err(error) => assert!(error.is::<Lacks>(), "{error}"),
                }
                store.close().expect("closed");
            },
            |_, _| {},
        );
    }
}
