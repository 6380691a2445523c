//! latchkv.

use super::{Engine, Loaded, Touch};
use crate::Fail;
use crate::data::{Data, Key};
use crate::report::file_bytes;
use latchkv::{Db, Options, Tree};
use std::path::Path;
use std::time::Instant;

/// Name of the tree.
const TREE: &str = "bench";

/// An open database.
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

    /// Reads everything once, so that it is in the cache and hints are right. Gives the number of records.
    pub(crate) fn warm(&self) -> Result<u64, Fail> {
        let mut records = 0;
        for entry in self.tree.iter() {
            entry?;
            records += 1;
        }
        Ok(records)
    }
}

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// For reading and writing.
    Write,
    /// For reading, so that it can be open more than once.
    Read,
}

impl Engine for Ours {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn reads(&self, keys: &[Key], touch: Touch) -> Result<u64, Fail> {
        let mut sum = 0_u64;
        for key in keys {
            match self.tree.get_with(key, |value| touch.sum(value))? {
                Some(part) => sum = sum.wrapping_add(part),
                None => return Err(absent(key)),
            }
        }
        Ok(sum)
    }

    fn ranges(&self, starts: &[Key], take: usize, touch: Touch) -> Result<u64, Fail> {
        let mut sum = 0_u64;
        for start in starts {
            for entry in self.tree.range::<&Key>(start..).take(take) {
                let entry = entry?;
                let (key, value) = (touch.sum(entry.key()), touch.sum(entry.value()));
                sum = sum.wrapping_add(key).wrapping_add(value);
            }
        }
        Ok(sum)
    }

    fn puts(&self, keys: &[Key], value: &[u8]) -> Result<u64, Fail> {
        for key in keys {
            self.tree.put(key, value)?;
        }
        Ok(0)
    }
}

/// A key that should be there is not.
pub(super) fn absent(key: &Key) -> Fail {
    format!("key {} is absent", key.escape_ascii()).into()
}
