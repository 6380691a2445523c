//! States of namespaces among writers.

use super::{PASSWORD, begun, grant, under_both, user};
use crate::common::watchdog;
use latchkv::{Denied, Error, ReadOnly, Rights, TransactionOptions, Usage};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn is_barred<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Denied(Denied::NamespaceReadOnly { .. })))
}

#[test]
fn a_flip_waits_for_a_transaction_that_writes_and_then_bars() {
    let _watchdog = watchdog("a flip beside a transaction");
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        root.create_tree("shop/t").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "shop/*", Rights::READ | Rights::WRITE);
        let tree = ada.tree("shop/t").expect("may");
        let mut transaction = ada.begin().expect("open");
        transaction.put(&tree, "k", "v").expect("may");
        let (flipped, is_flipped) = mpsc::channel();
        let other = sessions.login("root", PASSWORD).expect("right");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                other.set_read_only("shop", ReadOnly::Yes).expect("waits, and gets it");
                flipped.send(()).expect("somebody listens");
            });
            // It cannot be shown that it never comes, but that it did not while the writer was there.
            assert!(is_flipped.recv_timeout(Duration::from_millis(100)).is_err());
            transaction.put(&tree, "l", "v").expect("began before the flip");
            transaction.commit().expect("began before the flip");
            is_flipped.recv().expect("the flip went through");
        });
        assert!(is_barred(&tree.put("m", "v")));
        assert!(is_barred(&ada.put("shop/t", "m", "v")));
        assert_eq!(tree.len().expect("may read"), 2);
        root.set_read_only("shop", ReadOnly::No).expect("may");
        tree.put("m", "v").expect("may again");
    });
}

/// The value of the key is the number of the flip before which a write must have been made.
#[test]
fn no_write_straddles_a_flip_among_many_sessions() {
    let _watchdog = watchdog("flips among writers");
    under_both(|policy| {
        let (db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        root.create_tree("shop/t").expect("new");
        let users: Vec<_> = (0..crate::common::scaled(64, 4))
            .map(|number| {
                let session = user(&sessions, &root, &format!("u{number}"));
                grant(&root, session.account(), "shop/*", Rights::WRITE);
                session
            })
            .collect();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = users
                .into_iter()
                .enumerate()
                .map(|(number, session)| {
                    let done = &done;
                    scope.spawn(move || {
                        let tree = session.tree("shop/t").expect("may");
                        let (mut written, mut barred) = (0_u64, 0_u64);
                        while done.load(Ordering::Acquire) == 0 {
                            let answer = match written % 3 {
                                0 => tree.put([number as u8], written.to_le_bytes()),
                                1 => session.put("shop/t", [number as u8], written.to_le_bytes()),
                                _ => session.transact(|transaction| {
                                    transaction.put(&tree, [number as u8], written.to_le_bytes())
                                }),
                            };
                            match answer {
                                Ok(()) => written += 1,
                                Err(Error::Denied(Denied::NamespaceReadOnly { .. })) => barred += 1,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        (written, barred)
                    })
                })
                .collect();
            let tree = db.open_tree("shop/t").expect("readable").expect("there");
            let content = || -> Vec<_> {
                tree.iter().map(|entry| entry.expect("readable").into_pair()).collect()
            };
            for round in 0..crate::common::scaled(60, 10) {
                root.set_read_only(
                    "shop",
                    if round % 2 == 0 { ReadOnly::Yes } else { ReadOnly::Super },
                )
                .expect("may");
                let frozen = content();
                std::thread::sleep(Duration::from_micros(500));
                assert_eq!(frozen, content(), "a write came after flip {round}");
                root.set_read_only("shop", ReadOnly::No).expect("may");
                std::thread::yield_now();
            }
            done.store(1, Ordering::Release);
            let sums = writers.into_iter().map(|writer| writer.join().expect("no error"));
            let (written, barred) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            assert!(written > 0 && barred > 0, "{written} writes, {barred} barred");
        });
    });
}

#[test]
fn a_flip_gives_up_at_its_timeout_and_nothing_changed() {
    let db = crate::common::simulated(&super::options());
    let options =
        super::session_options(latchkv::Policy::Lazy).lock_timeout(Duration::from_millis(20));
    let sessions = db.sessions_with(options).expect("the first to ask");
    sessions.create_administrator("root", PASSWORD).expect("no accounts yet");
    let root = sessions.login("root", PASSWORD).expect("right");
    root.create_namespace("shop").expect("new");
    root.create_tree("shop/t").expect("new");
    let other = sessions.login("root", PASSWORD).expect("right");
    let tree = other.tree("shop/t").expect("may");
    let mut transaction = other.begin_with(&TransactionOptions::new()).expect("open");
    transaction.put(&tree, "k", "v").expect("may");
    let locked = root.set_read_only("shop", ReadOnly::Super);
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    let locked = root.drop_tree("shop/t");
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    transaction.commit().expect("nothing changed");
    assert_eq!(
        root.namespaces().expect("open"),
        [(String::new(), ReadOnly::No), ("shop".to_owned(), ReadOnly::No)]
    );
    root.set_read_only("shop", ReadOnly::Super).expect("nobody is there");
    assert!(is_barred(&tree.put("k", "w")));
}

#[test]
fn namespaces_are_made_once_and_dropped_only_when_nothing_is_in_them() {
    let (_db, sessions, root) = begun(latchkv::Policy::Lazy);
    assert!(matches!(root.create_tree("shop/t"), Err(Error::Usage(Usage::NoSuchNamespace(_)))));
    root.create_namespace("shop").expect("new");
    assert!(matches!(root.create_namespace("shop"), Err(Error::Usage(Usage::NamespaceExists(_)))));
    root.create_tree("shop/t").expect("new");
    match root.drop_namespace("shop") {
        Err(Error::Usage(Usage::NamespaceInUse { tree, .. })) => assert_eq!(tree, "shop/t"),
        other => panic!("{other:?}"),
    }
    root.drop_tree("shop/t").expect("may");
    let ada = user(&sessions, &root, "ada");
    assert!(matches!(ada.drop_namespace("shop"), Err(Error::Denied(Denied::NeedsRights { .. }))));
    assert!(matches!(ada.create_namespace("mine"), Err(Error::Denied(Denied::NeedsRights { .. }))));
    root.drop_namespace("shop").expect("empty");
    assert!(matches!(root.drop_namespace("shop"), Err(Error::Usage(Usage::NoSuchNamespace(_)))));
    // Neither is one made by what changes one.
    for state in [ReadOnly::Yes, ReadOnly::No] {
        let answer = root.set_read_only("shop", state);
        assert!(matches!(answer, Err(Error::Usage(Usage::NoSuchNamespace(_)))), "{answer:?}");
    }
    assert_eq!(root.namespaces().expect("open"), [(String::new(), ReadOnly::No)]);
    root.set_read_only("", ReadOnly::Yes).expect("it is always there");
    root.set_read_only("", ReadOnly::No).expect("it is always there");
    root.create_tree("bare").expect("may");
    let answer = root.drop_namespace("");
    assert!(matches!(answer, Err(Error::Usage(Usage::BadObject { .. }))), "{answer:?}");
    for name in ["latchkv", "a/b", "a\n", "*"] {
        assert!(root.create_namespace(name).is_err(), "{name:?}");
        assert!(root.set_read_only(name, ReadOnly::Yes).is_err(), "{name:?}");
    }
}

/// The first of two transactions that ended once let go of the tree for both.
#[test]
fn two_transactions_with_one_open_tree_each_keep_a_flip_and_a_drop_waiting() {
    under_both(|policy| {
        let db = crate::common::simulated(&crate::options());
        let options = crate::session_options(policy).lock_timeout(Duration::from_millis(20));
        let sessions = db.sessions_with(options).expect("the first to ask");
        sessions.create_administrator("root", PASSWORD).expect("no accounts yet");
        let (root, other) = (sessions.login("root", PASSWORD), sessions.login("root", PASSWORD));
        let (root, other) = (root.expect("right"), other.expect("right"));
        root.create_namespace("shop").expect("new");
        root.create_tree("shop/t").expect("new");
        let is_locked = |answer| matches!(answer, Err(Error::Locked { .. }));
        let tree = root.tree("shop/t").expect("may");
        let mut first = root.begin().expect("open");
        let mut second = root.begin().expect("open");
        let third = root.begin().expect("open");
        first.put(&tree, "first", "v").expect("may");
        second.put(&tree, "second", "v").expect("may");
        assert_eq!(third.get(&tree, "first").expect("may"), None);
        first.commit().expect("may");
        assert!(is_locked(other.set_read_only("shop", ReadOnly::Super)));
        assert!(is_locked(other.drop_tree("shop/t")));
        second.put(&tree, "more", "v").expect("may");
        second.commit().expect("may");
        assert!(is_locked(other.drop_tree("shop/t")), "the third reads it");
        drop(third);
        other.set_read_only("shop", ReadOnly::Super).expect("nobody is in the way");
        assert!(is_barred(&tree.put("k", "v")));
        assert_eq!(tree.len().expect("may read"), 3);
    });
}

#[test]
fn a_tree_of_a_frozen_namespace_is_not_rebuilt() {
    let (_db, sessions, root) = begun(latchkv::Policy::Lazy);
    root.create_namespace("shop").expect("new");
    root.create_tree("shop/t").expect("new");
    root.put("shop/t", "k", "v").expect("may");
    let care = user(&sessions, &root, "care");
    grant(&root, "care", "shop/*", Rights::MAINTENANCE);
    root.set_read_only("shop", ReadOnly::Yes).expect("may");
    care.rebuild_tree("shop/t").expect("MAINTENANCE passes");
    root.set_read_only("shop", ReadOnly::Super).expect("may");
    for session in [&care, &root] {
        assert!(is_barred(&session.rebuild_tree("shop/t")));
    }
    assert_eq!(root.get("shop/t", "k").expect("may").as_deref(), Some(&b"v"[..]));
}
