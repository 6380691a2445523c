//! Reads and writes of one tree: by an open tree, and by name.

use super::handle::Session;
use super::open::OpenTree;
use super::range::SessionRange;
use super::watch::SessionWatch;
use crate::accounts::Rights;
use crate::api::{CompareAndSwap, Entry, Range, Tree};
use crate::error::Result;
use crate::name::AsName;
use std::ops::RangeBounds;
use std::rc::Rc;

/// A tree that a session has open. It holds no lock between calls: a tree that is dropped or renamed meanwhile fails with
/// [`Usage::TreeDropped`](crate::Usage::TreeDropped).
#[derive(Clone, Debug)]
pub struct SessionTree<'s> {
    pub(super) session: &'s Session,
    pub(super) open: Rc<OpenTree>,
}

impl OpenTree {
    #[inline]
    fn read<R>(
        &self,
        session: &Session,
        op: &'static str,
        f: impl FnOnce(&Tree) -> Result<R>,
    ) -> Result<R> {
        let _in_use = self.reading(session, op)?;
        f(&self.tree)
    }

    #[inline]
    fn write<R>(
        &self,
        session: &Session,
        op: &'static str,
        f: impl FnOnce(&Tree) -> Result<R>,
    ) -> Result<R> {
        let _in_use = self.writing(session, op)?;
        f(&self.tree)
    }

    #[inline]
    fn swap(
        &self,
        session: &Session,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSwap> {
        // What is there is told.
        let both = Rights::READ | Rights::WRITE;
        let _in_use = self.changing(session, "compare and swap", both)?;
        self.tree.compare_and_swap(key, expected, new)
    }
}

impl<'s> SessionTree<'s> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.open.name.as_str()
    }

    /// As [`Tree::get`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// As [`Tree::get_with`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.open.read(self.session, "get", |tree| tree.get_with(key, f))
    }

    /// As [`Tree::contains`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.open.read(self.session, "get", |tree| tree.contains(key))
    }

    /// As [`Tree::len`]. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn len(&self) -> Result<u64> {
        self.open.read(self.session, "count", Tree::len)
    }

    /// Whether there are no records. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// As [`Tree::put`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.open.write(self.session, "put", |tree| tree.put(key, value))
    }

    /// As [`Tree::insert`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.open.write(self.session, "insert", |tree| tree.insert(key, value))
    }

    /// As [`Tree::delete`]. Needs WRITE.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.open.write(self.session, "delete", |tree| tree.delete(key))
    }

    /// As [`Tree::compare_and_swap`]. Needs READ and WRITE.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSwap> {
        self.open.swap(self.session, key.as_ref(), expected, new)
    }

    /// The record of the least key. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn first(&self) -> Result<Option<Entry>> {
        self.iter().next().transpose()
    }

    /// The record of the greatest key. Needs READ.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn last(&self) -> Result<Option<Entry>> {
        self.iter().next_back().transpose()
    }

    fn scan(&self, range: Range<'static>) -> SessionRange<'s> {
        SessionRange::new(self.clone(), range)
    }

    /// As [`Tree::iter`]. Needs READ, at each step.
    pub fn iter(&self) -> SessionRange<'s> {
        self.scan(self.open.tree.iter())
    }

    /// As [`Tree::range`]. Needs READ, at each step.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> SessionRange<'s> {
        self.scan(self.open.tree.range(range))
    }

    /// As [`Tree::prefix`]. Needs READ, at each step.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> SessionRange<'s> {
        self.scan(self.open.tree.prefix(prefix))
    }

    /// As [`Tree::watch`]. Needs READ, for each event.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn watch(&self, prefix: impl AsRef<[u8]>, events_max: usize) -> Result<SessionWatch<'s>> {
        let watch = self.open.read(self.session, "watch", |tree| tree.watch(prefix, events_max))?;
        Ok(SessionWatch::new(self.clone(), watch))
    }
}

impl Session {
    /// As [`SessionTree::get`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn get(&self, tree: impl AsName, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(tree, key, <[u8]>::to_vec)
    }

    /// As [`SessionTree::get_with`].
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn get_with<R>(
        &self,
        tree: impl AsName,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.on(tree, ("get", Rights::READ), |open| {
            open.read(self, "get", |tree| tree.get_with(key, f))
        })
    }

    /// As [`SessionTree::contains`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn contains(&self, tree: impl AsName, key: impl AsRef<[u8]>) -> Result<bool> {
        self.on(tree, ("get", Rights::READ), |open| {
            open.read(self, "get", |tree| tree.contains(key))
        })
    }

    /// As [`SessionTree::len`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn len(&self, tree: impl AsName) -> Result<u64> {
        self.on(tree, ("count", Rights::READ), |open| open.read(self, "count", Tree::len))
    }

    /// As [`SessionTree::put`].
    ///
    /// # Errors
    /// See [`Session`].
    #[inline]
    pub fn put(
        &self,
        tree: impl AsName,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.on(tree, ("put", Rights::WRITE), |open| {
            open.write(self, "put", |tree| tree.put(key, value))
        })
    }

    /// As [`SessionTree::insert`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn insert(
        &self,
        tree: impl AsName,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool> {
        self.on(tree, ("insert", Rights::WRITE), |open| {
            open.write(self, "insert", |tree| tree.insert(key, value))
        })
    }

    /// As [`SessionTree::delete`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn delete(&self, tree: impl AsName, key: impl AsRef<[u8]>) -> Result<bool> {
        self.on(tree, ("delete", Rights::WRITE), |open| {
            open.write(self, "delete", |tree| tree.delete(key))
        })
    }

    /// As [`SessionTree::compare_and_swap`].
    ///
    /// # Errors
    /// See [`Session`].
    pub fn compare_and_swap(
        &self,
        tree: impl AsName,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<CompareAndSwap> {
        self.on(tree, ("compare and swap", Rights::READ | Rights::WRITE), |open| {
            open.swap(self, key.as_ref(), expected, new)
        })
    }
}
