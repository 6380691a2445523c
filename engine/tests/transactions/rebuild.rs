//! Trees that are built anew in place.

use super::{key, on};
use crate::common::{Model, assert_same, assert_whole, scaled, seed, value_of, watchdog};
use latchkv::io::sim::{CrashMode, Fault, OpKind, Record, SimMachine};
use latchkv::{Db, Durability, Error, Options, Tree, Usage};
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(1 << 20)
        .log_slot_bytes(64 << 10)
        .durability(Durability::Sync)
}

/// A tree whose pages are half empty, with some large values and what it holds.
fn sparse(db: &Db) -> (Tree, Model) {
    let tree = db.tree("t").expect("new");
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let mut model = Model::new();
    let mut transaction = db.begin().expect("open");
    for number in 0..3000 {
        let key = key(rng.u32(0..1_000_000));
        let len = if number % 300 == 0 { 9000 } else { 100 };
        let value = value_of(&key, number, len);
        transaction.put(&tree, &key, &value).expect("open");
        model.insert(key, value);
    }
    transaction.commit().expect("alone");
    let gone: Vec<Vec<u8>> = model.keys().filter(|_| rng.u32(0..3) > 0).cloned().collect();
    let mut transaction = db.begin().expect("open");
    for key in &gone {
        transaction.delete(&tree, key).expect("open");
        model.remove(key);
    }
    transaction.commit().expect("alone");
    (tree, model)
}

fn used_blocks(db: &Db) -> u64 {
    db.checkpoint().expect("room");
    db.checkpoint().expect("room");
    db.stats().store.used_blocks
}

#[test]
fn a_rebuilt_tree_holds_the_same_in_fewer_blocks_and_takes_writes() {
    let db = on(&SimMachine::new(1), &options());
    let tree = db.tree("t").expect("new");
    let mut model = Model::new();
    // Every second of a tree that was filled in order: its leaves stay more than sparse, so nothing merges.
    for number in 0..4000 {
        let (key, value) = (key(number), value_of(&key(number), 1, 100));
        tree.put(&key, &value).expect("room");
        if number % 2 == 0 {
            model.insert(key, value);
        }
    }
    for number in (1..4000).step_by(2) {
        tree.delete(key(number)).expect("room");
    }
    let before = used_blocks(&db);
    tree.rebuild().expect("alone");
    assert_same(&tree, &model);
    let after = used_blocks(&db);
    assert!(after * 10 < before * 8, "{after} of {before} blocks");
    for number in 0..4000 {
        let (key, value) = (key(number), value_of(&key(number), 2, 50));
        tree.put(&key, &value).expect("room");
        model.insert(key, value);
    }
    assert_same(&tree, &model);
    assert_whole(&db);
}

#[test]
fn an_empty_tree_and_one_of_a_single_leaf_are_rebuilt() {
    let db = on(&SimMachine::new(2), &options());
    let tree = db.tree("t").expect("new");
    tree.rebuild().expect("alone");
    assert!(tree.is_empty().expect("open"));
    tree.put("a", "1").expect("room");
    tree.put("large", vec![7; 50_000]).expect("room");
    tree.rebuild().expect("alone");
    assert_eq!(tree.get("a").expect("open").as_deref(), Some(&b"1"[..]));
    assert_eq!(tree.get("large").expect("open"), Some(vec![7; 50_000]));
    tree.delete("a").expect("room");
    tree.delete("large").expect("room");
    tree.rebuild().expect("alone");
    assert_eq!(tree.len().expect("open"), 0);
    assert_whole(&db);
}

#[test]
fn whoever_reads_beside_a_rebuild_sees_every_record() {
    let _watchdog = watchdog("a rebuild beside readers");
    let db = on(&SimMachine::new(3), &options());
    let (tree, model) = sparse(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 2 {
                for (key, value) in model.iter().step_by(17) {
                    assert_eq!(tree.get(key).expect("readable").as_ref(), Some(value));
                }
                rounds += 1;
            }
        });
        for _ in 0..5 {
            tree.rebuild().expect("nobody writes");
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("no record was missed");
    });
    assert_same(&tree, &model);
    assert_whole(&db);
}

#[test]
fn a_write_that_comes_between_is_a_conflict_or_lasts() {
    let _watchdog = watchdog("a rebuild beside writers");
    let db = on(&SimMachine::new(4), &options().durability(Durability::None));
    let (tree, mut model) = sparse(&db);
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = Vec::new();
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let key = key(2_000_000 + number % 500);
                let value = value_of(&key, u64::from(number), 60);
                tree.put(&key, &value).expect("room");
                written.push((key, value));
            }
            written
        });
        let mut conflicts = 0;
        for _ in 0..20 {
            match tree.rebuild() {
                Ok(()) => {}
                Err(Error::Conflict { .. }) => conflicts += 1,
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(conflicts > 0, "a writer without pause was never met");
        writer.join().expect("no panic")
    });
    model.extend(written);
    assert_same(&tree, &model);
    tree.rebuild().expect("alone now");
    assert_same(&tree, &model);
    assert_whole(&db);
}

#[test]
fn a_snapshot_of_before_gets_an_error_and_one_of_after_the_records() {
    let db = on(&SimMachine::new(5), &options());
    let (tree, model) = sparse(&db);
    let before = db.snapshot().expect("open");
    tree.rebuild().expect("alone");
    let key = model.keys().next().expect("some");
    match before.get(&tree, key) {
        Err(Error::Usage(Usage::ClearedSince)) => {}
        other => panic!("{other:?}"),
    }
    let after = db.snapshot().expect("open");
    assert_eq!(after.iter(&tree).count(), model.len());
}

#[test]
fn a_power_cut_at_any_call_of_a_rebuild_leaves_the_records() {
    let machine = SimMachine::new(6);
    let db = on(&machine, &options());
    let (tree, model) = sparse(&db);
    db.sync().expect("a healthy disk");
    machine.record_history(Record::Changes);
    tree.rebuild().expect("alone");
    let history = machine.history();
    assert!(history.len() > 10, "pages, a log record and a checkpoint are written");
    for moment in history.iter().step_by(1 + history.len() / 60) {
        for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
            let again = on(&moment.crash(seed(6), mode), &options());
            let tree = again.open_tree("t").expect("readable").expect("there");
            assert_same(&tree, &model);
            assert_whole(&again);
        }
    }
}

/// The tree was once empty for a moment, between what it was and what it became.
#[test]
fn whoever_reads_beside_a_rebuild_never_sees_an_empty_tree() {
    let _watchdog = watchdog("rebuilds of a small tree beside readers");
    let db = on(&SimMachine::new(7), &options().durability(Durability::None));
    let tree = db.tree("t").expect("new");
    for number in 0..20 {
        tree.put(key(number), "value").expect("room");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers = [0, 19].map(|number| {
            let (tree, done) = (&tree, &done);
            scope.spawn(move || {
                let key = key(number);
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..100 {
                        assert!(tree.contains(&key).expect("readable"));
                    }
                    assert_eq!(tree.iter().filter(Result::is_ok).count(), 20);
                    assert_eq!(tree.len().expect("open"), 20);
                }
            })
        });
        for _ in 0..scaled(400, 20) {
            tree.rebuild().expect("nobody writes");
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("every record was seen");
        }
    });
    assert_whole(&db);
}

#[test]
fn a_rebuild_beside_clears_loads_drops_and_renames_is_made_or_told_of() {
    let _watchdog = watchdog("rebuilds beside definitions");
    let db = on(&SimMachine::new(8), &options().durability(Durability::None));
    let value =
        |number: u32| value_of(&key(number), 1, if number.is_multiple_of(50) { 9000 } else { 60 });
    let done = AtomicBool::new(false);
    db.tree("t").expect("new");
    std::thread::scope(|scope| {
        let definer = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(seed(8));
            for _ in 0..scaled(60, 8) {
                let tree = db.tree("t").expect("room");
                match rng.u32(0..5) {
                    0 => drop(db.drop_tree("t").expect("room")),
                    1 => {
                        db.rename_tree("t", "u").expect("there");
                        db.rename_tree("u", "t").expect("there");
                    }
                    2 => tree.clear().expect("room"),
                    3 => {
                        let records = (0..200).map(|number| (key(number), value(number)));
                        tree.bulk_load(records).expect("alone but for rebuilds");
                    }
                    _ => {
                        let mut transaction = db.begin().expect("open");
                        for number in 0..200 {
                            transaction.put(&tree, key(number), value(number)).expect("open");
                        }
                        match transaction.commit() {
                            Ok(_) | Err(Error::Conflict { .. }) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut rebuilds = 0;
        while !done.load(Ordering::Relaxed) {
            let Some(tree) = db.open_tree("t").expect("readable") else { continue };
            match tree.rebuild() {
                Ok(()) => rebuilds += 1,
                Err(Error::Conflict { .. } | Error::Usage(Usage::TreeDropped(_))) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        println!("{rebuilds} rebuilds");
        definer.join().expect("no panic");
    });
    let tree = db.tree("t").expect("room");
    for entry in tree.iter() {
        let entry = entry.expect("readable");
        let number = (0..200).find(|&number| entry.key() == key(number)).expect("one that was put");
        assert_eq!(entry.value(), value(number));
    }
    assert_whole(&db);
}

#[test]
fn a_rebuild_on_a_full_or_failing_disk_leaves_the_records_at_any_call() {
    for (fault, kind) in [
        (Fault::Enospc, OpKind::Write),
        (Fault::Eio, OpKind::Write),
        (Fault::Eio, OpKind::Read),
        (Fault::Eio, OpKind::Sync),
    ] {
        let mut calls = 1;
        let mut index = 0;
        while index < calls {
            let machine = SimMachine::new(9);
            let db = on(&machine, &options());
            let (tree, model) = sparse(&db);
            db.checkpoint().expect("a healthy disk");
            let before = machine.op_count(kind);
            if index > 0 {
                machine.fail_at(index - 1, fault, kind);
            }
            let rebuilt = tree.rebuild();
            machine.clear_faults();
            let what = format!("{fault:?} at {kind:?} {index}: {rebuilt:?}");
            if index == 0 {
                rebuilt.expect("a healthy disk");
                calls = machine.op_count(kind) - before;
                index = 1;
                continue;
            }
            if db.health().is_ok() {
                assert_same(&tree, &model);
                tree.put("more", "room").unwrap_or_else(|error| panic!("{what}: {error}"));
                tree.delete("more").unwrap_or_else(|error| panic!("{what}: {error}"));
                db.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_whole(&db);
            } else {
                assert!(rebuilt.is_err(), "{what}");
            }
            for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
                let again = on(&machine.crash(seed(9), mode), &options());
                assert_same(&again.open_tree("t").expect("readable").expect("there"), &model);
                assert_whole(&again);
            }
            index += 1 + calls / scaled(40, 8) as u64;
        }
    }
}

#[test]
fn a_power_cut_amid_rebuilds_and_commits_to_another_tree_loses_nothing_that_was_synced() {
    let _watchdog = watchdog("commits beside rebuilds");
    let machine = SimMachine::new(10);
    let db = on(&machine, &options());
    let (tree, model) = sparse(&db);
    let other = db.tree("other").expect("new");
    db.sync().expect("a healthy disk");
    machine.record_history(Record::Changes);
    let done = AtomicBool::new(false);
    // When each commit was promised, by the calls of the disks.
    let promised: Vec<u64> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut promised = Vec::new();
            while !done.load(Ordering::Relaxed) {
                other.put(key(promised.len() as u32), "value").expect("room");
                promised.push(machine.op_count(OpKind::Any));
            }
            promised
        });
        for _ in 0..2 {
            tree.rebuild().expect("nobody writes to it");
        }
        done.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")
    });
    let history = machine.history();
    for moment in history.iter().step_by(1 + history.len() / scaled(60, 10)) {
        for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
            let again = on(&moment.crash(seed(10), mode), &options());
            assert_same(&again.open_tree("t").expect("readable").expect("there"), &model);
            let other = again.open_tree("other").expect("readable").expect("there");
            let keys: Vec<Vec<u8>> =
                other.iter().map(|entry| entry.expect("readable").key().to_vec()).collect();
            let expected: Vec<Vec<u8>> = (0..keys.len() as u32).map(key).collect();
            assert_eq!(keys, expected, "commits go in order");
            let least = promised.iter().filter(|&&at| at <= moment.op()).count();
            assert!(keys.len() >= least, "{} of {least} at {}, {mode:?}", keys.len(), moment.op());
            assert_whole(&again);
        }
    }
}
