//! Gains that were reported of changes to other engines, each measured here on the whole engine: the old way beside the
//! new one, with the reported figure beside ours.
//!
//! | experiment | the old way | the new way |
//! |---|---|---|
//! | `privilege` | sessions that look every right up in each call | that look at an epoch |
//! | `page-hash` | latches of the page hash in an array apart | one in each cell |
//! | `alloc` | an allocator whose promise the compiler does not know | one that it knows; an arena |
//! | `name-hash` | a name hashed byte by byte in each use | once, a word at a time |
//!
//! Times are those of paired rounds. With `--instructions` the instructions of an operation stand beside them, which
//! neither noise nor other people's work can move; see `instructions`.
//!
//! The reported figures are those of servers, which parse SQL and talk to a network around what was changed. Here nothing
//! but the engine runs, so the same change weighs more. What can be compared is the direction, and that a gain is there.
//!
//! `privilege` and `alloc` run events of sysbench's table: see `tables`; `page-hash` runs TPC-C.

mod alloc;
mod instructions;
mod look_ups;
mod name_hash;
mod page_hash;
mod privilege;
mod tables;

use super::options;
use crate::Fail;
use crate::given::{MIB_MAX, THREADS_MAX, up_to};
use crate::machine::cores;
use crate::report::{Cell, Output, Report, need_room};
use crate::rounds::{Series, Timing};
use serde_json::json;
use std::path::Path;

/// Options of `seeds`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Experiments; all, if none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Rows of the table, and records of the tree
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    records: u32,
    /// Threads of the runs with several; by default as many as there are cores
    #[arg(long, default_value_t = cores(), value_parser = up_to::<usize>(THREADS_MAX))]
    threads: usize,
    /// Count instructions too, by valgrind
    #[arg(long)]
    instructions: bool,
    /// Cache of each database, in MiB
    #[arg(long, default_value_t = 512, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: Output,
    /// Do all ways of an experiment, untimed, for callgrind
    #[arg(long, hide = true, value_name = "EXPERIMENT")]
    count: Option<Experiment>,
}

/// An experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Experiment {
    /// Rights looked up eagerly and lazily
    Privilege,
    /// Latches of the page hash apart and in each cell
    PageHash,
    /// Allocators with and without a promise, and the arena
    Alloc,
    /// Names hashed in each use and once
    NameHash,
}

/// What the experiments share.
struct Setting<'a> {
    /// Threads of the runs with several.
    threads: usize,
    cache_mib: u64,
    /// With `--quick` shorter than asked for.
    timing: Timing,
    /// Rows of the table, or records of the tree.
    rows: u32,
    /// A directory for one experiment.
    path: &'a Path,
    /// Instructions are counted.
    instructions: bool,
}

/// Bytes of a row with its index entry on disk, near enough.
const ROW_BYTES_ON_DISK: u64 = 256;
/// Databases that are there at once, at most: one for each way.
const STORES_MAX: u64 = 4;
/// Operations of a round with `--quick`, at most.
const OPS_QUICK: usize = 2_000;
/// Rounds with `--quick`, at most.
const ROUNDS_QUICK: usize = 7;
/// Rows with `--quick`, at most.
const ROWS_QUICK: u32 = 20_000;

impl Setting<'_> {
    /// Options of a database.
    fn options(&self) -> latchkv::Options {
        options(16384, self.cache_mib)
    }

    /// Instructions of each of so many calls in an experiment, if they are counted.
    fn count(&self, experiment: Experiment, calls: usize) -> Result<Option<Vec<u64>>, Fail> {
        if !self.instructions {
            return Ok(None);
        }
        instructions::of(experiment, calls, self.path).map(Some)
    }
}

/// Options of a database on which instructions are counted.
fn counted_options() -> latchkv::Options {
    options(16384, 64)
}

/// What something gains that took `old` and takes `new`, in percent of throughput.
fn gain_percent(old: f64, new: f64) -> f64 {
    (old / new - 1.0) * 100.0
}

/// Columns that [`gain`] fills.
const GAIN_COLUMNS: [&str; 3] = ["here [%]", "interval [%]", "verdict"];

/// What variant `new` gains over `old`, in percent of throughput.
fn gain(series: &Series, old: usize, new: usize) -> [Cell; 3] {
    let ratio = series.ratio(old, new);
    let (low, high) = (gain_percent(ratio.low, 1.0), gain_percent(ratio.high, 1.0));
    let median = gain_percent(ratio.median, 1.0);
    let interval = format!("{low:+.1} to {high:+.1}, {}", ratio.interval());
    [median.into(), interval.into(), ratio.verdict("gain", "loss").into()]
}

/// Operations a second of a variant.
fn rate(series: &Series, which: usize) -> Cell {
    (1e9 / series.median(which)).into()
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.output.scratch()?;
    if let Some(experiment) = args.count {
        return instructions::count(experiment, scratch.path());
    }
    let quick = args.output.quick;
    let (rows, timing) = if quick {
        let (rounds, ops) = (args.timing.rounds.min(ROUNDS_QUICK), args.timing.ops.min(OPS_QUICK));
        (args.records.min(ROWS_QUICK), Timing { rounds, ops, ..args.timing })
    } else {
        (args.records, args.timing)
    };
    need_room(
        scratch.path(),
        STORES_MAX * 3 * ROW_BYTES_ON_DISK * u64::from(rows) + (256 << 20),
        "--records",
    )?;
    let given = json!({
        "records": rows, "threads": args.threads, "cache_mib": args.cache_mib,
        "rounds": timing.rounds, "ops_a_round": timing.ops,
        "clock": format!("{:?}", timing.clock), "instructions": args.instructions, "durability": "None",
    });
    let mut report = Report::start("seeds", given, &args.output)?;
    let instructions = args.instructions && instructions::can_be_counted();
    let all = <Experiment as clap::ValueEnum>::value_variants();
    let experiments = if args.only.is_empty() { all } else { &args.only[..] };
    for experiment in experiments {
        let dir = tempfile::tempdir_in(scratch.path())?;
        let (threads, cache_mib, path) = (args.threads, args.cache_mib, dir.path());
        let setting = Setting { threads, cache_mib, timing, rows, path, instructions };
        match experiment {
            Experiment::Privilege => privilege::run(&setting, &mut report)?,
            Experiment::PageHash => page_hash::run(&setting, &mut report)?,
            Experiment::Alloc => alloc::run(&setting, &mut report)?,
            Experiment::NameHash => name_hash::run(&setting, &mut report)?,
        }
    }
    report.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_way_that_takes_half_the_time_gains_a_hundred_percent() {
        let names = vec!["new".into(), "old".into()];
        let series = Series { names, ns: vec![vec![1.0; 9], vec![2.0; 9]] };
        let [percent, interval, verdict] = gain(&series, 1, 0);
        assert_eq!(percent, Cell::Number(100.0));
        assert_eq!(interval, Cell::Text("+100.0 to +100.0, 95 %".into()));
        assert_eq!(verdict, Cell::Text("gain".into()));
        assert_eq!(gain(&series, 0, 1)[2], Cell::Text("loss".into()));
        assert_eq!(gain(&series, 0, 0)[2], Cell::Text("no winner: within the noise".into()));
    }
}
