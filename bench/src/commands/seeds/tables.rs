//! Ways to run the events of one microbenchmark, compared.
//!
//! Each way has a database of its own, filled alike and given the same events, so all are in the same state in each round.
//! Rows that were deleted are put back between rounds of `delete`. All ways must come to the same sum (\[B2]), and after
//! the last round rows and indexes must agree.

use super::instructions::{self, counted};
use super::{Setting, options};
use crate::Fail;
use crate::engines::api::{Access, Store};
use crate::rounds::{self, Series, Timing, Variant};
use crate::workloads::sysbench::{Micro, TREES, Table};
use std::path::Path;

/// Does the events of some seeds, and gives a sum over what they saw that is the same whatever the way.
pub(super) type Work<'a> = dyn Fn(&Store, &Table, &[u64]) -> Result<u64, Fail> + Sync + 'a;

/// A way.
pub(super) struct Way<'a> {
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) work: Box<Work<'a>>,
}

const NAMESPACE: &str = "sbtest";
/// Events of a round, at least.
const EVENTS_MIN: usize = 20;

/// Times all ways, on as many threads.
pub(super) fn timed(
    setting: &Setting<'_>,
    micro: Micro,
    threads: usize,
    ways: &[Way<'_>],
) -> Result<Series, Fail> {
    let dir = tempfile::tempdir_in(setting.path)?;
    let mut tables = Vec::new();
    for way in ways {
        let (path, options) = (dir.path().join(&way.name), setting.options());
        let store = Store::create(&path, &options, way.access, NAMESPACE, &TREES)?;
        let table = Table::load(&store, micro, setting.rows, 1)?;
        tables.push((store, table));
    }
    let mut variants = Vec::new();
    for (way, (store, table)) in ways.iter().zip(&tables) {
        let work = move |seeds: &[u64]| (way.work)(store, table, seeds);
        variants.push(Variant::new(way.name.as_str(), work));
    }
    // About as much work a round for each microbenchmark.
    let ops = (setting.timing.ops / micro.rows_an_event()).max(EVENTS_MIN);
    let timing = Timing { ops, ..setting.timing };
    let mut refill = Ok(());
    let series = rounds::run(timing, threads, &variants, |round| {
        if micro == Micro::Delete && refill.is_ok() {
            let all = tables.iter().try_for_each(|(store, table)| table.refill(store).map(drop));
            refill = all;
        }
        let mut random = fastrand::Rng::with_seed(round);
        (0..ops).map(|_| random.u64(..)).collect()
    })?;
    drop(variants);
    refill?;
    for (store, table) in tables {
        table.check(&store)?;
        store.close()?;
    }
    Ok(series)
}

/// Does events one way, as many to warm up and then, for callgrind, as many as asked.
pub(super) fn count(way: &Way<'_>, micro: Micro, events: usize, dir: &Path) -> Result<u64, Fail> {
    let options = options(16384, 64).durability(latchkv::Durability::None);
    let store = Store::create(&dir.join("counted"), &options, way.access, NAMESPACE, &TREES)?;
    let table = Table::load(&store, micro, instructions::ROWS, 1)?;
    let seeds: Vec<u64> = (0..2 * events as u64).collect();
    let (warm_up, events) = seeds.split_at(events);
    (way.work)(&store, &table, warm_up)?;
    counted(&mut || (way.work)(&store, &table, events))
}
