//! The lock object of one namespace or tree: one word, which is all that the unobtrusive kinds need.
//!
//! ```text
//!     63        62    56 55                  28 27                   0
//!   [ obtrusive ][ -- 7 ][ second kind : 28     ][ first kind : 28    ]
//!                          namespace: -           namespace: IX
//!                          tree: SW               tree: SR
//! ```
//!
//! | word | who | does |
//! |---|---|---|
//! | not obtrusive | who takes IX, SR or SW | CAS, adding to its count |
//! | either | who took so | `fetch_sub` from its count; if obtrusive, tells the manager |
//! | not obtrusive | an obtrusive request, under the manager's mutex | sets obtrusive |
//! | obtrusive | the last obtrusive request to go, under the mutex | clears it |
//!
//! What it is not: the list of who waits, or of who holds obtrusively. That is the manager's.
//!
//! The invariants and the table of orderings are in the module above.

use super::kind::{Class, Kind, ScopeKind, TreeKind};
use crate::primitives::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::primitives::{AtomicU64, Mutant, fence, mutant};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as StdAtomicU64;

const OBTRUSIVE: u64 = 1 << 63;
const COUNT_BITS: u32 = 28;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// The metadata lock of one namespace or tree. Whoever made it keeps it under the name, and hands it to
/// owners of one [`MetadataLocks`](super::MetadataLocks), never of two: they would not see each other.
#[repr(align(128))]
pub struct MetadataLock {
    word: AtomicU64,
    id: u64,
    class: Class,
}

const _: () = assert!(size_of::<MetadataLock>() == 128 || cfg!(latchkv_loom));

/// A kind that the word counts: IX, SR or SW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    shift: u32,
}

impl Counted {
    /// The count of `kind`; none of an obtrusive one.
    #[inline]
    pub(super) const fn of(kind: Kind) -> Option<Counted> {
        match kind {
            Kind::Scope(ScopeKind::Ix) | Kind::Tree(TreeKind::Sr) => Some(Counted { shift: 0 }),
            Kind::Tree(TreeKind::Sw) => Some(Counted { shift: COUNT_BITS }),
            _ => None,
        }
    }

    /// Tells the counted kinds of one lock apart: 1 or 2.
    #[inline]
    pub(super) const fn tag(self) -> u64 {
        if self.shift == 0 { 1 } else { 2 }
    }
}

impl MetadataLock {
    /// A free lock of a namespace.
    pub fn scope() -> Arc<MetadataLock> {
        MetadataLock::new(Class::Scope)
    }

    /// A free lock of a tree.
    pub fn tree() -> Arc<MetadataLock> {
        MetadataLock::new(Class::Tree)
    }

    fn new(class: Class) -> Arc<MetadataLock> {
        /// Not of the protocol: the next number that no lock of this process had. Relaxed: it stands for
        /// itself.
        static NEXT_ID: StdAtomicU64 = StdAtomicU64::new(1);
        let id = NEXT_ID.fetch_add(1, Relaxed);
        Arc::new(MetadataLock { word: AtomicU64::new(0), id, class })
    }

    /// What it is the lock of.
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// No other lock of this process ever has the same. Below 2^62.
    #[inline]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Takes a counted kind, unless the lock is obtrusive or the count full: false. One read-modify-write if
    /// nobody interferes.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, kind: Counted) -> bool {
        // Relaxed: a guess, which the CAS checks.
        let mut word = self.word.load(Relaxed);
        loop {
            let obtrusive = word & OBTRUSIVE != 0 && !mutant(Mutant::TakeIgnoresObtrusive);
            if obtrusive || word >> kind.shift & COUNT_MAX == COUNT_MAX {
                return false;
            }
            // MD-b; Relaxed when it fails, as above.
            let order = if mutant(Mutant::TakeRelaxed) { Relaxed } else { Acquire };
            match self.word.compare_exchange_weak(word, word + (1 << kind.shift), order, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Gives a counted kind back. Says whether the lock is obtrusive: then the manager is to be told. One
    /// read-modify-write.
    #[inline]
    #[must_use]
    pub(super) fn give_back(&self, kind: Counted) -> bool {
        // MD-a.
        let order = if mutant(Mutant::GiveBackRelaxed) { Relaxed } else { Release };
        let before = self.word.fetch_sub(1 << kind.shift, order);
        before & OBTRUSIVE != 0
    }

    /// How many have the counted kind.
    pub(super) fn count(&self, kind: Counted) -> u64 {
        // MD-a.
        self.word.load(Acquire) >> kind.shift & COUNT_MAX
    }

    /// Whether everything about this lock has to go through the manager.
    #[inline(always)]
    pub(super) fn is_obtrusive(&self) -> bool {
        // MD-b.
        self.word.load(Acquire) & OBTRUSIVE != 0
    }

    /// Marks it obtrusive. Behind this the counts only fall, and leases in use are seen. Under the manager's
    /// mutex.
    pub(super) fn set_obtrusive(&self) {
        // Relaxed: who sees it comes to the mutex; it is not what publishes anything.
        self.word.fetch_or(OBTRUSIVE, Relaxed);
        if !mutant(Mutant::ObtrusiveWithoutFence) {
            // MD-d.
            fence(SeqCst);
        }
    }

    /// Marks it not obtrusive. Under the manager's mutex.
    pub(super) fn clear_obtrusive(&self) {
        // MD-b.
        let order = if mutant(Mutant::ClearObtrusiveRelaxed) { Relaxed } else { Release };
        self.word.fetch_and(!OBTRUSIVE, order);
    }
}

impl fmt::Debug for MetadataLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetadataLock")
            .field("id", &self.id)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_count_sends_to_the_manager_and_does_not_touch_the_other() {
        let lock = MetadataLock::tree();
        let [sr, sw] = [TreeKind::Sr, TreeKind::Sw].map(|kind| Counted::of(kind.into()).unwrap());
        lock.word.store(COUNT_MAX - 1, Relaxed);
        assert!(lock.try_take(sr) && !lock.try_take(sr) && lock.try_take(sw));
        assert_eq!((lock.count(sr), lock.count(sw)), (COUNT_MAX, 1));
        assert!(!lock.give_back(sr) && !lock.give_back(sw));
        lock.word.store(COUNT_MAX << COUNT_BITS, Relaxed);
        assert!(lock.try_take(sr) && !lock.try_take(sw));
        assert!(!lock.is_obtrusive());
    }

    #[test]
    fn an_obtrusive_word_is_only_counted_down() {
        let lock = MetadataLock::scope();
        let ix = Counted::of(ScopeKind::Ix.into()).unwrap();
        assert!(lock.try_take(ix));
        lock.set_obtrusive();
        assert!(!lock.try_take(ix) && lock.is_obtrusive());
        assert!(lock.give_back(ix), "the manager is to be told");
        lock.clear_obtrusive();
        assert!(lock.try_take(ix) && !lock.give_back(ix));
    }
}
