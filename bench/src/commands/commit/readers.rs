//! Time to begin a reader, alone and beside a writer that commits durably all the time.
//!
//! One thread begins readers and ends each at once; another makes single durable writes. On a machine with few
//! cores the greatest times are those in which the thread did not run, so look at both columns of an engine
//! before comparing engines.

use super::{Args, Stand, loaded};
use crate::Fail;
use crate::data::Data;
use crate::engines::durable::{Durable, histogram};
use crate::report::Report;
use crate::rounds::bootstrap;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Parts of all readers that take at most the time given for them.
const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// What was seen of one engine.
struct Seen {
    alone: Histogram<u64>,
    beside: Histogram<u64>,
    commits: u64,
    /// p99.9 beside a writer over p99.9 alone, of each round.
    ratios: Vec<f64>,
}

pub(super) fn run(args: &Args, data: &Data, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    let records = (data.records / 10).max(1);
    let stands = loaded(args, data, records, dir)?;
    let time = Duration::from_millis(args.reader_ms);
    let mut seen: Vec<Seen> = stands
        .iter()
        .map(|_| Seen { alone: histogram(), beside: histogram(), commits: 0, ratios: Vec::new() })
        .collect();
    for round in 0..args.long_rounds {
        for turn in 0..stands.len() {
            let which = (turn + round) % stands.len();
            let (store, seen) = (&*stands[which].store, &mut seen[which]);
            let alone = store.begins(Instant::now() + time)?;
            let from = records + seen.commits;
            let (beside, commits) = beside_writer(store, data, from, Instant::now() + time)?;
            let p999 = |times: &Histogram<u64>| times.value_at_quantile(0.999) as f64;
            seen.ratios.push(p999(&beside) / p999(&alone));
            seen.alone.add(alone)?;
            seen.beside.add(beside)?;
            seen.commits += commits;
        }
    }
    println!("\nnanoseconds to begin a reader, alone / beside a writer that commits");
    let seconds = time.as_secs_f64() * args.long_rounds as f64;
    for (Stand { kind, store, .. }, seen) in stands.into_iter().zip(seen) {
        print!("  {:<10}", kind.name());
        for (name, quantile) in QUANTILES {
            let at = |times: &Histogram<u64>| times.value_at_quantile(quantile);
            print!("{name} {} / {}   ", at(&seen.alone), at(&seen.beside));
        }
        let ratio = bootstrap(&seen.ratios);
        println!("max {} / {}", seen.alone.max(), seen.beside.max());
        println!(
            "            {} readers; {:.0} commits/s; p99.9 x{:.2} ({:.2} to {:.2}) beside a writer",
            seen.beside.len(),
            seen.commits as f64 / seconds,
            ratio.median,
            ratio.low,
            ratio.high
        );
        report.add(json!({
            "engine": kind.name(), "readers_alone": summary(&seen.alone),
            "readers_beside_writer": summary(&seen.beside),
            "commits_per_second": seen.commits as f64 / seconds, "p999_ratio": ratio.median,
        }));
        store.close()?;
    }
    Ok(())
}

/// Begins readers until `until`, while another thread commits the records from `from` on. Gives the times and
/// the number of commits.
fn beside_writer(
    store: &dyn Durable,
    data: &Data,
    from: u64,
    until: Instant,
) -> Result<(Histogram<u64>, u64), Fail> {
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut records = (from..).take_while(|_| Instant::now() < until);
            let mut commits = 0;
            store.put_each(&mut records.by_ref().map(|at| {
                commits += 1;
                data.record(at, 0)
            }))?;
            Ok::<u64, Fail>(commits)
        });
        let times = store.begins(until)?;
        let commits = writer.join().map_err(|_| "the writer panicked")??;
        Ok((times, commits))
    })
}

fn summary(times: &Histogram<u64>) -> Value {
    let mut summary =
        json!({ "count": times.len(), "mean_ns": times.mean(), "max_ns": times.max() });
    for (name, quantile) in QUANTILES {
        summary[format!("{name}_ns")] = json!(times.value_at_quantile(quantile));
    }
    summary
}
