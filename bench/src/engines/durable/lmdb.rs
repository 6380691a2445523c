//! LMDB, by heed. Its flags are the default ones: a commit syncs.
//!
//! * \[L1] The environment lies in a directory that this process made and that nobody else knows of, it is open
//!   at most once at a time in this process, and no flag that weakens it is set: heed's conditions for opening.

use super::{Durable, Records, time_begins};
use crate::Fail;
use crate::data::Key;
use hdrhistogram::Histogram;
use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvOpenOptions};
use std::path::Path;
use std::time::Instant;

/// Address space for the file. It takes up memory and disk only as it fills.
const MAP_BYTES: usize = 64 << 30;

/// An open environment and its only database.
pub(super) struct Lmdb {
    env: Env,
    db: heed::Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    pub(super) fn open(path: &Path) -> Result<Lmdb, Fail> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: [L1].
        let env = unsafe { options.open(path) }?;
        let db = env
            .create_databases_and_commit(env.write_txn()?, |opener, txn| {
                opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { env, db })
    }
}

impl Durable for Lmdb {
    fn how(&self) -> &'static str {
        "default flags: fdatasync of the pages, then the meta page by a descriptor with O_DSYNC"
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            let mut txn = self.env.write_txn()?;
            self.db.put(&mut txn, &key, &value)?;
            txn.commit()?;
        }
        Ok(())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        for (key, value) in records {
            self.db.put(&mut txn, &key, &value)?;
        }
        Ok(txn.commit()?)
    }

    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail> {
        let mut txn = self.env.write_txn()?;
        for key in keys {
            self.db.delete(&mut txn, &key)?;
        }
        Ok(txn.commit()?)
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.env.read_txn()?))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail> {
        let txn = self.env.read_txn()?;
        Ok(self.db.get(&txn, key)?.map(<[u8]>::to_vec))
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
