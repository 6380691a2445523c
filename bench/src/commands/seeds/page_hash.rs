//! Latches of the page hash in an array apart, few and more, beside one in each cell: TPC-C, and reads at random.
//!
//! After MySQL bug 118866 (PR 618): readers of all pages took one of 16 latches an instance, and the function that takes
//! them stood first in the profile; with more of them it stood lower. Here the old ways are 16, 1024 and 16384 latches in
//! an array, padded to 128 bytes each and taken in shared mode by every look-up; the new way is a latch in each cell, which
//! a look-up only reads. Frame hints are off in all ways, so that every page of a descent is found by the hash, as in the
//! server that was reported on: with hints, what ships hardly asks the hash at all.
//!
//! Two cores do not crowd a latch as 192 do, so throughput moves little here. What shows the gain is
//!
//! * the share of time: the number of look-ups of a transaction, which the pool counts, times what one look-up, or its
//!   latch, costs alone on as many threads (`look_ups`), against the time of a transaction. It is not read from a profile:
//!   samples would have to tell a few instructions of an inlined descent from their neighbours;
//! * instructions, of a transaction and of a read;
//! * crowding: look-ups that met another at their latch, which the page hash counts while the rounds run.
//!
//! With one thread all ways must commit the same transactions and read the same bytes. After TPC-C its consistency
//! conditions must hold.

use super::instructions::{self, OPERATIONS, counted};
use super::look_ups::{Alone, of_thousand};
use super::{Experiment, GAIN_COLUMNS, Setting, counted_options, gain, gain_percent, rate};
use crate::data::{Data, Key};
use crate::engines::Touch;
use crate::engines::api::{Access, Api, Store};
use crate::report::{Cell, Report, Table};
use crate::rounds::{self, Series, Timing, Variant};
use crate::workloads::tpcc::{Homes, NAMESPACE, Scale, TREES, Tpcc};
use crate::{Fail, progress};
use fastrand::Rng;
use latchkv::{Db, Options, PageHashLatches, Tree};
use latchkv_latch::{LatchPlacement, Line64, PageHash};
use std::path::Path;

/// Where the latches lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// One in each cell
    PerCell,
    /// 16 in an array
    Apart16,
    /// 1024 in an array
    Apart1024,
    /// 16384 in an array
    Apart16384,
}

/// All, the new way first.
pub(super) const PLACES: [Place; 4] =
    [Place::PerCell, Place::Apart16, Place::Apart1024, Place::Apart16384];
/// Its place in it.
const PER_CELL: usize = 0;
/// Transactions of a round over operations of one: a transaction is as much work as some hundred reads.
const OPS_A_TRANSACTION: usize = 100;
/// Transactions of a round, at least.
const TRANSACTIONS_MIN: usize = 200;
/// Reads of a round over operations of one, so that threads that start late do not decide a short round.
const READS_AN_OPERATION: usize = 5;
/// Transactions over which look-ups are counted.
const COUNTED: usize = 500;
/// Transactions whose instructions are counted.
const TRANSACTIONS_COUNTED: usize = 50;
/// Rows of the table for a warehouse of full scale.
const ROWS_A_WAREHOUSE: u32 = 100_000;
const WAREHOUSES_MAX: u32 = 4;

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::PerCell => "per cell",
            Place::Apart16 => "16 apart",
            Place::Apart1024 => "1024 apart",
            Place::Apart16384 => "16384 apart",
        }
    }

    /// How many there are apart; `None` if one is in each cell.
    pub(super) fn apart(self) -> Option<usize> {
        match self {
            Place::PerCell => None,
            Place::Apart16 => Some(16),
            Place::Apart1024 => Some(1024),
            Place::Apart16384 => Some(16384),
        }
    }

    fn options(self, options: Options) -> Options {
        let latches = match self.apart() {
            None => PageHashLatches::PerCell,
            Some(count) => PageHashLatches::Outside { count },
        };
        options.frame_hints(false).page_hash_latches(latches)
    }

    pub(super) fn hash(self, pages: usize) -> PageHash<Line64> {
        PageHash::new(
            pages,
            match self.apart() {
                None => LatchPlacement::PerCell,
                Some(count) => LatchPlacement::Outside { count },
            },
        )
    }
}

/// A database with TPC-C's data.
struct Stage {
    store: Store,
    tpcc: Tpcc,
}

impl Stage {
    fn load(options: &Options, path: &Path, scale: Scale) -> Result<Stage, Fail> {
        let access = Access::new(Api::Plain, 1);
        let store = Store::create(path, options, access, NAMESPACE, &TREES)?;
        let tpcc = Tpcc::load(&store, scale, 1, &mut |_| ())?;
        Ok(Stage { store, tpcc })
    }

    /// Runs a transaction a seed, the first of which all of them are drawn from. Gives the number of those that commit, or
    /// of all if others work beside, whose conflicts are nobody's doing.
    fn transactions(&self, seeds: &[u64], alone: bool) -> Result<u64, Fail> {
        let Some(&seed) = seeds.first() else { return Ok(0) };
        let connection = self.store.plain();
        let mut worker = self.tpcc.worker(&connection, Homes::Any)?;
        let mut rng = Rng::with_seed(seed);
        let mut committed = 0;
        for _ in seeds {
            committed += u64::from(worker.one(&mut rng)?.is_committed);
        }
        Ok(if alone { committed } else { seeds.len() as u64 })
    }

    /// Look-ups in the page hash of a transaction.
    fn look_ups(&self) -> Result<f64, Fail> {
        let before = self.store.db().stats().pool.hash_hits;
        self.transactions(&[1; COUNTED], true)?;
        Ok((self.store.db().stats().pool.hash_hits - before) as f64 / COUNTED as f64)
    }
}

/// Runs it.
pub(super) fn run(setting: &Setting<'_>, report: &mut Report) -> Result<(), Fail> {
    let factor = f64::from(setting.rows) / f64::from(ROWS_A_WAREHOUSE);
    let warehouses = (factor.ceil() as u32).clamp(1, WAREHOUSES_MAX);
    let scale = Scale::new(warehouses, factor.min(1.0));
    let mut stages = Vec::new();
    let bar = progress::bar(PLACES.len() as u64, "loading TPC-C");
    for place in PLACES {
        let options = place.options(setting.options());
        stages.push(Stage::load(&options, &setting.path.join(place.name()), scale)?);
        bar.step();
    }
    drop(bar);
    let stats = stages[PER_CELL].store.db().stats().pool;
    let pages = (stats.frames - stats.frames_free) as u32;
    let counts = setting.count(Experiment::PageHash, 2 * PLACES.len())?;
    let (of_transactions, of_reads) = match &counts {
        Some(counts) => {
            let (transactions, reads) = counts.split_at(PLACES.len());
            (each(transactions, TRANSACTIONS_COUNTED), each(reads, OPERATIONS))
        }
        None => (None, None),
    };
    let mut threads = vec![1, setting.threads];
    threads.dedup();
    for threads in threads {
        let alone = Alone::measure(setting, pages, threads)?;
        alone.report(report, pages, threads)?;
        let before = stages.iter().map(|stage| Met::of(stage.store.db())).collect::<Vec<_>>();
        let series = transactions(setting, &stages, threads)?;
        let crowded =
            stages.iter().zip(before).map(|(stage, met)| met.crowded_since(stage.store.db()));
        let measured = Measured {
            series,
            crowded: crowded.collect(),
            instructions: of_transactions.as_deref(),
        };
        let what = format!("TPC-C, {warehouses} warehouse(s), {threads} thread(s)");
        report.table(&table(&what, "transactions/s", &measured, Some((&stages, &alone)))?)?;
        let (series, crowded) = reads(setting, threads)?;
        let measured = Measured { series, crowded, instructions: of_reads.as_deref() };
        let what = format!("reads at random, {threads} thread(s)");
        report.table(&table(&what, "reads/s", &measured, None)?)?;
    }
    for Stage { store, tpcc } in stages {
        tpcc.check(store.db())?;
        drop(tpcc);
        store.close()?;
    }
    Ok(())
}

/// Instructions of one of `operations`, for each way.
fn each(counts: &[u64], operations: usize) -> Option<Vec<f64>> {
    Some(counts.iter().map(|&count| count as f64 / operations as f64).collect())
}

/// Look-ups of a database so far that found their page, and those that met another at their latch.
struct Met {
    found: u64,
    crowded: Option<u64>,
}

impl Met {
    fn of(db: &Db) -> Met {
        #[cfg(feature = "measure")]
        let crowded = Some(db.page_hash_crowded());
        #[cfg(not(feature = "measure"))]
        let crowded = None;
        Met { found: db.stats().pool.hash_hits, crowded }
    }

    /// Those that met another since then, of a thousand; `None` in a build that does not count them.
    fn crowded_since(self, db: &Db) -> Option<f64> {
        let now = Met::of(db);
        let crowded = now.crowded.zip(self.crowded).map(|(now, before)| now - before);
        of_thousand(crowded, now.found - self.found)
    }
}

/// What was measured of all ways.
struct Measured<'a> {
    series: Series,
    /// Look-ups of a thousand that met another at their latch.
    crowded: Vec<Option<f64>>,
    /// Of an operation.
    instructions: Option<&'a [f64]>,
}

/// What each way reaches, and what one latch in each cell gains over it.
fn table(
    what: &str,
    rates: &str,
    measured: &Measured<'_>,
    shares: Option<(&[Stage], &Alone)>,
) -> Result<Table, Fail> {
    let series = &measured.series;
    let mut columns = vec!["latches", rates, "reported"];
    columns.extend(GAIN_COLUMNS);
    columns.extend(["crowded of 1000 look-ups", "instructions", "in instructions [%]"]);
    if shares.is_some() {
        columns.extend([
            "look-ups",
            "look-ups, of time [%]",
            "their latch, of time [%]",
            "reported share [%]",
        ]);
    }
    let mut table = Table::new(format!("page-hash: {what}, gain of a latch in each cell"), &columns)
        .note("reported: more latches in the array, 1.10 to 1.12 million tpmC on 192 cores; frame hints are off")
        .keyed_by(1)
        .told(&["reported", "instructions", "in instructions [%]"]);
    if shares.is_some() {
        table = table.told(&["look-ups", "reported share [%]"]);
    }
    for (which, place) in PLACES.into_iter().enumerate() {
        let old = place == Place::Apart16;
        let reported = if old { Cell::from("+1.8 %") } else { Cell::None };
        let mut row = vec![place.name().into(), rate(series, which), reported];
        row.extend(if which == PER_CELL {
            [const { Cell::None }; GAIN_COLUMNS.len()]
        } else {
            gain(series, which, PER_CELL)
        });
        let instructions = |way: usize| measured.instructions.map(|counts| counts[way]);
        let both = instructions(which).zip(instructions(PER_CELL)).filter(|_| which != PER_CELL);
        row.extend([
            measured.crowded[which].into(),
            instructions(which).into(),
            both.map(|(old, new)| gain_percent(old, new)).into(),
        ]);
        if let Some((stages, alone)) = shares {
            let look_ups = stages[which].look_ups()?;
            let share = |ns: f64| 100.0 * look_ups * ns / series.median(which);
            row.extend([
                look_ups.into(),
                share(alone.look_up_ns(which)).into(),
                // In a cell none is taken.
                share(alone.latch_ns(place).unwrap_or(0.0)).into(),
                match place {
                    Place::Apart16 => "2.04".into(),
                    Place::Apart1024 => "0.93".into(),
                    _ => Cell::None,
                },
            ]);
        }
        table.push(row);
    }
    Ok(table)
}

fn transactions(setting: &Setting<'_>, stages: &[Stage], threads: usize) -> Result<Series, Fail> {
    let ops = (setting.timing.ops / OPS_A_TRANSACTION).max(TRANSACTIONS_MIN);
    let variants: Vec<Variant<'_, u64>> = PLACES
        .into_iter()
        .zip(stages)
        .map(|(place, stage)| {
            Variant::new(place.name(), move |seeds: &[u64]| stage.transactions(seeds, threads == 1))
        })
        .collect();
    let timing = Timing { ops, ..setting.timing }.on(threads);
    let ops = timing.ops;
    rounds::run(timing, threads, &variants, |round| {
        let mut random = Rng::with_seed(round);
        (0..ops).map(|_| random.u64(..)).collect()
    })
}

/// Times reads; with them, the look-ups of a thousand that met another at their latch.
fn reads(setting: &Setting<'_>, threads: usize) -> Result<(Series, Vec<Option<f64>>), Fail> {
    let data = Data { seed: 1, records: u64::from(setting.rows) };
    let dir = tempfile::tempdir_in(setting.path)?;
    let mut trees: Vec<(Db, Tree)> = Vec::new();
    for place in PLACES {
        let options = place.options(setting.options());
        trees.push(tree(&options, &dir.path().join(place.name()), &data)?);
    }
    let before: Vec<Met> = trees.iter().map(|(db, _)| Met::of(db)).collect();
    let variants: Vec<Variant<'_, Key>> = PLACES
        .into_iter()
        .zip(&trees)
        .map(|(place, (_, tree))| Variant::new(place.name(), move |keys: &[Key]| sum(tree, keys)))
        .collect();
    let ops = setting.timing.ops * READS_AN_OPERATION;
    let timing = Timing { ops, ..setting.timing }.on(threads);
    let series = rounds::run(timing, threads, &variants, |round| data.probes(round, timing.ops))?;
    drop(variants);
    let crowded = trees.iter().zip(before).map(|((db, _), met)| met.crowded_since(db)).collect();
    for (db, tree) in trees {
        drop(tree);
        db.close()?;
    }
    Ok((series, crowded))
}

/// A database with one tree of all records.
fn tree(options: &Options, path: &Path, data: &Data) -> Result<(Db, Tree), Fail> {
    let db = options.create(path)?;
    let tree = db.tree("reads")?;
    tree.bulk_load(data.sorted().into_iter().map(|(key, at)| (key, data.value(at, 0))))?;
    Ok((db, tree))
}

fn sum(tree: &Tree, keys: &[Key]) -> Result<u64, Fail> {
    let mut sum = 0_u64;
    for key in keys {
        let value = tree.get_with(key, |value| Touch::Ends.sum(value))?;
        sum = sum.wrapping_add(value.ok_or("a record is absent")?);
    }
    Ok(sum)
}

/// Does transactions each way, and then reads, for callgrind.
pub(super) fn count(dir: &Path) -> Result<(), Fail> {
    let factor = f64::from(instructions::ROWS) / f64::from(ROWS_A_WAREHOUSE);
    for place in PLACES {
        let options = place.options(counted_options());
        let stage = Stage::load(&options, &dir.join(place.name()), Scale::new(1, factor))?;
        stage.transactions(&[1; TRANSACTIONS_COUNTED], true)?;
        counted(&mut || stage.transactions(&[2; TRANSACTIONS_COUNTED], true))?;
        stage.tpcc.check(stage.store.db())?;
    }
    let data = Data { seed: 1, records: u64::from(instructions::ROWS) };
    let (warm_up, keys) = (data.probes(0, OPERATIONS), data.probes(1, OPERATIONS));
    for place in PLACES {
        let path = dir.join(format!("{}, reads", place.name()));
        let (db, tree) = tree(&place.options(counted_options()), &path, &data)?;
        sum(&tree, &warm_up)?;
        counted(&mut || sum(&tree, &keys))?;
        drop(tree);
        db.close()?;
    }
    Ok(())
}
