//! Power cuts, full disks and failing disks, on the simulated disk.
//!
//! One thread does random calls and remembers what the trees held at each checkpoint. The disk remembers its
//! state after every call. Whatever a power cut leaves of any of these states must open, be whole, and hold
//! what the last completed checkpoint held, or the one in progress. The database's own background thread
//! writes back in between, so that runs of one seed may differ in the order of writes; what is asserted holds
//! for all of them.
//!
//! - `cuts`: the power fails, at every sync, after any call, and again while the first cut is recovered from.
//! - `faults`: the disk is full or gives errors, at every call.

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod faults;

use common::matrix::Case;
use common::{Model, assert_whole, value_of};
use fastrand::Rng;
use latchkv::io::SimDisk;
use latchkv::io::sim::OpKind;
use latchkv::{Db, Error, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All trees by name.
type Trees = BTreeMap<String, Model>;

/// A state that a checkpoint made durable between two counts of disk calls.
struct Durable {
    trees: Trees,
    begun_at: u64,
    /// `None` while it is not known to have succeeded.
    done_at: Option<u64>,
}

struct Run {
    case: Case,
    disk: Arc<SimDisk>,
    db: Db,
    trees: Trees,
    durable: Vec<Durable>,
    rng: Rng,
    generation: u64,
}

impl Run {
    fn new(case: Case, options: &Options, seed: u64) -> Run {
        let disk = Arc::new(SimDisk::new(seed));
        let db = options.open_disk(disk.clone()).expect("an empty disk");
        let first =
            Durable { trees: Trees::new(), begun_at: 0, done_at: Some(disk.op_count(OpKind::Any)) };
        let rng = Rng::with_seed(seed);
        Run { case, disk, db, trees: Trees::new(), durable: vec![first], rng, generation: 0 }
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        let begun_at = self.disk.op_count(OpKind::Any);
        self.durable.push(Durable { trees: self.trees.clone(), begun_at, done_at: None });
        self.db.checkpoint()?;
        let last = self.durable.last_mut().expect("pushed above");
        last.done_at = Some(self.disk.op_count(OpKind::Any));
        Ok(())
    }

    /// One random call. After an error nothing of it may have happened, but that a drop or a clear may have
    /// been done without giving its pages back.
    fn step(&mut self) -> Result<(), Error> {
        let name = ["a", "b", "c"][self.rng.usize(0..3)].to_owned();
        let key = match self.rng.u32(0..20) {
            0 => vec![b'l'; 500 * self.case.units()],
            _ => self.rng.u32(0..300).to_be_bytes().to_vec(),
        };
        self.generation += 1;
        let len = match self.rng.u32(0..30) {
            0 => self.rng.usize(1000..30_000 + 2 * self.case.page_bytes as usize),
            1 => 0,
            _ => self.rng.usize(0..400 * self.case.units()),
        };
        let value = value_of(&key, self.generation, len);
        let draw = self.rng.u32(0..1000);
        if draw >= 990 {
            return self.checkpoint();
        }
        let tree = self.db.tree(&name)?;
        let model = self.trees.entry(name.clone()).or_default();
        match draw {
            0..600 => {
                tree.put(&key, &value)?;
                model.insert(key, value);
            }
            600..900 => {
                assert_eq!(tree.delete(&key)?, model.contains_key(&key), "{key:?} of {name:?}");
                model.remove(&key);
            }
            900..960 => assert!(tree.get(&key)?.as_ref() == model.get(&key), "{key:?} of {name:?}"),
            960..970 => {
                let cleared = tree.clear();
                if cleared.is_ok() || tree.is_empty()? {
                    model.clear();
                }
                cleared?;
            }
            970..975 => {
                let dropped = self.db.drop_tree(&name);
                if dropped.is_ok() || self.db.open_tree(&name)?.is_none() {
                    self.trees.remove(&name);
                }
                assert!(dropped?, "{name:?} was there");
            }
            975..980 => {
                let to = format!("{name}{name}");
                if self.db.open_tree(&to)?.is_none() {
                    self.db.rename_tree(&name, &to)?;
                    let model = self.trees.remove(&name).expect("made above");
                    self.trees.insert(to, model);
                }
            }
            _ => {
                let cleared = tree.clear();
                if cleared.is_ok() || tree.is_empty()? {
                    model.clear();
                }
                cleared?;
                let records = (0..self.rng.u32(0..400))
                    .map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; 150 * self.case.units()]));
                let records: Model = records.collect();
                tree.bulk_load(records.iter())?;
                *model = records;
            }
        }
        Ok(())
    }

    /// What a power cut after `op` disk calls may leave.
    fn allowed_at(&self, op: u64) -> Vec<&Trees> {
        let surely =
            self.durable.iter().rposition(|durable| durable.done_at.is_some_and(|at| at <= op));
        let from = surely.expect("the first state is complete before anything is recorded");
        let maybe = self.durable[from + 1..].iter().filter(|durable| durable.begun_at <= op);
        std::iter::once(&self.durable[from]).chain(maybe).map(|durable| &durable.trees).collect()
    }
}

/// Everything a database holds; a tree that is empty is there nevertheless.
fn contents(db: &Db) -> Result<Trees, Error> {
    let names = db.trees()?;
    let trees = names.into_iter().map(|name| {
        let tree = db.open_tree(&name)?.expect("named");
        let model: Model = common::records(&tree)?.into_iter().collect();
        assert_eq!(tree.len()?, model.len() as u64, "length of {name:?}");
        Ok((name, model))
    });
    trees.collect()
}

/// A disk after a power cut opens, is whole, and holds one of the allowed states; gives that.
#[track_caller]
fn assert_recovers<'a>(
    options: &Options,
    disk: Arc<SimDisk>,
    allowed: &[&'a Trees],
    what: &str,
) -> &'a Trees {
    let db = options.open_disk(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = contents(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_whole(&db);
    let state = allowed.iter().find(|state| ***state == found);
    state.unwrap_or_else(|| {
        let sizes = |trees: &Trees| {
            trees.iter().map(|(name, model)| (name.clone(), model.len())).collect::<Vec<_>>()
        };
        let allowed: Vec<_> = allowed.iter().map(|trees| sizes(trees)).collect();
        panic!("{what}: found {:?}, allowed {allowed:?}", sizes(&found))
    })
}
