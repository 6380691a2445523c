//! Time to open a store whose process was killed, for three lengths of log.
//!
//! A child process puts the records and says that the last commit is durable; then it gets SIGKILL. What is timed
//! is opening and one look-up, by the wall clock and by what all threads of the process ran meanwhile. Engines with
//! a log are told to keep all of it. LMDB has none and redb walks its file instead; their figures only show that.
//! All records are looked at afterwards.

use super::chain::{Chain, Walk};
use super::child::{Job, Work};
use super::contest::{Contest, Unit};
use super::{Args, expect, over_raw, remove};
use crate::Fail;
use crate::data::Data;
use crate::engines::kind::Kind;
use crate::engines::store::Setup;
use crate::report::Report;
use crate::rounds::process_cpu_ns;
use std::path::Path;
use std::time::Instant;

/// Lengths of logs, as parts of the data set.
const PARTS: [u64; 3] = [20, 10, 5];

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    for part in PARTS {
        let logged = Data { seed: data.seed, records: (data.records / part).max(1) };
        let puts = logged.records;
        let steps = [
            (format!("files when killed, {puts} puts in the log"), Unit::OverRaw),
            (format!("open after a kill, {puts} puts in the log, a put"), Unit::Ns),
            (format!("open after a kill, {puts} puts in the log, a put, processor time"), Unit::Ns),
        ];
        let mut chain = Chain::new(args, steps);
        chain.run(args, args.long_rounds, |kind, walk| {
            let path = dir.join(kind.name());
            let done = one(args, &logged, kind, &path, walk);
            let removed = remove(&path);
            done.and(removed)
        });
        chain.tell(contest, report)?;
    }
    Ok(())
}

fn one(args: &Args, data: &Data, kind: Kind, path: &Path, walk: &mut Walk<'_>) -> Result<(), Fail> {
    let count = data.records;
    let job = Job {
        work: Work::Fill,
        kind,
        path,
        seed: data.seed,
        count,
        threads: 1,
        cache_mib: args.cache_mib,
    };
    job.run_and_kill()?;
    walk.cost(over_raw(path, data)?);
    let (start, ran_before) = (Instant::now(), process_cpu_ns());
    let store = kind.open(path, Setup { keep_log: true, ..args.setup() })?;
    expect(&*store, data, [(count - 1, Some(0))])?;
    walk.cost(start.elapsed().as_nanos() as f64 / count as f64);
    walk.cost((process_cpu_ns() - ran_before) / count as f64);
    expect(&*store, data, (0..count).map(|at| (at, Some(0))))?;
    store.close()
}
