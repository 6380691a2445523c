//! fjall, without compression.
//!
//! A single put is an insert and `persist`, as its documentation has it; a batch carries the mode with it. Both
//! sync while they hold the journal, so commits of several threads go one after the other. A change of a value reads
//! and writes with no transaction around it: those are another kind of database there.

use super::store::{Keep, Keys, Reader, Records, Setup, Source, Store, Ways, time_begins};
use crate::Fail;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::Instant;

/// More than any log of the benchmark.
const NEVER_BYTES: u64 = 8 << 30;

/// How fjall does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "PersistMode::SyncData: fdatasync of the journal",
    to_medium: true,
    load: "Keyspace::start_ingestion",
    retain: "scan, and one batch of removals",
    compact: Some("the memtable written, then Keyspace::major_compact"),
    len: "by a scan",
    cache: "its own, and the page cache of the system below it",
};

/// An open database and its only keyspace.
pub(super) struct Fjall {
    keyspace: Keyspace,
    db: Database,
    durability: Option<PersistMode>,
}

impl Fjall {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Fjall, Fail> {
        let mut builder = Database::builder(path).cache_size(setup.cache_bytes);
        if setup.keep_log {
            builder = builder.max_journaling_size(NEVER_BYTES);
        }
        let db = builder.open()?;
        let keyspace = db.keyspace("bench", || {
            let options = KeyspaceCreateOptions::default();
            if setup.keep_log { options.max_memtable_size(NEVER_BYTES) } else { options }
        })?;
        let durability = setup.durable.then_some(PersistMode::SyncData);
        Ok(Fjall { keyspace, db, durability })
    }
}

impl Source for &Keyspace {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(Keyspace::get(self, key)?.map(|value| see(&value)))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.range(start..).take(take), see)
    }
}

/// A snapshot, and what it is read through.
struct At<'a> {
    snapshot: Snapshot,
    keyspace: &'a Keyspace,
}

impl Source for At<'_> {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.snapshot.get(self.keyspace, key)?.map(|value| see(&value)))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.snapshot.range(self.keyspace, start..).take(take), see)
    }
}

fn all(
    records: impl Iterator<Item = fjall::Guard>,
    mut see: impl FnMut(&[u8], &[u8]),
) -> Result<(), Fail> {
    for record in records {
        let (key, value) = record.into_inner()?;
        see(&key, &value);
    }
    Ok(())
}

impl Store for Fjall {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut ingestion = self.keyspace.start_ingestion()?;
        for (key, value) in records {
            ingestion.write(key, value)?;
        }
        ingestion.finish()?;
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        self.keyspace.insert(key, value)?;
        match self.durability {
            Some(mode) => Ok(self.db.persist(mode)?),
            None => Ok(()),
        }
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        let Some(mut value) = self.keyspace.get(key)?.map(|value| value.to_vec()) else {
            return Ok(false);
        };
        change(&mut value);
        self.put(key, &value)?;
        Ok(true)
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut batch = self.db.batch().durability(self.durability);
        for (key, value) in records {
            batch.insert(&self.keyspace, key, value);
        }
        Ok(batch.commit()?)
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        let mut batch = self.db.batch().durability(self.durability);
        for key in keys {
            batch.remove(&self.keyspace, key);
        }
        Ok(batch.commit()?)
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        let mut batch = self.db.batch().durability(self.durability);
        for record in self.keyspace.iter() {
            let key = record.key()?;
            if !keep(&key) {
                batch.remove(&self.keyspace, key);
            }
        }
        Ok(batch.commit()?)
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.keyspace.insert(key, value)?;
        }
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(&self.keyspace))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(At { snapshot: self.db.snapshot(), keyspace: &self.keyspace }))
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()))
    }

    fn compact(self: Box<Self>) -> Result<(), Fail> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.keyspace.major_compact()?)
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        Ok(())
    }
}
