//! Changes of users and roles, their passwords, and who has which role.

use super::super::name::{AccountId, AccountName};
use super::super::object::Object;
use super::super::password::PasswordHash;
use super::super::record::Account;
use super::super::rights::Rights;
use super::super::{Accounts, Directory};
use crate::api::Db;
use crate::error::{Result, Usage};

impl Accounts {
    /// Makes the first account, a user with all rights on everything. Nobody has logged in for that: whoever has opened
    /// the database may.
    ///
    /// # Errors
    /// [`Usage::AccountsExist`]; [`Usage::BadPassword`]; those of writing, as [`Db::write`].
    pub(crate) fn create_first_administrator(
        &self,
        db: &Db,
        name: &AccountName,
        password: &[u8],
    ) -> Result<AccountId> {
        if !self.directory(db)?.is_empty() {
            return Err(Usage::AccountsExist.into());
        }
        let hash = PasswordHash::new(password, self.options.cost)?;
        self.change(
            db,
            None,
            || {},
            |change| {
                if !change.directory.is_empty() {
                    return Err(Usage::AccountsExist.into());
                }
                let id = change.create(name, Some(hash))?;
                change.draft.set_grant(name, &Object::All, Rights::ALL);
                Ok(id)
            },
        )
    }

    /// Makes a user, without any rights.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::AccountExists`], [`Usage::BadPassword`], those of writing.
    pub(crate) fn create_user(
        &self,
        db: &Db,
        acting: AccountId,
        name: &AccountName,
        password: &[u8],
    ) -> Result<AccountId> {
        self.expect(db, acting, |directory| directory.is_super(acting))?;
        let hash = PasswordHash::new(password, self.options.cost)?;
        self.edit(db, acting, |change| {
            change.needs_super()?;
            change.create(name, Some(hash))
        })
    }

    /// Makes a role, without any rights.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::AccountExists`], those of writing.
    pub(crate) fn create_role(
        &self,
        db: &Db,
        acting: AccountId,
        name: &AccountName,
    ) -> Result<AccountId> {
        self.edit(db, acting, |change| {
            change.needs_super()?;
            change.create(name, None)
        })
    }

    /// Gives a user another password. Sessions of it stay.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::NoSuchAccount`], [`Usage::NotAUser`], [`Usage::BadPassword`], those of writing.
    pub(crate) fn set_password(
        &self,
        db: &Db,
        acting: AccountId,
        name: &AccountName,
        password: &[u8],
    ) -> Result<()> {
        let is_own = |directory: &Directory| directory.name(acting) == Some(name);
        self.expect(db, acting, |directory| is_own(directory) || directory.is_super(acting))?;
        let hash = PasswordHash::new(password, self.options.cost)?;
        self.edit(db, acting, |change| {
            if !is_own(change.directory) {
                change.needs_super()?;
            }
            let account = change.account(name)?;
            if account.is_role() {
                return Err(Usage::NotAUser(name.to_string()).into());
            }
            let account = Account { id: account.id, hash: Some(hash) };
            change.draft.set_account(name, account);
            Ok(())
        })
    }

    /// Drops a user or a role, with all that was granted to it, and its memberships. Its sessions have no rights from
    /// then on.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::NoSuchAccount`], [`Denied::OwnAccount`], [`Denied::OwnSuper`],
    /// [`Denied::LastAdministrator`], those of writing.
    pub(crate) fn drop_account(
        &self,
        db: &Db,
        acting: AccountId,
        name: &AccountName,
    ) -> Result<()> {
        self.edit(db, acting, |change| {
            change.needs_super()?;
            change.account(name)?;
            change.draft.remove_account(name);
            Ok(())
        })
    }

    /// Grants a role to a user or role.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::NoSuchAccount`], [`Usage::NotARole`], [`Usage::RoleCycle`], those of writing.
    pub(crate) fn grant_role(
        &self,
        db: &Db,
        acting: AccountId,
        role: &AccountName,
        member: &AccountName,
    ) -> Result<()> {
        self.edit(db, acting, |change| {
            change.needs_super()?;
            change.role(role)?;
            change.account(member)?;
            if change.content().has_role(role, member) {
                let (role, member) = (role.to_string(), member.to_string());
                return Err(Usage::RoleCycle { role, member }.into());
            }
            change.draft.add_role(member, role);
            Ok(())
        })
    }

    /// Takes a role back.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Usage::NoSuchAccount`], [`Usage::NotARole`], [`Usage::NotAMember`],
    /// [`Denied::OwnSuper`], [`Denied::LastAdministrator`], those of writing.
    pub(crate) fn revoke_role(
        &self,
        db: &Db,
        acting: AccountId,
        role: &AccountName,
        member: &AccountName,
    ) -> Result<()> {
        self.edit(db, acting, |change| {
            change.needs_super()?;
            change.role(role)?;
            change.account(member)?;
            if change.draft.remove_role(member, role) {
                return Ok(());
            }
            let (role, member) = (role.to_string(), member.to_string());
            Err(Usage::NotAMember { role, member }.into())
        })
    }
}
