//! Updates in place, inserts of new keys, deletes, and reads and updates mixed on several threads, of latchkv alone.
//!
//! Nothing is made durable while it is timed: commits are at durability None, and checkpoints come only on request here.

use super::{Common, memory, options};
use crate::Fail;
use crate::data::Key;
use crate::engines::Touch;
use crate::engines::ours::{self, Access, Order, Ours};
use crate::given::{MIB_MAX, THREADS_MAX, up_to};
use crate::rounds::{self, Variant};
use serde_json::json;

/// Options of `updates`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Cache, in MiB
    #[arg(long, default_value_t = 4096, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Page size, in bytes
    #[arg(long, default_value_t = 16384)]
    page_size: u32,
    /// Threads of the mixed work, one experiment for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4], value_parser = up_to::<usize>(THREADS_MAX))]
    threads: Vec<usize>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.common.output.scratch()?;
    let more = json!({ "page_bytes": args.page_size, "cache_mib": args.cache_mib });
    let (data, mut report) = args.common.start("updates", scratch.path(), 1, more)?;
    println!("\nload, one run each");
    let options = options(args.page_size, args.cache_mib);
    let path = scratch.path().join("latchkv");
    ours::load(&path, &options, &data, Order::Random)?.tell(&data, &mut report)?;
    let ours = Ours::open("latchkv", &path, &options, Access::Write)?;
    ours.warm()?;
    report.facts(memory(&ours), json!({}))?;
    let ops = args.common.timing().ops;
    let value = data.value(0, 1);
    let put = |keys: &[Key]| ours.puts(keys, &value).map(|()| 0);
    let puts = [Variant::new("latchkv", put)];
    let timing = args.common.timing();
    let series = rounds::run(timing, 1, &puts, |round| data.probes(round, ops))?;
    report.series("updates of values, 1 thread", &series)?;
    let fresh = |round: u64| {
        let first = data.records + round * ops as u64;
        (first..first + ops as u64).map(|at| data.key(at)).collect()
    };
    let series = rounds::run(timing, 1, &puts, fresh)?;
    report.series("inserts of new keys, 1 thread", &series)?;

    let deletes = [Variant::new("latchkv", |keys: &[Key]| {
        for key in keys {
            ours.tree.delete(key)?;
        }
        Ok(0)
    })];
    let series = rounds::run(timing, 1, &deletes, fresh)?;
    report.series("deletes of these, 1 thread", &series)?;

    for &threads in &args.threads {
        for updates_percent in [5, 50, 100] {
            let title = format!("{updates_percent} % updates, the rest reads, {threads} thread(s)");
            let mixed = [Variant::new("latchkv", |keys: &[Key]| {
                for key in keys {
                    // The last byte of a key is as good as random.
                    if u32::from(key[23]) * 100 < updates_percent * 256 {
                        ours.tree.put(key, value)?;
                    } else {
                        ours.tree.get_with(key, |value| Touch::Ends.sum(value))?;
                    }
                }
                Ok(0)
            })];
            let timing = timing.on(threads);
            let probes = |round| data.probes(round, timing.ops);
            let series = rounds::run(timing, threads, &mixed, probes)?;
            report.series(&title, &series)?;
        }
    }
    report.finish()
}
