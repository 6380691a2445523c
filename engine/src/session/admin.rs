//! Accounts, as a session changes them, and care of the database.

use super::audit::{AuditEvent, AuditKind};
use super::handle::Session;
use crate::accounts::{AccountInfo, AccountName, Object, Rights};
use crate::api::{BackupReport, CheckpointReport, Stats};
use crate::check::{CheckProgress, CheckReport};
use crate::error::{Denied, Error, Result};
use std::path::Path;

/// Which accounts may be changed, and by whom, is said at each call. All of them are durable when they return, and seen
/// by the next call of every session. Beside what is listed they may fail as any commit does.
impl Session {
    /// Notes a change of accounts that was denied, by rules that the accounts keep themselves.
    pub(super) fn audited<R>(&self, op: &'static str, changed: Result<R>) -> Result<R> {
        if let Err(Error::Denied(Denied::NeedsRights { rights, object, .. })) = &changed {
            let needed = rights.parse().unwrap_or(Rights::ALL);
            let object = object.parse().unwrap_or(Object::All);
            self.note(AuditKind::Denied { op, needed, object });
        }
        changed
    }

    /// Makes an account that can log in. Needs SUPER.
    ///
    /// # Errors
    /// [`Usage::AccountExists`](crate::Usage::AccountExists),
    /// [`Usage::BadAccountName`](crate::Usage::BadAccountName), [`Usage::BadPassword`](crate::Usage::BadPassword), and
    /// see [`Session`].
    pub fn create_user(&self, name: &str, password: &[u8]) -> Result<()> {
        let account = AccountName::new(name)?;
        let changed =
            self.state().accounts.create_user(self.db(), self.account, &account, password);
        self.audited("create a user", changed)?;
        self.note(AuditKind::Created { account: name.to_owned(), role: false });
        Ok(())
    }

    /// Makes a role. Needs SUPER.
    ///
    /// # Errors
    /// Those of [`create_user`](Self::create_user).
    pub fn create_role(&self, name: &str) -> Result<()> {
        let account = AccountName::new(name)?;
        let changed = self.state().accounts.create_role(self.db(), self.account, &account);
        self.audited("create a role", changed)?;
        self.note(AuditKind::Created { account: name.to_owned(), role: true });
        Ok(())
    }

    /// Sets a password: one's own, or with SUPER anybody's. Sessions that are open stay so.
    ///
    /// # Errors
    /// [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), [`Usage::BadPassword`](crate::Usage::BadPassword), and see
    /// [`Session`].
    pub fn set_password(&self, name: &str, password: &[u8]) -> Result<()> {
        let account = AccountName::new(name)?;
        let changed =
            self.state().accounts.set_password(self.db(), self.account, &account, password);
        self.audited("set a password", changed)?;
        self.note(AuditKind::PasswordSet { account: name.to_owned() });
        Ok(())
    }

    /// Drops a user or a role. Needs SUPER. Open sessions of a user fail from their next call on.
    ///
    /// # Errors
    /// [`Denied::OwnAccount`], [`Denied::LastAdministrator`],
    /// [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), and see [`Session`].
    pub fn drop_account(&self, name: &str) -> Result<()> {
        let account = AccountName::new(name)?;
        let changed = self.state().accounts.drop_account(self.db(), self.account, &account);
        self.audited("drop an account", changed)?;
        self.note(AuditKind::Dropped { account: name.to_owned() });
        Ok(())
    }

    /// Gives a role to a user or another role. Needs SUPER.
    ///
    /// # Errors
    /// [`Usage::RoleCycle`](crate::Usage::RoleCycle), [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), and see
    /// [`Session`].
    pub fn grant_role(&self, to: &str, role: &str) -> Result<()> {
        let (member, given) = (AccountName::new(to)?, AccountName::new(role)?);
        let changed = self.state().accounts.grant_role(self.db(), self.account, &given, &member);
        self.audited("grant a role", changed)?;
        self.note(AuditKind::RoleGranted { to: to.to_owned(), role: role.to_owned() });
        Ok(())
    }

    /// Takes a role away. Needs SUPER.
    ///
    /// # Errors
    /// [`Denied::LastAdministrator`], [`Denied::OwnSuper`],
    /// [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), and see [`Session`].
    pub fn revoke_role(&self, from: &str, role: &str) -> Result<()> {
        let (member, taken) = (AccountName::new(from)?, AccountName::new(role)?);
        let changed = self.state().accounts.revoke_role(self.db(), self.account, &taken, &member);
        self.audited("revoke a role", changed)?;
        self.note(AuditKind::RoleRevoked { from: from.to_owned(), role: role.to_owned() });
        Ok(())
    }

    /// Grants rights on an object. Needs GRANT on it, and the rights themselves; or SUPER, which is the last resort for
    /// rights that nobody has any more. The object need not be there: rights go by names.
    ///
    /// # Errors
    /// [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), [`Denied::SystemTree`], and see [`Session`].
    pub fn grant(&self, to: &str, object: &Object, rights: Rights) -> Result<()> {
        let account = AccountName::new(to)?;
        let changed =
            self.state().accounts.grant(self.db(), self.account, &account, object, rights);
        self.audited("grant rights", changed)?;
        self.note(AuditKind::Granted { to: to.to_owned(), object: object.clone(), rights });
        Ok(())
    }

    /// Takes rights away that were granted on this very object. Needs what granting them needs.
    ///
    /// # Errors
    /// [`Denied::LastAdministrator`], [`Denied::OwnSuper`],
    /// [`Usage::NoSuchAccount`](crate::Usage::NoSuchAccount), and see [`Session`].
    pub fn revoke(&self, from: &str, object: &Object, rights: Rights) -> Result<()> {
        let account = AccountName::new(from)?;
        let changed =
            self.state().accounts.revoke(self.db(), self.account, &account, object, rights);
        self.audited("revoke rights", changed)?;
        self.note(AuditKind::Revoked { from: from.to_owned(), object: object.clone(), rights });
        Ok(())
    }

    /// Every account, ascending by name; only one's own, without SUPER.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn accounts(&self) -> Result<Vec<AccountInfo>> {
        let directory = self.directory()?;
        let own = directory.name(self.account).ok_or(Denied::AccountDropped)?;
        let mut accounts = directory.list();
        if !directory.is_super(self.account) {
            accounts.retain(|account| account.name == *own);
        }
        Ok(accounts)
    }

    /// What the account may do with an object, as of now.
    ///
    /// # Errors
    /// [`Denied::AccountDropped`], and those of reading the accounts.
    pub fn rights(&self, object: &Object) -> Result<Rights> {
        Ok(self.live_directory()?.rights_on(self.account, object))
    }

    /// Takes the audit events that are kept, the oldest first, and says how many were lost before them since the last
    /// call. Needs SUPER.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn take_audit_events(&self) -> Result<(Vec<AuditEvent>, u64)> {
        self.check("read the audit events", Rights::SUPER, &Object::All)?;
        Ok(self.state().audit.take())
    }

    /// As [`Db::checkpoint`](crate::Db::checkpoint). Needs MAINTENANCE on everything.
    ///
    /// # Errors
    /// Those of [`Db::checkpoint`](crate::Db::checkpoint), and see [`Session`].
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.check("checkpoint", Rights::MAINTENANCE, &Object::All)?;
        self.db().checkpoint()
    }

    /// As [`Db::backup`](crate::Db::backup). Needs READ and SUPER on everything, until it is done: the copy has all
    /// accounts, with the hashes of their passwords.
    ///
    /// # Errors
    /// Those of [`Db::backup`](crate::Db::backup), and see [`Session`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let may = || self.check("back up", Rights::READ | Rights::SUPER, &Object::All);
        self.db().backup_while(to.as_ref(), may)
    }

    /// As [`Db::check`](crate::Db::check). Needs MAINTENANCE on everything.
    ///
    /// # Errors
    /// Those of [`Db::check`](crate::Db::check), and see [`Session`].
    pub fn check_database(&self, progress: impl FnMut(CheckProgress)) -> Result<CheckReport> {
        self.check("check the database", Rights::MAINTENANCE, &Object::All)?;
        self.db().check(progress)
    }

    /// As [`Db::stats`](crate::Db::stats). Needs MAINTENANCE on everything.
    ///
    /// # Errors
    /// See [`Session`].
    pub fn stats(&self) -> Result<Stats> {
        self.check("read statistics", Rights::MAINTENANCE, &Object::All)?;
        Ok(self.db().stats())
    }

    /// As [`Db::flush`](crate::Db::flush). Needs no right.
    ///
    /// # Errors
    /// Those of [`Db::flush`](crate::Db::flush).
    pub fn flush(&self) -> Result<()> {
        self.db().flush()
    }

    /// As [`Db::sync`](crate::Db::sync). Needs no right.
    ///
    /// # Errors
    /// Those of [`Db::sync`](crate::Db::sync).
    pub fn sync(&self) -> Result<()> {
        self.db().sync()
    }
}
