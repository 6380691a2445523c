//! LMDB, by heed.
//!
//! * \[L1] An environment is opened once in this process, on a directory that this process made and that
//!   nobody else knows of: heed's conditions for opening one.

use super::ours::{Order, absent};
use super::{Engine, Loaded, Touch};
use crate::Fail;
use crate::data::{Data, Key};
use crate::report::file_bytes;
use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, PutFlags};
use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

/// A database whose creation or opening was committed.
type Database = heed::Database<'static, Bytes, Bytes>;

/// An open environment.
pub(crate) struct Lmdb {
    name: String,
    env: Env,
    db: Database,
}

fn env(path: &Path, data: &Data, sync: bool) -> Result<Env, Fail> {
    let mut options = EnvOpenOptions::new();
    // Room for pages half full and for what a transaction supersedes.
    options.map_size((data.raw_bytes() as usize * 6).next_multiple_of(1 << 20).max(1 << 28));
    if !sync {
        // SAFETY: without syncs a power cut may damage the file; it is thrown away with its directory.
        unsafe { options.flags(EnvFlags::NO_SYNC) };
    }
    // SAFETY: [L1].
    Ok(unsafe { options.open(path) }?)
}

/// Fills a new environment in one transaction, closes it, and says what that took.
pub(crate) fn load(path: &Path, data: &Data, order: Order) -> Result<Loaded, Fail> {
    std::fs::create_dir(path)?;
    let start = Instant::now();
    let env = env(path, data, true)?;
    let db: Database = env
        .create_databases_and_commit(env.write_txn()?, |opener, txn| {
            opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    let mut txn = env.write_txn()?;
    let how = match order {
        Order::Sorted => {
            for (key, at) in data.sorted() {
                db.put_with_flags(&mut txn, PutFlags::APPEND, &key, &data.value(at, 0))?;
            }
            "LMDB, sort and append"
        }
        Order::Random => {
            for at in 0..data.records {
                db.put(&mut txn, &data.key(at), &data.value(at, 0))?;
            }
            "LMDB, random order"
        }
    };
    txn.commit()?;
    env.prepare_for_closing().wait();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Loaded { how: how.into(), seconds, file_bytes: file_bytes(path)? })
}

impl Lmdb {
    /// An environment that [`load`] made, whose commits do not sync.
    pub(crate) fn open(name: &str, path: &Path, data: &Data) -> Result<Lmdb, Fail> {
        let env = env(path, data, false)?;
        let db = env
            .open_databases_and_commit(env.read_txn()?, |opener, txn| {
                opener.open_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit()
            .ok_or("the environment is empty")?;
        Ok(Lmdb { name: name.into(), env, db })
    }

    /// Reads everything once. Gives the number of records.
    pub(crate) fn warm(&self) -> Result<u64, Fail> {
        let txn = self.env.read_txn()?;
        let mut records = 0;
        for pair in self.db.iter(&txn)? {
            let (_, value) = pair?;
            std::hint::black_box(value.first());
            records += 1;
        }
        Ok(records)
    }
}

impl Engine for Lmdb {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn reads(&self, keys: &[Key], touch: Touch) -> Result<u64, Fail> {
        let txn = self.env.read_txn()?;
        let mut sum = 0_u64;
        for key in keys {
            match self.db.get(&txn, key)? {
                Some(value) => sum = sum.wrapping_add(touch.sum(value)),
                None => return Err(absent(key)),
            }
        }
        Ok(sum)
    }

    fn ranges(&self, starts: &[Key], take: usize, touch: Touch) -> Result<u64, Fail> {
        let txn = self.env.read_txn()?;
        let mut sum = 0_u64;
        for start in starts {
            let range = (Bound::Included(&start[..]), Bound::Unbounded);
            for pair in self.db.range(&txn, &range)?.take(take) {
                let (key, value) = pair?;
                sum = sum.wrapping_add(touch.sum(key)).wrapping_add(touch.sum(value));
            }
        }
        Ok(sum)
    }

    /// All in one transaction, which does not sync.
    fn puts(&self, keys: &[Key], value: &[u8]) -> Result<u64, Fail> {
        let mut txn = self.env.write_txn()?;
        for key in keys {
            self.db.put(&mut txn, key, value)?;
        }
        txn.commit()?;
        Ok(0)
    }
}
