//! A copy of the database, as it is at one moment, while others go on.
//!
//! ```text
//! snapshot -> for each tree: its records, in order -> bulk load into the copy -> last checkpoint
//! ```
//!
//! The copy is packed, holds no log to be applied, and no old blocks. Definitions are not versioned, so a tree that is
//! dropped or cleared meanwhile ends the backup with an error; what there is of the copy is removed then.
//!
//! Tested below and by `engine/tests/transactions/backup.rs`.

use super::db::Db;
use super::options::Options;
use super::range::{Entry, Range};
use super::snapshot::{Lsn, Snapshot};
use crate::error::{Error, Result, Usage};
use crate::name::NameRef;
use std::path::{Path, PathBuf};

/// Cache of the copy while it is written, in bytes.
const CACHE_BYTES: u64 = 32 << 20;
/// Records between two questions whether to go on.
const ASKED_EACH: u64 = 1024;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// All commits with a smaller lsn are in it.
    pub lsn: Lsn,
    /// Its trees, those of the system included.
    pub trees: u64,
    /// Its records, in all trees.
    pub records: u64,
}

/// Removes an unfinished copy when it is dropped.
struct Unfinished {
    path: PathBuf,
    /// The directory was there before.
    existed: bool,
    finished: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // What cannot be removed is found by whoever opens it to be no whole database, or to lack trees: the error
        // that is told is the one that ended the backup.
        if self.existed {
            for file in ["data", "log", "lock"] {
                let _ = std::fs::remove_file(self.path.join(file));
            }
        } else {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The records of a tree, until an error, which is kept.
struct Copied<'a, 's, F> {
    range: Range<'s>,
    go_on: &'a mut F,
    seen: u64,
    error: &'a mut Option<Error>,
}

impl<F: FnMut() -> Result<()>> Copied<'_, '_, F> {
    fn step(&mut self) -> Option<Result<Entry>> {
        if self.seen.is_multiple_of(ASKED_EACH)
            && let Err(error) = (self.go_on)()
        {
            return Some(Err(error));
        }
        self.seen += 1;
        self.range.next()
    }
}

impl<F: FnMut() -> Result<()>> Iterator for Copied<'_, '_, F> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.error.is_some() {
            return None;
        }
        match self.step()? {
            Ok(entry) => Some(entry.into_pair()),
            Err(error) => {
                *self.error = Some(error);
                None
            }
        }
    }
}

impl Db {
    /// Copies the database, as it is now, into a new one in directory `to`, while others go on. Accounts and namespaces
    /// are copied too.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// db.tree("t")?.put("k", "v")?;
    /// let report = db.backup(dir.path().join("copy"))?;
    /// assert_eq!((report.trees, report.records), (1, 1));
    /// let copy = latchkv::Db::open_existing(dir.path().join("copy"))?;
    /// assert!(copy.tree("t")?.contains("k")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and of reading; [`Usage::TreeDropped`] or [`Usage::ClearedSince`] if a tree was
    /// dropped or cleared meanwhile: begin again. Nothing is left of the copy then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_while(to.as_ref(), || Ok(()))
    }

    /// [`backup`](Self::backup), for as long as `go_on` says so.
    pub(crate) fn backup_while(
        &self,
        to: &Path,
        mut go_on: impl FnMut() -> Result<()>,
    ) -> Result<BackupReport> {
        let snapshot = self.snapshot()?;
        let existed = to.exists();
        let options = Options::new()
            .page_bytes(self.stats().page_bytes)
            .cache_bytes(CACHE_BYTES)
            .huge_pages(false);
        let copy = options.create(to)?;
        let mut unfinished = Unfinished { path: to.to_owned(), existed, finished: false };
        let mut report = BackupReport { lsn: snapshot.lsn(), trees: 0, records: 0 };
        let copied = (|| {
            for name in self.all_names()? {
                let name = NameRef::stored(&name)?;
                report.records += self.copy_tree(name, &snapshot, &copy, &mut go_on)?;
                report.trees += 1;
            }
            Ok(())
        })();
        let closed = copy.close();
        copied.and(closed)?;
        unfinished.finished = true;
        Ok(report)
    }

    fn copy_tree(
        &self,
        name: NameRef<'_>,
        snapshot: &Snapshot<'_>,
        copy: &Db,
        go_on: &mut impl FnMut() -> Result<()>,
    ) -> Result<u64> {
        let Some(tree) = self.open_tree(name)? else {
            return Err(Usage::TreeDropped(name.to_string()).into());
        };
        let mut error = None;
        let range = snapshot.iter(&tree);
        let records = Copied { range, go_on, seen: 0, error: &mut error };
        let loaded = copy.stored_tree(name)?.bulk_load(records);
        match error {
            Some(error) => Err(error),
            None => loaded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_is_ended_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = Options::new().huge_pages(false).cache_bytes(4 << 20);
        let db = db.create(dir.path().join("db")).expect("new");
        let tree = db.tree("t").expect("new");
        for number in 0..3 * ASKED_EACH as u32 {
            tree.put(number.to_be_bytes(), "v").expect("room");
        }
        for existed in [false, true] {
            let to = dir.path().join(format!("copy {existed}"));
            if existed {
                std::fs::create_dir(&to).expect("room");
            }
            let mut asked = 0;
            let ended = db.backup_while(&to, || {
                asked += 1;
                if asked < 3 { Ok(()) } else { Err(Error::Timeout) }
            });
            assert!(matches!(ended, Err(Error::Timeout)), "{ended:?}");
            assert_eq!(to.exists(), existed);
            db.backup(&to).expect("as if nothing had been tried");
        }
    }
}
