//! Transactions, batches and snapshots of a session.

use super::handle::Session;
use super::open::OpenTree;
use super::range::SessionRange;
use super::tree::SessionTree;
use crate::accounts::Rights;
use crate::api::{Lsn, ReadAt, Snapshot, Transaction, TransactionOptions, WriteBatch};
use crate::error::{Result, Usage};
use crate::log::Durability;
use crate::txn::Savepoint;
use latchkv_latch::metadata::Kept;
use std::cell::RefCell;
use std::ops::RangeBounds;
use std::rc::Rc;

/// A tree that a transaction has used.
#[derive(Debug)]
struct Used {
    open: Rc<OpenTree>,
    reading: Option<Kept>,
    /// Of one that is written to.
    writing: Option<Kept>,
}

/// The trees that a transaction has used: each stays in use until this is dropped ([S1]).
#[derive(Debug, Default)]
struct InUseTrees(RefCell<Vec<Used>>);

impl Drop for InUseTrees {
    fn drop(&mut self) {
        // Not those of another transaction that uses the same open tree.
        for Used { open, reading, writing } in self.0.get_mut().drain(..) {
            reading.into_iter().chain(writing).for_each(|kept| open.end_kept(kept));
        }
    }
}

/// A [`Transaction`] of a session. Trees that it has used are neither dropped nor renamed before it ends, and the states
/// of their namespaces stay; whoever wants that waits. When it commits it asks once more whether it may.
#[derive(Debug)]
#[must_use = "a transaction that is dropped takes its writes back"]
pub struct SessionTransaction<'s> {
    session: &'s Session,
    // Ends before its trees are let go of: fields are dropped in this order.
    inner: Transaction<'s>,
    used: InUseTrees,
}

impl Session {
    /// As [`Db::begin`](crate::Db::begin).
    ///
    /// # Errors
    /// Those of [`Db::begin`](crate::Db::begin).
    pub fn begin(&self) -> Result<SessionTransaction<'_>> {
        self.begin_with(&TransactionOptions::new())
    }

    /// As [`Db::begin_with`](crate::Db::begin_with).
    ///
    /// # Errors
    /// Those of [`Db::begin`](crate::Db::begin).
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<SessionTransaction<'_>> {
        Ok(SessionTransaction::new(self, self.db().begin_with(options)?))
    }

    /// As [`Db::transact`](crate::Db::transact).
    ///
    /// # Errors
    /// Those of `f` and of [`SessionTransaction::commit`], but conflicts.
    pub fn transact<R>(
        &self,
        mut f: impl FnMut(&mut SessionTransaction<'_>) -> Result<R>,
    ) -> Result<R> {
        self.db().retrying(&TransactionOptions::new(), |inner| {
            let mut transaction = SessionTransaction::new(self, inner);
            let result = f(&mut transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Changes for [`write`](Self::write).
    pub fn batch(&self) -> SessionBatch<'_> {
        SessionBatch { session: self, inner: WriteBatch::new(), trees: Vec::new() }
    }

    /// As [`Db::write`](crate::Db::write). Needs WRITE on each of its trees, as of now.
    ///
    /// # Errors
    /// [`Usage::OtherSessionsBatch`], and see [`Session`].
    pub fn write(&self, batch: &SessionBatch<'_>) -> Result<Lsn> {
        self.write_all(batch, None)
    }

    /// As [`Db::write_with`](crate::Db::write_with).
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn write_with(&self, batch: &SessionBatch<'_>, durability: Durability) -> Result<Lsn> {
        self.write_all(batch, Some(durability))
    }

    fn write_all(&self, batch: &SessionBatch<'_>, durability: Option<Durability>) -> Result<Lsn> {
        if !std::ptr::eq(self, batch.session) {
            return Err(Usage::OtherSessionsBatch.into());
        }
        let entered = batch.trees.iter().map(|open| open.writing(self, "write a batch"));
        let _in_use = entered.collect::<Result<Vec<_>>>()?;
        match durability {
            Some(durability) => self.db().write_with(&batch.inner, durability),
            None => self.db().write(&batch.inner),
        }
    }

    /// As [`Db::snapshot`](crate::Db::snapshot).
    ///
    /// # Errors
    /// Those of [`Db::snapshot`](crate::Db::snapshot).
    pub fn snapshot(&self) -> Result<SessionSnapshot<'_>> {
        self.snapshot_at(ReadAt::Visible, None)
    }

    /// As [`Db::snapshot_at`](crate::Db::snapshot_at).
    ///
    /// # Errors
    /// Those of [`Db::snapshot_at`](crate::Db::snapshot_at).
    pub fn snapshot_at(&self, at: ReadAt, name: Option<&str>) -> Result<SessionSnapshot<'_>> {
        Ok(SessionSnapshot { session: self, inner: self.db().snapshot_at(at, name)? })
    }
}

/// Refuses a tree of another session.
fn check_own(session: &Session, tree: &SessionTree<'_>) -> Result<()> {
    if std::ptr::eq(session, tree.session) {
        return Ok(());
    }
    Err(Usage::OtherSession(tree.name().to_owned()).into())
}

impl SessionTransaction<'_> {
    /// The tree is in use until the end, and may be read.
    fn reading(&self, tree: &SessionTree<'_>, op: &'static str) -> Result<()> {
        check_own(self.session, tree)?;
        let mut used = self.used.0.borrow_mut();
        if used.iter().any(|used| Rc::ptr_eq(&used.open, &tree.open)) {
            return tree.open.allowed(self.session, op, Rights::READ);
        }
        let reading = Some(tree.open.reading(self.session, op)?.keep());
        used.push(Used { open: Rc::clone(&tree.open), reading, writing: None });
        Ok(())
    }

    /// The tree is in use for writing until the end, and `needed` is there.
    fn changing(&self, tree: &SessionTree<'_>, op: &'static str, needed: Rights) -> Result<()> {
        check_own(self.session, tree)?;
        let mut used = self.used.0.borrow_mut();
        let known = used.iter().position(|used| Rc::ptr_eq(&used.open, &tree.open));
        if known.is_some_and(|at| used[at].writing.is_some()) {
            return tree.open.may_change(self.session, op, needed);
        }
        let writing = Some(tree.open.changing(self.session, op, needed)?.keep());
        match known {
            Some(at) => used[at].writing = writing,
            None => used.push(Used { open: Rc::clone(&tree.open), reading: None, writing }),
        }
        Ok(())
    }

    /// As [`Transaction::lsn`].
    pub fn lsn(&self) -> Lsn {
        self.inner.lsn()
    }

    /// As [`Transaction::get`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::get`].
    pub fn get(&self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(tree, key, <[u8]>::to_vec)
    }

    /// As [`Transaction::get_with`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::get`].
    pub fn get_with<R>(
        &self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.reading(tree, "get")?;
        self.inner.get_with(&tree.open.tree, key, f)
    }

    /// As [`Transaction::contains`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::get`].
    pub fn contains(&self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(tree, key, |_| ())?.is_some())
    }

    /// As [`Transaction::get_for_update`]. Needs READ and WRITE.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::get_for_update`].
    pub fn get_for_update(
        &mut self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.changing(tree, "get for update", Rights::READ | Rights::WRITE)?;
        self.inner.get_for_update(&tree.open.tree, key)
    }

    /// As [`Transaction::put`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::put`].
    pub fn put(
        &mut self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.changing(tree, "put", Rights::WRITE)?;
        self.inner.put(&tree.open.tree, key, value)
    }

    /// As [`Transaction::insert`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::insert`].
    pub fn insert(
        &mut self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.changing(tree, "insert", Rights::WRITE)?;
        self.inner.insert(&tree.open.tree, key, value)
    }

    /// As [`Transaction::delete`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::delete`].
    pub fn delete(&mut self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<bool> {
        self.changing(tree, "delete", Rights::WRITE)?;
        self.inner.delete(&tree.open.tree, key)
    }

    /// As [`Transaction::iter`]. Needs READ, at each step.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn iter<'t>(&'t self, tree: &SessionTree<'t>) -> Result<SessionRange<'t>> {
        self.reading(tree, "scan")?;
        Ok(SessionRange::of_transaction(tree.clone(), self.inner.iter(&tree.open.tree)))
    }

    /// As [`Transaction::range`]. Needs READ, at each step.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn range<'t, K: AsRef<[u8]>>(
        &'t self,
        tree: &SessionTree<'t>,
        range: impl RangeBounds<K>,
    ) -> Result<SessionRange<'t>> {
        self.reading(tree, "scan")?;
        Ok(SessionRange::of_transaction(tree.clone(), self.inner.range(&tree.open.tree, range)))
    }

    /// As [`Transaction::prefix`]. Needs READ, at each step.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn prefix<'t>(
        &'t self,
        tree: &SessionTree<'t>,
        prefix: impl AsRef<[u8]>,
    ) -> Result<SessionRange<'t>> {
        self.reading(tree, "scan")?;
        Ok(SessionRange::of_transaction(tree.clone(), self.inner.prefix(&tree.open.tree, prefix)))
    }

    /// As [`Transaction::savepoint`].
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// As [`Transaction::rollback_to`].
    ///
    /// # Errors
    /// Those of [`Transaction::rollback_to`].
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }

    /// As [`Transaction::commit`]. Needs WRITE on each tree that it writes to, as of now.
    ///
    /// # Errors
    /// See [`Session`] and [`Transaction::commit`]. Nothing was written then, but after
    /// [`Error::Poisoned`](crate::Error::Poisoned), which leaves it open.
    pub fn commit(mut self) -> Result<Lsn> {
        for used in self.used.0.get_mut().iter().filter(|used| used.writing.is_some()) {
            used.open.may_change(self.session, "commit", Rights::WRITE)?;
        }
        // The trees are let go of behind it, when what is left of this is dropped.
        self.inner.commit()
    }

    /// Takes everything back, as dropping it does.
    pub fn rollback(self) {}
}

impl<'s> SessionTransaction<'s> {
    fn new(session: &'s Session, inner: Transaction<'s>) -> SessionTransaction<'s> {
        SessionTransaction { session, inner, used: InUseTrees::default() }
    }
}

/// Changes that [`Session::write`] makes at once. Rights are asked for then.
#[derive(Debug)]
pub struct SessionBatch<'s> {
    session: &'s Session,
    inner: WriteBatch,
    trees: Vec<Rc<OpenTree>>,
}

impl SessionBatch<'_> {
    fn note(&mut self, tree: &SessionTree<'_>) -> Result<()> {
        check_own(self.session, tree)?;
        if !self.trees.iter().any(|known| Rc::ptr_eq(known, &tree.open)) {
            self.trees.push(Rc::clone(&tree.open));
        }
        Ok(())
    }

    /// As [`WriteBatch::put`].
    ///
    /// # Errors
    /// Those of [`WriteBatch::put`]; [`Usage::OtherSession`].
    pub fn put(
        &mut self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.note(tree)?;
        self.inner.put(&tree.open.tree, key, value)
    }

    /// As [`WriteBatch::delete`].
    ///
    /// # Errors
    /// Those of [`WriteBatch::delete`]; [`Usage::OtherSession`].
    pub fn delete(&mut self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<()> {
        self.note(tree)?;
        self.inner.delete(&tree.open.tree, key)
    }
}

/// A [`Snapshot`] of a session: each read asks whether it may, as of then.
#[derive(Debug)]
pub struct SessionSnapshot<'s> {
    session: &'s Session,
    inner: Snapshot<'s>,
}

impl SessionSnapshot<'_> {
    /// As [`Snapshot::lsn`].
    pub fn lsn(&self) -> Lsn {
        self.inner.lsn()
    }

    /// As [`Snapshot::get`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Snapshot::get`].
    pub fn get(&self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        check_own(self.session, tree)?;
        let _in_use = tree.open.reading(self.session, "get")?;
        self.inner.get(&tree.open.tree, key)
    }

    /// As [`Snapshot::get_with`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Snapshot::get_with`].
    pub fn get_with<R>(
        &self,
        tree: &SessionTree<'_>,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        check_own(self.session, tree)?;
        let _in_use = tree.open.reading(self.session, "get")?;
        self.inner.get_with(&tree.open.tree, key, f)
    }

    /// As [`Snapshot::contains`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`] and [`Snapshot::contains`].
    pub fn contains(&self, tree: &SessionTree<'_>, key: impl AsRef<[u8]>) -> Result<bool> {
        check_own(self.session, tree)?;
        let _in_use = tree.open.reading(self.session, "get")?;
        self.inner.contains(&tree.open.tree, key)
    }

    /// As [`Snapshot::iter`]. Needs READ, at each step.
    ///
    /// # Errors
    /// [`Usage::OtherSession`].
    pub fn iter<'t>(&'t self, tree: &SessionTree<'t>) -> Result<SessionRange<'t>> {
        check_own(self.session, tree)?;
        Ok(SessionRange::new(tree.clone(), self.inner.iter(&tree.open.tree)))
    }

    /// As [`Snapshot::range`]. Needs READ, at each step.
    ///
    /// # Errors
    /// [`Usage::OtherSession`].
    pub fn range<'t, K: AsRef<[u8]>>(
        &'t self,
        tree: &SessionTree<'t>,
        range: impl RangeBounds<K>,
    ) -> Result<SessionRange<'t>> {
        check_own(self.session, tree)?;
        Ok(SessionRange::new(tree.clone(), self.inner.range(&tree.open.tree, range)))
    }

    /// As [`Snapshot::prefix`]. Needs READ, at each step.
    ///
    /// # Errors
    /// [`Usage::OtherSession`].
    pub fn prefix<'t>(
        &'t self,
        tree: &SessionTree<'t>,
        prefix: impl AsRef<[u8]>,
    ) -> Result<SessionRange<'t>> {
        check_own(self.session, tree)?;
        Ok(SessionRange::new(tree.clone(), self.inner.prefix(&tree.open.tree, prefix)))
    }
}
