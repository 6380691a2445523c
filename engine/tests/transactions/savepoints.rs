//! Savepoints of transactions that do not fit their memory: what is spilled leaves it, and comes back, or does not,
//! as if it had stayed.

use super::{key, on};
use crate::common::{Model, assert_same, assert_whole, scaled, seed, value_of, watchdog};
use latchkv::io::sim::{CrashMode, SimMachine};
use latchkv::{Db, Durability, Entry, Error, Options, Savepoint, Transaction, Tree, Usage};

fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(1 << 20)
        .write_set_bytes(20 << 10)
        .log_slot_bytes(64 << 10)
        .durability(Durability::None)
}

fn pairs(range: impl Iterator<Item = latchkv::Result<Entry>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.expect("readable").into_pair()).collect()
}

fn is_too_large<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Usage(Usage::TransactionTooLarge { .. })))
}

/// A transaction on two trees, and what it is to hold, now and at each savepoint.
struct Stack<'db> {
    transaction: Transaction<'db>,
    trees: [Tree; 2],
    now: [Model; 2],
    savepoints: Vec<(Savepoint, [Model; 2])>,
}

impl Stack<'_> {
    fn step(&mut self, rng: &mut fastrand::Rng, generation: u64) {
        let which = usize::from(rng.u8(0..4) == 0);
        let (tree, model) = (&self.trees[which], &mut self.now[which]);
        let key = key(rng.u32(0..600));
        match rng.u32(0..100) {
            0..2 => self.savepoints.push((self.transaction.savepoint(), self.now.clone())),
            2..3 if !self.savepoints.is_empty() => {
                let place = rng.usize(0..self.savepoints.len());
                self.savepoints.truncate(place + 1);
                let (savepoint, then) = &self.savepoints[place];
                self.transaction.rollback_to(*savepoint).expect("set");
                self.now = then.clone();
                self.assert_same();
            }
            3..15 => {
                let was = model.remove(&key).is_some();
                assert_eq!(self.transaction.delete(tree, &key).expect("open"), was);
            }
            15..25 => {
                let seen = self.transaction.get_for_update(tree, &key).expect("open");
                assert_eq!(seen.as_ref(), model.get(&key));
            }
            25..35 => {
                let seen = self.transaction.get(tree, &key).expect("open");
                assert_eq!(seen.as_ref(), model.get(&key));
            }
            kind => {
                let len = if kind == 99 { 5000 } else { 90 };
                let value = value_of(&key, generation, len);
                self.transaction.put(tree, &key, &value).expect("open");
                model.insert(key, value);
            }
        }
    }

    fn assert_same(&self) {
        for (tree, model) in self.trees.iter().zip(&self.now) {
            let expected: Vec<_> = model.clone().into_iter().collect();
            assert_eq!(pairs(self.transaction.iter(tree)), expected);
            let mut backward = pairs(self.transaction.iter(tree).rev());
            backward.reverse();
            assert_eq!(backward, expected);
        }
    }
}

#[test]
fn going_back_finds_what_was_there_whatever_was_spilled_in_between() {
    let _watchdog = watchdog("savepoints");
    let seed = seed(10);
    for round in 0..scaled(12, 2) as u64 {
        let mut rng = fastrand::Rng::with_seed(seed ^ round);
        let machine = SimMachine::new(round);
        let db = on(&machine, &options());
        let trees = ["one", "two"].map(|name| db.tree(name).expect("new"));
        let mut committed = [Model::new(), Model::new()];
        for number in 0..200 {
            let value = value_of(&key(number), 0, 60);
            trees[0].put(key(number), &value).expect("room");
            committed[0].insert(key(number), value);
        }
        let mut stack = Stack {
            transaction: db.begin().expect("open"),
            trees: trees.clone(),
            now: committed,
            savepoints: Vec::new(),
        };
        for step in 0..2500 {
            stack.step(&mut rng, step);
        }
        stack.assert_same();
        let Stack { transaction, now, .. } = stack;
        transaction.commit().expect("nobody else writes");
        trees.iter().zip(&now).for_each(|(tree, model)| assert_same(tree, model));
        assert_whole(&db);
        db.sync().expect("room");
        let db = on(&machine.crash(7, CrashMode::LoseAll), &options());
        for (name, model) in ["one", "two"].iter().zip(&now) {
            assert_same(&db.open_tree(name).expect("readable").expect("there"), model);
        }
        assert_whole(&db);
    }
}

#[test]
fn what_was_spilled_and_taken_back_leaves_no_pages_behind() {
    let db = on(&SimMachine::new(1), &options());
    let tree = db.tree("t").expect("new");
    db.checkpoint().expect("room");
    let pages = db.stats().store.pages;
    let mut transaction = db.begin().expect("open");
    for round in 0..5u8 {
        let savepoint = transaction.savepoint();
        for number in 0..2000 {
            transaction.put(&tree, key(number), [round; 90]).expect("open");
        }
        transaction.put(&tree, "large", vec![round; 20_000]).expect("open");
        transaction.rollback_to(savepoint).expect("set");
        assert_eq!(transaction.iter(&tree).count(), 0);
    }
    transaction.commit().expect("nothing to write");
    db.checkpoint().expect("room");
    db.checkpoint().expect("room");
    assert!(db.stats().store.pages <= pages + 2, "{}", db.stats());
}

/// A guard, spilled around, holds as long as it would have.
#[test]
fn keys_read_for_update_are_guarded_from_where_they_were_read() {
    let fill = |transaction: &mut Transaction<'_>, tree: &Tree, from: u32| {
        for number in from..from + 500 {
            transaction.put(tree, key(number), [1; 90]).expect("open");
        }
    };
    // Which guard somebody else gets in the way of: that from before the savepoint, from behind it, or none.
    for (changed, conflicts) in [(Some("before"), true), (Some("behind"), false), (None, false)] {
        let db = on(&SimMachine::new(1), &options());
        let (tree, other) = (db.tree("t").expect("new"), db.tree("other").expect("new"));
        let mut transaction = db.begin().expect("open");
        transaction.get_for_update(&other, "before").expect("open");
        fill(&mut transaction, &tree, 0);
        let savepoint = transaction.savepoint();
        fill(&mut transaction, &tree, 1000);
        transaction.get_for_update(&other, "behind").expect("open");
        transaction.put(&other, "before", "over the guard").expect("open");
        fill(&mut transaction, &tree, 2000);
        let _later = transaction.savepoint();
        fill(&mut transaction, &tree, 3000);
        transaction.rollback_to(savepoint).expect("set");
        if let Some(changed) = changed {
            other.put(changed, "by somebody else").expect("room");
        }
        let committed = transaction.commit();
        assert_eq!(matches!(committed, Err(Error::Conflict { .. })), conflicts, "{committed:?}");
        assert_eq!(tree.iter().count(), if conflicts { 0 } else { 500 });
    }
}

fn put_much(db: &Db, savepoint_every: u32) -> latchkv::Result<()> {
    let tree = db.tree("t")?;
    let mut transaction = db.begin()?;
    for number in 0..6000 {
        if number % savepoint_every == 0 {
            let _kept = transaction.savepoint();
        }
        transaction.put(&tree, key(number), [7; 90])?;
    }
    transaction.commit().map(drop)
}

#[test]
fn what_is_between_savepoints_leaves_the_memory_unless_they_are_too_many() {
    // A million bytes of changes, of which eighty thousand may stay.
    let db = on(&SimMachine::new(1), &options().transaction_bytes_max(80 << 10));
    put_much(&db, 10).expect("less than ten savepoints at a time");
    db.tree("t").expect("there").clear().expect("room");
    assert!(is_too_large(put_much(&db, 1)), "each change is between two savepoints");
    assert_eq!(db.tree("t").expect("there").iter().count(), 0);
    let db = on(&SimMachine::new(1), &options());
    put_much(&db, 1).expect("as much as may stay by default");
    assert_eq!(db.tree("t").expect("there").iter().count(), 6000);
}
