//! The bits of a latch word, and the only file that knows them.
//!
//! ```text
//! 63                 16 15        4  3   2   1   0
//! [   version : 48     ][ S : 12  ][ - ][PW][PK][X]
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | X | held exclusively |
//! | PK | threads are parked on this word, or were a moment ago |
//! | PW | one of them wants X: newcomers to S wait behind it while S is held |
//! | - | spare, always 0 |
//! | S | number of shared holders |
//! | version | moves when X is released after a change, and only then; wraps |
//!
//! # Invariants
//!
//! * \[W1] X = 1 implies S = 0.
//! * \[W2] The version changes only in the step that takes X from 1 to 0.
//! * \[W3] PW = 1 implies PK = 1.
//! * \[W4] A thread is queued on the word only while PK = 1; PK and PW are set and cleared under the bucket's
//!   lock.
//!
//! # Reachable states
//!
//! | X | S | PW | PK | state | who leaves it, and how |
//! |---|---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | free | anyone: S + 1, or X = 1 |
//! | 0 | n | 0 | 0 | shared | holder: S - 1; newcomer: S + 1; blocked: sets PK, or PK and PW |
//! | 0 | n | 0 | 1 | shared and full, threads wait for room | the holder that makes room, or the last: S - 1, then wake |
//! | 0 | n | 1 | 1 | shared, a writer waits | holder: S - 1, the last one then wakes; newcomers to S park |
//! | 1 | 0 | 0 | 0 | exclusive | holder: release, clean release, downgrade; blocked: sets PK (and PW) |
//! | 1 | 0 | - | 1 | exclusive, threads wait | holder, as above, then wake |
//! | 0 | 0 | - | 1 | released, the wake is on its way | the waker clears PK and PW; anyone may take the word meanwhile |
//!
//! # Tests
//!
//! Unit tests below check the arithmetic; the transitions are exercised in `latch` and in the loom models.

/// Held exclusively.
const X: u64 = 1;
/// Threads are parked.
const PK: u64 = 1 << 1;
/// A thread that wants X is parked.
const PW: u64 = 1 << 2;
/// One shared holder.
const S1: u64 = 1 << 4;
/// All of the shared count.
const S_MASK: u64 = 0xFFF << 4;
/// Most shared holders at once. Small under loom, so that a model can fill it.
const S_MAX: u64 = if cfg!(latchkv_loom) { 2 } else { 0xFFF };
/// One step of the version.
const VER1: u64 = 1 << 16;
/// All of the version.
const VER_MASK: u64 = !0 << 16;

/// Added to the word by a release of X that moves the version.
pub(crate) const RELEASE: u64 = VER1 - X;
/// Subtracted by a release of X that keeps it.
pub(crate) const RELEASE_CLEAN: u64 = X;
/// Added by X -> S.
pub(crate) const DOWNGRADE: u64 = VER1 - X + S1;
/// Subtracted by a release of S.
pub(crate) const RELEASE_SHARED: u64 = S1;
/// Kept by a wake.
pub(crate) const WOKEN: u64 = !(PK | PW);

const _: () = assert!(S_MAX * S1 <= S_MASK, "the count must not carry into the version");
const _: () = assert!(X | PK | PW | 1 << 3 | S_MASK | VER_MASK == u64::MAX);

/// What a latch word's version was at some moment when X was not held. Comparable within one latch only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

/// A latch word, as loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) fn is_exclusive(self) -> bool {
        self.0 & X != 0
    }

    pub(crate) fn shared_holders(self) -> u64 {
        (self.0 & S_MASK) / S1
    }

    pub(crate) fn has_parked(self) -> bool {
        self.0 & PK != 0
    }

    pub(crate) fn version(self) -> Version {
        Version(self.0 & VER_MASK)
    }

    /// Whether a reader that began at `at` may believe what it read until this word was loaded.
    pub(crate) fn is_still(self, at: Version) -> bool {
        (self.0 ^ at.0) & (VER_MASK | X) == 0
    }

    /// Whether a newcomer may take S: room, no X, and no writer waiting behind other holders. A PW that has
    /// outlived its holders (the wake is on its way) does not count: nobody would wake a thread that parked
    /// on it.
    pub(crate) fn admits_shared(self) -> bool {
        let holders = self.shared_holders();
        !self.is_exclusive() && holders < S_MAX && (self.0 & PW == 0 || holders == 0)
    }

    pub(crate) fn admits_exclusive(self) -> bool {
        self.0 & (X | S_MASK) == 0
    }

    pub(crate) fn with_one_more_shared(self) -> Word {
        Word(self.0 + S1)
    }

    pub(crate) fn with_exclusive(self) -> Word {
        Word(self.0 | X)
    }

    /// PK set, and PW too for a thread that wants X.
    pub(crate) fn with_parked(self, wants_exclusive: bool) -> Word {
        Word(self.0 | PK | if wants_exclusive { PW } else { 0 })
    }

    /// Whether the release of S that found this word must wake: the last holder went, or a full word got
    /// room.
    pub(crate) fn shared_release_wakes(self) -> bool {
        let holders = self.shared_holders();
        self.has_parked() && (holders == 1 || holders == S_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_moves_the_version_by_one_and_keeps_the_parked_bits() {
        let held = Word(41 * VER1).with_exclusive().with_parked(true);
        let free = Word(held.0.wrapping_add(RELEASE));
        assert_eq!(free.version(), Version(42 * VER1));
        assert!(!free.is_exclusive() && free.has_parked());
        assert_eq!(free.0 & WOKEN, 42 * VER1);
    }

    #[test]
    fn version_wraps_without_touching_the_other_bits() {
        let held = Word(VER_MASK).with_exclusive();
        assert_eq!(held.0.wrapping_add(RELEASE), 0);
        assert_eq!(held.0.wrapping_add(DOWNGRADE), S1);
    }

    #[test]
    fn a_waiting_writer_bars_newcomers_only_while_others_hold_shared() {
        let shared = Word(0).with_one_more_shared();
        assert!(shared.admits_shared());
        assert!(!shared.with_parked(true).admits_shared());
        assert!(shared.with_parked(false).admits_shared());
        assert!(Word(0).with_parked(true).admits_shared());
    }

    #[test]
    fn a_full_word_admits_nobody() {
        let full = Word(S_MAX * S1);
        assert!(!full.admits_shared() && !full.admits_exclusive());
        assert!(full.with_parked(false).shared_release_wakes());
    }

    #[test]
    fn shared_holders_do_not_disturb_a_reader() {
        let at = Word(7 * VER1).version();
        assert!(Word(7 * VER1).with_one_more_shared().with_parked(true).is_still(at));
        assert!(!Word(7 * VER1).with_exclusive().is_still(at));
        assert!(!Word(8 * VER1).is_still(at));
    }
}
