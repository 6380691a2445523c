//! Line transfers an operation from one core to as many as a model has: the one figure about scaling that a
//! machine with few cores can give honestly.
//!
//! What is replayed is the shipped code: the feature `trace` of the latch crate writes down what a thread does
//! to atomics, word by word, and [`record`] runs look-ups ([`subjects`]) under it. What they are replayed on is a
//! model ([`directory`], [`replay`]); it knows lines and who has them, and no time.
//!
//! ```text
//! draws -> record: a thread a core -> traces -> in lines of 64 or 128 bytes -> schedule -> directory -> counts
//! ```
//!
//! # Assumptions
//!
//! * A line moves whole, between private caches or from memory; a shared cache between them and memory is
//!   memory. Write-backs are not counted.
//! * The directory is exact, and its messages cost nothing: what is counted is lines that move, and copies
//!   that have to go before somebody writes.
//! * Nobody waits: latches that are fought for cost more than is counted here, optimistic reads do not.
//! * Only atomics are seen. Prefetches are not, nor are fields that never change: they add reads, which are
//!   hits or misses of capacity, and no coherence.
//! * Nothing is written but by the look-ups themselves.
//!
//! What it is not: a forecast of times. Transfers of one line go one after the other, so `busiest line` bounds
//! throughput from above; transfers of different lines overlap.
//!
//! `--validate` compares with two real threads ([`validate`]).

mod directory;
mod draws;
mod record;
mod replay;
mod subjects;
mod validate;

use crate::Fail;
use crate::data::Data;
use crate::given::{MIB_MAX, RECORDS_MAX, up_to};
use crate::progress;
use crate::report::{Cell, Output, Report, Table, need_room};
use crate::rounds::Timing;
use crate::workloads::zipf::Zipf;
use directory::{CORES_MAX, Shape};
use draws::Draws;
use replay::{Lined, Schedule, Tally, Trace};
use serde_json::json;
use std::num::NonZeroUsize;
use subjects::{Hash, Reads, Way};

/// Options of `coherence`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Numbers of cores
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=CORES_MAX as u64),
          default_values_t = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192])]
    cores: Vec<u64>,
    /// Cores of a socket
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..))]
    socket_cores: u64,
    /// Bytes of a line
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [LineBytes::B64, LineBytes::B128])]
    line: Vec<LineBytes>,
    /// Private cache of a core, in KiB; 0 for one without a limit
    #[arg(long, value_delimiter = ',', default_values_t = [512], value_parser = clap::value_parser!(u64).range(0..=1 << 40))]
    cache_kib: Vec<u64>,
    /// How operations of different cores are interleaved
    #[arg(long, value_enum, default_value_t = Schedule::Mixed)]
    schedule: Schedule,
    /// Pages in the page hash
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(1..1 << 23))]
    pages: u32,
    /// Look-ups of a core; the first half fills its cache, if that has a limit
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(2..))]
    lookups: u64,
    /// Records of the database
    #[arg(long, default_value_t = 200_000, value_parser = up_to::<u64>(RECORDS_MAX))]
    records: u64,
    /// Cache of the database, in MiB; must hold all
    #[arg(long, default_value_t = 256, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Point reads of a core; as with look-ups
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(2..))]
    reads: u64,
    /// Exponent of the Zipf distribution
    #[arg(long, default_value_t = 0.99)]
    theta: f64,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also run the look-ups on two threads, and compare the order by time with that of the model
    #[arg(long)]
    validate: bool,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: Output,
}

/// Bytes of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum LineBytes {
    #[value(name = "64")]
    B64,
    #[value(name = "128")]
    B128,
}

impl LineBytes {
    fn bytes(self) -> usize {
        match self {
            LineBytes::B64 => 64,
            LineBytes::B128 => 128,
        }
    }
}

/// What is run, after `--quick` has had its say.
#[derive(Clone, Debug)]
struct Plan {
    /// Ascending.
    cores: Vec<usize>,
    socket_cores: usize,
    line_bytes: Vec<usize>,
    cache_kib: Vec<u64>,
    schedule: Schedule,
    seed: u64,
    lookups: usize,
    reads: usize,
    data: Data,
    timing: Timing,
}

impl Plan {
    fn new(args: &Args) -> Plan {
        let quick = args.output.quick;
        let most = |count: u64, most: u64| if quick { count.min(most) } else { count };
        let mut cores: Vec<usize> = args.cores.iter().map(|&cores| cores as usize).collect();
        cores.sort_unstable();
        cores.dedup();
        if quick {
            cores.retain(|cores| [1, 2, 16, 64, 192].contains(cores) || args.cores.len() < 6);
        }
        let lines = if quick { &args.line[..1] } else { &args.line[..] };
        let Timing { rounds, ops, clock } = args.timing;
        Plan {
            cores,
            socket_cores: args.socket_cores as usize,
            line_bytes: lines.iter().map(|line| line.bytes()).collect(),
            cache_kib: args.cache_kib.clone(),
            schedule: args.schedule,
            seed: args.seed,
            lookups: most(args.lookups, 20_000) as usize,
            reads: most(args.reads, 1_000) as usize,
            data: Data { seed: args.seed, records: most(args.records, 100_000) },
            timing: Timing { rounds: most(rounds as u64, 11) as usize, ops, clock },
        }
    }

    fn cores_max(&self) -> usize {
        self.cores.last().copied().unwrap_or(1)
    }

    /// A machine with caches of `cache_kib`, 0 for no limit.
    fn shape(&self, cores: usize, line_bytes: usize, cache_kib: u64) -> Shape {
        let cache_lines = NonZeroUsize::new((cache_kib as usize) * 1024 / line_bytes);
        Shape { cores, socket_cores: self.socket_cores, cache_lines }
    }
}

/// What replays of one subject's traces gave.
struct Replayed {
    name: String,
    modifies_an_op: f64,
    /// For each size of lines and of caches, those of the numbers of cores.
    tallies: Vec<Vec<Tally>>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    record::check_built()?;
    if !(0.0..10.0).contains(&args.theta) {
        return Err("--theta: a number from 0 to less than 10".into());
    }
    let plan = Plan::new(args);
    let options = json!({
        "cores": plan.cores, "socket_cores": plan.socket_cores, "line_bytes": plan.line_bytes,
        "cache_kib": plan.cache_kib, "schedule": format!("{:?}", plan.schedule), "pages": args.pages,
        "lookups_a_core": plan.lookups, "records": plan.data.records, "reads_a_core": plan.reads,
        "theta": args.theta, "seed": plan.seed, "validate": args.validate,
    });
    let mut report = Report::start("coherence", options, &args.output)?;
    let hashes = Hash::all(args.pages)?;
    let pages = u64::from(args.pages);
    let by_popularity =
        |n| [("uniform", Draws::Uniform { n }), ("Zipf", Draws::Zipf(Zipf::new(n, args.theta)))];
    for (popularity, draws) in by_popularity(pages) {
        let lists = draws.lists(plan.cores_max(), plan.lookups, plan.seed);
        let subjects = hashes.iter().map(|hash| Ok((hash.name.clone(), hash.traces(&lists)?)));
        tables(&plan, &format!("page-hash look-up, {popularity}"), subjects, &mut report)?;
    }
    engine(args, &plan, by_popularity(plan.data.records), &mut report)?;
    if args.validate {
        validate::run(&plan, pages, &hashes, &mut report)?;
    }
    report.finish()
}

/// Point reads of a whole engine.
fn engine(
    args: &Args,
    plan: &Plan,
    by_popularity: [(&str, Draws); 2],
    report: &mut Report,
) -> Result<(), Fail> {
    let scratch = args.output.scratch()?;
    need_room(scratch.path(), plan.data.raw_bytes() * 3, "--records")?;
    let path = scratch.path().join("db");
    let options = super::options(16 << 10, args.cache_mib);
    subjects::load(&path, &options, &plan.data, report)?;
    for (popularity, draws) in by_popularity {
        let lists = draws.lists(plan.cores_max(), plan.reads, plan.seed);
        let subjects = Way::all().into_iter().map(|way| {
            let reads = Reads::open(&path, &options, &way, plan.data)?;
            Ok((way.name, reads.traces(&lists)?))
        });
        tables(plan, &format!("point read, {popularity}"), subjects, report)?;
    }
    Ok(())
}

/// Replays the subjects on all machines, one subject after the other: traces are large.
fn tables(
    plan: &Plan,
    what: &str,
    subjects: impl ExactSizeIterator<Item = Result<(String, Vec<Trace>), Fail>>,
    report: &mut Report,
) -> Result<(), Fail> {
    let replays = subjects.len() * plan.cores.len() * plan.line_bytes.len() * plan.cache_kib.len();
    let bar = progress::bar(replays as u64, what);
    let mut all = Vec::new();
    for subject in subjects {
        let (name, traces) = subject?;
        let mut tallies = Vec::new();
        for &line_bytes in &plan.line_bytes {
            let lined = Lined::new(&traces, line_bytes);
            for &cache_kib in &plan.cache_kib {
                let replay = |&cores: &usize| {
                    let shape = plan.shape(cores, line_bytes, cache_kib);
                    let tally = lined.replay(shape, plan.schedule, plan.seed);
                    bar.step();
                    tally
                };
                tallies.push(plan.cores.iter().map(replay).collect());
            }
        }
        let modifies: f64 = traces.iter().map(Trace::modifies_an_op).sum();
        all.push(Replayed { name, modifies_an_op: modifies / traces.len() as f64, tallies });
    }
    let mut which = 0;
    for &line_bytes in &plan.line_bytes {
        for &cache_kib in &plan.cache_kib {
            let cache = match cache_kib {
                0 => "caches without a limit".into(),
                kib => format!("caches of {kib} KiB"),
            };
            let title = format!("{what}, lines of {line_bytes} bytes, {cache}");
            report.table(&by_cores(plan, &title, &all, which))?;
            report.table(&parts(plan, &title, &all, which))?;
            which += 1;
        }
    }
    Ok(())
}

/// All transfers on the machines numbered `which`, for each number of cores.
fn by_cores(plan: &Plan, title: &str, all: &[Replayed], which: usize) -> Table {
    let counts: Vec<String> = plan.cores.iter().map(|cores| format!("{cores} cores")).collect();
    let mut columns = vec!["line transfers an operation"];
    columns.extend(counts.iter().map(String::as_str));
    let mut table = Table::new(title, &columns).keyed_by(1).all_told();
    for subject in all {
        let cells = subject.tallies[which].iter().map(|tally| Cell::from(tally.an_op(tally.all())));
        table.push([Cell::from(subject.name.clone())].into_iter().chain(cells));
    }
    table
}

/// What the transfers are, at the greatest number of cores.
fn parts(plan: &Plan, title: &str, all: &[Replayed], which: usize) -> Table {
    let title = format!("{title}: an operation on {} cores", plan.cores_max());
    let columns = [
        "line transfers",
        "all",
        "from memory",
        "read, same socket",
        "read, other socket",
        "taken, same socket",
        "taken, other socket",
        "RMWs",
        "taken an RMW",
        "busiest line",
    ];
    let table = Table::new(title, &columns).note(
        "taken: copies in other caches had to go; busiest line: its share, one after the other",
    );
    let mut table = table.keyed_by(1).all_told();
    for subject in all {
        let Some(tally) = subject.tallies[which].last() else { continue };
        let an_op = |count| Cell::from(tally.an_op(count));
        table.push([
            Cell::from(subject.name.clone()),
            an_op(tally.all()),
            an_op(tally.memory),
            an_op(tally.read_near),
            an_op(tally.read_far),
            an_op(tally.taken_near),
            an_op(tally.taken_far),
            subject.modifies_an_op.into(),
            // None where there is no RMW.
            (tally.an_op(tally.taken()) / subject.modifies_an_op).into(),
            an_op(tally.busiest),
        ]);
    }
    table
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    /// Transfers of look-ups without the misses of capacity, on 1, 2, 48 and 192 cores, by subject.
    fn lookups(line_bytes: usize) -> Vec<(String, Vec<Tally>)> {
        let lists = Draws::Uniform { n: 200 }.lists(192, 100, 1);
        let hashes = Hash::all(200).expect("hashes");
        let tallies = |hash: &Hash| {
            let traces = hash.traces(&lists).expect("traces");
            let lined = Lined::new(&traces, line_bytes);
            let on = |cores| {
                let shape = Shape { cores, socket_cores: 48, cache_lines: None };
                lined.replay(shape, Schedule::Mixed, 1)
            };
            (hash.name.clone(), [1, 2, 48, 192].map(on).to_vec())
        };
        hashes.iter().map(tallies).collect()
    }

    #[test]
    fn optimistic_lookups_move_no_line_however_many_cores() {
        for line_bytes in [64, 128] {
            let lookups = lookups(line_bytes);
            let (name, tallies) = lookups.last().expect("subjects");
            assert_eq!(name, "per cell, optimistic");
            assert!(tallies.iter().all(|tally| tally.all() == 0), "{tallies:?}");
        }
    }

    #[test]
    fn a_reader_count_moves_about_once_a_modification_on_many_cores() {
        let lookups = lookups(64);
        let (name, tallies) = &lookups[0];
        assert_eq!(name, "one latch, shared");
        assert_eq!(tallies[0].all(), 0, "alone it moves nothing");
        // Two modifications a look-up.
        let taken: Vec<f64> =
            tallies.iter().map(|tally| tally.an_op(tally.taken()) / 2.0).collect();
        assert!(taken[3] > 0.9 && taken[3] <= 1.0, "{taken:?}");
        assert!(taken.is_sorted(), "{taken:?}");
    }
}
