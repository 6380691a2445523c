//! All accounts and rights of one epoch, in memory, immutable.
//!
//! ```text
//!   id --> name, [ own grants, grants of a role, grants of its role, .. ]     each shared by all who have the role
//!                       |
//!                       '--> on everything | on namespace "shop" | on tree "orders" of "shop"
//! ```
//!
//! What an account may do with a tree is the union of what its grants say of the three objects that hold the tree. It
//! is computed when asked for: three lookups for each role, none of which allocates. A session keeps the answer as long
//! as the epoch stays.
//!
//! * [Y1] The trees of the system are beyond grants: SUPER may read them, and nobody may write.
//! * [Y2] An id that is not in the map has no rights: the account was dropped, whoever has its name now.
//!
//! Tested below, and against the [eager policy](super::eager), which does not share this code, on random contents.

use super::content::Content;
use super::name::{AccountId, AccountName};
use super::object::{Object, ReadOnly};
use super::password::PasswordHash;
use super::record::Account;
use super::rights::Rights;
use crate::name::SYSTEM;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What one user or role was granted itself.
#[derive(Default, Debug)]
struct Grants {
    global: Rights,
    namespaces: HashMap<String, NamespaceGrants>,
}

#[derive(Default, Debug)]
struct NamespaceGrants {
    whole: Rights,
    trees: HashMap<String, Rights>,
}

impl Grants {
    fn of(granted: &BTreeMap<Object, Rights>) -> Grants {
        let mut grants = Grants::default();
        for (object, &rights) in granted {
            match object {
                Object::All => grants.global = rights,
                Object::Namespace(namespace) => {
                    grants.namespaces.entry(namespace.clone()).or_default().whole = rights;
                }
                Object::Tree { namespace, tree } => {
                    let grants = grants.namespaces.entry(namespace.clone()).or_default();
                    grants.trees.insert(tree.clone(), rights);
                }
            }
        }
        grants
    }

    /// On a tree, or on the namespace as a whole.
    fn on(&self, namespace: &str, tree: Option<&str>) -> Rights {
        let Some(within) = self.namespaces.get(namespace) else { return self.global };
        let on_tree = tree.and_then(|tree| within.trees.get(tree)).copied().unwrap_or_default();
        self.global | within.whole | on_tree
    }
}

#[derive(Debug)]
struct Entry {
    name: AccountName,
    /// Its own and those of its roles, theirs included; those who were granted nothing are left out.
    grants: Vec<Arc<Grants>>,
}

/// An account as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountInfo {
    /// Its name.
    pub name: AccountName,
    /// It is a role: it cannot log in, and can be granted to others.
    pub is_role: bool,
    /// The roles that were granted to it, ascending; not those that it has by them.
    pub roles: Vec<AccountName>,
    /// The rights that were granted to it, not those that it has by roles; ascending by object.
    pub grants: Vec<(Object, Rights)>,
}

/// The accounts, memberships, grants and namespaces of one epoch.
#[derive(Debug)]
pub(crate) struct Directory {
    epoch: u64,
    content: Content,
    entries: HashMap<AccountId, Entry>,
    /// Those who can log in, ascending.
    users: Vec<AccountName>,
}

impl Directory {
    /// The directory of a content that keeps its rules.
    pub(super) fn new(content: Content, epoch: u64) -> Directory {
        let grants: HashMap<&AccountName, Arc<Grants>> =
            content.grants.iter().map(|(name, of)| (name, Arc::new(Grants::of(of)))).collect();
        let entry = |name: &AccountName| Entry {
            name: name.clone(),
            grants: content
                .with_roles(name)
                .iter()
                .filter_map(|name| grants.get(name).cloned())
                .collect(),
        };
        let accounts = content.accounts.iter();
        let entries = accounts.clone().map(|(name, account)| (account.id, entry(name))).collect();
        let users =
            accounts.filter(|(_, account)| !account.is_role()).map(|(name, _)| name.clone());
        let users = users.collect();
        Directory { epoch, content, entries, users }
    }

    /// The same accounts, of another epoch.
    pub(super) fn of_epoch(&self, epoch: u64) -> Directory {
        Directory::new(self.content.clone(), epoch)
    }

    /// Which epoch it is of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// The name of an account; `None` if it was dropped. [Y2]
    pub(crate) fn name(&self, account: AccountId) -> Option<&AccountName> {
        self.entries.get(&account).map(|entry| &entry.name)
    }

    /// The account is there.
    pub(crate) fn exists(&self, account: AccountId) -> bool {
        self.entries.contains_key(&account)
    }

    fn union(&self, account: AccountId, on: impl Fn(&Grants) -> Rights) -> Rights {
        let grants = self.entries.get(&account).into_iter().flat_map(|entry| &entry.grants);
        grants.fold(Rights::NONE, |rights, grants| rights | on(grants))
    }

    /// What the account may do with a tree, both parts as [`Name`](crate::Name) gives them.
    pub(crate) fn rights(&self, account: AccountId, namespace: &str, tree: &str) -> Rights {
        self.rights_within(account, namespace, Some(tree))
    }

    /// What the account may do with every tree of a namespace.
    pub(crate) fn rights_on_namespace(&self, account: AccountId, namespace: &str) -> Rights {
        self.rights_within(account, namespace, None)
    }

    fn rights_within(&self, account: AccountId, namespace: &str, tree: Option<&str>) -> Rights {
        if namespace == SYSTEM {
            return system_rights(self.global_rights(account));
        }
        self.union(account, |grants| grants.on(namespace, tree))
    }

    /// What the account may do with everything.
    pub(crate) fn global_rights(&self, account: AccountId) -> Rights {
        self.union(account, |grants| grants.global)
    }

    /// The account has SUPER.
    pub(crate) fn is_super(&self, account: AccountId) -> bool {
        self.global_rights(account).contains(Rights::SUPER)
    }

    /// What the account may do with all that the object holds.
    pub(crate) fn rights_on(&self, account: AccountId, object: &Object) -> Rights {
        match object {
            Object::All => self.global_rights(account),
            Object::Namespace(namespace) => self.rights_on_namespace(account, namespace),
            Object::Tree { namespace, tree } => self.rights(account, namespace, tree),
        }
    }

    /// The state of a namespace. One that was never set is `No`.
    pub(crate) fn namespace_state(&self, namespace: &str) -> ReadOnly {
        self.content.namespaces.get(namespace).copied().unwrap_or_default()
    }

    /// The namespace is there, as the unnamed one always is.
    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.content.namespaces.contains_key(namespace)
    }

    /// The namespaces, ascending: the unnamed one, and those that were created.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = (&str, ReadOnly)> {
        let named = self.content.namespaces.iter().filter(|(namespace, _)| !namespace.is_empty());
        let named = named.map(|(namespace, &state)| (namespace.as_str(), state));
        std::iter::once(("", self.namespace_state(""))).chain(named)
    }

    /// Every account, ascending by name.
    pub(crate) fn list(&self) -> Vec<AccountInfo> {
        let content = &self.content;
        let info = |(name, account): (&AccountName, &Account)| AccountInfo {
            name: name.clone(),
            is_role: account.is_role(),
            roles: content.roles.get(name).into_iter().flatten().cloned().collect(),
            grants: content
                .grants
                .get(name)
                .into_iter()
                .flatten()
                .map(|(o, &r)| (o.clone(), r))
                .collect(),
        };
        content.accounts.iter().map(info).collect()
    }

    /// The account of this name.
    pub(super) fn find(&self, name: &str) -> Option<(&AccountName, &Account)> {
        self.content.accounts.get_key_value(name)
    }

    /// Somebody who can log in has SUPER.
    pub(super) fn has_administrator(&self) -> bool {
        let mut users = self.content.accounts.values().filter(|account| !account.is_role());
        users.any(|user| self.is_super(user.id))
    }

    /// There are no accounts.
    pub(crate) fn is_empty(&self) -> bool {
        self.content.accounts.is_empty()
    }

    /// Some user's hash, always the same one for the same number; `None` if there are no users.
    pub(super) fn any_hash(&self, number: u64) -> Option<&PasswordHash> {
        let count = self.users.len() as u64;
        let at = number.checked_rem(count)?;
        self.content.accounts.get(&self.users[at as usize])?.hash.as_ref()
    }
}

/// What somebody with these rights on everything may do with trees of the system. [Y1]
fn system_rights(global: Rights) -> Rights {
    if global.contains(Rights::SUPER) { Rights::READ } else { Rights::NONE }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{content_of, name};
    use super::*;

    fn rights(directory: &Directory, account: &str, object: &str) -> Rights {
        let (_, account) = directory.find(account).expect("an account");
        directory.rights_on(account.id, &object.parse().expect("an object"))
    }

    #[test]
    fn rights_are_united_over_objects_and_nested_roles() {
        let content = content_of(
            &["ada", "bob"],
            &["staff", "clerks", "auditors"],
            &[("ada", "clerks"), ("clerks", "staff"), ("staff", "auditors"), ("bob", "staff")],
            &[
                ("ada", "shop/orders", "DROP"),
                ("clerks", "shop/*", "WRITE"),
                ("staff", "shop/orders", "READ"),
                ("auditors", "*", "MAINTENANCE"),
                ("staff", "/*", "CREATE"),
            ],
        );
        let directory = Directory::new(content, 1);
        for (account, object, expected) in [
            ("ada", "shop/orders", "READ,WRITE,DROP,MAINTENANCE"),
            ("ada", "shop/items", "WRITE,MAINTENANCE"),
            ("ada", "shop/*", "WRITE,MAINTENANCE"),
            ("ada", "other/orders", "MAINTENANCE"),
            ("ada", "orders", "CREATE,MAINTENANCE"),
            ("ada", "/*", "CREATE,MAINTENANCE"),
            ("ada", "*", "MAINTENANCE"),
            ("bob", "shop/orders", "READ,MAINTENANCE"),
            ("bob", "shop/*", "MAINTENANCE"),
            ("clerks", "shop/orders", "READ,WRITE,MAINTENANCE"),
            ("auditors", "shop/orders", "MAINTENANCE"),
        ] {
            assert_eq!(
                rights(&directory, account, object).to_string(),
                expected,
                "{account} {object}"
            );
        }
        assert!(!directory.has_administrator());
    }

    #[test]
    fn an_account_that_is_not_there_has_no_rights() {
        let content = content_of(&["ada"], &[], &[], &[("ada", "*", "ALL")]);
        let directory = Directory::new(content, 1);
        let gone = AccountId(99);
        assert_eq!(directory.rights(gone, "shop", "orders"), Rights::NONE);
        assert_eq!(directory.global_rights(gone), Rights::NONE);
        assert!(!directory.exists(gone) && directory.name(gone).is_none());
        assert!(directory.has_administrator());
    }

    #[test]
    fn trees_of_the_system_are_read_by_super_and_written_by_nobody() {
        let grants =
            [("ada", "*", "ALL"), ("bob", "*", "READ,WRITE,CREATE,DROP,GRANT,MAINTENANCE")];
        let directory = Directory::new(content_of(&["ada", "bob"], &[], &[], &grants), 1);
        let id = |name: &str| directory.find(name).expect("an account").1.id;
        assert_eq!(directory.rights(id("ada"), "latchkv", "accounts"), Rights::READ);
        assert_eq!(directory.rights(id("bob"), "latchkv", "accounts"), Rights::NONE);
        assert_eq!(directory.rights_on_namespace(id("ada"), "latchkv"), Rights::READ);
    }

    #[test]
    fn a_role_with_super_is_no_administrator_but_gives_one() {
        let grants = [("admins", "*", "SUPER")];
        let alone = content_of(&["ada"], &["admins"], &[], &grants);
        assert!(!Directory::new(alone, 1).has_administrator());
        let given = content_of(
            &["ada"],
            &["admins", "inner"],
            &[("ada", "inner"), ("inner", "admins")],
            &grants,
        );
        assert!(Directory::new(given, 1).has_administrator());
    }

    #[test]
    fn the_list_says_what_was_granted_and_to_whom() {
        let grants = [("ada", "shop/*", "READ"), ("ada", "*", "SUPER")];
        let content = content_of(&["ada"], &["staff"], &[("ada", "staff")], &grants);
        let list = Directory::new(content, 1).list();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].name.as_str(), list[0].is_role), ("ada", false));
        assert_eq!(list[0].roles, [name("staff")]);
        let grants: Vec<String> = list[0].grants.iter().map(|(o, r)| format!("{o}={r}")).collect();
        assert_eq!(grants, ["*=SUPER", "shop/*=READ"]);
        assert_eq!((list[1].name.as_str(), list[1].is_role), ("staff", true));
    }
}
