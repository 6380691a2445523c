//! Reads, scans and writes of records by many threads, beside splits and merges.

use crate::common::matrix::{Case, over_every_backend};
use crate::common::{Model, Watchdog, assert_same, assert_whole, place, value_of, watchdog};
use crate::{Done, checkpoint, until_done};
use fastrand::Rng;
use latchkv::{CompareAndSwap, Db, Tree};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

const PERMANENT: u32 = 400;

fn permanent_key(i: u32) -> Vec<u8> {
    format!("{i:05}").into_bytes()
}

fn permanent_value(case: Case, i: u32) -> Vec<u8> {
    value_of(&permanent_key(i), 0, 60 * case.units())
}

fn put_permanent(case: Case, tree: &Tree) {
    for i in 0..PERMANENT {
        tree.put(permanent_key(i), permanent_value(case, i)).expect("room");
    }
}

/// The permanent keys of `seen`, in which each must be there once and in order.
fn assert_each_once(seen: impl Iterator<Item = Vec<u8>>, what: &str) {
    let mut expected = 0;
    for key in seen.filter(|key| key.len() == 5) {
        assert_eq!(key, permanent_key(expected), "{what}: twice, out of order, or one is missing");
        expected += 1;
    }
    assert_eq!(expected, PERMANENT, "{what} ended early");
}

/// Fills and empties the room between the permanent keys, so that leaves split and merge; gives what is left.
fn churn(case: Case, tree: &Tree, thread: u8, rounds: usize, rng: &mut Rng) -> Model {
    let mut own = Model::new();
    for round in 0..rounds {
        let from = rng.u32(0..PERMANENT);
        let keys: Vec<Vec<u8>> = (0..60u32)
            .map(|i| {
                let mut key = permanent_key((from + i / 4) % PERMANENT);
                key.extend([thread, (i % 4) as u8]);
                key
            })
            .collect();
        for key in &keys {
            let value = value_of(key, round as u64, rng.usize(100..700) * case.units());
            tree.put(key, &value).expect("room");
            own.insert(key.clone(), value);
        }
        for key in &keys {
            let found = tree.get(key).expect("readable");
            assert!(found.as_ref() == own.get(key), "thread {thread} lost {key:?}");
        }
        for key in &keys {
            if rng.u32(0..10) > 0 {
                assert!(tree.delete(key).expect("room"), "thread {thread} lost {key:?}");
                own.remove(key);
            }
        }
    }
    own
}

fn whole_afterwards(case: Case, db: &Db, tree: &Tree, models: Vec<Model>) {
    let mut model: Model =
        (0..PERMANENT).map(|i| (permanent_key(i), permanent_value(case, i))).collect();
    model.extend(models.into_iter().flatten());
    assert_same(tree, &model);
    assert_whole(db);
}

fn scans_beside_churn(case: Case) {
    let _watchdog: Watchdog = watchdog("scans_beside_churn");
    let place = place();
    let db = case.create(&place.path);
    let tree = db.tree("t").expect("made");
    put_permanent(case, &tree);
    let seed = case.seed(1);
    let done = AtomicBool::new(false);
    let rounds = case.share(40, 3);
    let (mut ends, mut points) = (Rng::with_seed(seed ^ 99), Rng::with_seed(seed ^ 98));
    let models = scope(|scope| {
        until_done(scope, &done, || {
            assert_each_once(tree.iter().map(|e| e.expect("readable").into_pair().0), "forward");
        });
        until_done(scope, &done, || {
            let mut keys: Vec<_> =
                tree.iter().rev().map(|e| e.expect("readable").into_pair().0).collect();
            keys.reverse();
            assert_each_once(keys.into_iter(), "backward");
        });
        until_done(scope, &done, || {
            let (mut range, mut front, mut back) = (tree.iter(), Vec::new(), Vec::new());
            loop {
                let from_front = ends.bool();
                let entry = if from_front { range.next() } else { range.next_back() };
                let Some(entry) = entry else { break };
                let key = entry.expect("readable").into_pair().0;
                if from_front { front.push(key) } else { back.push(key) }
            }
            assert_each_once(front.into_iter().chain(back.into_iter().rev()), "from both ends");
        });
        until_done(scope, &done, || checkpoint(&db));
        until_done(scope, &done, || {
            let i = points.u32(0..PERMANENT);
            let value = tree.get(permanent_key(i)).expect("readable").expect("permanent");
            assert!(value == permanent_value(case, i));
        });
        let _done = Done(&done);
        let writers: Vec<_> = (0..3u8)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    churn(case, tree, thread, rounds, &mut Rng::with_seed(seed ^ u64::from(thread)))
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect()
    });
    whole_afterwards(case, &db, &tree, models);
    drop(tree);
    db.close().expect("room");
    let db = case.options().open_existing(&place.path).expect("closed in order");
    let tree = db.open_tree("t").expect("readable").expect("there");
    assert_each_once(tree.iter().map(|e| e.expect("readable").into_pair().0), "after reopening");
    assert_whole(&db);
}

fn counters(case: Case) {
    let _watchdog = watchdog("counters_swapped_by_eight_threads_add_up");
    let place = place();
    let db = case.create(&place.path);
    let tree = db.tree("counters").expect("made");
    let adds = case.share(300, 20);
    let misses = AtomicU64::new(0);
    scope(|scope| {
        for thread in 0..8u64 {
            let (tree, misses) = (&tree, &misses);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(case.seed(10 + thread));
                for _ in 0..adds {
                    let key = [b'c', rng.u8(0..4)];
                    let mut current = tree.get(key).expect("readable");
                    loop {
                        let count = current.as_deref().map_or(0, |bytes| {
                            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
                        });
                        let next = (count + 1).to_le_bytes();
                        let swapped = tree.compare_and_swap(key, current.as_deref(), Some(&next));
                        match swapped.expect("room") {
                            CompareAndSwap::Swapped => break,
                            CompareAndSwap::Mismatch { current: other } => current = other,
                        }
                        misses.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let sum: u64 = tree
        .iter()
        .map(|entry| {
            u64::from_le_bytes(entry.expect("readable").value().try_into().expect("eight bytes"))
        })
        .sum();
    assert_eq!(sum, 8 * adds as u64, "{} misses", misses.into_inner());
    assert_eq!(tree.len().expect("open"), 4);
}

fn inserters_and_deleters(case: Case) {
    let _watchdog = watchdog("exactly_one_inserter_wins");
    let place = place();
    let db = case.create(&place.path);
    let tree = db.tree("t").expect("made");
    let keys = case.share(400, 30) as u32;
    let value = |thread: u32| vec![thread as u8; 270 * case.units()];
    let (inserted, deleted) = (AtomicU64::new(0), AtomicU64::new(0));
    for (counter, delete) in [(&inserted, false), (&deleted, true)] {
        scope(|scope| {
            for thread in 0..8u32 {
                let tree = &tree;
                scope.spawn(move || {
                    for i in 0..keys {
                        // In different orders, so that not one of them wins all.
                        let key = ((i + thread * 50) % keys).to_be_bytes();
                        let won = match delete {
                            false => tree.insert(key, value(thread)).expect("room"),
                            true => tree.delete(key).expect("room"),
                        };
                        counter.fetch_add(u64::from(won), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.load(Ordering::Relaxed), u64::from(keys), "delete: {delete}");
        assert_eq!(tree.len().expect("open"), if delete { 0 } else { u64::from(keys) });
        assert_whole(&db);
    }
}

fn keys_and_large_values(case: Case) {
    let _watchdog = watchdog("eight_threads_with_sixteen_frames");
    let place = place();
    let db = case.create(&place.path);
    let tree = db.tree("t").expect("made");
    let page_bytes = case.page_bytes as usize;
    let seed = case.seed(20);
    let steps = case.share(600, 30);
    let models: Vec<Model> = scope(|scope| {
        let threads: Vec<_> = (0..8u8)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed ^ u64::from(thread));
                    let mut own = Model::new();
                    for step in 0..steps {
                        let key = [rng.u8(..), rng.u8(0..4), thread].to_vec();
                        let len = match rng.u32(0..20) {
                            0 => page_bytes * 2,
                            1..4 => page_bytes / 4 - 20,
                            _ => rng.usize(0..200) * case.units(),
                        };
                        match rng.u32(0..10) {
                            0..6 => {
                                let value = value_of(&key, step as u64, len);
                                tree.put(&key, &value).expect("room");
                                own.insert(key, value);
                            }
                            6..8 => {
                                let removed = tree.delete(&key).expect("room");
                                assert_eq!(removed, own.remove(&key).is_some());
                            }
                            _ => {
                                assert!(tree.get(&key).expect("readable").as_ref() == own.get(&key))
                            }
                        }
                    }
                    own
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    assert_same(&tree, &models.into_iter().flatten().collect());
    assert_whole(&db);
}

over_every_backend! {
    permanent_keys_are_seen_exactly_once_while_others_split_and_merge => super::scans_beside_churn;
    counters_swapped_by_eight_threads_add_up => super::counters;
    exactly_one_of_eight_inserters_and_one_of_eight_deleters_wins_each_key =>
        super::inserters_and_deleters;
    eight_threads_with_sixteen_frames_keep_their_keys_and_large_values =>
        super::keys_and_large_values;
}
