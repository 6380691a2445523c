//! How to wait a little: spin, then yield, then tell the caller to park.
//!
//! Holders of a latch are brief, so a waiter first spins, for about half a microsecond in three rounds of
//! doubling length; then it gives the processor away twice; then parking is cheaper.
//!
//! The length of one spin hint differs by ten times and more between processors of one architecture, so on
//! x86_64 `pause` is timed once, on first use. On aarch64 `yield` is a no-op on common cores; Rust's
//! `spin_loop` emits `isb` instead, which drains the pipeline, tens of nanoseconds everywhere we know of, so
//! a constant does.
//!
//! Other hints are measured beside these with the feature `measure`; `hint` has them.
//!
//! Under loom there is nothing to spin for: the answer is always "park", which is the path worth exploring.

use crate::primitives::AtomicU64;

/// Spinning ends here.
#[cfg(not(latchkv_loom))]
const SPIN_ROUNDS: u32 = 3;
/// Yielding ends here.
#[cfg(not(latchkv_loom))]
const ROUNDS: u32 = SPIN_ROUNDS + 2;
/// Nanoseconds that the rounds of spinning take together.
#[cfg(not(latchkv_loom))]
const SPIN_NANOS: u32 = 500;

/// The state of one wait. Start a new one for each thing waited for.
#[derive(Debug, Default)]
pub struct Backoff {
    round: u32,
}

impl Backoff {
    /// Nothing waited yet.
    pub const fn new() -> Backoff {
        Backoff { round: 0 }
    }

    /// Waits a little, more each time, and says true; or says false at once: the caller should park. After
    /// that it goes on saying false.
    #[cfg(not(latchkv_loom))]
    pub fn wait(&mut self) -> bool {
        use crate::primitives::{spin_loop, yield_now};
        if self.round >= ROUNDS {
            return false;
        }
        if self.round < SPIN_ROUNDS {
            // Rounds of one, two and four sevenths.
            for _ in 0..(spins() << self.round).div_ceil(7) {
                spin_loop();
            }
        } else {
            yield_now();
        }
        self.round += 1;
        true
    }

    /// As [`Backoff::wait`], for `word` to become another than `seen`. What ships has no use for the word.
    #[cfg(any(latchkv_loom, not(feature = "measure")))]
    #[inline(always)]
    pub(crate) fn wait_on(&mut self, _word: &AtomicU64, _seen: u64) -> bool {
        self.wait()
    }

    /// As [`Backoff::wait`], for `word` to become another than `seen`, by the hint that was chosen.
    #[cfg(all(not(latchkv_loom), feature = "measure"))]
    pub(crate) fn wait_on(&mut self, word: &AtomicU64, seen: u64) -> bool {
        match crate::hint::chosen() {
            Some((hint, spins)) if self.round < SPIN_ROUNDS => {
                for _ in 0..(spins << self.round).div_ceil(7) {
                    hint.once(word, seen);
                }
                self.round += 1;
                true
            }
            _ => self.wait(),
        }
    }

    /// Always false: park.
    #[cfg(latchkv_loom)]
    pub fn wait(&mut self) -> bool {
        self.round = self.round.saturating_add(1);
        false
    }
}

/// Spin hints that take about [`SPIN_NANOS`].
#[cfg(all(not(latchkv_loom), target_arch = "x86_64"))]
fn spins() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// 0 until measured. Relaxed: a number that stands for itself; two threads may both measure it.
    static SPINS: AtomicU32 = AtomicU32::new(0);
    match SPINS.load(Relaxed) {
        0 => {
            let spins = measure();
            SPINS.store(spins, Relaxed);
            spins
        }
        spins => spins,
    }
}

/// Spin hints that take about [`SPIN_NANOS`] where an `isb` takes some 20 ns.
#[cfg(all(not(latchkv_loom), not(target_arch = "x86_64")))]
fn spins() -> u32 {
    SPIN_NANOS / 20
}

/// Times `pause`. Takes a few microseconds.
#[cfg(all(not(latchkv_loom), target_arch = "x86_64"))]
fn measure() -> u32 {
    hints_for(crate::primitives::spin_loop).clamp(4, 500)
}

/// How many of `hint` take about [`SPIN_NANOS`], by the best of a few short runs, as a run may be interrupted.
#[cfg(all(not(latchkv_loom), any(target_arch = "x86_64", feature = "measure")))]
pub(crate) fn hints_for(hint: impl Fn()) -> u32 {
    const HINTS: u32 = 64;
    let run = || {
        let start = std::time::Instant::now();
        for _ in 0..HINTS {
            hint();
        }
        start.elapsed().as_nanos()
    };
    let best = (0..4).map(|_| run()).min().unwrap_or(0).max(1);
    let spins = u128::from(SPIN_NANOS) * u128::from(HINTS) / best;
    u32::try_from(spins).unwrap_or(u32::MAX).clamp(1, 10_000)
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;

    #[test]
    fn backoff_says_park_after_its_rounds_and_keeps_saying_so() {
        let mut backoff = Backoff::new();
        let waits = (0..100).take_while(|_| backoff.wait()).count();
        assert_eq!(waits, ROUNDS as usize);
        assert!(!backoff.wait());
    }

    #[test]
    fn spins_stay_in_bounds() {
        assert!((4..=500).contains(&spins()));
    }
}
