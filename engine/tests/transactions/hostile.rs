//! What goes wrong at the seams: savepoints over runs, trees that go away, loads beside commits, odd sizes.

use super::{fast, key, on};
use crate::common::{assert_whole, records, watchdog};
use latchkv::io::sim::{CrashMode, Record, SimMachine};
use latchkv::{Db, Durability, Error, Isolation, Options, TransactionOptions, Usage, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Barrier;

fn narrow() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(1 << 20)
        .write_set_bytes(20 << 10)
        .log_buffer_bytes(64 << 10)
        .log_slot_bytes(64 << 10)
        .durability(Durability::None)
}

fn serializable() -> TransactionOptions {
    TransactionOptions::new().isolation(Isolation::Serializable)
}

fn count(db: &Db, name: &str) -> usize {
    db.open_tree(name).expect("readable").map_or(0, |tree| tree.iter().count())
}

#[test]
fn going_back_takes_back_a_write_to_a_guarded_key_that_was_spilled() {
    let db = on(&SimMachine::new(1), &narrow());
    let tree = db.tree("t").expect("new");
    tree.put("k", "before").expect("room");
    let mut transaction = db.begin().expect("open");
    transaction.get_for_update(&tree, "k").expect("open");
    let savepoint = transaction.savepoint();
    transaction.put(&tree, "k", "taken back").expect("open");
    for number in 0..1000 {
        transaction.put(&tree, key(number), [1; 60]).expect("open");
    }
    transaction.rollback_to(savepoint).expect("set");
    assert_eq!(transaction.get(&tree, "k").expect("open").as_deref(), Some(&b"before"[..]));
    assert_eq!(transaction.iter(&tree).count(), 1);
    transaction.put(&tree, "other", "stays").expect("open");
    tree.put("k", "meanwhile").expect("room");
    assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })), "still guarded");
    assert_eq!(tree.len().expect("open"), 1);
    assert_whole(&db);
}

#[test]
fn a_savepoint_does_not_make_a_run_of_every_write_behind_it() {
    let db = on(&SimMachine::new(1), &narrow());
    let tree = db.tree("t").expect("new");
    db.checkpoint().expect("room");
    let pages = db.stats().store.pages;
    let mut transaction = db.begin().expect("open");
    let savepoint = transaction.savepoint();
    for number in 0..2000 {
        transaction.put(&tree, key(number), [1; 60]).expect("open");
    }
    let runs = db.stats().store.pages - pages;
    assert!(runs < 200, "{runs} pages for 2000 records of 70 bytes");
    transaction.rollback_to(savepoint).expect("set");
    transaction.commit().expect("nothing is left to write");
    assert_eq!(tree.len().expect("open"), 0);
    assert_whole(&db);
}

#[test]
fn a_commit_that_fills_one_tree_and_changes_another_survives_a_crash_whole_or_not_at_all() {
    let _watchdog = watchdog("fill beside changes");
    for many in [5, 3000] {
        let machine = SimMachine::new(3);
        let options = narrow().durability(Durability::Sync);
        let db = on(&machine, &options);
        let (old, new) = (db.tree("old").expect("new"), db.tree("new").expect("new"));
        old.put("first", "there").expect("room");
        db.checkpoint().expect("room");
        let mut transaction = db.begin().expect("open");
        for number in 0..many {
            transaction.put(&old, key(number), [1; 60]).expect("open");
        }
        for number in 0..1000 {
            transaction.put(&new, key(number), [2; 60]).expect("open");
        }
        machine.record_history(Record::Syncs);
        transaction.commit().expect("nobody else writes");
        let whole = (many as usize + 1, 1000);
        let mut seen = BTreeMap::new();
        for moment in machine.history() {
            for mode in [CrashMode::LoseAll, CrashMode::KeepAll] {
                let db = on(&moment.crash(7, mode), &options);
                let state = (count(&db, "old"), count(&db, "new"));
                assert!(state == (1, 0) || state == whole, "half a commit: {state:?}");
                *seen.entry(state).or_insert(0) += 1;
                assert_whole(&db);
            }
        }
        assert!(seen.contains_key(&(1, 0)), "{seen:?}");
        let db = on(&machine.crash(7, CrashMode::LoseAll), &options);
        assert_eq!((count(&db, "old"), count(&db, "new")), whole, "acknowledged");
    }
}

#[test]
fn a_serializable_commit_that_read_a_tree_which_was_dropped_says_so() {
    let db = fast();
    let (read, written) = (db.tree("read").expect("new"), db.tree("written").expect("new"));
    read.put("k", "v").expect("room");
    for scan in [false, true] {
        let read = db.tree("read").expect("there or new");
        let mut transaction = db.begin_with(&serializable()).expect("open");
        if scan {
            assert!(transaction.iter(&read).count() <= 1);
        } else {
            transaction.get(&read, "k").expect("open");
        }
        transaction.put(&written, "k", "v").expect("open");
        assert!(db.drop_tree("read").expect("room"));
        // Others take the pages that are free now.
        for number in 0..5 {
            db.tree(format!("{scan} {number}")).expect("new").put("k", "v").expect("room");
        }
        let committed = transaction.commit();
        assert!(matches!(committed, Err(Error::Usage(Usage::TreeDropped(_)))), "{committed:?}");
        assert_eq!(written.len().expect("open"), 0);
    }
}

#[test]
fn a_serializable_commit_with_ranges_that_hold_nothing_is_made() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    for number in 0..100 {
        tree.put(key(number), "v").expect("room");
    }
    let mut transaction = db.begin_with(&serializable()).expect("open");
    assert_eq!(transaction.range(&tree, "z".."a").count(), 0);
    assert_eq!(transaction.range(&tree, "m".."m").count(), 0);
    drop(transaction.iter(&tree));
    assert_eq!(transaction.iter(&tree).take(1).count(), 1);
    assert_eq!(transaction.iter(&tree).rev().take(1).count(), 1);
    // Behind what was read from either end.
    tree.put(key(50), "meanwhile").expect("room");
    transaction.put(&tree, "x", "v").expect("open");
    transaction.commit().expect("nothing that was read has changed");
}

#[test]
fn a_transaction_that_meets_a_cleared_tree_is_run_again() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    for scan in [false, true] {
        tree.put("k", "v").expect("room");
        let mut tries = 0;
        db.transact(|transaction| {
            tries += 1;
            if tries == 1 {
                tree.clear()?;
            }
            if scan {
                assert_eq!(transaction.iter(&tree).collect::<Result<Vec<_>, _>>()?.len(), 0);
            } else {
                assert_eq!(transaction.get(&tree, "k")?, None);
            }
            transaction.put(&tree, "k", "again")
        })
        .expect("the second try sees the cleared tree");
        assert_eq!(tries, 2);
        assert_eq!(tree.get("k").expect("open").as_deref(), Some(&b"again"[..]));
    }
}

#[test]
fn a_load_whose_records_come_from_another_load_does_not_wait_for_itself() {
    let _watchdog = watchdog("nested loads");
    let db = fast();
    let (outer, inner) = (db.tree("outer").expect("new"), db.tree("inner").expect("new"));
    let records = (0..100).map(|number| {
        if number == 50 {
            inner.bulk_load((0..10).map(|number| (key(number), "v"))).expect("sorted");
        }
        (key(number), "v")
    });
    assert_eq!(outer.bulk_load(records).expect("sorted"), 100);
    assert_eq!(inner.len().expect("open"), 10);
    assert_whole(&db);
}

#[test]
fn a_load_and_commits_into_one_empty_tree_lose_nothing() {
    let _watchdog = watchdog("a load beside commits");
    let db = on(&SimMachine::new(1), &narrow());
    for round in 0..60 {
        let tree = db.tree(format!("t{round}")).expect("new");
        let barrier = Barrier::new(2);
        let (loaded, committed) = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                barrier.wait();
                tree.bulk_load((0..20).map(|number| (key(number), "loaded")))
            });
            let commit = scope.spawn(|| {
                let mut transaction = db.begin().expect("open");
                transaction.put(&tree, key(7), "committed").expect("open");
                transaction.put(&tree, "other", "committed").expect("open");
                barrier.wait();
                transaction.commit()
            });
            (load.join().expect("no panic"), commit.join().expect("no panic"))
        });
        let seven = tree.get(key(7)).expect("open");
        match (&loaded, &committed) {
            // The load put key by key, over what was committed; or all at once, into what was empty.
            (Ok(_), Ok(_)) => assert_eq!(seven.as_deref(), Some(&b"loaded"[..])),
            (Ok(_), Err(Error::Conflict { .. })) => {
                assert_eq!(seven.as_deref(), Some(&b"loaded"[..]));
            }
            (Err(Error::Usage(Usage::NotEmpty)), Ok(_)) => {
                assert_eq!(seven.as_deref(), Some(&b"committed"[..]));
            }
            other => panic!("{other:?}"),
        }
        let len = if loaded.is_err() { 2 } else { 20 + usize::from(committed.is_ok()) };
        assert_eq!(records(&tree).expect("readable").len(), len);
        assert_eq!(tree.len().expect("open"), len as u64);
    }
    assert_whole(&db);
}

#[test]
fn keys_of_no_bytes_and_of_the_most_go_through_transactions_runs_and_batches() {
    let machine = SimMachine::new(1);
    let db = on(&machine, &narrow().durability(Durability::Sync));
    let tree = db.tree("t").expect("new");
    let longest = vec![255; db.limits().key_bytes_max];
    for spill in [false, true] {
        let mut transaction = db.begin_with(&serializable()).expect("open");
        for key in [&b""[..], &longest] {
            assert_eq!(transaction.get(&tree, key).expect("open"), None);
            transaction.put(&tree, key, key).expect("open");
        }
        for number in (0..1000).filter(|_| spill) {
            transaction.put(&tree, key(number), [1; 60]).expect("open");
        }
        let ends = [transaction.iter(&tree).next(), transaction.iter(&tree).next_back()];
        let ends = ends.map(|end| end.expect("some").expect("readable").into_pair());
        assert_eq!(ends, [(vec![], vec![]), (longest.clone(), longest.clone())]);
        transaction.commit().expect("nobody else writes");
        let after = on(&machine.crash(7, CrashMode::LoseAll), &narrow());
        let after = after.open_tree("t").expect("readable").expect("there");
        assert_eq!(after.get("").expect("open").as_deref(), Some(&b""[..]));
        assert_eq!(after.get(&longest).expect("open").as_ref(), Some(&longest));
        let mut batch = WriteBatch::new();
        batch.delete(&tree, "").expect("of this database");
        batch.delete(&tree, &longest).expect("of this database");
        db.write(&batch).expect("room");
        assert_eq!(tree.get("").expect("open"), None);
        assert_eq!(tree.get(&longest).expect("open"), None);
    }
    assert_whole(&db);
}

#[test]
fn a_thread_may_hold_ten_thousand_snapshots_and_end_before_them() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let snapshots = std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            let held = (0..10_000u32).map(|number| {
                if number % 1000 == 0 {
                    tree.put("k", number.to_be_bytes()).expect("room");
                }
                db.snapshot().expect("open").into_owned()
            });
            held.collect::<Vec<_>>()
        });
        held.join().expect("no panic")
    });
    assert_eq!(db.stats().snapshots.count, 10_000);
    for (number, snapshot) in snapshots.iter().enumerate().step_by(500) {
        let seen = snapshot.get(&tree, "k").expect("open");
        assert_eq!(seen, Some((number as u32 / 1000 * 1000).to_be_bytes().to_vec()));
    }
    let last = snapshots.into_iter().next_back();
    assert_eq!(db.stats().snapshots.count, 1);
    drop(db);
    // It keeps the database open by itself.
    let seen = last.expect("some").get(&tree, "k").expect("open");
    assert_eq!(seen, Some(9000u32.to_be_bytes().to_vec()));
}

#[test]
fn dropping_trees_beside_commits_to_them_poisons_nothing() {
    let _watchdog = watchdog("drops beside commits");
    let db = on(&SimMachine::new(1), &narrow());
    for round in 0..150 {
        let tree = db.tree("t").expect("new");
        let barrier = Barrier::new(3);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (db, tree, barrier) = (&db, &tree, &barrier);
                scope.spawn(move || {
                    let mut batch = WriteBatch::new();
                    for number in 0..50 {
                        batch.put(tree, key(number * 2 + writer), [1; 60]).expect("there");
                    }
                    barrier.wait();
                    loop {
                        match db.write(&batch) {
                            Ok(_) => {}
                            Err(Error::Usage(Usage::TreeDropped(_))) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            barrier.wait();
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            assert!(db.drop_tree("t").expect("room"));
        });
        db.health().expect("not poisoned");
    }
    assert_whole(&db);
}
