//! YCSB A to F, each alone, with latencies by operation.

use super::drive::{Stopwatch, drive};
use super::{StoreArgs, options};
use crate::Fail;
use crate::engines::api::{Access, Connection, Job, Store};
use crate::latency;
use crate::progress;
use crate::report::{Cell, Output, Report, Table, need_room};
use crate::workloads::ycsb::{Client, Connected, Numbers, Operation, Shape, TREES, Workload, load};
use serde_json::json;
use std::time::Duration;

/// Options of `ycsb`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Workloads, in this order; all, if none is named
    #[arg(value_enum)]
    workloads: Vec<Workload>,
    /// Records
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    records: u64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    output: Output,
}

/// Operations until the time is over.
struct Operations<'a, 'b> {
    client: Client<'a>,
    stopwatch: &'a mut Stopwatch<'b>,
}

impl Job for Operations<'_, '_> {
    type Output = ();

    fn run<C: Connection>(self, connection: &C) -> Result<(), Fail> {
        let Operations { mut client, stopwatch } = self;
        let store = Connected::new(connection);
        stopwatch.repeat(|| Ok(client.step(&store)? as usize))?;
        std::hint::black_box(client.sum());
        Ok(())
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let quick = args.output.quick;
    let records = if quick { args.records.min(100_000) } else { args.records };
    let store_args = args.store.shortened(quick);
    let all = <Workload as clap::ValueEnum>::value_variants();
    let workloads = if args.workloads.is_empty() { all } else { &args.workloads[..] };
    let scratch = args.output.scratch()?;
    let record_bytes = args.shape.value_bytes() as u64 + 64;
    need_room(scratch.path(), 3 * record_bytes * records + (64 << 20), "--records")?;
    let mut given = store_args.describe();
    given["records"] = json!(records);
    given["fields"] = json!(args.shape.fields);
    given["field_bytes"] = json!(args.shape.field_bytes);
    let mut report = Report::start("ycsb", given, &args.output)?;
    let most = store_args.threads.iter().copied().max().unwrap_or(1);
    let access = Access::new(store_args.api, most);
    let options = options(16384, store_args.cache_mib).durability(store_args.durability.into());
    let store = Store::create(&scratch.path().join("latchkv"), &options, access, "ycsb", &TREES)?;
    for &threads in &store_args.threads {
        let mut columns = vec!["workload", "operation", "operations/s"];
        columns.extend(latency::COLUMNS);
        let title = format!("{:?} API, {threads} thread(s)", store_args.api);
        let mut table = Table::new(title, &columns)
            .keyed_by(2)
            .note("an update is a transaction that reads a record and puts it back");
        let bar = progress::bar(workloads.len() as u64, format!("{threads} thread(s)"));
        for &workload in workloads {
            load(&store, records, args.shape, store_args.seed)?;
            let numbers = Numbers::new(records);
            let length = Duration::from_secs_f64(store_args.seconds);
            let kinds = Operation::ALL.len();
            let run = drive(threads, length, kinds, |number, stopwatch| {
                let seed = store_args.seed ^ (number as u64 + 1) << 32;
                let client = Client::new(workload, args.shape, records, &numbers, seed);
                store.run(Operations { client, stopwatch })
            })?;
            if store.trees()[0].len()? != numbers.known() {
                return Err(format!("workload {workload:?} has lost records").into());
            }
            let name = format!("{workload:?}");
            table.push(row(&name, "all", run.per_second(), None));
            for (operation, latencies) in Operation::ALL.iter().zip(&run.latencies) {
                if !latencies.is_empty() {
                    let rate = latencies.len() as f64 / run.seconds;
                    table.push(row(&name, operation.name(), rate, Some(latencies)));
                }
            }
            bar.step();
        }
        drop(bar);
        report.table(&table)?;
    }
    store.close()?;
    report.finish()
}

fn row(
    workload: &str,
    operation: &str,
    per_second: f64,
    latencies: Option<&hdrhistogram::Histogram<u64>>,
) -> Vec<Cell> {
    let mut cells = vec![workload.into(), operation.into(), per_second.into()];
    cells.extend(latencies.map_or([const { Cell::None }; 5], latency::cells));
    cells
}
