//! Rights looked up eagerly beside lazily: the ten microbenchmarks that change rows, through sessions.
//!
//! After facebook/mysql-5.6, issue 1473: a commit asked for a right that only a read-only database makes necessary,
//! each time. The eager policy of sessions computes every right in each call, by names in a map behind a latch; the lazy
//! one compares an epoch, and asks for such a right only when the namespace is not simply writable. The eager policy does
//! so in each call of a transaction and each step of a scan, where that server did once a commit, so it costs more here.
//!
//! With one thread both must find the same rows with the same contents, with several the same number of rows.

use super::instructions::events;
use super::tables::{Stage, Way};
use super::{Experiment, GAIN_COLUMNS, Setting, counted_options, gain, gain_percent, rate};
use crate::Fail;
use crate::engines::api::{Access, Api};
use crate::progress;
use crate::report::{Cell, Report, Table as Rows};
use crate::workloads::sysbench::{Arena, Events, Micro};
use latchkv::Policy;
use std::path::Path;

/// When rights are looked up.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// An epoch is compared
    Lazy,
    /// Every right is looked up
    Eager,
}

const CHECKS: [Check; 2] = [Check::Lazy, Check::Eager];
/// Places in it.
const LAZY: usize = 0;
const EAGER: usize = 1;

impl Check {
    fn way(self, threads: usize) -> Way {
        let policy = match self {
            Check::Lazy => Policy::Lazy,
            Check::Eager => Policy::Eager,
        };
        Way {
            name: format!("{self:?}"),
            access: Access { policy, ..Access::new(Api::Session, threads) },
            work: Box::new(move |store, table, micro, seeds| {
                let done = store.run(Events::<Arena>::new(table, micro, seeds))?;
                // What others have written meanwhile shows in the contents.
                Ok(if threads == 1 { done.rows.wrapping_add(done.sum) } else { done.rows })
            }),
        }
    }
}

/// Runs it.
pub(super) fn run(setting: &Setting<'_>, report: &mut Report) -> Result<(), Fail> {
    times(setting, report, 1, "+1 to +5 %")?;
    if setting.threads > 1 {
        times(setting, report, setting.threads, "about +1 %, at 16 to 24 threads")?;
    }
    instructions(setting, report)
}

fn times(
    setting: &Setting<'_>,
    report: &mut Report,
    threads: usize,
    reported: &str,
) -> Result<(), Fail> {
    let title = format!("privilege: sessions, rights lazily over eagerly, {threads} thread(s)");
    let mut columns = vec!["benchmark", "reported", "eager [events/s]", "lazy [events/s]"];
    columns.extend(GAIN_COLUMNS);
    let mut table = Rows::new(title, &columns).keyed_by(1).told(&["reported"]);
    let dir = tempfile::tempdir_in(setting.path)?;
    let ways = CHECKS.map(|check| check.way(threads));
    let stage = Stage::new(dir.path(), &setting.options(), ways)?;
    let bar = progress::bar(Micro::WRITING.len() as u64, format!("{threads} thread(s)"));
    for micro in Micro::WRITING {
        let series = stage.timed(setting, micro, threads)?;
        let (eager, lazy) = (rate(&series, EAGER), rate(&series, LAZY));
        let mut row = vec![micro.name().into(), reported.into(), eager, lazy];
        row.extend(gain(&series, EAGER, LAZY));
        table.push(row);
        bar.step();
    }
    drop(bar);
    stage.close()?;
    report.table(&table)
}

fn instructions(setting: &Setting<'_>, report: &mut Report) -> Result<(), Fail> {
    let calls = Micro::WRITING.len() * CHECKS.len();
    let Some(counts) = setting.count(Experiment::Privilege, calls)? else { return Ok(()) };
    let columns = ["benchmark", "eager", "lazy", "gain [%]", "share of the check [%]", "reported"];
    let mut table = Rows::new("privilege: instructions an event, 1 thread", &columns)
        .note("the check's share is what eager has over lazy, of eager")
        .keyed_by(1)
        .all_told();
    for (micro, counts) in Micro::WRITING.into_iter().zip(counts.chunks(CHECKS.len())) {
        let [lazy, eager] = [LAZY, EAGER].map(|way| counts[way] as f64 / events(micro) as f64);
        let share = (eager - lazy) / eager * 100.0;
        let (name, gain) = (Cell::from(micro.name()), gain_percent(eager, lazy));
        table.push([name, eager.into(), lazy.into(), gain.into(), share.into(), "2 %".into()]);
    }
    report.table(&table)
}

/// Does all benchmarks both ways, for callgrind.
pub(super) fn count(dir: &Path) -> Result<(), Fail> {
    let stage = Stage::new(dir, &counted_options(), CHECKS.map(|check| check.way(1)))?;
    Micro::WRITING.into_iter().try_for_each(|micro| stage.count(micro))?;
    stage.close()
}
