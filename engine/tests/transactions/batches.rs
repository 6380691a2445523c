use super::{fast, key};
use latchkv::{Error, Usage, WriteBatch};

#[test]
fn a_batch_is_seen_whole_and_its_last_word_on_a_key_counts() {
    let db = fast();
    let (one, two) = (db.tree("one").expect("new"), db.tree("two").expect("new"));
    one.put("gone", "1").expect("room");
    let mut batch = WriteBatch::new();
    assert!(batch.is_empty());
    for number in 0..1000 {
        batch.put(&one, key(number), "first").expect("small");
        batch.put(&two, key(number), "other tree").expect("small");
    }
    batch.put(&one, key(7), "last").expect("small");
    batch.delete(&one, key(8)).expect("small");
    batch.delete(&one, "gone").expect("small");
    batch.delete(&one, "never there").expect("small");
    let before = db.snapshot().expect("open");
    let lsn = db.write(&batch).expect("room");
    let after = db.snapshot().expect("open");
    assert!(before.lsn() <= lsn && lsn < after.lsn());
    assert_eq!(before.iter(&one).count(), 1);
    assert_eq!(after.iter(&one).count(), 999);
    assert_eq!(one.len().expect("open"), 999);
    assert_eq!(two.len().expect("open"), 1000);
    assert_eq!(one.get(key(7)).expect("open").as_deref(), Some(&b"last"[..]));
    // It can be used again.
    db.write(&batch).expect("room");
    assert_eq!(one.len().expect("open"), 999);
    crate::common::assert_whole(&db);
}

#[test]
fn a_batch_of_two_databases_is_refused() {
    let (db, other) = (fast(), fast());
    let (ours, theirs) = (db.tree("t").expect("new"), other.tree("t").expect("new"));
    let mut batch = WriteBatch::new();
    batch.put(&ours, "k", "v").expect("small");
    let mixed = batch.put(&theirs, "k", "v");
    assert!(matches!(mixed, Err(Error::Usage(Usage::OtherDatabase(_)))), "{mixed:?}");
    let foreign = other.write(&batch);
    assert!(matches!(foreign, Err(Error::Usage(Usage::OtherDatabase(_)))), "{foreign:?}");
    assert_eq!(theirs.len().expect("open"), 0);
    assert_eq!(ours.len().expect("open"), 0);
}

#[test]
fn a_batch_over_the_limit_of_memory_is_refused_by_name_and_keeps_what_it_has() {
    let machine = latchkv::io::sim::SimMachine::new(1);
    let db = super::on(&machine, &super::small().transaction_bytes_max(50_000));
    let tree = db.tree("t").expect("new");
    let mut batch = WriteBatch::new();
    batch.put(&tree, "large", vec![1; 200_000]).expect("one change is taken, however large");
    for refused in [batch.put(&tree, "k", "v"), batch.delete(&tree, "k")] {
        let Err(Error::Usage(Usage::TransactionTooLarge { maximum, .. })) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(*maximum, 50_000);
        let said = refused.expect_err("refused").to_string();
        assert!(said.contains("transaction_bytes_max"), "{said}");
    }
    db.write(&batch).expect("room");
    assert_eq!(tree.len().expect("open"), 1);
}
