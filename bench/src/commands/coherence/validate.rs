//! Two real threads against the model of two cores: is the order by time that by transfers?
//!
//! Each pair of ways to look up is predicted to be alike if their transfers differ by less than a tenth of an
//! operation's, else the one with fewer to be faster. Transfers are not all that takes time (an atomic
//! that hits takes some too), so this asks for the order and for no more.
//!
//! The build that records is the one that is timed: each access asks whether it is to be recorded, which
//! costs all ways about the same.

use super::Plan;
use super::draws::Draws;
use super::replay::{Lined, Schedule};
use super::subjects::Hash;
use crate::Fail;
use crate::interval::Ratio;
use crate::report::{Cell, Report, Table};
use crate::rounds::{self, Variant};

/// Difference in transfers an operation below which two are predicted alike.
const ALIKE: f64 = 0.1;

/// Whether a prediction came true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Yes,
    No,
    /// The interval holds 1.
    Noise,
    /// There is no interval.
    TooFewRounds,
    /// Nothing was predicted.
    Alike,
}

impl Verdict {
    /// `fewer` is the difference in transfers, base less other; `time` is how many times the time of the base the
    /// other takes.
    fn of(fewer: f64, time: Ratio) -> Verdict {
        if fewer.abs() < ALIKE {
            Verdict::Alike
        } else if !time.is_sure {
            Verdict::TooFewRounds
        } else if time.low <= 1.0 && time.high >= 1.0 {
            Verdict::Noise
        } else if (time.high < 1.0) == (fewer > 0.0) {
            Verdict::Yes
        } else {
            Verdict::No
        }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::Yes => "yes",
            Verdict::No => "no",
            Verdict::Noise => "not told: within the noise",
            Verdict::TooFewRounds => "not told: too few rounds",
            Verdict::Alike => "predicted alike",
        }
    }
}

/// Processors that share the first one's core, if the system says that there are several.
fn siblings() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let list = std::fs::read_to_string(path).ok()?.trim().to_owned();
    list.contains([',', '-']).then_some(list)
}

/// Transfers an operation of each way at two cores, as the model has them.
fn predicted(plan: &Plan, pages: u64, hashes: &[Hash]) -> Result<Vec<f64>, Fail> {
    let line_bytes = plan.line_bytes.first().copied().unwrap_or(64);
    let shape = plan.shape(2, line_bytes, plan.cache_kib.first().copied().unwrap_or(0));
    let lists = Draws::Uniform { n: pages }.lists(2, plan.lookups, plan.seed);
    hashes
        .iter()
        .map(|hash| {
            let traces = hash.traces(&lists)?;
            let tally = Lined::new(&traces, line_bytes).replay(shape, Schedule::Mixed, plan.seed);
            Ok(tally.an_op(tally.all()))
        })
        .collect()
}

/// Runs the look-ups on two threads, and tells which pairs are in the order that the model predicts.
pub(super) fn run(
    plan: &Plan,
    pages: u64,
    hashes: &[Hash],
    report: &mut Report,
) -> Result<(), Fail> {
    let predicted = predicted(plan, pages, hashes)?;
    let variants: Vec<Variant<'_, u64>> = hashes
        .iter()
        .map(|hash| Variant::new(hash.name.clone(), move |numbers: &[u64]| sum(hash, numbers)))
        .collect();
    let draws = Draws::Uniform { n: pages };
    let ops = plan.timing.ops;
    let series = rounds::run(plan.timing, 2, &variants, |round| {
        draws.lists(1, ops, plan.seed ^ round << 16).swap_remove(0)
    })?;
    report.series("two threads, page-hash look-ups, uniform", &series)?;

    let mut note = String::from(
        "ratio: time of the second over that of the first, two threads, with its 95 % interval",
    );
    if let Some(list) = siblings() {
        note += &format!("; processors {list} share a core here, and between them no line moves");
    }
    let columns = [
        "first",
        "second",
        "transfers of the first",
        "of the second",
        "ratio",
        "low",
        "high",
        "as predicted",
    ];
    let mut table = Table::new("order of the model and of two threads", &columns)
        .note(note)
        .keyed_by(2)
        .told(&["transfers of the first", "of the second"]);
    for base in 0..hashes.len() {
        for other in base + 1..hashes.len() {
            let time = series.ratio(other, base);
            let verdict = Verdict::of(predicted[base] - predicted[other], time);
            table.push([
                Cell::from(hashes[base].name.clone()),
                Cell::from(hashes[other].name.clone()),
                predicted[base].into(),
                predicted[other].into(),
                time.median.into(),
                time.low.into(),
                time.high.into(),
                verdict.text().into(),
            ]);
        }
    }
    report.table(&table)
}

/// The sum of the frames.
fn sum(hash: &Hash, numbers: &[u64]) -> Result<u64, Fail> {
    numbers.iter().try_fold(0_u64, |sum, &number| Ok(sum + u64::from(hash.lookup(number)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64) -> Ratio {
        Ratio { median: (low + high) / 2.0, low, high, is_sure: true }
    }

    #[test]
    fn a_prediction_is_true_only_if_the_interval_lies_on_its_side() {
        assert_eq!(Verdict::of(1.0, ratio(0.5, 0.9)), Verdict::Yes);
        assert_eq!(Verdict::of(1.0, ratio(1.1, 1.2)), Verdict::No);
        assert_eq!(Verdict::of(-1.0, ratio(1.1, 1.2)), Verdict::Yes);
        assert_eq!(Verdict::of(-1.0, ratio(0.5, 0.9)), Verdict::No);
        assert_eq!(Verdict::of(1.0, ratio(0.9, 1.1)), Verdict::Noise);
        assert_eq!(Verdict::of(0.05, ratio(0.5, 0.6)), Verdict::Alike);
        let few = Ratio { is_sure: false, ..ratio(0.5, 0.9) };
        assert_eq!(Verdict::of(1.0, few), Verdict::TooFewRounds);
    }
}
