//! Copies of a database that others go on with.

use crate::common::{Model, assert_same, assert_whole, value_of};
use latchkv::{Db, Durability, Error, OpenError, Options};
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(1 << 20)
        .durability(Durability::None)
}

fn filled(db: &Db) -> Vec<(String, Model)> {
    let mut all = Vec::new();
    for (name, count) in [("a", 3000_u32), ("shop/orders", 20), ("empty", 0)] {
        let tree = db.tree(name).expect("new");
        let mut model = Model::new();
        for number in 0..count {
            let key = number.to_be_bytes().to_vec();
            let value = value_of(&key, 1, if number % 500 == 7 { 20_000 } else { 50 });
            tree.put(&key, &value).expect("room");
            model.insert(key, value);
        }
        all.push((name.to_owned(), model));
    }
    all
}

fn assert_copied(copy: &Db, all: &[(String, Model)]) {
    let mut names: Vec<&str> = all.iter().map(|(name, _)| &name[..]).collect();
    names.sort_unstable();
    assert_eq!(copy.trees().expect("readable"), names);
    for (name, model) in all {
        assert_same(&copy.open_tree(name).expect("readable").expect("there"), model);
    }
    assert_whole(copy);
}

#[test]
fn a_backup_holds_what_was_there_when_it_began_whatever_is_written_meanwhile() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let db = options().create(place.path().join("db")).expect("new");
    let all = filled(&db);
    let done = AtomicBool::new(false);
    let to = place.path().join("copy");
    std::thread::scope(|scope| {
        let tree = db.open_tree("a").expect("readable").expect("there");
        let done = &done;
        scope.spawn(move || {
            for number in (10_000_u32..).take_while(|_| !done.load(Ordering::Relaxed)) {
                tree.put(number.to_be_bytes(), "later").expect("room");
                tree.put((number % 3000).to_be_bytes(), "changed").expect("room");
                tree.delete((number % 7).to_be_bytes()).expect("room");
            }
        });
        // One commit before the writer's first is not promised: what the report's lsn says is.
        let report = db.backup(&to);
        done.store(true, Ordering::Relaxed);
        assert_eq!(report.expect("room").trees, 3);
    });
    let copy = options().open_existing(&to).expect("a database");
    assert_same(&copy.open_tree("shop/orders").expect("readable").expect("there"), &all[1].1);
    assert_whole(&copy);
}

#[test]
fn a_backup_of_a_database_at_rest_is_the_same_database() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let db = options().create(place.path().join("db")).expect("new");
    let all = filled(&db);
    let to = place.path().join("copy");
    std::fs::create_dir(&to).expect("room");
    let report = db.backup(&to).expect("an empty directory is as good as none");
    assert_eq!((report.trees, report.records), (3, 3020));
    assert_copied(&options().open_existing(&to).expect("a database"), &all);
    let again = db.backup(&to);
    assert!(matches!(again, Err(Error::Open(OpenError::AlreadyExists(_)))), "{again:?}");
    assert_copied(&options().open_existing(&to).expect("untouched"), &all);
}
