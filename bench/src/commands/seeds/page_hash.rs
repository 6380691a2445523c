//! Latches of the page hash in an array apart, few and more, beside one in each cell: TPC-C, and reads at random.
//!
//! After MySQL bug 118866 (PR 618): readers of all pages took one of 16 latches an instance, and the function that takes
//! them stood first in the profile; with more of them it stood lower. Here the old ways are 16, 1024 and 16384 latches in
//! an array, padded to 128 bytes each and taken in shared mode by every look-up; the new way is a latch in each cell, which
//! a look-up only reads. Frame hints are off in all ways, so that every page of a descent is found by the hash, as in the
//! server that was reported on: with hints, what ships hardly asks the hash at all.
//!
//! The latch's share of a transaction is not read from a profile. It is the number of look-ups of a transaction, which the
//! pool counts, times what one look-up costs alone, over as many pages at random, against the time of a transaction.
//!
//! With one thread all ways must commit the same transactions and read the same bytes. After TPC-C its consistency
//! conditions must hold.

use super::instructions::{self, counted};
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
enum Place {
    /// One in each cell
    PerCell,
    /// 16 in an array
    Apart16,
    /// 1024 in an array
    Apart1024,
    /// 16384 in an array
    Apart16384,
}

const PLACES: [Place; 4] = [Place::PerCell, Place::Apart16, Place::Apart1024, Place::Apart16384];
/// Place of the new way in it.
const PER_CELL: usize = 0;
/// Transactions of a round over operations of one: a transaction is as much work as some hundred reads.
const OPS_A_TRANSACTION: usize = 100;
/// Transactions of a round, at least.
const TRANSACTIONS_MIN: usize = 40;
/// Transactions over which look-ups are counted.
const COUNTED: usize = 500;
/// Transactions whose instructions are counted.
const TRANSACTIONS_COUNTED: usize = 50;
/// Rows of the table for a warehouse of full scale.
const ROWS_A_WAREHOUSE: u32 = 100_000;
const WAREHOUSES_MAX: u32 = 4;

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::PerCell => "per cell",
            Place::Apart16 => "16 apart",
            Place::Apart1024 => "1024 apart",
            Place::Apart16384 => "16384 apart",
        }
    }

    /// How many there are apart; `None` if one is in each cell.
    fn apart(self) -> Option<usize> {
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

    fn hash(self, pages: usize) -> PageHash<Line64> {
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
    let costs = look_ups_alone(setting, (stats.frames - stats.frames_free) as u32)?;
    let counts = setting.count(Experiment::PageHash, PLACES.len())?;
    for threads in [1, setting.threads] {
        let series = transactions(setting, &stages, threads)?;
        let what = format!("TPC-C, {warehouses} warehouse(s), {threads} thread(s)");
        report.table(&table(
            &what,
            "transactions/s",
            &series,
            Some((&stages, &costs, counts.as_deref())),
        )?)?;
        let series = reads(setting, threads)?;
        let what = format!("reads at random, {threads} thread(s)");
        report.table(&table(&what, "reads/s", &series, None)?)?;
        if setting.threads == 1 {
            break;
        }
    }
    for Stage { store, tpcc } in stages {
        tpcc.check(store.db())?;
        drop(tpcc);
        store.close()?;
    }
    Ok(())
}

/// The databases, what a look-up costs alone, and the instructions of [`TRANSACTIONS_COUNTED`].
type Shares<'a> = (&'a [Stage], &'a Series, Option<&'a [u64]>);

/// What each way reaches, and what one latch in each cell gains over it.
fn table(
    what: &str,
    rates: &str,
    series: &Series,
    shares: Option<Shares<'_>>,
) -> Result<Table, Fail> {
    let mut columns = vec!["latches", rates, "reported"];
    columns.extend(GAIN_COLUMNS);
    if shares.is_some() {
        columns.extend([
            "look-ups",
            "a look-up alone [ns]",
            "look-ups, of time [%]",
            "reported share [%]",
            "instructions",
            "in instructions [%]",
        ]);
    }
    let mut table = Table::new(format!("page-hash: {what}, gain of a latch in each cell"), &columns)
        .note("reported: more latches in the array, 1.10 to 1.12 million tpmC on 192 cores; frame hints are off");
    for (which, place) in PLACES.into_iter().enumerate() {
        let old = place == Place::Apart16;
        let reported = if old { Cell::from("+1.8 %") } else { Cell::None };
        let mut row = vec![place.name().into(), rate(series, which), reported];
        row.extend(if which == PER_CELL {
            [const { Cell::None }; GAIN_COLUMNS.len()]
        } else {
            gain(series, which, PER_CELL)
        });
        if let Some((stages, costs, counts)) = shares {
            let look_ups = stages[which].look_ups()?;
            let ns = costs.median(which);
            let instructions =
                |way: usize| counts.map(|counts| counts[way] as f64 / TRANSACTIONS_COUNTED as f64);
            let both = instructions(which).zip(instructions(PER_CELL));
            row.extend([
                look_ups.into(),
                ns.into(),
                (100.0 * look_ups * ns / series.median(which)).into(),
                match place {
                    Place::Apart16 => "2.04".into(),
                    Place::Apart1024 => "0.93".into(),
                    _ => Cell::None,
                },
                instructions(which).into(),
                both.filter(|_| which != PER_CELL).map(|(old, new)| gain_percent(old, new)).into(),
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
    rounds::run(Timing { ops, ..setting.timing }, threads, &variants, |round| {
        let mut random = Rng::with_seed(round);
        (0..ops).map(|_| random.u64(..)).collect()
    })
}

fn reads(setting: &Setting<'_>, threads: usize) -> Result<Series, Fail> {
    let data = Data { seed: 1, records: u64::from(setting.rows) };
    let dir = tempfile::tempdir_in(setting.path)?;
    let mut trees: Vec<(Db, Tree)> = Vec::new();
    for place in PLACES {
        let db = place.options(setting.options()).create(dir.path().join(place.name()))?;
        let tree = db.tree("reads")?;
        tree.bulk_load(data.sorted().into_iter().map(|(key, at)| (key, data.value(at, 0))))?;
        trees.push((db, tree));
    }
    let variants: Vec<Variant<'_, Key>> = PLACES
        .into_iter()
        .zip(&trees)
        .map(|(place, (_, tree))| Variant::new(place.name(), move |keys: &[Key]| sum(tree, keys)))
        .collect();
    let ops = setting.timing.ops;
    let series = rounds::run(setting.timing, threads, &variants, |round| data.probes(round, ops))?;
    drop(variants);
    for (db, tree) in trees {
        drop(tree);
        db.close()?;
    }
    Ok(series)
}

fn sum(tree: &Tree, keys: &[Key]) -> Result<u64, Fail> {
    let mut sum = 0_u64;
    for key in keys {
        let value = tree.get_with(key, |value| Touch::Ends.sum(value))?;
        sum = sum.wrapping_add(value.ok_or("a record is absent")?);
    }
    Ok(sum)
}

/// What a look-up costs by itself, on one thread, of one page of `pages` after the other at random.
fn look_ups_alone(setting: &Setting<'_>, pages: u32) -> Result<Series, Fail> {
    let hashes = PLACES.map(|place| place.hash(pages as usize));
    for hash in &hashes {
        for frame in 0..pages {
            hash.insert(u64::from(frame) + 1, frame).map_err(|_| "a page was entered twice")?;
        }
    }
    let variants: Vec<Variant<'_, u64>> = PLACES
        .into_iter()
        .zip(&hashes)
        .map(|(place, hash)| {
            Variant::new(place.name(), move |wanted: &[u64]| {
                let found = wanted.iter().map(|&page| hash.lookup(page).map_or(0, u64::from));
                Ok(found.fold(0, u64::wrapping_add))
            })
        })
        .collect();
    rounds::run(setting.timing, 1, &variants, |round| {
        let mut random = Rng::with_seed(round);
        (0..setting.timing.ops).map(|_| random.u64(1..=u64::from(pages))).collect()
    })
}

/// Does transactions each way, for callgrind.
pub(super) fn count(dir: &Path) -> Result<(), Fail> {
    let factor = f64::from(instructions::ROWS) / f64::from(ROWS_A_WAREHOUSE);
    for place in PLACES {
        let options = place.options(counted_options());
        let stage = Stage::load(&options, &dir.join(place.name()), Scale::new(1, factor))?;
        stage.transactions(&[1; TRANSACTIONS_COUNTED], true)?;
        counted(&mut || stage.transactions(&[2; TRANSACTIONS_COUNTED], true))?;
        stage.tpcc.check(stage.store.db())?;
    }
    Ok(())
}
