//! What the system trees hold, in memory, and changes of it.
//!
//! ```text
//!   trees --load--> Content --copied--> Draft --its edits--> records in one transaction
//!                                         '----its content--> the next Directory
//! ```
//!
//! * [C1] In a loaded content each grantee, member and role is an account, only roles have members, no role reaches
//!   itself, and no two accounts share an id. What breaks this is damage.
//! * [C2] An edit of a draft changes its content and notes the record that says so, so the two never differ.

use super::name::{AccountId, AccountName};
use super::object::{Object, ReadOnly};
use super::record::{self, Account, SystemTree};
use super::rights::Rights;
use crate::api::{Db, TransactionOptions, Tree};
use crate::error::Result;
use crate::log::Durability;
use std::collections::{BTreeMap, BTreeSet};

/// All accounts, memberships, grants and namespaces.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Content {
    pub(super) accounts: BTreeMap<AccountName, Account>,
    /// Of each member, the roles that were granted to it.
    pub(super) roles: BTreeMap<AccountName, BTreeSet<AccountName>>,
    pub(super) grants: BTreeMap<AccountName, BTreeMap<Object, Rights>>,
    pub(super) namespaces: BTreeMap<String, ReadOnly>,
}

impl Content {
    /// Reads the system trees. A database where they do not exist has no accounts.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names the tree and the record.
    pub(super) fn load(db: &Db) -> Result<Content> {
        let mut content = Content::default();
        // Accounts first: the others name them.
        let Some(accounts) = db.open_tree(SystemTree::Accounts.name())? else { return Ok(content) };
        let mut ids = BTreeSet::new();
        each(&accounts, "an account", |key, value| {
            content.add(&mut ids, SystemTree::Accounts, key, value)
        })?;
        let existing = |tree: SystemTree| match db.open_tree(tree.name())? {
            Some(tree) => Ok(tree),
            // It was there before the first account was. Without it grants or states would be forgotten.
            None => {
                let expected = format!("no accounts without {}", tree.name());
                Err(accounts.damaged_record(&expected, None))
            }
        };
        for (tree, expected) in [
            (SystemTree::Members, "a role that was granted, and that does not have itself"),
            (SystemTree::Grants, "rights that were granted"),
            (SystemTree::Namespaces, "a namespace"),
        ] {
            each(&existing(tree)?, expected, |key, value| content.add(&mut ids, tree, key, value))?;
        }
        Ok(content)
    }

    /// Takes what a record says. `None`: it makes no sense, or not with those before it ([C1]). Accounts come first.
    /// `ids` has those of the accounts so far.
    pub(super) fn add(
        &mut self,
        ids: &mut BTreeSet<AccountId>,
        tree: SystemTree,
        key: &[u8],
        value: &[u8],
    ) -> Option<()> {
        match tree {
            SystemTree::Accounts => {
                let (name, account) = record::decode_account(key, value)?;
                ids.insert(account.id).then(|| self.accounts.insert(name, account))?;
            }
            SystemTree::Members => {
                let (member, role) = record::decode_member(key, value)?;
                let both = self.accounts.contains_key(&member) && self.is_role(&role);
                let fits = both && !self.has_role(&role, &member);
                fits.then(|| self.roles.entry(member).or_default().insert(role))?;
            }
            SystemTree::Grants => {
                let (grantee, object, rights) = record::decode_grant(key, value)?;
                let known = self.accounts.contains_key(&grantee);
                known.then(|| self.grants.entry(grantee).or_default().insert(object, rights))?;
            }
            SystemTree::Namespaces => {
                let (namespace, state) = record::decode_namespace(key, value)?;
                // Under its old key the unnamed one counts only if it has no other.
                let is_old = key == record::UNNAMED_BEFORE;
                if !(is_old && self.namespaces.contains_key(namespace)) {
                    self.namespaces.insert(namespace.to_owned(), state);
                }
            }
        }
        Some(())
    }

    pub(super) fn is_role(&self, name: &AccountName) -> bool {
        self.accounts.get(name).is_some_and(Account::is_role)
    }

    /// The account itself and every role that it has, also by roles, each once.
    pub(super) fn with_roles<'c>(&'c self, name: &'c AccountName) -> Vec<&'c AccountName> {
        let mut seen = BTreeSet::from([name]);
        let mut all = vec![name];
        let mut at = 0;
        while let Some(&name) = all.get(at) {
            let roles = self.roles.get(name).into_iter().flatten();
            all.extend(roles.filter(|&role| seen.insert(role)));
            at += 1;
        }
        all
    }

    /// `member` is `role`, or has it, also by roles.
    pub(super) fn has_role(&self, member: &AccountName, role: &AccountName) -> bool {
        self.with_roles(member).contains(&role)
    }

    /// The next id that no account of this content has.
    pub(super) fn next_id(&self) -> u64 {
        self.accounts
            .values()
            .map(|account| account.id.0)
            .max()
            .map_or(1, |id| id.saturating_add(1))
    }
}

/// Hands each record to `f`, which gives `None` for one that makes no sense.
fn each(
    tree: &Tree,
    expected: &'static str,
    mut f: impl FnMut(&[u8], &[u8]) -> Option<()>,
) -> Result<()> {
    for entry in tree.iter() {
        let entry = entry?;
        if f(entry.key(), entry.value()).is_none() {
            return Err(tree.damaged_record(expected, Some(entry.key())));
        }
    }
    Ok(())
}

/// One record to be put or, without a value, deleted.
#[derive(Debug)]
struct Edit {
    tree: SystemTree,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// A changed copy of a content, and what has to be written for it. [C2]
#[derive(Default, Debug)]
pub(super) struct Draft {
    content: Content,
    edits: Edits,
}

/// Records to be written together.
#[derive(Default, Debug)]
pub(super) struct Edits(Vec<Edit>);

impl Draft {
    pub(super) fn of(content: &Content) -> Draft {
        Draft { content: content.clone(), edits: Edits::default() }
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// From a content without accounts to that of another, all of it.
    pub(super) fn of_all(before: &Content, after: &Content) -> Draft {
        let mut draft = Draft::of(before);
        for (name, account) in &after.accounts {
            draft.set_account(name, account.clone());
        }
        for (member, roles) in &after.roles {
            roles.iter().for_each(|role| draft.add_role(member, role));
        }
        for (grantee, grants) in &after.grants {
            grants.iter().for_each(|(object, &rights)| draft.set_grant(grantee, object, rights));
        }
        for (namespace, &state) in &after.namespaces {
            draft.set_namespace(namespace, Some(state));
        }
        draft
    }

    /// What it has become, and what to write for it.
    pub(super) fn into_parts(self) -> (Content, Edits) {
        (self.content, self.edits)
    }

    /// Nothing has to be written.
    pub(super) fn is_same(&self) -> bool {
        self.edits.0.is_empty()
    }

    fn edit(&mut self, tree: SystemTree, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.edits.0.push(Edit { tree, key, value });
    }

    /// Makes the account, or gives it another password.
    pub(super) fn set_account(&mut self, name: &AccountName, account: Account) {
        let key = record::account_key(name);
        self.edit(SystemTree::Accounts, key, Some(account.encode()));
        self.content.accounts.insert(name.clone(), account);
    }

    /// Removes an account with its grants, its roles, and itself from those it was granted to.
    pub(super) fn remove_account(&mut self, name: &AccountName) {
        for object in self.content.grants.remove(name).unwrap_or_default().into_keys() {
            self.edit(SystemTree::Grants, record::grant_key(name, &object), None);
        }
        for role in self.content.roles.remove(name).unwrap_or_default() {
            self.edit(SystemTree::Members, record::member_key(name, &role), None);
        }
        let all = self.content.roles.iter();
        let members =
            all.filter(|(_, roles)| roles.contains(name)).map(|(member, _)| member.clone());
        for member in members.collect::<Vec<_>>() {
            self.remove_role(&member, name);
        }
        self.content.accounts.remove(name);
        self.edit(SystemTree::Accounts, record::account_key(name), None);
    }

    pub(super) fn add_role(&mut self, member: &AccountName, role: &AccountName) {
        if self.content.roles.entry(member.clone()).or_default().insert(role.clone()) {
            let value = Some(record::MEMBER.to_vec());
            self.edit(SystemTree::Members, record::member_key(member, role), value);
        }
    }

    /// False: the member was not granted it.
    pub(super) fn remove_role(&mut self, member: &AccountName, role: &AccountName) -> bool {
        let Some(roles) = self.content.roles.get_mut(member) else { return false };
        if !roles.remove(role) {
            return false;
        }
        if roles.is_empty() {
            self.content.roles.remove(member);
        }
        self.edit(SystemTree::Members, record::member_key(member, role), None);
        true
    }

    /// What is granted to `grantee` on this very object, none included.
    pub(super) fn set_grant(&mut self, grantee: &AccountName, object: &Object, rights: Rights) {
        let grants = self.content.grants.entry(grantee.clone()).or_default();
        let before = grants.get(object).copied().unwrap_or_default();
        let value = if rights.is_empty() {
            grants.remove(object);
            None
        } else {
            grants.insert(object.clone(), rights);
            Some(record::encode_rights(rights).to_vec())
        };
        if grants.is_empty() {
            self.content.grants.remove(grantee);
        }
        if before != rights {
            self.edit(SystemTree::Grants, record::grant_key(grantee, object), value);
        }
    }

    /// The state of a namespace, which exists from then on; without one it does not. The unnamed one always does, and
    /// has a record only while it is read-only.
    pub(super) fn set_namespace(&mut self, namespace: &str, state: Option<ReadOnly>) {
        let is_unnamed = namespace.is_empty();
        let state = state.filter(|&state| !is_unnamed || state != ReadOnly::No);
        let before = match state {
            Some(state) => self.content.namespaces.insert(namespace.to_owned(), state),
            None => self.content.namespaces.remove(namespace),
        };
        if before != state {
            if is_unnamed {
                self.edit(SystemTree::Namespaces, record::UNNAMED_BEFORE.to_vec(), None);
            }
            let value = state.map(|state| record::encode_state(state).to_vec());
            self.edit(SystemTree::Namespaces, record::namespace_key(namespace), value);
        }
    }
}

impl Edits {
    /// Writes them in one durable transaction. The system trees are created if there are none.
    ///
    /// # Errors
    /// Those of [`Db::tree`] and of [`Transaction::commit`](crate::Transaction::commit). Nothing was written then.
    pub(super) fn commit(&self, db: &Db) -> Result<()> {
        let mut trees = Vec::new();
        for tree in SystemTree::ALL {
            trees.push((tree, db.system_tree(tree.name())?));
        }
        let options = TransactionOptions::new().durability(Durability::Sync);
        let mut transaction = db.begin_with(&options)?;
        for (which, tree) in &trees {
            for edit in self.0.iter().filter(|edit| edit.tree == *which) {
                match &edit.value {
                    Some(value) => transaction.put(tree, &edit.key, value)?,
                    None => transaction.delete(tree, &edit.key).map(drop)?,
                }
            }
        }
        transaction.commit().map(drop)
    }
}
