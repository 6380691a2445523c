//! The slow way: everything about locks that are obtrusive, behind one mutex.
//!
//! ```text
//!   acquire:  enqueue (obtrusive: mark the word) -> verdict --grant--> listed
//!                                                     |
//!             doomed, too late, deadlock? <--no-------+
//!                  |       |                          ^
//!              give up     +--> sleep, or poll a lease --+
//!   release:  out of the list (last obtrusive: clear the word), the next are woken
//! ```
//!
//! Whoever waits decides about itself: a release wakes those whose verdict has changed, and each looks again.
//!
//! What it is not: on the way of anybody as long as nobody wants anything obtrusive.

use super::deadlock::{self, RequestId};
use super::error::LockError;
use super::kind::Kind;
use super::lease::Slot;
use super::owner::{Holdings, Owner};
use super::queue::{LockState, Request, Verdict};
use super::word::MetadataLock;
use crate::backoff::Backoff;
use crate::primitives::{self, Mutant, Mutex, mutant};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Small waits for a lease before the whole verdict is looked at again.
const POLLS: u32 = if cfg!(latchkv_loom) { 1 } else { 16 };
/// Of the small waits, those that yield before the others nap.
const YIELDS: u32 = 64;
/// What an unobtrusive hold weighs when a victim is chosen.
const WEIGHT: u64 = 1;
/// What an obtrusive hold weighs.
const WEIGHT_OBTRUSIVE: u64 = 100;

/// All metadata locks of one database: the place where its owners meet. See the module above.
#[derive(Default)]
pub struct MetadataLocks {
    manager: Arc<Manager>,
}

/// What the metadata locks of a database are doing and have done. Locks held that are only counted in their
/// words are not in here: nobody could count them without slowing them down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockUsage {
    /// Open leases, in use or not.
    pub leases: u64,
    /// Locks held that are listed: all obtrusive ones, and what was taken beside them.
    pub holders: u64,
    /// Requests that wait now.
    pub waiters: u64,
    /// Requests that had to wait, ever.
    pub waits: u64,
    /// Obtrusive locks given, ever.
    pub obtrusive_grants: u64,
    /// Requests that gave up to end a deadlock, ever.
    pub deadlocks: u64,
    /// Requests that gave up at their deadline, ever.
    pub timeouts: u64,
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// Not at all.
    Now,
    /// Until then; none: without end.
    Deadline(Option<Instant>),
}

impl Until {
    /// For so long from now; none: without end. So is what the clock cannot say.
    pub(super) fn timeout(timeout: Option<Duration>) -> Until {
        Until::Deadline(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }
}

/// What the owners of one database share.
#[derive(Default)]
pub(super) struct Manager {
    state: Mutex<State>,
}

/// What an owner holds by leases and by lists.
#[derive(Default)]
struct OwnerState {
    leases: BTreeMap<u64, Arc<Slot>>,
    listed_holds: u64,
    listed_weight: u64,
}

/// What is behind the mutex.
#[derive(Default)]
pub(super) struct State {
    /// By the lock's id: those that somebody holds by list, waits for, or has a lease on.
    locks: BTreeMap<u64, LockState>,
    /// By the owner's id: those that have a lease, or hold by list.
    owners: BTreeMap<u64, OwnerState>,
    /// All requests.
    requests: Vec<RequestId>,
    /// Names the next owner, request or lease.
    next: u64,
    /// The counts that only grow.
    done: LockUsage,
}

impl MetadataLocks {
    /// Nobody holds anything.
    pub fn new() -> MetadataLocks {
        MetadataLocks::default()
    }

    /// A new owner that holds nothing.
    pub fn owner(&self) -> Owner {
        let id = self.manager.state.lock().next();
        Owner::new(self.manager.clone(), id)
    }

    /// Counts, at this moment.
    pub fn usage(&self) -> LockUsage {
        let state = self.manager.state.lock();
        LockUsage {
            leases: state.owners.values().map(|owner| owner.leases.len() as u64).sum(),
            holders: state.owners.values().map(|owner| owner.listed_holds).sum(),
            waiters: state.requests.len() as u64,
            ..state.done
        }
    }
}

impl Manager {
    /// Gets `lock` for `owner`, and gives the number of the hold, for [`Manager::release`].
    #[cold]
    pub(super) fn acquire(
        &self,
        owner: &Arc<Holdings>,
        lock: &Arc<MetadataLock>,
        kind: Kind,
        until: Until,
    ) -> Result<u64, LockError> {
        let mut state = self.state.lock();
        let seq = state.next();
        let id = (lock.id(), seq);
        let request = Request { seq, owner: owner.clone(), kind, doomed: false };
        state.lock_state(lock).enqueue(request);
        state.requests.push(id);
        let mut waited = false;
        let mut poll = Poll::default();
        loop {
            let slot = match state.verdict(id) {
                Verdict::Grant => {
                    state.grant(id, owner, kind);
                    return Ok(seq);
                }
                Verdict::Wait => None,
                Verdict::WaitForLease(slot) => Some(slot),
            };
            let Until::Deadline(deadline) = until else {
                state.withdraw(id);
                return Err(LockError::Timeout { kind });
            };
            if state.is_victim(id) {
                state.withdraw(id);
                state.done.deadlocks += 1;
                return Err(LockError::Deadlock { kind });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                state.withdraw(id);
                state.done.timeouts += 1;
                return Err(LockError::Timeout { kind });
            }
            state.done.waits += u64::from(!std::mem::replace(&mut waited, true));
            state = match slot {
                None => owner.woken.wait(state, deadline),
                Some(slot) => {
                    drop(state);
                    poll.wait_while(|| slot.is_against(kind));
                    self.state.lock()
                }
            };
        }
    }

    /// Releases a hold of `owner`.
    #[cold]
    pub(super) fn release(&self, owner: &Holdings, lock: &MetadataLock, hold: u64) {
        self.state.lock().release(owner, lock, hold);
    }

    /// Makes a hold of an unobtrusive kind one of a weaker kind.
    pub(super) fn weaken(&self, lock: &MetadataLock, hold: u64, to: Kind) {
        let mut state = self.state.lock();
        if let Some(entry) = state.locks.get_mut(&lock.id()) {
            entry.weaken(hold, to);
            entry.wake();
        }
    }

    /// A counted kind of `lock` was given back while it was obtrusive.
    #[cold]
    pub(super) fn given_back(&self, lock: &MetadataLock) {
        if mutant(Mutant::GiveBackForgetsWake) {
            return;
        }
        if let Some(entry) = self.state.lock().locks.get(&lock.id()) {
            entry.wake();
        }
    }

    /// Makes a lease known to both locks, and numbers it.
    pub(super) fn open_lease(
        &self,
        slot: &Arc<Slot>,
        scope: &Arc<MetadataLock>,
        tree: &Arc<MetadataLock>,
    ) -> u64 {
        let mut state = self.state.lock();
        let id = state.next();
        state.lock_state(scope).add_lease(id, slot);
        state.lock_state(tree).add_lease(id, slot);
        state.owners.entry(slot.owner).or_default().leases.insert(id, slot.clone());
        id
    }

    /// Forgets a lease that is not in use.
    pub(super) fn close_lease(
        &self,
        owner: u64,
        id: u64,
        scope: &MetadataLock,
        tree: &MetadataLock,
    ) {
        let mut state = self.state.lock();
        for lock in [scope.id(), tree.id()] {
            if let Some(entry) = state.locks.get_mut(&lock) {
                entry.remove_lease(owner, id);
            }
            state.prune_lock(lock);
        }
        if let Some(entry) = state.owners.get_mut(&owner) {
            entry.leases.remove(&id);
        }
        state.prune_owner(owner);
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn lock_state(&mut self, lock: &Arc<MetadataLock>) -> &mut LockState {
        self.locks.entry(lock.id()).or_insert_with(|| LockState::new(lock))
    }

    /// All requests, with their locks.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (u64, &LockState, &Request)> {
        self.requests.iter().filter_map(|&(lock_id, seq)| {
            let lock = self.locks.get(&lock_id)?;
            Some((lock_id, lock, lock.request(seq)?))
        })
    }

    /// What an owner holds, weighed.
    pub(super) fn weight(&self, owner: &Holdings) -> u64 {
        let listed = self.owners.get(&owner.id).map_or(0, |state| {
            // In use it is two: of the tree and of the namespace.
            let in_use = state.leases.values().filter(|slot| slot.is_in_use()).count() as u64;
            state.listed_weight + 2 * WEIGHT * in_use
        });
        listed + WEIGHT * owner.tickets()
    }

    fn verdict(&self, (lock, seq): RequestId) -> Verdict {
        let entry = self.locks.get(&lock);
        let found = entry.and_then(|entry| Some(entry.verdict(entry.request(seq)?)));
        found.expect("a request keeps its lock known, and only its own thread takes it out")
    }

    /// Whether this request has to give up; tells others on circles with it that they have.
    fn is_victim(&mut self, id: RequestId) -> bool {
        while let Some((lock, seq)) = deadlock::victim(self, id) {
            if let Some(entry) = self.locks.get_mut(&lock) {
                entry.doom(seq);
            }
        }
        self.locks.get(&id.0).and_then(|entry| entry.request(id.1)).is_some_and(|r| r.doomed)
    }

    fn grant(&mut self, id: RequestId, owner: &Holdings, kind: Kind) {
        let next = self.next();
        self.requests.retain(|&request| request != id);
        let state = self.owners.entry(owner.id).or_default();
        state.listed_holds += 1;
        state.listed_weight += weight_of(kind);
        self.done.obtrusive_grants += u64::from(kind.is_obtrusive());
        if let Some(entry) = self.locks.get_mut(&id.0)
            && entry.grant(id.1, next)
        {
            // A turn changes who yields: all look for circles again. Otherwise a grant lets nobody on: who
            // yielded to the request does not go with the hold.
            entry.wake_all();
        }
    }

    fn withdraw(&mut self, id: RequestId) {
        self.requests.retain(|&request| request != id);
        if let Some(entry) = self.locks.get_mut(&id.0) {
            entry.withdraw(id.1);
            entry.wake();
        }
        self.prune_lock(id.0);
    }

    fn release(&mut self, owner: &Holdings, lock: &MetadataLock, hold: u64) {
        let Some(entry) = self.locks.get_mut(&lock.id()) else { return };
        let Some(kind) = entry.release(hold) else { return };
        if !mutant(Mutant::ReleaseListedForgetsWake) {
            entry.wake();
        }
        self.prune_lock(lock.id());
        if let Some(state) = self.owners.get_mut(&owner.id) {
            state.listed_holds -= 1;
            state.listed_weight -= weight_of(kind);
        }
        self.prune_owner(owner.id);
    }

    fn prune_lock(&mut self, lock: u64) {
        if self.locks.get(&lock).is_some_and(LockState::is_idle) {
            self.locks.remove(&lock);
        }
    }

    fn prune_owner(&mut self, owner: u64) {
        if self.owners.get(&owner).is_some_and(|o| o.leases.is_empty() && o.listed_holds == 0) {
            self.owners.remove(&owner);
        }
    }
}

const fn weight_of(kind: Kind) -> u64 {
    if kind.is_obtrusive() { WEIGHT_OBTRUSIVE } else { WEIGHT }
}

/// Waiting for what nobody announces.
#[derive(Default)]
struct Poll {
    backoff: Backoff,
    yields: u32,
}

impl Poll {
    /// Waits a little, more each time; less if the condition ends.
    fn wait_while(&mut self, condition: impl Fn() -> bool) {
        for _ in 0..POLLS {
            if !condition() {
                return;
            }
            if self.backoff.wait() {
                continue;
            }
            if self.yields < YIELDS {
                self.yields += 1;
                primitives::yield_now();
            } else {
                primitives::nap();
            }
        }
    }
}

impl fmt::Debug for MetadataLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataLocks").field("usage", &self.usage()).finish_non_exhaustive()
    }
}
