//! The allocator's promise, and the arena.
//!
//! After MySQL bug 101024: functions that hand out memory were declared with the attribute `malloc`, by which the
//! compiler may assume that what they return is reached by nothing else. Rust's global allocator has it always, so the
//! old way is the same allocator behind an empty `asm!`; `workloads/sysbench/results.rs` says how.
//!
//! | change | from | to | rows are filled |
//! |---|---|---|---|
//! | `promise` | the allocator, hidden from the compiler | known to it | by pointer, as in C |
//! | `reference` | the allocator, hidden | the same | by pointer; by reference, as in Rust |
//! | `arena` | the allocator, hidden | the arena | by reference |
//!
//! The promise acts on the rows of selects alone: nothing else in these mixes fills memory that it has just got while it
//! keeps state elsewhere. `reference` shows that in Rust the types carry it, wherever the memory came from; that is how the
//! engine is written. What the engine does instead of a faster `malloc` is to call it seldom: keys and values of a write
//! set come from an arena. `arena` is that, and rows from one too, against each piece being asked from the allocator
//! alone and given back alone. (The write set does so behind the feature `measure`; without it, it has its arena always.)
//!
//! One thread, plain API.

use super::instructions::events;
use super::tables::{Stage, Way};
use super::{Experiment, GAIN_COLUMNS, Setting, counted_options, gain, gain_percent, rate};
use crate::Fail;
use crate::engines::api::{Access, Api, Store};
use crate::progress;
use crate::report::{Cell, Report, Table as Rows};
use crate::workloads::sysbench::{Arena, Events, Hidden, Known, Micro, Referenced, Table};
use std::path::Path;

/// Where memory comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The arena; rows filled by reference
    Arena,
    /// The global allocator, hidden from the compiler; rows filled by reference
    Referenced,
    /// The global allocator, known to the compiler; rows filled by pointer
    Known,
    /// The global allocator, hidden from the compiler; rows filled by pointer
    Hidden,
}

const SOURCES: [Source; 4] = [Source::Arena, Source::Referenced, Source::Known, Source::Hidden];
/// Places in it.
const ARENA: usize = 0;
const REFERENCED: usize = 1;
const KNOWN: usize = 2;
const HIDDEN: usize = 3;

/// The mixes, with what was reported of each.
const MIXES: [(Micro, &str); 3] = [
    (Micro::ReadOnly, "+1.21 %"),
    (Micro::PointSelect, "+0.13 %"),
    (Micro::ReadWrite100, "+0.28 %"),
];

impl Source {
    fn way(self) -> Way {
        Way {
            name: format!("{self:?}"),
            access: Access::new(Api::Plain, 1),
            work: Box::new(move |store, table, micro, seeds| {
                self.events(store, table, micro, seeds)
            }),
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
        latchkv_alloc::ask_for_each_piece(!matches!(self, Source::Arena));
        let done = match self {
            Source::Arena => store.run(Events::<Arena>::new(table, micro, seeds)),
            Source::Referenced => store.run(Events::<Referenced>::new(table, micro, seeds)),
            Source::Known => store.run(Events::<Known>::new(table, micro, seeds)),
            Source::Hidden => store.run(Events::<Hidden>::new(table, micro, seeds)),
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
    let told = ["reported", "old [instructions]", "new [instructions]", "gain [%]"];
    let table = Rows::new("alloc: 1 thread, plain API", &columns).keyed_by(2).told(&told);
    let mut table = table.note(
        "promise: the allocator known to the compiler over the same one hidden from it, which is what the report is \
         about. reference: rows filled through a reference over through a pointer, allocator hidden. arena: over that \
         allocator, both by reference",
    );
    let counts = setting.count(Experiment::Alloc, MIXES.len() * SOURCES.len())?;
    let stage = Stage::new(setting.path, &setting.options(), SOURCES.map(Source::way))?;
    let bar = progress::bar(MIXES.len() as u64, "alloc");
    for (at, (micro, reported)) in MIXES.into_iter().enumerate() {
        let series = stage.timed(setting, micro, 1)?;
        let instructions = |way: usize| {
            let count = counts.as_ref()?[at * SOURCES.len() + way];
            Some(count as f64 / events(micro) as f64)
        };
        let changes = [
            ("promise", Some(reported), HIDDEN, KNOWN),
            ("reference", None, HIDDEN, REFERENCED),
            ("arena", None, REFERENCED, ARENA),
        ];
        for (change, reported, old, new) in changes {
            let mut row: Vec<Cell> = vec![micro.name().into(), change.into(), reported.into()];
            row.extend([rate(&series, old), rate(&series, new)]);
            row.extend(gain(&series, old, new));
            let (old, new) = (instructions(old), instructions(new));
            let gained = old.zip(new).map(|(old, new)| gain_percent(old, new));
            row.extend([old.into(), new.into(), gained.into()]);
            table.push(row);
        }
        bar.step();
    }
    drop(bar);
    stage.close()?;
    report.table(&table)
}

/// Does all mixes with memory from each source, for callgrind.
pub(super) fn count(dir: &Path) -> Result<(), Fail> {
    let stage = Stage::new(dir, &counted_options(), SOURCES.map(Source::way))?;
    MIXES.into_iter().try_for_each(|(micro, _)| stage.count(micro))?;
    stage.close()
}
