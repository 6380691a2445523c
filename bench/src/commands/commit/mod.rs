//! Durable commits, beside other engines: one writer, many writers, batches, large transactions, readers that
//! begin meanwhile, recovery after a kill, and the size of files under overwriting.
//!
//! Every engine is asked for the same: a commit that returns is on the medium. `durable` says how each is told.
//! What can be repeated runs by turns in rounds, as everywhere here; what takes one run says so.
//!
//! ```text
//! writes   (a), (b), (c)   one writer, many writers, batches of random inserts, into the loaded data set
//! bulk     (d), (e)        all records in one transaction into a new store, then half of them removed in one
//! readers  (f)             time to begin a reader, alone and beside a writer that commits
//! recovery (g)             time to open after SIGKILL, for three lengths of log
//! churn    (h)             every record overwritten twenty times, and what the files take
//! syncs                    system calls that sync, counted by strace
//! child                    what this program is started as, to be killed or counted
//! ```

mod bulk;
mod child;
mod churn;
mod readers;
mod recovery;
mod stalls;
mod syncs;
mod writes;

use super::DataArgs;
use crate::Fail;
use crate::data::Data;
use crate::engines::durable::{Durable, Kind, Setup};
use crate::report::{Output, Report};
use crate::rounds::{Clock, Series, Timing};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Options of `commit`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: Output,
    /// Experiments, by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Engines, by default all of this build; the others are compared with the first
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Kind>,
    /// Rounds that count, of `writes`
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Durable writes of a round; of many writers, at least 32 each
    #[arg(long, default_value_t = 1000)]
    writes: usize,
    /// Threads that write, one experiment for each number beside that of one writer
    #[arg(long, value_delimiter = ',', default_values_t = [16, 64])]
    writers: Vec<usize>,
    /// Batches of a round
    #[arg(long, default_value_t = 100)]
    batches: usize,
    /// Random inserts of a batch
    #[arg(long, default_value_t = 1000)]
    batch_records: usize,
    /// Rounds of `bulk` and of `recovery`, and of `readers` with and without a writer
    #[arg(long, default_value_t = 3)]
    long_rounds: usize,
    /// Time for which readers begin in a round, in milliseconds
    #[arg(long, default_value_t = 2000)]
    reader_ms: u64,
    /// Cache of each engine that has one, in MiB
    #[arg(long, default_value_t = 1024)]
    cache_mib: u64,
    /// Count the system calls that sync, too; needs strace
    #[arg(long)]
    strace: bool,
    #[command(flatten)]
    child: child::Args,
}

/// A part of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Experiment {
    /// Single durable writes by one writer and by many, and durable batches
    Writes,
    /// All records in one transaction, and half of them removed in one
    Bulk,
    /// Time to begin a reader
    Readers,
    /// Time to open after a kill
    Recovery,
    /// Size of the files under overwriting
    Churn,
    /// Time of a put beside checkpoints, of latchkv alone
    Stalls,
}

impl Args {
    /// With `--quick`, everything small.
    fn settled(&self) -> Args {
        let mut args = self.clone();
        if self.output.quick {
            args.data.records = 5000;
            args.data.scale = 1.0;
            (args.rounds, args.writes, args.long_rounds) = (2, 30, 1);
            (args.batches, args.batch_records) = (3, 100);
            (args.reader_ms, args.cache_mib) = (50, 64);
        }
        if args.engines.is_empty() {
            args.engines = Kind::ALL.to_vec();
        }
        args
    }

    fn runs(&self, experiment: Experiment) -> bool {
        self.only.is_empty() || self.only.contains(&experiment)
    }

    fn setup(&self) -> Setup {
        Setup { cache_bytes: self.cache_mib << 20, keep_log: false, plain_syncs: false }
    }

    /// How `rounds` of `ops` are timed: what waits for a disk is timed by the wall clock.
    fn timing(rounds: usize, ops: usize) -> Timing {
        Timing { rounds, ops, clock: Clock::Wall }
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.child.is_given() {
        return child::run(&args.child);
    }
    let args = &args.settled();
    let scratch = args.output.scratch()?;
    let data = args.data.data();
    let engines: Vec<&str> = args.engines.iter().map(|kind| kind.name()).collect();
    let mut report = Report::start(
        "commit",
        json!({
            "records": data.records, "raw_bytes": data.raw_bytes(), "seed": data.seed,
            "engines": engines, "cache_mib": args.cache_mib, "quick": args.output.quick,
            "writes_a_round": args.writes, "batches_a_round": args.batches,
            "records_a_batch": args.batch_records, "reader_ms": args.reader_ms,
        }),
        &args.output,
    )?;
    say_how(args, scratch.path(), &mut report)?;
    if args.strace {
        syncs::run(args, scratch.path(), &mut report)?;
    }
    type Run = fn(&Args, &Data, &Path, &mut Report) -> Result<(), Fail>;
    let experiments: [(Experiment, Run); 6] = [
        (Experiment::Writes, writes::run),
        (Experiment::Bulk, bulk::run),
        (Experiment::Readers, readers::run),
        (Experiment::Recovery, recovery::run),
        (Experiment::Churn, churn::run),
        (Experiment::Stalls, stalls::run),
    ];
    for (experiment, run) in experiments {
        if args.runs(experiment) {
            let dir = tempfile::tempdir_in(scratch.path())?;
            run(args, &data, dir.path(), &mut report)?;
        }
    }
    report.finish()
}

/// Says by which setting each engine syncs.
fn say_how(args: &Args, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    println!("\nhow a commit is durable");
    for &kind in &args.engines {
        let dir = tempfile::tempdir_in(dir)?;
        let store = kind.open(dir.path(), args.setup())?;
        println!("  {:<10}{}", kind.name(), store.how());
        report.facts(json!({ "engine": kind.name(), "durable_by": store.how() }))?;
        store.close()?;
    }
    Ok(())
}

/// An engine under measurement.
struct Stand {
    kind: Kind,
    path: PathBuf,
    store: Box<dyn Durable>,
}

/// Opens a new store of each engine and puts the first `records` of the data set into it.
fn loaded(args: &Args, data: &Data, records: u64, dir: &Path) -> Result<Vec<Stand>, Fail> {
    let mut stands = Vec::new();
    for &kind in &args.engines {
        let path = dir.join(kind.name());
        let store = kind.open(&path, args.setup())?;
        store.put_batches(&mut (0..records).map(|at| data.record(at, 0)), 100_000)?;
        stands.push(Stand { kind, path, store });
    }
    Ok(stands)
}

/// Checks that `store` has `version` of record `at`, or that it has none.
fn expect(
    kind: Kind,
    store: &dyn Durable,
    data: &Data,
    at: u64,
    version: Option<u64>,
) -> Result<(), Fail> {
    let expected = version.map(|version| data.value(at, version).to_vec());
    if store.get(&data.key(at))? == expected {
        return Ok(());
    }
    Err(format!("{}: record {at} is not as it was committed", kind.name()).into())
}

/// An empty series of `engines`, for rounds that are not those of [`rounds::run`](crate::rounds::run).
fn series(args: &Args) -> Series {
    let names: Vec<String> = args.engines.iter().map(|kind| kind.name().to_owned()).collect();
    let ns = vec![Vec::new(); names.len()];
    Series { names, ns }
}

/// The engines in the order in which they have their turns in `round`, each with its place in a series.
fn turns(args: &Args, round: usize) -> impl Iterator<Item = (usize, Kind)> + '_ {
    let count = args.engines.len();
    (0..count).map(move |turn| (turn + round) % count).map(|which| (which, args.engines[which]))
}
