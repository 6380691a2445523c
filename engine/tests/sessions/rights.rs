//! Every call, with every set of rights, under both policies.

use super::{PASSWORD, begun, grant, revoke, under_both};
use latchkv::{Denied, Error, ReadOnly, Result, Rights, Session};

const TREE: &str = "shop/orders";

/// Calls that open the tree themselves, and say what they need, not what opening one does.
const BY_NAME: [&str; 8] =
    ["get", "get with", "contains", "len", "put", "insert", "delete", "swap"];

/// A call, the rights on the tree that it needs, and whether it writes.
struct Call {
    name: &'static str,
    needed: Rights,
    writes: bool,
    run: fn(&Session) -> Result<()>,
}

fn calls() -> Vec<Call> {
    let call = |name, needed, writes, run| Call { name, needed, writes, run };
    let (read, write) = (Rights::READ, Rights::WRITE);
    vec![
        call("get", read, false, |s| s.get(TREE, "k").map(drop)),
        call("get by tree", read, false, |s| s.tree(TREE)?.get("k").map(drop)),
        call("get with", read, false, |s| s.get_with(TREE, "k", |_| ()).map(drop)),
        call("contains", read, false, |s| s.contains(TREE, "k").map(drop)),
        call("contains by tree", read, false, |s| s.tree(TREE)?.contains("k").map(drop)),
        call("len", read, false, |s| s.len(TREE).map(drop)),
        call("len by tree", read, false, |s| s.tree(TREE)?.len().map(drop)),
        call("first", read, false, |s| s.tree(TREE)?.first().map(drop)),
        call("last", read, false, |s| s.tree(TREE)?.last().map(drop)),
        call("iter", read, false, |s| s.tree(TREE)?.iter().try_for_each(|e| e.map(drop))),
        call("range", read, false, |s| s.tree(TREE)?.range("a"..).try_for_each(|e| e.map(drop))),
        call("prefix", read, false, |s| {
            s.tree(TREE)?.prefix("k").rev().try_for_each(|e| e.map(drop))
        }),
        call("watch", read, false, |s| s.tree(TREE)?.watch("", 10).map(drop)),
        call("put", write, true, |s| s.put(TREE, "k", "v")),
        call("put by tree", write, true, |s| s.tree(TREE)?.put("k", "v")),
        call("insert", write, true, |s| s.insert(TREE, "k", "v").map(drop)),
        call("insert by tree", write, true, |s| s.tree(TREE)?.insert("k", "v").map(drop)),
        call("delete", write, true, |s| s.delete(TREE, "none").map(drop)),
        call("delete by tree", write, true, |s| s.tree(TREE)?.delete("none").map(drop)),
        call("swap", read | write, true, |s| {
            s.compare_and_swap(TREE, "k", Some(b"v"), Some(b"v")).map(drop)
        }),
        call("batch", write, true, |s| {
            let tree = s.tree(TREE)?;
            let mut batch = s.batch();
            batch.put(&tree, "k", "v")?;
            batch.delete(&tree, "none")?;
            s.write(&batch).map(drop)
        }),
        call("transaction get", read, false, |s| {
            let tree = s.tree(TREE)?;
            s.begin()?.get(&tree, "k").map(drop)
        }),
        call("transaction scan", read, false, |s| {
            let tree = s.tree(TREE)?;
            let transaction = s.begin()?;
            transaction.iter(&tree)?.try_for_each(|entry| entry.map(drop))
        }),
        call("transaction put", write, true, |s| {
            let tree = s.tree(TREE)?;
            let mut transaction = s.begin()?;
            transaction.put(&tree, "k", "v")?;
            transaction.commit().map(drop)
        }),
        call("transaction for update", read | write, true, |s| {
            let tree = s.tree(TREE)?;
            let mut transaction = s.begin()?;
            transaction.get_for_update(&tree, "k")?;
            transaction.commit().map(drop)
        }),
        call("transact", write, true, |s| {
            let tree = s.tree(TREE)?;
            s.transact(|transaction| transaction.put(&tree, "k", "v"))
        }),
        call("snapshot get", read, false, |s| {
            let tree = s.tree(TREE)?;
            s.snapshot()?.get(&tree, "k").map(drop)
        }),
        call("snapshot scan", read, false, |s| {
            let tree = s.tree(TREE)?;
            let snapshot = s.snapshot()?;
            snapshot.iter(&tree)?.try_for_each(|entry| entry.map(drop))
        }),
        call("snapshot get with", read, false, |s| {
            let tree = s.tree(TREE)?;
            s.snapshot()?.get_with(&tree, "k", |_| ()).map(drop)
        }),
        call("snapshot contains", read, false, |s| {
            let tree = s.tree(TREE)?;
            s.snapshot()?.contains(&tree, "k").map(drop)
        }),
        call("snapshot prefix", read, false, |s| {
            let tree = s.tree(TREE)?;
            let snapshot = s.snapshot()?;
            snapshot.prefix(&tree, "k")?.try_for_each(|entry| entry.map(drop))
        }),
        call("clear", Rights::DROP | write, true, |s| s.clear_tree(TREE)),
        call("drop another", Rights::DROP, true, |s| {
            // The right is asked for before anybody is told whether there is such a tree.
            match s.drop_tree("shop/orders2") {
                Err(Error::Usage(_)) => Ok(()),
                other => other,
            }
        }),
    ]
}

fn has(rights: Rights, call: &Call) -> bool {
    rights.contains(call.needed)
}

#[test]
fn each_call_goes_through_with_what_it_needs_and_is_denied_with_less() {
    under_both(|policy| {
        let (db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        root.create_tree(TREE).expect("new");
        root.put(TREE, "k", "v").expect("root has all rights");
        root.create_user("ada", PASSWORD).expect("new");
        let ada = sessions.login("ada", PASSWORD).expect("right");
        let used = [Rights::READ, Rights::WRITE, Rights::DROP];
        for bits in 0..8_usize {
            let mut rights = Rights::NONE;
            for (at, right) in used.into_iter().enumerate() {
                if bits >> at & 1 == 1 {
                    rights = rights | right;
                }
            }
            if bits > 0 {
                grant(&root, "ada", "shop/*", rights);
            }
            for call in calls() {
                let before = db.open_tree(TREE).expect("readable").expect("there").len();
                let answer = (call.run)(&ada);
                let what = format!("{} with {rights}, {policy:?}: {answer:?}", call.name);
                match answer {
                    Ok(()) => assert!(has(rights, &call), "{what}"),
                    Err(Error::Denied(Denied::NeedsRights { account, rights: named, .. })) => {
                        assert!(!has(rights, &call), "{what}");
                        if BY_NAME.contains(&call.name) {
                            assert_eq!(named, call.needed.difference(rights).to_string(), "{what}");
                        }
                        assert_eq!(account, "ada");
                        let after = db.open_tree(TREE).expect("readable").expect("there").len();
                        assert_eq!(before.expect("open"), after.expect("open"), "{what}");
                    }
                    Err(_) => panic!("{what}"),
                }
                root.put(TREE, "k", "v").expect("root has all rights");
            }
            if bits > 0 {
                revoke(&root, "ada", "shop/*", rights);
            }
        }
    });
}

#[test]
fn states_of_a_namespace_bar_whoever_they_should_and_only_from_writing() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        root.create_tree(TREE).expect("new");
        root.create_user("ada", PASSWORD).expect("new");
        root.create_user("care", PASSWORD).expect("new");
        let all = Rights::READ | Rights::WRITE | Rights::DROP | Rights::CREATE;
        grant(&root, "ada", "*", all);
        grant(&root, "care", "*", all);
        grant(&root, "care", "shop/*", Rights::MAINTENANCE);
        let ada = sessions.login("ada", PASSWORD).expect("right");
        let care = sessions.login("care", PASSWORD).expect("right");
        for (state, who, passes) in [
            (ReadOnly::No, &ada, true),
            (ReadOnly::No, &care, true),
            (ReadOnly::Yes, &ada, false),
            (ReadOnly::Yes, &care, true),
            (ReadOnly::Yes, &root, true),
            (ReadOnly::Super, &ada, false),
            (ReadOnly::Super, &care, false),
            (ReadOnly::Super, &root, false),
        ] {
            root.set_read_only("shop", state).expect("root may");
            for call in calls() {
                let answer = (call.run)(who);
                let what = format!(
                    "{} by {} in {state}, {policy:?}: {answer:?}",
                    call.name,
                    who.account()
                );
                match answer {
                    Ok(()) => assert!(passes || !call.writes, "{what}"),
                    Err(Error::Denied(Denied::NamespaceReadOnly { namespace, .. })) => {
                        assert!(!passes && call.writes, "{what}");
                        assert_eq!(namespace, "shop");
                    }
                    Err(_) => panic!("{what}"),
                }
            }
        }
    });
}

#[test]
fn rights_on_a_tree_reach_no_other_tree_and_those_of_a_role_count() {
    under_both(|policy| {
        let (_db, sessions, root) = begun(policy);
        root.create_namespace("shop").expect("new");
        for tree in ["shop/a", "shop/b", "plain"] {
            root.create_tree(tree).expect("new");
        }
        root.create_user("ada", PASSWORD).expect("new");
        root.create_role("clerk").expect("new");
        root.create_role("staff").expect("new");
        root.grant_role("staff", "clerk").expect("no cycle");
        root.grant_role("ada", "staff").expect("no cycle");
        grant(&root, "clerk", "shop/a", Rights::WRITE);
        grant(&root, "ada", "plain", Rights::WRITE);
        let ada = sessions.login("ada", PASSWORD).expect("right");
        ada.put("shop/a", "k", "v").expect("by a role of a role");
        ada.put("plain", "k", "v").expect("granted");
        for (tree, op) in [("shop/b", "put"), ("shop/a", "get")] {
            let denied =
                if op == "put" { ada.put(tree, "k", "v") } else { ada.get(tree, "k").map(drop) };
            assert!(matches!(denied, Err(Error::Denied(Denied::NeedsRights { .. }))), "{denied:?}");
        }
        assert_eq!(ada.trees().expect("open"), ["plain", "shop/a"]);
        root.revoke_role("staff", "clerk").expect("granted");
        let denied = ada.put("shop/a", "k", "v");
        assert!(matches!(denied, Err(Error::Denied(Denied::NeedsRights { .. }))), "{denied:?}");
    });
}

#[test]
fn whether_a_tree_is_there_is_told_only_to_who_has_rights_on_it() {
    let (_db, sessions, root) = begun(latchkv::Policy::Lazy);
    root.create_tree("there").expect("new");
    root.create_user("ada", PASSWORD).expect("new");
    let ada = sessions.login("ada", PASSWORD).expect("right");
    for tree in ["there", "not there"] {
        let denied = ada.tree(tree).map(drop);
        assert!(matches!(denied, Err(Error::Denied(Denied::NeedsRights { .. }))), "{denied:?}");
    }
    grant(&root, "ada", "*", Rights::READ);
    assert!(ada.tree("there").is_ok());
    assert!(matches!(ada.tree("not there"), Err(Error::Usage(latchkv::Usage::NoSuchTree(_)))));
}

#[test]
fn system_trees_are_read_by_administrators_and_written_by_nobody() {
    under_both(|policy| {
        let (db, sessions, root) = begun(policy);
        root.create_user("ada", PASSWORD).expect("new");
        grant(&root, "ada", "*", Rights::READ | Rights::WRITE | Rights::DROP | Rights::CREATE);
        let ada = sessions.login("ada", PASSWORD).expect("right");
        assert!(root.tree("latchkv/accounts").expect("SUPER").len().expect("open") >= 2);
        assert!(ada.tree("latchkv/accounts").is_err());
        drop(root.take_audit_events().expect("SUPER"));
        for session in [&root, &ada] {
            let in_transaction = || {
                let tree = session.tree("latchkv/accounts")?;
                session.transact(|transaction| transaction.put(&tree, "k", "v"))
            };
            let answers = [
                session.put("latchkv/accounts", "k", "v"),
                session.delete("latchkv/accounts", "k").map(drop),
                session.create_tree("latchkv/new"),
                session.drop_tree("latchkv/accounts"),
                session.clear_tree("latchkv/accounts"),
                session.rename_tree("latchkv/accounts", "mine"),
                session.rebuild_tree("latchkv/accounts"),
            ];
            for answer in &answers {
                let system = matches!(answer, Err(Error::Denied(Denied::SystemTree(_))));
                assert!(system, "{answer:?} of {answers:?}");
            }
            assert!(matches!(in_transaction(), Err(Error::Denied(_))));
            let (events, _) = root.take_audit_events().expect("SUPER");
            assert_eq!(events.len(), answers.len() + 1, "each denial is told once: {events:?}");
        }
        let tree = db.open_tree("latchkv/accounts").expect("readable").expect("there");
        assert!(matches!(tree.put("k", "v"), Err(Error::Denied(Denied::SystemTree(_)))));
        assert!(tree.clear().is_err() && tree.rebuild().is_err());
        assert!(tree.bulk_load([("k", "v")]).is_err());
        let mut transaction = db.begin().expect("open");
        assert!(
            transaction.put(&tree, "k", "v").is_err() && transaction.delete(&tree, "k").is_ok()
        );
        assert!(latchkv::WriteBatch::new().put(&tree, "k", "v").is_err());
        assert!(db.tree("latchkv/new").is_err() && db.drop_tree("latchkv/accounts").is_err());
        assert!(db.rename_tree("latchkv/accounts", "mine").is_err());
        assert!(!db.trees().expect("open").iter().any(|name| name.starts_with("latchkv")));
        assert_eq!(db.system_trees().expect("open").len(), 4);
    });
}
