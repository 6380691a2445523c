//! Accounts out of the records that another database's system trees had: a dump.
//!
//! They are looked at as a whole, by the rules of a loaded content ([C1] of `content`), before any is written; then
//! they are written as one change of a database that has none. Records come in any order.

use super::super::content::{Content, Draft};
use super::super::record::SystemTree;
use super::super::{Accounts, Directory};
use crate::api::Db;
use crate::error::{Error, Result, Usage};
use std::collections::BTreeSet;

/// One record: the name of its tree, key and value.
type Record = (String, Vec<u8>, Vec<u8>);

fn senseless(tree: &str, key: &[u8], why: &'static str) -> Error {
    let record = key.escape_ascii().to_string();
    Usage::BadAccountRecord { tree: tree.to_owned(), record, why }.into()
}

impl Accounts {
    /// Restores accounts into a database that has none.
    ///
    /// # Errors
    /// [`Usage::AccountsExist`]; [`Usage::BadAccountRecord`] names the first record that makes no sense;
    /// [`Denied::LastAdministrator`](crate::Denied::LastAdministrator) if nobody among them is one; those of writing.
    /// Nothing was written then.
    pub(crate) fn restore(&self, db: &Db, records: &[Record]) -> Result<()> {
        let content = content_of(records)?;
        let next = Directory::new(content, 0);
        self.change(
            db,
            None,
            || {},
            |change| {
                if !change.directory.is_empty() {
                    return Err(Usage::AccountsExist.into());
                }
                *change.next_id = (*change.next_id).max(next.content().next_id());
                change.draft = Draft::of_all(change.content(), next.content());
                Ok(())
            },
        )
    }
}

fn content_of(records: &[Record]) -> Result<Content> {
    let known: BTreeSet<&str> = SystemTree::ALL.into_iter().map(SystemTree::name).collect();
    if let Some((tree, key, _)) = records.iter().find(|record| !known.contains(&record.0[..])) {
        return Err(senseless(tree, key, "no such tree of the system"));
    }
    let (mut content, mut ids) = (Content::default(), BTreeSet::new());
    // Accounts first: the others name them.
    for tree in
        [SystemTree::Accounts, SystemTree::Members, SystemTree::Grants, SystemTree::Namespaces]
    {
        for (name, key, value) in records.iter().filter(|(name, ..)| name == tree.name()) {
            content
                .add(&mut ids, tree, key, value)
                .ok_or_else(|| senseless(name, key, "it makes no sense, or not with the others"))?;
        }
    }
    Ok(content)
}
