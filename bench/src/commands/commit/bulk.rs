//! All records in one transaction into a new store, in random order, and half of them removed in one.
//!
//! Only the store whose turn it is is open. What is timed ends with the commit: engines with a log have by then
//! written the records there alone, while the others have put them in their places; the bytes of the files say
//! how much there is afterwards.

use super::{Args, expect, series, turns};
use crate::Fail;
use crate::data::Data;
use crate::report::{Report, file_bytes};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &Args, data: &Data, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    let (mut loads, mut removals) = (series(args), series(args));
    let mut sizes = vec![[0, 0]; args.engines.len()];
    let removed = data.records.div_ceil(2);
    for round in 0..args.long_rounds {
        for (which, kind) in turns(args, round) {
            let path = dir.join(kind.name());
            let store = kind.open(&path, args.setup())?;
            let start = Instant::now();
            store.put_all(&mut (0..data.records).map(|at| data.record(at, 0)))?;
            loads.ns[which].push(start.elapsed().as_nanos() as f64 / data.records as f64);
            let after_load = file_bytes(&path)?;

            let start = Instant::now();
            store.remove_all(&mut (0..data.records).step_by(2).map(|at| data.key(at)))?;
            removals.ns[which].push(start.elapsed().as_nanos() as f64 / removed as f64);
            for at in 0..data.records.min(1000) {
                expect(kind, &*store, data, at, (at % 2 == 1).then_some(0))?;
            }
            store.close()?;
            sizes[which] = [after_load, file_bytes(&path)?];
            std::fs::remove_dir_all(&path)?;
        }
    }
    report.series(&format!("{} random records in one transaction", data.records), &loads)?;
    report.series(&format!("{removed} of them removed in one transaction"), &removals)?;
    println!("\nfiles over raw data, after the load, and after the removal and closing");
    for (kind, [after_load, after_removal]) in args.engines.iter().zip(sizes) {
        let over = |bytes: u64| bytes as f64 / data.raw_bytes() as f64;
        println!("  {:<10}x{:.2}   x{:.2}", kind.name(), over(after_load), over(after_removal));
        report.facts(json!({
            "engine": kind.name(), "bytes_after_load": after_load,
            "bytes_after_removal_and_close": after_removal,
        }))?;
    }
    Ok(())
}
