use super::{fast, key, on};
use crate::common::{Model, seed, value_of};
use latchkv::io::sim::SimMachine;
use latchkv::{
    Denied, Durability, Entry, Error, Options, Transaction, TransactionOptions, Tree, Usage,
};
use std::time::Duration;

fn pairs(range: impl Iterator<Item = latchkv::Result<Entry>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.expect("readable").into_pair()).collect()
}

fn assert_sees(transaction: &Transaction<'_>, tree: &Tree, model: &Model) {
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(transaction.iter(tree)), expected);
    let mut backward = pairs(transaction.iter(tree).rev());
    backward.reverse();
    assert_eq!(backward, expected);
}

#[test]
fn reads_and_scans_both_ways_see_own_writes_and_others_see_them_with_the_commit() {
    let seed = seed(0x0e11);
    let mut rng = fastrand::Rng::with_seed(seed);
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut committed = Model::new();
    for round in 0..60u64 {
        let mut transaction = db.begin().expect("open");
        let mut model = committed.clone();
        for _ in 0..rng.usize(0..60) {
            let key = key(rng.u32(0..150));
            match rng.u32(0..4) {
                0 => {
                    let was = model.remove(&key).is_some();
                    assert_eq!(transaction.delete(&tree, &key).expect("open"), was);
                }
                1 => {
                    let absent = !model.contains_key(&key);
                    assert_eq!(transaction.insert(&tree, &key, "i").expect("open"), absent);
                    model.entry(key).or_insert_with(|| b"i".to_vec());
                }
                _ => {
                    let value = value_of(&key, round, rng.usize(0..6000));
                    transaction.put(&tree, &key, &value).expect("open");
                    model.insert(key, value);
                }
            }
        }
        assert_sees(&transaction, &tree, &model);
        let (low, high) = (key(rng.u32(0..150)), key(rng.u32(0..150)));
        let expected: Vec<_> = if low <= high {
            model.range(low.clone()..high.clone()).map(|(k, v)| (k.clone(), v.clone())).collect()
        } else {
            Vec::new()
        };
        assert_eq!(pairs(transaction.range(&tree, low..high)), expected);
        // From both ends by turns.
        let mut range = transaction.iter(&tree);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            let (from, into) = match rng.bool() {
                true => (range.next(), &mut front),
                false => (range.next_back(), &mut back),
            };
            match from {
                Some(entry) => into.push(entry.expect("readable").into_pair()),
                None => break,
            }
        }
        drop(range);
        front.extend(back.into_iter().rev());
        assert!(front.iter().map(|(k, _)| k).eq(model.keys()), "round {round}");
        assert!(pairs(tree.iter()).iter().map(|(k, _)| k).eq(committed.keys()), "round {round}");
        if rng.u32(0..3) > 0 {
            transaction.commit().expect("no conflict");
            committed = model;
        } else {
            transaction.rollback();
        }
        assert_eq!(tree.len().expect("open"), committed.len() as u64);
        assert!(pairs(tree.iter()).into_iter().eq(committed.clone()), "round {round}");
    }
}

#[test]
fn going_back_to_a_savepoint_takes_back_what_came_after_it_and_no_more() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    tree.put("a", "0").expect("room");
    let mut transaction = db.begin().expect("open");
    transaction.put(&tree, "a", "1").expect("open");
    let first = transaction.savepoint();
    transaction.put(&tree, "a", "2").expect("open");
    transaction.put(&tree, "b", "2").expect("open");
    let second = transaction.savepoint();
    transaction.delete(&tree, "a").expect("open");
    transaction.put(&tree, "c", "3").expect("open");
    transaction.rollback_to(second).expect("set");
    assert_eq!(transaction.get(&tree, "a").expect("open").as_deref(), Some(&b"2"[..]));
    assert_eq!(transaction.get(&tree, "c").expect("open"), None);
    transaction.put(&tree, "c", "4").expect("open");
    transaction.rollback_to(second).expect("still set");
    transaction.rollback_to(first).expect("set");
    assert_eq!(transaction.get(&tree, "a").expect("open").as_deref(), Some(&b"1"[..]));
    assert_eq!(transaction.get(&tree, "b").expect("open"), None);
    let gone = transaction.rollback_to(second);
    assert!(matches!(gone, Err(Error::Usage(Usage::NoSavepoint))), "{gone:?}");
    transaction.commit().expect("no conflict");
    let left = pairs(tree.iter());
    assert_eq!(left, [(b"a".to_vec(), b"1".to_vec())]);
    let mut other = db.begin().expect("open");
    let foreign = other.rollback_to(first);
    assert!(matches!(foreign, Err(Error::Usage(Usage::NoSavepoint))), "{foreign:?}");
}

#[test]
fn a_transaction_past_its_time_fails_and_leaves_nothing() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let options = TransactionOptions::new().timeout(Duration::ZERO);
    let mut transaction = db.begin_with(&options).expect("open");
    assert!(matches!(transaction.put(&tree, "k", "v"), Err(Error::Timeout)));
    assert!(matches!(transaction.get(&tree, "k"), Err(Error::Timeout)));
    assert!(matches!(transaction.commit(), Err(Error::Timeout)));
    assert_eq!(tree.get("k").expect("open"), None);
    let tried = db.transact_with(&options, |transaction| transaction.put(&tree, "k", "v"));
    assert!(matches!(tried, Err(Error::Timeout)), "{tried:?}");
}

#[test]
fn trees_of_another_database_and_of_none_are_refused_by_name() {
    let (db, other) = (fast(), fast());
    let foreign = other.tree("theirs").expect("new");
    let tree = db.tree("t").expect("new");
    let mut transaction = db.begin().expect("open");
    match transaction.put(&foreign, "k", "v") {
        Err(Error::Usage(Usage::OtherDatabase(name))) => assert_eq!(name, "theirs"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        transaction.iter(&foreign).next(),
        Some(Err(Error::Usage(Usage::OtherDatabase(_))))
    ));
    transaction.put(&tree, "k", "v").expect("open");
    db.drop_tree("t").expect("there");
    match transaction.commit() {
        Err(Error::Usage(Usage::TreeDropped(name))) => assert_eq!(name, "t"),
        other => panic!("{other:?}"),
    }
    let mut transaction = db.begin().expect("open");
    let dropped = transaction.put(&tree, "k", "v");
    assert!(matches!(dropped, Err(Error::Usage(Usage::TreeDropped(_)))), "{dropped:?}");
}

#[test]
fn limits_are_told_at_the_call_and_the_transaction_goes_on() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut transaction = db.begin().expect("open");
    let long = vec![1; db.limits().key_bytes_max + 1];
    assert!(matches!(
        transaction.put(&tree, &long, "v"),
        Err(Error::Usage(Usage::KeyTooLarge { .. }))
    ));
    transaction.put(&tree, &long[1..], "v").expect("the longest key");
    transaction.put(&tree, "", "").expect("the shortest");
    transaction.commit().expect("no conflict");
    assert_eq!(tree.len().expect("open"), 2);
}

#[test]
fn closing_the_database_ends_transactions_and_two_in_one_thread_know_nothing_of_each_other() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut one = db.begin().expect("open");
    let mut two = db.begin().expect("open");
    one.put(&tree, "k", "1").expect("open");
    assert_eq!(two.get(&tree, "k").expect("open"), None);
    two.put(&tree, "k", "2").expect("open");
    two.commit().expect("first");
    assert!(matches!(one.commit(), Err(Error::Conflict { .. })));
    let mut late = db.begin().expect("open");
    late.put(&tree, "k", "3").expect("open");
    db.clone().close().expect("room");
    assert!(matches!(late.get(&tree, "k"), Err(Error::Closed)));
    assert!(matches!(late.commit(), Err(Error::Closed)));
}

#[test]
fn a_transaction_larger_than_the_logs_memory_commits_as_one() {
    let machine = SimMachine::new(9);
    let options = Options::new()
        .cache_bytes(4 << 20)
        .log_buffer_bytes(64 << 10)
        .log_slot_bytes(64 << 10)
        .durability(Durability::Sync);
    let db = on(&machine, &options);
    let tree = db.tree("t").expect("new");
    let mut transaction = db.begin().expect("open");
    for number in 0..5000 {
        transaction.put(&tree, key(number), value_of(&key(number), 1, 100)).expect("open");
    }
    transaction.put(&tree, "huge", value_of(b"huge", 1, 300_000)).expect("open");
    transaction.commit().expect("no conflict");
    assert_eq!(tree.len().expect("open"), 5001);
    let after = machine.crash(1, latchkv::io::sim::CrashMode::LoseAll);
    let db = on(&after, &options);
    let tree = db.open_tree("t").expect("readable").expect("it was acknowledged");
    assert_eq!(tree.len().expect("open"), 5001);
    assert_eq!(tree.get("huge").expect("readable"), Some(value_of(b"huge", 1, 300_000)));
    for number in 0..5000 {
        let value = tree.get(key(number)).expect("readable");
        assert_eq!(value, Some(value_of(&key(number), 1, 100)));
    }
    crate::common::assert_whole(&db);
}

#[test]
fn a_database_opened_for_reading_begins_no_transaction() {
    let place = crate::common::place();
    let db = latchkv::Db::create(&place.path).expect("new");
    db.tree("t").expect("new").put("k", "v").expect("room");
    db.close().expect("room");
    let db = latchkv::Db::open_read_only(&place.path).expect("closed before");
    assert!(matches!(db.begin(), Err(Error::Denied(Denied::ReadOnly { .. }))));
    let snapshot = db.snapshot().expect("it reads");
    let tree = db.tree("t").expect("there");
    assert_eq!(snapshot.get(&tree, "k").expect("readable").as_deref(), Some(&b"v"[..]));
}
