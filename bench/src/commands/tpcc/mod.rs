//! TPC-C's transactions by their mix, on the plain API or that of sessions, from memory or not, durable or not; and
//! the same killed and recovered (`--kill`). What is done is in `workloads/tpcc`.
//!
//! ```text
//! load -> [ warm up, run, check conditions 1 to 4 ] for each number of threads
//! ```
//!
//! The rate is that of the whole run, and beside it the median over slices of half a second with its 95 % interval:
//! how steady it was. It is no tpmC: nobody audited it, and nobody keys in or thinks. All runs are on one database,
//! which grows by what the runs before it put in.

mod drive;
mod kill;
mod stage;

use super::{DurabilityArg, HashArgs, one_and_cores};
use crate::engines::api::Api;
use crate::given::{MIB_MAX, OPS_MAX, ROUNDS_MAX, THREADS_MAX, seconds, up_to};
use crate::interval::of_median;
use crate::latency::{self, cells};
use crate::report::{Output, Report, Table, need_room};
use crate::workloads::tpcc::{Checked, Kind, Scale, WAREHOUSES_MAX};
use crate::{Fail, progress};
use drive::{Bound, Measured};
use serde_json::json;
use stage::Stage;
use std::path::PathBuf;

/// Options of `tpcc`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    hash: HashArgs,
    /// Warehouses
    #[arg(long, default_value_t = 4, value_parser = up_to::<u32>(WAREHOUSES_MAX.into()))]
    warehouses: u32,
    /// A factor to the rows of items, customers and orders, to try things out
    #[arg(long, default_value_t = 1.0, value_parser = a_factor)]
    scale: f64,
    /// Threads that work, one run for each number
    #[arg(long, value_delimiter = ',', default_values_t = one_and_cores(), value_parser = up_to::<usize>(THREADS_MAX))]
    threads: Vec<usize>,
    /// How long a run takes
    #[arg(long, default_value_t = 20.0, value_parser = seconds)]
    seconds: f64,
    /// Transactions of a run, instead of a time
    #[arg(long, value_parser = up_to::<u64>(OPS_MAX), conflicts_with = "seconds")]
    transactions: Option<u64>,
    /// When a commit returns
    #[arg(long, value_enum, default_value_t = DurabilityArg::None, conflicts_with = "kill")]
    durability: DurabilityArg,
    /// Through which API
    #[arg(long, value_enum, default_value_t = Api::Plain, conflicts_with = "kill")]
    api: Api,
    /// Whose transactions a thread does
    #[arg(long, value_enum, default_value_t = Home::Own)]
    home: Home,
    /// Cache, in MiB
    #[arg(long, default_value_t = 2048, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Page size, in bytes
    #[arg(long, default_value_t = 16384)]
    page_size: u32,
    /// Whether descents use the frame hints of child slots
    #[arg(long, value_enum, default_value_t = Switch::On)]
    frame_hints: Switch,
    /// Take no checkpoint meanwhile, however long the log gets
    #[arg(long)]
    no_checkpoints: bool,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Have a process do it durably, kill it, recover and check; so many times
    #[arg(long, value_name = "TIMES", num_args = 0..=1, default_missing_value = "5", value_parser = up_to::<u32>(ROUNDS_MAX))]
    kill: Option<u32>,
    /// How long that process works at most, in milliseconds
    #[arg(long, default_value_t = 2000, value_parser = up_to::<u64>(600_000))]
    kill_ms: u64,
    /// Work on the database in this directory until killed, as a child of this program
    #[arg(long, hide = true, value_name = "DIR")]
    child: Option<PathBuf>,
}

/// Where the transactions of a thread come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Home {
    /// Warehouses that it shares with as few threads as there can be
    Own,
    /// All warehouses
    Any,
}

/// On or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

fn a_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 1.0 => Ok(factor),
        _ => Err("a number above 0, and 1 at most".into()),
    }
}

impl Args {
    /// What is run: durably, if it is to be killed; with `--quick`, everything small.
    fn settled(&self) -> Args {
        let mut args = self.clone();
        if args.kill.is_some() {
            args.durability = DurabilityArg::Sync;
        }
        if self.output.quick {
            args.warehouses = args.warehouses.min(2);
            args.scale = args.scale.min(0.1);
            args.seconds = args.seconds.min(4.0);
            args.transactions = args.transactions.map(|count| count.min(20_000));
            args.kill = args.kill.map(|times| times.min(3));
            args.kill_ms = args.kill_ms.min(1000);
        }
        args
    }

    fn rows(&self) -> Scale {
        Scale::new(self.warehouses, self.scale)
    }

    fn bound(&self) -> Bound {
        match self.transactions {
            Some(count) => Bound::Transactions(count),
            None => Bound::Seconds(self.seconds),
        }
    }

    /// About the room that the database takes until the end.
    fn bytes(&self) -> u64 {
        // Blocks that were superseded wait for a checkpoint, so loading takes twice what is loaded. A transaction
        // takes some two KiB of rows and log; a thread does some tens of thousands a second.
        let transactions = match (self.kill, self.bound()) {
            (Some(times), _) => u64::from(times) * self.kill_ms * 20,
            (None, Bound::Transactions(count)) => count * self.threads.len() as u64,
            (None, Bound::Seconds(seconds)) => {
                (seconds * 30e3) as u64 * self.threads.iter().sum::<usize>() as u64
            }
        };
        2 * self.rows().bytes() + 2048 * transactions + (64 << 20)
    }

    fn report(&self) -> Result<Report, Fail> {
        let rows = self.rows();
        let options = json!({
            "warehouses": rows.warehouses, "scale": self.scale, "items": rows.items,
            "customers_a_district": rows.customers, "threads": self.threads,
            "seconds": self.seconds, "transactions": self.transactions,
            "durability": format!("{:?}", self.durability), "api": format!("{:?}", self.api),
            "home": format!("{:?}", self.home), "cache_mib": self.cache_mib,
            "page_bytes": self.page_size, "page_hash_latches": self.hash.page_hash_latches,
            "frame_hints": format!("{:?}", self.frame_hints),
            "checkpoints": !self.no_checkpoints, "seed": self.seed, "kill": self.kill,
        });
        let report = Report::start("tpcc", options, &self.output)?;
        if !rows.is_full() {
            println!(
                "\nscaled: fewer rows than the specification has, so rates are of more cache hits"
            );
        }
        Ok(report)
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if let Some(path) = &args.child {
        return kill::child(args, path);
    }
    let args = &args.settled();
    let scratch = args.output.scratch()?;
    need_room(scratch.path(), args.bytes(), "--warehouses or --scale")?;
    let mut report = args.report()?;
    let path = scratch.path().join("db");
    if args.kill.is_some() {
        return kill::run(args, &path, report);
    }
    let stage = Stage::load(args, &path)?;
    report.table(&stage.loaded()?)?;
    for &threads in &args.threads {
        let measured = {
            let _bar = progress::bar(1, format!("running {threads} thread(s)"));
            drive::run(&stage, threads, args)?
        };
        tell(&measured, threads, &mut report)?;
        conditions(stage.check()?, &mut report)?;
    }
    stage.close()?;
    report.finish()
}

/// Prints and keeps what was measured.
fn tell(measured: &Measured, threads: usize, report: &mut Report) -> Result<(), Fail> {
    let kinds = &measured.kinds;
    let all: u64 = kinds.iter().map(|kind| kind.latency.len()).sum();
    let conflicts: u64 = kinds.iter().map(|kind| kind.conflicts).sum();
    let orders = kinds[Kind::NewOrder as usize].committed;
    let slices = of_median(&measured.slices);
    let title = format!("TPC-C, {threads} thread(s): transactions of all types");
    let mut table = Table::new(
        title,
        &[
            "transactions [1/s]",
            "half seconds, median [1/s]",
            "low [1/s]",
            "high [1/s]",
            "New-Orders [1/min]",
            "retried [%]",
            "cpu [us/transaction]",
            "log [bytes/transaction]",
            "pages loaded",
            "pages evicted",
            "checkpoints",
        ],
    )
    .told(&["log [bytes/transaction]"])
    .note(
        "unaudited, without keying and think times: not to be compared with published tpmC. Transactions that \
         are rolled back as the specification wants count among all, not among New-Orders; cpu is that of all \
         threads, those of the engine included",
    );
    let interval = Some(slices).filter(|slices| slices.is_sure);
    table.push([
        (all as f64 / measured.seconds).into(),
        interval.map(|slices| slices.median).into(),
        interval.map(|slices| slices.low).into(),
        interval.map(|slices| slices.high).into(),
        (orders as f64 * 60.0 / measured.seconds).into(),
        (conflicts as f64 * 100.0 / all as f64).into(),
        (measured.used.cpu_ns / 1e3 / all as f64).into(),
        (measured.used.log_bytes as f64 / all as f64).into(),
        measured.used.loads.into(),
        measured.used.evictions.into(),
        measured.used.checkpoints.into(),
    ]);
    report.table(&table)?;

    let columns = ["type", "share [%]", "committed", "rolled back", "conflicts retried"];
    let columns: Vec<&str> = columns.into_iter().chain(latency::COLUMNS).collect();
    let title = format!("TPC-C, {threads} thread(s): by type");
    let mut table = Table::new(title, &columns).keyed_by(1).note(
        "latencies are those of whole transactions, all tries and pauses between them included",
    );
    for ((kind, _), of) in Kind::MIX.into_iter().zip(kinds) {
        let row = [
            kind.name().into(),
            (of.latency.len() as f64 * 100.0 / all as f64).into(),
            of.committed.into(),
            (of.latency.len() - of.committed).into(),
            of.conflicts.into(),
        ];
        table.push(row.into_iter().chain(cells(&of.latency)));
    }
    report.table(&table)
}

/// Prints and keeps that the conditions hold.
fn conditions(checked: Checked, report: &mut Report) -> Result<(), Fail> {
    let Checked { orders, new_orders, order_lines } = checked;
    println!(
        "\nconsistency conditions 1 to 4 hold: {orders} orders, {new_orders} of them new, {order_lines} lines"
    );
    let facts = json!({
        "conditions_hold": true, "orders": orders, "new_orders": new_orders, "order_lines": order_lines,
    });
    report.facts(facts, json!({}))
}
