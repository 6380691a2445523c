//! Several changes to be made at once.

use super::tree::Tree;
use crate::error::Result;
use crate::txn::{Change, WriteSet};

/// Changes of one or more trees that [`Db::write`](crate::Db::write) makes at once, all or none. Of several
/// changes of one key the last counts. It reads nothing, so it never conflicts. All of it is held in memory, up to
/// [`Options::transaction_bytes_max`](crate::Options::transaction_bytes_max); a transaction can be larger.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = latchkv::Db::open(dir.path().join("db"))?;
/// let (users, mails) = (db.tree("users")?, db.tree("mails")?);
/// let mut batch = latchkv::WriteBatch::new();
/// batch.put(&users, "ada", "ada@example.org")?;
/// batch.put(&mails, "ada@example.org", "ada")?;
/// db.write(&batch)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteBatch {
    pub(super) writes: WriteSet,
    /// A tree of the database that it is for: all are of the same.
    pub(super) first: Option<Tree>,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch::new()
    }
}

impl WriteBatch {
    /// No changes.
    pub fn new() -> WriteBatch {
        WriteBatch { writes: WriteSet::new(), first: None }
    }

    fn change(&mut self, tree: &Tree, key: &[u8], change: Change<'_>) -> Result<()> {
        tree.check_write(key, change)?;
        match &self.first {
            Some(first) => first.check_same(tree)?,
            None => self.first = Some(tree.clone()),
        }
        let shared = &tree.handle().shared;
        shared.refuse_beyond(self.writes.bytes(), "the changes of a batch")?;
        self.writes.set(&shared.pool, tree.target(), key, change)
    }

    /// `key` is to have this value.
    ///
    /// # Errors
    /// [`Usage::KeyTooLarge`](crate::Usage::KeyTooLarge),
    /// [`Usage::ValueTooLarge`](crate::Usage::ValueTooLarge),
    /// [`Usage::OtherDatabase`](crate::Usage::OtherDatabase), [`Usage::TreeDropped`](crate::Usage::TreeDropped),
    /// [`Usage::TransactionTooLarge`](crate::Usage::TransactionTooLarge), [`Error::Closed`](crate::Error::Closed). The
    /// batch stays as it was.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.change(tree, key.as_ref(), Change::Put(value.as_ref()))
    }

    /// `key` is to go, if it is there.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(tree, key.as_ref(), Change::Delete)
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of memory that the changes take, near enough.
    pub fn bytes(&self) -> usize {
        self.writes.bytes()
    }
}
