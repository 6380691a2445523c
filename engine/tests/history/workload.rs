//! Random concurrent transactions, written down as they go.
//!
//! Each thread has some *lanes*, each with at most one transaction or snapshot open, and makes a step of one lane
//! after the other, in random order: so transactions overlap even where threads do not. A lane is a session. A
//! clock, one counter for all, says what had ended before what began.

use crate::history::{History, Key, Txn};
use crate::lane::Lane;
use fastrand::Rng;
use latchkv::{Db, Durability, Tree};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of the tree.
pub(crate) const TREE: &str = "history";

/// Which isolation the transactions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Snapshot,
    Serializable,
    /// Each its own.
    Mixed,
}

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) level: Level,
    pub(crate) threads: u32,
    pub(crate) lanes: u32,
    /// Transactions of each lane.
    pub(crate) rounds: usize,
    /// Lists; the owned keys lie between them.
    pub(crate) places: u16,
    pub(crate) durabilities: &'static [Durability],
    /// Checkpoints are made all the time.
    pub(crate) checkpoints: bool,
    /// Other trees are made and dropped all the time.
    pub(crate) definitions: bool,
}

/// What all lanes share.
pub(crate) struct Run<'a> {
    pub(crate) db: &'a Db,
    pub(crate) tree: Tree,
    pub(crate) plan: &'a Plan,
    clock: AtomicU64,
    /// Calls of the disks so far.
    pub(crate) disk_calls: &'a (dyn Fn() -> u64 + Sync),
}

impl Run<'_> {
    /// AcqRel: who is told a later time by this has seen what was done before an earlier one, and only then must
    /// the database show it.
    pub(crate) fn time(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }
}

/// Runs the plan; `disk_calls` counts calls of the disks so far. In the end everything is read once more, and
/// that read is part of the history.
pub(crate) fn run(
    db: &Db,
    plan: &Plan,
    seed: u64,
    disk_calls: &(dyn Fn() -> u64 + Sync),
) -> History {
    let tree = db.tree(TREE).expect("room");
    let run = Run { db, tree, plan, clock: AtomicU64::new(1), disk_calls };
    let done = AtomicBool::new(false);
    let mut history = History::default();
    std::thread::scope(|scope| {
        // Relaxed: it only ends loops.
        if plan.checkpoints {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    db.checkpoint().expect("room");
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
        }
        if plan.definitions {
            scope.spawn(|| define(db, &done));
        }
        let lanes = 0..plan.lanes;
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let lanes = lanes.clone();
                let lanes = lanes.map(|lane| Lane::new(&run, thread * plan.lanes + lane, seed));
                let lanes: Vec<_> = lanes.collect();
                let rng = Rng::with_seed(seed ^ u64::from(thread));
                scope.spawn(move || run_lanes(lanes, rng))
            })
            .collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        for txns in ended {
            history.txns.extend(txns.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    let mut last = Lane::new(&run, plan.threads * plan.lanes, seed);
    last.read_everything();
    history.txns.extend(last.into_txns());
    history
}

/// Makes and drops other trees.
fn define(db: &Db, done: &AtomicBool) {
    let mut round = 0u32;
    while !done.load(Ordering::Relaxed) {
        let name = format!("other {}", round % 3);
        let other = db.tree(&name).expect("room");
        for number in 0..20 {
            other.put(Key::owned(0, number).bytes(), [7; 300]).expect("room");
        }
        match round % 4 {
            0 => other.clear().expect("room"),
            1 => {
                db.rename_tree(&name, "renamed").expect("it is there, and the name is free");
                assert!(db.drop_tree("renamed").expect("room"));
            }
            _ => assert!(db.drop_tree(&name).expect("room")),
        }
        round += 1;
    }
}

fn run_lanes(mut lanes: Vec<Lane<'_>>, mut rng: Rng) -> Vec<Txn> {
    let mut txns = Vec::new();
    while !lanes.is_empty() {
        let index = rng.usize(0..lanes.len());
        lanes[index].step();
        if rng.u8(0..4) == 0 {
            std::thread::yield_now();
        }
        if lanes[index].is_done() {
            // The order of the lanes is no matter, that of each lane's transactions is.
            txns.extend(lanes.swap_remove(index).into_txns());
        }
    }
    txns
}
