//! Trees dropped, cleared and renamed beside their readers and writers.

use crate::common::matrix::{Case, at_every_page_size, over_every_backend};
use crate::common::{Model, assert_same, assert_whole, place, records, simulated, watchdog};
use crate::{Done, checkpoint, until_done};
use fastrand::Rng;
use latchkv::{Error, Usage};
use std::sync::atomic::AtomicBool;
use std::thread::scope;

/// What a reader of a tree that comes and goes may meet. Damage is not among it.
fn gone(error: &Error) -> bool {
    matches!(error, Error::Usage(Usage::TreeDropped(_)))
}

fn drops(case: Case) {
    let _watchdog = watchdog("readers_and_writers_of_a_tree_that_is_dropped");
    let place = place();
    let db = case.create(&place.path);
    let done = AtomicBool::new(false);
    let value = vec![7; 100 * case.units()];
    scope(|scope| {
        for thread in 0..5u32 {
            let (db, value) = (&db, &value);
            let mut rng = Rng::with_seed(case.seed(40 + u64::from(thread)));
            until_done(scope, &done, move || {
                let tree = db.tree("comes and goes").expect("room");
                for _ in 0..50 {
                    let key = rng.u32(0..600).to_be_bytes();
                    let met = match thread {
                        0 => tree.get(key).map(|found| {
                            assert!(found.is_none_or(|found| found == *value || found == b"other"));
                        }),
                        1 => tree.iter().take(100).try_for_each(|entry| entry.map(drop)),
                        2 => tree.iter().rev().take(100).try_for_each(|entry| entry.map(drop)),
                        3 => tree.put(key, b"other"),
                        _ => tree.delete(key).map(drop),
                    };
                    if let Err(error) = met {
                        assert!(gone(&error), "thread {thread}: {error:?}");
                        break;
                    }
                }
            });
        }
        until_done(scope, &done, || checkpoint(&db));
        let _done = Done(&done);
        for round in 0..case.share(25, 3) as u32 {
            let tree = db.tree("comes and goes").expect("room");
            for i in 0..300u32 {
                tree.put((2 * i + round % 2).to_be_bytes(), &value).expect("nobody else drops it");
            }
            assert!(db.drop_tree("comes and goes").expect("room"));
            assert!(matches!(tree.get(b"x"), Err(error) if gone(&error)));
        }
    });
    db.drop_tree("comes and goes").expect("room");
    db.checkpoint().expect("room");
    db.checkpoint().expect("room");
    assert_whole(&db);
    assert!(
        db.stats().store.pages <= 2,
        "dropped trees give their pages back: {:?}",
        db.stats().store
    );
}

fn clears(case: Case) {
    let _watchdog = watchdog("clearing_beside_readers_and_writers");
    let place = place();
    let db = case.create(&place.path);
    let tree = db.tree("t").expect("made");
    let done = AtomicBool::new(false);
    scope(|scope| {
        for thread in 0..4u8 {
            let tree = &tree;
            let mut rng = Rng::with_seed(case.seed(50 + u64::from(thread)));
            until_done(scope, &done, move || {
                for i in 0..40u8 {
                    let key = [thread, i];
                    match rng.u32(0..4) {
                        0 => drop(tree.get(key).expect("readable")),
                        1 => tree.iter().for_each(|entry| drop(entry.expect("readable"))),
                        2 => drop(tree.delete(key).expect("room")),
                        _ => tree.put(key, vec![thread; 300 * case.units()]).expect("room"),
                    }
                }
            });
        }
        until_done(scope, &done, || checkpoint(&db));
        let _done = Done(&done);
        for _ in 0..case.share(60, 5) {
            // The key is this thread's own, and nobody else clears.
            tree.put(b"mine", b"here").expect("room");
            assert_eq!(tree.get(b"mine").expect("readable").as_deref(), Some(&b"here"[..]));
            tree.clear().expect("room");
            assert_eq!(tree.get(b"mine").expect("readable"), None);
        }
    });
    assert_whole(&db);
    tree.clear().expect("room");
    assert_same(&tree, &Model::new());
    assert_whole(&db);
}

/// A put that came down before a clear and entered the gate after it wrote into a leaf that was being taken
/// apart: it was acknowledged and lost, and the length counted it for ever.
fn overtaken_puts(case: Case) {
    let _watchdog = watchdog("a_put_that_a_clear_overtakes");
    let db = simulated(&case.options());
    let value = |byte: u8| vec![byte; 150 * case.units()];
    let tree = db.tree("t").expect("made");
    for round in 0..case.share(300, 10) as u32 {
        // Two levels, so that leaves keep their versions when the root is emptied.
        tree.bulk_load((0..60u32).map(|i| (i.to_be_bytes(), value(1)))).expect("empty before");
        scope(|scope| {
            for thread in 0..3u32 {
                let tree = &tree;
                scope.spawn(move || {
                    for i in 0..20u32 {
                        let key = ((i * 7 + thread * 19 + round) % 60).to_be_bytes();
                        match thread {
                            0 => tree.put(key, value(2)).expect("room"),
                            1 => drop(tree.delete(key).expect("room")),
                            _ => tree.put([&key[..], b"new"].concat(), value(3)).expect("room"),
                        }
                    }
                });
            }
            tree.clear().expect("room");
        });
        let left = records(&tree).expect("readable").len() as u64;
        assert_eq!(tree.len().expect("open"), left, "round {round}");
        tree.clear().expect("room");
    }
    assert_whole(&db);
}

fn clears_and_drops(case: Case) {
    let _watchdog = watchdog("clears_and_drops_of_the_same_tree");
    let place = place();
    let db = case.create(&place.path);
    let units = case.units();
    scope(|scope| {
        for thread in 0..6u32 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(case.seed(60 + u64::from(thread)));
                for _ in 0..case.share(40, 5) {
                    let name = ["a", "b"][rng.usize(0..2)];
                    let tree = db.tree(name).expect("room");
                    let met =
                        (0..30).try_for_each(|i| tree.put([i, thread as u8], vec![1; 200 * units]));
                    let met = met.and_then(|()| match rng.u32(0..4) {
                        0 => tree.clear(),
                        1 => db.drop_tree(name).map(drop),
                        2 => match db.rename_tree(name, "c") {
                            Err(Error::Usage(Usage::TreeExists(_) | Usage::NoSuchTree(_))) => {
                                Ok(())
                            }
                            renamed => renamed,
                        },
                        _ => {
                            match tree.bulk_load(
                                (0..200u32).map(|i| (i.to_be_bytes(), vec![2; 50 * units])),
                            ) {
                                Err(Error::Usage(Usage::NotEmpty)) => Ok(()),
                                loaded => loaded.map(drop),
                            }
                        }
                    });
                    if let Err(error) = met {
                        assert!(gone(&error), "{error:?}");
                    }
                }
            });
        }
    });
    assert_whole(&db);
    let names = db.trees().expect("readable");
    for name in &names {
        let tree = db.open_tree(name).expect("readable").expect("named");
        assert_eq!(records(&tree).expect("readable").len() as u64, tree.len().expect("open"));
        assert!(db.drop_tree(name).expect("room"));
    }
    db.checkpoint().expect("room");
    assert_whole(&db);
}

over_every_backend! {
    readers_and_writers_of_a_tree_that_is_dropped_are_told_so_and_nothing_else => super::drops;
    clearing_beside_readers_and_writers_loses_no_later_put => super::clears;
    clears_and_drops_of_the_same_tree_by_many_threads_leave_a_whole_database =>
        super::clears_and_drops;
}

at_every_page_size! {
    a_put_that_a_clear_overtakes_is_not_lost_in_what_was_cleared => super::overtaken_puts;
}
