//! RocksDB, by rust-rocksdb, without compression; otherwise its default options.
//!
//! Writers of several threads form groups, each of which syncs the log once. A change of a value reads and writes with
//! no transaction around it: those are another kind of database there.

use super::store::{Keep, Keys, Reader, Records, Setup, Source, Store, Ways, time_begins};
use crate::Fail;
use hdrhistogram::Histogram;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRawIterator, IngestExternalFileOptions,
    Options, Snapshot, SstFileWriter, WriteBatch, WriteOptions,
};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// More than any log of the benchmark.
const NEVER_BYTES: usize = 8 << 30;

/// How RocksDB does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "WriteOptions::sync, use_fsync off: fdatasync of the log",
    to_medium: true,
    load: "a file by SstFileWriter, ingested",
    retain: "scan, and one batch of removals",
    compact: Some("the memtable written, then compact_range of everything"),
    len: "by a scan",
    cache: "its own, and the page cache of the system below it",
};

/// An open database.
pub(super) struct Rocks {
    db: DB,
    path: PathBuf,
    durable: bool,
}

/// Options that a database and a file to be ingested share.
fn uncompressed() -> Options {
    let mut options = Options::default();
    options.set_use_fsync(false);
    options.set_compression_type(DBCompressionType::None);
    options
}

impl Rocks {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Rocks, Fail> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(usize::try_from(setup.cache_bytes)?));
        let mut options = uncompressed();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        if setup.keep_log {
            options.set_write_buffer_size(NEVER_BYTES);
        }
        let db = DB::open(&options, path)?;
        Ok(Rocks { db, path: path.into(), durable: setup.durable })
    }

    /// Options of a write.
    fn writing(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.durable);
        options
    }
}

impl Source for &DB {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.get_pinned(key)?.map(|value| see(&value)))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.raw_iterator(), start, take, see)
    }
}

impl Source for Snapshot<'_> {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.get_pinned(key)?.map(|value| see(&value)))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        all(self.raw_iterator(), start, take, see)
    }
}

/// Sees up to `take` records from `start` on.
fn all(
    mut records: DBRawIterator<'_>,
    start: &[u8],
    take: usize,
    mut see: impl FnMut(&[u8], &[u8]),
) -> Result<(), Fail> {
    records.seek(start);
    let mut seen = 0;
    while seen < take {
        let Some((key, value)) = records.item() else { break };
        see(key, value);
        seen += 1;
        records.next();
    }
    Ok(records.status()?)
}

impl Store for Rocks {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut records = records.peekable();
        if records.peek().is_none() {
            return Ok(());
        }
        let options = uncompressed();
        let file = self.path.join("ingested.sst");
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file)?;
        for (key, value) in records {
            writer.put(key, value)?;
        }
        writer.finish()?;
        let mut moved = IngestExternalFileOptions::default();
        moved.set_move_files(true);
        Ok(self.db.ingest_external_file_opts(&moved, vec![file])?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        Ok(self.db.put_opt(key, value, &self.writing())?)
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        let Some(mut value) = self.db.get(key)? else { return Ok(false) };
        change(&mut value);
        self.put(key, &value)?;
        Ok(true)
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        Ok(self.db.write_opt(batch, &self.writing())?)
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.delete(key);
        }
        Ok(self.db.write_opt(batch, &self.writing())?)
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        let mut batch = WriteBatch::default();
        all(self.db.raw_iterator(), &[], usize::MAX, |key, _| {
            if !keep(key) {
                batch.delete(key);
            }
        })?;
        Ok(self.db.write_opt(batch, &self.writing())?)
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let writing = self.writing();
        for (key, value) in records {
            self.db.put_opt(key, value, &writing)?;
        }
        Ok(())
    }

    fn fill_log(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.db.put(key, value)?;
        }
        Ok(self.db.flush_wal(true)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(&self.db))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(self.db.snapshot()))
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()))
    }

    fn compact(self: Box<Self>) -> Result<(), Fail> {
        self.db.flush()?;
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        self.close()
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
