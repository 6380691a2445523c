//! Time to open databases of several sizes. Opening reads the superblock, the manifest and all of the page
//! map, so it follows the number of pages.

use crate::Fail;
use crate::given::{MIB_MAX, ROUNDS_MAX, mib, up_to};
use crate::interval::median;
use crate::report::{Output, Report, Table, file_bytes, need_room};
use latchkv::Options;
use serde_json::json;
use std::time::Instant;

/// Pages named by one page of the page map.
const PAGES_A_MAP_PAGE: u64 = 1024;

/// Options of `open`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    /// Sizes of the files, in MiB; with --quick a hundredth of that
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000], value_parser = up_to::<u64>(MIB_MAX))]
    size_mib: Vec<u64>,
    /// Page size, in bytes
    #[arg(long, default_value_t = 4096)]
    page_size: u32,
    /// How often each is opened
    #[arg(long, default_value_t = 9, value_parser = up_to::<usize>(ROUNDS_MAX))]
    rounds: usize,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let quick = args.output.quick;
    let sizes_mib: Vec<u64> =
        args.size_mib.iter().map(|&mib| if quick { mib.div_ceil(100) } else { mib }).collect();
    let rounds = if quick { args.rounds.min(3) } else { args.rounds };
    let options = json!({ "size_mib": sizes_mib, "page_bytes": args.page_size, "rounds": rounds });
    let mut report = Report::start("open", options, &args.output)?;
    let options = Options::new().page_bytes(args.page_size).cache_bytes(64 << 20);
    let columns = [
        "size [MiB]",
        "file [MiB]",
        "pages",
        "map pages",
        "open [ms]",
        "and first read [ms]",
        "further map page [us]",
    ];
    let mut table = Table::new(format!("opening, median of {rounds}"), &columns)
        .keyed_by(1)
        .told(&["file [MiB]", "pages", "map pages"]);
    let mut last: Option<(u64, f64)> = None;
    for &size_mib in &sizes_mib {
        let scratch = args.output.scratch()?;
        need_room(scratch.path(), 2 * mib(size_mib), "--size-mib")?;
        let path = scratch.path().join("db");
        fill(&path, &options, mib(size_mib), args.page_size)?;
        let file = file_bytes(&path)?;
        let (mut open_ns, mut read_ns) = (Vec::new(), Vec::new());
        let mut pages = 0;
        for _ in 0..rounds {
            let start = Instant::now();
            let db = options.open_existing(&path)?;
            open_ns.push(start.elapsed().as_nanos() as f64);
            let tree = db.open_tree("bench")?.ok_or("the tree is gone")?;
            tree.get(0_u64.to_be_bytes())?.ok_or("the first record is gone")?;
            read_ns.push(start.elapsed().as_nanos() as f64);
            pages = db.stats().store.pages;
        }
        let map_pages = pages.div_ceil(PAGES_A_MAP_PAGE);
        let (open, read) = (median(&open_ns), median(&read_ns));
        // Against the size before, so that what every open costs falls out.
        let slope = last.and_then(|(fewer, less)| {
            (map_pages > fewer).then(|| (open - less) / (map_pages - fewer) as f64)
        });
        last = Some((map_pages, open));
        table.push([
            size_mib.into(),
            (file >> 20).into(),
            pages.into(),
            map_pages.into(),
            (open / 1e6).into(),
            (read / 1e6).into(),
            slope.map(|ns| ns / 1e3).into(),
        ]);
    }
    report.table(&table)?;
    report.finish()
}

/// Makes a file of about `bytes`, most of it zeros, all of it pages of a tree.
fn fill(
    path: &std::path::Path,
    options: &Options,
    bytes: u64,
    page_bytes: u32,
) -> Result<(), Fail> {
    let db = options.create(path)?;
    let tree = db.tree("bench")?;
    // The greatest value that stays in its page, four to a page less its header.
    let value = vec![0; page_bytes as usize / 4 - 24];
    let records = bytes / u64::from(page_bytes) * 3;
    tree.bulk_load((0..records).map(|at| (at.to_be_bytes(), &value)))?;
    drop(tree);
    db.close()?;
    Ok(())
}
