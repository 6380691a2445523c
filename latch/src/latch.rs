//! One latch word: optimistic, shared (S) and exclusive (X), 8 bytes, with no allocation and no destructor.
//!
//! What it is for: page-hash cells and frames, by the million. What it is not: a lock for transactions, a
//! fair lock, or re-entrant (a thread that holds S and asks again may wait for a writer that waits for it).
//!
//! ```text
//!            try_begin / begin                 shared                    exclusive
//!   nothing -------------------> optimistic   nothing -> S              nothing -> X
//!                                  |   |                                   |
//!                        shared_at |   | upgrade                           | downgrade
//!                                  v   v                                   v
//!                                  S   X                                   S
//! ```
//!
//! One function a transition; the bits are in `word`, and only there.
//!
//! # How a reader reads
//!
//! Begin, load whole words with Relaxed, validate. Nothing read may be believed, not even as an index, before
//! [`Latch::validate`] said true, except where a wrong value is harmless.
//!
//! # Orderings
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[O1] | release of X: `fetch_add` Release | begin: load Acquire; S and X: CAS Acquire | what the last writer stored is seen by whoever begins after it | a reader begins at the new version and reads old words |
//! | \[O2] | take X: `fence(Release)` after the CAS, before the first data store | validate: `fence(Acquire)` after the last data load, then load Relaxed | a reader that saw one word of a writer sees its X or a later version | torn read, on weakly ordered processors only |
//! | \[O3] | release of S, clean release of X: Release | take X: CAS Acquire | reads under S come before the next writer's stores | a reader under S sees the next writer |
//! | \[O4] | set PK, PW: CAS Relaxed under the bucket's lock | release: the RMW itself | an RMW reads the newest value, so a release after the CAS sees PK, and a CAS after the release fails | lost wake-up |
//! | \[O5] | clear PK, PW: `fetch_and` Relaxed under the bucket's lock | | RMWs carry on the release sequence of O1, so they need no order of their own | |
//!
//! Loads before a CAS are Relaxed: the CAS compares the whole word and carries the order. `upgrade` and
//! `shared_at` need no fence for what was read since `begin`: their CAS finds the version unmoved, so a later
//! writer's stores come after it by O1 or O3, and a load cannot see what happens after it.
//!
//! # Waiting
//!
//! Spin about half a microsecond, yield twice, park by address. A thread parks only by a CAS, under the
//! bucket's lock, on a word that *is held*; whoever ends the hold sees PK and wakes everyone. Waking all is
//! deliberate: it is simple, and hot latches are rare. A parked writer sets PW so that readers cannot pass it
//! for ever.
//!
//! In debug builds a thread that would park while it holds a cell of the page hash panics (see `order`).
//!
//! # Tests
//!
//! Threads below; loom models `seqlock`, `exclusion`, `upgrade` and `clean_and_downgrade` with their mutants.

use crate::backoff::Backoff;
use crate::order;
use crate::primitives::Ordering::{Acquire, Relaxed, Release};
use crate::primitives::{self, AtomicU64, Mutant, fence, mutant};
use crate::word::{self, Version, Word};

/// One latch word. All-zero bytes are a free latch.
#[repr(transparent)]
#[derive(Debug)]
pub struct Latch(AtomicU64);

#[cfg(not(latchkv_loom))]
const _: () = assert!(size_of::<Latch>() == 8 && align_of::<Latch>() == 8);

impl Latch {
    /// A free latch.
    #[cfg(not(latchkv_loom))]
    #[inline(always)]
    pub const fn new() -> Latch {
        Latch(AtomicU64::new(0))
    }

    /// A free latch.
    #[cfg(latchkv_loom)]
    pub fn new() -> Latch {
        Latch(AtomicU64::new(0))
    }

    /// Begins an optimistic read; `None` while X is held. No read-modify-write.
    #[inline(always)]
    pub fn try_begin(&self) -> Option<Version> {
        // O1, read site.
        let order = if mutant(Mutant::BeginRelaxed) { Relaxed } else { Acquire };
        let word = Word(self.0.load(order));
        if word.is_exclusive() { None } else { Some(word.version()) }
    }

    /// Begins an optimistic read, after waiting for X to end. No read-modify-write unless it parks.
    #[inline(always)]
    pub fn begin(&self) -> Version {
        match self.try_begin() {
            Some(version) => version,
            None => self.begin_slow(),
        }
    }

    #[cold]
    fn begin_slow(&self) -> Version {
        let mut backoff = Backoff::new();
        loop {
            // O1, read site.
            let word = Word(self.0.load(Acquire));
            if !word.is_exclusive() {
                return word.version();
            }
            self.wait(&mut backoff, word, false);
        }
    }

    /// Whether everything read since `at` was begun can be believed: the version has not moved and X is not
    /// held. No read-modify-write.
    #[inline(always)]
    pub fn validate(&self, at: Version) -> bool {
        // O2, read site: the fence keeps the data loads before the load of the word.
        let order = if mutant(Mutant::ValidateByAcquireLoad) {
            Acquire
        } else {
            fence(Acquire);
            Relaxed
        };
        Word(self.0.load(order)).is_still(at)
    }

    /// Takes S. Waits while X is held, a writer waits behind other readers, or 4095 hold S.
    #[inline]
    pub fn shared(&self) -> Shared<'_> {
        match self.try_shared() {
            Some(shared) => shared,
            None => self.shared_slow(),
        }
    }

    #[cold]
    fn shared_slow(&self) -> Shared<'_> {
        let mut backoff = Backoff::new();
        loop {
            let word = Word(self.0.load(Relaxed));
            if !word.admits_shared() {
                self.wait(&mut backoff, word, false);
            } else if let Some(shared) = self.cas_shared(word) {
                return shared;
            }
        }
    }

    /// Takes S, or gives `None` at once where [`Latch::shared`] would wait.
    #[inline]
    pub fn try_shared(&self) -> Option<Shared<'_>> {
        loop {
            let word = Word(self.0.load(Relaxed));
            if !word.admits_shared() {
                return None;
            }
            if let Some(shared) = self.cas_shared(word) {
                return Some(shared);
            }
        }
    }

    /// Takes S in one try: `None` where [`Latch::shared`] would wait, and if the word changed in this very moment. Of the
    /// same accesses as `shared`.
    #[cfg(feature = "measure")]
    #[inline(always)]
    pub(crate) fn shared_in_one_try(&self) -> Option<Shared<'_>> {
        let word = Word(self.0.load(Relaxed));
        if word.admits_shared() { self.cas_shared(word) } else { None }
    }

    /// Takes S at the version `at`: what was read since then still holds and will until the guard is dropped.
    /// `None` at once if the version moved, X is held, a writer waits, or there is no room.
    #[inline]
    pub fn shared_at(&self, at: Version) -> Option<Shared<'_>> {
        loop {
            let word = Word(self.0.load(Relaxed));
            let moved = word.version() != at && !mutant(Mutant::SharedAtIgnoresVersion);
            if moved || !word.admits_shared() {
                return None;
            }
            if let Some(shared) = self.cas_shared(word) {
                return Some(shared);
            }
        }
    }

    /// Takes X. Waits for every holder.
    #[inline]
    pub fn exclusive(&self) -> Exclusive<'_> {
        match self.try_exclusive() {
            Some(exclusive) => exclusive,
            None => self.exclusive_slow(),
        }
    }

    #[cold]
    fn exclusive_slow(&self) -> Exclusive<'_> {
        let mut backoff = Backoff::new();
        loop {
            let word = Word(self.0.load(Relaxed));
            if !word.admits_exclusive() {
                self.wait(&mut backoff, word, true);
            } else if let Some(exclusive) = self.cas_exclusive(word) {
                return exclusive;
            }
        }
    }

    /// Takes X, or gives `None` at once if anyone holds the latch.
    #[inline]
    pub fn try_exclusive(&self) -> Option<Exclusive<'_>> {
        loop {
            let word = Word(self.0.load(Relaxed));
            if !word.admits_exclusive() {
                return None;
            }
            if let Some(exclusive) = self.cas_exclusive(word) {
                return Some(exclusive);
            }
        }
    }

    /// Takes X at the version `at`: what was read since then still holds. Waits for shared holders, which do
    /// not move the version; `None` as soon as the version has moved or X is held. A thread that itself holds
    /// S waits for ever.
    #[inline]
    pub fn upgrade(&self, at: Version) -> Option<Exclusive<'_>> {
        let mut backoff = Backoff::new();
        loop {
            let word = Word(self.0.load(Relaxed));
            if !self.may_upgrade(word, at) {
                return None;
            }
            if word.shared_holders() > 0 && !mutant(Mutant::UpgradeIgnoresShared) {
                self.wait(&mut backoff, word, true);
            } else if let Some(exclusive) = self.cas_exclusive(word) {
                return Some(exclusive);
            }
        }
    }

    /// As [`Latch::upgrade`], but `None` at once if S is held.
    #[inline]
    pub fn try_upgrade(&self, at: Version) -> Option<Exclusive<'_>> {
        loop {
            let word = Word(self.0.load(Relaxed));
            if !self.may_upgrade(word, at) || word.shared_holders() > 0 {
                return None;
            }
            if let Some(exclusive) = self.cas_exclusive(word) {
                return Some(exclusive);
            }
        }
    }

    #[inline(always)]
    fn may_upgrade(&self, word: Word, at: Version) -> bool {
        if mutant(Mutant::UpgradeIgnoresVersion) { !word.is_exclusive() } else { word.is_still(at) }
    }

    /// S + 1, if the word is still `seen`.
    #[inline(always)]
    fn cas_shared(&self, seen: Word) -> Option<Shared<'_>> {
        // O1, read site.
        let next = seen.with_one_more_shared();
        self.0.compare_exchange_weak(seen.0, next.0, Acquire, Relaxed).ok()?;
        Some(Shared { latch: self })
    }

    /// X = 1, if the word is still `seen`.
    #[inline(always)]
    fn cas_exclusive(&self, seen: Word) -> Option<Exclusive<'_>> {
        // O1 and O3, read site.
        let order = if mutant(Mutant::ExclusiveRelaxed) { Relaxed } else { Acquire };
        self.0.compare_exchange_weak(seen.0, seen.with_exclusive().0, order, Relaxed).ok()?;
        if !mutant(Mutant::ExclusiveWithoutFence) {
            // O2, write site: the data stores to come stay behind X = 1.
            fence(Release);
        }
        Some(Exclusive { latch: self })
    }

    /// One round of waiting for the holders seen in `held` to go.
    fn wait(&self, backoff: &mut Backoff, held: Word, wants_exclusive: bool) {
        if !backoff.wait_on(&self.0, held.0) {
            self.park(held, wants_exclusive);
        }
    }

    #[cold]
    fn park(&self, held: Word, wants_exclusive: bool) {
        order::assert_may_park();
        primitives::park(self.address(), || {
            let parked = held.with_parked(wants_exclusive);
            if mutant(Mutant::ParkWithoutRecheck) {
                self.0.fetch_or(parked.0 ^ held.0, Relaxed);
                return true;
            }
            // O4: sleep only on a word that is still held, and leave word of it.
            self.0.compare_exchange(held.0, parked.0, Relaxed, Relaxed).is_ok()
        });
    }

    #[cold]
    fn wake(&self) {
        primitives::wake_all(self.address(), || {
            // O5.
            self.0.fetch_and(word::WOKEN, Relaxed);
        });
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Default for Latch {
    fn default() -> Latch {
        Latch::new()
    }
}

/// X of a latch. Dropping it moves the version and wakes who waits.
#[must_use = "X is released when this is dropped"]
#[derive(Debug)]
pub struct Exclusive<'a> {
    latch: &'a Latch,
}

impl<'a> Exclusive<'a> {
    /// The latch that is held.
    #[inline(always)]
    pub fn latch(&self) -> &'a Latch {
        self.latch
    }

    /// Releases X and gives the version after: a read begun at it may go on without [`Latch::begin`].
    #[inline]
    pub fn release(self) -> Version {
        let latch = self.latch;
        std::mem::forget(self);
        Exclusive::end(latch)
    }

    /// Releases X with the version kept, so that readers in flight go on undisturbed. The holder must have
    /// stored nothing under this X that a reader may see.
    #[inline]
    pub fn release_clean(self) -> Version {
        let latch = self.latch;
        std::mem::forget(self);
        if mutant(Mutant::CleanReleaseMovesVersion) {
            return Exclusive::end(latch);
        }
        // O3, write site.
        let order = if mutant(Mutant::CleanReleaseRelaxed) { Relaxed } else { Release };
        let held = Word(latch.0.fetch_sub(word::RELEASE_CLEAN, order));
        debug_assert!(held.is_exclusive(), "released a latch that was not held");
        if held.has_parked() && !mutant(Mutant::CleanReleaseForgetsWake) {
            latch.wake();
        }
        held.version()
    }

    /// X -> S without a moment between, version moved: what was written can be read on, and others may read
    /// too.
    #[inline]
    pub fn downgrade(self) -> Shared<'a> {
        let latch = self.latch;
        std::mem::forget(self);
        // O1, write site.
        let order = if mutant(Mutant::DowngradeRelaxed) { Relaxed } else { Release };
        let held = Word(latch.0.fetch_add(word::DOWNGRADE, order));
        debug_assert!(held.is_exclusive(), "downgraded a latch that was not held");
        if held.has_parked() && !mutant(Mutant::DowngradeForgetsWake) {
            latch.wake();
        }
        Shared { latch }
    }

    #[inline(always)]
    fn end(latch: &Latch) -> Version {
        // O1, write site.
        let order = if mutant(Mutant::ReleaseRelaxed) { Relaxed } else { Release };
        let held = Word(latch.0.fetch_add(word::RELEASE, order));
        debug_assert!(held.is_exclusive(), "released a latch that was not held");
        if held.has_parked() && !mutant(Mutant::ReleaseForgetsWake) {
            latch.wake();
        }
        Word(held.0.wrapping_add(word::RELEASE)).version()
    }
}

impl Drop for Exclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        Exclusive::end(self.latch);
    }
}

/// S of a latch: nobody changes what it protects. Released when dropped.
#[must_use = "S is released when this is dropped"]
#[derive(Debug)]
pub struct Shared<'a> {
    latch: &'a Latch,
}

impl<'a> Shared<'a> {
    /// The latch that is held.
    #[inline(always)]
    pub fn latch(&self) -> &'a Latch {
        self.latch
    }

    /// The version, which cannot move while S is held.
    #[inline]
    pub fn version(&self) -> Version {
        // Relaxed: the CAS that took S saw this version, and nobody has moved it since.
        Word(self.latch.0.load(Relaxed)).version()
    }
}

impl Drop for Shared<'_> {
    #[inline]
    fn drop(&mut self) {
        // O3, write site.
        let order = if mutant(Mutant::SharedReleaseRelaxed) { Relaxed } else { Release };
        let held = Word(self.latch.0.fetch_sub(word::RELEASE_SHARED, order));
        debug_assert!(held.shared_holders() > 0, "released a shared latch that was not held");
        if held.shared_release_wakes() && !mutant(Mutant::SharedReleaseForgetsWake) {
            self.latch.wake();
        }
    }
}

#[cfg(all(test, not(latchkv_loom)))]
#[path = "latch_tests.rs"]
mod tests;
