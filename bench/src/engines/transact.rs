//! The two APIs of latchkv under one trait, for workloads of transactions: the same code runs on the plain one
//! and on that of sessions, and is compiled for each, so that no call through the trait is timed.
//!
//! Only what workloads need is here. A worker has an [`Api`] of its own, since a session is for one thread.

use latchkv::{
    Db, Entry, Result, Session, SessionRange, SessionTransaction, SessionTree, Transaction,
    TransactionRange, Tree,
};

/// Where transactions begin: `&Db` or `&Session`.
pub(crate) trait Api {
    /// An open tree.
    type Tree;
    /// A transaction.
    type Txn: Txn<Tree = Self::Tree>;

    /// Opens a tree; `None` if there is none of this name.
    fn open_tree(&self, name: &str) -> Result<Option<Self::Tree>>;

    /// Begins a transaction under snapshot isolation, with the durability of the database.
    fn begin(&self) -> Result<Self::Txn>;
}

/// A transaction. Dropping it takes everything back.
pub(crate) trait Txn {
    /// An open tree.
    type Tree;
    /// Records of a range, ascending.
    type Range<'t>: Iterator<Item = Result<Entry>>
    where
        Self: 't;

    /// Hands the value of `key` to `f`.
    fn get_with<R>(
        &self,
        tree: &Self::Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>>;

    /// Puts `value` under `key`.
    fn put(&mut self, tree: &Self::Tree, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`. False: there is none.
    fn delete(&mut self, tree: &Self::Tree, key: &[u8]) -> Result<bool>;

    /// The records from `from` on and below `to`.
    fn range<'t>(&'t self, tree: &'t Self::Tree, from: &[u8], to: &[u8])
    -> Result<Self::Range<'t>>;

    /// Makes all writes at once, or none.
    fn commit(self) -> Result<()>;
}

impl<'db> Api for &'db Db {
    type Tree = Tree;
    type Txn = Transaction<'db>;

    fn open_tree(&self, name: &str) -> Result<Option<Tree>> {
        Db::open_tree(self, name)
    }

    fn begin(&self) -> Result<Transaction<'db>> {
        Db::begin(self)
    }
}

impl Txn for Transaction<'_> {
    type Tree = Tree;
    type Range<'t>
        = TransactionRange<'t>
    where
        Self: 't;

    fn get_with<R>(
        &self,
        tree: &Tree,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        Transaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        Transaction::put(self, tree, key, value)
    }

    fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Transaction::delete(self, tree, key)
    }

    fn range<'t>(&'t self, tree: &'t Tree, from: &[u8], to: &[u8]) -> Result<TransactionRange<'t>> {
        Ok(Transaction::range::<&[u8]>(self, tree, from..to))
    }

    fn commit(self) -> Result<()> {
        Transaction::commit(self).map(drop)
    }
}

impl<'s> Api for &'s Session {
    type Tree = SessionTree<'s>;
    type Txn = SessionTransaction<'s>;

    fn open_tree(&self, name: &str) -> Result<Option<SessionTree<'s>>> {
        Session::tree(self, name).map(Some)
    }

    fn begin(&self) -> Result<SessionTransaction<'s>> {
        Session::begin(self)
    }
}

impl<'s> Txn for SessionTransaction<'s> {
    type Tree = SessionTree<'s>;
    type Range<'t>
        = SessionRange<'t>
    where
        Self: 't;

    fn get_with<R>(
        &self,
        tree: &SessionTree<'s>,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        SessionTransaction::get_with(self, tree, key, f)
    }

    fn put(&mut self, tree: &SessionTree<'s>, key: &[u8], value: &[u8]) -> Result<()> {
        SessionTransaction::put(self, tree, key, value)
    }

    fn delete(&mut self, tree: &SessionTree<'s>, key: &[u8]) -> Result<bool> {
        SessionTransaction::delete(self, tree, key)
    }

    fn range<'t>(
        &'t self,
        tree: &'t SessionTree<'s>,
        from: &[u8],
        to: &[u8],
    ) -> Result<SessionRange<'t>> {
        SessionTransaction::range::<&[u8]>(self, tree, from..to)
    }

    fn commit(self) -> Result<()> {
        SessionTransaction::commit(self).map(drop)
    }
}
