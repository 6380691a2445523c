//! The microbenchmarks of sysbench, each alone, with latencies.

use super::drive::{Stopwatch, drive};
use super::{StoreArgs, options};
use crate::Fail;
use crate::engines::api::{Access, Connection, Job, Store};
use crate::latency;
use crate::progress;
use crate::report::{Output, Report, Table as Rows, need_room};
use crate::workloads::sysbench::{Arena, Micro, TREES, Table, Worker};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Options of `sysbench`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Microbenchmarks, in this order; all, if none is named
    #[arg(value_enum)]
    benchmarks: Vec<Micro>,
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    records: u32,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    output: Output,
}

/// Bytes of a row and its index entry on disk, near enough.
const ROW_BYTES_ON_DISK: u64 = 256;

/// Events until the time is over.
struct Events<'a, 'b> {
    table: &'a Table,
    micro: Micro,
    seed: u64,
    stopwatch: &'a mut Stopwatch<'b>,
}

impl Job for Events<'_, '_> {
    /// Transactions begun, and those begun again, with those before the time counts.
    type Output = [u64; 2];

    fn run<C: Connection>(self, connection: &C) -> Result<[u64; 2], Fail> {
        let Events { table, micro, seed, stopwatch } = self;
        let mut worker = Worker::<C, Arena>::new(table, connection);
        let mut random = fastrand::Rng::with_seed(seed);
        stopwatch.repeat(|| {
            worker.event(micro, random.u64(..))?;
            Ok(0)
        })?;
        let tries = worker.tries();
        Ok([tries, tries.saturating_sub(stopwatch.operations())])
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let quick = args.output.quick;
    let rows = if quick { args.records.min(100_000) } else { args.records };
    let store_args = args.store.shortened(quick);
    let all = <Micro as clap::ValueEnum>::value_variants();
    let micros = if args.benchmarks.is_empty() { all } else { &args.benchmarks[..] };
    let scratch = args.output.scratch()?;
    need_room(scratch.path(), 3 * ROW_BYTES_ON_DISK * u64::from(rows) + (64 << 20), "--records")?;
    let names: Vec<String> = micros.iter().map(|micro| micro.name()).collect();
    let mut given = store_args.describe();
    given["records"] = json!(rows);
    given["benchmarks"] = json!(names);
    let mut report = Report::start("sysbench", given, &args.output)?;
    let most = store_args.threads.iter().copied().max().unwrap_or(1);
    let access = Access::new(store_args.api, most);
    let options = options(16384, store_args.cache_mib).durability(store_args.durability.into());
    let store = Store::create(&scratch.path().join("latchkv"), &options, access, "sbtest", &TREES)?;
    for &threads in &store_args.threads {
        let title = format!("{:?} API, {threads} thread(s)", store_args.api);
        let mut columns = vec!["benchmark", "events/s", "begun again [%]"];
        columns.extend(latency::COLUMNS);
        let mut table = Rows::new(title, &columns).keyed_by(1).note(
            "an event is a transaction; begun again: transactions that conflicted, of all that were begun",
        );
        let bar = progress::bar(micros.len() as u64, format!("{threads} thread(s)"));
        for &micro in micros {
            let loaded = Table::load(&store, micro, rows, store_args.seed)?;
            let (tries, again) = (AtomicU64::new(0), AtomicU64::new(0));
            let length = Duration::from_secs_f64(store_args.seconds);
            let run = drive(threads, length, 1, |number, stopwatch| {
                let seed = store_args.seed ^ (number as u64 + 1) << 32;
                let [begun, twice] =
                    store.run(Events { table: &loaded, micro, seed, stopwatch })?;
                // Relaxed: read when all threads have ended.
                tries.fetch_add(begun, Relaxed);
                again.fetch_add(twice, Relaxed);
                Ok(())
            })?;
            loaded.check(&store)?;
            let again = again.into_inner() as f64 * 100.0 / tries.into_inner() as f64;
            let mut cells = vec![micro.name().into(), run.per_second().into(), again.into()];
            cells.extend(latency::cells(&run.latencies[0]));
            table.push(cells);
            bar.step();
        }
        drop(bar);
        report.table(&table)?;
    }
    store.close()?;
    report.finish()
}
