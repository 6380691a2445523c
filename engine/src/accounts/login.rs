//! Proving who one is.
//!
//! * [L1] Whatever is wrong with a login, the answer is the same, and so is the work: one argon2 hash. For a name
//!   that no user has it is computed with the salt and cost of some user's hash, always the same one for that name, so that it
//!   takes as long as if there were such a user, also where users have hashes of several costs.
//! * [L2] Whether the name is there is looked up before the password is hashed and used after it.

use super::name::{AccountId, AccountName};
use super::{Accounts, Directory};
use crate::api::Db;
use crate::error::{Denied, Result, Usage};

/// Who has logged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// For asking what it may do.
    pub(crate) id: AccountId,
    /// For telling.
    pub(crate) name: AccountName,
}

impl Directory {
    /// The user of this name, and its number.
    fn user(&self, name: &str) -> Option<Identity> {
        let (name, account) = self.find(name).filter(|(_, account)| !account.is_role())?;
        Some(Identity { id: account.id, name: name.clone() })
    }
}

impl Accounts {
    /// Checks name and password. Slow on purpose, by [`PasswordCost`](super::PasswordCost); the logins of one name go
    /// one after the other.
    ///
    /// # Errors
    /// [`Denied::Login`] whatever was wrong; [`Denied::LoginLocked`] after five failures of this name;
    /// [`Usage::NoAccounts`]; [`Error::Full`](crate::Error::Full) if there is no memory for the hash, and those of
    /// [`directory`](Self::directory).
    pub(crate) fn login(&self, db: &Db, name: &str, password: &[u8]) -> Result<Identity> {
        let key = self.lockout.key(name);
        let _turn = self.lockout.turn(key);
        let directory = self.directory(db)?;
        if directory.is_empty() {
            return Err(Usage::NoAccounts.into());
        }
        self.lockout.check(key, (self.options.clock)())?;
        let user = directory.user(name);
        let own = directory.find(name).and_then(|(_, account)| account.hash.as_ref());
        // [A4]: there is a user.
        let hash = own.or_else(|| directory.any_hash(key.number())).ok_or(Denied::Login)?;
        let right = hash.verify(password)?;
        match user {
            Some(user) if right => {
                self.lockout.succeeded(key);
                Ok(user)
            }
            _ => {
                self.lockout.failed(key, (self.options.clock)());
                Err(Denied::Login.into())
            }
        }
    }
}
