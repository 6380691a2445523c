//! The handle of a tree.

use super::range::{Entry, Range, State};
use super::salvage::TreeSalvage;
use super::shared::Handle;
use super::watch::Watch;
use crate::btree::{Btree, Swap, TreeCore};
use crate::error::{Corruption, Denied, Error, Result, Usage};
use crate::id::TreeId;
use crate::name::NameRef;
use crate::pool::Pool;
use crate::txn::{Change, Ledger, Target};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// What [`Tree::compare_and_swap`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the swap may not have happened"]
pub enum CompareAndSwap {
    /// The new value is in place.
    Swapped,
    /// The value was another one, and stays.
    Mismatch {
        /// What is there; `None` if the key is absent.
        current: Option<Vec<u8>>,
    },
}

/// A tree: an ordered map from byte strings to byte strings. Keys are ordered as bytes;
/// [`encode`](crate::encode) makes numbers and tuples sort as they should. Empty keys and empty values are
/// keys and values like others.
///
/// Each call is a transaction of its own: what it changes is logged, and the call returns when the change is as
/// durable as [`Options::durability`](crate::Options::durability) says. Calls of many threads may run at once. For
/// several changes at once there are [`WriteBatch`](crate::WriteBatch) and [`Transaction`](crate::Transaction).
#[derive(Clone, Debug)]
pub struct Tree {
    handle: Arc<Handle>,
    target: Target,
    /// Of the system: to be read only.
    fixed: bool,
}

/// What a change needs.
type Writing<'t> = (&'t Ledger, &'t Pool);

impl Tree {
    pub(super) fn new(handle: Arc<Handle>, core: Arc<TreeCore>, name: NameRef<'_>) -> Tree {
        Tree { handle, target: Target { core, name: name.to_name() }, fixed: name.is_system() }
    }

    /// Both are handles of one tree.
    pub(crate) fn is_same(&self, other: &Tree) -> bool {
        Arc::ptr_eq(&self.target.core, &other.target.core)
    }

    /// It was dropped since it was opened.
    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.target.core.is_dropped()
    }

    /// The same tree, to be written to though it is of the system.
    pub(super) fn unfixed(mut self) -> Tree {
        self.fixed = false;
        self
    }

    /// What the layers below know it by.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether it is of that database.
    pub(super) fn is_of(&self, handle: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.handle, handle)
    }

    /// The database that it is of.
    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Refuses a tree of another database.
    pub(super) fn check_same(&self, other: &Tree) -> Result<()> {
        if self.is_of(&other.handle) {
            return Ok(());
        }
        Err(Usage::OtherDatabase(other.name().to_owned()).into())
    }

    /// Refuses a change that is over a limit.
    pub(super) fn check_write(&self, key: &[u8], change: Change<'_>) -> Result<()> {
        let tree = self.reading()?;
        self.check_free()?;
        tree.check_key(key)?;
        match change {
            Change::Put(value) => tree.check_value(value),
            Change::Delete | Change::Guard => Ok(()),
        }
    }

    #[inline(always)]
    pub(super) fn reading(&self) -> Result<Btree<'_>> {
        self.handle.shared.check_open()?;
        if self.target.core.is_dropped() {
            return Err(self.dropped());
        }
        Ok(Btree::new(&self.handle.shared.pool, &self.target.core))
    }

    /// Refuses to change a tree of the system.
    #[inline(always)]
    fn check_free(&self) -> Result<()> {
        if self.fixed { Err(Denied::SystemTree(self.name().to_owned()).into()) } else { Ok(()) }
    }

    #[inline(always)]
    fn writing(&self, op: &'static str) -> Result<Writing<'_>> {
        let shared = &self.handle.shared;
        shared.check_writable(op)?;
        self.check_free()?;
        if self.target.core.is_dropped() {
            return Err(self.dropped());
        }
        let ledger = shared.ledger.as_ref().ok_or(Denied::ReadOnly { op })?;
        Ok((ledger, &shared.pool))
    }

    #[cold]
    fn dropped(&self) -> Error {
        self.target.dropped()
    }

    /// A record that makes no sense to whoever owns this tree, or without a key one that is missing.
    #[cold]
    pub(crate) fn damaged_record(&self, expected: &str, key: Option<&[u8]>) -> Error {
        Error::from(Corruption {
            file: self.handle.shared.pool.store().path().to_owned(),
            offset: None,
            page: None,
            tree: Some(self.target.core.id),
            what: "record of a system tree",
            expected: format!("{expected} in {}", self.name()),
            got: key.map_or("none".to_owned(), |key| format!("key \"{}\"", key.escape_ascii())),
        })
    }

    /// What looks like damage in a tree dropped meanwhile is none.
    #[inline(always)]
    pub(super) fn explain<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Corrupt(_))) && self.target.core.is_dropped() {
            return Err(self.dropped());
        }
        result
    }

    pub(super) fn core(&self) -> &TreeCore {
        &self.target.core
    }

    /// The name by which this handle was opened.
    pub fn name(&self) -> &str {
        self.target.name.as_str()
    }

    /// What tells it from every other tree that this database has had or will have: it stays when the tree gets another
    /// name, and a tree that is dropped and made anew has another one.
    pub fn id(&self) -> TreeId {
        self.target.core.id
    }

    /// The value of `key`, as a copy.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if a page cannot be read, [`Error::Closed`],
    /// [`Usage::TreeDropped`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Hands the value of `key` to `f` without giving out a copy. The point read that costs least: of pages
    /// in memory it takes no latch, does no read-modify-write and allocates nothing. `f` is called once, with
    /// no latch held, and may call the database again.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// let tree = db.tree("t")?;
    /// tree.put(b"k", b"value")?;
    /// assert_eq!(tree.get_with(b"k", |value| value.len())?, Some(5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.explain(self.reading()?.get_with(key.as_ref(), f))
    }

    /// Whether there is a value for `key`.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.explain(self.reading()?.contains(key.as_ref()))
    }

    /// Puts `value` under `key`, in place of what was there.
    ///
    /// # Errors
    /// [`Usage::KeyTooLarge`], [`Usage::ValueTooLarge`], [`Error::Full`] if room for a page could not be
    /// made, [`Error::Poisoned`], [`Error::Denied`], and those of [`get`](Self::get). Nothing changed then.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (ledger, pool) = self.writing("put")?;
        let durability = self.handle.shared.durability;
        self.explain(ledger.put(pool, &self.target, key.as_ref(), value.as_ref(), durability))
    }

    /// Puts `value` under `key` only if there is none. False: there is one, and it stays.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let (ledger, pool) = self.writing("insert")?;
        let durability = self.handle.shared.durability;
        self.explain(ledger.insert(pool, &self.target, key.as_ref(), value.as_ref(), durability))
    }

    /// Removes `key`. False: there was none.
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (ledger, pool) = self.writing("delete")?;
        let durability = self.handle.shared.durability;
        self.explain(ledger.delete(pool, &self.target, key.as_ref(), durability))
    }

    /// Puts `new` in place of `expected` if that is what is there; `None` stands for no value, on both sides.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// use latchkv::CompareAndSwap;
    /// let tree = db.tree("t")?;
    /// assert_eq!(tree.compare_and_swap(b"k", None, Some(b"1"))?, CompareAndSwap::Swapped);
    /// let missed = tree.compare_and_swap(b"k", Some(b"0"), Some(b"2"))?;
    /// assert_eq!(missed, CompareAndSwap::Mismatch { current: Some(b"1".to_vec()) });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`put`](Self::put).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSwap> {
        let (ledger, pool) = self.writing("compare and swap")?;
        let (key, durability) = (key.as_ref(), self.handle.shared.durability);
        let swap = self.explain(ledger.compare_and_swap(
            pool,
            &self.target,
            key,
            expected,
            new,
            durability,
        ))?;
        Ok(match swap {
            Swap::Swapped => CompareAndSwap::Swapped,
            Swap::Mismatch(current) => CompareAndSwap::Mismatch { current },
        })
    }

    /// Number of records, without reading them. Exact while nobody writes.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Usage::TreeDropped`].
    pub fn len(&self) -> Result<u64> {
        self.reading()?;
        Ok(self.target.core.lengths.sum())
    }

    /// Whether there are no records.
    ///
    /// # Errors
    /// Those of [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The record of the least key.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn first(&self) -> Result<Option<Entry>> {
        self.iter().next().transpose()
    }

    /// The record of the greatest key.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    pub fn last(&self) -> Result<Option<Entry>> {
        self.iter().next_back().transpose()
    }

    /// All records, ascending; `rev()` for descending.
    pub fn iter(&self) -> Range<'static> {
        Range::new(self.clone(), State::Latest, Bound::Unbounded, Bound::Unbounded)
    }

    /// The records whose keys lie in `range`. A range whose start is above its end is empty.
    ///
    /// A record that is there during the whole iteration is seen exactly once; of what is written or removed
    /// meanwhile, each record is seen as it was at one moment, or not.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// let tree = db.tree("t")?;
    /// for key in ["a", "b", "c"] {
    ///     tree.put(key, "value")?;
    /// }
    /// let keys: Vec<_> = tree.range("a".."c").map(|entry| entry.map(|entry| entry.key().to_vec())).collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'static> {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Range::new(
            self.clone(),
            State::Latest,
            owned(range.start_bound()),
            owned(range.end_bound()),
        )
    }

    /// The records whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range<'static> {
        Range::of_prefix(self, State::Latest, prefix.as_ref())
    }

    /// Watches the keys that start with `prefix`: commits that become visible from now on, in their order, with
    /// room for `events_max` events that were not fetched yet.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// use latchkv::Event;
    /// let tree = db.tree("t")?;
    /// let mut watch = tree.watch("user/", 1000)?;
    /// tree.put("user/ada", "countess")?;
    /// match watch.next() {
    ///     Some(Event::Put { key, .. }) => assert_eq!(key, b"user/ada"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`], [`Usage::TreeDropped`], [`Error::Denied`] if the database was opened for reading.
    pub fn watch(&self, prefix: impl AsRef<[u8]>, events_max: usize) -> Result<Watch> {
        self.reading()?;
        let op = "watch a tree";
        let ledger = self.handle.shared.ledger.as_ref().ok_or(Denied::ReadOnly { op })?;
        let queue = ledger.watch(self.target.core.id, prefix.as_ref(), events_max);
        Ok(Watch::new(queue, self.clone()))
    }

    /// All records that can be read, ascending, and the gaps between them: for a tree with damaged pages, at
    /// whose first one [`iter`](Self::iter) ends. See [`Db::salvage`](super::Db::salvage) for a whole database.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// # let tree = db.tree("t")?;
    /// use latchkv::Salvaged;
    /// tree.put("a", "1")?;
    /// for found in tree.salvage() {
    ///     match found? {
    ///         Salvaged::Record(entry) => println!("{entry:?}"),
    ///         Salvaged::Gap(gap) => eprintln!("{gap}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn salvage(&self) -> TreeSalvage {
        TreeSalvage::new(self.clone())
    }

    /// Removes every record and gives the pages back. Atomic: others see all records or none.
    ///
    /// # Errors
    /// Those of [`put`](Self::put). If the records are gone but freeing their pages failed, opening the
    /// database goes on with that.
    pub fn clear(&self) -> Result<()> {
        let (ledger, pool) = self.writing("clear")?;
        let shared = &self.handle.shared;
        let log = ledger.defining();
        self.explain(shared.catalog.clear(pool, &self.target.core, &log))?;
        ledger.log.acknowledge(log.end(), shared.durability)
    }

    /// Builds the tree anew from its records, packed: many deletes and inserts in random order leave pages half empty.
    /// Others read meanwhile. Atomic, and durable when the call returns; needs room for the tree beside what it is now,
    /// which is given back afterwards. Snapshots and transactions that began before get
    /// [`Usage::ClearedSince`], or a conflict, from the tree; a watch gets [`Event::Reset`](crate::Event::Reset).
    ///
    /// # Errors
    /// [`Error::Conflict`] if others write to the tree meanwhile, and those of [`put`](Self::put). The tree is as it was
    /// then.
    pub fn rebuild(&self) -> Result<()> {
        self.rebuild_when(|| Ok(()))
    }

    /// [`rebuild`](Self::rebuild), with a call to `alone` before the new content is put in place.
    pub(crate) fn rebuild_when(&self, alone: impl FnOnce() -> Result<()>) -> Result<()> {
        let (ledger, pool) = self.writing("rebuild")?;
        let shared = &self.handle.shared;
        let checkpoint = || shared.checkpoint().map(drop);
        self.explain(ledger.rebuild(pool, &shared.catalog, &self.target, alone, checkpoint))
    }

    /// Loads records in strictly ascending order of their keys, and gives their number. An empty tree is
    /// built packed and bottom up, shows all of them at once or, after an error, none, and they are durable
    /// when the call returns. Into a tree that holds something they are put one by one, and made durable
    /// together at the end.
    ///
    /// # Errors
    /// [`Usage::Unsorted`], [`Usage::NotEmpty`] if others write to the empty tree meanwhile, and those of
    /// [`put`](Self::put).
    pub fn bulk_load<K, V>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let (ledger, pool) = self.writing("bulk load")?;
        let shared = &self.handle.shared;
        let checkpoint = || shared.checkpoint().map(drop);
        let loaded = ledger.load_sorted(pool, &self.target, records.into_iter(), checkpoint);
        self.explain(loaded)
    }
}
