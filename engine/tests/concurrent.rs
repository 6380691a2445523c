//! Many threads on one database, most of the time with sixteen frames, so that everything is evicted, split and merged
//! under everybody's feet.
//!
//! Each thread that writes owns its keys and knows what they hold; what is shared is counted, or never changes. A watchdog
//! turns a hang into a failure. Nothing here depends on how long anything takes.

mod common;

use common::{
    Model, Watchdog, assert_same, assert_whole, place, records, scaled, seed, tiny, value_of,
    watchdog,
};
use fastrand::Rng;
use latchkv::{Backend, CompareAndSwap, Db, Error, Tree, Usage};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, scope};

/// Set when the writers are done; also when one of them panics, so that the others end and the panic is seen.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `again` in a thread until the writers are done, and once at least.
fn until_done<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    done: &'scope AtomicBool,
    mut again: impl FnMut() + Send + 'scope,
) {
    scope.spawn(move || {
        loop {
            let last = done.load(Ordering::Relaxed);
            again();
            if last {
                return;
            }
        }
    });
}

fn checkpoint(db: &Db) {
    db.checkpoint().expect("room");
}

const PERMANENT: u32 = 400;

fn permanent_key(i: u32) -> Vec<u8> {
    format!("{i:05}").into_bytes()
}

fn put_permanent(tree: &Tree) {
    for i in 0..PERMANENT {
        tree.put(permanent_key(i), value_of(&permanent_key(i), 0, 60))
            .expect("room");
    }
}

/// The permanent keys of `seen`, in which each must be there once and in order.
fn assert_each_once(seen: impl Iterator<Item = Vec<u8>>, what: &str) {
    let mut expected = 0;
    for key in seen.filter(|key| key.len() == 5) {
        assert_eq!(
            key,
            permanent_key(expected),
            "{what}: twice, out of order, or one is missing"
        );
        expected += 1;
    }
    assert_eq!(expected, PERMANENT, "{what} ended early");
}

/// Fills and empties the room between the permanent keys, so that leaves split and merge; gives what is left.
fn churn(tree: &Tree, thread: u8, rounds: usize, rng: &mut Rng) -> Model {
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
            let value = value_of(key, round as u64, rng.usize(100..700));
            tree.put(key, &value).expect("room");
            own.insert(key.clone(), value);
        }
        for key in &keys {
            let found = tree.get(key).expect("readable");
            assert!(
                found.as_ref() == own.get(key),
                "thread {thread} lost {key:?}"
            );
        }
        for key in &keys {
            if rng.u32(0..10) > 0 {
                assert!(
                    tree.delete(key).expect("room"),
                    "thread {thread} lost {key:?}"
                );
                own.remove(key);
            }
        }
    }
    own
}

fn whole_afterwards(db: &Db, tree: &Tree, models: Vec<Model>) {
    let mut model: Model = (0..PERMANENT)
        .map(|i| (permanent_key(i), value_of(&permanent_key(i), 0, 60)))
        .collect();
    model.extend(models.into_iter().flatten());
    assert_same(tree, &model);
    assert_whole(db);
}

fn scans_beside_churn(page_bytes: u32, backend: Backend, salt: u64) {
    let _watchdog: Watchdog = watchdog("scans_beside_churn");
    let place = place();
    let db = tiny(page_bytes)
        .backend(backend)
        .create(&place.path)
        .expect("nothing there");
    assert_eq!(db.stats().pool.frames, 16);
    let tree = db.tree("t").expect("made");
    put_permanent(&tree);
    let seed = seed(salt);
    let done = AtomicBool::new(false);
    let rounds = scaled(40, 4);
    let (mut ends, mut points) = (Rng::with_seed(seed ^ 99), Rng::with_seed(seed ^ 98));
    let models = scope(|scope| {
        until_done(scope, &done, || {
            assert_each_once(
                tree.iter().map(|e| e.expect("readable").into_pair().0),
                "forward",
            );
        });
        until_done(scope, &done, || {
            let mut keys: Vec<_> = tree
                .iter()
                .rev()
                .map(|e| e.expect("readable").into_pair().0)
                .collect();
            keys.reverse();
            assert_each_once(keys.into_iter(), "backward");
        });
        until_done(scope, &done, || {
            let (mut range, mut front, mut back) = (tree.iter(), Vec::new(), Vec::new());
            loop {
                let from_front = ends.bool();
                let entry = if from_front {
                    range.next()
                } else {
                    range.next_back()
                };
                let Some(entry) = entry else { break };
                let key = entry.expect("readable").into_pair().0;
                if from_front {
                    front.push(key)
                } else {
                    back.push(key)
                }
            }
            assert_each_once(
                front.into_iter().chain(back.into_iter().rev()),
                "from both ends",
            );
        });
        until_done(scope, &done, || checkpoint(&db));
        until_done(scope, &done, || {
            let key = permanent_key(points.u32(0..PERMANENT));
            let value = tree.get(&key).expect("readable").expect("permanent");
            assert!(value == value_of(&key, 0, 60));
        });
        let _done = Done(&done);
        let writers: Vec<_> = (0..3u8)
            .map(|thread| {
                let tree = &tree;
                scope.spawn(move || {
                    churn(
                        tree,
                        thread,
                        rounds,
                        &mut Rng::with_seed(seed ^ u64::from(thread)),
                    )
                })
            })
            .collect();
        writers
            .into_iter()
            .map(|writer| writer.join().expect("no writer panics"))
            .collect()
    });
    whole_afterwards(&db, &tree, models);
    drop(tree);
    db.close().expect("room");
    let db = tiny(page_bytes)
        .open_existing(&place.path)
        .expect("closed in order");
    let tree = db.open_tree("t").expect("readable").expect("there");
    assert_each_once(
        tree.iter().map(|e| e.expect("readable").into_pair().0),
        "after reopening",
    );
    assert_whole(&db);
}

#[test]
fn permanent_keys_are_seen_exactly_once_while_others_split_and_merge() {
    scans_beside_churn(4096, Backend::Pread, 1);
}

#[test]
fn permanent_keys_are_seen_exactly_once_over_the_default_backend() {
    scans_beside_churn(8192, Backend::Auto, 2);
}

#[test]
fn permanent_keys_are_seen_exactly_once_over_mmap() {
    scans_beside_churn(4096, Backend::Mmap, 3);
}

#[test]
fn counters_swapped_by_eight_threads_add_up() {
    let _watchdog = watchdog("counters_swapped_by_eight_threads_add_up");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("counters").expect("made");
    let adds = scaled(300, 20);
    let misses = AtomicU64::new(0);
    scope(|scope| {
        for thread in 0..8u64 {
            let (tree, misses) = (&tree, &misses);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed(10 + thread));
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
            u64::from_le_bytes(
                entry
                    .expect("readable")
                    .value()
                    .try_into()
                    .expect("eight bytes"),
            )
        })
        .sum();
    assert_eq!(sum, 8 * adds as u64, "{} misses", misses.into_inner());
    assert_eq!(tree.len().expect("open"), 4);
}

#[test]
fn exactly_one_of_eight_inserters_and_one_of_eight_deleters_wins_each_key() {
    let _watchdog = watchdog("exactly_one_inserter_wins");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    let keys = scaled(400, 30) as u32;
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
                            false => tree.insert(key, [thread as u8; 90]).expect("room"),
                            true => tree.delete(key).expect("room"),
                        };
                        counter.fetch_add(u64::from(won), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(
            counter.load(Ordering::Relaxed),
            u64::from(keys),
            "delete: {delete}"
        );
        assert_eq!(
            tree.len().expect("open"),
            if delete { 0 } else { u64::from(keys) }
        );
        assert_whole(&db);
    }
}

#[test]
fn eight_threads_with_sixteen_frames_keep_their_keys_and_large_values() {
    let _watchdog = watchdog("eight_threads_with_sixteen_frames");
    for page_bytes in [4096u32, 65536] {
        let place = place();
        let db = tiny(page_bytes).create(&place.path).expect("nothing there");
        let tree = db.tree("t").expect("made");
        let seed = seed(u64::from(page_bytes));
        let steps = scaled(300, 30);
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
                                0 => page_bytes as usize * 2,
                                1..4 => page_bytes as usize / 4 - 20,
                                _ => rng.usize(0..200),
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
                                _ => assert!(
                                    tree.get(&key).expect("readable").as_ref() == own.get(&key)
                                ),
                            }
                        }
                        own
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .collect()
        });
        assert_same(&tree, &models.into_iter().flatten().collect());
        assert_whole(&db);
    }
}

/// What a reader of a tree that comes and goes may meet. Damage is not among it.
fn gone(error: &Error) -> bool {
    matches!(error, Error::Usage(Usage::TreeDropped(_)))
}

#[test]
fn readers_and_writers_of_a_tree_that_is_dropped_are_told_so_and_nothing_else() {
    let _watchdog = watchdog("readers_and_writers_of_a_tree_that_is_dropped");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let done = AtomicBool::new(false);
    scope(|scope| {
        for thread in 0..5u32 {
            let db = &db;
            let mut rng = Rng::with_seed(seed(40 + u64::from(thread)));
            until_done(scope, &done, move || {
                let tree = db.tree("comes and goes").expect("room");
                for _ in 0..50 {
                    let key = rng.u32(0..600).to_be_bytes();
                    let met = match thread {
                        0 => tree.get(key).map(|value| {
                            assert!(
                                value.is_none_or(|value| value.len() == 100 || value == b"other")
                            );
                        }),
                        1 => tree.iter().take(100).try_for_each(|entry| entry.map(drop)),
                        2 => tree
                            .iter()
                            .rev()
                            .take(100)
                            .try_for_each(|entry| entry.map(drop)),
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
        for round in 0..scaled(25, 3) as u32 {
            let tree = db.tree("comes and goes").expect("room");
            for i in 0..300u32 {
                tree.put((2 * i + round % 2).to_be_bytes(), [7; 100])
                    .expect("nobody else drops it");
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

#[test]
fn clearing_beside_readers_and_writers_loses_no_later_put() {
    let _watchdog = watchdog("clearing_beside_readers_and_writers");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    let done = AtomicBool::new(false);
    scope(|scope| {
        for thread in 0..4u8 {
            let tree = &tree;
            let mut rng = Rng::with_seed(seed(50 + u64::from(thread)));
            until_done(scope, &done, move || {
                for i in 0..40u8 {
                    let key = [thread, i];
                    match rng.u32(0..4) {
                        0 => drop(tree.get(key).expect("readable")),
                        1 => tree.iter().for_each(|entry| drop(entry.expect("readable"))),
                        2 => drop(tree.delete(key).expect("room")),
                        _ => tree.put(key, vec![thread; 300]).expect("room"),
                    }
                }
            });
        }
        until_done(scope, &done, || checkpoint(&db));
        let _done = Done(&done);
        for _ in 0..scaled(60, 5) {
            // The key is this thread's own, and nobody else clears.
            tree.put(b"mine", b"here").expect("room");
            assert_eq!(
                tree.get(b"mine").expect("readable").as_deref(),
                Some(&b"here"[..])
            );
            tree.clear().expect("room");
            assert_eq!(tree.get(b"mine").expect("readable"), None);
        }
    });
    assert_whole(&db);
    tree.clear().expect("room");
    assert_same(&tree, &Model::new());
    assert_whole(&db);
}

/// A put that came down before a clear and entered the gate after it wrote into a leaf that was being taken apart: it was
/// acknowledged and lost, and the length counted it for ever.
#[test]
fn a_put_that_a_clear_overtakes_is_not_lost_in_what_was_cleared() {
    let _watchdog = watchdog("a_put_that_a_clear_overtakes");
    let db = tiny(4096)
        .open_disk(std::sync::Arc::new(latchkv::io::SimDisk::new(1)))
        .expect("empty");
    let tree = db.tree("t").expect("made");
    for round in 0..scaled(150, 10) as u32 {
        // Two levels, so that leaves keep their versions when the root is emptied.
        tree.bulk_load((0..60u32).map(|i| (i.to_be_bytes(), [1; 150])))
            .expect("empty before");
        scope(|scope| {
            for thread in 0..3u32 {
                let tree = &tree;
                scope.spawn(move || {
                    for i in 0..20u32 {
                        let key = ((i * 7 + thread * 19 + round) % 60).to_be_bytes();
                        match thread {
                            0 => tree.put(key, [2; 150]).expect("room"),
                            1 => drop(tree.delete(key).expect("room")),
                            _ => tree
                                .put([&key[..], b"new"].concat(), [3; 150])
                                .expect("room"),
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

#[test]
fn clears_and_drops_of_the_same_tree_by_many_threads_leave_a_whole_database() {
    let _watchdog = watchdog("clears_and_drops_of_the_same_tree");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    scope(|scope| {
        for thread in 0..6u32 {
            let db = &db;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed(60 + u64::from(thread)));
                for _ in 0..scaled(40, 5) {
                    let name = ["a", "b"][rng.usize(0..2)];
                    let tree = db.tree(name).expect("room");
                    let met = (0..30).try_for_each(|i| tree.put([i, thread as u8], vec![1; 200]));
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
                            match tree.bulk_load((0..200u32).map(|i| (i.to_be_bytes(), [2; 50]))) {
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
        assert_eq!(
            records(&tree).expect("readable").len() as u64,
            tree.len().expect("open")
        );
        assert!(db.drop_tree(name).expect("room"));
    }
    db.checkpoint().expect("room");
    assert_whole(&db);
}

#[test]
fn a_checkpoint_beside_writers_holds_each_thread_s_puts_up_to_one_of_them() {
    let _watchdog = watchdog("a_checkpoint_beside_writers");
    let disk = std::sync::Arc::new(latchkv::io::SimDisk::new(5));
    let db = tiny(4096).open_disk(disk.clone()).expect("an empty disk");
    let tree = db.tree("t").expect("made");
    db.checkpoint().expect("room");
    let puts = scaled(1000, 60) as u32;
    let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let mut found = BTreeSet::new();
    scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|thread| {
                let (tree, acknowledged) = (&tree, &acknowledged);
                scope.spawn(move || {
                    for i in 0..puts {
                        let mut key = vec![thread];
                        key.extend(i.wrapping_mul(0x9e37_79b9).to_be_bytes());
                        tree.put(&key, i.to_be_bytes()).expect("room");
                        acknowledged[usize::from(thread)]
                            .store(u64::from(i) + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let before: Vec<u64> = acknowledged
                .iter()
                .map(|count| count.load(Ordering::Acquire))
                .collect();
            db.checkpoint().expect("room");
            let after = disk.crash(1, latchkv::io::sim::CrashMode::LoseAll);
            let db = tiny(4096)
                .open_disk(std::sync::Arc::new(after))
                .expect("a whole checkpoint");
            assert_whole(&db);
            let mut counts = [
                BTreeSet::new(),
                BTreeSet::new(),
                BTreeSet::new(),
                BTreeSet::new(),
            ];
            for (key, value) in records(&db.tree("t").expect("there")).expect("readable") {
                counts[usize::from(key[0])]
                    .insert(u32::from_be_bytes(value.try_into().expect("four bytes")));
            }
            for (thread, numbers) in counts.iter().enumerate() {
                let len = numbers.len() as u64;
                assert!(
                    numbers.iter().copied().eq(0..len as u32),
                    "thread {thread}: a put is missing in between"
                );
                assert!(
                    len >= before[thread],
                    "thread {thread}: {len} of {} acknowledged",
                    before[thread]
                );
                found.insert(len);
            }
        }
        for writer in writers {
            writer.join().expect("no writer panics");
        }
    });
    assert_eq!(tree.len().expect("open"), 4 * u64::from(puts));
    assert_whole(&db);
}
