//! latchkv and its peers side by side: loads, writes, reads, what is left on disk, and what others leave out.
//!
//! Every engine is asked for the same, by the means that its documentation gives for it: `ways` says which. What can be
//! repeated runs by turns in short rounds with all stores open; what takes a store of its own runs by turns too, a few
//! times, and says how often. Each row is compared with the best of the peers, and the rows in which latchkv is behind
//! come first in the summary.
//!
//! ```text
//! ways      by which means each engine does what is asked
//! syncs     system calls that sync, a commit, counted by strace
//! bulk      all records at once: sorted, in one transaction; removed, retained, compacted; sizes
//! writes    durable writes by 1 to 64 writers, durable batches
//! lazy      writes and changes that need not be durable
//! reads     number of records, look-ups and ranges by 1 to 32 threads
//! ycsb      workloads A to F, with latencies
//! cold      data several times the cache
//! readers   time to begin a reader, alone and beside a writer that commits
//! pinned    an old reader that stays while all is overwritten
//! recovery  time to open after SIGKILL, for three lengths of log
//! churn     every record overwritten twenty times, and what the files take
//! stalls    a put beside checkpoints, of latchkv alone
//! overwrite        what pinned and churn do to their data
//! contest, chain   how rows are run, compared and summed up
//! child     what this program is started as, to be killed or counted
//! ```
//!
//! An engine that fails or panics has a message in its cell, and no further part in the experiment; the others go on,
//! and the program ends with an error. Tested here with all engines of the build, at tiny scale.

mod bulk;
mod chain;
mod child;
mod churn;
mod cold;
mod contest;
mod lazy;
mod overwrite;
mod pinned;
mod readers;
mod reads;
mod recovery;
mod stalls;
mod syncs;
mod writes;
mod ycsb;

use super::DataArgs;
use crate::Fail;
use crate::data::Data;
use crate::engines::Touch;
use crate::engines::kind::Kind;
use crate::engines::store::{Setup, Store};
use crate::given::{MIB_MAX, OPS_MAX, ROUNDS_MAX, THREADS_MAX, mib, up_to};
use crate::report::{self, Output, Report, Table};
use crate::rounds::{Clock, Timing};
use contest::Contest;
use serde_json::json;
use std::ops::Range;
use std::path::Path;

/// Bytes on disk for each byte of raw data and engine, while all stores are open: pages half full, and what was
/// superseded and not yet given back.
const ROOM_FACTOR: u64 = 4;
/// Bytes on disk of an engine whatever the data: logs that are made at their full length.
const ROOM_BASE_BYTES: u64 = 128 << 20;

/// Options of `kv`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: Output,
    /// Experiments, by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Experiment>,
    /// Engines, by default all of this build
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Kind>,
    /// Cache of each engine that has one, in MiB
    #[arg(long, default_value_t = 2048, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Threads that read, a row for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 8, 16, 32], value_parser = up_to::<usize>(THREADS_MAX))]
    threads: Vec<usize>,
    /// Records of a range read
    #[arg(long, default_value_t = 10, value_parser = up_to::<usize>(OPS_MAX))]
    take: usize,
    /// What is done with the bytes read
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Touch::Ends, Touch::All])]
    touch: Vec<Touch>,
    /// Rounds that count, of rows that wait for the disk
    #[arg(long, default_value_t = 11, value_parser = up_to::<usize>(ROUNDS_MAX))]
    durable_rounds: usize,
    /// Durable writes of a round; of many writers, at least 32 each
    #[arg(long, default_value_t = 1000, value_parser = up_to::<usize>(OPS_MAX))]
    writes: usize,
    /// Threads that write, a row for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64], value_parser = up_to::<usize>(THREADS_MAX))]
    writers: Vec<usize>,
    /// Durable batches of a round
    #[arg(long, default_value_t = 100, value_parser = up_to::<usize>(OPS_MAX))]
    batches: usize,
    /// Random inserts of a batch
    #[arg(long, default_value_t = 1000, value_parser = up_to::<usize>(OPS_MAX))]
    batch_records: usize,
    /// Rounds of what takes a store of its own: `bulk`, `readers`, `pinned`, `recovery`; from six on there is a verdict
    #[arg(long, default_value_t = 6, value_parser = up_to::<usize>(ROUNDS_MAX))]
    long_rounds: usize,
    /// Clients of `ycsb`, rows for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4], value_parser = up_to::<usize>(THREADS_MAX))]
    ycsb_threads: Vec<usize>,
    /// Has the commits of `ycsb` be durable, `--writes` operations a round
    #[arg(long)]
    ycsb_durable: bool,
    /// Raw data over the cache, of `cold`
    #[arg(long, default_value_t = 4, value_parser = up_to::<u64>(1024))]
    cold_times: u64,
    /// Time for which readers begin in a round, in milliseconds
    #[arg(long, default_value_t = 2000, value_parser = up_to::<u64>(600_000))]
    reader_ms: u64,
    #[command(flatten)]
    child: child::Args,
}

/// A part of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Experiment {
    /// System calls that sync, a commit
    Syncs,
    /// All records at once, removals, compaction, sizes
    Bulk,
    /// Durable writes by one writer and by many, and durable batches
    Writes,
    /// Writes that need not be durable
    Lazy,
    /// Number of records, look-ups and ranges
    Reads,
    /// YCSB A to F
    Ycsb,
    /// Data several times the cache
    Cold,
    /// Time to begin a reader
    Readers,
    /// An old reader that stays while all is overwritten
    Pinned,
    /// Time to open after a kill
    Recovery,
    /// Size of the files under overwriting
    Churn,
    /// Time of a put beside checkpoints, of latchkv alone
    Stalls,
}

/// Runs an experiment in an empty directory.
type Run = fn(&Args, &Data, &Path, &mut Report, &mut Contest) -> Result<(), Fail>;

/// All experiments, in the order in which they run.
const EXPERIMENTS: [(Experiment, Run); 12] = [
    (Experiment::Syncs, syncs::run),
    (Experiment::Bulk, bulk::run),
    (Experiment::Writes, writes::run),
    (Experiment::Lazy, lazy::run),
    (Experiment::Reads, reads::run),
    (Experiment::Ycsb, ycsb::run),
    (Experiment::Cold, cold::run),
    (Experiment::Readers, readers::run),
    (Experiment::Pinned, pinned::run),
    (Experiment::Recovery, recovery::run),
    (Experiment::Churn, churn::run),
    (Experiment::Stalls, stalls::run),
];

impl Args {
    /// With `--quick`, everything small: what was asked for smaller stays so.
    fn settled(&self) -> Args {
        let mut args = self.clone();
        if self.output.quick {
            let lower = |number: &mut usize, most: usize| *number = most.min(*number);
            args.data.records = args.data.data().records.min(20_000);
            args.data.scale = 1.0;
            lower(&mut args.timing.rounds, 6);
            lower(&mut args.timing.ops, 2000);
            lower(&mut args.durable_rounds, 6);
            lower(&mut args.writes, 30);
            lower(&mut args.long_rounds, 2);
            lower(&mut args.batches, 3);
            lower(&mut args.batch_records, 100);
            args.reader_ms = args.reader_ms.min(50);
            args.cache_mib = args.cache_mib.min(64);
        }
        if args.engines.is_empty() {
            args.engines = Kind::ALL.to_vec();
        }
        args
    }

    fn runs(&self, experiment: Experiment) -> bool {
        self.only.is_empty() || self.only.contains(&experiment)
    }

    /// Bytes on disk that all stores together take at most.
    fn room(&self, data: &Data) -> u64 {
        let of_one = data.raw_bytes().saturating_mul(ROOM_FACTOR).saturating_add(ROOM_BASE_BYTES);
        of_one.saturating_mul(self.engines.len() as u64)
    }

    /// How stores are opened whose commits are durable.
    fn setup(&self) -> Setup {
        Setup {
            cache_bytes: mib(self.cache_mib),
            durable: true,
            keep_log: false,
            plain_syncs: false,
        }
    }

    /// How work is timed that waits, or that is in part done by threads of the engine: by the wall clock, `ops` a round.
    fn by_the_wall(&self, ops: usize) -> Timing {
        Timing { ops: ops.max(1), clock: Clock::Wall, ..self.timing }
    }

    /// How what waits for a disk is timed: by the wall clock, `ops` a round.
    fn durable_timing(&self, ops: usize) -> Timing {
        Timing { rounds: self.durable_rounds, ops, clock: Clock::Wall }
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
    report::need_room(scratch.path(), args.room(&data), "--records or --scale")?;
    let engines: Vec<&str> = args.engines.iter().map(|kind| kind.name()).collect();
    let touch: Vec<String> = args.touch.iter().map(|touch| format!("{touch:?}")).collect();
    let options = json!({
        "records": data.records, "raw_bytes": data.raw_bytes(), "seed": data.seed,
        "engines": engines, "cache_mib": args.cache_mib,
        "rounds": args.timing.rounds, "durable_rounds": args.durable_rounds,
        "long_rounds": args.long_rounds, "ops_a_round": args.timing.ops,
        "clock_of_reads": format!("{:?}", args.timing.clock), "clock_of_all_else": "Wall",
        "threads": args.threads, "writers": args.writers, "touch": touch, "scale": args.data.scale,
        "writes_a_round": args.writes, "batches_a_round": args.batches,
        "records_a_batch": args.batch_records, "take": args.take, "reader_ms": args.reader_ms,
        "cold_times": args.cold_times,
        "ycsb_threads": args.ycsb_threads, "ycsb_durable": args.ycsb_durable,
    });
    let mut report = Report::start("kv", options, &args.output)?;
    let mut contest = Contest::default();
    ways(args, &mut report)?;
    for (experiment, run) in EXPERIMENTS {
        if args.runs(experiment) {
            let dir = tempfile::tempdir_in(scratch.path())?;
            run(args, &data, dir.path(), &mut report, &mut contest)?;
        }
    }
    contest.summary(args, &mut report)?;
    report.finish()?;
    contest.verdict()
}

/// Says by which means each engine does what is asked.
fn ways(args: &Args, report: &mut Report) -> Result<(), Fail> {
    let columns =
        ["engine", "durable by", "sorted load", "retain", "compaction", "length", "cache"];
    let title = "by which means each engine does what is asked";
    let mut table = Table::new(title, &columns).keyed_by(1).all_told();
    for kind in &args.engines {
        let ways = kind.ways();
        let compact = ways.compact.unwrap_or("none");
        table.push([
            kind.name().into(),
            ways.durable.into(),
            ways.load.into(),
            ways.retain.into(),
            compact.into(),
            ways.len.into(),
            ways.cache.into(),
        ]);
    }
    report.table(&table)
}

/// Removes a store, if it is there. What the work before came to is told first: it may have failed before there was one.
fn remove(path: &Path) -> Result<(), Fail> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Numbers of records that no store has yet, from the one held on.
struct Fresh(u64);

impl Fresh {
    /// The next `count` of them.
    fn take(&mut self, count: usize) -> Range<u64> {
        let from = self.0;
        self.0 += count as u64;
        from..self.0
    }
}

/// Bytes of the files of a store over those of its keys and values.
fn over_raw(path: &Path, data: &Data) -> Result<f64, Fail> {
    Ok(report::file_bytes(path)? as f64 / data.raw_bytes() as f64)
}

/// Checks that `store` has each of the records in the version told, or that it has none.
fn expect(
    store: &dyn Store,
    data: &Data,
    records: impl IntoIterator<Item = (u64, Option<u64>)>,
) -> Result<(), Fail> {
    let reader = store.reader()?;
    for (at, version) in records {
        let expected = version.map(|version| data.value(at, version).to_vec());
        if reader.get(&data.key(at))? != expected {
            return Err(format!("record {at} is not as it was committed").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Arguments of a run so small that each experiment takes a moment.
    fn tiny(engines: &[Kind]) -> Args {
        let line = "kv --records 400 --rounds 1 --ops 40 --durable-rounds 1 --writes 4 --writers 1,2 --batches 1 \
                    --batch-records 10 --long-rounds 1 --reader-ms 1 --cache-mib 16 --threads 1,2 --ycsb-threads 1,2";
        let mut args = Line::parse_from(line.split_whitespace()).args;
        args.engines = engines.to_vec();
        args
    }

    fn runs(args: &Args, run: Run) -> Contest {
        let dir = tempfile::tempdir().expect("a directory");
        let mut report = Report::start("kv", json!({}), &args.output).expect("a report");
        let mut contest = Contest::default();
        run(args, &args.data.data(), dir.path(), &mut report, &mut contest).expect("it runs");
        contest.summary(args, &mut report).expect("a summary");
        contest
    }

    fn all_engines_do(run: Run) {
        let contest = runs(&tiny(Kind::ALL), run);
        contest.verdict().expect("no engine fails");
        assert!(contest.rows() > 0);
    }

    #[test]
    fn quick_makes_smaller_and_never_greater() {
        let quick =
            |line: &str| Line::parse_from(format!("kv --quick {line}").split(' ')).args.settled();
        let asked = quick("--records 1000 --rounds 3 --long-rounds 1 --writes 5 --cache-mib 16");
        assert_eq!((asked.data.records, asked.timing.rounds), (1000, 3));
        assert_eq!((asked.long_rounds, asked.writes, asked.cache_mib), (1, 5, 16));
        let usual = quick("--seed 1");
        assert_eq!((usual.data.records, usual.timing.ops, usual.cache_mib), (20_000, 2000, 64));
    }

    #[test]
    fn numbers_that_make_no_experiment_are_refused() {
        for line in [
            "--ops 0",
            "--rounds 0",
            "--rounds 18446744073709551615",
            "--ops 18446744073709551615",
            "--writes 0",
            "--batches 0",
            "--long-rounds 0",
            "--durable-rounds 0",
            "--reader-ms 0",
            "--scale 0",
            "--scale -1",
            "--scale nan",
            "--records 0",
            "--records 1152921504606846976",
            "--cache-mib 0",
            "--cache-mib 17592186044416",
            "--threads 0",
            "--threads 5000",
            "--take 0",
        ] {
            let (name, value) = line.split_once(' ').expect("an option and a number");
            let given = ["kv".to_owned(), format!("{name}={value}")];
            assert!(Line::try_parse_from(given).is_err(), "{line}");
        }
    }

    #[test]
    fn all_engines_load_remove_retain_and_compact() {
        all_engines_do(bulk::run);
    }

    #[test]
    fn all_engines_write_durably() {
        all_engines_do(writes::run);
    }

    #[test]
    fn all_engines_write_lazily() {
        all_engines_do(lazy::run);
    }

    #[test]
    fn all_engines_read_the_same() {
        all_engines_do(reads::run);
    }

    #[test]
    fn all_engines_do_ycsb_and_lose_no_record() {
        all_engines_do(ycsb::run);
    }

    #[test]
    fn durable_ycsb_has_rows_of_its_own() {
        let contest = runs(&Args { ycsb_durable: true, ..tiny(Kind::ALL) }, ycsb::run);
        contest.verdict().expect("no engine fails");
        assert_eq!(contest.rows(), 6 * 2 * 2);
    }

    #[test]
    fn all_engines_read_and_update_beyond_their_caches() {
        all_engines_do(cold::run);
    }

    #[test]
    fn all_engines_with_snapshots_begin_readers() {
        all_engines_do(readers::run);
    }

    #[test]
    fn all_engines_with_snapshots_keep_what_a_pinned_reader_sees() {
        all_engines_do(pinned::run);
    }

    #[test]
    fn all_engines_have_the_last_version_after_churn() {
        all_engines_do(churn::run);
    }

    #[test]
    fn a_store_that_does_not_open_fails_and_the_experiment_goes_on() {
        let args = tiny(&[Kind::Latchkv]);
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("latchkv"), "no directory").expect("a file");
        let mut report = Report::start("kv", json!({}), &args.output).expect("a report");
        let mut contest = Contest::default();
        writes::run(&args, &args.data.data(), dir.path(), &mut report, &mut contest)
            .expect("it goes on");
        let error = contest.verdict().expect_err("the engine failed");
        assert!(error.to_string().contains("latchkv, opening and loading"), "{error}");
    }

    #[test]
    fn an_engine_that_panics_has_failed_and_later_rows_go_on_without_it() {
        let args = tiny(Kind::ALL);
        let dir = tempfile::tempdir().expect("a directory");
        let mut report = Report::start("kv", json!({}), &args.output).expect("a report");
        let mut contest = Contest::default();
        let data = args.data.data();
        let mut stands = contest.loaded(&args, args.setup(), &data, data.records, dir.path());
        for (title, threads) in [("one", 1), ("two", 2)] {
            contest
                .row(
                    &mut report,
                    &mut stands,
                    title,
                    contest::Unit::Ns,
                    (args.timing, threads),
                    |_| vec![(); 4],
                    |stand, _: &[()]| {
                        assert!(stand.kind != Kind::Latchkv, "out of order");
                        Ok(0)
                    },
                )
                .expect("it goes on");
        }
        assert_eq!(stands.len(), Kind::ALL.len() - 1);
        contest.close(stands);
        assert_eq!(contest.rows(), 2);
        let error = contest.verdict().expect_err("an engine failed").to_string();
        assert!(
            error.starts_with("1 rows failed: latchkv, one: panicked: out of order"),
            "{error}"
        );
    }
}
