//! The session itself: who it is, the trees that it has open, and what it may not do.

use super::audit::AuditKind;
use super::names::Namespace;
use super::open::{OpenTree, object_of};
use super::sessions::{Policy, Sessions, State};
use super::tree::SessionTree;
use crate::accounts::{AccountId, Directory, Identity, Object, Rights};
use crate::api::Db;
use crate::error::{Denied, Error, Result, Usage};
use crate::name::{AsName, Name, NameRef, Named, ReadyHash};
use latchkv_latch::metadata::Owner;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Trees that a session keeps open for calls by name.
const OPEN_MAX: usize = 64;

/// An account that has logged in. It can go from thread to thread, and is for one at a time; a process may have as
/// many as it likes. Each call asks what the account may do, as of then.
///
/// Calls take a tree by its name, or one that [`tree`](Self::tree) has opened. A [`Name`] that is kept, or an open tree,
/// spares checking and hashing the name in each call. Transactions, batches and snapshots take open trees only, of this
/// session ([`SessionTree`]):
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = latchkv::Db::open(dir.path().join("db"))?;
/// # let sessions = db.sessions();
/// # sessions.create_administrator("root", b"a long phrase")?;
/// let root = sessions.login("root", b"a long phrase")?;
/// root.create_tree("stock")?;
/// let stock = root.tree("stock")?;
/// root.transact(|transaction| {
///     let apples = transaction.get(&stock, "apples")?.map_or(0, |value| value.len());
///     transaction.put(&stock, "apples", vec![b'x'; apples + 2])
/// })?; // durable from here on
/// let snapshot = root.snapshot()?;
/// assert_eq!(snapshot.get(&stock, "apples")?.as_deref(), Some(&b"xx"[..]));
/// # Ok(())
/// # }
/// ```
///
/// Each call may fail with [`Denied::NeedsRights`], [`Denied::AccountDropped`], and [`Error::Locked`] if another
/// session holds what it needs for too long, beside the errors of the same call of [`Db`] or [`Tree`](crate::Tree);
/// each that writes also with [`Denied::NamespaceReadOnly`].
#[derive(Debug)]
pub struct Session {
    sessions: Sessions,
    pub(super) owner: Owner,
    pub(super) account: AccountId,
    name: Box<str>,
    policy: Cell<Policy>,
    /// Trees of calls by name.
    open: RefCell<HashMap<Name, OpenTree, ReadyHash>>,
}

const fn can_be_sent<T: Send>() {}
const _: () = can_be_sent::<Session>();

impl Session {
    pub(super) fn new(sessions: &Sessions, identity: Identity) -> Session {
        let state = &sessions.state;
        Session {
            owner: state.locks.owner(),
            account: identity.id,
            name: identity.name.as_str().into(),
            policy: Cell::new(state.policy),
            open: RefCell::default(),
            sessions: sessions.clone(),
        }
    }

    /// The name by which it logged in.
    pub fn account(&self) -> &str {
        &self.name
    }

    /// How its rights are looked up from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.set(policy);
    }

    #[inline]
    pub(super) fn policy(&self) -> Policy {
        self.policy.get()
    }

    #[inline]
    pub(super) fn db(&self) -> &Db {
        &self.sessions.db
    }

    #[inline]
    pub(super) fn state(&self) -> &State {
        &self.sessions.state
    }

    /// How long a call waits for a lock.
    #[inline]
    pub(super) fn lock_timeout(&self) -> Option<Duration> {
        Some(self.sessions.state.lock_timeout)
    }

    pub(super) fn directory(&self) -> Result<Arc<Directory>> {
        self.state().accounts.directory(self.db())
    }

    /// [`directory`](Self::directory), with this account in it.
    ///
    /// # Errors
    /// [`Denied::AccountDropped`] if it is not.
    pub(super) fn live_directory(&self) -> Result<Arc<Directory>> {
        let directory = self.directory()?;
        if directory.exists(self.account) {
            Ok(directory)
        } else {
            Err(Denied::AccountDropped.into())
        }
    }

    /// The namespace of a name.
    pub(super) fn namespace(&self, name: NameRef<'_>) -> Result<Arc<Namespace>> {
        let state = || Ok(self.directory()?.namespace_state(name.namespace()));
        self.state().names.namespace(name, state)
    }

    /// Every right on a tree, by the eager policy.
    pub(super) fn eager_rights(&self, namespace: &str, tree: &str) -> Result<Rights> {
        let directory = self.directory()?;
        let name = directory.name(self.account).ok_or(Denied::AccountDropped)?;
        let eager = self.state().accounts.eager();
        Ok(eager.check_eager(name.as_str(), self.account, namespace, tree).rights())
    }

    /// The namespace is not simply writable: asks what the account is.
    #[cold]
    pub(super) fn check_state(&self, namespace: &Namespace, op: &'static str) -> Result<()> {
        let rights = self.live_directory()?.rights_on_namespace(self.account, &namespace.name);
        if namespace.state().lets_write(rights) { Ok(()) } else { Err(self.barred(namespace, op)) }
    }

    #[cold]
    pub(super) fn barred(&self, namespace: &Namespace, op: &'static str) -> Error {
        let name = namespace.name.to_string();
        self.note(AuditKind::ReadOnly { op, namespace: name.clone() });
        let state = namespace.state().to_string();
        Denied::NamespaceReadOnly { namespace: name, state }.into()
    }

    /// A tree is not to be had for `op`: its system keeps it, or a right is missing.
    #[cold]
    pub(super) fn denied(&self, op: &'static str, needed: Rights, name: NameRef<'_>) -> Error {
        let object = object_of(name);
        if name.is_system() && needed != Rights::READ {
            self.note(AuditKind::Denied { op, needed, object });
            return Denied::SystemTree(name.to_string()).into();
        }
        self.denied_on(op, needed, object)
    }

    /// What is missing of `needed` is named, as of now.
    #[cold]
    fn denied_on(&self, op: &'static str, needed: Rights, object: Object) -> Error {
        let held = self.directory().map(|directory| directory.rights_on(self.account, &object));
        let missing = needed.difference(held.unwrap_or_default());
        // It may have been granted since it was refused.
        let needed = if missing.is_empty() { needed } else { missing };
        let rights = needed.to_string();
        let (account, on) = (self.name.to_string(), object.to_string());
        self.note(AuditKind::Denied { op, needed, object });
        Denied::NeedsRights { account, rights, object: on }.into()
    }

    /// Asks for rights on an object, as of now.
    pub(super) fn check(&self, op: &'static str, needed: Rights, object: &Object) -> Result<()> {
        if self.live_directory()?.rights_on(self.account, object).contains(needed) {
            return Ok(());
        }
        Err(self.denied_on(op, needed, object.clone()))
    }

    pub(super) fn note(&self, kind: AuditKind) {
        self.state().audit.note(&self.name, kind);
    }

    /// Opens a tree.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`]; [`Denied::NeedsRights`] if the account has no right on it at all, whether it is there
    /// or not.
    pub fn tree(&self, name: impl AsName) -> Result<SessionTree<'_>> {
        let open = self.open(name.as_name()?, "open a tree", Rights::READ)?;
        Ok(SessionTree { session: self, open: Rc::new(open) })
    }

    /// Opens a tree for `op`; who has no right on it is told that `needed` are missing.
    fn open(&self, name: NameRef<'_>, op: &'static str, needed: Rights) -> Result<OpenTree> {
        let rights = self.live_directory()?.rights(self.account, name.namespace(), name.tree());
        if rights.is_empty() {
            return Err(self.denied(op, needed, name));
        }
        match self.db().open_tree(name)? {
            Some(tree) => OpenTree::new(self, tree, name),
            None => Err(Usage::NoSuchTree(name.to_string()).into()),
        }
    }

    /// Calls `f` with the tree of that name, which stays open for the next call. `f` is to do `op`, which needs
    /// `needed`.
    #[inline]
    pub(super) fn on<R>(
        &self,
        name: impl AsName,
        (op, needed): (&'static str, Rights),
        f: impl FnOnce(&OpenTree) -> Result<R>,
    ) -> Result<R> {
        let name = name.as_name()?;
        if let Some(open) = self.open.borrow().get(&name as &dyn Named)
            && open.is_current(self)
        {
            return f(open);
        }
        self.open_on(name, op, needed, f)
    }

    #[cold]
    fn open_on<R>(
        &self,
        name: NameRef<'_>,
        op: &'static str,
        needed: Rights,
        f: impl FnOnce(&OpenTree) -> Result<R>,
    ) -> Result<R> {
        let new = self.open(name, op, needed)?;
        // A call from within another one keeps nothing: the other one has the table.
        let Ok(mut open) = self.open.try_borrow_mut() else { return f(&new) };
        if open.len() >= OPEN_MAX {
            open.clear();
        }
        open.insert(new.name.clone(), new);
        drop(open);
        match self.open.borrow().get(&name as &dyn Named) {
            Some(open) => f(open),
            None => Err(Usage::NoSuchTree(name.to_string()).into()),
        }
    }
}
