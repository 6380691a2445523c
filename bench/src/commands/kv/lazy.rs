//! Writes that need not be durable: inserts in a commit each, batches, and changes of the value that is there.
//!
//! Each engine is opened without durability: nothing waits for the medium, and what is written when is its own affair.
//! So it is timed by the wall clock: what engines do by threads of their own would not count otherwise.
//! A change reads and puts back: in a transaction, where the engine has them in the form measured here.

use super::contest::{Contest, Unit};
use super::{Args, Fresh, expect};
use crate::Fail;
use crate::data::Data;
use crate::engines::store::Setup;
use crate::report::Report;
use std::ops::Range;
use std::path::Path;

/// Operations of `--ops` for each that is done here.
const PART: usize = 10;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let setup = Setup { durable: false, ..args.setup() };
    let mut stands = contest.loaded(args, setup, data, data.records, dir);
    let mut fresh = Fresh(data.records);
    let ops = (args.timing.ops / PART).max(1);
    let timing = args.by_the_wall(ops);
    contest.row(
        report,
        &mut stands,
        "nosync writes, a commit each",
        Unit::Ns,
        (timing, 1),
        |_| fresh.take(ops).collect(),
        |stand, numbers: &[u64]| {
            stand.store.put_each(&mut numbers.iter().map(|&at| data.record(at, 0)))?;
            Ok(0)
        },
    )?;
    let batches = ops.div_ceil(args.batch_records);
    contest.row(
        report,
        &mut stands,
        &format!("nosync batches of {} random inserts, an op each", args.batch_records),
        Unit::Ns,
        (args.by_the_wall(batches), 1),
        |_| (0..batches).map(|_| fresh.take(args.batch_records)).collect(),
        |stand, batches: &[Range<u64>]| {
            for batch in batches {
                stand.store.put_all(&mut batch.clone().map(|at| data.record(at, 0)))?;
            }
            Ok(0)
        },
    )?;
    contest.row(
        report,
        &mut stands,
        "nosync changes of a value that is read first, a commit each",
        Unit::Ns,
        (timing, 1),
        |round| data.draw(round, ops),
        |stand, numbers: &[u64]| {
            // The sum is over what was read, so that engines that saw other values are found out.
            let mut sum = 0_u64;
            for &at in numbers {
                let changed = stand.store.change(&data.key(at), &mut |value| {
                    let counter = value[0];
                    sum = sum.wrapping_mul(31).wrapping_add(u64::from(counter));
                    value[0] = counter.wrapping_add(1);
                })?;
                if !changed {
                    return Err(format!("record {at} is absent").into());
                }
            }
            Ok(sum)
        },
    )?;
    let end = fresh.0;
    contest.on_each(&mut stands, "looking at what was written", |stand| {
        expect(&*stand.store, data, (data.records..end).map(|at| (at, Some(0))))
    });
    contest.close(stands);
    Ok(())
}
