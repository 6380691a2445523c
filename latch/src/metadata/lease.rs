//! Leases: what an open tree of a session has in place of a lock.
//!
//! ```text
//!   use:    slot = reading | writing;  fence(SeqCst);  tree or namespace obtrusive?  --no-->  in use
//!                                                              |
//!                                                              +--yes-->  slot as before;  the slow way
//!   leave:  slot = what the uses that are left need
//! ```
//!
//! The protocol of [`crate::gate`], with two "closed" flags, and with a closer that lets readers be where it
//! can. The slow way makes a use an ordinary holder, IX of the namespace and SR or SW of the tree, until it
//! ends.
//!
//! What it is not: a lock, while nobody uses it. Uses nest: a lease that writes may be read through, one that
//! reads may begin to write, and they may end in any order. The strongest counts.
//!
//! | uses open | slot and list together show |
//! |---|---|
//! | none | nothing |
//! | reads | reading, or more |
//! | a write, perhaps reads | writing |

use super::error::LockError;
use super::kind::{Class, Kind, ScopeKind, TreeKind};
use super::manager::{Manager, Until};
use super::owner::{Holdings, Owner};
use super::word::MetadataLock;
use crate::primitives::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::primitives::{AtomicU32, Mutant, fence, mutant};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a lease is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
enum Level {
    Idle,
    Reading,
    Writing,
}

impl Level {
    const fn from_u32(value: u32) -> Level {
        match value {
            0 => Level::Idle,
            1 => Level::Reading,
            _ => Level::Writing,
        }
    }

    const fn tree_kind(self) -> Kind {
        match self {
            Level::Writing => Kind::Tree(TreeKind::Sw),
            Level::Idle | Level::Reading => Kind::Tree(TreeKind::Sr),
        }
    }
}

const IX: Kind = Kind::Scope(ScopeKind::Ix);

/// Where a lease says how it is in use, for others to see.
#[repr(align(128))]
pub(super) struct Slot {
    /// A [`Level`]. Stored to by who has the lease.
    level: AtomicU32,
    pub(super) owner: u64,
}

impl Slot {
    /// In its use of this moment, the lease has a lock of this class in this kind.
    pub(super) fn kind(&self, class: Class) -> Option<Kind> {
        // MD-c.
        match (Level::from_u32(self.level.load(Acquire)), class) {
            (Level::Idle, _) => None,
            (_, Class::Scope) => Some(IX),
            (level, Class::Tree) => Some(level.tree_kind()),
        }
    }

    /// What the lease has now does not go with `kind`.
    pub(super) fn is_against(&self, kind: Kind) -> bool {
        self.kind(kind.class()).is_some_and(|held| !held.goes_with(kind))
    }

    /// Whether it is used at all.
    pub(super) fn is_in_use(&self) -> bool {
        self.kind(Class::Scope).is_some()
    }

    #[inline(always)]
    fn level(&self) -> Level {
        // Relaxed: MD4, one's own store.
        Level::from_u32(self.level.load(Relaxed))
    }

    /// Leaves, or uses less.
    #[inline(always)]
    fn leave(&self, level: Level) {
        // MD-c.
        let order = if mutant(Mutant::LeaseLeaveRelaxed) { Relaxed } else { Release };
        self.level.store(level as u32, order);
    }
}

/// The slow way's use: what the manager lists for it.
#[derive(Clone, Copy)]
struct Listed {
    level: Level,
    scope: u64,
    tree: u64,
}

/// Uses that are open.
#[derive(Clone, Copy, Default)]
struct Uses {
    reads: u32,
    writes: u32,
}

impl Uses {
    const fn one(level: Level) -> Uses {
        match level {
            Level::Writing => Uses { reads: 0, writes: 1 },
            Level::Idle | Level::Reading => Uses { reads: 1, writes: 0 },
        }
    }

    const fn level(self) -> Level {
        match (self.reads, self.writes) {
            (0, 0) => Level::Idle,
            (_, 0) => Level::Reading,
            _ => Level::Writing,
        }
    }
}

/// A standing permission of an owner to use one tree: SR or SW of the tree, and IX of its namespace, for as
/// long as it is used. Using it costs no read-modify-write and no allocation while nobody has, or wants, one
/// of the two locks obtrusively. It keeps both locks alive, and may outlive its owner's [`Owner`].
///
/// For one thread at a time, the one that has the owner.
pub struct Lease {
    slot: Arc<Slot>,
    tree: Arc<MetadataLock>,
    scope: Arc<MetadataLock>,
    uses: Cell<Uses>,
    listed: Cell<Option<Listed>>,
    manager: Arc<Manager>,
    holdings: Arc<Holdings>,
    id: u64,
}

/// A lease in use; ends when dropped. One that is leaked lasts as long as its lease.
#[must_use = "the use ends when this is dropped"]
pub struct InUse<'l> {
    lease: &'l Lease,
    level: Level,
}

/// A use of a lease that no guard ends, but [`Lease::end_kept`]. One that is lost lasts as long as its lease.
#[must_use = "the use lasts until its lease is given this back"]
#[derive(Debug)]
pub struct Kept {
    lease: u64,
    level: Level,
}

impl Lease {
    pub(super) fn open(
        owner: &Owner,
        scope: &Arc<MetadataLock>,
        tree: &Arc<MetadataLock>,
    ) -> Lease {
        assert!(scope.class() == Class::Scope, "a lease whose namespace is a tree");
        assert!(tree.class() == Class::Tree, "a lease whose tree is a namespace");
        let slot = Slot { level: AtomicU32::new(Level::Idle as u32), owner: owner.holdings.id };
        let slot = Arc::new(slot);
        let id = owner.manager.open_lease(&slot, scope, tree);
        Lease {
            slot,
            tree: tree.clone(),
            scope: scope.clone(),
            uses: Cell::default(),
            listed: Cell::new(None),
            manager: owner.manager.clone(),
            holdings: owner.holdings.clone(),
            id,
        }
    }

    /// Begins to read: SR of the tree and IX of the namespace. Waits, for `timeout` at most or without end, while
    /// others have or were promised what does not go with that.
    ///
    /// # Errors
    ///
    /// [`LockError::Timeout`] and [`LockError::Deadlock`], as of [`Owner::lock`].
    #[inline]
    pub fn read(&self, timeout: Option<Duration>) -> Result<InUse<'_>, LockError> {
        self.begin(Level::Reading, timeout)?;
        let uses = self.uses.get();
        self.uses.set(Uses { reads: uses.reads + 1, ..uses });
        Ok(InUse { lease: self, level: Level::Reading })
    }

    /// Begins to write: SW of the tree and IX of the namespace. Waits as [`Lease::read`] does.
    ///
    /// # Errors
    ///
    /// As of [`Lease::read`].
    #[inline]
    pub fn write(&self, timeout: Option<Duration>) -> Result<InUse<'_>, LockError> {
        self.begin(Level::Writing, timeout)?;
        let uses = self.uses.get();
        self.uses.set(Uses { writes: uses.writes + 1, ..uses });
        Ok(InUse { lease: self, level: Level::Writing })
    }

    /// The lock of its tree.
    pub fn tree(&self) -> &Arc<MetadataLock> {
        &self.tree
    }

    /// Ends a use that [`InUse::keep`] has kept, and no other. Nothing ends if it is of another lease.
    pub fn end_kept(&self, kept: Kept) {
        if kept.lease == self.id {
            self.end(Uses::one(kept.level));
        }
    }

    /// Sees to it that the lease shows `want` at least.
    #[inline]
    fn begin(&self, want: Level, timeout: Option<Duration>) -> Result<(), LockError> {
        if self.shown() >= want || self.try_slot(want) {
            return Ok(());
        }
        self.begin_slow(want, timeout)
    }

    /// What slot and list show together.
    #[inline(always)]
    fn shown(&self) -> Level {
        let listed = self.listed.get().map_or(Level::Idle, |listed| listed.level);
        self.slot.level().max(listed)
    }

    /// Shows `want` in the slot, unless one of the locks is obtrusive.
    #[inline(always)]
    fn try_slot(&self, want: Level) -> bool {
        let before = self.slot.level();
        // MD-d, the fence follows; MD-e.
        let order = if mutant(Mutant::LeaseBeginRelaxed) { Relaxed } else { Release };
        self.slot.level.store(want as u32, order);
        if !mutant(Mutant::LeaseWithoutFence) {
            // MD-d.
            fence(SeqCst);
        }
        let obtrusive = self.tree.is_obtrusive() || self.scope.is_obtrusive();
        if !obtrusive || mutant(Mutant::LeaseIgnoresObtrusive) {
            return true;
        }
        self.slot.leave(before);
        false
    }

    /// Has the manager list the use. What is shown before is shown on, so that nobody gets between.
    #[cold]
    fn begin_slow(&self, want: Level, timeout: Option<Duration>) -> Result<(), LockError> {
        let until = Until::timeout(timeout);
        let acquire = |lock, kind| self.manager.acquire(&self.holdings, lock, kind, until);
        let scope = match self.listed.get() {
            Some(listed) => listed.scope,
            None => acquire(&self.scope, IX)?,
        };
        let tree = acquire(&self.tree, want.tree_kind());
        match (self.listed.get(), &tree) {
            (Some(weaker), Ok(_)) => self.release(&self.tree, weaker.tree),
            (None, Err(_)) => self.release(&self.scope, scope),
            (Some(_), Err(_)) | (None, Ok(_)) => {}
        }
        self.listed.set(Some(Listed { level: want, scope, tree: tree? }));
        Ok(())
    }

    fn release(&self, lock: &Arc<MetadataLock>, hold: u64) {
        self.manager.release(&self.holdings, lock, hold);
    }

    /// Ends uses, and shows what the others need.
    #[inline]
    fn end(&self, ended: Uses) {
        let uses = self.uses.get();
        let uses = Uses { reads: uses.reads - ended.reads, writes: uses.writes - ended.writes };
        self.uses.set(uses);
        let need = uses.level();
        if self.listed.get().is_some() {
            self.end_listed(need);
        }
        if self.slot.level() > need {
            self.slot.leave(need);
        }
    }

    /// Has the manager list no more than `need`, and nothing if the slot shows that.
    #[cold]
    fn end_listed(&self, need: Level) {
        let Some(listed) = self.listed.get() else { return };
        if self.slot.level() >= need {
            self.listed.set(None);
            self.release(&self.tree, listed.tree);
            self.release(&self.scope, listed.scope);
        } else if listed.level > need {
            self.listed.set(Some(Listed { level: need, ..listed }));
            self.manager.weaken(&self.tree, listed.tree, need.tree_kind());
        }
    }
}

impl InUse<'_> {
    /// Lets the use last until [`Lease::end_kept`] gets what this gives, or the lease is dropped: for a
    /// transaction, which cannot keep a guard beside the lease that it borrows.
    pub fn keep(self) -> Kept {
        let kept = Kept { lease: self.lease.id, level: self.level };
        std::mem::forget(self);
        kept
    }
}

impl Drop for InUse<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lease.end(Uses::one(self.level));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Guards borrow the lease, so those still counted were kept or leaked.
        self.end(self.uses.get());
        self.manager.close_lease(self.holdings.id, self.id, &self.scope, &self.tree);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("shows", &self.shown())
            .field("scope", &self.scope)
            .field("tree", &self.tree)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for InUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InUse").field("level", &self.level).finish_non_exhaustive()
    }
}
