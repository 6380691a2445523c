//! Single durable writes by one writer and by many, and durable batches of random inserts.
//!
//! All are inserts of new keys into the loaded data set. The stores are open side by side, so what one of them
//! does in the background may fall into the turn of another; the writes of a round are too few for much of it.

use super::{Args, Stand, expect, loaded};
use crate::Fail;
use crate::data::Data;
use crate::report::Report;
use crate::rounds::{self, Variant};
use std::ops::Range;
use std::path::Path;

/// Writes of each of many writers in a round, at least.
const WRITES_A_WRITER_MIN: usize = 32;

pub(super) fn run(args: &Args, data: &Data, dir: &Path, report: &mut Report) -> Result<(), Fail> {
    let stands = loaded(args, data, data.records, dir)?;
    // The next record that no store has yet.
    let mut next = data.records;
    let mut fresh = |count: usize| -> Range<u64> {
        let from = next;
        next += count as u64;
        from..next
    };

    for &writers in [1].iter().chain(&args.writers) {
        let ops =
            if writers == 1 { args.writes } else { args.writes.max(writers * WRITES_A_WRITER_MIN) };
        let variants: Vec<Variant<'_, u64>> = stands
            .iter()
            .map(|stand| {
                Variant::new(stand.kind.name(), |numbers: &[u64]| {
                    let mut records = numbers.iter().map(|&at| data.record(at, 0));
                    stand.store.put_each(&mut records)?;
                    Ok(0)
                })
            })
            .collect();
        let timing = Args::timing(args.rounds, ops);
        let series = rounds::run(timing, writers, &variants, |_| fresh(ops).collect())?;
        report.series(&format!("durable writes, {writers} writer(s)"), &series)?;
    }

    let variants: Vec<Variant<'_, Range<u64>>> = stands
        .iter()
        .map(|stand| {
            Variant::new(stand.kind.name(), |batches: &[Range<u64>]| {
                for batch in batches {
                    stand.store.put_all(&mut batch.clone().map(|at| data.record(at, 0)))?;
                }
                Ok(0)
            })
        })
        .collect();
    let timing = Args::timing(args.rounds, args.batches);
    let series = rounds::run(timing, 1, &variants, |_| {
        (0..args.batches).map(|_| fresh(args.batch_records)).collect()
    })?;
    drop(variants);
    let title = format!("durable batches of {} random inserts, an op each", args.batch_records);
    report.series(&title, &series)?;

    let end = fresh(0).end;
    for Stand { kind, store, .. } in stands {
        for at in (0..end).rev().take(1000).chain([0]) {
            expect(kind, &*store, data, at, Some(0))?;
        }
        store.close()?;
    }
    Ok(())
}
