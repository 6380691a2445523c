//! Critical sections of a given length: arithmetic on one register, calibrated, so that a holder runs and neither
//! sleeps nor touches memory. Its length is that of a core that runs alone; on a busy machine it is longer.

use std::hint::black_box;
use std::time::Instant;

/// The work of a critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    turns: u32,
}

impl Section {
    /// No work.
    pub(super) const EMPTY: Section = Section { turns: 0 };

    /// Does it.
    #[inline(always)]
    pub(super) fn work(self) {
        let mut word = 1_u64;
        for _ in 0..self.turns {
            word = black_box(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
        }
    }
}

/// How long a turn of the work takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    turn_ns: f64,
}

impl Calibration {
    /// Times it: the best of some runs, as a run may be interrupted. Takes about a millisecond.
    pub(super) fn measure() -> Calibration {
        const TURNS: u32 = 20_000;
        let run = || {
            let start = Instant::now();
            Section { turns: TURNS }.work();
            start.elapsed().as_nanos() as f64 / f64::from(TURNS)
        };
        let best = (0..20).map(|_| run()).fold(f64::INFINITY, f64::min);
        Calibration { turn_ns: best.max(0.01) }
    }

    /// A section of about `ns`.
    pub(super) fn section(self, ns: u32) -> Section {
        Section { turns: (f64::from(ns) / self.turn_ns).round() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_section_has_more_turns_and_none_has_none() {
        let calibration = Calibration { turn_ns: 2.0 };
        assert_eq!(calibration.section(0), Section::EMPTY);
        assert_eq!(calibration.section(100), Section { turns: 50 });
        assert!(Calibration::measure().section(1000) != Section::EMPTY);
    }
}
