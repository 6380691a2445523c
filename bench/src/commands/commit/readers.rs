//! Time to begin a reader, alone and beside a writer that commits durably all the time.
//!
//! One thread begins readers and ends each at once; another makes single durable writes. On a machine with few
//! cores the greatest times are those in which the thread did not run, so look at both columns of an engine
//! before comparing engines.

use super::{Args, Stand, loaded};
use crate::Fail;
use crate::data::Data;
use crate::engines::durable::Durable;
use crate::latency::{self, histogram};
use crate::report::{Report, Table};
use crate::rounds::{Ratio, bootstrap};
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::{Duration, Instant};

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
    let columns = [&["engine", "beside it", "readers"][..], &latency::COLUMNS].concat();
    let mut table = Table::new("time to begin a reader", &columns)
        .note("p99.9 beside a writer over that alone, of each round: median and interval");
    let seconds = time.as_secs_f64() * args.long_rounds as f64;
    for (Stand { kind, store, .. }, seen) in stands.into_iter().zip(seen) {
        let ratio = bootstrap(&seen.ratios);
        let Ratio { median, low, high } = ratio;
        let beside = format!(
            "a writer of {:.0} commits/s; p99.9 x{median:.2} ({low:.2} to {high:.2})",
            seen.commits as f64 / seconds
        );
        for (beside, times) in [("nobody".to_owned(), &seen.alone), (beside, &seen.beside)] {
            let head = [kind.name().into(), beside.into(), times.len().into()];
            table.push(head.into_iter().chain(latency::cells(times)));
        }
        store.close()?;
    }
    report.table(&table)
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
