//! Which page should leave: CLOCK with probation, so that one scan cannot flush the pool.
//!
//! ```text
//! clock word   63        4    3       2      1     0
//!              [    0    ][ NEW ][ EXTRA ][ PROB ][ REF ]     INNER is bit 4
//!
//! loaded leaf  PROB          -> first re-use: REF      -> hand: 0          -> hand: victim
//!                            -> hand: victim
//! loaded inner INNER|EXTRA   -> re-use adds REF        -> hand: EXTRA      -> hand: 0 -> hand: victim
//! created      NEW|REF       -> hand asks the page for its level, then as above
//! ```
//!
//! * [C1] The hand passes every frame; after at most three passes over a frame that nobody references it says
//!   "victim". So a sweep of three rounds finds every frame that can leave.
//! * [C2] The word is written by anyone with plain Relaxed stores, so an update may be lost or meet the next
//!   page of the frame. It steers replacement only and is never believed for anything else.
//! * [C3] A reference to a page whose bit is set stores nothing.

use crate::id::FrameId;
use latchkv_latch::primitives::{AtomicU64, AtomicUsize, Ordering};

const REF: u64 = 1;
const PROB: u64 = 2;
const EXTRA: u64 = 4;
const NEW: u64 = 8;
const INNER: u64 = 16;

/// Passes after which the hand has asked every frame often enough, [C1].
pub(super) const ROUNDS_MAX: usize = 3;

/// The clock word of one frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockWord<'a>(pub(super) &'a AtomicU64);

impl ClockWord<'_> {
    /// The page was used. All accesses of this type are Relaxed by [C2].
    #[inline(always)]
    pub(super) fn reference(self) {
        let word = self.0.load(Ordering::Relaxed);
        if word & (REF | PROB) != REF {
            self.0.store(word & !PROB | REF, Ordering::Relaxed);
        }
    }

    /// Whether the page was used since the hand passed.
    pub(super) fn is_referenced(self) -> bool {
        self.0.load(Ordering::Relaxed) & REF != 0
    }

    /// A page came from disk.
    pub(super) fn loaded(self, inner: bool) {
        self.0.store(if inner { INNER | EXTRA } else { PROB }, Ordering::Relaxed);
    }

    /// A page was made; its level is not known yet.
    pub(super) fn created(self) {
        self.0.store(NEW | REF, Ordering::Relaxed);
    }

    /// The hand passes. True if the page should leave. `is_inner` is asked once in the life of a new page.
    pub(super) fn pass(self, is_inner: impl FnOnce() -> bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        if word & NEW != 0 {
            word = word & !NEW | if is_inner() { INNER } else { 0 };
        }
        let next = if word & REF != 0 {
            word & !REF | if word & INNER != 0 { EXTRA } else { 0 }
        } else if word & EXTRA != 0 {
            word & !EXTRA
        } else {
            return true;
        };
        self.0.store(next, Ordering::Relaxed);
        false
    }
}

/// The place that the hand has reached. Shared: each step belongs to one thread.
#[derive(Debug, Default)]
pub(super) struct Hand(AtomicUsize);

impl Hand {
    /// One step further.
    pub(super) fn advance(&self, frames: usize) -> FrameId {
        // Relaxed: only the count matters. Where it wraps, a few frames are passed out of turn.
        FrameId((self.0.fetch_add(1, Ordering::Relaxed) % frames) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes_until_victim(word: &AtomicU64, inner: bool) -> usize {
        (1..).find(|_| ClockWord(word).pass(|| inner)).expect("the loop ends by [C1]")
    }

    #[test]
    fn a_page_read_once_leaves_on_the_first_pass_and_a_page_used_again_on_the_second() {
        let word = AtomicU64::new(0);
        ClockWord(&word).loaded(false);
        assert_eq!(passes_until_victim(&word, false), 1);
        ClockWord(&word).loaded(false);
        ClockWord(&word).reference();
        ClockWord(&word).reference();
        assert_eq!(passes_until_victim(&word, false), 2);
    }

    #[test]
    fn an_inner_page_gets_one_extra_pass() {
        let word = AtomicU64::new(0);
        ClockWord(&word).loaded(true);
        assert_eq!(passes_until_victim(&word, true), 2);
        ClockWord(&word).reference();
        assert_eq!(passes_until_victim(&word, true), ROUNDS_MAX);
        ClockWord(&word).created();
        assert_eq!(passes_until_victim(&word, true), ROUNDS_MAX);
        ClockWord(&word).created();
        assert_eq!(passes_until_victim(&word, false), 2);
    }
}
