//! Errors, few and chosen by what the caller does about them.
//!
//! Restarting an optimistic read is internal and never an [`Error`]. All variants can be cloned, so that an
//! iterator that met an error keeps giving it.

use crate::id::{PageId, TreeId};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// What every fallible call of this crate gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk is full. Nothing of the failed call took effect; the database goes on once there is room.
    #[error("disk full while {op}: make room and call again ({source})")]
    Full {
        /// What was being done.
        op: &'static str,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The operating system refused an operation on a file.
    #[error("{op} failed on {}: {source}", path.display())]
    Io {
        /// What was being done.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// A file holds bytes that this database never wrote there.
    #[error("{0}")]
    Corrupt(Box<Corruption>),
    /// The database could not be opened, for a reason that is no damage.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The handle does not allow this.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// The database was closed, by this handle or another.
    #[error("the database is closed: open it again")]
    Closed,
    /// An earlier write or sync failed in a way that leaves the state on disk unknown. Reads go on; reopening
    /// recovers.
    #[error("writing stopped after an earlier failure, reopen the database to recover: {cause}")]
    Poisoned {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Somebody else committed a change of what this transaction wrote, or read. Nothing of it took effect.
    #[error("another commit changed tree {tree:?} since this transaction began: run it again")]
    Conflict {
        /// The tree.
        tree: String,
        /// The key; `None` if it was a range, or the tree as a whole.
        key: Option<Vec<u8>>,
    },
    /// Another session holds a tree or a namespace in a way that does not go with this call. Nothing of it took effect.
    #[error("{name} is in use by another session ({cause}): try again")]
    Locked {
        /// The tree or namespace.
        name: String,
        /// Why it was not had.
        cause: latchkv_latch::metadata::LockError,
    },
    /// The transaction's time is up. Nothing of it took effect.
    #[error("the transaction took longer than its timeout allows: nothing was written")]
    Timeout,
    /// The snapshot, or the transaction's, was ended because it had become too old.
    #[error(
        "snapshot {} was ended at the age limit of {age_max:?}: take a new one, or raise the limit",
        name.as_deref().unwrap_or("without a name")
    )]
    SnapshotEnded {
        /// The name that it was given.
        name: Option<String>,
        /// The limit, from [`Options::snapshot_age_max`](crate::Options::snapshot_age_max).
        age_max: std::time::Duration,
    },
    /// The call itself was wrong.
    #[error("{0}")]
    Usage(#[from] Usage),
}

impl Error {
    /// Names the tree in damage that was found by a layer which knows only pages. Other errors stay as they
    /// are.
    #[cold]
    pub(crate) fn in_tree(mut self, tree: TreeId) -> Error {
        if let Error::Corrupt(corruption) = &mut self {
            corruption.tree.get_or_insert(tree);
        }
        self
    }
}

/// Where damage was found, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The file, as far as the finder knows it.
    pub file: PathBuf,
    /// Byte offset in the file of what was read.
    pub offset: Option<u64>,
    /// The page, if it was one.
    pub page: Option<PageId>,
    /// The tree, if known.
    pub tree: Option<TreeId>,
    /// What is wrong.
    pub what: &'static str,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub got: String,
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "damaged {}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset}")?;
        }
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        if let Some(tree) = self.tree {
            write!(f, ", tree {tree}")?;
        }
        write!(f, ": {}", self.what)?;
        if !self.expected.is_empty() || !self.got.is_empty() {
            write!(f, " (expected {}, got {})", self.expected, self.got)?;
        }
        Ok(())
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Error {
        Error::Corrupt(Box::new(corruption))
    }
}

/// Why a database could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing is there.
    #[error("no database at {}: create one, or check the path", .0.display())]
    NotFound(PathBuf),
    /// `create` found something.
    #[error("{} exists already: open it, or choose another path", .0.display())]
    AlreadyExists(PathBuf),
    /// What is there is no database.
    #[error("{} is not a latchkv database: {why}", path.display())]
    NotADatabase {
        /// The path.
        path: PathBuf,
        /// What was missing or foreign.
        why: &'static str,
    },
    /// The file was written by a newer program.
    #[error("{} has format version {found}, this program reads up to {supported}: use a newer program", path.display())]
    NewerVersion {
        /// The path.
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// Greatest version understood.
        supported: u32,
    },
    /// It was not closed, so its log has to be read, and what it says to be written.
    #[error("{} was not closed properly: open it for writing once, so that it can recover", .0.display())]
    NeedsRecovery(PathBuf),
    /// Somebody has it open.
    #[error("{} is open already ({by}): close it there first", path.display())]
    Locked {
        /// The path.
        path: PathBuf,
        /// Who holds it.
        by: &'static str,
    },
    /// It lies where this process may not write: a read-only medium or mount, or by its permissions.
    #[error(
        "{} cannot be written ({reason}): open it read-only, or make it writable", path.display()
    )]
    NotWritable {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        reason: io::ErrorKind,
    },
}

/// Why a handle does not allow a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The database was opened read-only.
    #[error("the database was opened read-only: open it for writing to {op}")]
    ReadOnly {
        /// What was asked.
        op: &'static str,
    },
    /// A tree of the system is changed by changing accounts and namespaces, and by nothing else.
    #[error("{0:?} is a tree of the system: change accounts and namespaces by the calls for that")]
    SystemTree(String),
    /// No account has this name, or the password is not its own, or it is a role: which, is not said.
    #[error("wrong name or password")]
    Login,
    /// Too many logins by this name failed, whether an account has it or not: 5 and more since the last that succeeded. The
    /// next has to wait for a second then, and twice as long after each further failure, up to 15 minutes.
    #[error("too many failed logins by this name: wait for {} s", whole_seconds(*retry_after))]
    LoginLocked {
        /// After how long the next try is looked at.
        retry_after: std::time::Duration,
    },
    /// The account lacks a right.
    #[error("account {account:?} needs {rights} on {object:?}: have it granted")]
    NeedsRights {
        /// The account.
        account: String,
        /// What it is missing of what it needs, as [`Rights`](crate::Rights) are written.
        rights: String,
        /// On what, as an [`Object`](crate::Object) is written.
        object: String,
    },
    /// The namespace is read-only, for this account at least.
    #[error("namespace {:?} is read-only ({state}): change its state first", shown(namespace))]
    NamespaceReadOnly {
        /// The namespace; empty if it is the unnamed one.
        namespace: String,
        /// Its state, as [`ReadOnly`](crate::ReadOnly) is written.
        state: String,
    },
    /// The account that logged in was dropped since then.
    #[error("the account of this session was dropped: log in by another")]
    AccountDropped,
    /// An account would drop itself.
    #[error("account {0:?} is your own: have another administrator drop it")]
    OwnAccount(String),
    /// An account would take SUPER from itself, directly or by a role.
    #[error("account {0:?} is your own and would lose SUPER: have another administrator take it")]
    OwnSuper(String),
    /// Nobody who can log in would have SUPER any more.
    #[error("no user would be left that has SUPER on everything: grant it to another first")]
    LastAdministrator,
}

/// A namespace in a message: the unnamed one is `/`.
fn shown(namespace: &str) -> &str {
    if namespace.is_empty() { "/" } else { namespace }
}

/// Rounded up: who waits so long has waited enough.
fn whole_seconds(time: std::time::Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// What was wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Usage {
    /// A key is over the limit of this database's page size.
    #[error(
        "key of {actual} bytes is over the limit of {maximum} (a greater page size allows more)"
    )]
    KeyTooLarge {
        /// Bytes given.
        actual: usize,
        /// Bytes allowed.
        maximum: usize,
    },
    /// A value is over the limit.
    #[error("value of {actual} bytes is over the limit of {maximum}")]
    ValueTooLarge {
        /// Bytes given.
        actual: usize,
        /// Bytes allowed.
        maximum: usize,
    },
    /// A tree name is empty, too long, or holds a control character.
    #[error("tree name {name:?} is not allowed: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An option is out of its range.
    #[error("option {option} is {actual}, allowed is {allowed}")]
    BadOption {
        /// Which.
        option: &'static str,
        /// The value given.
        actual: String,
        /// The values allowed.
        allowed: String,
    },
    /// No tree has this name.
    #[error("no tree is named {0:?}")]
    NoSuchTree(String),
    /// A tree has this name already.
    #[error("a tree is named {0:?} already")]
    TreeExists(String),
    /// The tree of this handle was dropped.
    #[error("tree {0:?} was dropped: get a new handle")]
    TreeDropped(String),
    /// A tree handle of one database was used with a transaction, snapshot or batch of another.
    #[error("tree {0:?} is of another database: get it from the database that it is used with")]
    OtherDatabase(String),
    /// The savepoint is of another transaction, or was given up by going back to an earlier one.
    #[error("no such savepoint in this transaction: set one anew")]
    NoSavepoint,
    /// A transaction or batch holds more in memory than it may. What it holds already stays.
    #[error(
        "{what} take more than {maximum} bytes of memory: do less at once, or raise the option transaction_bytes_max"
    )]
    TransactionTooLarge {
        /// What is held.
        what: &'static str,
        /// Bytes allowed, from [`Options::transaction_bytes_max`](crate::Options::transaction_bytes_max).
        maximum: usize,
    },
    /// A tree was cleared after the snapshot began: what it held then is gone.
    #[error("the tree was cleared after the snapshot began: take a new snapshot")]
    ClearedSince,
    /// Somebody else wrote to a tree while it was bulk loaded. Nothing was loaded.
    #[error(
        "the tree was written to during its bulk load, nothing was loaded: load it while nobody writes"
    )]
    NotEmpty,
    /// Bulk load was given keys out of order.
    #[error(
        "bulk load wants strictly ascending keys: key number {position} is not above its predecessor"
    )]
    Unsorted {
        /// Index of the offending key, from 0.
        position: u64,
    },
    /// The name of an account is empty, too long, or holds what it may not.
    #[error("account name {name:?} is not allowed: {why}")]
    BadAccountName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A password is empty or too long.
    #[error("a password has 1 to 1024 bytes: choose another")]
    BadPassword,
    /// This text is no set of rights.
    #[error(
        "{0:?} are no rights: give READ, WRITE, CREATE, DROP, GRANT, SUPER or MAINTENANCE with commas between, or ALL"
    )]
    BadRights(String),
    /// This is nothing that rights can be granted on.
    #[error(
        "{object:?} is no object to grant on: {why} (allowed are *, namespace/*, /* and names of trees)"
    )]
    BadObject {
        /// The object.
        object: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// This text is no state of a namespace.
    #[error("{0:?} is no state of a namespace: give no, yes or super")]
    BadReadOnly(String),
    /// Rights were to be granted on an object that is too narrow for them.
    #[error(
        "{rights} cannot be granted on {object:?}: SUPER goes with *, MAINTENANCE with * or a namespace"
    )]
    BadGrant {
        /// Those that do not go with it.
        rights: String,
        /// The object.
        object: String,
    },
    /// The database has no accounts.
    #[error("the database has no accounts: create the first administrator")]
    NoAccounts,
    /// The first administrator was to be created where there are accounts.
    #[error("the database has accounts already: log in as an administrator to create more")]
    AccountsExist,
    /// No account has this name.
    #[error("no account is named {0:?}")]
    NoSuchAccount(String),
    /// An account has this name already.
    #[error("an account is named {0:?} already")]
    AccountExists(String),
    /// A role was given where a user is wanted.
    #[error("{0:?} is a role, which has no password")]
    NotAUser(String),
    /// A user was given where a role is wanted.
    #[error("{0:?} is a user: only roles can be granted to others")]
    NotARole(String),
    /// A role was to be granted to itself, or to a role that it has.
    #[error("role {role:?} cannot be granted to {member:?}, which it has itself")]
    RoleCycle {
        /// The role.
        role: String,
        /// Whom it was to be granted to.
        member: String,
    },
    /// A role was to be revoked from an account that was not granted it.
    #[error("{member:?} was not granted role {role:?}: revoke the one that was granted")]
    NotAMember {
        /// The role.
        role: String,
        /// The account.
        member: String,
    },
    /// Rights were to be revoked that were not granted on this very object.
    #[error(
        "{grantee:?} was granted none of {rights} on {object:?}: revoke on the object that was granted"
    )]
    NotGranted {
        /// The account.
        grantee: String,
        /// What was to be revoked.
        rights: String,
        /// The object.
        object: String,
    },
    /// No namespace has this name.
    #[error("no namespace is named {:?}", shown(.0))]
    NoSuchNamespace(String),
    /// A namespace has this name already.
    #[error("a namespace is named {:?} already", shown(.0))]
    NamespaceExists(String),
    /// A record of accounts that were to be restored makes no sense. None was restored.
    #[error("record {record:?} of {tree:?} cannot be restored: {why}")]
    BadAccountRecord {
        /// The tree of the system that it is from.
        tree: String,
        /// Its key.
        record: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Sessions of the database were asked for before, so their options are set.
    #[error(
        "the sessions of this database have begun: give options before anybody asks for sessions"
    )]
    SessionsBegun,
    /// A tree that one session has open was used with what belongs to another.
    #[error("tree {0:?} was opened by another session: open it in the one that it is used with")]
    OtherSession(String),
    /// A batch of one session was to be written by another.
    #[error("the batch is another session's: write it by the session that it was begun in")]
    OtherSessionsBatch,
    /// A namespace that has trees was to be dropped.
    #[error(
        "namespace {:?} has trees, {tree:?} is one: drop them or rename them first",
        shown(namespace)
    )]
    NamespaceInUse {
        /// The namespace.
        namespace: String,
        /// One of its trees.
        tree: String,
    },
}
