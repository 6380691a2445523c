//! What all sessions of a database share, and how one begins.

use super::audit::{Audit, AuditCallback, AuditEvent, AuditKind};
use super::handle::Session;
use super::names::Names;
use crate::accounts::{AccountName, Accounts, AccountsOptions, PasswordCost};
use crate::api::{Attachment, Db};
use crate::error::{Denied, Error, Result, Usage};
use latchkv_latch::metadata::{LockUsage, MetadataLocks};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a session finds out what its account may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A right is looked up when the answer depends on it, and kept until accounts change.
    #[default]
    Lazy,
    /// Every right is looked up before each change, by names, behind a latch. The same answers, for comparison.
    Eager,
}

/// How sessions of a database are run.
pub struct SessionOptions {
    pub(super) audit_events_max: usize,
    pub(super) on_audit: Option<AuditCallback>,
    pub(super) password_cost: PasswordCost,
    pub(super) lock_timeout: Duration,
    pub(super) policy: Policy,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            audit_events_max: 1024,
            on_audit: None,
            password_cost: PasswordCost::default(),
            lock_timeout: Duration::from_secs(30),
            policy: Policy::Lazy,
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions")
            .field("audit_events_max", &self.audit_events_max)
            .field("on_audit", &self.on_audit.is_some())
            .field("lock_timeout", &self.lock_timeout)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl SessionOptions {
    /// 1024 audit events, no callback, the default cost of passwords, 30 seconds for a lock, lazy checks.
    pub fn new() -> SessionOptions {
        SessionOptions::default()
    }

    /// Audit events that are kept until they are taken; the oldest go first. 0: none.
    #[must_use]
    pub fn audit_events_max(mut self, events: usize) -> SessionOptions {
        self.audit_events_max = events;
        self
    }

    /// Called with each audit event, in the thread in which it happens, which may hold locks: it must not call the
    /// database.
    #[must_use]
    pub fn on_audit(
        mut self,
        callback: impl Fn(&AuditEvent) + Send + Sync + 'static,
    ) -> SessionOptions {
        self.on_audit = Some(Box::new(callback));
        self
    }

    /// What a password that is set from now on costs to try.
    #[must_use]
    pub fn password_cost(mut self, cost: PasswordCost) -> SessionOptions {
        self.password_cost = cost;
        self
    }

    /// How long a call waits for a metadata lock that another session holds.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> SessionOptions {
        self.lock_timeout = timeout;
        self
    }

    /// How rights are looked up, if a session does not say otherwise.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> SessionOptions {
        self.policy = policy;
        self
    }
}

/// See the module head.
#[derive(Debug)]
pub(super) struct State {
    pub(super) accounts: Accounts,
    pub(super) locks: MetadataLocks,
    pub(super) names: Names,
    pub(super) audit: Audit,
    pub(super) lock_timeout: Duration,
    pub(super) policy: Policy,
}

impl State {
    fn new(options: SessionOptions) -> State {
        State {
            accounts: Accounts::new(AccountsOptions {
                cost: options.password_cost,
                ..AccountsOptions::default()
            }),
            locks: MetadataLocks::new(),
            names: Names::default(),
            audit: Audit::new(options.audit_events_max, options.on_audit),
            lock_timeout: options.lock_timeout,
            policy: options.policy,
        }
    }
}

impl Attachment for Arc<State> {
    fn tree_renamed(&self) {
        // Rights that sessions keep are those of the old name.
        self.accounts.move_epoch();
    }
}

/// The accounts of a database, and the way to a [`Session`]. Cheap to clone.
///
/// **The plain API asks for no rights:** whoever has the [`Db`] reads and writes every tree, whether there are accounts or
/// not. Hand out sessions, and keep the `Db`, where accounts are to count.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = latchkv::Db::open(dir.path().join("db"))?;
/// let sessions = db.sessions();
/// sessions.create_administrator("root", b"a long phrase")?;
/// let root = sessions.login("root", b"a long phrase")?;
/// root.create_namespace("shop")?;
/// root.create_tree("shop/orders")?;
/// root.put("shop/orders", "1", "two apples")?;
///
/// root.create_user("ada", b"another phrase")?;
/// root.grant("ada", &"shop/*".parse()?, latchkv::Rights::READ)?;
/// let ada = sessions.login("ada", b"another phrase")?;
/// assert!(ada.get("shop/orders", "1")?.is_some());
/// assert!(ada.put("shop/orders", "1", "").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) db: Db,
    pub(super) state: Arc<State>,
}

impl Db {
    /// The sessions of this database, with the default [`SessionOptions`] if nobody has given others before.
    pub fn sessions(&self) -> Sessions {
        let state = self.attached(|| Arc::new(State::new(SessionOptions::new())));
        Sessions { db: self.clone(), state: Arc::clone(state) }
    }

    /// The sessions of this database, with these options.
    ///
    /// # Errors
    /// [`Usage::SessionsBegun`]: somebody has asked for sessions of this database before.
    pub fn sessions_with(&self, options: SessionOptions) -> Result<Sessions> {
        let mut options = Some(options);
        let state = self.attached(|| Arc::new(State::new(options.take().unwrap_or_default())));
        if options.is_some() {
            return Err(Usage::SessionsBegun.into());
        }
        Ok(Sessions { db: self.clone(), state: Arc::clone(state) })
    }
}

impl Sessions {
    /// Whether there are accounts. Without any nobody can log in.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the accounts are damaged, [`Error::Io`], [`Error::Closed`].
    pub fn has_accounts(&self) -> Result<bool> {
        Ok(!self.state.accounts.directory(&self.db)?.is_empty())
    }

    /// Makes the first account, which has every right.
    ///
    /// # Errors
    /// [`Usage::AccountsExist`] if there are accounts, [`Usage::BadAccountName`], [`Usage::BadPassword`],
    /// [`Denied::ReadOnly`], those of a commit, and those of [`has_accounts`](Self::has_accounts).
    pub fn create_administrator(&self, name: &str, password: &[u8]) -> Result<()> {
        let account = AccountName::new(name)?;
        self.state.accounts.create_first_administrator(&self.db, &account, password)?;
        self.state.audit.note(name, AuditKind::Created { account: name.to_owned(), role: false });
        Ok(())
    }

    /// Restores the accounts and namespaces of another database, into one that has none: the records of its
    /// [`Db::system_trees`], each with the name of its tree, in any order.
    ///
    /// # Errors
    /// [`Usage::AccountsExist`]; [`Usage::BadAccountRecord`]; [`Denied::LastAdministrator`] if nobody among them is one;
    /// those of a commit, and of [`has_accounts`](Self::has_accounts). Nothing was restored then.
    pub fn restore(&self, records: &[(String, Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.state.accounts.restore(&self.db, records)
    }

    /// Opens a session. Slow on purpose, by [`PasswordCost`]; the logins of one name go one after the other.
    ///
    /// Four failed logins of a name have no consequence. After the fifth the next has to wait for 1 s, and twice as long
    /// after each further one, up to 15 minutes (from the 15th on); whatever comes before that is refused without a look at
    /// the password, and counts for nothing. A login that succeeds forgets the failures, and so does opening the database
    /// again. Names that no account has are held back alike.
    ///
    /// # Errors
    /// [`Denied::Login`], whatever was wrong; [`Denied::LoginLocked`], with the time that is left;
    /// [`Usage::NoAccounts`]; [`Error::Full`] if there is no memory for the hash; those of
    /// [`has_accounts`](Self::has_accounts).
    pub fn login(&self, name: &str, password: &[u8]) -> Result<Session> {
        match self.state.accounts.login(&self.db, name, password) {
            Ok(identity) => {
                self.state.audit.note(name, AuditKind::Login);
                Ok(Session::new(self, identity))
            }
            Err(error) => {
                if matches!(error, Error::Denied(Denied::Login | Denied::LoginLocked { .. })) {
                    self.state.audit.note(name, AuditKind::LoginRefused);
                }
                Err(error)
            }
        }
    }

    /// What the metadata locks are doing and have done.
    pub fn lock_usage(&self) -> LockUsage {
        self.state.locks.usage()
    }
}
