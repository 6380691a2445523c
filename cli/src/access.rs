//! The way to the data: by the plain API, as the one who may open the files, or by a session, as an account.
//!
//! ```text
//! without --user   Db       everything, but changes of system trees
//! with --user      Session  what the account may, as each call asks anew
//! ```
//!
//! Commands ask here and do not know which of both it is. The password of `--user` is there before the database is opened,
//! so that nobody waits for one that is open because somebody types; a new password is asked for only once it is known
//! who asks.
//!
//! Tested through the program, in `tests/sessions.rs`.

use crate::args::{Global, Who};
use crate::exit::{Failure, Outcome};
use crate::open::{self, Opened};
use crate::password::{self, Password};
use latchkv::{
    CheckProgress, CheckReport, Db, Denied, Durability, Entry, Error, Name, Object, Rights,
    Session, SessionTree, Stats, Tree, Usage,
};
use std::ops::Bound;
use std::path::Path;

/// What the names of system trees begin with.
const SYSTEM: &str = "latchkv/";

/// The tree holds accounts or namespaces.
pub(crate) fn is_system(name: &str) -> bool {
    name.starts_with(SYSTEM)
}

/// A database, and who uses it.
#[derive(Debug)]
pub(crate) struct Access {
    session: Option<Session>,
    opened: Opened,
}

/// Account and password, before the database is opened.
type Credentials<'w> = Option<(&'w str, Password)>;

fn credentials<'w>(global: &Global, who: &'w Who) -> Outcome<Credentials<'w>> {
    let Some(name) = &who.user else { return Ok(None) };
    let password = password::own(global.quiet, name, who.password_file.as_deref())?;
    Ok(Some((name, password)))
}

impl Access {
    /// For reading only.
    pub(crate) fn read_only(global: &Global, path: &Path, who: &Who) -> Outcome<Access> {
        let credentials = credentials(global, who)?;
        Access::new(Opened::existing(open::read_only(global, path)?), credentials)
    }

    /// For writing; something must be there.
    pub(crate) fn existing(
        global: &Global,
        path: &Path,
        who: &Who,
        durability: Durability,
    ) -> Outcome<Access> {
        let credentials = credentials(global, who)?;
        Access::new(Opened::existing(open::existing(global, path, durability)?), credentials)
    }

    /// For writing; created if nothing is there, but not by an account, as there are none then.
    pub(crate) fn or_create(
        global: &Global,
        path: &Path,
        who: &Who,
        durability: Durability,
    ) -> Outcome<Access> {
        match who.user {
            Some(_) => Access::existing(global, path, who, durability),
            None => Access::new(open::or_create(global, path, durability)?, None),
        }
    }

    fn new(opened: Opened, credentials: Credentials<'_>) -> Outcome<Access> {
        let session = match credentials {
            Some((name, password)) => Some(opened.db.sessions().login(name, &password)?),
            None => None,
        };
        Ok(Access { session, opened })
    }

    /// The database itself.
    pub(crate) fn db(&self) -> &Db {
        &self.opened.db
    }

    /// The account that logged in, if there is one.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// From now on there is something worth keeping: a failure takes nothing away.
    pub(crate) fn keep(&mut self) {
        self.opened.keep();
    }

    /// Makes everything durable and closes.
    pub(crate) fn close(self) -> Outcome {
        self.opened.close()
    }

    /// Closes after a failure and, if nothing was there before, leaves nothing.
    pub(crate) fn abandon(self) {
        self.opened.abandon();
    }

    /// The names of the trees; of an account, those on which it has any right. Those of the system are not among them.
    pub(crate) fn trees(&self) -> Outcome<Vec<String>> {
        Ok(match &self.session {
            Some(session) => session.trees()?,
            None => self.db().trees()?,
        })
    }

    /// The tree `name`, which must exist.
    pub(crate) fn tree(&self, name: &str) -> Outcome<Handle<'_>> {
        let Some(session) = &self.session else {
            return open::tree(self.db(), name).map(Handle::Plain);
        };
        match session.tree(name) {
            Ok(tree) => Ok(Handle::Session(tree)),
            Err(Error::Usage(Usage::NoSuchTree(_))) => {
                Err(open::no_such_tree(name, &session.trees()?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The tree `name` to put records into; created if it does not exist.
    pub(crate) fn tree_to_fill(&self, name: &str) -> Outcome<Handle<'_>> {
        match &self.session {
            Some(session) => session_tree_to_fill(session, name).map(Handle::Session),
            None => Ok(Handle::Plain(self.db().tree(name)?)),
        }
    }

    /// What the database is made of.
    pub(crate) fn stats(&self) -> Outcome<Stats> {
        Ok(match &self.session {
            Some(session) => session.stats()?,
            None => self.db().stats(),
        })
    }

    /// Reads everything.
    pub(crate) fn check(&self, progress: impl FnMut(CheckProgress)) -> Outcome<CheckReport> {
        Ok(match &self.session {
            Some(session) => session.check_database(progress)?,
            None => self.db().check(progress)?,
        })
    }
}

/// Opens for writing, makes one change, and closes, also if it failed.
pub(crate) fn changing(
    global: &Global,
    db: &Path,
    who: &Who,
    change: impl FnOnce(&Access) -> Outcome,
) -> Outcome {
    let access = Access::existing(global, db, who, Durability::Sync)?;
    let changed = change(&access);
    let closed = access.close();
    changed.and(closed)
}

/// The same for what only an account can change.
pub(crate) fn changing_as_account(
    global: &Global,
    command: &str,
    db: &Path,
    who: &Who,
    change: impl FnOnce(&Session) -> Outcome,
) -> Outcome {
    needs_account(command, who)?;
    changing(global, db, who, |access| change(access.session().expect(LOGGED_IN)))
}

/// Opens for reading what only an account can read.
pub(crate) fn reading_as_account(
    global: &Global,
    command: &str,
    db: &Path,
    who: &Who,
    read: impl FnOnce(&Session) -> Outcome,
) -> Outcome {
    needs_account(command, who)?;
    read(Access::read_only(global, db, who)?.session().expect(LOGGED_IN))
}

const LOGGED_IN: &str = "who names an account has a session, or an error before";

fn needs_account(command: &str, who: &Who) -> Outcome {
    match who.user {
        Some(_) => Ok(()),
        None => Err(Failure::Usage(format!(
            "`latchkv {command}` needs --user: accounts and namespaces are for accounts to see and change, not for the \
             owner of the files (the first account is made by `latchkv user add DB NAME`)"
        ))),
    }
}

/// A tree that the account may write to; created if it does not exist, unless nothing could be put into it then.
pub(crate) fn session_tree_to_fill<'s>(
    session: &'s Session,
    name: &str,
) -> Outcome<SessionTree<'s>> {
    match session.tree(name) {
        Err(Error::Usage(Usage::NoSuchTree(_))) => {}
        other => return Ok(other?),
    }
    let parts = Name::new(name)?;
    let object = Object::Tree { namespace: parts.namespace().into(), tree: parts.tree().into() };
    if !session.rights(&object)?.contains(Rights::WRITE) {
        let account = session.account().to_owned();
        let (rights, object) = (Rights::WRITE.to_string(), object.to_string());
        return Err(Error::from(Denied::NeedsRights { account, rights, object }).into());
    }
    session.create_tree(name)?;
    Ok(session.tree(name)?)
}

/// Refuses to read a password from where something else is read from.
pub(crate) fn only_one_standard_input(who: &Who, other: Option<&str>) -> Outcome {
    match (&who.password_file, other) {
        (Some(path), Some(other)) if password::is_standard_input(path) => {
            Err(Failure::Usage(format!(
                "standard input cannot be both the password and {other}: give the password by a file or LATCHKV_PASSWORD"
            )))
        }
        _ => Ok(()),
    }
}

/// A tree of either way.
#[derive(Clone, Debug)]
pub(crate) enum Handle<'a> {
    /// Of the plain API.
    Plain(Tree),
    /// Of a session.
    Session(SessionTree<'a>),
}

/// Records in order, from either end.
pub(crate) type Records<'a> = Box<dyn DoubleEndedIterator<Item = latchkv::Result<Entry>> + 'a>;

impl<'a> Handle<'a> {
    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> latchkv::Result<Option<Vec<u8>>> {
        match self {
            Handle::Plain(tree) => tree.get(key),
            Handle::Session(tree) => tree.get(key),
        }
    }

    /// Stores a value.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> latchkv::Result<()> {
        match self {
            Handle::Plain(tree) => tree.put(key, value),
            Handle::Session(tree) => tree.put(key, value),
        }
    }

    /// Deletes a key, and says whether it was there.
    pub(crate) fn delete(&self, key: &[u8]) -> latchkv::Result<bool> {
        match self {
            Handle::Plain(tree) => tree.delete(key),
            Handle::Session(tree) => tree.delete(key),
        }
    }

    /// The number of records.
    pub(crate) fn len(&self) -> latchkv::Result<u64> {
        match self {
            Handle::Plain(tree) => tree.len(),
            Handle::Session(tree) => tree.len(),
        }
    }

    /// All records.
    pub(crate) fn iter(&self) -> Records<'a> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }

    /// The records between two keys.
    pub(crate) fn range(&self, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Records<'a> {
        match self {
            Handle::Plain(tree) => Box::new(tree.range(bounds)),
            Handle::Session(tree) => Box::new(tree.range(bounds)),
        }
    }

    /// The records whose keys begin with `prefix`.
    pub(crate) fn prefix(&self, prefix: &[u8]) -> Records<'a> {
        match self {
            Handle::Plain(tree) => Box::new(tree.prefix(prefix)),
            Handle::Session(tree) => Box::new(tree.prefix(prefix)),
        }
    }
}
