//! Ways to run the events of microbenchmarks, compared.
//!
//! Each way has a database of its own, filled alike and given the same events, so all are in the same state in each round.
//! The table is loaded anew for each microbenchmark; rows that were deleted are put back between rounds of `delete`. All
//! ways must come to the same sum (\[B2]), and after the last round rows and indexes must agree.
//!
//! Tested through `instructions`, which does each way of each experiment.

use super::Setting;
use super::instructions::{self, counted_by_callgrind};
use crate::Fail;
use crate::engines::api::{Access, Store};
use crate::rounds::{self, Series, Timing, Variant};
use crate::workloads::sysbench::{Micro, TREES, Table};
use std::path::Path;

/// Does the events of some seeds, and gives a sum over what they saw that is the same whatever the way.
pub(super) type Work = dyn Fn(&Store, &Table, Micro, &[u64]) -> Result<u64, Fail> + Sync;

/// A way.
pub(super) struct Way {
    pub(super) name: String,
    pub(super) access: Access,
    pub(super) work: Box<Work>,
}

/// Ways with their databases.
pub(super) struct Stage {
    ways: Vec<(Way, Store)>,
}

const NAMESPACE: &str = "sbtest";
/// Events of a round, at least.
const EVENTS_MIN: usize = 20;

impl Stage {
    /// Makes a database for each way.
    pub(super) fn new(
        path: &Path,
        options: &latchkv::Options,
        ways: impl IntoIterator<Item = Way>,
    ) -> Result<Stage, Fail> {
        let with_store = |way: Way| {
            let path = path.join(&way.name);
            let store = Store::create(&path, options, way.access, NAMESPACE, &TREES)?;
            Ok((way, store))
        };
        let ways = ways.into_iter().map(with_store).collect::<Result<_, Fail>>()?;
        Ok(Stage { ways })
    }

    /// Times all ways, on as many threads.
    pub(super) fn timed(
        &self,
        setting: &Setting<'_>,
        micro: Micro,
        threads: usize,
    ) -> Result<Series, Fail> {
        let mut tables = Vec::new();
        for (_, store) in &self.ways {
            tables.push((store, Table::load(store, micro, setting.rows, 1)?));
        }
        let mut variants = Vec::new();
        for ((way, store), (_, table)) in self.ways.iter().zip(&tables) {
            let work = move |seeds: &[u64]| (way.work)(store, table, micro, seeds);
            variants.push(Variant::new(way.name.as_str(), work));
        }
        // About as much work a round for each microbenchmark.
        let ops = (setting.timing.ops / micro.rows_an_event()).max(EVENTS_MIN);
        let timing = Timing { ops, ..setting.timing }.on(threads);
        let ops = timing.ops;
        let mut refilled = Ok(());
        let series = rounds::run(timing, threads, &variants, |round| {
            if micro == Micro::Delete && refilled.is_ok() {
                let refill = |(store, table): &(&Store, Table)| table.refill(store).map(drop);
                refilled = tables.iter().try_for_each(refill);
            }
            let mut random = fastrand::Rng::with_seed(round);
            (0..ops).map(|_| random.u64(..)).collect()
        })?;
        drop(variants);
        refilled?;
        for (store, table) in tables {
            table.check(store)?;
        }
        Ok(series)
    }

    /// Does events one after the other way, for callgrind: as many to warm up, and then those that count.
    pub(super) fn count(&self, micro: Micro) -> Result<(), Fail> {
        for (way, store) in &self.ways {
            let table = Table::load(store, micro, instructions::ROWS, 1)?;
            let events = instructions::events(micro);
            let seeds: Vec<u64> = (0..2 * events as u64).collect();
            let (warm_up, events) = seeds.split_at(events);
            (way.work)(store, &table, micro, warm_up)?;
            counted_by_callgrind(&mut || (way.work)(store, &table, micro, events))?;
            table.check(store)?;
        }
        Ok(())
    }

    /// Closes the databases.
    pub(super) fn close(self) -> Result<(), Fail> {
        self.ways.into_iter().try_for_each(|(_, store)| store.close())
    }
}
