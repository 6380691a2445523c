//! Transactions that do not fit their memory.

use super::{key, on};
use crate::common::{
    Model, assert_same, assert_whole, least_cache_bytes, seed, value_of, watchdog,
};
use latchkv::io::Disk;
use latchkv::io::sim::{CrashMode, Fault, OpKind, SimMachine};
use latchkv::{Db, Durability, Entry, Error, Isolation, Options, TransactionOptions};

fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(1 << 20)
        .write_set_bytes(20 << 10)
        .log_buffer_bytes(64 << 10)
        .log_slot_bytes(64 << 10)
        .durability(Durability::Sync)
}

fn pairs(range: impl Iterator<Item = latchkv::Result<Entry>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.expect("readable").into_pair()).collect()
}

fn recovered(machine: &SimMachine) -> Db {
    on(&machine.crash(7, CrashMode::LoseAll), &options())
}

#[test]
fn an_insert_of_much_more_than_the_memory_into_an_empty_tree_commits_as_one_and_survives() {
    let machine = SimMachine::new(1);
    let db = on(&machine, &options());
    let tree = db.tree("t").expect("new");
    let before = db.snapshot().expect("open");
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut model = Model::new();
    let mut transaction = db.begin().expect("open");
    for number in 0..6000 {
        let key = key(rng.u32(0..1_000_000));
        let len = if number % 500 == 0 { 9000 } else { 100 };
        let value = value_of(&key, number, len);
        transaction.put(&tree, &key, &value).expect("open");
        model.insert(key, value);
    }
    assert_eq!(tree.len().expect("open"), 0);
    transaction.commit().expect("nobody else writes");
    assert_same(&tree, &model);
    assert_eq!(before.iter(&tree).count(), 0);
    assert_whole(&db);
    let db = recovered(&machine);
    assert_same(&db.open_tree("t").expect("readable").expect("there"), &model);
    assert_whole(&db);
}

#[test]
fn reads_and_scans_see_spilled_writes_and_later_ones_over_them() {
    let _watchdog = watchdog("spilled writes");
    let seed = seed(2);
    for with_savepoints in [false, true] {
        let mut rng = fastrand::Rng::with_seed(seed);
        let machine = SimMachine::new(2);
        let db = on(&machine, &options());
        let tree = db.tree("t").expect("new");
        let mut committed = Model::new();
        for number in 0..500 {
            let value = value_of(&key(number), 0, 60);
            tree.put(key(number), &value).expect("room");
            committed.insert(key(number), value);
        }
        for round in 0..6u64 {
            let mut model = committed.clone();
            let mut transaction = db.begin().expect("open");
            let mut savepoint = None;
            for step in 0..1500u64 {
                let key = key(rng.u32(0..1000));
                match rng.u32(0..8) {
                    0 | 1 => {
                        let was = model.remove(&key).is_some();
                        assert_eq!(transaction.delete(&tree, &key).expect("open"), was);
                    }
                    2 => {
                        let seen = transaction.get(&tree, &key).expect("open");
                        assert_eq!(seen.as_ref(), model.get(&key));
                    }
                    _ => {
                        let len = if rng.u32(0..100) == 0 { 5000 } else { 90 };
                        let value = value_of(&key, round * 10_000 + step, len);
                        transaction.put(&tree, &key, &value).expect("open");
                        model.insert(key, value);
                    }
                }
                if with_savepoints && step == 400 {
                    savepoint = Some((transaction.savepoint(), model.clone()));
                }
                if with_savepoints
                    && step == 1100
                    && round % 2 == 0
                    && let Some((savepoint, then)) = savepoint.take()
                {
                    transaction.rollback_to(savepoint).expect("set");
                    model = then;
                }
                if step % 500 == 499 {
                    let expected: Vec<_> = model.clone().into_iter().collect();
                    assert_eq!(pairs(transaction.iter(&tree)), expected);
                    let mut backward = pairs(transaction.iter(&tree).rev());
                    backward.reverse();
                    assert_eq!(backward, expected);
                    let (low, high) = (super::key(200), super::key(400));
                    let part = pairs(transaction.range(&tree, low.clone()..high.clone()));
                    assert!(
                        part.iter()
                            .map(|(key, _)| key)
                            .eq(model.range(low..high).map(|(key, _)| key))
                    );
                }
            }
            if round == 3 {
                transaction.rollback();
            } else {
                transaction.commit().expect("nobody else writes");
                committed = model;
            }
            assert_same(&tree, &committed);
            assert_whole(&db);
            let after = recovered(&machine);
            assert_same(&after.open_tree("t").expect("readable").expect("there"), &committed);
            assert_whole(&after);
        }
    }
}

#[test]
fn deleting_much_more_than_the_memory_holds_commits_as_one() {
    let machine = SimMachine::new(3);
    let db = on(&machine, &options());
    let tree = db.tree("t").expect("new");
    tree.bulk_load((0..20_000).map(|number| (key(number), "some value"))).expect("sorted");
    let before = db.snapshot().expect("open");
    let mut transaction = db.begin().expect("open");
    for number in (0..20_000).step_by(2) {
        assert!(transaction.delete(&tree, key(number)).expect("open"));
    }
    assert_eq!(transaction.iter(&tree).count(), 10_000);
    transaction.commit().expect("nobody else writes");
    assert_eq!(tree.len().expect("open"), 10_000);
    assert_eq!(tree.iter().count(), 10_000);
    assert_eq!(before.iter(&tree).count(), 20_000);
    drop(before);
    assert_whole(&db);
    let db = recovered(&machine);
    let tree = db.open_tree("t").expect("readable").expect("there");
    assert_eq!(tree.iter().count(), 10_000);
    assert_whole(&db);
}

#[test]
fn a_spilled_transaction_conflicts_like_any_other_and_leaves_nothing_behind() {
    let machine = SimMachine::new(4);
    let db = on(&machine, &options().durability(Durability::None));
    let tree = db.tree("t").expect("new");
    tree.put(key(77), "before").expect("room");
    db.checkpoint().expect("room");
    let pages = db.stats().store.pages;
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let options = TransactionOptions::new().isolation(isolation);
        for conflict in [true, false] {
            let mut transaction = db.begin_with(&options).expect("open");
            for number in 0..3000 {
                transaction.put(&tree, key(number), vec![1; 60]).expect("open");
            }
            if conflict {
                tree.put(key(77), "meanwhile").expect("room");
                assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
            } else {
                transaction.rollback();
            }
            assert_eq!(tree.iter().count(), 1);
        }
    }
    db.checkpoint().expect("room");
    db.checkpoint().expect("room");
    assert!(db.stats().store.pages <= pages + 2, "{}", db.stats());
    assert_whole(&db);
}

/// How a large commit that changes a tree which holds something is done on a disk with so much room.
struct Tight {
    machine: SimMachine,
    db: Db,
    before: Model,
    after: Model,
}

impl Tight {
    fn new() -> Tight {
        let machine = SimMachine::new(5);
        // The least pool: what is applied leaves its frames on the way.
        let options = options().cache_bytes(least_cache_bytes(4096)).checkpoint_bytes(u64::MAX);
        let db = on(&machine, &options);
        let tree = db.tree("t").expect("new");
        let mut before = Model::new();
        let pair = |number| (key(number), value_of(&key(number), 0, 50));
        before.extend((0..1500).map(pair));
        tree.bulk_load(before.iter()).expect("sorted");
        let mut after = before.clone();
        for number in (0..3000).step_by(2) {
            after.insert(key(number), value_of(&key(number), 1, 60 + number as usize % 7 * 40));
        }
        for number in (1..400).step_by(2) {
            after.remove(&key(number));
        }
        Tight { machine, db, before, after }
    }

    fn room_bytes(&self) -> u64 {
        let lens = [self.machine.data().len_bytes(), self.machine.log().len_bytes()];
        lens.into_iter().map(|len| len.expect("a length")).sum()
    }

    fn try_commit(&self) -> latchkv::Result<()> {
        let tree = self.db.open_tree("t")?.expect("there");
        let mut transaction = self.db.begin()?;
        for (key, value) in &self.after {
            if self.before.get(key) != Some(value) {
                transaction.put(&tree, key, value)?;
            }
        }
        for key in self.before.keys().filter(|key| !self.after.contains_key(*key)) {
            transaction.delete(&tree, key)?;
        }
        transaction.commit().map(drop)
    }

    /// Makes the commit; whether it found room.
    fn commit(&self) -> bool {
        match self.try_commit() {
            Ok(()) => true,
            Err(Error::Full { .. }) => false,
            Err(error) => panic!("{error:?}"),
        }
    }

    /// All or nothing of it is there, now and after a power cut, and writing goes on.
    fn assert_kept(&self, made: bool, what: &str) {
        assert!(self.db.health().is_ok(), "{what}");
        let expected = if made { &self.after } else { &self.before };
        assert_same(&self.db.open_tree("t").expect("readable").expect("there"), expected);
        self.machine.clear_faults();
        self.machine.set_capacity(None);
        self.db.checkpoint().expect("there is room again");
        assert_whole(&self.db);
        let db = recovered(&self.machine);
        assert_same(&db.open_tree("t").expect("readable").expect("there"), expected);
    }
}

#[test]
fn a_large_commit_on_a_disk_with_any_room_is_made_or_is_full_and_poisons_nothing() {
    let _watchdog = watchdog("tight disks");
    let (mut made, mut full) = (0, 0);
    let mut spare = 0;
    while made < 2 {
        let tight = Tight::new();
        tight.machine.set_capacity(Some(tight.room_bytes() + spare));
        let done = tight.commit();
        tight.assert_kept(done, &format!("{spare} bytes to spare"));
        if done {
            made += 1
        } else {
            full += 1
        }
        spare += 256 << 10;
    }
    assert!(full > 2, "the disk was to be full");
}

#[test]
fn a_large_commit_whose_room_is_refused_at_any_call_is_full_and_poisons_nothing() {
    let _watchdog = watchdog("refused room");
    let calls = {
        let tight = Tight::new();
        let before = tight.machine.op_count(OpKind::Allocate);
        assert!(tight.commit());
        tight.machine.op_count(OpKind::Allocate) - before
    };
    assert!(calls > 0, "no room was asked for");
    for index in 0..calls {
        for once in [true, false] {
            let tight = Tight::new();
            match once {
                true => tight.machine.fail_at(index, Fault::Enospc, OpKind::Allocate),
                false => tight.machine.fail_from(index, Fault::Enospc, OpKind::Allocate),
            }
            let done = tight.commit();
            // Once refused, less is asked for.
            assert!(done || !once, "call {index}");
            tight.assert_kept(done, &format!("call {index}, once: {once}"));
        }
    }
}

#[test]
fn a_large_commit_that_is_given_up_tells_what_failed_first() {
    let _watchdog = watchdog("failed reads");
    let calls = {
        let tight = Tight::new();
        let before = tight.machine.op_count(OpKind::Read);
        assert!(tight.commit());
        tight.machine.op_count(OpKind::Read) - before
    };
    let mut given_up = 0;
    for index in (0..calls).step_by((calls / 30).max(1) as usize) {
        let tight = Tight::new();
        tight.machine.fail_at(index, Fault::Eio, OpKind::Read);
        let source = match tight.try_commit() {
            Ok(()) => continue,
            Err(Error::Io { source, .. }) => source,
            Err(Error::Poisoned { cause }) => {
                given_up += 1;
                let Error::Io { source, .. } = &*cause else { panic!("{cause:?}") };
                source.clone()
            }
            Err(error) => panic!("{error:?}"),
        };
        assert!(source.raw_os_error().is_some(), "read {index}: {source} is not what failed");
    }
    assert!(given_up > 0, "no read failed while a commit was applied");
}
