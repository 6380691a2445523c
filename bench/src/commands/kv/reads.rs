//! Reads of data in memory: the number of records, look-ups and ranges, by one thread and by many.
//!
//! The stores are loaded in random order and then read once from end to end. LMDB and redb have one read transaction a
//! round and thread; the others read what is there now, as their documentation has it.

use super::Args;
use super::contest::{Contest, Unit};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::store::Setup;
use crate::report::Report;
use crate::rounds::Timing;
use std::path::Path;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let setup = Setup { durable: false, ..args.setup() };
    let mut stands = contest.loaded(args, setup, data, data.records, dir);
    contest.on_each(&mut stands, "reading everything", |stand| {
        let mut records = 0;
        stand.store.reader()?.scan(&[], usize::MAX, &mut |_, _| records += 1)?;
        if records == data.records {
            return Ok(());
        }
        Err(format!("{records} records of {} came back", data.records).into())
    });
    contest.row(
        report,
        &mut stands,
        "number of records",
        Unit::Ns,
        (args.durable_timing(1), 1),
        |_| vec![()],
        |stand, _: &[()]| stand.store.len(),
    )?;
    for &touch in &args.touch {
        for &threads in &args.threads {
            let timing = args.timing.on(threads);
            contest.row(
                report,
                &mut stands,
                &format!("random reads, {threads} thread(s), touching {touch:?}"),
                Unit::Ns,
                (timing, threads),
                |round| data.probes(round, timing.ops),
                |stand, keys: &[Key]| stand.store.reader()?.reads(keys, touch),
            )?;
        }
    }
    let (take, touch) = (args.take, args.touch.last().copied());
    let touch = touch.ok_or("--touch needs a way to look at the bytes")?;
    for &threads in &args.threads {
        let timing = Timing { ops: args.timing.ops.div_ceil(2), ..args.timing }.on(threads);
        contest.row(
            report,
            &mut stands,
            &format!("range reads of {take}, {threads} thread(s), touching {touch:?}"),
            Unit::Ns,
            (timing, threads),
            |round| data.probes(!round, timing.ops),
            |stand, keys: &[Key]| stand.store.reader()?.ranges(keys, take, touch),
        )?;
    }
    contest.close(stands);
    Ok(())
}
