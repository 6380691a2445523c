//! Ways to hold back between two looks at a word, to be measured beside the one that ships. Built only with
//! the feature `measure`.
//!
//! What ships is [`spin_loop`]: `pause` on x86_64, `isb` on aarch64. The choice here is of the whole process,
//! as a mutant of a model is, and a latch asks for it only when it waits: what does not wait is the same code
//! with and without it.
//!
//! | hint | on | what it does |
//! |---|---|---|
//! | `pause`, `isb` | x86_64, aarch64 | what `spin_loop` emits |
//! | none | everywhere | looks again at once |
//! | `yield` | aarch64 | a hint to processors that run several threads on a core, a no-op on others |
//! | `wfe` | aarch64 | sleeps until somebody writes the word's line, or the system's timer event |
//! | `sched_yield` | everywhere | asks the system to run somebody else |
//!
//! * \[H1] The instructions here touch no memory but the word that they are given, which they read.
//!
//! Tested below: every hint comes back, and a latch that waits by any of them excludes.

use crate::primitives::Ordering::Relaxed;
use crate::primitives::{AtomicU32, AtomicU64, spin_loop, yield_now};

/// A way to hold back. See the module head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// What ships.
    SpinLoop,
    /// Nothing.
    None,
    /// The instruction `yield`.
    #[cfg(target_arch = "aarch64")]
    Yield,
    /// The instruction `wfe`, with the word watched.
    #[cfg(target_arch = "aarch64")]
    Wfe,
    /// The system call `sched_yield`.
    SchedYield,
}

/// The choice: 0 for what ships with its own count of spins, or a place in [`Hint::ALL`] and one. Relaxed, as
/// [`SPINS`]: numbers that stand for themselves, and a wait that mixes an old with a new one ends all the same.
static CHOICE: AtomicU32 = AtomicU32::new(0);
/// Hints of the choice that take as long as the spinning that ships.
static SPINS: AtomicU32 = AtomicU32::new(1);

impl Hint {
    /// Those of this architecture.
    pub const ALL: &[Hint] = &[
        Hint::SpinLoop,
        Hint::None,
        #[cfg(target_arch = "aarch64")]
        Hint::Yield,
        #[cfg(target_arch = "aarch64")]
        Hint::Wfe,
        Hint::SchedYield,
    ];

    /// Its name: that of the instruction, if it is one.
    pub fn name(self) -> &'static str {
        match self {
            Hint::SpinLoop if cfg!(target_arch = "x86_64") => "pause",
            Hint::SpinLoop if cfg!(target_arch = "aarch64") => "isb",
            Hint::SpinLoop => "spin_loop",
            Hint::None => "none",
            #[cfg(target_arch = "aarch64")]
            Hint::Yield => "yield",
            #[cfg(target_arch = "aarch64")]
            Hint::Wfe => "wfe",
            Hint::SchedYield => "sched_yield",
        }
    }

    /// Holds back once, for `word` to become another than `seen`.
    #[inline(always)]
    pub fn once(self, word: &AtomicU64, seen: u64) {
        match self {
            Hint::SpinLoop => spin_loop(),
            Hint::None => {
                // A look at the word, so that a loop of these is one.
                std::hint::black_box(word.load(Relaxed) == seen);
            }
            #[cfg(target_arch = "aarch64")]
            Hint::Yield => {
                // SAFETY: [H1].
                unsafe { core::arch::asm!("yield", options(nomem, nostack, preserves_flags)) }
            }
            #[cfg(target_arch = "aarch64")]
            Hint::Wfe => wfe(word, seen),
            Hint::SchedYield => yield_now(),
        }
    }
}

/// Watches the word, and sleeps if it is still as it was: a write to it between the two wakes at once.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn wfe(word: &AtomicU64, seen: u64) {
    // SAFETY: [H1]; the word is aligned and valid, being a reference. The load is one of a lone exclusive
    // monitor, which any later one, or a switch of threads, ends.
    unsafe {
        core::arch::asm!(
            "ldxr {now}, [{word}]",
            "cmp {now}, {seen}",
            "b.ne 2f",
            "wfe",
            "2:",
            now = out(reg) _,
            word = in(reg) std::ptr::from_ref(word),
            seen = in(reg) seen,
            options(nostack, readonly),
        );
    }
}

/// Lets all latches of the process that wait hold back by `hint` from now on, about as long as what ships does;
/// `None` restores what ships. Takes some microseconds, with `wfe` some milliseconds, to time the hint.
pub fn choose(hint: Option<Hint>) {
    let place = hint.and_then(|hint| Hint::ALL.iter().position(|&other| other == hint));
    if let Some(place) = place {
        SPINS.store(crate::backoff::hints_for(|| once_unanswered(Hint::ALL[place])), Relaxed);
    }
    CHOICE.store(place.map_or(0, |place| place as u32 + 1), Relaxed);
}

/// Holds back once for a word that stays as it is.
fn once_unanswered(hint: Hint) {
    static WORD: AtomicU64 = AtomicU64::new(0);
    hint.once(&WORD, 0);
}

/// What was chosen, and how many of it the rounds of spinning take together; `None` for what ships.
pub(crate) fn chosen() -> Option<(Hint, u32)> {
    let place = (CHOICE.load(Relaxed) as usize).checked_sub(1)?;
    Some((*Hint::ALL.get(place)?, SPINS.load(Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Latch;

    #[test]
    fn a_latch_that_waits_by_any_hint_excludes() {
        let latch = Latch::new();
        let count = AtomicU64::new(0);
        for (at, hint) in Hint::ALL.iter().map(|&hint| Some(hint)).chain([None]).enumerate() {
            choose(hint);
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            let _x = latch.exclusive();
                            // A load and a store, which would lose counts if two threads were here at once.
                            count.store(count.load(Relaxed) + 1, Relaxed);
                        }
                    });
                }
            });
            assert_eq!(count.load(Relaxed), 1000 * (at as u64 + 1), "{hint:?}");
        }
        assert_eq!(chosen(), None);
    }

    #[test]
    fn names_tell_hints_apart() {
        for (at, hint) in Hint::ALL.iter().enumerate() {
            assert!(Hint::ALL[..at].iter().all(|other| other.name() != hint.name()), "{hint:?}");
        }
    }
}
