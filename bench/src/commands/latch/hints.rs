//! The hints that a waiting thread holds back by: what one costs, and what an exclusive latch does with each.
//!
//! Each spins about as long as what ships does, half a microsecond before it yields and then parks; only how it
//! looks meanwhile differs. `wfe` sleeps until the word's line is written: without that it lasts until the
//! system's timer event, up to 100 microseconds, which is what its cost alone shows.

use super::places::{Contender, Kind, Op};
use super::section::Section;
use crate::Fail;
use crate::rounds::{self, Series, Timing, Variant};
use latchkv_latch::hint::{self, Hint};
use latchkv_latch::primitives::AtomicU64;

/// The latch, always taken exclusively, with waiters held back by a hint, or as what ships.
struct Hinted {
    hint: Option<Hint>,
    places: Box<dyn Contender>,
}

/// What ships, then each hint.
pub(super) fn contenders() -> Vec<Box<dyn Contender>> {
    let hints = Hint::ALL.iter().map(|&hint| Some(hint));
    [None]
        .into_iter()
        .chain(hints)
        .map(|hint| {
            Box::new(Hinted { hint, places: Kind::Exclusive.places(1) }) as Box<dyn Contender>
        })
        .collect()
}

/// Restores what ships.
pub(super) fn restore() {
    hint::choose(None);
}

impl Contender for Hinted {
    fn name(&self) -> String {
        self.hint.map_or("as shipped", Hint::name).into()
    }

    fn prepare(&self) {
        hint::choose(self.hint);
    }

    fn batch(&self, ops: &[Op], section: Section) -> u64 {
        self.places.batch(ops, section)
    }

    fn check(&self, writes: u64) -> Result<(), Fail> {
        self.places.check(writes)
    }
}

/// Hints of a round, when one is timed alone: some last a tenth of a millisecond.
pub(super) fn ops_alone(timing: Timing) -> usize {
    (timing.ops / 100).max(10)
}

/// Nanoseconds of one hint alone.
pub(super) fn alone(timing: Timing) -> Result<Series, Fail> {
    let word = AtomicU64::new(0);
    let word = &word;
    let variants: Vec<Variant<'_, ()>> = Hint::ALL
        .iter()
        .map(|&hint| {
            Variant::new(hint.name(), move |times: &[()]| {
                times.iter().for_each(|()| hint.once(word, 0));
                Ok(times.len() as u64)
            })
        })
        .collect();
    rounds::run(timing, 1, &variants, |_| vec![(); ops_alone(timing)])
}
