//! Commits of several changes by many threads: each change is made in the leaf that its key belongs to, once, though
//! leaves are found before the commit is made, and are split, evicted or cleared away until then.

use crate::common::matrix::{Case, at_every_page_size};
use crate::common::{Model, assert_same, assert_whole, records, simulated, value_of, watchdog};
use crate::{Done, checkpoint, until_done};
use fastrand::Rng;
use latchkv::{Db, Error, Isolation, TransactionOptions, Tree, WriteBatch};
use std::sync::atomic::AtomicBool;
use std::thread::scope;

/// Keys that nobody writes, for guards.
const GUARDED: u8 = 0xff;

fn key_of(place: u32, thread: u8) -> Vec<u8> {
    [&place.to_be_bytes()[..], &[thread]].concat()
}

/// What one commit is to do with a key of one of the trees.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Put(usize),
    Delete,
    Guard,
}

/// A run of places that mostly share a leaf, in one tree or both; the keys of `thread`, and guards of nobody's between.
fn steps(case: Case, rng: &mut Rng) -> Vec<(usize, u32, Step)> {
    let mut steps = Vec::new();
    let (one_tree, from) = (rng.bool(), rng.u32(0..300));
    for place in from..from + rng.u32(1..25) {
        let tree = if one_tree { 0 } else { rng.usize(0..2) };
        let step = match rng.u32(0..40) {
            0 => Step::Put(case.page_bytes as usize * 2),
            1..4 => Step::Put(case.page_bytes as usize / 4 - 40),
            4..16 => Step::Put(rng.usize(0..200) * case.units()),
            16..30 => Step::Delete,
            _ => Step::Guard,
        };
        steps.push((tree, place, step));
    }
    steps
}

/// Commits until it is told to end; the keys are this thread's, so that nothing conflicts.
fn commit_often(case: Case, db: &Db, trees: &[Tree; 2], thread: u8, rng: &mut Rng) -> [Model; 2] {
    let mut own = [Model::new(), Model::new()];
    let serializable = TransactionOptions::new().isolation(Isolation::Serializable);
    for round in 0..case.share(250, 12) as u64 {
        let steps = steps(case, rng);
        let value = |place: u32, len: usize| value_of(&key_of(place, thread), round, len);
        let kind = rng.u32(0..4);
        if kind == 0 {
            let mut batch = WriteBatch::new();
            for &(tree, place, step) in &steps {
                let key = key_of(place, thread);
                match step {
                    Step::Put(len) => {
                        batch.put(&trees[tree], key, value(place, len)).expect("small")
                    }
                    Step::Delete => batch.delete(&trees[tree], key).expect("small"),
                    Step::Guard => {}
                }
            }
            db.write(&batch).expect("room");
        } else {
            let begun = if kind == 1 { db.begin_with(&serializable) } else { db.begin() };
            let mut transaction = begun.expect("open");
            for &(tree, place, step) in &steps {
                let (tree, key) = (&trees[tree], key_of(place, thread));
                match step {
                    Step::Put(len) => {
                        transaction.put(tree, key, value(place, len)).expect("open");
                    }
                    Step::Delete => {
                        transaction.delete(tree, key).expect("open");
                    }
                    Step::Guard => {
                        let key = if place % 2 == 0 { key } else { key_of(place, GUARDED) };
                        transaction.get_for_update(tree, key).expect("open");
                    }
                }
            }
            if rng.u32(0..10) == 0 {
                continue;
            }
            transaction.commit().expect("nobody else writes these keys");
        }
        for (tree, place, step) in steps {
            let key = key_of(place, thread);
            match step {
                Step::Put(len) => drop(own[tree].insert(key, value(place, len))),
                Step::Delete => drop(own[tree].remove(&key)),
                Step::Guard => {}
            }
        }
        let probe = key_of(rng.u32(0..325), thread);
        for (tree, own) in trees.iter().zip(&own) {
            let found = tree.get(&probe).expect("readable");
            assert!(found.as_ref() == own.get(&probe), "thread {thread} lost {probe:?}");
        }
    }
    own
}

fn commits_beside_commits(case: Case) {
    let _watchdog = watchdog("commits_beside_commits");
    let db = simulated(&case.options());
    let trees = [db.tree("one").expect("made"), db.tree("two").expect("made")];
    let mut guarded = Model::new();
    for place in (1..325).step_by(6) {
        let (key, value) = (key_of(place, GUARDED), vec![9; 50 * case.units()]);
        trees.iter().for_each(|tree| tree.put(&key, &value).expect("room"));
        guarded.insert(key, value);
    }
    let seed = case.seed(70);
    let done = AtomicBool::new(false);
    let models = scope(|scope| {
        until_done(scope, &done, || checkpoint(&db));
        until_done(scope, &done, || {
            let there =
                trees[0].iter().filter(|e| e.as_ref().expect("readable").key()[4] == GUARDED);
            assert_eq!(there.count(), guarded.len(), "what is only guarded stays");
        });
        let _done = Done(&done);
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let (db, trees) = (&db, &trees);
                let mut rng = Rng::with_seed(seed ^ u64::from(thread));
                scope.spawn(move || commit_often(case, db, trees, thread, &mut rng))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .collect::<Vec<_>>()
    });
    for (at, tree) in trees.iter().enumerate() {
        let mut model = guarded.clone();
        model.extend(models.iter().flat_map(|model| model[at].clone()));
        assert_same(tree, &model);
    }
    assert_whole(&db);
    drop(trees);
    db.drop_tree("one").expect("room");
    db.drop_tree("two").expect("room");
    // Large values that were overwritten go in the background; what is left behind stays, and the watchdog tells.
    while db.stats().store.pages > 2 {
        checkpoint(&db);
        std::thread::yield_now();
    }
    assert_whole(&db);
}

/// A batch found its leaves, a clear, a rebuild or a fill came, and the batch went on: it is there whole, or, if it
/// came before a clear, not at all.
fn overtaken_batches(case: Case) {
    let _watchdog = watchdog("overtaken_batches");
    let db = simulated(&case.options());
    let tree = db.tree("t").expect("made");
    let value = |byte: u8| vec![byte; 150 * case.units()];
    let seed = case.seed(71);
    for round in 0..case.share(240, 9) as u32 {
        let mut rng = Rng::with_seed(seed ^ u64::from(round));
        let old = |i: u32| [&i.to_be_bytes()[..], b"old"].concat();
        let new = |i: u32, thread: u8, n: u32| [&i.to_be_bytes()[..], &[thread, n as u8]].concat();
        // A third of the rounds begin with a tree that is empty, so that it can be filled.
        let what = round % 3;
        if what < 2 {
            tree.bulk_load((0..60).map(|i| (old(i), value(1)))).expect("empty before");
        }
        // A key of its own before and behind what may be a leaf's end.
        let places: Vec<u32> = (0..3).map(|_| rng.u32(0..50)).collect();
        let filled = scope(|scope| {
            for thread in 0..2u8 {
                let (db, tree, places) = (&db, &tree, &places);
                scope.spawn(move || {
                    for (n, &place) in (0..).zip(places) {
                        let mut batch = WriteBatch::new();
                        for i in place..place + 10 {
                            batch.put(tree, new(i, thread, n), value(3)).expect("small");
                            batch.delete(tree, old(i)).expect("small");
                        }
                        db.write(&batch).expect("room");
                    }
                });
            }
            match what {
                0 => {
                    tree.clear().expect("room");
                    false
                }
                1 => match tree.rebuild() {
                    Ok(()) | Err(Error::Conflict { .. }) => false,
                    Err(error) => panic!("{error:?}"),
                },
                _ => match tree.bulk_load((0..60).map(|i| (old(i), value(1)))) {
                    Ok(_) => true,
                    Err(Error::Usage(latchkv::Usage::NotEmpty)) => false,
                    Err(error) => panic!("{error:?}"),
                },
            }
        });
        let left = records(&tree).expect("readable");
        assert_eq!(tree.len().expect("open"), left.len() as u64, "round {round}");
        for thread in 0..2u8 {
            let mut last = false;
            for (n, &place) in (0..).zip(&places) {
                let there = (place..place + 10)
                    .filter(|&i| left.iter().any(|(key, _)| *key == new(i, thread, n)))
                    .count();
                assert!(there == 10 || (what == 0 && there == 0), "round {round}: {there} of ten");
                assert!(
                    there == 10 || !last,
                    "round {round}: a later batch is gone, not the one before"
                );
                last = there == 10;
                if last && !(what == 2 && filled) {
                    let left =
                        left.iter().filter(|(key, _)| (place..place + 10).any(|i| *key == old(i)));
                    assert_eq!(left.count(), 0, "round {round}: what the batch deleted");
                }
            }
        }
        tree.clear().expect("room");
    }
    assert_whole(&db);
}

at_every_page_size! {
    commits_of_many_keys_by_four_threads_with_sixteen_frames_lose_and_leak_nothing =>
        super::commits_beside_commits;
    a_batch_that_a_clear_a_rebuild_or_a_fill_overtakes_is_there_whole_or_not_at_all =>
        super::overtaken_batches;
}
