//! The allocator's promise, and the arena.
//!
//! After MySQL bug 101024: functions that hand out memory were declared with the attribute `malloc`, by which the
//! compiler may assume that what they return is reached by nothing else. Rust's global allocator has it always, so the
//! old way is the same allocator behind an empty `asm!`; `workloads/sysbench/results.rs` says how, and where it can act
//! at all. That is in the rows of selects alone: nothing else in these mixes fills memory that it has just got while it
//! keeps state elsewhere. Expect little. In a Rust program it is the types of references that carry the promise.
//!
//! What the engine does instead of a faster `malloc` is to call it seldom: the rows of a select come from an arena, and so
//! do keys and values of a write set. The third way is that, against the second, where each row of a select and each
//! piece of a write set is asked from the allocator alone and given back alone. (The write set does so behind the feature
//! `measure`; without it, it has its arena in all ways.)
//!
//! One thread, plain API.

use super::instructions::What;
use super::tables::{self, Way};
use super::{GAIN_COLUMNS, Setting, gain, gain_percent, rate};
use crate::Fail;
use crate::engines::api::{Access, Api, Store};
use crate::progress;
use crate::report::{Report, Table as Rows};
use crate::workloads::sysbench::{Arena, Events, Global, Micro, Table};
use std::path::Path;

/// Where memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Source {
    /// The arena
    Arena,
    /// The global allocator, known to the compiler
    Known,
    /// The global allocator, hidden from the compiler
    Hidden,
}

const SOURCES: [Source; 3] = [Source::Arena, Source::Known, Source::Hidden];
/// Places in it.
const ARENA: usize = 0;
const KNOWN: usize = 1;
const HIDDEN: usize = 2;

/// The mixes, with what was reported of each.
const MIXES: [(Micro, &str); 3] = [
    (Micro::ReadOnly, "+1.21 %"),
    (Micro::PointSelect, "+0.13 %"),
    (Micro::ReadWrite100, "+0.28 %"),
];

impl Source {
    fn way(self, micro: Micro) -> Way<'static> {
        Way {
            name: format!("{self:?}"),
            access: Access::new(Api::Plain, 1),
            work: Box::new(move |store, table, seeds| self.events(store, table, micro, seeds)),
        }
    }

    /// Does events with memory from here.
    fn events(
        self,
        store: &Store,
        table: &Table,
        micro: Micro,
        seeds: &[u64],
    ) -> Result<u64, Fail> {
        #[cfg(feature = "measure")]
        latchkv_alloc::ask_for_each_piece(self != Source::Arena);
        let done = match self {
            Source::Arena => store.run(Events::<Arena>::new(table, micro, seeds)),
            Source::Known => store.run(Events::<Global<true>>::new(table, micro, seeds)),
            Source::Hidden => store.run(Events::<Global<false>>::new(table, micro, seeds)),
        };
        #[cfg(feature = "measure")]
        latchkv_alloc::ask_for_each_piece(false);
        let done = done?;
        Ok(done.rows.wrapping_add(done.sum))
    }
}

/// Runs it.
pub(super) fn run(setting: &Setting<'_>, report: &mut Report) -> Result<(), Fail> {
    let mut columns = vec!["benchmark", "change", "reported", "old [events/s]", "new [events/s]"];
    columns.extend(GAIN_COLUMNS);
    columns.extend(["old [instructions]", "new [instructions]", "gain [%]"]);
    let mut table = Rows::new("alloc: 1 thread, plain API", &columns).note(
        "promise: the allocator known to the compiler, over the same one hidden from it; that is what the report is \
         about. arena: over the allocator that is known",
    );
    let bar = progress::bar(MIXES.len() as u64, "alloc");
    for (micro, reported) in MIXES {
        let series = tables::timed(setting, micro, 1, &SOURCES.map(|source| source.way(micro)))?;
        let mut instructions = [None; SOURCES.len()];
        for (source, instructions) in SOURCES.into_iter().zip(&mut instructions) {
            *instructions = setting.count(What::Alloc(source, micro))?;
        }
        let changes = [("promise", Some(reported), HIDDEN, KNOWN), ("arena", None, KNOWN, ARENA)];
        for (change, reported, old, new) in changes {
            let rates = (rate(&series, old), rate(&series, new));
            let mut row =
                vec![micro.name().into(), change.into(), reported.into(), rates.0, rates.1];
            row.extend(gain(&series, old, new));
            let both = instructions[old].zip(instructions[new]);
            row.extend([instructions[old].into(), instructions[new].into()]);
            row.push(both.map(|(old, new)| gain_percent(old, new)).into());
            table.push(row);
        }
        bar.step();
    }
    drop(bar);
    report.table(&table)
}

/// Does events with memory from one source, for callgrind.
pub(super) fn count(source: Source, micro: Micro, events: usize, dir: &Path) -> Result<u64, Fail> {
    tables::count(&source.way(micro), micro, events, dir)
}
