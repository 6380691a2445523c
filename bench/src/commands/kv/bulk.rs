//! The whole data set loaded at once, removed from, and compacted, with the bytes of the files before and after.
//!
//! ```text
//! A   sorted records by the engine's own way of loading -> size
//! B   all records in one transaction, in random order -> every other removed in one -> of the rest, half kept by a
//!     predicate -> close, size -> compact -> size
//! ```
//!
//! Sorting is not timed: it would be the same for all. What is timed ends with the commit: engines with a log have
//! by then written the records there alone, while the others have put them in their places; the sizes say how much
//! there is afterwards.

use super::chain::{Chain, Walk};
use super::contest::{Contest, Unit};
use super::{Args, expect, over_raw, remove};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::kind::Kind;
use crate::engines::store::Lacks;
use crate::report::Report;
use std::path::Path;
use std::time::Instant;

/// Records looked at afterwards.
const LOOKED_AT: u64 = 1000;

/// Whether `retain` keeps the record of such a key: half of all.
fn keep(key: &[u8]) -> bool {
    key.last().is_some_and(|byte| byte.is_multiple_of(2))
}

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let steps = [
        ("bulk load of sorted records", Unit::DurableNs),
        ("files after the bulk load, closed", Unit::OverRaw),
        ("all records in one transaction, random order", Unit::DurableNs),
        ("files after that transaction", Unit::OverRaw),
        ("removal of every other record in one transaction", Unit::DurableNs),
        ("retain half of the rest by a predicate, a record seen", Unit::DurableNs),
        ("files before compaction, closed, a quarter left", Unit::OverRaw),
        ("compaction, a record left", Unit::DurableNs),
        ("files after compaction, closed, a quarter left", Unit::OverRaw),
    ];
    let mut chain = Chain::new(args, steps.map(|(title, unit)| (title.into(), unit)));
    let sorted = data.sorted();
    chain.run(args, args.long_rounds, |kind, walk| {
        let path = dir.join(kind.name());
        let done = sorted_load(args, data, &sorted, kind, &path, walk)
            .and_then(|()| random_load(args, data, kind, &path, walk));
        let removed = remove(&path);
        done.and(removed)
    });
    chain.tell(contest, report)
}

fn sorted_load(
    args: &Args,
    data: &Data,
    sorted: &[(Key, u64)],
    kind: Kind,
    path: &Path,
    walk: &mut Walk<'_>,
) -> Result<(), Fail> {
    let store = kind.open(path, args.setup())?;
    let start = Instant::now();
    store.load_sorted(&mut sorted.iter().map(|&(key, at)| (key, data.value(at, 0))))?;
    walk.cost(ns_each(start, data.records));
    expect(&*store, data, (0..data.records.min(LOOKED_AT)).map(|at| (at, Some(0))))?;
    store.close()?;
    walk.cost(over_raw(path, data)?);
    remove(path)
}

fn random_load(
    args: &Args,
    data: &Data,
    kind: Kind,
    path: &Path,
    walk: &mut Walk<'_>,
) -> Result<(), Fail> {
    let store = kind.open(path, args.setup())?;
    let start = Instant::now();
    store.put_all(&mut (0..data.records).map(|at| data.record(at, 0)))?;
    walk.cost(ns_each(start, data.records));
    walk.cost(over_raw(path, data)?);

    let removed = data.records.div_ceil(2);
    let start = Instant::now();
    store.remove_all(&mut (0..data.records).step_by(2).map(|at| data.key(at)))?;
    walk.cost(ns_each(start, removed));

    let start = Instant::now();
    store.retain(&keep)?;
    walk.cost(ns_each(start, data.records - removed));
    let left: Vec<u64> =
        (0..data.records).skip(1).step_by(2).filter(|&at| keep(&data.key(at))).collect();
    let versions = |at: u64| (at % 2 == 1 && keep(&data.key(at))).then_some(0);
    let looked_at = || (0..data.records.min(LOOKED_AT)).map(|at| (at, versions(at)));
    expect(&*store, data, looked_at())?;
    store.close()?;
    walk.cost(over_raw(path, data)?);

    if kind.ways().compact.is_none() {
        walk.lacks(Lacks("the engine offers no compaction"));
        walk.lacks(Lacks("the engine offers no compaction"));
        return Ok(());
    }
    let store = kind.open(path, args.setup())?;
    let start = Instant::now();
    store.compact()?;
    walk.cost(ns_each(start, left.len() as u64));
    walk.cost(over_raw(path, data)?);
    let store = kind.open(path, args.setup())?;
    let records = store.len()?;
    if records != left.len() as u64 {
        return Err(format!("{records} records after compaction, not {}", left.len()).into());
    }
    expect(&*store, data, looked_at())?;
    store.close()
}

/// Nanoseconds since `start` for each of `count`.
fn ns_each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count.max(1) as f64
}
