//! Every change of accounts, and who may make it.
//!
//! | change | needs |
//! |---|---|
//! | create, drop a user or role; grant, revoke a role | SUPER |
//! | set a password | SUPER, or it is one's own |
//! | grant, revoke rights on an object | GRANT and those rights on that object, or SUPER |
//! | create, drop a namespace | CREATE, DROP on it |
//! | set a namespace to `no` or `yes` | SUPER, or MAINTENANCE on it |
//! | set a namespace to or from `super` | SUPER |
//!
//! A change goes through [`Accounts::change`]: its rules are checked on the current directory and its edits gathered in
//! a draft; then what holds for all changes is checked on the draft, it is committed, and published. Whoever holds
//! SUPER keeps it, and nobody drops itself, so nobody locks itself out by mistake; a consequence is [A4]. Since SUPER
//! grants and revokes every right, whoever holds it, no right is ever lost for good.
//! A change that changes nothing succeeds, and neither writes nor moves the epoch.

mod grants;
mod namespaces;
mod people;
mod restore;

use super::content::{Content, Draft};
use super::name::{AccountId, AccountName};
use super::object::Object;
use super::password::PasswordHash;
use super::record::Account;
use super::rights::Rights;
use super::{Accounts, Directory};
use crate::api::Db;
use crate::error::{Denied, Error, Result, Usage};
use std::sync::Arc;

/// What a change looks at and edits.
struct Change<'c> {
    directory: &'c Directory,
    /// Who makes it; `None` for the first administrator, which nobody makes.
    acting: Option<AccountId>,
    draft: Draft,
    next_id: &'c mut u64,
}

/// Publishes when it is dropped, also by a hook that panics: the commit is durable by then.
struct Published<'a> {
    accounts: &'a Accounts,
    directory: Option<Arc<Directory>>,
}

impl Drop for Published<'_> {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            self.accounts.publish(directory);
        }
    }
}

fn lacks(account: &AccountName, missing: Rights, object: &Object) -> Error {
    let (account, rights) = (account.to_string(), missing.to_string());
    Denied::NeedsRights { account, rights, object: object.to_string() }.into()
}

fn no_such(name: &AccountName) -> Error {
    Usage::NoSuchAccount(name.to_string()).into()
}

impl Change<'_> {
    fn content(&self) -> &Content {
        self.draft.content()
    }

    /// Refuses unless who makes the change holds these rights on the object.
    fn needs(&self, object: &Object, rights: Rights) -> Result<()> {
        let Some(acting) = self.acting else { return Ok(()) };
        let missing = rights.difference(self.directory.rights_on(acting, object));
        if missing.is_empty() {
            return Ok(());
        }
        Err(lacks(self.own_name()?, missing, object))
    }

    /// Refuses unless who makes the change may grant these rights, and take them away.
    fn needs_to_grant(&self, object: &Object, rights: Rights) -> Result<()> {
        if self.needs_super().is_ok() {
            return Ok(());
        }
        self.needs(object, rights | Rights::GRANT)
    }

    fn needs_super(&self) -> Result<()> {
        self.needs(&Object::All, Rights::SUPER)
    }

    fn own_name(&self) -> Result<&AccountName> {
        let name = self.acting.and_then(|acting| self.directory.name(acting));
        name.ok_or_else(|| Denied::AccountDropped.into())
    }

    fn account(&self, name: &AccountName) -> Result<&Account> {
        self.content().accounts.get(name).ok_or_else(|| no_such(name))
    }

    /// What was granted on this very object.
    fn granted(&self, grantee: &AccountName, object: &Object) -> Rights {
        let grants = self.content().grants.get(grantee);
        grants.and_then(|grants| grants.get(object)).copied().unwrap_or_default()
    }

    fn role(&self, name: &AccountName) -> Result<()> {
        if self.account(name)?.is_role() {
            return Ok(());
        }
        Err(Usage::NotARole(name.to_string()).into())
    }

    fn create(&mut self, name: &AccountName, hash: Option<PasswordHash>) -> Result<AccountId> {
        if self.content().accounts.contains_key(name) {
            return Err(Usage::AccountExists(name.to_string()).into());
        }
        let id = AccountId(*self.next_id);
        let Some(next) = id.0.checked_add(1) else {
            let source = Arc::new(std::io::ErrorKind::StorageFull.into());
            return Err(Error::Full { op: "give out an account id", source });
        };
        *self.next_id = next;
        self.draft.set_account(name, Account { id, hash });
        Ok(id)
    }

    /// What holds whatever was changed.
    fn check(&self, next: &Directory) -> Result<()> {
        if !next.has_administrator() {
            return Err(Denied::LastAdministrator.into());
        }
        let Some(acting) = self.acting else { return Ok(()) };
        let name = || self.own_name().map(ToString::to_string);
        if !next.exists(acting) {
            return Err(Denied::OwnAccount(name()?).into());
        }
        if self.directory.is_super(acting) && !next.is_super(acting) {
            return Err(Denied::OwnSuper(name()?).into());
        }
        Ok(())
    }
}

impl Accounts {
    /// Makes one change: see the head of this file. `published` is called between the commit and the publishing.
    fn change<R>(
        &self,
        db: &Db,
        acting: Option<AccountId>,
        published: impl FnOnce(),
        edit: impl FnOnce(&mut Change<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut changes = self.lock_changes();
        let directory = self.load(db, &mut changes)?;
        let draft = Draft::of(directory.content());
        let next_id = &mut changes.next_id;
        let mut change = Change { directory: &directory, acting, draft, next_id };
        if acting.is_some() {
            change.own_name()?;
        }
        let result = edit(&mut change)?;
        if change.draft.is_same() {
            return Ok(result);
        }
        let (content, edits) = std::mem::take(&mut change.draft).into_parts();
        let next = Directory::new(content, directory.epoch() + 1);
        change.check(&next)?;
        edits.commit(db)?;
        let _published = Published { accounts: self, directory: Some(Arc::new(next)) };
        published();
        Ok(result)
    }

    /// A change by an account of what nobody but the directory has to be told.
    fn edit<R>(
        &self,
        db: &Db,
        acting: AccountId,
        edit: impl FnOnce(&mut Change<'_>) -> Result<R>,
    ) -> Result<R> {
        self.change(db, Some(acting), || {}, edit)
    }

    /// Refuses, before a password is hashed, what would be refused after it for lack of SUPER.
    fn expect(
        &self,
        db: &Db,
        acting: AccountId,
        allowed: impl FnOnce(&Directory) -> bool,
    ) -> Result<()> {
        let directory = self.directory(db)?;
        let Some(name) = directory.name(acting) else { return Err(Denied::AccountDropped.into()) };
        if allowed(&directory) {
            return Ok(());
        }
        Err(lacks(name, Rights::SUPER, &Object::All))
    }
}
