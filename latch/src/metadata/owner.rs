//! Who holds metadata locks, and what it holds of them one by one: tickets.
//!
//! ```text
//!   Owner  --lock-->  Ticket   counted in the lock's word, and noted in a slot of the owner's
//!                        |     or listed by the manager: obtrusive, or taken beside something obtrusive
//!                        +--drop-->  released
//! ```
//!
//! The slots are how others know what an owner holds by the fast path: only while it waits do they look, and
//! then it does not change them (\[MD5]).
//!
//! What it is not: a thread. An owner goes from thread to thread, with its leases; it is for one at a time.

use super::error::LockError;
use super::kind::Kind;
use super::lease::Lease;
use super::manager::{Manager, Until};
use super::word::{Counted, MetadataLock};
use crate::per_thread::PerThread;
use crate::primitives::Ordering::Relaxed;
use crate::primitives::{AtomicU64, Condvar};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What others see of an owner.
pub(super) struct Holdings {
    pub(super) id: u64,
    /// Each 0, or a ticket: the lock's id, and [`Counted::tag`] in the low two bits. Stored to by the owner.
    tickets: PerThread<AtomicU64>,
    /// Where the owner sleeps, with the manager's mutex.
    pub(super) woken: Condvar,
}

impl Holdings {
    pub(super) fn new(id: u64) -> Holdings {
        Holdings { id, tickets: PerThread::new(), woken: Condvar::new() }
    }

    /// Tickets of `lock` that are counted in its word.
    pub(super) fn tickets_of(&self, lock: &MetadataLock, kind: Counted) -> u64 {
        let noted = note(lock, kind);
        // Relaxed: MD5.
        self.tickets.iter().filter(|(_, slot)| slot.load(Relaxed) == noted).count() as u64
    }

    /// Tickets that are counted in words.
    pub(super) fn tickets(&self) -> u64 {
        // Relaxed: MD5.
        self.tickets.iter().filter(|(_, slot)| slot.load(Relaxed) != 0).count() as u64
    }
}

/// What a slot says of a ticket.
fn note(lock: &MetadataLock, kind: Counted) -> u64 {
    lock.id() << 2 | kind.tag()
}

/// One that holds metadata locks: a session. What it holds never stands in its own way. For one thread at a
/// time, with all of its tickets and leases.
pub struct Owner {
    pub(super) manager: Arc<Manager>,
    pub(super) holdings: Arc<Holdings>,
    /// Slots that were used and are free.
    free: RefCell<Vec<usize>>,
    /// Slots that were ever used.
    used: Cell<usize>,
}

/// A lock held; released when dropped. One that is leaked keeps the lock taken.
#[must_use = "the lock is released when this is dropped"]
pub struct Ticket<'o> {
    owner: &'o Owner,
    lock: &'o Arc<MetadataLock>,
    kind: Kind,
    form: Form,
}

/// Where it says that a ticket is held.
#[derive(Clone, Copy)]
enum Form {
    /// In the lock's word, and this slot of the owner's.
    Counted(Counted, usize),
    /// In the manager's list, under this number.
    Listed(u64),
}

impl Owner {
    pub(super) fn new(manager: Arc<Manager>, id: u64) -> Owner {
        Owner {
            manager,
            holdings: Arc::new(Holdings::new(id)),
            free: RefCell::new(Vec::new()),
            used: Cell::new(0),
        }
    }

    /// Takes `lock`, waiting while others hold or were promised what does not go with `kind`, for
    /// `timeout` at most, or without end. IX, SR and SW of a lock that nobody has, or wants, obtrusively cost one
    /// read-modify-write.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`]; [`LockError::Deadlock`]: the caller releases what it holds, or fails;
    /// [`LockError::Misuse`] if the lock is of the other class.
    #[inline]
    pub fn lock<'o>(
        &'o self,
        lock: &'o Arc<MetadataLock>,
        kind: impl Into<Kind>,
        timeout: Option<Duration>,
    ) -> Result<Ticket<'o>, LockError> {
        self.lock_until(lock, kind.into(), || Until::timeout(timeout))
    }

    /// Takes `lock` if nothing has to be waited for. None also if it is of the other class.
    #[inline]
    pub fn try_lock<'o>(
        &'o self,
        lock: &'o Arc<MetadataLock>,
        kind: impl Into<Kind>,
    ) -> Option<Ticket<'o>> {
        self.lock_until(lock, kind.into(), || Until::Now).ok()
    }

    #[inline]
    fn lock_until<'o>(
        &'o self,
        lock: &'o Arc<MetadataLock>,
        kind: Kind,
        until: impl FnOnce() -> Until,
    ) -> Result<Ticket<'o>, LockError> {
        if lock.class() != kind.class() {
            return Err(LockError::Misuse { kind, what: "is no kind of this lock" });
        }
        let form = match Counted::of(kind) {
            Some(counted) if lock.try_take(counted) => {
                Form::Counted(counted, self.note_ticket(lock, counted))
            }
            _ => Form::Listed(self.manager.acquire(&self.holdings, lock, kind, until())?),
        };
        Ok(Ticket { owner: self, lock, kind, form })
    }

    /// Makes a ticket of this owner a stronger one: SU or SNW becomes X. Yields to nobody that waits for this
    /// ticket. Two owners with SR that both want X are a deadlock; SU excludes SU, and so is for that.
    ///
    /// # Errors
    ///
    /// As of [`Owner::lock`], and [`LockError::Misuse`] if `to` does not cover what is held, or the ticket is
    /// another owner's. The ticket then stays what it was.
    pub fn upgrade<'o>(
        &'o self,
        ticket: &mut Ticket<'o>,
        to: impl Into<Kind>,
        timeout: Option<Duration>,
    ) -> Result<(), LockError> {
        let kind = to.into();
        if !std::ptr::eq(self, ticket.owner) {
            return Err(LockError::Misuse { kind, what: "was asked of a ticket of another owner" });
        }
        if !kind.covers(ticket.kind) {
            return Err(LockError::Misuse { kind, what: "is not stronger than what is held" });
        }
        if kind != ticket.kind {
            // The old one is dropped when the new one is held: MD6.
            *ticket = self.lock(ticket.lock, kind, timeout)?;
        }
        Ok(())
    }

    /// Opens a lease on a tree and the namespace that it is in. It holds nothing until it is used. Takes the
    /// manager's mutex.
    ///
    /// # Panics
    ///
    /// If `scope` is no lock of a namespace, or `tree` none of a tree.
    pub fn lease(&self, scope: &Arc<MetadataLock>, tree: &Arc<MetadataLock>) -> Lease {
        Lease::open(self, scope, tree)
    }

    /// Notes a ticket that was counted, and gives the slot.
    #[inline]
    fn note_ticket(&self, lock: &MetadataLock, kind: Counted) -> usize {
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let slot = self.used.get();
            self.used.set(slot + 1);
            slot
        });
        // Relaxed: MD5.
        self.holdings.tickets.get(slot).store(note(lock, kind), Relaxed);
        slot
    }

    #[inline]
    fn forget_ticket(&self, slot: usize) {
        // Relaxed: MD5.
        self.holdings.tickets.get(slot).store(0, Relaxed);
        self.free.borrow_mut().push(slot);
    }
}

impl Ticket<'_> {
    /// The kind held.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Drop for Ticket<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.form {
            Form::Counted(kind, slot) => {
                self.owner.forget_ticket(slot);
                if self.lock.give_back(kind) {
                    self.owner.manager.given_back(self.lock);
                }
            }
            Form::Listed(hold) => self.owner.manager.release(&self.owner.holdings, self.lock, hold),
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("id", &self.holdings.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ticket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("owner", &self.owner.holdings.id)
            .field("lock", self.lock)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
