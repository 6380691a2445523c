//! What happened to accounts, and who was denied what: a bounded ring of events, and a callback.
//!
//! Nothing waits for it: if the ring is full the oldest event goes, and the number of those is counted. The callback
//! runs in the thread in which the event happened, with a metadata lock or the accounts' mutex held perhaps, so it
//! must not call the database; it may not panic either.

use crate::accounts::{Object, ReadOnly, Rights};
use crossbeam_queue::ArrayQueue;
use latchkv_latch::primitives::{AtomicU64, Ordering};
use std::fmt;
use std::time::SystemTime;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// When.
    pub at: SystemTime,
    /// The account that acted; of a login, the name that was given.
    pub account: String,
    /// What happened.
    pub kind: AuditKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditKind {
    /// A session was opened.
    Login,
    /// A login was refused: for a wrong name or password, or for too many of those before.
    LoginRefused,
    /// A right was missing.
    Denied {
        /// What was called.
        op: &'static str,
        /// Rights that were needed and are missing.
        needed: Rights,
        /// On what.
        object: Object,
    },
    /// A write was denied because of the namespace's state.
    ReadOnly {
        /// What was called.
        op: &'static str,
        /// The namespace.
        namespace: String,
    },
    /// An account or role was made.
    Created {
        /// Its name.
        account: String,
        /// It is a role.
        role: bool,
    },
    /// An account or role was dropped.
    Dropped {
        /// Its name.
        account: String,
    },
    /// A password was set.
    PasswordSet {
        /// Whose.
        account: String,
    },
    /// Rights were granted.
    Granted {
        /// To whom.
        to: String,
        /// On what.
        object: Object,
        /// Which.
        rights: Rights,
    },
    /// Rights were taken away.
    Revoked {
        /// From whom.
        from: String,
        /// On what.
        object: Object,
        /// Which.
        rights: Rights,
    },
    /// A role was given.
    RoleGranted {
        /// To whom.
        to: String,
        /// The role.
        role: String,
    },
    /// A role was taken away.
    RoleRevoked {
        /// From whom.
        from: String,
        /// The role.
        role: String,
    },
    /// A namespace was made.
    NamespaceCreated {
        /// Its name.
        namespace: String,
    },
    /// A namespace was forgotten.
    NamespaceDropped {
        /// Its name.
        namespace: String,
    },
    /// A namespace got another state.
    StateChanged {
        /// The namespace.
        namespace: String,
        /// Its state now.
        state: ReadOnly,
    },
}

/// Called with each event.
pub(super) type AuditCallback = Box<dyn Fn(&AuditEvent) + Send + Sync>;

/// See the module head.
pub(super) struct Audit {
    ring: Option<ArrayQueue<AuditEvent>>,
    callback: Option<AuditCallback>,
    /// Events that went before anybody took them. Relaxed: a count.
    lost: AtomicU64,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.ring.as_ref().map_or(0, ArrayQueue::len);
        f.debug_struct("Audit").field("events", &len).finish_non_exhaustive()
    }
}

impl Audit {
    /// With room for so many events.
    pub(super) fn new(events_max: usize, callback: Option<AuditCallback>) -> Audit {
        let ring = (events_max > 0).then(|| ArrayQueue::new(events_max));
        Audit { ring, callback, lost: AtomicU64::new(0) }
    }

    /// Notes an event that happens now.
    #[cold]
    pub(super) fn note(&self, account: &str, kind: AuditKind) {
        let event = AuditEvent { at: SystemTime::now(), account: account.to_owned(), kind };
        if let Some(callback) = &self.callback {
            callback(&event);
        }
        if let Some(ring) = &self.ring
            && ring.force_push(event).is_some()
        {
            // Relaxed: see the field.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the events that are there, the oldest first, and says how many went before them since the last call.
    pub(super) fn take(&self) -> (Vec<AuditEvent>, u64) {
        // Relaxed: see the field.
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let events = self.ring.as_ref().map(|ring| std::iter::from_fn(|| ring.pop()).collect());
        (events.unwrap_or_default(), lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Mutex;

    #[test]
    fn a_full_ring_loses_the_oldest_and_counts_them() {
        let audit = Audit::new(2, None);
        for account in ["a", "b", "c"] {
            audit.note(account, AuditKind::Login);
        }
        let (events, lost) = audit.take();
        assert_eq!(events.iter().map(|event| &event.account[..]).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(lost, 1);
        assert_eq!(audit.take(), (Vec::new(), 0));
    }

    #[test]
    fn the_callback_gets_what_a_ring_without_room_does_not_keep() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let there = Arc::clone(&seen);
        let callback =
            move |event: &AuditEvent| there.lock().expect("alone").push(event.kind.clone());
        let audit = Audit::new(0, Some(Box::new(callback)));
        audit.note("a", AuditKind::LoginRefused);
        assert_eq!(*seen.lock().expect("alone"), [AuditKind::LoginRefused]);
        assert_eq!(audit.take(), (Vec::new(), 0));
    }
}
