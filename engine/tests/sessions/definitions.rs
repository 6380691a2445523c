//! Trees made, renamed, cleared, dropped and rebuilt through sessions, among readers and writers.

use super::{PASSWORD, begun, grant, under_both, user};
use crate::common::watchdog;
use latchkv::{Denied, Error, LockError, Policy, Rights, Usage};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// A tree named `*` could be made, and rights on it be granted only with all of its namespace.
#[test]
fn no_tree_is_made_with_a_name_that_stands_for_others() {
    let (db, _sessions, root) = begun(Policy::Lazy);
    root.create_namespace("shop").expect("new");
    root.create_tree("shop/t").expect("new");
    for name in ["*", "shop/*", "*/t"] {
        for answer in [
            root.create_tree(name),
            root.rename_tree("shop/t", name),
            db.tree(name).map(drop),
            db.rename_tree("shop/t", name),
        ] {
            assert!(
                matches!(answer, Err(Error::Usage(Usage::BadName { .. }))),
                "{name} {answer:?}"
            );
        }
        assert!(db.open_tree(name).expect("a name that an old tree may have").is_none());
    }
    // A star within a part is a letter like others.
    root.create_tree("shop/2026*").expect("new");
    grant(&root, "root", "shop/2026*", Rights::READ);
}

#[test]
fn rights_go_by_names_so_a_rename_takes_them_from_what_is_open() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("old").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "old", Rights::READ | Rights::WRITE);
        let tree = ada.tree("old").expect("may");
        tree.put("k", "v").expect("may");
        ada.put("old", "k", "v").expect("may");
        root.rename_tree("old", "new").expect("may");
        assert!(matches!(tree.get("k"), Err(Error::Usage(Usage::TreeDropped(_)))));
        assert!(matches!(ada.get("old", "k"), Err(Error::Usage(Usage::NoSuchTree(_)))));
        assert!(matches!(ada.get("new", "k"), Err(Error::Denied(Denied::NeedsRights { .. }))));
        assert_eq!(root.get("new", "k").expect("may").as_deref(), Some(&b"v"[..]));
        root.create_tree("old").expect("free again");
        assert_eq!(ada.get("old", "k").expect("may"), None);
        assert!(matches!(tree.get("k"), Err(Error::Usage(Usage::TreeDropped(_)))));
    });
}

#[test]
fn a_dropped_tree_ends_what_is_open_and_a_new_one_is_found_by_name() {
    let (_db, _sessions, root) = begun(Policy::Lazy);
    root.create_tree("t").expect("new");
    assert!(matches!(root.create_tree("t"), Err(Error::Usage(Usage::TreeExists(_)))));
    let tree = root.tree("t").expect("may");
    let mut iter = tree.iter();
    root.put("t", "k", "v").expect("may");
    root.drop_tree("t").expect("may");
    assert!(matches!(root.drop_tree("t"), Err(Error::Usage(Usage::NoSuchTree(_)))));
    assert!(matches!(tree.put("k", "v"), Err(Error::Usage(Usage::TreeDropped(_)))));
    assert!(matches!(iter.next(), Some(Err(_))));
    assert!(matches!(root.get("t", "k"), Err(Error::Usage(Usage::NoSuchTree(_)))));
    root.create_tree("t").expect("free again");
    assert_eq!(root.get("t", "k").expect("may"), None);
}

#[test]
fn two_renames_the_other_way_round_and_transactions_between_them_all_end() {
    let _watchdog = watchdog("crossing renames");
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("a").expect("new");
        let there = || sessions.login("root", PASSWORD).expect("right");
        let rounds = crate::common::scaled(200, 20);
        std::thread::scope(|scope| {
            for (from, to) in [("a", "b"), ("b", "a")] {
                let session = there();
                scope.spawn(move || {
                    for _ in 0..rounds {
                        match session.rename_tree(from, to) {
                            Ok(()) | Err(Error::Usage(Usage::NoSuchTree(_))) => {}
                            Err(Error::Locked { cause: LockError::Deadlock { .. }, .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            for _ in 0..2 {
                let session = there();
                scope.spawn(move || {
                    for round in 0..rounds {
                        for name in ["a", "b"] {
                            let put = session.put(name, (round as u32).to_be_bytes(), "v");
                            match put {
                                Ok(()) => {}
                                Err(Error::Usage(Usage::NoSuchTree(_) | Usage::TreeDropped(_))) => {
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(root.trees().expect("open").len(), 1);
    });
}

#[test]
fn of_two_transactions_and_two_drops_in_a_circle_one_gives_up() {
    let _watchdog = watchdog("a circle of locks");
    let (_db, sessions, root) = begun(Policy::Lazy);
    for tree in ["a", "b"] {
        root.create_tree(tree).expect("new");
    }
    let both = Barrier::new(2);
    let outcomes: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let circle = |own: &'static str, other: &'static str| {
            let session = sessions.login("root", PASSWORD).expect("right");
            let both = &both;
            scope.spawn(move || {
                let tree = session.tree(own).expect("may");
                let mut transaction = session.begin().expect("open");
                transaction.put(&tree, "k", "v").expect("may");
                both.wait();
                // Waits for the other transaction, which waits for this one.
                let dropped = session.drop_tree(other);
                transaction.rollback();
                dropped
            })
        };
        let threads = [circle("a", "b"), circle("b", "a")];
        threads.map(|thread| thread.join().expect("no panic")).into()
    });
    let gave_up = |outcome: &&Result<(), Error>| {
        matches!(outcome, Err(Error::Locked { cause: LockError::Deadlock { .. }, .. }))
    };
    assert!(outcomes.iter().any(|outcome| outcome.is_ok()), "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(gave_up).count(), 1, "{outcomes:?}");
    assert_eq!(sessions.lock_usage().deadlocks, 1);
}

#[test]
fn a_rebuild_goes_on_beside_readers_and_writers_and_loses_nothing() {
    let _watchdog = watchdog("rebuilding among sessions");
    let (db, sessions, root) = begun(Policy::Lazy);
    root.create_tree("t").expect("new");
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = sessions.login("root", PASSWORD).expect("right");
        let reader = sessions.login("root", PASSWORD).expect("right");
        let done = &done;
        let writing = scope.spawn(move || {
            let tree = writer.tree("t").expect("may");
            let mut count = 0_u32;
            while !done.load(Ordering::Relaxed) {
                tree.put(count.to_be_bytes(), [7; 100]).expect("waits for the rebuild");
                count += 1;
            }
            count
        });
        scope.spawn(move || {
            let tree = reader.tree("t").expect("may");
            while !done.load(Ordering::Relaxed) {
                let last = tree.last().expect("readable").map_or(0, |entry| {
                    u32::from_be_bytes(entry.key().try_into().expect("four bytes"))
                });
                let count = tree.range(..last.to_be_bytes()).count();
                assert_eq!(count, last as usize, "every record below one that was seen");
                if last > 20_000 {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..crate::common::scaled(10, 3) {
            root.rebuild_tree("t").expect("writers wait");
        }
        done.store(true, Ordering::Relaxed);
        writing.join().expect("no panic")
    });
    assert_eq!(root.tree("t").expect("may").len().expect("may"), u64::from(written));
    crate::common::assert_whole(&db);
}

#[test]
fn a_session_holds_nothing_between_calls_and_can_go_to_another_thread() {
    let (_db, sessions, root) = begun(Policy::Lazy);
    root.create_tree("t").expect("new");
    root.put("t", "k", "v").expect("may");
    let other = sessions.login("root", PASSWORD).expect("right");
    other.put("t", "k", "w").expect("may");
    root.drop_tree("t").expect("the other session is between calls");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            assert!(other.put("t", "k", "w").is_err());
            other.create_tree("t").expect("free again");
            other.put("t", "k", "w").expect("may");
        });
    });
    assert_eq!(root.get("t", "k").expect("may").as_deref(), Some(&b"w"[..]));
}

#[test]
fn trees_of_one_session_are_refused_by_another() {
    let (_db, sessions, root) = begun(Policy::Lazy);
    root.create_tree("t").expect("new");
    let other = sessions.login("root", PASSWORD).expect("right");
    let tree = other.tree("t").expect("may");
    let mut transaction = root.begin().expect("open");
    let is_foreign =
        |answer: Result<(), Error>| matches!(answer, Err(Error::Usage(Usage::OtherSession(_))));
    assert!(is_foreign(transaction.put(&tree, "k", "v")));
    assert!(is_foreign(transaction.get(&tree, "k").map(drop)));
    assert!(is_foreign(root.batch().put(&tree, "k", "v")));
    let snapshot = root.snapshot().expect("open");
    assert!(is_foreign(snapshot.get(&tree, "k").map(drop)));
}

fn is_dropped<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Usage(Usage::TreeDropped(_))))
}

/// The rights of the old name once let whoever had it open write to the tree by the eager policy.
#[test]
fn a_tree_that_was_renamed_takes_no_write_of_what_is_open_by_its_old_name() {
    under_both(|policy| {
        let (db, _sessions, root) = begun(policy);
        root.create_tree("old").expect("new");
        let tree = root.tree("old").expect("may");
        let mut transaction = root.begin().expect("open");
        transaction.put(&tree, "k", "transaction").expect("may");
        let mut batch = root.batch();
        batch.put(&tree, "k", "batch").expect("own tree");
        // Its own transaction does not keep a session from it.
        root.rename_tree("old", "new").expect("may");
        assert!(is_dropped(&transaction.commit()));
        assert!(is_dropped(&root.write(&batch)));
        assert!(is_dropped(&tree.put("k", "put")));
        assert!(is_dropped(&tree.delete("k")));
        assert!(db.tree("new").expect("there").is_empty().expect("open"));
    });
}

/// A rename by the plain API once left sessions the rights of the old name.
#[test]
fn a_rename_by_the_plain_api_takes_rights_from_what_is_open_too() {
    under_both(|policy| {
        let (db, sessions, root) = begun(policy);
        root.create_tree("mine").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "mine", Rights::READ | Rights::WRITE);
        let tree = ada.tree("mine").expect("may");
        ada.put("mine", "k", "v").expect("may");
        let (mut iter, mut watch) = (tree.iter(), tree.watch("", 10).expect("may"));
        db.rename_tree("mine", "secret").expect("ordinary names");
        db.tree("secret").expect("there").put("k", "secret").expect("room");
        assert!(is_dropped(&tree.get("k")));
        assert!(is_dropped(&tree.put("k", "w")));
        assert!(is_dropped(&iter.next().expect("an error")));
        assert!(is_dropped(&watch.next().expect("an error")));
        assert!(matches!(ada.get("mine", "k"), Err(Error::Usage(Usage::NoSuchTree(_)))));
        assert!(matches!(ada.put("mine", "k", "w"), Err(Error::Usage(Usage::NoSuchTree(_)))));
        assert_eq!(root.get("secret", "k").expect("may").as_deref(), Some(&b"secret"[..]));
    });
}

#[test]
fn what_a_session_drops_or_clears_under_its_own_transaction_is_not_written_to() {
    under_both(|policy| {
        let (db, _sessions, root) = begun(policy);
        for name in ["dropped", "cleared", "rebuilt"] {
            root.create_tree(name).expect("new");
        }
        let begun = |name: &str| {
            let tree = root.tree(name).expect("may");
            let mut transaction = root.begin().expect("open");
            transaction.put(&tree, "k", "v").expect("may");
            transaction
        };
        let (dropped, cleared, rebuilt) = (begun("dropped"), begun("cleared"), begun("rebuilt"));
        root.drop_tree("dropped").expect("its own transaction is not in the way");
        root.create_tree("dropped").expect("free again");
        root.clear_tree("cleared").expect("its own transaction is not in the way");
        root.rebuild_tree("rebuilt").expect("its own transaction is not in the way");
        assert!(is_dropped(&dropped.commit()));
        assert!(matches!(cleared.commit(), Err(Error::Conflict { .. })));
        assert!(matches!(rebuilt.commit(), Err(Error::Conflict { .. })));
        for name in ["dropped", "cleared", "rebuilt"] {
            assert!(db.tree(name).expect("there").is_empty().expect("open"));
        }
    });
}
