//! Power cuts in the middle of a concurrent history.
//!
//! ```text
//! commits by lsn    10   20   30   40   50      Sync 30 was acknowledged before the power went
//! found              x    x    x    x    -      a prefix, each whole, that ends at 30 or later
//! ```
//!
//! The history goes on after the power cut in the world where the power stays, so that everything about it is
//! known: what is found must be what the commits below some lsn left, key by key.

use crate::common::{assert_whole, least_cache_bytes, scaled, seed, watchdog};
use crate::digest::{Digest, digests, values};
use crate::history::{History, Key, Value};
use crate::lane::decoded;
use crate::replay::{self, Replay};
use crate::workload::{Level, Plan, TREE, run};
use latchkv::io::sim::{CrashMode, MachineSnapshot, OpKind, Record, SimMachine};
use latchkv::{Db, Durability, Options, WriteBatch};
use std::collections::{BTreeMap, BTreeSet};

type Contents = BTreeMap<Key, Vec<Value>>;

fn contents(db: &Db) -> Contents {
    let tree = db.open_tree(TREE).expect("readable").expect("synced before the history");
    let records = tree.iter().map(|entry| {
        let entry = entry.expect("readable");
        let key = Key::from_bytes(entry.key()).expect("only such keys were put");
        (key, decoded(key, entry.value()))
    });
    records.collect()
}

/// A history whose end is known.
struct Known<'a> {
    history: &'a History,
    digests: &'a [Digest],
    replay: Replay<'a>,
    /// All of commits that were told, ascending.
    lsns: Vec<u64>,
}

impl Known<'_> {
    /// What is found is what some prefix of the commits left, and that has all which was acknowledged with one
    /// of these durabilities before the disks had been called so often.
    #[track_caller]
    fn assert_prefix(&self, found: &Contents, call: u64, acknowledged: &[Durability], what: &str) {
        let txns = || self.history.txns.iter().zip(self.digests).filter(|(txn, _)| txn.committed);
        let there: BTreeSet<Value> = found.values().flatten().copied().collect();
        let survivor = |digest: &Digest| values(&digest.writes).any(|value| there.contains(&value));
        let last = txns().filter(|(_, digest)| survivor(digest)).filter_map(|(txn, _)| txn.lsn);
        let last = last.max().unwrap_or(0);
        let owed = txns()
            .filter(|(txn, _)| acknowledged.contains(&txn.durability) && txn.ended_at_call <= call);
        let owed = owed.filter_map(|(txn, _)| txn.lsn).max().unwrap_or(0);
        // Commits that only delete may have survived behind the last that shows.
        let ends = self.lsns.iter().copied().chain([0]).filter(|lsn| *lsn >= last.max(owed));
        let mut ends: Vec<u64> = ends.map(|lsn| lsn + 1).collect();
        ends.sort_unstable();
        let mut states = ends.into_iter().filter(|end| self.is_state(found, *end)).peekable();
        if states.peek().is_none() {
            let at = self.difference(found, owed.max(last) + 1);
            panic!("{what}: {last} survived, {owed} is owed, and {at}");
        }
        let mut others = states.map(|end| self.check_others(found, end));
        let first = others.next().expect("there is one");
        if let Err(wrong) = first
            && !others.any(|right| right.is_ok())
        {
            panic!("{what}: {wrong}");
        }
    }

    /// Whether the keys that were put by calls outside of transactions, whose lsns were not told, are there if
    /// they may be, with the commits below `end`. They lie between what had ended before they began and what
    /// began after they had ended.
    fn check_others(&self, found: &Contents, end: u64) -> Result<(), String> {
        let mut unknown: BTreeSet<Key> = found.keys().copied().collect();
        self.replay.keys().for_each(|key| _ = unknown.remove(&key));
        let committed =
            || self.history.txns.iter().zip(self.digests).filter(|(txn, _)| txn.committed);
        for (alone, digest) in committed().filter(|(txn, _)| txn.lsn.is_none()) {
            let Some((key, _)) = digest.writes.first_key_value() else { continue };
            unknown.remove(key);
            let value: Vec<Value> = values(&digest.writes).collect();
            let survived = found.get(key).is_some_and(|found| *found == value);
            if found.contains_key(key) != survived {
                return Err(format!("{key:?} is {:x?}", found[key]));
            }
            for (txn, _) in committed() {
                let Some(lsn) = txn.lsn else { continue };
                let wrong = match lsn < end {
                    true => alone.ended < txn.began && !survived,
                    false => txn.ended < alone.began && survived,
                };
                if wrong {
                    return Err(format!("{key:?} (there: {survived}) and {lsn}, up to {end}"));
                }
            }
        }
        match unknown.first() {
            None => Ok(()),
            Some(key) => Err(format!("{key:?}, which was never committed, is {:x?}", found[key])),
        }
    }

    fn is_state(&self, found: &Contents, end: u64) -> bool {
        self.replay.keys().all(|key| {
            let state = self.replay.state(key, end).expect("a key of the replay");
            found.get(&key).map_or(&[][..], Vec::as_slice) == state
        })
    }

    fn difference(&self, found: &Contents, end: u64) -> String {
        let keys = self.replay.keys().map(|key| (key, self.replay.state(key, end)));
        let mut differing = keys.filter(|(key, state)| {
            found.get(key).map_or(&[][..], Vec::as_slice) != state.as_deref().unwrap_or(&[])
        });
        match differing.next() {
            Some((key, state)) => format!("{key:?} is {:x?}, not {state:x?}", found.get(&key)),
            None => "what was owed is not there".to_owned(),
        }
    }

    /// The power fails at this moment.
    fn cut(&self, options: &Options, moment: &MachineSnapshot, seed: u64, mode: CrashMode) {
        let what = format!("{mode:?} after {} calls, seed {seed}", moment.op());
        let machine = moment.crash(seed, mode);
        let db = open(options, &machine);
        let found = contents(&db);
        assert_whole(&db);
        let acknowledged = match mode {
            CrashMode::KeepAll => &[Durability::Buffered, Durability::Sync][..],
            CrashMode::LoseAll | CrashMode::Random => &[Durability::Sync],
        };
        self.assert_prefix(&found, moment.op(), acknowledged, &what);
        // Once recovered it stays so, and time goes on.
        let again = open(options, &machine.crash(seed, CrashMode::LoseAll));
        assert_eq!(contents(&again), found, "{what}: the second time");
        let tree = db.open_tree(TREE).expect("readable").expect("it was there");
        let mut batch = WriteBatch::new();
        batch.put(&tree, "after", "").expect("small");
        let after = db.write(&batch).expect("room").0;
        let survived = self.history.txns.iter().zip(self.digests).filter(|(txn, digest)| {
            txn.committed
                && values(&digest.writes).any(|value| found.values().flatten().any(|v| *v == value))
        });
        let last = survived.filter_map(|(txn, _)| txn.lsn).max().unwrap_or(0);
        assert!(after > last, "{what}: {after} follows {last}");
    }
}

fn open(options: &Options, machine: &SimMachine) -> Db {
    options.open_disks(machine.data(), machine.log()).expect("it opens")
}

fn histories(salt: u64, count: usize, plan: &Plan, options: &Options) {
    let mut rng = fastrand::Rng::with_seed(seed(salt));
    let mut images = 0;
    let count = scaled(count, 1);
    for _ in 0..count {
        let _watchdog = watchdog("power cuts");
        let seed = rng.u64(..);
        println!("seed {seed}");
        let machine = SimMachine::new(seed);
        let db = open(options, &machine);
        db.tree(TREE).expect("room");
        db.sync().expect("room");
        machine.record_history(Record::Changes);
        let history = run(&db, plan, seed, &|| machine.op_count(OpKind::Any));
        replay::check(&history).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let digests = digests(&history).expect("checked");
        let replay = Replay::new(&history, &digests);
        let committed = history.txns.iter().filter(|txn| txn.committed);
        let mut lsns: Vec<u64> = committed.filter_map(|txn| txn.lsn).collect();
        lsns.sort_unstable();
        let known = Known { history: &history, digests: &digests, replay, lsns };
        let moments = machine.history();
        assert!(!moments.is_empty());
        for round in 0..16u64 {
            let moment = &moments[rng.usize(0..moments.len())];
            let mode = match round {
                0 => CrashMode::LoseAll,
                1 | 2 => CrashMode::KeepAll,
                _ => CrashMode::Random,
            };
            known.cut(options, moment, rng.u64(..), mode);
            images += 1;
        }
    }
    println!("{count} histories, {images} power cuts");
}

const PLAN: Plan = Plan {
    level: Level::Mixed,
    threads: 4,
    lanes: 2,
    rounds: 12,
    places: 5,
    durabilities: &[Durability::None, Durability::Buffered, Durability::Sync],
    checkpoints: false,
    definitions: false,
};

fn small_log() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(2 << 20)
        .log_slot_bytes(64 << 10)
        .log_buffer_bytes(64 << 10)
        .durability(Durability::None)
}

#[test]
fn a_power_cut_leaves_a_prefix_of_the_commits_with_all_that_were_acknowledged_as_synced() {
    histories(101, 6, &PLAN, &small_log());
}

#[test]
fn a_power_cut_beside_checkpoints_and_definitions_leaves_a_prefix_of_the_commits() {
    let plan = Plan { checkpoints: true, definitions: true, ..PLAN };
    histories(102, 3, &plan, &small_log().cache_bytes(least_cache_bytes(4096)));
}

#[test]
fn a_power_cut_takes_transactions_that_are_too_large_for_their_memory_whole_or_not_at_all() {
    histories(103, 3, &PLAN, &small_log().write_set_bytes(512));
}
