//! Durable writes: single ones by one writer and by many, and batches of random inserts.
//!
//! All are inserts of new keys into the loaded data set. The stores are open side by side, so what one of them
//! does in the background may fall into the turn of another; the writes of a round are too few for much of it.

use super::contest::{Contest, Unit};
use super::{Args, Fresh, expect};
use crate::Fail;
use crate::data::Data;
use crate::report::Report;
use std::ops::Range;
use std::path::Path;

/// Records looked at afterwards, the last ones.
const LOOKED_AT: usize = 1000;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let mut stands = contest.loaded(args, args.setup(), data, data.records, dir);
    let mut fresh = Fresh(data.records);
    for &writers in &args.writers {
        let timing = args.durable_timing(args.writes).on(writers);
        contest.row(
            report,
            &mut stands,
            &format!("durable writes, {writers} writer(s)"),
            Unit::DurableNs,
            (timing, writers),
            |_| fresh.take(timing.ops).collect(),
            |stand, numbers: &[u64]| {
                stand.store.put_each(&mut numbers.iter().map(|&at| data.record(at, 0)))?;
                Ok(0)
            },
        )?;
    }
    contest.row(
        report,
        &mut stands,
        &format!("durable batches of {} random inserts, an op each", args.batch_records),
        Unit::DurableNs,
        (args.durable_timing(args.batches), 1),
        |_| (0..args.batches).map(|_| fresh.take(args.batch_records)).collect(),
        |stand, batches: &[Range<u64>]| {
            for batch in batches {
                stand.store.put_all(&mut batch.clone().map(|at| data.record(at, 0)))?;
            }
            Ok(0)
        },
    )?;
    let end = fresh.0;
    contest.on_each(&mut stands, "looking at what was written", |stand| {
        let looked_at = (0..end).rev().take(LOOKED_AT).chain([0]);
        expect(&*stand.store, data, looked_at.map(|at| (at, Some(0))))
    });
    contest.close(stands);
    Ok(())
}
