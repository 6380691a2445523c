//! Trees and namespaces: made, dropped, renamed, cleared, frozen.
//!
//! ```text
//! create   namespace IX, tree X            rename   both namespaces IX, both trees X, in the order of their names
//! drop     namespace IX, tree X            state    namespace X
//! clear    namespace IX, tree X            forget   namespace X
//! rebuild  namespace IX, tree SNW, then X
//! ```

use super::audit::AuditKind;
use super::handle::Session;
use super::names::Namespace;
use super::open::{locked, object_of};
use crate::accounts::{Object, ReadOnly, Rights};
use crate::error::{Result, Usage};
use crate::name::{AsName, NameRef};
use latchkv_latch::metadata::{ScopeKind, TreeKind};

impl Session {
    /// Calls `f` while nobody else uses the trees and no state of their namespaces changes, if these let the account
    /// write and it has the rights on the trees that are named with them.
    fn alone<R>(
        &self,
        op: &'static str,
        trees: &[(NameRef<'_>, Rights)],
        f: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        for &(name, needed) in trees {
            if name.is_system() {
                return Err(self.denied(op, needed, name));
            }
        }
        let may = || {
            trees.iter().try_for_each(|&(name, needed)| self.check(op, needed, &object_of(name)))
        };
        // Who may not keeps nobody waiting.
        may()?;
        // Everybody takes locks in the order of their names.
        let mut names: Vec<_> = trees.iter().map(|&(name, _)| name).collect();
        names.sort_by_key(|name| name.as_str());
        names.dedup();
        let shared = |&name| Ok((self.namespace(name)?, self.state().names.tree(name)));
        let shared = names.iter().map(shared).collect::<Result<Vec<_>>>()?;
        let timeout = self.lock_timeout();
        let mut held = Vec::new();
        for (name, (namespace, _)) in names.iter().zip(&shared) {
            let ticket = self.owner.lock(&namespace.lock, ScopeKind::Ix, timeout);
            held.push(ticket.map_err(|error| locked(name.as_str(), error))?);
            if !namespace.is_writable() {
                self.check_state(namespace, op)?;
            }
        }
        for (name, (_, lock)) in names.iter().zip(&shared) {
            let ticket = self.owner.lock(lock, TreeKind::X, timeout);
            held.push(ticket.map_err(|error| locked(name.as_str(), error))?);
        }
        // Rights may have gone while it waited.
        may()?;
        f()
    }

    /// Calls `f` while nobody else uses a namespace or a tree in it.
    fn alone_in<R>(&self, namespace: &str, f: impl FnOnce(&Namespace) -> Result<R>) -> Result<R> {
        // It is known by a name within it.
        let name = if namespace.is_empty() { "_".to_owned() } else { format!("{namespace}/_") };
        let shared = self.namespace(NameRef::new(&name)?)?;
        let ticket = self.owner.lock(&shared.lock, ScopeKind::X, self.lock_timeout());
        let _ticket = ticket.map_err(|error| locked(namespace, error))?;
        f(&shared)
    }

    /// Refuses a name in a namespace that is not there.
    fn check_namespace(&self, name: NameRef<'_>) -> Result<()> {
        if self.directory()?.has_namespace(name.namespace()) {
            return Ok(());
        }
        Err(Usage::NoSuchNamespace(name.namespace().to_owned()).into())
    }

    /// Makes a tree. Needs CREATE on it. Its namespace must be there, unless it is the unnamed one.
    ///
    /// # Errors
    /// [`Usage::TreeExists`], [`Usage::NoSuchNamespace`], [`Usage::BadName`], those of [`Db::tree`](crate::Db::tree), and
    /// see [`Session`].
    pub fn create_tree(&self, name: impl AsName) -> Result<()> {
        let name = name.as_name()?.for_new_tree()?;
        self.alone("create a tree", &[(name, Rights::CREATE)], || {
            self.check_namespace(name)?;
            if self.db().open_tree(name)?.is_some() {
                return Err(Usage::TreeExists(name.to_string()).into());
            }
            self.db().tree(name).map(drop)
        })
    }

    /// Drops a tree. Needs DROP. Waits for transactions that use it.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`], those of [`Db::drop_tree`](crate::Db::drop_tree), and see [`Session`].
    pub fn drop_tree(&self, name: impl AsName) -> Result<()> {
        let name = name.as_name()?;
        self.alone("drop a tree", &[(name, Rights::DROP)], || {
            if self.db().drop_tree(name)? {
                return Ok(());
            }
            Err(Usage::NoSuchTree(name.to_string()).into())
        })
    }

    /// Gives a tree another name, perhaps in another namespace. Needs DROP on the old name and CREATE on the new one.
    /// Rights go by names: who had rights on the old name has none by that on the new one. Open trees of sessions fail
    /// with [`Usage::TreeDropped`] from then on.
    ///
    /// # Errors
    /// Those of [`Db::rename_tree`](crate::Db::rename_tree), [`Usage::NoSuchNamespace`], and see [`Session`].
    pub fn rename_tree(&self, from: impl AsName, to: impl AsName) -> Result<()> {
        let (from, to) = (from.as_name()?, to.as_name()?.for_new_tree()?);
        let trees = [(from, Rights::DROP), (to, Rights::CREATE)];
        self.alone("rename a tree", &trees, || {
            self.check_namespace(to)?;
            self.db().rename_tree(from, to)
        })
    }

    /// Removes every record of a tree. Needs DROP and WRITE. Waits for transactions that use it.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`], those of [`Tree::clear`](crate::Tree::clear), and see [`Session`].
    pub fn clear_tree(&self, name: impl AsName) -> Result<()> {
        let name = name.as_name()?;
        self.alone("clear a tree", &[(name, Rights::DROP | Rights::WRITE)], || {
            match self.db().open_tree(name)? {
                Some(tree) => tree.clear(),
                None => Err(Usage::NoSuchTree(name.to_string()).into()),
            }
        })
    }

    /// As [`Tree::rebuild`](crate::Tree::rebuild): sessions read meanwhile, and those that would write wait. Needs
    /// MAINTENANCE on the tree's namespace. Waits for transactions that use the tree.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`], those of [`Tree::rebuild`](crate::Tree::rebuild), and see [`Session`].
    pub fn rebuild_tree(&self, name: impl AsName) -> Result<()> {
        let name = name.as_name()?;
        let object = Object::Namespace(name.namespace().to_owned());
        let op = "rebuild a tree";
        if name.is_system() {
            return Err(self.denied(op, Rights::MAINTENANCE, name));
        }
        self.check(op, Rights::MAINTENANCE, &object)?;
        let (namespace, lock) = (self.namespace(name)?, self.state().names.tree(name));
        let timeout = self.lock_timeout();
        let waited = |error| locked(name.as_str(), error);
        let _ix = self.owner.lock(&namespace.lock, ScopeKind::Ix, timeout).map_err(waited)?;
        if !namespace.is_writable() {
            self.check_state(&namespace, op)?;
        }
        let mut ticket = self.owner.lock(&lock, TreeKind::Snw, timeout).map_err(waited)?;
        let Some(tree) = self.db().open_tree(name)? else {
            return Err(Usage::NoSuchTree(name.to_string()).into());
        };
        tree.rebuild_when(|| {
            self.owner.upgrade(&mut ticket, TreeKind::X, self.lock_timeout()).map_err(waited)
        })
    }

    /// The names of the trees on which the account has any right, ascending.
    ///
    /// # Errors
    /// Those of [`Db::trees`](crate::Db::trees), and see [`Session`].
    pub fn trees(&self) -> Result<Vec<String>> {
        let directory = self.live_directory()?;
        let mut names = self.db().trees()?;
        names.retain(|name| {
            let name = NameRef::stored(name);
            name.is_ok_and(|name| {
                !directory.rights(self.account, name.namespace(), name.tree()).is_empty()
            })
        });
        Ok(names)
    }

    /// The namespaces with their states, ascending; the first is the unnamed one, which is always there.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn namespaces(&self) -> Result<Vec<(String, ReadOnly)>> {
        let directory = self.live_directory()?;
        Ok(directory.namespaces().map(|(name, state)| (name.to_owned(), state)).collect())
    }

    /// Makes a namespace. Needs CREATE on it.
    ///
    /// # Errors
    /// [`Usage::NamespaceExists`], [`Usage::BadObject`] (for `*`, too), those of a commit, and see [`Session`].
    pub fn create_namespace(&self, namespace: &str) -> Result<()> {
        let accounts = &self.state().accounts;
        let created = accounts.create_namespace(self.db(), self.account, namespace);
        self.audited("create a namespace", created)?;
        self.note(AuditKind::NamespaceCreated { namespace: namespace.to_owned() });
        Ok(())
    }

    /// Forgets a namespace. Needs DROP on it. What was granted on it stays.
    ///
    /// # Errors
    /// [`Usage::NamespaceInUse`] if there are trees in it, [`Usage::NoSuchNamespace`], [`Usage::BadObject`] for the
    /// unnamed one, [`Denied::NamespaceReadOnly`](crate::Denied::NamespaceReadOnly), those of a commit, and see
    /// [`Session`].
    pub fn drop_namespace(&self, namespace: &str) -> Result<()> {
        let op = "drop a namespace";
        self.check(op, Rights::DROP, &Object::Namespace(namespace.to_owned()))?;
        self.alone_in(namespace, |shared| {
            let is_within = |name: &String| {
                NameRef::stored(name).is_ok_and(|name| name.namespace() == namespace)
            };
            // The unnamed one is refused below, whatever is in it.
            if !namespace.is_empty()
                && let Some(tree) = self.db().trees()?.into_iter().find(is_within)
            {
                return Err(Usage::NamespaceInUse { namespace: namespace.to_owned(), tree }.into());
            }
            let publish = || shared.set_state(ReadOnly::No);
            let accounts = &self.state().accounts;
            let dropped = accounts.drop_namespace(self.db(), self.account, namespace, publish);
            self.audited(op, dropped)
        })?;
        self.note(AuditKind::NamespaceDropped { namespace: namespace.to_owned() });
        Ok(())
    }

    /// Sets whether a namespace may be written to. Waits for writes and transactions that began before. Needs
    /// MAINTENANCE on it; SUPER, if it is or becomes [`ReadOnly::Super`].
    ///
    /// # Errors
    /// [`Usage::NoSuchNamespace`], [`Usage::BadObject`], those of a commit, and see [`Session`].
    pub fn set_read_only(&self, namespace: &str, state: ReadOnly) -> Result<()> {
        let object = Object::Namespace(namespace.to_owned());
        let op = "set a namespace read-only";
        if !self.directory()?.rights_on(self.account, &object).contains(Rights::SUPER) {
            self.check(op, Rights::MAINTENANCE, &object)?;
        }
        self.alone_in(namespace, |shared| {
            let (accounts, publish) = (&self.state().accounts, || shared.set_state(state));
            let set =
                accounts.set_namespace_state(self.db(), self.account, namespace, state, publish);
            self.audited(op, set)
        })?;
        self.note(AuditKind::StateChanged { namespace: namespace.to_owned(), state });
        Ok(())
    }
}
