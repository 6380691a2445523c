//! Memory of a process that reads a file many times its cache, for each backend, or that commits one large transaction.
//!
//! Each runs in a process of its own, whose peak the operating system keeps (`VmHWM`): nothing between two
//! samples is missed, and none pays for another.

use crate::Fail;
use crate::data::{Data, RECORD_BYTES};
use crate::engines::ours::{self, Access, Order, Ours};
use crate::given::{MIB_MAX, RECORDS_MAX, mib, up_to};
use crate::machine::status_bytes;
use crate::report::{Output, Report, Table, need_room};
use latchkv::{Backend, Options};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a process may need beside its cache, in bytes.
const BESIDE_BYTES_MAX: u64 = 64 << 20;

/// Options of `rss`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// Cache, in MiB
    #[arg(long, default_value_t = 64, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Size of the file, as a multiple of the cache
    #[arg(long, default_value_t = 8, value_parser = up_to::<u64>(1024))]
    times: u64,
    /// Page size, in bytes
    #[arg(long, default_value_t = 16384)]
    page_size: u32,
    /// Inserts this many records in random order in one transaction, into a tree that has records, instead of reading
    #[arg(long, value_parser = up_to::<u64>(RECORDS_MAX))]
    transaction: Option<u64>,
    /// Greatest peak of that transaction, in MiB
    #[arg(long, default_value_t = 256, value_parser = up_to::<u64>(MIB_MAX))]
    limit_mib: u64,
    /// Works on this database instead of making one, and prints its peak: what the command starts itself with
    #[arg(long, hide = true, requires = "backend")]
    child: Option<PathBuf>,
    /// The backends, by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    backend: Vec<Way>,
}

/// A backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Way {
    /// io_uring
    Uring,
    /// Read-only map
    Mmap,
    /// pread and pwrite
    Pread,
}

impl Way {
    const ALL: [Way; 3] = [Way::Uring, Way::Mmap, Way::Pread];

    fn backend(self) -> Backend {
        match self {
            Way::Uring => Backend::Uring,
            Way::Mmap => Backend::Mmap,
            Way::Pread => Backend::Pread,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Uring => "uring",
            Way::Mmap => "mmap",
            Way::Pread => "pread",
        }
    }
}

impl Args {
    /// With `--quick`, with a cache of at most 16 MiB and a transaction of at most 100,000 records.
    fn settled(&self) -> Args {
        let mut args = self.clone();
        if self.output.quick {
            args.cache_mib = args.cache_mib.min(16);
            args.transaction = args.transaction.map(|records| records.min(100_000));
        }
        args
    }

    fn options(&self) -> Options {
        Options::new().page_bytes(self.page_size).cache_bytes(mib(self.cache_mib))
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if let Some(path) = &args.child {
        let row = match args.transaction {
            Some(records) => commit(args, path, records)?,
            None => read(args, path)?,
        };
        println!("{row}");
        return Ok(());
    }
    let args = &args.settled();
    let scratch = args.output.scratch()?;
    let path = scratch.path().join("db");
    let raw_bytes = mib(args.cache_mib) * args.times;
    let data = Data { seed: 1, records: raw_bytes / RECORD_BYTES };
    let options = json!({
        "cache_mib": args.cache_mib,
        "times": args.times,
        "page_bytes": args.page_size,
        "transaction": args.transaction,
    });
    let room = args.transaction.map_or(2 * raw_bytes, |records| 4 * records * RECORD_BYTES);
    need_room(scratch.path(), room, "--cache-mib, --times or --transaction")?;
    let mut report = Report::start("rss", options, &args.output)?;
    println!();
    let limit = if args.transaction.is_some() {
        mib(args.limit_mib)
    } else {
        ours::load(&path, &args.options(), &data, Order::Sorted)?.tell(&data, &mut report)?;
        mib(args.cache_mib) + BESIDE_BYTES_MAX
    };
    let columns = ["backend", "peak [MiB]", "allowed [MiB]", "pages loaded", "evicted", "time [s]"];
    let mut table =
        Table::new("peak of resident memory", &columns).keyed_by(1).told(&columns[1..5]);
    let mut over = Vec::new();
    let ways = if args.backend.is_empty() { &Way::ALL[..] } else { &args.backend };
    for &way in ways {
        let path =
            if args.transaction.is_some() { scratch.path().join(way.name()) } else { path.clone() };
        let row = in_child(args, &path, way)?;
        let peak = row["peak_bytes"].as_u64().ok_or("the operating system tells no peak")?;
        if peak > limit {
            over.push(way.name());
        }
        table.push([
            row["backend"].as_str().into(),
            (peak >> 20).into(),
            (limit >> 20).into(),
            row["loads"].as_u64().into(),
            row["evictions"].as_u64().into(),
            row["seconds"].as_f64().into(),
        ]);
    }
    report.table(&table)?;
    report.finish()?;
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!("too much memory: {}", over.join(", ")).into())
    }
}

fn in_child(args: &Args, path: &Path, way: Way) -> Result<Value, Fail> {
    let out = std::process::Command::new(std::env::current_exe()?)
        .arg("rss")
        .arg("--child")
        .arg(path)
        .args(["--backend", way.name()])
        .args(["--cache-mib", &args.cache_mib.to_string()])
        .args(["--page-size", &args.page_size.to_string()])
        .args(
            args.transaction
                .iter()
                .flat_map(|records| ["--transaction".to_owned(), records.to_string()]),
        )
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !out.status.success() {
        return Err(format!("the work by {} failed", way.name()).into());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Inserts `records` in one transaction into a tree that has one for every hundred of them already, so that the
/// load of an empty tree is not what is measured.
fn commit(args: &Args, path: &Path, records: u64) -> Result<Value, Fail> {
    let way = *args.backend.first().ok_or("a backend is needed")?;
    let db = args.options().backend(way.backend()).open(path)?;
    let tree = db.tree("t")?;
    let data = Data { seed: 1, records };
    let mut transaction = db.begin()?;
    for at in (0..records).step_by(100) {
        transaction.put(&tree, data.key(at), [])?;
    }
    transaction.commit()?;
    let begun = Instant::now();
    let mut transaction = db.begin()?;
    for at in 0..records {
        let (key, value) = data.record(at, 0);
        transaction.put(&tree, key, value)?;
    }
    transaction.commit()?;
    let seconds = begun.elapsed().as_secs_f64();
    let stats = db.stats();
    let row = json!({
        "backend": stats.backend.name,
        "peak_bytes": status_bytes("VmHWM"),
        "loads": stats.pool.loads,
        "evictions": stats.pool.evictions,
        "seconds": seconds,
    });
    db.close()?;
    Ok(row)
}

/// Scans the whole database both ways, reads at random, updates some.
fn read(args: &Args, path: &Path) -> Result<Value, Fail> {
    let way = *args.backend.first().ok_or("a backend is needed")?;
    let begun = Instant::now();
    let options = args.options().backend(way.backend());
    let engine = Ours::open("child", path, &options, Access::Write)?;
    engine.warm()?;
    let mut keys = Vec::new();
    for (at, entry) in engine.tree.iter().rev().enumerate() {
        let entry = entry?;
        if at % 64 == 0 {
            keys.push(entry.key().to_vec());
        }
    }
    fastrand::Rng::with_seed(1).shuffle(&mut keys);
    for (at, key) in keys.iter().enumerate() {
        match at % 4 {
            0 => engine.tree.put(key, [7; 150])?,
            _ => drop(engine.tree.get(key)?),
        }
    }
    let stats = engine.db.stats();
    let name =
        format!("{}{}", stats.backend.name, if stats.backend.direct { ", direct" } else { "" });
    engine.db.checkpoint()?;
    Ok(json!({
        "backend": name,
        "peak_bytes": status_bytes("VmHWM"),
        "loads": stats.pool.loads,
        "evictions": stats.pool.evictions,
        "seconds": begun.elapsed().as_secs_f64(),
    }))
}
