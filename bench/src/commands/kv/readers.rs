//! Time to begin a reader of one state, alone and beside a writer that commits durably all the time.
//!
//! One thread begins readers and ends each at once; another makes single durable writes. On a machine with few
//! cores the greatest times are those in which the thread did not run, so look at both columns of an engine
//! before comparing engines.

use super::Args;
use super::contest::{Contest, Costs, Unit};
use crate::Fail;
use crate::data::Data;
use crate::engines::guard::guarded;
use crate::engines::store::{Lacks, Store};
use crate::latency::{self, histogram};
use crate::report::{Cell, Report, Table};
use hdrhistogram::Histogram;
use std::path::Path;
use std::time::{Duration, Instant};

/// What was seen of one engine.
struct Seen {
    alone: Histogram<u64>,
    beside: Histogram<u64>,
    commits: u64,
}

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let records = (data.records / 10).max(1);
    let mut stands = contest.loaded(args, args.setup(), data, records, dir);
    let time = Duration::from_millis(args.reader_ms);
    let new = || Seen { alone: histogram(), beside: histogram(), commits: 0 };
    let mut seen: Vec<_> = stands.iter().map(|stand| (stand.kind, new())).collect();
    let costs = || Costs::new(args.engines.iter().copied());
    let (mut alone, mut beside) = (costs(), costs());
    for round in 0..args.long_rounds {
        Contest::in_turn(&mut stands, round);
        contest.on_each(&mut stands, "beginning readers", |stand| {
            let Some((_, seen)) = seen.iter_mut().find(|(kind, _)| *kind == stand.kind) else {
                return Ok(());
            };
            let from = records + seen.commits;
            let found = stand.store.begins(Instant::now() + time).and_then(|alone| {
                let beside = beside_writer(&*stand.store, data, from, Instant::now() + time)?;
                Ok((alone, beside))
            });
            match found {
                Ok((of_alone, (of_beside, commits))) => {
                    alone.push(stand.kind, of_alone.value_at_quantile(0.5) as f64);
                    beside.push(stand.kind, of_beside.value_at_quantile(0.999) as f64);
                    seen.alone.add(of_alone)?;
                    seen.beside.add(of_beside)?;
                    seen.commits += commits;
                    Ok(())
                }
                Err(error) => {
                    let Some(&Lacks(what)) = error.downcast_ref() else { return Err(error) };
                    alone.fail(stand.kind, Lacks(what).into());
                    beside.fail(stand.kind, Lacks(what).into());
                    Ok(())
                }
            }
        });
    }
    contest.tell(report, "beginning a reader, alone: p50 of a round", Unit::Ns, &alone)?;
    let title = "beginning a reader beside a writer that commits: p99.9 of a round";
    contest.tell(report, title, Unit::Ns, &beside)?;
    let columns =
        [&["engine", "beside it", "commits/s", "readers"][..], &latency::COLUMNS].concat();
    let mut table = Table::new("time to begin a reader, all rounds together", &columns).keyed_by(2);
    let seconds = time.as_secs_f64() * args.long_rounds as f64;
    for (kind, seen) in seen {
        let rate = seen.commits as f64 / seconds;
        let rows = [("nobody", Cell::None, &seen.alone), ("a writer", rate.into(), &seen.beside)];
        for (beside, rate, times) in rows {
            let head = [kind.name().into(), beside.into(), rate, times.len().into()];
            table.push(head.into_iter().chain(latency::cells(times)));
        }
    }
    report.table(&table)?;
    contest.close(stands);
    Ok(())
}

/// Begins readers until `until`, while another thread commits the records from `from` on. Gives the times and
/// the number of commits.
fn beside_writer(
    store: &dyn Store,
    data: &Data,
    from: u64,
    until: Instant,
) -> Result<(Histogram<u64>, u64), Fail> {
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut records = (from..).take_while(|_| Instant::now() < until);
            let mut commits = 0;
            let mut records = records.by_ref().map(|at| {
                commits += 1;
                data.record(at, 0)
            });
            guarded(|| store.put_each(&mut records))?;
            Ok::<u64, Fail>(commits)
        });
        let times = store.begins(until)?;
        let commits = writer.join().map_err(|_| "the writer panicked")??;
        Ok((times, commits))
    })
}
