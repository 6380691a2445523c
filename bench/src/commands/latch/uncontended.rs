//! What one thread pays for a lock that nobody else wants, in cache.
//!
//! Times are those of a loop around the operation on one place; the loop without a lock runs beside it, so that
//! the difference can be told. Cycles are estimated in the same rounds: a chain of additions, each of which needs
//! the one before, takes one cycle an addition on every processor that we know of, at whatever frequency it runs
//! at that moment. No counter is asked, since virtual machines mostly have none and the time-stamp counter of
//! x86_64 and the generic timer of aarch64 do not count the core's cycles.
//!
//! Instructions are counted by callgrind: `--count` does one operation many times, untimed, and the difference of
//! two numbers of operations leaves everything else out.

use super::cells;
use super::places::{self, Contender, Kind, Op, Spread};
use super::section::Section;
use crate::Fail;
use crate::interval;
use crate::report::{Cell, Table};
use crate::rounds::{self, Series, Timing, Variant};

/// Additions in the chain.
const CHAIN: u32 = 100;

/// An operation: what of, whether it writes, and its name.
pub(super) struct Operation {
    contender: Box<dyn Contender>,
    write: bool,
    name: String,
}

/// Operations that are compared with the first of them.
pub(super) struct Set {
    pub(super) title: &'static str,
    pub(super) operations: Vec<Operation>,
}

impl Operation {
    fn new(contender: Box<dyn Contender>, write: bool) -> Operation {
        let name = format!("{}, {}", contender.name(), if write { "write" } else { "read" });
        Operation { contender, write, name }
    }

    fn ops(&self, count: usize) -> Vec<Op> {
        vec![Op { place: 0, write: self.write }; count]
    }

    /// What `--count` calls it.
    fn short_name(&self) -> String {
        let words = self.name.split(|letter: char| !letter.is_alphanumeric());
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-").to_lowercase()
    }
}

/// All that are measured.
pub(super) fn sets() -> [Set; 3] {
    let reads = Kind::ALL.iter().filter(|&&kind| kind != Kind::Upgrade);
    let reads = reads.map(|kind| Operation::new(kind.places(1), false));
    // The others of our latch write as `exclusive` does.
    let writes = [Kind::Exclusive, Kind::Upgrade, Kind::ParkingLot, Kind::Std, Kind::Sharded];
    let writes =
        writes.iter().chain([&Kind::Spin]).map(|kind| Operation::new(kind.places(1), true));
    let look_ups = cells::contenders(Spread::Hot).into_iter();
    let with_none = |write| [Operation::new(places::unlocked(1), write)];
    [
        Set {
            title: "reads that nobody disturbs",
            operations: reads.chain(with_none(false)).collect(),
        },
        Set {
            title: "writes that nobody disturbs",
            operations: writes.chain(with_none(true)).collect(),
        },
        Set {
            title: "look-ups in the page hash that nobody disturbs",
            operations: look_ups.map(|contender| Operation::new(contender, false)).collect(),
        },
    ]
}

/// Does `count` operations of that short name, untimed.
pub(super) fn count(what: &str, count: usize) -> Result<(), Fail> {
    let sets = sets();
    let operations = || sets.iter().flat_map(|set| &set.operations);
    let Some(operation) = operations().find(|operation| operation.short_name() == what) else {
        let names: Vec<String> = operations().map(Operation::short_name).collect();
        return Err(format!("--count knows no {what}, but {}", names.join(", ")).into());
    };
    let done = operation.contender.batch(&operation.ops(count), Section::EMPTY);
    println!("{what}, {done} operations");
    Ok(())
}

/// A set, timed.
pub(super) struct Timed {
    pub(super) series: Series,
    /// Nanoseconds of the chain of additions in the same rounds; `None` if there is none.
    chain: Option<Vec<f64>>,
}

/// Times a set, and the chain of additions beside it.
pub(super) fn run(set: &Set, timing: Timing) -> Result<Timed, Fail> {
    let mut variants: Vec<Variant<'_, Op>> = set
        .operations
        .iter()
        .map(|operation| {
            let contender = &*operation.contender;
            Variant::new(operation.name.clone(), move |ops: &[Op]| {
                Ok(contender.batch(ops, Section::EMPTY))
            })
        })
        .collect();
    if chain(0, 1).is_some() {
        variants.push(Variant::new("additions", |ops: &[Op]| {
            let mut word = 0;
            ops.iter().for_each(|_| word = chain(word, 1).unwrap_or(word));
            std::hint::black_box(word);
            Ok(ops.len() as u64)
        }));
    }
    let write = set.operations.first().is_some_and(|operation| operation.write);
    let mut series =
        rounds::run(timing, 1, &variants, |_| vec![Op { place: 0, write }; timing.ops])?;
    let has_chain = series.names.len() > set.operations.len();
    series.names.truncate(set.operations.len());
    let chain = if has_chain { series.ns.pop() } else { None };
    Ok(Timed { series, chain })
}

/// A set in cycles: whole, and less the loop without a lock if that is part of it. `None` if there is no chain.
pub(super) fn cycles(title: &str, Timed { series, chain }: &Timed) -> Option<Table> {
    let chain = chain.as_ref()?;
    let bare = series.names.iter().position(|name| name.starts_with("no lock"));
    let columns =
        ["operation", "median [cycles]", "low [cycles]", "high [cycles]", "over no lock [cycles]"];
    let mut table = Table::new(format!("{title}, in cycles"), &columns).note(
        "estimated: a chain of dependent additions takes a cycle each; low and high are the interval of the median",
    )
    .keyed_by(1);
    for which in 0..series.names.len() {
        let cycles = |ns: &dyn Fn(usize) -> f64| {
            let rounds = chain.iter().enumerate();
            let cycles: Vec<f64> =
                rounds.map(|(round, chain)| ns(round) / (chain / f64::from(CHAIN))).collect();
            interval::of_median(&cycles)
        };
        let whole = cycles(&|round| series.ns[which][round]);
        let over = bare
            .filter(|&bare| bare != which)
            .map(|bare| cycles(&|round| series.ns[which][round] - series.ns[bare][round]).median);
        table.push([
            Cell::from(series.names[which].as_str()),
            whole.median.into(),
            whole.low.into(),
            whole.high.into(),
            over.into(),
        ]);
    }
    Some(table)
}

/// A chain of [`CHAIN`] additions to `word`; `None` where it is not written.
///
/// * \[A1] The instruction adds one register to another, and touches nothing else but the flags.
#[inline(always)]
fn chain(word: u64, step: u64) -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = word;
        // SAFETY: [A1].
        unsafe {
            std::arch::asm!(
                ".rept 100", "add {word}, {step}", ".endr",
                word = inout(reg) word, step = in(reg) step, options(pure, nomem, nostack),
            );
        }
        Some(word)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let mut word = word;
        // SAFETY: [A1].
        unsafe {
            std::arch::asm!(
                ".rept 100", "add {word}, {word}, {step}", ".endr",
                word = inout(reg) word, step = in(reg) step, options(pure, nomem, nostack),
            );
        }
        Some(word)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (word, step);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Clock;

    #[test]
    fn the_chain_adds_as_often_as_it_says() {
        assert!(chain(5, 3).is_none_or(|sum| sum == 5 + 3 * u64::from(CHAIN)));
    }

    #[test]
    fn every_operation_can_be_counted_by_a_name_of_its_own() {
        let sets = sets();
        let mut names: Vec<String> =
            sets.iter().flat_map(|set| &set.operations).map(Operation::short_name).collect();
        for name in &names {
            count(name, 3).expect("done");
        }
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let error = count("nonsense", 3).expect_err("there is none");
        assert!(error.to_string().contains("latch-optimistic-read"), "{error}");
    }

    #[test]
    fn cycles_are_paired_by_round_and_leave_the_loop_out() {
        let names = ["a", "no lock, read"].map(str::to_owned).to_vec();
        let series = Series { names, ns: vec![vec![6.0, 12.0], vec![1.0, 2.0]] };
        // The second round runs at half the frequency.
        let chain = Some(vec![50.0, 100.0]);
        let table = cycles("t", &Timed { series, chain }).expect("a table");
        let rows = serde_json::to_value(table).expect("JSON")["rows"].clone();
        assert_eq!(rows[0], serde_json::json!(["a", 12.0, 12.0, 12.0, 10.0]));
        assert_eq!(rows[1][4], serde_json::Value::Null);
    }

    #[test]
    fn sets_run_and_all_operations_are_done() {
        let timing = Timing { rounds: 1, ops: 50, clock: Clock::Cpu };
        for set in sets() {
            let timed = run(&set, timing).expect("measured");
            assert_eq!(timed.series.names.len(), set.operations.len());
            assert_eq!(timed.series.ns.len(), set.operations.len());
            assert_eq!(cycles("t", &timed).is_some(), chain(0, 1).is_some());
        }
    }
}
