//! What happens to what is open when rights go.

use super::{PASSWORD, begun, grant, revoke, under_both, user};
use crate::common::watchdog;
use latchkv::{Denied, Error, Event, ReadOnly, Rights, Usage};
use std::sync::atomic::{AtomicU64, Ordering};

fn is_denied<T: std::fmt::Debug>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::Denied(Denied::NeedsRights { .. })))
}

#[test]
fn an_open_tree_iterator_and_watch_end_with_the_right_to_read() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("t").expect("new");
        for key in ["a", "b", "c"] {
            root.put("t", key, "v").expect("may");
        }
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "t", Rights::READ);
        let tree = ada.tree("t").expect("may");
        let snapshot = ada.snapshot().expect("open");
        let transaction = ada.begin().expect("open");
        let mut iter = tree.iter();
        let mut of_snapshot = snapshot.iter(&tree).expect("own");
        let mut of_transaction = transaction.iter(&tree).expect("may");
        let mut watch = tree.watch("", 10).expect("may");
        assert!(iter.next().expect("three").is_ok());
        assert!(of_snapshot.next().expect("three").is_ok());
        assert!(of_transaction.next_back().expect("three").is_ok());
        root.put("t", "d", "v").expect("may");
        assert!(matches!(watch.next(), Some(Ok(Event::Put { .. }))));
        root.put("t", "e", "v").expect("may");

        revoke(&root, "ada", "t", Rights::READ);
        assert!(is_denied(&tree.get("a")));
        assert!(is_denied(&ada.get("t", "a")));
        assert!(is_denied(&iter.next().expect("an error")));
        assert!(is_denied(&of_snapshot.next().expect("an error")));
        assert!(is_denied(&of_transaction.next().expect("an error")));
        assert!(is_denied(&snapshot.get(&tree, "a")));
        assert!(is_denied(&transaction.get(&tree, "a")));
        assert!(is_denied(&watch.next().expect("an error")));
        grant(&root, "ada", "t", Rights::READ);
        assert!(tree.get("a").is_ok(), "what is open goes on when the right comes back");
        assert!(is_denied(&iter.next().expect("an error")), "an iterator stays in error");
        assert!(is_denied(&watch.try_next().expect("an error")), "a watch stays in error");
    });
}

#[test]
fn a_transaction_and_a_batch_ask_again_when_they_commit() {
    under_both(|policy| {
        let (db, sessions, root) = begun(policy);
        root.create_tree("t").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "t", Rights::WRITE);
        let tree = ada.tree("t").expect("may");
        let mut transaction = ada.begin().expect("open");
        transaction.put(&tree, "k", "v").expect("may");
        let mut batch = ada.batch();
        batch.put(&tree, "k", "v").expect("own tree");
        revoke(&root, "ada", "t", Rights::WRITE);
        grant(&root, "ada", "t", Rights::READ);
        assert!(is_denied(&transaction.commit()));
        assert!(is_denied(&ada.write(&batch)));
        assert!(db.open_tree("t").expect("readable").expect("there").is_empty().expect("open"));
    });
}

#[test]
fn sessions_of_an_account_that_is_dropped_end_and_a_new_one_of_its_name_is_another() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("t").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "*", Rights::READ | Rights::WRITE);
        let tree = ada.tree("t").expect("may");
        tree.put("k", "v").expect("may");
        root.drop_account("ada").expect("not the last administrator");
        root.create_user("ada", PASSWORD).expect("free again");
        grant(&root, "ada", "*", Rights::READ | Rights::WRITE);
        for answer in [
            tree.put("k", "w"),
            ada.put("t", "k", "w"),
            ada.trees().map(drop),
            ada.namespaces().map(drop),
            ada.accounts().map(drop),
            ada.set_password("ada", b"mine now"),
            ada.rights(&super::on("*")).map(drop),
        ] {
            assert!(matches!(answer, Err(Error::Denied(Denied::AccountDropped))), "{answer:?}");
        }
        let again = sessions.login("ada", PASSWORD).expect("right");
        assert_eq!(again.get("t", "k").expect("may").as_deref(), Some(&b"v"[..]));
    });
}

/// A call that begins and ends in one phase meets the rights of that phase.
#[test]
fn no_write_that_begins_after_a_revoke_goes_through_among_many_sessions() {
    let _watchdog = watchdog("revoking among writers");
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("t").expect("new");
        root.create_role("writers").expect("new");
        let threads = crate::common::scaled(16, 4);
        let users: Vec<_> = (0..threads)
            .map(|number| {
                let session = user(&sessions, &root, &format!("u{number}"));
                root.grant_role(session.account(), "writers").expect("no cycle");
                session
            })
            .collect();
        // Modulo 4. 0: the right is gone; 2: it is there; 1 and 3: on the way, a call may be answered either way.
        let phase = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writers: Vec<_> = users
                .into_iter()
                .map(|session| {
                    let (phase, done) = (&phase, &done);
                    scope.spawn(move || {
                        let mut written = 0_u64;
                        while done.load(Ordering::Acquire) == 0 {
                            let before = phase.load(Ordering::Acquire);
                            let answer = session.put("t", session.account(), written.to_le_bytes());
                            let after = phase.load(Ordering::Acquire);
                            match answer {
                                Ok(()) => {
                                    written += 1;
                                    assert!(
                                        before != after || before % 4 != 0,
                                        "written in {before}"
                                    );
                                }
                                Err(Error::Denied(Denied::NeedsRights { .. })) => {
                                    assert!(
                                        before != after || before % 4 != 2,
                                        "denied in {before}"
                                    );
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    })
                })
                .collect();
            for _ in 0..crate::common::scaled(100, 10) {
                phase.fetch_add(1, Ordering::AcqRel);
                grant(&root, "writers", "t", Rights::WRITE);
                phase.fetch_add(1, Ordering::AcqRel);
                std::thread::yield_now();
                phase.fetch_add(1, Ordering::AcqRel);
                revoke(&root, "writers", "t", Rights::WRITE);
                phase.fetch_add(1, Ordering::AcqRel);
                std::thread::yield_now();
            }
            done.store(1, Ordering::Release);
            for writer in writers {
                writer.join().expect("no check was lost");
            }
        });
    });
}

/// It was once written with the rights of the other session, or left that one with those of this.
#[test]
fn a_batch_is_written_by_the_session_that_it_is_of() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_tree("t").expect("new");
        let (ada, bob) = (user(&sessions, &root, "ada"), user(&sessions, &root, "bob"));
        grant(&root, "ada", "t", Rights::READ);
        grant(&root, "bob", "t", Rights::READ);
        let of_root = root.tree("t").expect("may");
        let mut batch = root.batch();
        batch.put(&of_root, "k", "root's").expect("own tree");
        let refused = |answer| matches!(answer, Err(Error::Usage(Usage::OtherSessionsBatch)));
        assert!(refused(bob.write(&batch)));
        let of_ada = ada.tree("t").expect("may");
        let mut batch = ada.batch();
        batch.put(&of_ada, "k", "ada's").expect("own tree");
        revoke(&root, "bob", "t", Rights::READ);
        assert!(refused(root.write(&batch)));
        assert!(is_denied(&of_ada.put("k", "v")));
        assert!(is_denied(&ada.write(&batch)));
        assert_eq!(of_ada.get("k").expect("may"), None);
    });
}

#[test]
fn a_dropped_account_is_told_so_whatever_the_state_of_the_namespace() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        root.create_tree("shop/t").expect("new");
        let ada = user(&sessions, &root, "ada");
        grant(&root, "ada", "shop/*", Rights::READ | Rights::WRITE);
        let tree = ada.tree("shop/t").expect("may");
        root.set_read_only("shop", ReadOnly::Yes).expect("may");
        root.drop_account("ada").expect("may");
        let put = tree.put("k", "v");
        assert!(matches!(put, Err(Error::Denied(Denied::AccountDropped))), "{put:?}");
    });
}
