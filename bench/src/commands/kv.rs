//! Load, point reads and range reads, beside LMDB.
//!
//! LMDB is loaded twice, at random and by appending sorted records, and read in both forms: packed pages make
//! a smaller tree. So is latchkv.

use super::{Common, HashArgs, memory, options};
use crate::Fail;
use crate::data::Data;
#[cfg(feature = "peers")]
use crate::engines::lmdb::{self, Lmdb};
use crate::engines::ours::{self, Access, Order, Ours};
use crate::engines::{Engine, Touch};
use crate::report::Report;
use crate::rounds::{self, Variant};
use serde_json::json;
use std::path::Path;

/// Options of `kv`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    hash: HashArgs,
    /// Cache of latchkv, in MiB
    #[arg(long, default_value_t = 4096)]
    cache_mib: u64,
    /// Page size of latchkv, in bytes
    #[arg(long, default_value_t = 16384)]
    page_size: u32,
    /// Threads that read, one experiment for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Records of a range read
    #[arg(long, default_value_t = 10)]
    take: usize,
    /// What is done with the bytes read
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Touch::Ends, Touch::All])]
    touch: Vec<Touch>,
    /// Leave out the loads in random order, and reads of what they made
    #[arg(long)]
    sorted_only: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.common.output.scratch()?;
    let more = json!({
        "page_bytes": args.page_size, "cache_mib": args.cache_mib, "take": args.take,
        "page_hash_latches": args.hash.page_hash_latches,
    });
    let (data, mut report) = args.common.start("kv", more)?;
    println!("\nload, one run each");
    let engines = load(args, &data, scratch.path(), &mut report)?;
    for &touch in &args.touch {
        for &threads in &args.threads {
            read(args, &data, &engines, touch, threads, &mut report)?;
        }
    }
    drop(engines);
    report.finish()
}

/// Fills and opens all engines, the one to compare with first.
fn load(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
) -> Result<Vec<Box<dyn Engine>>, Fail> {
    let options = options(args.page_size, args.cache_mib).page_hash_latches(args.hash.latches());
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    let orders = [(Order::Sorted, "packed"), (Order::Random, "random")];
    let orders = &orders[..if args.sorted_only { 1 } else { 2 }];
    let mut memories = Vec::new();
    for &(order, suffix) in orders {
        let name = format!("latchkv {suffix}");
        let path = dir.join(&name);
        report.facts(ours::load(&path, &options, data, order)?.report(data))?;
        let engine = Ours::open(name, &path, &options, Access::Write)?;
        expect_records(engine.warm()?, data)?;
        memories.push(engine);
    }
    #[cfg(feature = "peers")]
    let mut peers: Vec<Box<dyn Engine>> = Vec::new();
    #[cfg(feature = "peers")]
    for &(order, suffix) in orders {
        let name = format!("lmdb {suffix}");
        let path = dir.join(&name);
        report.facts(lmdb::load(&path, data, order)?.report(data))?;
        let engine = Lmdb::open(&name, &path, data)?;
        expect_records(engine.warm()?, data)?;
        peers.push(Box::new(engine));
    }
    println!("\nmemory");
    for engine in memories {
        report.facts(memory(&engine))?;
        engines.push(Box::new(engine));
    }
    #[cfg(feature = "peers")]
    engines.append(&mut peers);
    Ok(engines)
}

fn expect_records(found: u64, data: &Data) -> Result<(), Fail> {
    if found == data.records {
        return Ok(());
    }
    Err(format!("{found} records of {} came back", data.records).into())
}

fn read(
    args: &Args,
    data: &Data,
    engines: &[Box<dyn Engine>],
    touch: Touch,
    threads: usize,
    report: &mut Report,
) -> Result<(), Fail> {
    let ops = args.common.timing().ops;
    let points: Vec<Variant<'_, _>> = engines
        .iter()
        .map(|engine| Variant::new(engine.name(), |keys: &[_]| engine.reads(keys, touch)))
        .collect();
    let series =
        rounds::run(args.common.timing(), threads, &points, |round| data.probes(round, ops))?;
    let title = format!("random point reads, {threads} thread(s), touching {touch:?}");
    report.series(&title, &series)?;

    let take = args.take;
    let ranges: Vec<Variant<'_, _>> = engines
        .iter()
        .map(|engine| {
            Variant::new(engine.name(), move |keys: &[_]| engine.ranges(keys, take, touch))
        })
        .collect();
    let series =
        rounds::run(args.common.timing(), threads, &ranges, |round| data.probes(!round, ops / 2))?;
    let title = format!("range reads of {take}, {threads} thread(s), touching {touch:?}");
    report.series(&title, &series)?;
    Ok(())
}
