//! One lock as the manager knows it: who holds it beside the word's counts, who waits, and who may go on.
//!
//! # Who is given a lock
//!
//! A request is granted when what it asks for goes with what other owners hold, by the word, the list, and
//! the slots of leases, and it has to *yield* to nobody. It yields to a request that
//!
//! * is of another owner, and of a kind that does not go with its own;
//! * comes before it: those whose turn it is, then the obtrusive, then the others; in each of these groups the
//!   earlier;
//! * does not wait for this very owner. What for? It would not be granted before this one is. So SU becomes X
//!   past those who wait for it to go, and a lease that is read through begins to write.
//!
//! # Turns
//!
//! The obtrusive come before the others, so that a stream of readers does not keep X out for ever. The other
//! way round: after [`OBTRUSIVE_IN_ROW`] obtrusive grants past somebody unobtrusive that waits, it is the turn
//! of all unobtrusive ones that wait at that moment. Who comes later is not of them, so turns end.
//!
//! Everything here is under the manager's mutex, but for the words and slots that it looks at.

use super::kind::{Class, Kind, ScopeKind, TreeKind};
use super::lease::Slot;
use super::owner::Holdings;
use super::word::{Counted, MetadataLock};
use crate::primitives::{Mutant, mutant};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Obtrusive grants that may pass a waiter that is not.
pub(super) const OBTRUSIVE_IN_ROW: u32 = 8;

/// Something asked for and not yet given.
pub(super) struct Request {
    /// Names it, and is its place in the order of arrival.
    pub(super) seq: u64,
    pub(super) owner: Arc<Holdings>,
    pub(super) kind: Kind,
    /// It was chosen to end a deadlock, and is about to leave.
    pub(super) doomed: bool,
}

/// Something given, and listed.
pub(super) struct Hold {
    /// That of its request.
    pub(super) seq: u64,
    pub(super) owner: u64,
    pub(super) kind: Kind,
}

/// Whether a request may be granted.
pub(super) enum Verdict {
    /// Yes.
    Grant,
    /// Not before somebody releases or gives up, and wakes.
    Wait,
    /// Not before this lease is used less; it will not say so.
    WaitForLease(Arc<Slot>),
}

/// See the module head.
pub(super) struct LockState {
    lock: Arc<MetadataLock>,
    holds: Vec<Hold>,
    /// By arrival.
    requests: Vec<Request>,
    /// By owner and id.
    leases: BTreeMap<(u64, u64), Arc<Slot>>,
    /// Obtrusive holds and requests: the word is obtrusive while there are any.
    obtrusive: u32,
    /// Obtrusive grants in a row that passed somebody.
    in_row: u32,
    /// It is the turn of the unobtrusive requests before this.
    turn_before: u64,
}

impl LockState {
    pub(super) fn new(lock: &Arc<MetadataLock>) -> LockState {
        LockState {
            lock: lock.clone(),
            holds: Vec::new(),
            requests: Vec::new(),
            leases: BTreeMap::new(),
            obtrusive: 0,
            in_row: 0,
            turn_before: 0,
        }
    }

    /// Whether nobody needs to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.requests.is_empty() && self.leases.is_empty()
    }

    pub(super) fn request(&self, seq: u64) -> Option<&Request> {
        self.requests.iter().find(|request| request.seq == seq)
    }

    pub(super) fn add_lease(&mut self, id: u64, slot: &Arc<Slot>) {
        self.leases.insert((slot.owner, id), slot.clone());
    }

    pub(super) fn remove_lease(&mut self, owner: u64, id: u64) {
        self.leases.remove(&(owner, id));
    }

    /// Puts a request at the end of the queue.
    pub(super) fn enqueue(&mut self, request: Request) {
        if request.kind.is_obtrusive() {
            self.obtrusive += 1;
            if self.obtrusive == 1 {
                self.lock.set_obtrusive();
            }
        }
        self.requests.push(request);
    }

    /// Takes a request out that is not granted.
    pub(super) fn withdraw(&mut self, seq: u64) {
        if let Some(at) = self.requests.iter().position(|request| request.seq == seq) {
            let request = self.requests.remove(at);
            self.end(request.kind);
        }
    }

    /// Makes a request a hold. Says whether a turn began by that. `next_seq` is what no request has reached.
    pub(super) fn grant(&mut self, seq: u64, next_seq: u64) -> bool {
        let Some(at) = self.requests.iter().position(|request| request.seq == seq) else {
            return false;
        };
        let request = self.requests.remove(at);
        self.holds.push(Hold { seq, owner: request.owner.id, kind: request.kind });
        if !request.kind.is_obtrusive() {
            return false;
        }
        if self.requests.iter().all(|waiting| waiting.kind.is_obtrusive()) {
            self.in_row = 0;
            return false;
        }
        self.in_row += 1;
        if self.in_row < OBTRUSIVE_IN_ROW {
            return false;
        }
        self.in_row = 0;
        self.turn_before = next_seq;
        true
    }

    /// Takes a hold out, and gives its kind.
    pub(super) fn release(&mut self, seq: u64) -> Option<Kind> {
        let at = self.holds.iter().position(|hold| hold.seq == seq)?;
        let kind = self.holds.swap_remove(at).kind;
        self.end(kind);
        Some(kind)
    }

    /// Makes a hold of an unobtrusive kind one of another.
    pub(super) fn weaken(&mut self, seq: u64, to: Kind) {
        if let Some(hold) = self.holds.iter_mut().find(|hold| hold.seq == seq) {
            debug_assert!(!hold.kind.is_obtrusive(), "the count of the obtrusive does not know");
            hold.kind = to;
        }
    }

    /// Marks a request as a victim.
    pub(super) fn doom(&mut self, seq: u64) {
        if let Some(request) = self.requests.iter_mut().find(|request| request.seq == seq) {
            request.doomed = true;
            if !mutant(Mutant::DoomForgetsWake) {
                request.owner.woken.wake_all();
            }
        }
    }

    /// Wakes every request that may go on, or that only a lease holds up.
    pub(super) fn wake(&self) {
        for request in &self.requests {
            if !matches!(self.verdict(request), Verdict::Wait) {
                request.owner.woken.wake_all();
            }
        }
    }

    /// Wakes every request.
    pub(super) fn wake_all(&self) {
        for request in &self.requests {
            request.owner.woken.wake_all();
        }
    }

    /// Whether this request may be granted now.
    pub(super) fn verdict(&self, request: &Request) -> Verdict {
        let owner = request.owner.id;
        let held = self.is_counted_against(request)
            || self
                .holds
                .iter()
                .any(|hold| hold.owner != owner && !hold.kind.goes_with(request.kind));
        if held || self.requests.iter().any(|other| self.yields(request, other)) {
            return Verdict::Wait;
        }
        if !request.kind.is_obtrusive() {
            // No lease has what does not go with it.
            return Verdict::Grant;
        }
        let in_the_way = |slot: &&Arc<Slot>| slot.owner != owner && slot.is_against(request.kind);
        match self.leases.values().find(in_the_way) {
            Some(slot) => Verdict::WaitForLease(slot.clone()),
            None => Verdict::Grant,
        }
    }

    /// Whether what `owner` holds of this lock does not go with `kind`.
    pub(super) fn holds_against(&self, owner: &Holdings, kind: Kind) -> bool {
        self.holds.iter().any(|hold| hold.owner == owner.id && !hold.kind.goes_with(kind))
            || self.counted_against(kind).any(|count| owner.tickets_of(&self.lock, count) > 0)
            || self
                .leases
                .range((owner.id, 0)..=(owner.id, u64::MAX))
                .any(|(_, s)| s.is_against(kind))
    }

    /// Whether `request` yields to `other`.
    pub(super) fn yields(&self, request: &Request, other: &Request) -> bool {
        other.owner.id != request.owner.id
            && !other.kind.goes_with(request.kind)
            && self.place(other) < self.place(request)
            && !self.holds_against(&request.owner, other.kind)
    }

    /// The order of requests.
    fn place(&self, request: &Request) -> (u8, u64) {
        let group = match request.kind.is_obtrusive() {
            false if request.seq < self.turn_before => 0,
            true => 1,
            false => 2,
        };
        (group, request.seq)
    }

    /// Whether the word counts somebody else whose kind does not go with the request.
    fn is_counted_against(&self, request: &Request) -> bool {
        !mutant(Mutant::RequestIgnoresCounts)
            && self
                .counted_against(request.kind)
                .any(|count| self.lock.count(count) > request.owner.tickets_of(&self.lock, count))
    }

    /// The counted kinds of this lock that do not go with `kind`.
    fn counted_against(&self, kind: Kind) -> impl Iterator<Item = Counted> {
        let kinds: &[Kind] = match self.lock.class() {
            Class::Scope => &[Kind::Scope(ScopeKind::Ix)],
            Class::Tree => &[Kind::Tree(TreeKind::Sr), Kind::Tree(TreeKind::Sw)],
        };
        kinds.iter().filter(move |held| !held.goes_with(kind)).filter_map(|held| Counted::of(*held))
    }

    /// A hold or request of this kind is gone.
    fn end(&mut self, kind: Kind) {
        if kind.is_obtrusive() {
            self.obtrusive -= 1;
            if self.obtrusive == 0 {
                self.lock.clear_obtrusive();
            }
        }
    }
}
