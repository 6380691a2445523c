//! Page sizes beside each other: what decides the default.

use super::{Common, memory, options};
use crate::Fail;
use crate::data::Key;
use crate::engines::Touch;
use crate::engines::ours::{self, Access, Order, Ours};
use crate::engines::store::Reader;
use crate::given::{MIB_MAX, OPS_MAX, up_to};
use crate::report::Table;
use crate::rounds::{self, Variant};
use serde_json::json;

/// Options of `page-size`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Page sizes, in bytes; the first is what the others are compared with
    #[arg(long, value_delimiter = ',', default_values_t = [16384, 4096, 8192, 32768])]
    page_size: Vec<u32>,
    /// Cache of each database, in MiB; should hold all
    #[arg(long, default_value_t = 2048, value_parser = up_to::<u64>(MIB_MAX))]
    cache_mib: u64,
    /// Records of a range read
    #[arg(long, default_value_t = 10, value_parser = up_to::<usize>(OPS_MAX))]
    take: usize,
    /// Order of the load
    #[arg(long)]
    random: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let scratch = args.common.output.scratch()?;
    let more = json!({ "random_load": args.random });
    let databases = args.page_size.len() as u64;
    let (data, mut report) = args.common.start("page-size", scratch.path(), databases, more)?;
    println!("\nload, one run each");
    let order = if args.random { Order::Random } else { Order::Sorted };
    let mut engines = Vec::new();
    for &page_bytes in &args.page_size {
        let path = scratch.path().join(page_bytes.to_string());
        let options = options(page_bytes, args.cache_mib);
        let mut loaded = ours::load(&path, &options, &data, order)?;
        loaded.how = format!("pages of {page_bytes}");
        loaded.tell(&data, &mut report)?;
        let engine = Ours::open(format!("pages of {page_bytes}"), &path, &options, Access::Write)?;
        engine.warm()?;
        engines.push(engine);
    }
    println!("\nmemory");
    for engine in &engines {
        report.facts(memory(engine), json!({}))?;
    }
    let ops = args.common.timing().ops;
    let touch = Touch::All;
    let value = data.value(0, 1);
    let take = args.take;
    type Work<'a> = Box<dyn Fn(&Ours, &[Key]) -> Result<u64, Fail> + Sync + 'a>;
    let experiments: [(&str, usize, Work<'_>); 3] = [
        ("random point reads", ops, Box::new(|engine, keys| engine.reads(keys, touch))),
        ("range reads", ops.div_ceil(2), Box::new(|engine, keys| engine.ranges(keys, take, touch))),
        (
            "random updates of values",
            ops,
            Box::new(|engine, keys| engine.puts(keys, &value).map(|()| 0)),
        ),
    ];
    for (title, ops, work) in &experiments {
        let variants: Vec<Variant<'_, Key>> = engines
            .iter()
            .map(|engine| Variant::new(engine.name.clone(), move |keys: &[Key]| work(engine, keys)))
            .collect();
        let series =
            rounds::run(args.common.timing(), 1, &variants, |round| data.probes(round, *ops))?;
        report.series(title, &series)?;
    }
    let columns = ["database", "page images", "time [s]"];
    let mut table = Table::new("checkpoint of these updates, one run each", &columns)
        .keyed_by(1)
        .told(&["page images"]);
    for engine in &engines {
        let before = engine.db.stats().pool.writebacks;
        let start = std::time::Instant::now();
        engine.db.checkpoint()?;
        let seconds = start.elapsed().as_secs_f64();
        let images = engine.db.stats().pool.writebacks - before;
        table.push([engine.name.clone().into(), images.into(), seconds.into()]);
    }
    report.table(&table)?;
    report.finish()
}
