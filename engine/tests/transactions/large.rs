//! Transactions that do not fit their memory.

use super::{key, on};
use crate::common::{Model, assert_same, assert_whole, seed, value_of, watchdog};
use latchkv::io::sim::{CrashMode, SimMachine};
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
