//! An old reader that stays, while all data are overwritten again and again: how much slower that makes the writer, and
//! how the files grow.
//!
//! ```text
//! load -> five passes of overwrites -> size        on one store, and on another: with a reader from before the first pass
//!                                                  which then still sees what it saw; it ends -> a pass -> close -> size
//! ```
//!
//! All puts are durable.

use super::chain::{Chain, Walk};
use super::contest::{Contest, Unit};
use super::overwrite::{live, numbers, overwrite};
use super::{Args, over_raw, remove};
use crate::Fail;
use crate::data::Data;
use crate::engines::kind::Kind;
use crate::engines::store::{BATCH_RECORDS, Lacks, Store};
use crate::report::Report;
use std::path::Path;
use std::time::Instant;

/// How many times the data are overwritten.
const PASSES: u64 = 5;
/// Records that the old reader looks at in the end.
const LOOKED_AT: u64 = 1000;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let live = live(data);
    let overwrites = format!("overwrites durable by {BATCH_RECORDS}");
    let steps = [
        (format!("{overwrites}, no other reader"), Unit::DurableNs),
        (format!("files after {PASSES} passes, no other reader"), Unit::OverRaw),
        (format!("{overwrites}, a reader pinned before the first"), Unit::DurableNs),
        (format!("files after {PASSES} passes, a reader pinned"), Unit::OverRaw),
        ("files after the reader ended, a pass more, closed".into(), Unit::OverRaw),
    ];
    let mut chain = Chain::new(args, steps);
    chain.run(args, args.long_rounds, |kind, walk| {
        for pinned in [false, true] {
            let path = dir.join(kind.name());
            let done = one(args, &live, kind, pinned, &path, walk);
            let removed = remove(&path);
            done.and(removed)?;
        }
        Ok(())
    });
    chain.tell(contest, report)
}

fn one(
    args: &Args,
    live: &Data,
    kind: Kind,
    pinned: bool,
    path: &Path,
    walk: &mut Walk<'_>,
) -> Result<(), Fail> {
    let store = kind.open(path, args.setup())?;
    store.put_batches(&mut (0..live.records).map(|at| live.record(at, 0)), BATCH_RECORDS)?;
    if !pinned {
        passes(&*store, live, path, walk)?;
        return store.close();
    }
    if let Err(error) = beside_pinned(&*store, live, path, walk) {
        let Some(&Lacks(what)) = error.downcast_ref() else { return Err(error) };
        (0..3).for_each(|_| walk.lacks(Lacks(what)));
        return store.close();
    }
    let last = PASSES + 1;
    overwrite(&*store, live, &numbers(live, last)?, last)?;
    store.close()?;
    walk.cost(over_raw(path, live)?);
    Ok(())
}

/// The passes, with a reader from before the first.
fn beside_pinned(
    store: &dyn Store,
    live: &Data,
    path: &Path,
    walk: &mut Walk<'_>,
) -> Result<(), Fail> {
    let old = store.pin()?;
    passes(store, live, path, walk)?;
    for at in 0..live.records.min(LOOKED_AT) {
        if old.get(&live.key(at))?.as_deref() != Some(&live.value(at, 0)) {
            return Err(format!("the old reader sees another record {at} than before").into());
        }
    }
    Ok(())
}

/// Two steps: the passes, and the files after them.
fn passes(store: &dyn Store, live: &Data, path: &Path, walk: &mut Walk<'_>) -> Result<(), Fail> {
    let start = Instant::now();
    for pass in 1..=PASSES {
        overwrite(store, live, &numbers(live, pass)?, pass)?;
    }
    walk.cost(start.elapsed().as_nanos() as f64 / (PASSES * live.records) as f64);
    walk.cost(over_raw(path, live)?);
    Ok(())
}
