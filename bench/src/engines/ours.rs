//! latchkv. As a [`Store`], a single put is a put outside of a transaction; all else are transactions.
//!
//! Experiments on latchkv alone open it by options of their own ([`load`], [`Ours::open`]) and reach what is inside.

use super::store::{Keep, Keys, Reader, Records, Setup, Source, Store, Ways, time_begins};
use crate::Fail;
use crate::data::{Data, Key};
use crate::report::{Report, file_bytes};
use hdrhistogram::Histogram;
use latchkv::{Backend, Db, Durability, Options, Snapshot, Tree, WriteBatch};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Name of the tree.
const TREE: &str = "bench";

/// How latchkv does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "Durability::Sync: fdatasync of the log",
    to_medium: true,
    load: "Tree::bulk_load",
    retain: "scan, and removals in one transaction",
    compact: Some("Tree::rebuild and a checkpoint, twice: the file shrinks only at its end"),
    len: "kept by the engine",
    cache: "its own",
};

/// An open database and its only tree.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) name: String,
    pub(crate) db: Db,
    pub(crate) tree: Tree,
}

/// The order in which records come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Sorted first, then bulk loaded.
    Sorted,
    /// One by one as they come, that is at random.
    Random,
}

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// For reading and writing.
    Write,
    /// For reading, so that it can be open more than once.
    Read,
}

/// How a database was filled, and what came of it.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What was loaded, in words.
    pub(crate) how: String,
    /// From the first record to a durable, closed file, in seconds; sorting, where it is done, included.
    pub(crate) seconds: f64,
    /// Bytes of the whole directory afterwards.
    pub(crate) file_bytes: u64,
}

impl Loaded {
    /// Prints a line and keeps the same.
    pub(crate) fn tell(&self, data: &Data, report: &mut Report) -> Result<(), Fail> {
        let Loaded { how, seconds, file_bytes } = self;
        let over = *file_bytes as f64 / data.raw_bytes() as f64;
        let rate = data.records as f64 / seconds;
        let times = if report.tells_times() {
            format!("{seconds:>8.2} s {rate:>10.0} records/s")
        } else {
            String::new()
        };
        println!("  {how:<34}{times} {file_bytes:>12} bytes, x{over:.3} of the raw data");
        report.facts(
            json!({ "load": how, "file_bytes": file_bytes, "file_over_raw": over }),
            json!({ "seconds": seconds, "records_per_second": rate }),
        )
    }
}

/// Fills a new database, closes it, and says what that took.
pub(crate) fn load(
    path: &Path,
    options: &Options,
    data: &Data,
    order: Order,
) -> Result<Loaded, Fail> {
    let start = Instant::now();
    let db = options.create(path)?;
    let tree = db.tree(TREE)?;
    let how = match order {
        Order::Sorted => {
            let keys = data.sorted();
            tree.bulk_load(keys.iter().map(|&(key, at)| (key, data.value(at, 0))))?;
            "latchkv, sort and bulk load"
        }
        Order::Random => {
            for at in 0..data.records {
                tree.put(data.key(at), data.value(at, 0))?;
            }
            "latchkv, puts in random order"
        }
    };
    drop(tree);
    db.close()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Loaded { how: how.into(), seconds, file_bytes: file_bytes(path)? })
}

impl Ours {
    /// Opens a database that [`load`] made. Nothing of it is in memory yet: [`warm`](Ours::warm) reads it.
    pub(crate) fn open(
        name: impl Into<String>,
        path: &Path,
        options: &Options,
        access: Access,
    ) -> Result<Ours, Fail> {
        let db = match access {
            Access::Write => options.open_existing(path)?,
            Access::Read => options.open_read_only(path)?,
        };
        let tree = db.open_tree(TREE)?.ok_or("the database has no tree of the benchmark")?;
        Ok(Ours { name: name.into(), db, tree })
    }

    /// Opens or makes the database of a store.
    pub(super) fn of(path: &Path, setup: Setup) -> Result<Ours, Fail> {
        let durability = if setup.durable { Durability::Sync } else { Durability::None };
        let mut options = Options::new().cache_bytes(setup.cache_bytes).durability(durability);
        if setup.keep_log {
            options = options.checkpoint_bytes(u64::MAX).checkpoint_log_bytes(u64::MAX);
        }
        if setup.plain_syncs {
            options = options.backend(Backend::Pread);
        }
        let db = options.open(path.join("db"))?;
        let tree = db.tree(TREE)?;
        Ok(Ours { name: "latchkv".into(), db, tree })
    }

    /// Reads everything once, so that it is in the cache and hints are right. Gives the number of records.
    pub(crate) fn warm(&self) -> Result<u64, Fail> {
        let mut records = 0;
        self.scan_with(&[], usize::MAX, |_, _| records += 1)?;
        Ok(records)
    }

    /// Puts `value` under each of `keys`.
    pub(crate) fn puts(&self, keys: &[Key], value: &[u8]) -> Result<(), Fail> {
        for key in keys {
            self.tree.put(key, value)?;
        }
        Ok(())
    }
}

impl Source for Ours {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.tree.get_with(key, see)?)
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.tree.range::<&[u8]>(start..), take, see)
    }
}

impl Source for &Ours {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        (**self).get_with(key, see)
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        (**self).scan_with(start, take, see)
    }
}

/// A snapshot, and what it is read through.
struct At<'a> {
    snapshot: Snapshot<'a>,
    tree: &'a Tree,
}

impl Source for At<'_> {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.snapshot.get_with(self.tree, key, see)?)
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.snapshot.range::<&[u8]>(self.tree, start..), take, see)
    }
}

/// Sees up to `take` records of a range.
fn all(
    mut range: latchkv::Range<'_>,
    take: usize,
    mut see: impl FnMut(&[u8], &[u8]),
) -> Result<(), Fail> {
    for _ in 0..take {
        let Some((key, value)) = range.next_borrowed().transpose()? else { break };
        see(key, value);
    }
    Ok(())
}

impl Store for Ours {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.tree.bulk_load(records)?;
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        Ok(self.tree.put(key, value)?)
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        Ok(self.db.transact(|txn| {
            let Some(mut value) = txn.get_for_update(&self.tree, key)? else { return Ok(false) };
            change(&mut value);
            txn.put(&self.tree, key, value)?;
            Ok(true)
        })?)
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.db.begin()?;
        for (key, value) in records {
            txn.put(&self.tree, key, value)?;
        }
        txn.commit()?;
        Ok(())
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        let mut txn = self.db.begin()?;
        for key in keys {
            txn.delete(&self.tree, key)?;
        }
        txn.commit()?;
        Ok(())
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        let mut txn = self.db.begin()?;
        // The transaction writes meanwhile, so it is the tree that is read; nobody else writes.
        let mut records = self.tree.iter();
        while let Some((key, _)) = records.next_borrowed().transpose()? {
            if !keep(key) {
                txn.delete(&self.tree, key)?;
            }
        }
        txn.commit()?;
        Ok(())
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            let mut batch = WriteBatch::new();
            batch.put(&self.tree, key, value)?;
            self.db.write_with(&batch, Durability::None)?;
        }
        Ok(self.db.sync()?)
    }

    fn len(&self) -> Result<u64, Fail> {
        Ok(self.tree.len()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(self))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(At { snapshot: self.db.snapshot()?, tree: &self.tree }))
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()?))
    }

    /// The first rebuild goes behind what there is, or into room inside; once that is given back, the second finds
    /// room in front, and the end of the file can go.
    fn compact(self: Box<Self>) -> Result<(), Fail> {
        for _ in 0..2 {
            self.tree.rebuild()?;
            self.db.checkpoint()?;
        }
        self.close()
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        let Ours { tree, db, .. } = *self;
        drop(tree);
        Ok(db.close()?)
    }
}
