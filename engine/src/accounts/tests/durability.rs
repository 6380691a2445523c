//! What reopening, a crash, damage and many threads leave.

use super::*;
use crate::accounts::ReadOnly;
use crate::io::sim::{CrashMode, Fault, OpKind};

/// One of everything.
fn furnished() -> House {
    let house = House::new();
    house.user("ada");
    house.role("staff");
    house.role("workers");
    house.grant_role("staff", "ada").expect("root may");
    house.grant_role("workers", "staff").expect("root may");
    house.grant(house.root, "ada", "shop/orders", "READ,WRITE").expect("root may");
    house.grant(house.root, "workers", "*", "CREATE").expect("root may");
    house.grant(house.root, "staff", "/*", "MAINTENANCE").expect("root may");
    let set = |namespace: &str, state| {
        house.accounts.set_namespace_state(&house.db, house.root, namespace, state, || {})
    };
    house.namespace("shop");
    house.namespace("other");
    set("shop", ReadOnly::Yes).expect("root may");
    set("", ReadOnly::Super).expect("root may");
    house
}

#[test]
fn another_opening_finds_everything_and_the_same_ids() {
    let house = furnished();
    let again = house.reopened();
    assert_eq!(again.listed(), house.listed());
    for account in ["root", "ada", "staff", "workers"] {
        assert_eq!(again.id(account), house.id(account));
    }
    assert_eq!(
        again.accounts.login(&again.db, "ada", PASSWORD).expect("right").id,
        house.id("ada")
    );
    let newest = again.user("eve");
    assert!(["root", "ada", "staff", "workers"].iter().all(|account| again.id(account) < newest));
    assert!(again.db.check(|_| {}).expect("readable").is_ok());
}

#[test]
fn every_change_is_durable_though_the_database_is_not() {
    let machine = SimMachine::new(1);
    let options = db_options().durability(crate::log::Durability::None);
    let db = options.open_disks(machine.data(), machine.log()).expect("new");
    let now = Arc::new(Mutex::new(Instant::now()));
    let accounts = accounts(&now);
    let root = accounts.create_first_administrator(&db, &name("root"), PASSWORD).expect("none yet");
    for (at, account) in ["a", "b", "c"].into_iter().enumerate() {
        accounts.create_user(&db, root, &name(account), PASSWORD).expect("root may");
        let crashed = machine.crash(at as u64, CrashMode::LoseAll);
        let db = open(&crashed);
        let found = super::accounts(&now).directory(&db).expect("whole");
        assert!(found.find(account).is_some() && found.list().len() == at + 2);
    }
}

#[test]
fn a_change_is_durable_before_anybody_sees_it() {
    let house = House::new();
    house.namespace("shop");
    let epoch = house.accounts.epoch();
    let seen = Arc::new(Mutex::new(None));
    let hook = || {
        // Here the process might end.
        let crashed = House {
            machine: house.machine.crash(3, CrashMode::LoseAll),
            db: open(&house.machine.crash(3, CrashMode::LoseAll)),
            accounts: accounts(&house.now),
            now: Arc::clone(&house.now),
            root: house.root,
        };
        let durable =
            crashed.accounts.directory(&crashed.db).expect("whole").namespace_state("shop");
        let visible = house.accounts.directory(&house.db).expect("whole").namespace_state("shop");
        *seen.lock().expect("no panic") = Some((durable, visible, house.accounts.epoch()));
    };
    let set =
        house.accounts.set_namespace_state(&house.db, house.root, "shop", ReadOnly::Yes, hook);
    set.expect("root may");
    assert_eq!(*seen.lock().expect("no panic"), Some((ReadOnly::Yes, ReadOnly::No, epoch)));
    let directory = house.accounts.directory(&house.db).expect("whole");
    assert_eq!(directory.namespace_state("shop"), ReadOnly::Yes);
    assert_eq!(house.accounts.epoch(), epoch + 1);
}

#[test]
fn a_hook_that_panics_leaves_memory_as_the_disk_is() {
    let house = House::new();
    house.namespace("shop");
    let set = || {
        let _ = house.accounts.set_namespace_state(
            &house.db,
            house.root,
            "shop",
            ReadOnly::Yes,
            || panic!("on purpose"),
        );
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(set)).is_err());
    let directory = house.accounts.directory(&house.db).expect("whole");
    assert_eq!(directory.namespace_state("shop"), ReadOnly::Yes);
    assert_eq!(house.reopened().listed(), house.listed());
    house.user("ada");
}

#[test]
fn a_change_that_cannot_be_written_is_not_seen() {
    let house = furnished();
    let before = house.listed();
    let epoch = house.accounts.epoch();
    house.machine.fail_from(0, Fault::Eio, OpKind::Sync);
    let failed = house.accounts.create_role(&house.db, house.root, &name("late"));
    assert!(matches!(failed, Err(Error::Poisoned { .. } | Error::Io { .. })), "{failed:?}");
    assert_eq!(house.listed(), before);
    assert_eq!(house.accounts.epoch(), epoch);
    house.accounts.login(&house.db, "ada", PASSWORD).expect("reading goes on");
}

#[test]
fn a_database_that_is_open_for_reading_has_accounts_but_changes_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = db_options().create(&path).expect("new");
    let now = Arc::new(Mutex::new(Instant::now()));
    let root =
        accounts(&now).create_first_administrator(&db, &name("root"), PASSWORD).expect("none yet");
    db.close().expect("room");
    let db = db_options().open_read_only(&path).expect("closed properly");
    let accounts = accounts(&now);
    assert_eq!(accounts.login(&db, "root", PASSWORD).expect("right").id, root);
    let refused = accounts.create_role(&db, root, &name("staff"));
    assert!(matches!(refused, Err(Error::Denied(Denied::ReadOnly { .. }))), "{refused:?}");
}

/// Puts a record that accounts did not write.
fn forge(db: &Db, tree: &str, key: &[u8], value: &[u8]) {
    db.system_tree(tree).expect("room").put(key, value).expect("room");
}

#[test]
fn damage_is_told_with_tree_and_record_and_hurts_nothing_else() {
    let role = [&[1, b'r', 0, 0, 0, 0, 0, 0][..], &77_u64.to_le_bytes()].concat();
    let twin = [&[1, b'r', 0, 0, 0, 0, 0, 0][..], &1_u64.to_le_bytes()].concat();
    let cases: [(&str, &[u8], &[u8]); 13] = [
        ("latchkv/accounts", b"eve", b""),
        ("latchkv/accounts", b"eve", &role[..15]),
        ("latchkv/accounts", b"zoe", &twin),
        ("latchkv/accounts", b"e/e", &role),
        ("latchkv/members", b"ada\0nobody", &[1]),
        ("latchkv/members", b"staff\0ada", &[1]),
        // Of a circle the last record is told, by its key.
        ("latchkv/members", b"workers\0staff", &[1]),
        ("latchkv/members", b"staff\0staff", &[1]),
        ("latchkv/members", b"ada\0staff", &[2]),
        ("latchkv/grants", b"nobody\0*", &[1, 0, 1, 0]),
        ("latchkv/grants", b"ada\0latchkv/*", &[1, 0, 1, 0]),
        ("latchkv/grants", b"ada\0*", &[1, 0, 0, 2]),
        ("latchkv/namespaces", b"a/b", &[1, 0]),
    ];
    let plain = furnished();
    plain.db.tree("t").expect("room").put("k", "v").expect("room");
    for (tree, key, value) in cases {
        let house = plain.reopened();
        forge(&house.db, tree, key, value);
        for _ in 0..2 {
            match house.accounts.directory(&house.db) {
                Err(Error::Corrupt(corruption)) => {
                    let text = corruption.to_string();
                    assert!(text.contains(tree), "{text}");
                    assert!(text.contains(&key.escape_ascii().to_string()), "{text}");
                }
                other => panic!("{tree} {}: {other:?}", key.escape_ascii()),
            }
        }
        let refused = house.accounts.login(&house.db, "root", PASSWORD);
        assert!(matches!(refused, Err(Error::Corrupt(_))));
        let again = house.accounts.create_first_administrator(&house.db, &name("me"), b"x");
        assert!(matches!(again, Err(Error::Corrupt(_))), "damage makes nobody an administrator");
        let tree = house.db.open_tree("t").expect("readable").expect("there");
        assert_eq!(tree.get("k").expect("readable").as_deref(), Some(&b"v"[..]));
        assert!(house.db.check(|_| {}).expect("readable").is_ok());
    }
}

#[test]
fn a_state_that_cannot_be_read_is_read_only_for_that_namespace_alone() {
    let plain = furnished();
    for bytes in [&b""[..], &[1], &[1, 3], &[9, 0], &[1, 0, 0]] {
        let house = plain.reopened();
        forge(&house.db, "latchkv/namespaces", b"other", bytes);
        let directory = house.accounts.directory(&house.db).expect("the rest is whole");
        assert_eq!(directory.namespace_state("other"), ReadOnly::Yes, "{bytes:?}");
        assert_eq!(directory.namespace_state("shop"), ReadOnly::Yes);
        assert_eq!(directory.namespace_state(""), ReadOnly::Super);
        assert_eq!(directory.namespace_state("elsewhere"), ReadOnly::No);
        // Setting it mends it.
        let set = |state| {
            house.accounts.set_namespace_state(&house.db, house.root, "other", state, || {})
        };
        set(ReadOnly::No).expect("root may");
        let again = house.reopened().accounts.directory(&house.reopened().db).expect("whole");
        assert_eq!(again.namespace_state("other"), ReadOnly::No);
    }
}

/// The unnamed namespace had an empty key, which LMDB takes out of no dump.
#[test]
fn the_unnamed_namespace_is_read_under_its_old_key_and_written_under_another() {
    let house = House::new();
    forge(&house.db, "latchkv/namespaces", b"", &[1, 2]);
    let house = house.reopened();
    let state =
        |house: &House| house.accounts.directory(&house.db).expect("whole").namespace_state("");
    assert_eq!(state(&house), ReadOnly::Super);
    let keys = |house: &House| {
        let tree = house.db.open_tree("latchkv/namespaces").expect("readable").expect("there");
        tree.iter().map(|entry| entry.expect("whole").key().to_vec()).collect::<Vec<_>>()
    };
    let set = |state| {
        house.accounts.set_namespace_state(&house.db, house.root, "", state, || {}).expect("may");
    };
    set(ReadOnly::Yes);
    assert_eq!(keys(&house), [b"/"]);
    assert_eq!(state(&house.reopened()), ReadOnly::Yes);
    set(ReadOnly::No);
    assert_eq!(keys(&house), [b""; 0], "it is there without a record");
    assert_eq!(state(&house.reopened()), ReadOnly::No);
}

#[test]
fn accounts_without_a_system_tree_beside_them_are_damaged() {
    let machine = SimMachine::new(1);
    let db = open(&machine);
    let role = [&[1, b'r', 0, 0, 0, 0, 0, 0][..], &77_u64.to_le_bytes()].concat();
    forge(&db, "latchkv/accounts", b"eve", &role);
    let accounts = Accounts::new(AccountsOptions::default());
    match accounts.directory(&db) {
        Err(Error::Corrupt(corruption)) => {
            assert!(corruption.to_string().contains("latchkv/members"), "{corruption}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn changes_of_many_threads_are_all_made_and_each_moves_the_epoch_once() {
    let house = House::new();
    let before = house.accounts.epoch();
    const THREADS: u64 = 4;
    const ROLES: u64 = 8;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let house = &house;
                scope.spawn(move || {
                    for at in 0..ROLES {
                        let role = format!("r{thread}-{at}");
                        house.role(&role);
                        // One's own change is seen by the next call.
                        house.id(&role);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let epoch = house.accounts.epoch();
                let directory = house.accounts.directory(&house.db).expect("whole");
                assert!(directory.epoch() >= epoch && epoch >= last, "an epoch went back");
                // Root and as many roles as changes.
                assert_eq!(directory.list().len() as u64, directory.epoch() - before + 1);
                last = epoch;
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
    assert_eq!(house.accounts.epoch(), before + THREADS * ROLES);
    assert_eq!(house.reopened().listed(), house.listed());
}
