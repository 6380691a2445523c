//! Every record overwritten twenty times on average, uniformly at random, and what the files take meanwhile.
//!
//! A pass is as many durable puts as there are records, a thousand to a commit. The stores have their passes by
//! turns. Files are looked at after each pass, and once more when the store is closed.

use super::{Args, Stand, expect, loaded, series};
use crate::Fail;
use crate::data::Data;
use crate::engines::durable::BATCH_RECORDS;
use crate::report::{Report, file_bytes};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// How many times the data are overwritten.
const PASSES: u64 = 20;
/// The data set over the live data of this experiment.
const PART: u64 = 25;

pub(super) fn run(args: &Args, data: &Data, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    let live = Data { seed: data.seed, records: (data.records / PART).max(1) };
    let stands = loaded(args, &live, live.records, dir)?;
    let mut times = series(args);
    let mut sizes = vec![Vec::new(); stands.len()];
    let mut versions = vec![0; usize::try_from(live.records)?];
    for pass in 1..=PASSES {
        let numbers = live.draw(pass, versions.len());
        for turn in 0..stands.len() {
            let which = (turn + pass as usize) % stands.len();
            let mut records = numbers.iter().map(|&at| live.record(at, pass));
            let start = Instant::now();
            stands[which].store.put_batches(&mut records, BATCH_RECORDS)?;
            times.ns[which].push(start.elapsed().as_nanos() as f64 / live.records as f64);
            sizes[which].push(file_bytes(&stands[which].path)?);
        }
        for at in numbers {
            versions[at as usize] = pass;
        }
    }
    let title = format!("overwrites of {} records, durable by {BATCH_RECORDS}", live.records);
    report.series(&title, &times)?;
    println!("\nfiles over live data: greatest after a pass, after the last, closed");
    for (Stand { kind, path, store }, sizes) in stands.into_iter().zip(sizes) {
        for (at, &version) in versions.iter().enumerate() {
            expect(kind, &*store, &live, at as u64, Some(version))?;
        }
        store.close()?;
        let closed = file_bytes(&path)?;
        let greatest = sizes.iter().copied().max().unwrap_or(closed);
        let last = sizes.last().copied().unwrap_or(closed);
        let over = |bytes: u64| bytes as f64 / live.raw_bytes() as f64;
        let (a, b, c) = (over(greatest), over(last), over(closed));
        println!("  {:<10}x{a:.2}   x{b:.2}   x{c:.2}", kind.name());
        report.facts(json!({
            "engine": kind.name(), "live_bytes": live.raw_bytes(), "bytes_after_passes": sizes,
            "bytes_closed": closed, "greatest_over_live": a, "closed_over_live": c,
        }))?;
    }
    Ok(())
}
