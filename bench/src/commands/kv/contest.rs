//! Engines side by side: what each row of the comparison cost them, and how latchkv stands to the best of the others.
//!
//! ```text
//! stands ──row()──> rounds by turns ─┐
//!        one-shot work ── Costs ─────┴──tell()──> a section of the report, and a line of the summary
//!                                                 engine failed, panicked: a message in its cell, retired, status 1
//! ```
//!
//! Costs are such that less is better: nanoseconds an operation, or bytes over raw data. The *best peer* of a row
//! is the one with the least median cost; latchkv is compared with it by the median of the ratios of paired rounds,
//! with its interval, \[B1]. It is chosen after the fact, from the same rounds, which favours it and not
//! latchkv. Durable rows are not compared with an engine whose commits do not reach the medium
//! ([`Ways::to_medium`]).
//!
//! [`Ways::to_medium`]: crate::engines::store::Ways

use super::Args;
use crate::Fail;
use crate::data::{Data, Record};
use crate::engines::guard::guarded;
use crate::engines::kind::Kind;
use crate::engines::store::{Lacks, Setup, Store};
use crate::interval::{self, Ratio};
use crate::report::{Cell, Report, Table};
use crate::rounds::{self, Series, Timing, Variant};
use std::path::{Path, PathBuf};

/// What a row counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// Nanoseconds an operation
    Ns,
    /// Nanoseconds of an operation that has to be on the medium when it returns
    DurableNs,
    /// Bytes of the files over the bytes of keys and values
    OverRaw,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns/op",
            Unit::DurableNs => "ns/op, durable",
            Unit::OverRaw => "x raw data",
        }
    }

    /// Whether the cost of `kind` may be what others are measured by.
    fn counts(self, kind: Kind) -> bool {
        self != Unit::DurableNs || kind.ways().to_medium
    }
}

/// An engine under measurement.
pub(super) struct Stand {
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    pub(super) store: Box<dyn Store>,
}

/// What a row cost each engine in each round, or why there is nothing.
#[derive(Debug)]
pub(super) struct Costs(Vec<(Kind, Result<Vec<f64>, Fail>)>);

impl Costs {
    /// Of `kinds`, none yet.
    pub(super) fn new(kinds: impl IntoIterator<Item = Kind>) -> Costs {
        Costs(kinds.into_iter().map(|kind| (kind, Ok(Vec::new()))).collect())
    }

    /// Adds the cost of a round.
    pub(super) fn push(&mut self, kind: Kind, cost: f64) {
        if let Some((_, Ok(costs))) = self.0.iter_mut().find(|(of, _)| *of == kind) {
            costs.push(cost);
        }
    }

    /// `kind` does not go on.
    pub(super) fn fail(&mut self, kind: Kind, error: Fail) {
        if let Some((_, costs)) = self.0.iter_mut().find(|(of, _)| *of == kind) {
            *costs = Err(error);
        }
    }

    /// Rounds of those that had all of them.
    fn rounds(&self) -> usize {
        self.0.iter().filter_map(|(_, costs)| Some(costs.as_ref().ok()?.len())).max().unwrap_or(0)
    }

    /// Those that have costs of all rounds. The others failed in between, here or in another step.
    fn known(&self) -> impl Iterator<Item = (Kind, &Vec<f64>)> {
        let rounds = self.rounds();
        self.0.iter().filter_map(move |(kind, costs)| {
            let costs = costs.as_ref().ok().filter(|of| !of.is_empty() && of.len() == rounds)?;
            Some((*kind, costs))
        })
    }

    fn series(&self) -> Series {
        Series {
            names: self.known().map(|(kind, _)| kind.name().to_owned()).collect(),
            ns: self.known().map(|(_, costs)| costs.clone()).collect(),
        }
    }
}

/// How latchkv stands to the best of the others.
#[derive(Clone, Copy, Debug)]
struct Standing {
    best: Kind,
    /// Cost of the best over cost of latchkv: above 1, latchkv is better.
    ratio: Ratio,
}

/// A row, as the summary has it.
#[derive(Debug)]
struct Line {
    title: String,
    unit: Unit,
    /// Medians, or why there is none.
    cells: Vec<(Kind, Cell)>,
    standing: Option<Standing>,
    rounds: usize,
}

/// All rows of a run.
#[derive(Debug, Default)]
pub(super) struct Contest {
    lines: Vec<Line>,
    failures: Vec<String>,
}

/// How latchkv stands, if it and a peer that may be compared have costs.
fn standing(unit: Unit, costs: &Costs) -> Option<Standing> {
    let series = costs.series();
    let kinds: Vec<Kind> = costs.known().map(|(kind, _)| kind).collect();
    let ours = kinds.iter().position(|&kind| kind == Kind::Latchkv)?;
    let best = (0..kinds.len())
        .filter(|&which| which != ours && unit.counts(kinds[which]))
        .min_by(|&one, &other| series.median(one).total_cmp(&series.median(other)))?;
    Some(Standing { best: kinds[best], ratio: series.ratio(best, ours) })
}

impl Contest {
    /// Tells a row. What failed in it is kept for the end.
    pub(super) fn tell(
        &mut self,
        report: &mut Report,
        title: &str,
        unit: Unit,
        costs: &Costs,
    ) -> Result<(), Fail> {
        let series = costs.series();
        match unit {
            Unit::Ns | Unit::DurableNs => report.series(title, &series)?,
            Unit::OverRaw => {
                let columns = ["engine", "files [x raw data]", "rounds"];
                let mut table = Table::new(title, &columns).keyed_by(1).all_told();
                for (which, name) in series.names.iter().enumerate() {
                    let rounds = series.ns[which].len();
                    table.push([name.clone().into(), series.median(which).into(), rounds.into()]);
                }
                report.table(&table)?;
            }
        }
        let rounds = costs.rounds();
        let mut cells = Vec::new();
        for (kind, costs) in &costs.0 {
            let cell = match costs {
                Ok(costs) if costs.is_empty() => Cell::None,
                Ok(costs) if costs.len() < rounds => "FAILED".into(),
                Ok(costs) => interval::median(costs).into(),
                Err(error) if error.is::<Lacks>() => {
                    println!("  {:<26}has none: {error}", kind.name());
                    "none".into()
                }
                Err(error) => {
                    self.fail(*kind, title, error);
                    "FAILED".into()
                }
            };
            cells.push((*kind, cell));
        }
        let standing = standing(unit, costs);
        if let Some(Standing { best, ratio }) = standing
            && (unit == Unit::OverRaw || report.tells_times())
        {
            let (best, verdict) = (best.name(), verdict(ratio));
            println!("  latchkv is x{ratio} of the best peer, {best}: {verdict}");
        }
        self.lines.push(Line { title: title.into(), unit, cells, standing, rounds });
        report.headline(&self.behind())
    }

    /// An engine failed in what `doing` says.
    pub(super) fn fail(&mut self, kind: Kind, doing: &str, error: &Fail) {
        println!("  {:<26}FAILED: {error}", kind.name());
        self.failures.push(format!("{}, {doing}: {error}", kind.name()));
    }

    /// Runs rounds of `work` on all stands by turns, and tells the row. Stands that fail are retired.
    #[expect(clippy::too_many_arguments, reason = "a row is what they say")]
    pub(super) fn row<P: Sync>(
        &mut self,
        report: &mut Report,
        stands: &mut Vec<Stand>,
        title: &str,
        unit: Unit,
        (timing, threads): (Timing, usize),
        probes: impl FnMut(u64) -> Vec<P>,
        work: impl Fn(&Stand, &[P]) -> Result<u64, Fail> + Sync,
    ) -> Result<(), Fail> {
        let variants: Vec<Variant<'_, P>> = stands
            .iter()
            .map(|stand| {
                Variant::new(stand.kind.name(), |probes: &[P]| guarded(|| work(stand, probes)))
            })
            .collect();
        let outcomes = rounds::attempt(timing, threads, &variants, probes);
        drop(variants);
        let kinds = stands.iter().map(|stand| stand.kind);
        let costs = Costs(kinds.zip(outcomes).collect());
        self.tell(report, title, unit, &costs)?;
        self.keep(stands, |stand| {
            costs.0.iter().any(|(kind, costs)| *kind == stand.kind && is_fit(costs))
        });
        Ok(())
    }

    /// Does `work` on each stand, one after the other. Stands that fail are retired.
    pub(super) fn on_each(
        &mut self,
        stands: &mut Vec<Stand>,
        doing: &str,
        mut work: impl FnMut(&Stand) -> Result<(), Fail>,
    ) {
        let failed: Vec<Kind> = stands
            .iter()
            .filter_map(|stand| {
                let error = guarded(|| work(stand)).err()?;
                self.fail(stand.kind, doing, &error);
                Some(stand.kind)
            })
            .collect();
        self.keep(stands, |stand| !failed.contains(&stand.kind));
    }

    /// Retires those that are not `fit`. That what failed can be given up without another panic is not taken for
    /// granted.
    fn keep(&mut self, stands: &mut Vec<Stand>, mut fit: impl FnMut(&Stand) -> bool) {
        for retired in stands.extract_if(.., |stand| !fit(stand)) {
            let kind = retired.kind;
            let give_up = || {
                drop(retired);
                Ok(())
            };
            if let Err(error) = guarded(give_up) {
                self.fail(kind, "giving it up", &error);
            }
        }
    }

    /// Closes the stores.
    pub(super) fn close(&mut self, stands: Vec<Stand>) {
        for Stand { kind, store, .. } in stands {
            if let Err(error) = guarded(|| store.close()) {
                self.fail(kind, "closing", &error);
            }
        }
    }

    /// Puts the stands in the order of their turns in `round`.
    pub(super) fn in_turn(stands: &mut Vec<Stand>, round: usize) {
        stands.sort_by_key(|stand| Kind::ALL.iter().position(|&kind| kind == stand.kind));
        let mut left: Vec<Option<Stand>> = std::mem::take(stands).into_iter().map(Some).collect();
        let order = rounds::turns(round, left.len());
        stands.extend(order.into_iter().filter_map(|at| left[at].take()));
    }

    /// Opens a new store of each engine and puts the first `records` of the data set into it, in random order.
    pub(super) fn loaded(
        &mut self,
        args: &Args,
        setup: Setup,
        data: &Data,
        records: u64,
        dir: &Path,
    ) -> Vec<Stand> {
        self.filled(args, setup, dir, || (0..records).map(|at| data.record(at, 0)))
    }

    /// The same with records of another kind, in the order in which `records` gives them to each engine.
    pub(super) fn filled<R: Iterator<Item = Record>>(
        &mut self,
        args: &Args,
        setup: Setup,
        dir: &Path,
        records: impl Fn() -> R,
    ) -> Vec<Stand> {
        let mut stands = Vec::new();
        for &kind in &args.engines {
            let path = dir.join(kind.name());
            let filled = guarded(|| {
                let store = kind.open(&path, setup)?;
                store.put_batches(&mut records(), LOAD_RECORDS)?;
                Ok(store)
            });
            match filled {
                Ok(store) => stands.push(Stand { kind, path, store }),
                Err(error) => self.fail(kind, "opening and loading", &error),
            }
        }
        stands
    }

    /// The rows so far in which latchkv is behind: they come first in every report.
    fn behind(&self) -> Table {
        let mut table = Table::new(
            "rows in which latchkv is behind the best peer",
            &["row", "best peer", "latchkv is x", "from", "to", "verdict"],
        )
        .keyed_by(1);
        for line in &self.lines {
            if let Some(Standing { best, ratio }) = line.standing
                && ratio.median < 1.0
            {
                table.push([
                    line.title.clone().into(),
                    best.name().into(),
                    ratio.median.into(),
                    ratio.low.into(),
                    ratio.high.into(),
                    verdict(ratio).into(),
                ]);
            }
        }
        let compared = self.lines.iter().filter(|line| line.standing.is_some()).count();
        let note = format!("{} of {compared} rows that were compared", table.rows.len());
        table.note(note)
    }

    /// Prints the summary: rows in which latchkv is behind first, then all rows, then what failed.
    pub(super) fn summary(&self, args: &Args, report: &mut Report) -> Result<(), Fail> {
        report.show(&self.behind());
        report.headline(&self.behind())?;
        let mut columns = vec!["row", "unit"];
        columns.extend(args.engines.iter().map(|kind| kind.name()));
        columns.extend(["best peer", "latchkv is x", "from", "to", "rounds"]);
        let title = "all rows: medians, less is better";
        let mut table = Table::new(title, &columns).keyed_by(2).told(&["rounds"]);
        for line in &self.lines {
            let mut row = vec![line.title.clone().into(), line.unit.name().into()];
            for kind in &args.engines {
                let cell = line.cells.iter().find(|(of, _)| of == kind);
                row.push(cell.map_or("out".into(), |(_, cell)| cell.clone()));
            }
            match line.standing {
                Some(Standing { best, ratio }) => row.extend([
                    best.name().into(),
                    ratio.median.into(),
                    ratio.low.into(),
                    ratio.high.into(),
                ]),
                None => row.extend([Cell::None, Cell::None, Cell::None, Cell::None]),
            }
            row.push(line.rounds.into());
            table.push(row);
        }
        report.table(&table.note(
            "latchkv is x: cost of the best peer over cost of latchkv, so above 1 latchkv is better; \
             below six rounds there is no verdict, and from and to are the least and the greatest; none: the engine has \
             nothing of the kind; out: it failed before",
        ))?;
        if !self.failures.is_empty() {
            let columns = ["number", "engine, row, and why"];
            let mut table = Table::new("what failed", &columns).keyed_by(1).all_told();
            for (at, failure) in self.failures.iter().enumerate() {
                table.push([(at + 1).into(), failure.clone().into()]);
            }
            report.table(&table)?;
        }
        Ok(())
    }

    /// Number of rows told.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.lines.len()
    }

    /// # Errors
    /// If an engine failed.
    pub(super) fn verdict(&self) -> Result<(), Fail> {
        match self.failures.len() {
            0 => Ok(()),
            count => Err(format!("{count} rows failed: {}", self.failures.join("; ")).into()),
        }
    }
}

/// Records of a commit of the load.
const LOAD_RECORDS: usize = 100_000;

/// Whether an engine may go on after a row. One that has nothing of the kind may.
fn is_fit(costs: &Result<Vec<f64>, Fail>) -> bool {
    match costs {
        Ok(_) => true,
        Err(error) => error.is::<Lacks>(),
    }
}

/// What may be said of such a ratio.
fn verdict(ratio: Ratio) -> &'static str {
    ratio.verdict("latchkv is ahead", "latchkv is behind")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(ns: &[f64]) -> Costs {
        let mut costs = Costs::new([Kind::Latchkv]);
        ns.iter().for_each(|&ns| costs.push(Kind::Latchkv, ns));
        costs
    }

    #[test]
    fn alone_there_is_nobody_to_be_compared_with() {
        assert!(standing(Unit::Ns, &costs(&[1.0, 2.0])).is_none());
    }

    #[test]
    fn costs_of_an_engine_that_failed_do_not_count() {
        let mut costs = costs(&[1.0]);
        costs.fail(Kind::Latchkv, "out of order".into());
        costs.push(Kind::Latchkv, 2.0);
        assert_eq!(costs.known().count(), 0);
    }

    #[cfg(feature = "peers")]
    #[test]
    fn an_engine_that_failed_in_between_has_no_figure_and_leaves_no_gap() {
        let mut costs = Costs::new([Kind::Latchkv, Kind::Lmdb]);
        (0..7).for_each(|_| costs.push(Kind::Latchkv, 2.0));
        (0..3).for_each(|_| costs.push(Kind::Lmdb, 1.0));
        assert_eq!(costs.series().names, [Kind::Latchkv.name()]);
        assert!(standing(Unit::Ns, &costs).is_none());
        let args = crate::report::Output { json: None, dir: None, quick: true };
        let mut report = Report::start("kv", serde_json::json!({}), &args).expect("a report");
        let mut contest = Contest::default();
        contest.tell(&mut report, "a row", Unit::Ns, &costs).expect("told");
        let cells = contest.lines[0].cells.iter().map(|(_, cell)| cell.clone());
        assert_eq!(cells.collect::<Vec<_>>(), [Cell::Number(2.0), "FAILED".into()]);
    }

    #[cfg(feature = "peers")]
    #[test]
    fn the_best_peer_is_the_one_with_the_least_median_and_a_ratio_above_one_is_ours() {
        let mut costs = Costs::new([Kind::Lmdb, Kind::Latchkv, Kind::Redb, Kind::Sled]);
        for round in 0..9 {
            let weather = 1.0 + f64::from(round);
            costs.push(Kind::Latchkv, 10.0 * weather);
            costs.push(Kind::Lmdb, 20.0 * weather);
            costs.push(Kind::Redb, 15.0 * weather);
            costs.push(Kind::Sled, weather);
        }
        let at = standing(Unit::DurableNs, &costs).expect("there are peers");
        assert_eq!((at.best, at.ratio.median), (Kind::Redb, 1.5));
        assert_eq!(verdict(at.ratio), "latchkv is ahead");
        let at = standing(Unit::Ns, &costs).expect("there are peers");
        assert_eq!((at.best, verdict(at.ratio)), (Kind::Sled, "latchkv is behind"));
    }
}
