//! The experiments, one a file, and the options that several of them share.

pub(crate) mod coherence;
pub(crate) mod compare;
pub(crate) mod descent;
mod drive;
pub(crate) mod kv;
pub(crate) mod latch;
pub(crate) mod open;
pub(crate) mod page_size;
pub(crate) mod report;
pub(crate) mod rss;
pub(crate) mod seeds;
pub(crate) mod sessions;
pub(crate) mod static_paths;
pub(crate) mod sysbench;
pub(crate) mod tpcc;
pub(crate) mod updates;
pub(crate) mod ycsb;

use crate::Fail;
use crate::data::Data;
use crate::engines::api::Api;
use crate::engines::ours::Ours;
use crate::given::{MIB_MAX, RECORDS_MAX, THREADS_MAX, factor, mib, seconds, up_to};
use crate::machine::cores;
use crate::report::{Output, Report, need_room};
use crate::rounds::Timing;
use latchkv::{Durability, Options, PageHashLatches};
use serde_json::{Value, json};
use std::path::Path;

/// The data set.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DataArgs {
    /// Records, of 24-byte keys and 150-byte values
    #[arg(long, default_value_t = 5_000_000, value_parser = up_to::<u64>(RECORDS_MAX))]
    pub(crate) records: u64,
    /// A factor to the number of records, to try things out
    #[arg(long, default_value_t = 1.0, value_parser = factor)]
    pub(crate) scale: f64,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl DataArgs {
    pub(crate) fn data(&self) -> Data {
        let records = (self.records as f64 * self.scale) as u64;
        Data { seed: self.seed, records: records.clamp(1, RECORDS_MAX) }
    }
}

/// Bytes on disk for each byte of raw data: pages half full, the log, and what a checkpoint writes before it gives the old
/// pages back.
const ROOM_FACTOR: u64 = 4;

/// What every experiment has that times operations on the data set.
#[derive(clap::Args, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl Common {
    /// The data set; with `--quick` of at most 200,000 records.
    fn data(&self) -> Data {
        let data = self.data.data();
        let records = if self.output.quick { data.records.min(200_000) } else { data.records };
        Data { records, ..data }
    }

    /// How it is timed; with `--quick`, in at most 7 rounds of 20,000 operations.
    fn timing(&self) -> Timing {
        let Timing { rounds, ops, clock } = self.timing;
        if self.output.quick {
            return Timing { rounds: rounds.min(7), ops: ops.min(20_000), clock };
        }
        self.timing
    }

    /// The data set, and a report of `command` that says what of it and how it is timed, beside `more`.
    ///
    /// # Errors
    /// If `dir` has no room for so many databases.
    fn start(
        &self,
        command: &str,
        dir: &Path,
        databases: u64,
        more: Value,
    ) -> Result<(Data, Report), Fail> {
        let (data, timing) = (self.data(), self.timing());
        need_room(dir, databases * ROOM_FACTOR * data.raw_bytes(), "--records or --scale")?;
        let mut options = json!({
            "records": data.records, "raw_bytes": data.raw_bytes(), "seed": data.seed,
            "rounds": timing.rounds, "ops_a_round": timing.ops, "clock": format!("{:?}", timing.clock),
            "durability": "None",
        });
        if let (Value::Object(options), Value::Object(more)) = (&mut options, more) {
            options.extend(more);
        }
        Ok((data, Report::start(command, options, &self.output)?))
    }
}

/// When a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum DurabilityArg {
    /// When others see it
    None,
    /// When the operating system has it
    Buffered,
    /// When the medium has it
    Sync,
}

impl From<DurabilityArg> for Durability {
    fn from(durability: DurabilityArg) -> Durability {
        match durability {
            DurabilityArg::None => Durability::None,
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::Sync => Durability::Sync,
        }
    }
}

/// How a workload with transactions runs on latchkv.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct StoreArgs {
    /// Threads, one run for each number; by default one, and as many as there are cores
    #[arg(long, value_delimiter = ',', default_values_t = one_and_cores(), value_parser = up_to::<usize>(THREADS_MAX))]
    pub(crate) threads: Vec<usize>,
    /// How long each run takes
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// When a commit returns
    #[arg(long, value_enum, default_value_t = DurabilityArg::None)]
    pub(crate) durability: DurabilityArg,
    /// Through which API
    #[arg(long, value_enum, default_value_t = Api::Plain)]
    pub(crate) api: Api,
    /// Cache, in MiB
    #[arg(long, default_value_t = 2048, value_parser = up_to::<u64>(MIB_MAX))]
    pub(crate) cache_mib: u64,
    /// What the random numbers start from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl StoreArgs {
    /// With `--quick`, in runs of at most a second.
    fn shortened(&self, quick: bool) -> StoreArgs {
        let seconds = if quick { self.seconds.min(1.0) } else { self.seconds };
        StoreArgs { seconds, ..self.clone() }
    }

    /// For the head of a report.
    fn describe(&self) -> Value {
        json!({
            "threads": self.threads, "seconds_a_run": self.seconds,
            "durability": format!("{:?}", self.durability), "api": format!("{:?}", self.api),
            "cache_mib": self.cache_mib, "seed": self.seed,
        })
    }
}

fn one_and_cores() -> Vec<usize> {
    match cores() {
        1 => vec![1],
        cores => vec![1, cores],
    }
}

/// Where the latches of the page hash lie.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct HashArgs {
    /// Latches of the page hash, in an array outside of its cells; without it, each cell has its own
    #[arg(long, value_name = "N", value_parser = up_to::<usize>(MIB_MAX))]
    pub(crate) page_hash_latches: Option<usize>,
}

impl HashArgs {
    fn latches(self) -> PageHashLatches {
        match self.page_hash_latches {
            Some(count) => PageHashLatches::Outside { count },
            None => PageHashLatches::PerCell,
        }
    }
}

/// Options of a database under measurement: no page fault is timed, no checkpoint begins unasked, and no commit waits for
/// the medium unless the caller says so.
fn options(page_bytes: u32, cache_mib: u64) -> Options {
    Options::new()
        .page_bytes(page_bytes)
        .cache_bytes(mib(cache_mib))
        .checkpoint_bytes(u64::MAX)
        .durability(Durability::None)
}

/// Prints what the pool of `engine` lies in, and gives it as JSON.
fn memory(engine: &Ours) -> Value {
    let stats = engine.db.stats();
    let pool = &stats.pool;
    let used = (pool.frames - pool.frames_free) * u64::from(stats.page_bytes);
    let huge =
        pool.huge_bytes.map_or_else(|| "not told".into(), |bytes| format!("{} MiB", bytes >> 20));
    println!(
        "  {:<26}{} in use of {} MiB, huge pages {:?}, {huge} in them; backend {}",
        engine.name,
        format_args!("{} MiB", used >> 20),
        pool.total_bytes >> 20,
        pool.huge_pages,
        stats.backend.name
    );
    json!({
        "memory_of": engine.name,
        "page_bytes": stats.page_bytes,
        "used_bytes": used,
        "cache_bytes": pool.total_bytes,
        "huge_pages": format!("{:?}", pool.huge_pages),
        "huge_bytes": pool.huge_bytes,
        "backend": stats.backend.name,
        "direct": stats.backend.direct,
    })
}
