//! Several reads and writes as one.

use super::reader::{ReadAt, Reader};
use super::shared::Handle;
use super::snapshot::Lsn;
use super::transaction_range::TransactionRange;
use super::tree::Tree;
use crate::error::{Denied, Error, Result, Usage};
use crate::log::Durability;
use crate::txn::{Change, Own, Reads, Savepoint, Terms, WriteSet};
use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a transaction is protected from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It reads one state of the database, and its commit fails if somebody else has changed, since that state,
    /// a key that it writes: snapshot isolation, the first committer wins. Two transactions that each read what
    /// the other writes may both commit (write skew).
    #[default]
    Snapshot,
    /// As `Snapshot`, and its commit fails too if somebody has changed what it read, keys that it looked for and
    /// did not find and ranges included. All such transactions are as if they had run one after the other, in the
    /// order of their lsns. What it read is remembered in memory: each key, and the bounds of each range, up to
    /// [`Options::transaction_bytes_max`](crate::Options::transaction_bytes_max).
    Serializable,
}

/// How a transaction is run.
#[derive(Clone, Debug, Default)]
pub struct TransactionOptions {
    pub(super) isolation: Isolation,
    pub(super) durability: Option<Durability>,
    pub(super) timeout: Option<Duration>,
    pub(super) name: Option<String>,
}

impl TransactionOptions {
    /// Snapshot isolation, the database's durability, no time limit.
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// What it is protected from.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// What its commit waits for; [`Options::durability`](crate::Options::durability) otherwise.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// How long it may take, from its beginning to the call of `commit`; after that its calls fail with
    /// [`Error::Timeout`]. [`Db::transact`](crate::Db::transact) counts all of its tries together.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> TransactionOptions {
        self.timeout = Some(timeout);
        self
    }

    /// By which name a slow one is told of.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> TransactionOptions {
        self.name = Some(name.into());
        self
    }
}

/// Reads of one state of the database, and writes that are made all at once by [`commit`](Self::commit), or not
/// at all. Reads, scans too, see the transaction's own writes.
///
/// Dropping it takes everything back. It is for one thread at a time. Several may be open in one thread; they
/// know nothing of each other until one has committed.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = latchkv::Db::open(dir.path().join("db"))?;
/// let accounts = db.tree("accounts")?;
/// accounts.put("ada", "10")?;
/// let mut transaction = db.begin()?;
/// let balance = transaction.get(&accounts, "ada")?.unwrap_or_default();
/// assert_eq!(balance, b"10");
/// transaction.put(&accounts, "ada", "4")?;
/// transaction.put(&accounts, "grace", "6")?;
/// transaction.commit()?;
/// assert_eq!(accounts.get("grace")?.as_deref(), Some(&b"6"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped takes its writes back"]
pub struct Transaction<'db> {
    reader: Reader<'db>,
    writes: WriteSet,
    /// What was read, if that counts.
    reads: Option<RefCell<Reads>>,
    durability: Durability,
    deadline: Option<Instant>,
}

/// Somebody who cleared a tree was first: to begin again helps.
#[cold]
pub(super) fn conflict_of(error: Error, tree: &Tree) -> Error {
    match error {
        Error::Usage(Usage::ClearedSince) => tree.target().conflict(None),
        error => error,
    }
}

impl<'db> Transaction<'db> {
    pub(super) fn new(
        handle: &'db Arc<Handle>,
        options: &TransactionOptions,
        deadline: Option<Instant>,
    ) -> Result<Transaction<'db>> {
        let shared = &handle.shared;
        if shared.ledger.is_none() {
            return Err(Denied::ReadOnly { op: "begin a transaction" }.into());
        }
        let reader = Reader::new(handle, ReadAt::Visible, options.name.as_deref())?;
        let reads = match options.isolation {
            Isolation::Snapshot => None,
            Isolation::Serializable => Some(RefCell::default()),
        };
        Ok(Transaction {
            reader,
            writes: WriteSet::new(),
            reads,
            durability: options.durability.unwrap_or(shared.durability),
            deadline,
        })
    }

    /// It reads the commits with a smaller lsn.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.reader.lsn())
    }

    fn check_time(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::Timeout),
            _ => Ok(()),
        }
    }

    /// The value of `key`, as a copy.
    ///
    /// # Errors
    /// Those of [`Snapshot::get`](crate::Snapshot::get), but that of a tree which was cleared since the
    /// transaction began is an [`Error::Conflict`]; [`Error::Timeout`]; [`Usage::TransactionTooLarge`] if it is
    /// serializable and has read too much. A bulk load since then is a conflict when
    /// it commits.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(tree, key, <[u8]>::to_vec)
    }

    /// Hands the value of `key` to `f`.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_with<R>(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check_time()?;
        let key = key.as_ref();
        self.reader.tree(tree)?;
        match self.writes.get(&self.reader.shared().pool, tree.target().core.id, key)? {
            Some(Own::Put(value)) => return Ok(Some(f(&value))),
            Some(Own::Deleted) => return Ok(None),
            None => {}
        }
        if let Some(reads) = &self.reads {
            self.reader.shared().refuse_reads(&reads.borrow())?;
            reads.borrow_mut().note_key(tree.target(), key);
        }
        self.reader.get_with(tree, key, f).map_err(|error| conflict_of(error, tree))
    }

    /// Whether there is a value for `key`.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(tree, key, |_| ())?.is_some())
    }

    /// The value of `key`, which nobody else may change until this commits: as if the transaction wrote it, the
    /// commit fails if somebody did. Nobody is kept waiting.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn get_for_update(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let value = self.get(tree, key.as_ref())?;
        self.change(tree, key.as_ref(), Change::Guard)?;
        Ok(value)
    }

    fn change(&mut self, tree: &Tree, key: &[u8], change: Change<'_>) -> Result<()> {
        self.check_time()?;
        self.reader.tree(tree)?;
        tree.check_write(key, change)?;
        let shared = self.reader.shared();
        if self.writes.spillable_bytes() > shared.write_set_bytes {
            self.writes.spill(&shared.pool)?;
        }
        let what = "keys read for update, or changes between many savepoints,";
        shared.refuse_beyond(self.writes.resident_bytes(), what)?;
        self.writes.set(&shared.pool, tree.target(), key, change)
    }

    /// Puts `value` under `key`, in place of what is there. Reads nothing.
    ///
    /// # Errors
    /// [`Usage::KeyTooLarge`], [`Usage::ValueTooLarge`], [`Usage::OtherDatabase`], [`Usage::TreeDropped`],
    /// [`Error::Timeout`], [`Error::Closed`]. If its writes are too many for its memory also [`Error::Full`],
    /// [`Error::Io`] and [`Error::Corrupt`], and [`Usage::TransactionTooLarge`] for what cannot leave the memory. The
    /// transaction stays as it was, and can go on when the cause is gone.
    pub fn put(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.change(tree, key.as_ref(), Change::Put(value.as_ref()))
    }

    /// Puts `value` under `key` if there is none. False: there is one.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`put`](Self::put).
    pub fn insert(
        &mut self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        if self.contains(tree, key.as_ref())? {
            return Ok(false);
        }
        self.put(tree, key, value)?;
        Ok(true)
    }

    /// Removes `key`. False: there is none.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and [`put`](Self::put).
    pub fn delete(&mut self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        if !self.contains(tree, key.as_ref())? {
            return Ok(false);
        }
        self.change(tree, key.as_ref(), Change::Delete)?;
        Ok(true)
    }

    /// All records of a tree, ascending; `rev()` for descending. Errors are those of [`get`](Self::get), as an item;
    /// nothing else follows one.
    pub fn iter(&self, tree: &Tree) -> TransactionRange<'_> {
        self.between(tree, Bound::Unbounded, Bound::Unbounded)
    }

    /// The records whose keys lie in `range`. A range whose start is above its end is empty.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        range: impl RangeBounds<K>,
    ) -> TransactionRange<'_> {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        self.between(tree, owned(range.start_bound()), owned(range.end_bound()))
    }

    /// The records whose keys start with `prefix`.
    pub fn prefix(&self, tree: &Tree, prefix: impl AsRef<[u8]>) -> TransactionRange<'_> {
        let (lower, upper) = super::range::bounds_of_prefix(prefix.as_ref());
        self.between(tree, lower, upper)
    }

    fn between(
        &self,
        tree: &Tree,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> TransactionRange<'_> {
        TransactionRange::new(&self.reader, &self.writes, self.reads.as_ref(), tree, lower, upper)
    }

    /// A place to go back to by [`rollback_to`](Self::rollback_to). It costs next to nothing, as long as no more than
    /// sixteen of them lie within [`Options::write_set_bytes`](crate::Options::write_set_bytes) of changes; changes
    /// between more of them stay in memory, up to
    /// [`Options::transaction_bytes_max`](crate::Options::transaction_bytes_max).
    pub fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    /// Takes back what was written since the savepoint, which can be used again; later ones cannot. What was read
    /// since then counts as read.
    ///
    /// # Errors
    /// [`Usage::NoSavepoint`]: it is of another transaction, or this one went back to an earlier one.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let pool = &self.reader.shared().pool;
        if self.writes.rollback_to(pool, savepoint) {
            Ok(())
        } else {
            Err(Usage::NoSavepoint.into())
        }
    }

    /// Makes all writes at once, or none. Gives the lsn of the commit; that of the state which was read, if there
    /// was nothing to write.
    ///
    /// # Errors
    /// [`Error::Conflict`]: somebody else changed what this one wrote (or read, if it is serializable); begin
    /// again, as [`Db::transact`](crate::Db::transact) does. [`Error::Timeout`], [`Error::SnapshotEnded`],
    /// [`Error::Full`], [`Error::Io`], [`Error::Corrupt`], [`Usage::TreeDropped`], [`Error::Closed`]. After all of
    /// these nothing was written. [`Error::Poisoned`]: whether it was written is known when the database is opened again.
    pub fn commit(mut self) -> Result<Lsn> {
        self.check_time()?;
        let shared = self.reader.shared();
        shared.check_writable("commit")?;
        self.reader.check(Ok(()))?;
        let ledger = self.reader.ledger().ok_or(Denied::ReadOnly { op: "commit" })?;
        if self.writes.is_empty() {
            // What it read was one state, and it changed nothing: it can be placed at that state.
            return Ok(self.lsn());
        }
        let reads = self.reads.as_ref().map(RefCell::borrow);
        let terms = Terms {
            durability: self.durability,
            since: Some(self.reader.lsn()),
            reader: self.reader.slot(),
            reads: reads.as_deref().filter(|reads| !reads.is_empty()),
        };
        let committed = if self.writes.is_spilled() {
            let checkpoint = || shared.checkpoint().map(drop);
            ledger.commit_spilled(&shared.pool, &mut self.writes, terms, checkpoint)
        } else {
            ledger.commit(&shared.pool, &self.writes.writes(), terms)
        };
        let lsn = match committed {
            // It is one too if the reader was ended while conflicts were looked for.
            conflict @ Err(Error::Conflict { .. }) => self.reader.check(conflict)?,
            committed => committed?,
        };
        Ok(if lsn == 0 { self.lsn() } else { Lsn(lsn) })
    }

    /// Takes everything back, as dropping it does.
    pub fn rollback(self) {}
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let pool = &self.reader.shared().pool;
        // Once poisoned, leaves may name large values of runs; nothing durable will name the rest.
        if pool.store().health().is_ok() {
            self.writes.discard(pool, &[]);
        }
    }
}
