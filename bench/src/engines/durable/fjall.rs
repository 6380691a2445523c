//! fjall, without compression.
//!
//! A single put is an insert and `persist`, as its documentation has it; a batch carries the mode with it. Both
//! sync while they hold the journal, so commits of several threads go one after the other.

use super::{Durable, Records, Setup, time_begins};
use crate::Fail;
use crate::data::Key;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::Instant;

/// More than any log of the benchmark.
const NEVER_BYTES: u64 = 8 << 30;

/// An open database and its only keyspace.
pub(super) struct Fjall {
    keyspace: Keyspace,
    db: Database,
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
        Ok(Fjall { keyspace, db })
    }
}

impl Durable for Fjall {
    fn how(&self) -> &'static str {
        "PersistMode::SyncData: fdatasync of the journal"
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.keyspace.insert(key, value)?;
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in records {
            batch.insert(&self.keyspace, key, value);
        }
        Ok(batch.commit()?)
    }

    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail> {
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        for key in keys {
            batch.remove(&self.keyspace, key);
        }
        Ok(batch.commit()?)
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.keyspace.insert(key, value)?;
        }
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail> {
        Ok(self.keyspace.get(key)?.map(|value| value.to_vec()))
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        Ok(())
    }
}
