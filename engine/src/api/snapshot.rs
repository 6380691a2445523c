//! Reading one state of the database.

use super::range::{Range, State};
use super::reader::Reader;
use super::tree::Tree;
use crate::error::Result;
use std::ops::{Bound, RangeBounds};

/// A position in the log, in bytes, which is also the time of the commit whose record lies there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lsn(pub u64);

/// One state of the database: what all commits up to a moment left, however long it is read and whatever is
/// committed meanwhile.
///
/// Taking one waits for nobody and writes nothing that others write. It keeps old versions of what changes
/// later, so it costs memory as long as it lives; see [`Stats::snapshots`](crate::Stats) and
/// [`Options::snapshot_age_max`](crate::Options::snapshot_age_max).
///
/// Dropping or clearing a tree is not versioned: reading it through a snapshot of before fails.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = latchkv::Db::open(dir.path().join("db"))?;
/// let tree = db.tree("t")?;
/// tree.put("k", "old")?;
/// let snapshot = db.snapshot()?;
/// tree.put("k", "new")?;
/// assert_eq!(snapshot.get(&tree, "k")?.as_deref(), Some(&b"old"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Snapshot<'db> {
    reader: Reader<'db>,
}

impl<'db> Snapshot<'db> {
    pub(super) fn new(reader: Reader<'db>) -> Snapshot<'db> {
        Snapshot { reader }
    }

    /// The same snapshot, which keeps the database open by itself and can go anywhere.
    pub fn into_owned(self) -> Snapshot<'static> {
        Snapshot { reader: self.reader.into_owned() }
    }

    /// All commits with a smaller lsn are seen.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.reader.lsn())
    }

    /// The value of `key`, as a copy.
    ///
    /// # Errors
    /// Those of [`Tree::get`]; [`Error::SnapshotEnded`](crate::Error::SnapshotEnded);
    /// [`Usage::ClearedSince`](crate::Usage::ClearedSince);
    /// [`Usage::OtherDatabase`](crate::Usage::OtherDatabase).
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(tree, key, <[u8]>::to_vec)
    }

    /// Hands the value of `key` to `f`; see [`Tree::get_with`]. `f` may be given a value that is then refused,
    /// if the snapshot was just being ended.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_with<R>(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.reader.get_with(tree, key.as_ref(), f)
    }

    /// Whether there is a value for `key`.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(tree, key, |_| ())?.is_some())
    }

    /// All records of a tree, ascending; `rev()` for descending. Errors are those of [`get`](Self::get), as an item;
    /// nothing else follows one.
    pub fn iter(&self, tree: &Tree) -> Range<'_> {
        Range::of_reader(&self.reader, tree, Bound::Unbounded, Bound::Unbounded)
    }

    /// The records whose keys lie in `range`. A range whose start is above its end is empty.
    pub fn range<K: AsRef<[u8]>>(&self, tree: &Tree, range: impl RangeBounds<K>) -> Range<'_> {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Range::of_reader(&self.reader, tree, owned(range.start_bound()), owned(range.end_bound()))
    }

    /// The records whose keys start with `prefix`.
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> Range<'_> {
        Range::of_prefix(tree, State::Of(&self.reader), prefix.as_ref())
    }
}
