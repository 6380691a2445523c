//! Accounts and namespaces of a dump: they go in before all records, as one change, into a database without accounts.
//!
//! They are looked at whole before anything is written, so an input whose accounts make no sense loads nothing. A
//! database that has exactly these accounts is left as it is, which makes a load that goes on after an interruption
//! find its own.
//!
//! Tested in `tests/sessions.rs`.

use crate::exit::{Failure, Outcome};
use latchkv::{Db, Denied, Error, Usage};
use std::collections::BTreeSet;

/// What becomes of the trees of a dump that hold accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfAccounts {
    /// They are restored, as the owner of the files may.
    Restore,
    /// They are left out, as was asked for.
    LeaveOut,
    /// They are refused: an account loads.
    Refuse,
}

/// Tree, key and value.
pub(super) type AccountRecord = (String, Vec<u8>, Vec<u8>);

/// Restores the accounts of `input`, and says whether there was something to do.
pub(super) fn restore(db: &Db, records: &[AccountRecord], input: &str) -> Outcome<bool> {
    if records.is_empty() {
        return Ok(false);
    }
    let sessions = db.sessions();
    if sessions.has_accounts()? {
        if records_of(db)? == records.iter().cloned().collect() {
            return Ok(false);
        }
        return Err(Failure::Error(format!(
            "{input} holds accounts, and the database has others already: give --without-accounts to load all the rest, or \
             load into a new database"
        )));
    }
    match sessions.restore(records) {
        Ok(()) => Ok(true),
        Err(
            error @ (Error::Usage(Usage::BadAccountRecord { .. })
            | Error::Denied(Denied::LastAdministrator)),
        ) => Err(Failure::Error(format!(
            "the accounts of {input} cannot be restored: {error}\n--without-accounts loads all the rest"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// All records of the system's trees.
fn records_of(db: &Db) -> Outcome<BTreeSet<AccountRecord>> {
    let mut records = BTreeSet::new();
    for name in db.system_trees()? {
        let Some(tree) = db.open_tree(&name)? else { continue };
        for entry in tree.iter() {
            let entry = entry?;
            records.insert((name.clone(), entry.key().to_vec(), entry.value().to_vec()));
        }
    }
    Ok(records)
}
