//! A tree as a session has it open: the lease, and the rights that were looked up last.
//!
//! ```text
//!   enter:  lease in use -> state of the namespace (writes) -> epoch moved? look the rights up -> rights
//! ```
//!
//! The state and the epoch are one relaxed load each. What they lead to, and all that is denied, is out of line.

use super::handle::Session;
use super::names::Namespace;
use super::sessions::Policy;
use crate::accounts::{Object, Rights};
use crate::api::Tree;
use crate::error::{Error, Result, Usage};
use crate::name::{Name, NameRef};
use latchkv_latch::metadata::{InUse, Kept, Lease, LockError};
use std::cell::Cell;
use std::sync::Arc;

/// See the module head.
#[derive(Debug)]
pub(super) struct OpenTree {
    pub(super) tree: Tree,
    pub(super) name: Name,
    pub(super) namespace: Arc<Namespace>,
    lease: Lease,
    /// Of which epoch the rights are.
    epoch: Cell<u64>,
    rights: Cell<Rights>,
}

impl OpenTree {
    pub(super) fn new(session: &Session, tree: Tree, name: NameRef<'_>) -> Result<OpenTree> {
        let namespace = session.namespace(name)?;
        let lease = session.owner.lease(&namespace.lock, &session.state().names.tree(name));
        let open = OpenTree {
            tree,
            name: name.to_name(),
            namespace,
            lease,
            epoch: Cell::new(0),
            rights: Cell::new(Rights::NONE),
        };
        open.look_up(session)?;
        Ok(open)
    }

    /// The name stands for it still, as far as this session knows.
    #[inline]
    pub(super) fn is_current(&self, session: &Session) -> bool {
        !self.tree.is_dropped() && self.epoch.get() == session.state().accounts.epoch()
    }

    /// To read, for as long as what it gives lives.
    #[inline]
    pub(super) fn reading(&self, session: &Session, op: &'static str) -> Result<InUse<'_>> {
        let in_use = match self.lease.read(session.lock_timeout()) {
            Ok(in_use) => in_use,
            Err(error) => return Err(locked(self.name.as_str(), error)),
        };
        self.allowed(session, op, Rights::READ)?;
        Ok(in_use)
    }

    /// To write, for as long as what it gives lives ([S1]).
    #[inline]
    pub(super) fn writing(&self, session: &Session, op: &'static str) -> Result<InUse<'_>> {
        self.changing(session, op, Rights::WRITE)
    }

    /// To write, with rights of the caller's choice.
    #[inline]
    pub(super) fn changing(
        &self,
        session: &Session,
        op: &'static str,
        needed: Rights,
    ) -> Result<InUse<'_>> {
        let in_use = match self.lease.write(session.lock_timeout()) {
            Ok(in_use) => in_use,
            Err(error) => return Err(locked(self.name.as_str(), error)),
        };
        self.may_change(session, op, needed)?;
        Ok(in_use)
    }

    /// Asks whether it may be written to. The lease is in use for writing.
    #[inline]
    pub(super) fn may_change(
        &self,
        session: &Session,
        op: &'static str,
        needed: Rights,
    ) -> Result<()> {
        match session.policy() {
            Policy::Lazy => {
                if !self.namespace.is_writable() {
                    session.check_state(&self.namespace, op)?;
                }
                self.allowed(session, op, needed)
            }
            Policy::Eager => self.change_eagerly(session, op, needed),
        }
    }

    /// [S2].
    #[inline]
    pub(super) fn allowed(
        &self,
        session: &Session,
        op: &'static str,
        needed: Rights,
    ) -> Result<()> {
        if self.epoch.get() != session.state().accounts.epoch() {
            self.look_up(session)?;
        }
        if self.rights.get().contains(needed) {
            return Ok(());
        }
        Err(session.denied(op, needed, self.name.as_ref()))
    }

    /// Looks the rights up, and whether the name still stands for the tree.
    #[cold]
    fn look_up(&self, session: &Session) -> Result<()> {
        self.rights.set(Rights::NONE);
        let directory = session.live_directory()?;
        let now = session.db().open_tree(&self.name)?;
        if !now.is_some_and(|now| now.is_same(&self.tree)) {
            return Err(Usage::TreeDropped(self.name.to_string()).into());
        }
        let (namespace, tree) = (self.name.namespace(), self.name.tree());
        self.rights.set(directory.rights(session.account, namespace, tree));
        self.epoch.set(directory.epoch());
        Ok(())
    }

    /// All privileges first, by names; then what follows from them.
    #[cold]
    fn change_eagerly(&self, session: &Session, op: &'static str, needed: Rights) -> Result<()> {
        let (namespace, tree) = (self.name.namespace(), self.name.tree());
        let all = session.eager_rights(namespace, tree)?;
        if !self.namespace.state().lets_write(all) {
            return Err(session.barred(&self.namespace, op));
        }
        if self.epoch.get() != session.state().accounts.epoch() {
            // The rights are those of a name, which may stand for another tree by now.
            self.look_up(session)?;
        }
        if all.contains(needed) {
            return Ok(());
        }
        Err(session.denied(op, needed, self.name.as_ref()))
    }

    /// Ends a use that was kept for longer than a call.
    pub(super) fn end_kept(&self, kept: Kept) {
        self.lease.end_kept(kept);
    }
}

/// A tree as the object of rights.
pub(super) fn object_of(name: NameRef<'_>) -> Object {
    Object::Tree { namespace: name.namespace().to_owned(), tree: name.tree().to_owned() }
}

/// A lock that was not had.
#[cold]
pub(super) fn locked(name: &str, cause: LockError) -> Error {
    Error::Locked { name: name.to_owned(), cause }
}
