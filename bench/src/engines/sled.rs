//! sled, of the line 0.34, with its default options; what it does in the background by time is off.
//!
//! A commit is durable by `flush`. On Linux that is `sync_file_range` over the part of the log that was written: it
//! waits for the pages to be handed to the device, and neither flushes the cache of the device nor writes the length of
//! the file. So durable rows of sled are shown, and nobody is compared with them.

use super::store::{Keep, Keys, Lacks, Reader, Records, Setup, Source, Store, Ways};
use crate::Fail;
use hdrhistogram::Histogram;
use sled::{Batch, Db, Tree};
use std::path::Path;
use std::time::Instant;

/// How sled does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "flush: sync_file_range of the log, which leaves it in the cache of the device",
    to_medium: false,
    load: "inserts, one after the other",
    retain: "scan, and one batch of removals",
    compact: None,
    len: "by a scan",
    cache: "its own, and the page cache of the system below it",
};

/// What is asked of sled in vain.
const NO_SNAPSHOTS: Lacks = Lacks("sled has no snapshots");

/// An open database.
pub(super) struct Sled {
    db: Db,
    durable: bool,
}

impl Sled {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Sled, Fail> {
        let config = sled::Config::new().path(path).cache_capacity(setup.cache_bytes);
        let db = config.flush_every_ms(None).open()?;
        Ok(Sled { db, durable: setup.durable })
    }

    /// What ends a commit.
    fn settle(&self) -> Result<(), Fail> {
        if self.durable {
            self.db.flush()?;
        }
        Ok(())
    }

    fn apply(&self, batch: Batch) -> Result<(), Fail> {
        self.db.apply_batch(batch)?;
        self.settle()
    }
}

impl Source for &Tree {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(Tree::get(self, key)?.map(|value| see(&value)))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        for pair in self.range(start..).take(take) {
            let (key, value) = pair?;
            see(&key, &value);
        }
        Ok(())
    }
}

impl Store for Sled {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.db.insert(key, &value[..])?;
        }
        self.db.flush()?;
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        self.db.insert(key, value)?;
        self.settle()
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        let before = self.db.fetch_and_update(key, |value| {
            let mut value = value?.to_vec();
            change(&mut value);
            Some(value)
        })?;
        self.settle()?;
        Ok(before.is_some())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut batch = Batch::default();
        for (key, value) in records {
            batch.insert(&key[..], &value[..]);
        }
        self.apply(batch)
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        let mut batch = Batch::default();
        for key in keys {
            batch.remove(&key[..]);
        }
        self.apply(batch)
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        let mut batch = Batch::default();
        for key in self.db.iter().keys() {
            let key = key?;
            if !keep(&key) {
                batch.remove(key);
            }
        }
        self.apply(batch)
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.load_sorted(records)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        let tree: &Tree = &self.db;
        Ok(Box::new(tree))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Err(NO_SNAPSHOTS.into())
    }

    fn begins(&self, _until: Instant) -> Result<Histogram<u64>, Fail> {
        Err(NO_SNAPSHOTS.into())
    }

    fn compact(self: Box<Self>) -> Result<(), Fail> {
        Err(Lacks("sled offers no compaction").into())
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        self.db.flush()?;
        Ok(())
    }
}
