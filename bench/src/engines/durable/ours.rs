//! latchkv. A single put is a put outside of a transaction; all else are transactions.

use super::{Durable, Records, Setup, time_begins};
use crate::Fail;
use crate::data::Key;
use hdrhistogram::Histogram;
use latchkv::{Backend, Db, Durability, Options, Tree, WriteBatch};
use std::path::Path;
use std::time::Instant;

/// An open database and its only tree.
pub(super) struct Ours {
    tree: Tree,
    db: Db,
}

impl Ours {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Ours, Fail> {
        let mut options =
            Options::new().cache_bytes(setup.cache_bytes).durability(Durability::Sync);
        if setup.keep_log {
            options = options.checkpoint_bytes(u64::MAX).checkpoint_log_bytes(u64::MAX);
        }
        if setup.plain_syncs {
            options = options.backend(Backend::Pread);
        }
        let db = options.open(path.join("db"))?;
        let tree = db.tree("bench")?;
        Ok(Ours { tree, db })
    }
}

impl Durable for Ours {
    fn how(&self) -> &'static str {
        "Durability::Sync: fdatasync of the log"
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for (key, value) in records {
            self.tree.put(key, value)?;
        }
        Ok(())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.db.begin()?;
        for (key, value) in records {
            txn.put(&self.tree, key, value)?;
        }
        txn.commit()?;
        Ok(())
    }

    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail> {
        let mut txn = self.db.begin()?;
        for key in keys {
            txn.delete(&self.tree, key)?;
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

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.snapshot()?))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail> {
        Ok(self.tree.get(key)?)
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        let Ours { tree, db } = *self;
        drop(tree);
        Ok(db.close()?)
    }
}
