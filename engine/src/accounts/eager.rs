//! The eager policy: every privilege computed up front, by names in maps behind a latch.
//!
//! It is how the servers check that this design learned from: each check takes a latch that all sessions share, builds
//! the key of each privilege as a string, looks each up, and compares strings at every step, whether the answer
//! depends on it or not. It is there to be measured, and to be the oracle of the [directory](super::Directory): it
//! shares no code with it, and answers the same.

use super::content::Content;
use super::name::AccountId;
use super::rights::Rights;
use crate::name::SYSTEM;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// Every right, decided.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct AllPrivileges {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) drop: bool,
    pub(crate) grant: bool,
    pub(crate) superuser: bool,
    pub(crate) maintenance: bool,
}

impl AllPrivileges {
    /// As the lazy policy says it.
    pub(crate) fn rights(self) -> Rights {
        [
            (self.read, Rights::READ),
            (self.write, Rights::WRITE),
            (self.create, Rights::CREATE),
            (self.drop, Rights::DROP),
            (self.grant, Rights::GRANT),
            (self.superuser, Rights::SUPER),
            (self.maintenance, Rights::MAINTENANCE),
        ]
        .into_iter()
        .fold(Rights::NONE, |rights, (holds, right)| if holds { rights | right } else { rights })
    }
}

#[derive(Default, Debug)]
struct Tables {
    /// `name` -> its id.
    accounts: BTreeMap<String, u64>,
    /// `member` -> roles granted to it.
    roles: BTreeMap<String, Vec<String>>,
    /// `grantee \0 RIGHT \0 object` -> true.
    privileges: BTreeMap<String, bool>,
}

/// The rights of all accounts, as the eager policy keeps them.
#[derive(Default, Debug)]
pub(crate) struct EagerRights(RwLock<Tables>);

impl EagerRights {
    /// Takes over what the accounts are from now on.
    pub(super) fn replace(&self, content: &Content) {
        let mut tables = Tables::default();
        for (name, account) in &content.accounts {
            tables.accounts.insert(name.to_string(), account.id.0);
        }
        for (member, roles) in &content.roles {
            let roles = roles.iter().map(ToString::to_string).collect();
            tables.roles.insert(member.to_string(), roles);
        }
        for (grantee, grants) in &content.grants {
            for (object, rights) in grants {
                for right in rights.to_string().split(',') {
                    tables.privileges.insert(format!("{grantee}\0{right}\0{object}"), true);
                }
            }
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tables;
    }

    /// Every privilege of the account `name`, which has to be the one of this id, on a tree.
    pub(crate) fn check_eager(
        &self,
        name: &str,
        id: AccountId,
        namespace: &str,
        tree: &str,
    ) -> AllPrivileges {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if tables.accounts.get(name) != Some(&id.0) {
            return AllPrivileges::default();
        }
        let holds = |right: &str| {
            let (mut seen, mut at) = (vec![name.to_owned()], 0);
            while at < seen.len() {
                if tables.is_granted(&seen[at], right, namespace, tree) {
                    return true;
                }
                for role in tables.roles.get(&seen[at]).into_iter().flatten() {
                    if !seen.contains(role) {
                        seen.push(role.clone());
                    }
                }
                at += 1;
            }
            false
        };
        let all = AllPrivileges {
            read: holds("READ"),
            write: holds("WRITE"),
            create: holds("CREATE"),
            drop: holds("DROP"),
            grant: holds("GRANT"),
            superuser: holds("SUPER"),
            maintenance: holds("MAINTENANCE"),
        };
        if namespace == SYSTEM {
            return AllPrivileges { read: all.superuser, ..AllPrivileges::default() };
        }
        all
    }
}

impl Tables {
    fn is_granted(&self, grantee: &str, right: &str, namespace: &str, tree: &str) -> bool {
        let name = match namespace {
            "" => tree.to_owned(),
            _ => format!("{namespace}/{tree}"),
        };
        let mut granted = false;
        // A tree of this name would have the text of its namespace.
        let own = if tree == "*" { String::new() } else { name };
        for object in ["*".to_owned(), format!("{namespace}/*"), own] {
            let key = format!("{grantee}\0{right}\0{object}");
            granted |= self.privileges.get(&key).copied().unwrap_or(false);
        }
        granted
    }
}
