//! Accounts: who may log in, and what each may do.
//!
//! What it is for: users, roles, grants and the states of namespaces, kept as records in system trees, changed by
//! ordinary transactions, and held in memory as one immutable map. What it is not: a place where anything is
//! enforced. The sessions above ask; the API below knows nothing of accounts.
//!
//! ```text
//!                 login                       changes, one at a time
//!                   |                                  |
//!   lockout --> turn of the name        mutex: Draft of the Directory --> rules --> one commit, synced
//!                   |                                                                   |
//!               password                          publish: hook --> Directory swapped --> epoch + 1
//!                   '--> Directory  <-----------------------------------'
//!                            ^
//!   session: epoch moved? ---'  only then
//! ```
//!
//! | file | has |
//! |---|---|
//! | `name`, `rights`, `object` | the words, and how they are read and written as text |
//! | `record` | the records as bytes |
//! | `content` | all records, decoded; drafts of the next |
//! | `directory` | who may do what |
//! | `password`, `lockout`, `login` | proving who one is |
//! | `change` | every change, and who may make it |
//! | `eager` | another way to the same answers, for measuring and as oracle |
//!
//! Invariants:
//!
//! * \[A1] One [`Accounts`] serves an open database. Only it writes the system trees, and only with `changes` held, so
//!   the directory in memory is what the trees hold. Only when the sync of a change fails is it not known which of the
//!   two the disk has; the directory stays, and the database writes nothing more until it is opened again.
//! * \[A2] A change is durable before anybody acts on it: the directory is replaced, and then the epoch moved, after the
//!   commit. A crash in between shows it after reopening, and nobody saw it before.
//! * \[A3] The epoch moves once for each change that changed something, and never back. Who sees it moved gets, by
//!   [`directory`](Accounts::directory), the directory of that epoch or a later one. It also moves when names of
//!   trees have come to mean others, and then nothing is written.
//! * \[A4] There is always a user with SUPER on everything, once there is an account.
//! * \[A5] Damage in a system tree makes `directory` fail, and nothing else of the database.
//!
//! Orderings of `epoch`:
//!
//! | row | write | read | edge | without it |
//! |---|---|---|---|---|
//! | \[O1] | `publish`: store Release, after the hook and the swap | `epoch`: load Relaxed, then `directory`: fence Acquire | what the change did, its hook's stores included, is seen by who saw the epoch | a session would note a new epoch and keep old rights |
//!
//! The load alone may be relaxed: it is compared with a number the session has, and nothing is read by it. A change that
//! has returned happened before whatever the caller makes known of it, so coherence alone shows its epoch to the next
//! call of who knows.
//!
//! Lock order: turn of a name; `changes`; what the API takes; `current`. Nothing is taken under `current` or under the
//! table of failures.
//!
//! Tested by `tests/` here on real databases, and by the unit tests of each file.

mod change;
mod content;
mod directory;
mod eager;
mod lockout;
mod login;
mod name;
mod object;
mod password;
mod record;
mod rights;
#[cfg(test)]
mod tests;

pub use directory::AccountInfo;
pub(crate) use directory::Directory;
pub(crate) use eager::EagerRights;
pub(crate) use login::Identity;
pub(crate) use name::AccountId;
pub use name::AccountName;
pub use object::{Object, ReadOnly};
pub use password::PasswordCost;
pub use rights::Rights;

use crate::api::Db;
use crate::error::Result;
use content::Content;
use latchkv_latch::primitives::{AtomicU64, Ordering, fence};
use lockout::Lockout;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// How accounts are kept.
#[derive(Clone)]
pub(crate) struct AccountsOptions {
    /// What passwords that are set from now on cost.
    pub(crate) cost: PasswordCost,
    /// What time it is, for lockouts.
    pub(crate) clock: Arc<dyn Fn() -> Instant + Send + Sync>,
}

impl Default for AccountsOptions {
    fn default() -> AccountsOptions {
        AccountsOptions { cost: PasswordCost::default(), clock: Arc::new(Instant::now) }
    }
}

impl fmt::Debug for AccountsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountsOptions").field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// What whoever changes accounts holds.
#[derive(Debug)]
struct Changes {
    /// No account that this process knew ever had it.
    next_id: u64,
}

/// The accounts of one open database, which is handed in with each call, always the same. [A1]
#[derive(Debug)]
pub(crate) struct Accounts {
    options: AccountsOptions,
    /// 0 until the trees were read. [A3]
    epoch: AtomicU64,
    current: RwLock<Option<Arc<Directory>>>,
    changes: Mutex<Changes>,
    lockout: Lockout,
    eager: EagerRights,
}

impl Accounts {
    /// Accounts of which nothing was read yet.
    pub(crate) fn new(options: AccountsOptions) -> Accounts {
        Accounts {
            options,
            epoch: AtomicU64::new(0),
            current: RwLock::default(),
            changes: Mutex::new(Changes { next_id: 1 }),
            lockout: Lockout::default(),
            eager: EagerRights::default(),
        }
    }

    /// The epoch of the directory: whoever has one of another asks [`directory`](Self::directory) again.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        // Relaxed: [O1], and see below the table.
        self.epoch.load(Ordering::Relaxed)
    }

    /// All accounts as they are now. Reads the trees if nobody has yet.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names the tree and the record; [`Error::Io`](crate::Error::Io),
    /// [`Error::Closed`](crate::Error::Closed). The next call tries again.
    pub(crate) fn directory(&self, db: &Db) -> Result<Arc<Directory>> {
        // [O1]: with the relaxed load by which the caller saw the epoch move.
        fence(Ordering::Acquire);
        if let Some(directory) = self.current() {
            return Ok(directory);
        }
        self.load(db, &mut self.lock_changes())
    }

    /// The tables of the eager policy, which are filled when the directory is read.
    pub(crate) fn eager(&self) -> &EagerRights {
        &self.eager
    }

    fn current(&self) -> Option<Arc<Directory>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock_changes(&self) -> MutexGuard<'_, Changes> {
        // A panic in a change leaves the trees as they were, or publishes: see `Published`.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory, read from the trees if nobody has yet.
    fn load(&self, db: &Db, changes: &mut Changes) -> Result<Arc<Directory>> {
        if let Some(directory) = self.current() {
            return Ok(directory);
        }
        let content = Content::load(db)?;
        changes.next_id = changes.next_id.max(content.next_id());
        let directory = Arc::new(Directory::new(content, self.epoch() + 1));
        self.publish(Arc::clone(&directory));
        Ok(directory)
    }

    /// Has every session look its rights up again: what its trees are called has changed.
    pub(crate) fn move_epoch(&self) {
        let _changes = self.lock_changes();
        if let Some(directory) = self.current() {
            self.publish(Arc::new(directory.of_epoch(self.epoch() + 1)));
        }
    }

    /// Makes a directory the current one. The caller holds `changes`. [A3]
    fn publish(&self, directory: Arc<Directory>) {
        self.eager.replace(directory.content());
        let epoch = directory.epoch();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(directory);
        // Release: [O1].
        self.epoch.store(epoch, Ordering::Release);
    }
}
