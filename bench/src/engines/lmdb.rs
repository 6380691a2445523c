//! LMDB, by heed. A commit syncs, unless the store is opened without.
//!
//! * \[L1] The environment lies in a directory that this process made and that nobody else knows of, and it is open
//!   at most once at a time in this process: heed's conditions for opening. The only flag that weakens it is
//!   `NO_SYNC`, by which a power cut may damage a file that goes with its directory.
//! * \[L2] No reference into the map lives while the record under the cursor is deleted: the key was given back.

use super::store::{Keep, Keys, Reader, Records, Setup, Source, Store, Ways, time_begins};
use crate::Fail;
use hdrhistogram::Histogram;
use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn};
use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

/// Address space for the file. It takes up memory and disk only as it fills.
const MAP_BYTES: usize = 64 << 30;

/// How LMDB does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "default flags: fdatasync of the pages, then the meta page by a descriptor with O_DSYNC",
    to_medium: true,
    load: "one transaction of appends (MDB_APPEND)",
    retain: "a cursor that deletes, one transaction",
    compact: Some("a compacting copy (MDB_CP_COMPACT) that takes the place of the file"),
    len: "kept by the engine",
    cache: "page cache of the system, not limited",
};

type Database = heed::Database<'static, Bytes, Bytes>;

/// An open environment and its only database.
pub(super) struct Lmdb {
    env: Env,
    db: Database,
}

impl Lmdb {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Lmdb, Fail> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if !setup.durable {
            // SAFETY: [L1].
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: [L1].
        let env = unsafe { options.open(path) }?;
        let db = env
            .create_databases_and_commit(env.write_txn()?, |opener, txn| {
                opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { env, db })
    }

    fn transaction(&self) -> Result<At<'_>, Fail> {
        Ok(At { txn: self.env.read_txn()?, db: self.db })
    }
}

/// A read transaction.
struct At<'e> {
    txn: RoTxn<'e, heed::WithTls>,
    db: Database,
}

impl Source for At<'_> {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.db.get(&self.txn, key)?.map(see))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        // LMDB takes no empty key, not even as a bound.
        let lower = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
        let range = (lower, Bound::Unbounded);
        for pair in self.db.range(&self.txn, &range)?.take(take) {
            let (key, value) = pair?;
            see(key, value);
        }
        Ok(())
    }
}

impl Store for Lmdb {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in records {
            self.db.put_with_flags(&mut txn, PutFlags::APPEND, &key, &value)?;
        }
        txn.commit()?;
        Ok(self.env.force_sync()?)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        self.db.put(&mut txn, key, value)?;
        Ok(txn.commit()?)
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        let mut txn = self.env.write_txn()?;
        let Some(mut value) = self.db.get(&txn, key)?.map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        change(&mut value);
        self.db.put(&mut txn, key, &value)?;
        txn.commit()?;
        Ok(true)
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in records {
            self.db.put(&mut txn, &key, &value)?;
        }
        Ok(txn.commit()?)
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        for key in keys {
            self.db.delete(&mut txn, &key)?;
        }
        Ok(txn.commit()?)
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        {
            let mut records = self.db.iter_mut(&mut txn)?;
            while let Some(stays) = records.next().transpose()?.map(|(key, _)| keep(key)) {
                if !stays {
                    // SAFETY: [L2].
                    unsafe { records.del_current() }?;
                }
            }
        }
        Ok(txn.commit()?)
    }

    fn len(&self) -> Result<u64, Fail> {
        let At { txn, db } = self.transaction()?;
        Ok(db.len(&txn)?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(self.transaction()?))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        self.reader()
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.env.read_txn()?))
    }

    fn compact(self: Box<Self>) -> Result<(), Fail> {
        let dir = self.env.path().to_owned();
        let copy = dir.join("compacted.mdb");
        self.env.copy_to_path(&copy, CompactionOption::Enabled)?.sync_all()?;
        self.close()?;
        std::fs::rename(copy, dir.join("data.mdb"))?;
        Ok(std::fs::File::open(dir)?.sync_all()?)
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
