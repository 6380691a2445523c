//! RocksDB, by rust-rocksdb, without compression; otherwise its default options.
//!
//! Writers of several threads form groups, each of which syncs the log once.

use super::{Durable, Records, Setup, time_begins};
use crate::Fail;
use crate::data::Key;
use hdrhistogram::Histogram;
use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch, WriteOptions};
use std::path::Path;
use std::time::Instant;

/// More than any log of the benchmark.
const NEVER_BYTES: usize = 8 << 30;

/// An open database.
pub(super) struct Rocks {
    db: DB,
}

impl Rocks {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Rocks, Fail> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(usize::try_from(setup.cache_bytes)?));
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_use_fsync(false);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&table);
        if setup.keep_log {
            options.set_write_buffer_size(NEVER_BYTES);
        }
        Ok(Rocks { db: DB::open(&options, path)? })
    }
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

impl Durable for Rocks {
    fn how(&self) -> &'static str {
        "WriteOptions::sync, use_fsync off: fdatasync of the log"
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let synced = synced();
        for (key, value) in records {
            self.db.put_opt(key, value, &synced)?;
        }
        Ok(())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &synced())?)
    }

    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.delete(key);
        }
        Ok(self.db.write_opt(batch, &synced())?)
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.db.put(key, value)?;
        }
        Ok(self.db.flush_wal(true)?)
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail> {
        Ok(self.db.get(key)?)
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
