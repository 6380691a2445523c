use super::fast;
use latchkv::{Error, Isolation, TransactionOptions};
use std::sync::atomic::{AtomicU64, Ordering};

fn serializable() -> TransactionOptions {
    TransactionOptions::new().isolation(Isolation::Serializable)
}

#[test]
fn the_first_committer_wins_and_the_second_is_told_which_key() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut one = db.begin().expect("open");
    let mut two = db.begin().expect("open");
    one.put(&tree, "k", "1").expect("open");
    two.put(&tree, "k", "2").expect("open");
    one.commit().expect("first");
    match two.commit() {
        Err(Error::Conflict { tree, key }) => {
            assert_eq!(tree, "t");
            assert_eq!(key.as_deref(), Some(&b"k"[..]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tree.get("k").expect("open").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_call_outside_of_transactions_conflicts_like_any_commit() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    for change in 0..3 {
        tree.put("k", "0").expect("room");
        let mut transaction = db.begin().expect("open");
        transaction.put(&tree, "k", "1").expect("open");
        match change {
            0 => tree.put("k", "2").expect("room"),
            1 => assert!(tree.delete("k").expect("room")),
            _ => tree.clear().expect("room"),
        }
        assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })), "{change}");
    }
}

#[test]
fn a_key_got_for_update_counts_as_written() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    tree.put("guarded", "0").expect("room");
    let mut transaction = db.begin().expect("open");
    let got = transaction.get_for_update(&tree, "guarded").expect("open");
    assert_eq!(got.as_deref(), Some(&b"0"[..]));
    transaction.put(&tree, "other", "1").expect("open");
    tree.put("guarded", "1").expect("room");
    assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    // Unchanged, it costs nothing and is not written.
    let mut transaction = db.begin().expect("open");
    transaction.get_for_update(&tree, "guarded").expect("open");
    transaction.put(&tree, "other", "2").expect("open");
    let mut beside = db.begin().expect("open");
    beside.put(&tree, "third", "3").expect("open");
    beside.commit().expect("another key");
    transaction.commit().expect("nobody changed it");
    assert_eq!(tree.get("guarded").expect("open").as_deref(), Some(&b"1"[..]));
}

#[test]
fn write_skew_passes_under_snapshot_isolation_and_not_under_serializable() {
    for (options, both) in [(TransactionOptions::new(), true), (serializable(), false)] {
        let db = fast();
        let tree = db.tree("t").expect("new");
        tree.put("x", "1").expect("room");
        tree.put("y", "1").expect("room");
        let mut one = db.begin_with(&options).expect("open");
        let mut two = db.begin_with(&options).expect("open");
        one.get(&tree, "x").expect("open");
        two.get(&tree, "y").expect("open");
        one.put(&tree, "y", "0").expect("open");
        two.put(&tree, "x", "0").expect("open");
        one.commit().expect("first");
        assert_eq!(two.commit().is_ok(), both);
    }
}

#[test]
fn a_phantom_conflicts_under_serializable_wherever_it_appears_in_what_was_read() {
    for inserted in ["a", "m", "z"] {
        let db = fast();
        let tree = db.tree("t").expect("new");
        tree.put("k", "1").expect("room");
        tree.put("p", "1").expect("room");
        let mut whole = db.begin_with(&serializable()).expect("open");
        assert_eq!(whole.iter(&tree).count(), 2);
        whole.put(&tree, "sum", "2").expect("open");
        let mut part = db.begin_with(&serializable()).expect("open");
        assert_eq!(part.range(&tree, "k".."n").count(), 1);
        part.put(&tree, "partial sum", "1").expect("open");
        let mut first = db.begin_with(&serializable()).expect("open");
        first.iter(&tree).next().expect("there").expect("readable");
        first.put(&tree, "first", "1").expect("open");
        tree.put(inserted, "1").expect("room");
        assert!(matches!(whole.commit(), Err(Error::Conflict { .. })), "{inserted}");
        assert_eq!(part.commit().is_ok(), inserted != "m", "{inserted}");
        assert_eq!(first.commit().is_ok(), inserted != "a", "{inserted}");
    }
}

#[test]
fn absence_that_was_read_counts_and_so_does_a_deletion() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    tree.put("there", "1").expect("room");
    let mut one = db.begin_with(&serializable()).expect("open");
    assert!(!one.contains(&tree, "absent").expect("open"));
    one.put(&tree, "x", "1").expect("open");
    tree.put("absent", "1").expect("room");
    assert!(matches!(one.commit(), Err(Error::Conflict { .. })));
    let mut two = db.begin_with(&serializable()).expect("open");
    assert!(two.contains(&tree, "there").expect("open"));
    two.put(&tree, "x", "1").expect("open");
    tree.delete("there").expect("room");
    assert!(matches!(two.commit(), Err(Error::Conflict { .. })));
}

#[test]
fn transact_runs_again_until_it_is_first_and_loses_no_increment() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let tries = AtomicU64::new(0);
    let rounds = crate::common::scaled(200, 20) as u64;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, tree, tries) = (&db, &tree, &tries);
            scope.spawn(move || {
                let options =
                    if thread % 2 == 0 { TransactionOptions::new() } else { serializable() };
                for _ in 0..rounds {
                    db.transact_with(&options, |transaction| {
                        tries.fetch_add(1, Ordering::Relaxed);
                        let count = transaction.get(tree, "count")?.unwrap_or_default();
                        let count = count.try_into().map_or(0, u64::from_le_bytes);
                        transaction.put(tree, "count", (count + 1).to_le_bytes())
                    })
                    .expect("it comes through");
                }
            });
        }
    });
    let count = tree.get("count").expect("open").expect("there");
    assert_eq!(u64::from_le_bytes(count.try_into().expect("eight bytes")), 4 * rounds);
    assert!(tries.into_inner() >= 4 * rounds);
}

#[test]
fn a_serializable_transaction_sees_money_kept_whatever_others_move() {
    let db = fast();
    let tree = db.tree("accounts").expect("new");
    const ACCOUNTS: u32 = 20;
    for account in 0..ACCOUNTS {
        tree.put(account.to_be_bytes(), 100u64.to_le_bytes()).expect("room");
    }
    let rounds = crate::common::scaled(300, 30);
    let read = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, tree) = (&db, &tree);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..rounds {
                    let (from, to) = (rng.u32(0..ACCOUNTS), rng.u32(0..ACCOUNTS));
                    db.transact(|transaction| {
                        let have = read(transaction.get(tree, from.to_be_bytes())?.expect("there"));
                        if from == to || have == 0 {
                            return Ok(());
                        }
                        let had = read(transaction.get(tree, to.to_be_bytes())?.expect("there"));
                        transaction.put(tree, from.to_be_bytes(), (have - 1).to_le_bytes())?;
                        transaction.put(tree, to.to_be_bytes(), (had + 1).to_le_bytes())
                    })
                    .expect("it comes through");
                }
            });
        }
        for _ in 0..rounds {
            let snapshot = db.snapshot().expect("open");
            let sum: u64 = snapshot
                .iter(&tree)
                .map(|entry| read(entry.expect("readable").value().to_vec()))
                .sum();
            assert_eq!(sum, 100 * u64::from(ACCOUNTS));
        }
    });
    crate::common::assert_whole(&db);
}

#[test]
fn a_serializable_transaction_that_reads_too_much_is_refused_by_name_and_may_read_a_range_instead()
{
    let machine = latchkv::io::sim::SimMachine::new(1);
    let db = super::on(&machine, &super::small().transaction_bytes_max(10_000));
    let tree = db.tree("t").expect("new");
    tree.bulk_load((0..1000).map(|number| (super::key(number), "v"))).expect("sorted");
    let is_refused =
        |error: &Error| matches!(error, Error::Usage(latchkv::Usage::TransactionTooLarge { .. }));
    let mut transaction = db.begin_with(&serializable()).expect("open");
    let mut reads = (0..1000).map(|number| transaction.get(&tree, super::key(number)));
    let refused = reads.find_map(Result::err).expect("a thousand keys take more");
    assert!(is_refused(&refused), "{refused}");
    drop(reads);
    assert!(
        transaction.iter(&tree).next().is_some_and(|read| read.is_err_and(|it| is_refused(&it)))
    );
    transaction.put(&tree, "k", "v").expect("what was read stays, and it may still write");
    transaction.commit().expect("nobody changed what it read");

    let mut transaction = db.begin_with(&serializable()).expect("open");
    assert_eq!(transaction.iter(&tree).count(), 1001);
    transaction.put(&tree, "k", "w").expect("open");
    transaction.commit().expect("nobody changed what it read");
    let transaction = db.begin().expect("open");
    assert!((0..1000).all(|number| transaction.get(&tree, super::key(number)).is_ok()));
}
