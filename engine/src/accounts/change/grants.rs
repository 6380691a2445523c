//! Changes of what is granted.

use super::super::Accounts;
use super::super::name::{AccountId, AccountName};
use super::super::object::Object;
use super::super::rights::Rights;
use crate::api::Db;
use crate::error::{Result, Usage};

impl Accounts {
    /// Grants rights on an object, beside those granted before. [`Rights::ALL`] stands for those that can be granted on
    /// the object.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Denied::SystemTree`], [`Usage::BadObject`], [`Usage::BadRights`], [`Usage::BadGrant`],
    /// [`Usage::NoSuchAccount`], those of writing.
    pub(crate) fn grant(
        &self,
        db: &Db,
        acting: AccountId,
        grantee: &AccountName,
        object: &Object,
        rights: Rights,
    ) -> Result<()> {
        object.check()?;
        let rights = match rights {
            Rights::NONE => return Err(Usage::BadRights(rights.to_string()).into()),
            Rights::ALL => object.grantable(),
            rights => rights,
        };
        let beyond = rights.difference(object.grantable());
        if !beyond.is_empty() {
            let (rights, object) = (beyond.to_string(), object.to_string());
            return Err(Usage::BadGrant { rights, object }.into());
        }
        self.edit(db, acting, |change| {
            change.needs_to_grant(object, rights)?;
            change.account(grantee)?;
            let granted = change.granted(grantee, object);
            change.draft.set_grant(grantee, object, granted | rights);
            Ok(())
        })
    }

    /// Takes back rights that were granted on this very object; those of `rights` that were not are left out.
    ///
    /// # Errors
    /// [`Usage::NotGranted`] if none of them was granted there; [`Denied::NeedsRights`], [`Usage::NoSuchAccount`],
    /// [`Denied::OwnSuper`], [`Denied::LastAdministrator`], those of writing.
    pub(crate) fn revoke(
        &self,
        db: &Db,
        acting: AccountId,
        grantee: &AccountName,
        object: &Object,
        rights: Rights,
    ) -> Result<()> {
        self.edit(db, acting, |change| {
            // Before it is said what was granted, and whether there is such an account.
            change.needs_to_grant(object, Rights::NONE)?;
            change.account(grantee)?;
            let granted = change.granted(grantee, object);
            let taken = granted.intersection(rights);
            change.needs_to_grant(object, taken)?;
            if taken.is_empty() {
                let (grantee, rights) = (grantee.to_string(), rights.to_string());
                let object = object.to_string();
                return Err(Usage::NotGranted { grantee, rights, object }.into());
            }
            change.draft.set_grant(grantee, object, granted.difference(taken));
            Ok(())
        })
    }
}
