//! One state of the database, held for reading: what snapshots and transactions have in common.

use super::shared::{Handle, Shared};
use super::tree::Tree;
use crate::btree::{Btree, View};
use crate::error::{Error, Result, Usage};
use crate::txn::Ledger;
use latchkv_latch::SnapshotSlot;
use std::ops::Deref;
use std::sync::Arc;

/// A database that is borrowed, so that beginning costs no read-modify-write, or kept open.
#[derive(Clone, Debug)]
enum Keeper<'db> {
    Borrowed(&'db Arc<Handle>),
    Owned(Arc<Handle>),
}

impl Deref for Keeper<'_> {
    type Target = Arc<Handle>;

    fn deref(&self) -> &Arc<Handle> {
        match self {
            Keeper::Borrowed(handle) => handle,
            Keeper::Owned(handle) => handle,
        }
    }
}

/// Which state of the database a snapshot is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAt {
    /// All commits that are visible now, durable or not.
    #[default]
    Visible,
    /// Commits that no crash can take back any more. Usually those that are durable by now: nothing is waited for,
    /// and commits that are visible already may be missing, the caller's own with a lesser durability among them.
    /// Where old versions of that state are gone, because nobody read it and others have committed since, it is
    /// the state that is visible now, and it is waited for until that is durable: for one sync of the log at most,
    /// beside one that is under way, and for a bulk load in it to be on disk.
    Durable,
}

/// A registered reader.
#[derive(Debug)]
pub(super) struct Reader<'db> {
    keeper: Keeper<'db>,
    /// None in a database that nobody can write to.
    slot: Option<SnapshotSlot>,
    lsn: u64,
}

impl<'db> Reader<'db> {
    pub(super) fn new(
        handle: &'db Arc<Handle>,
        at: ReadAt,
        name: Option<&str>,
    ) -> Result<Reader<'db>> {
        let shared = &handle.shared;
        shared.check_open()?;
        let pinned = match (&shared.ledger, at) {
            (None, _) => None,
            (Some(ledger), ReadAt::Visible) => Some(ledger.pin_slot()),
            (Some(ledger), ReadAt::Durable) => Some(ledger.pin_durable()?),
        };
        if let (Some((slot, _)), Some(name)) = (pinned, name) {
            shared.readers.name(slot, name);
        }
        let (slot, lsn) = pinned.unzip();
        Ok(Reader { keeper: Keeper::Borrowed(handle), slot, lsn: lsn.unwrap_or(0) })
    }

    /// The same reader, which keeps the database open by itself.
    pub(super) fn into_owned(mut self) -> Reader<'static> {
        let keeper = Keeper::Owned(Arc::clone(&self.keeper));
        // What is dropped here has no slot to release.
        Reader { keeper, slot: self.slot.take(), lsn: self.lsn }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.keeper.shared
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.keeper
    }

    pub(super) fn lsn(&self) -> u64 {
        self.lsn
    }

    pub(super) fn slot(&self) -> Option<SnapshotSlot> {
        self.slot
    }

    /// What it sees.
    pub(super) fn view(&self) -> View<'_> {
        match (&self.slot, &self.shared().ledger) {
            (Some(_), Some(ledger)) => ledger.view(self.lsn),
            _ => View::Latest,
        }
    }

    /// The tree, if it is one of this database and there still.
    pub(super) fn tree<'t>(&self, tree: &'t Tree) -> Result<Btree<'t>> {
        if !tree.is_of(&self.keeper) {
            return Err(Usage::OtherDatabase(tree.name().to_owned()).into());
        }
        tree.reading()
    }

    /// To be asked after a read: whether it can be believed.
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`].
    pub(super) fn check<T>(&self, read: Result<T>) -> Result<T> {
        if let (Some(slot), Some(ledger)) = (self.slot, &self.shared().ledger)
            && ledger.is_ended(slot)
        {
            return Err(self.ended(slot));
        }
        read
    }

    #[cold]
    fn ended(&self, slot: SnapshotSlot) -> Error {
        let readers = &self.shared().readers;
        Error::SnapshotEnded { name: readers.name_of(slot), age_max: readers.age_max() }
    }

    /// Hands the value of `key` to `f`.
    #[inline]
    pub(super) fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let read = self.tree(tree)?.get_at(key, self.view(), f);
        self.check(tree.explain(read))
    }

    pub(super) fn ledger(&self) -> Option<&Ledger> {
        self.shared().ledger.as_ref()
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let shared = self.shared();
        shared.readers.forget(slot);
        if let Some(ledger) = &shared.ledger {
            ledger.unpin(slot);
        }
    }
}
