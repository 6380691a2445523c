//! The search for deadlocks.
//!
//! ```text
//!   request --waits for--> owner --waits in--> request --waits for--> owner ...
//! ```
//!
//! Who is about to wait, and who goes on waiting after a wake, looks for a way from its request back to
//! itself. Owners that do not wait end a way, so only requests that wait are walked. A circle closes with the
//! last request on it, or when a turn changes who yields; both look. So no circle stays.
//!
//! On a circle the *lightest* owner gives up: 1 for each thing held, 100 if it is obtrusive. Of two that weigh
//! the same it is the first on the way, which begins with whoever looks.
//!
//! What it is not: cheap. It is as long as the pairs of those who wait. Nor exact for an owner that two
//! threads use at once, which is not allowed: then a circle may be seen that is none, or one missed until a
//! timeout.

use super::manager::State;
use super::queue::{LockState, Request};

/// Names a request: the lock, and its place in the order of arrival.
pub(super) type RequestId = (u64, u64);

/// A request with its lock.
struct Node<'s> {
    lock_id: u64,
    lock: &'s LockState,
    request: &'s Request,
}

impl Node<'_> {
    fn id(&self) -> RequestId {
        (self.lock_id, self.request.seq)
    }

    /// Whether this request waits for the owner of the other, or yields to the other.
    fn waits_for(&self, other: &Node<'_>) -> bool {
        if self.request.owner.id == other.request.owner.id {
            return false;
        }
        self.lock.holds_against(&other.request.owner, self.request.kind)
            || (self.lock_id == other.lock_id && self.lock.yields(self.request, other.request))
    }
}

/// Who has to give up, if `start` waits in a circle.
pub(super) fn victim(state: &State, start: RequestId) -> Option<RequestId> {
    let nodes: Vec<Node<'_>> = state
        .waiting()
        .filter(|(_, _, request)| !request.doomed)
        .map(|(lock_id, lock, request)| Node { lock_id, lock, request })
        .collect();
    let start = nodes.iter().position(|node| node.id() == start)?;
    let mut seen = vec![false; nodes.len()];
    // The way, each step with the next node to try from there.
    let mut path = vec![(start, 0)];
    while let Some((at, next)) = path.last_mut() {
        let waits_for = |&other: &usize| nodes[*at].waits_for(&nodes[other]);
        let Some(to) = (*next..nodes.len()).find(waits_for) else {
            path.pop();
            continue;
        };
        *next = to + 1;
        if to == start {
            let weight = |&&(at, _): &&(usize, usize)| state.weight(&nodes[at].request.owner);
            return path.iter().min_by_key(weight).map(|&(at, _)| nodes[at].id());
        }
        if !std::mem::replace(&mut seen[to], true) {
            path.push((to, 0));
        }
    }
    None
}
