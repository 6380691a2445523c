//! Changes of accounts through sessions, and what is kept of them.

use super::{PASSWORD, begun, grant, on, options, session_options, user};
use crate::common::{open_on, simulated};
use latchkv::io::sim::{CrashMode, SimMachine};
use latchkv::{AuditKind, Denied, Error, Policy, ReadOnly, Rights, Usage};

#[test]
fn a_database_without_accounts_lets_nobody_log_in_and_the_first_gets_every_right() {
    let db = simulated(&options());
    let sessions = db.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    assert!(!sessions.has_accounts().expect("readable"));
    assert!(matches!(sessions.login("root", PASSWORD), Err(Error::Usage(Usage::NoAccounts))));
    assert!(db.system_trees().expect("readable").is_empty());
    sessions.create_administrator("root", PASSWORD).expect("the first");
    assert!(matches!(
        sessions.create_administrator("other", PASSWORD),
        Err(Error::Usage(Usage::AccountsExist))
    ));
    let root = sessions.login("root", PASSWORD).expect("right");
    assert_eq!(root.rights(&on("*")).expect("there"), Rights::ALL);
    assert!(db.sessions_with(session_options(Policy::Lazy)).is_err(), "options come first");
    assert!(db.sessions().has_accounts().expect("readable"), "the same sessions");
}

#[test]
fn accounts_grants_and_states_survive_a_power_cut_as_soon_as_their_call_has_returned() {
    let machine = SimMachine::new(1);
    let db = open_on(&machine, &options()).expect("new");
    let sessions = db.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    sessions.create_administrator("root", PASSWORD).expect("the first");
    let root = sessions.login("root", PASSWORD).expect("right");
    root.create_namespace("shop").expect("new");
    let ada = user(&sessions, &root, "ada");
    grant(&root, "ada", "shop/*", Rights::READ);
    root.set_read_only("shop", ReadOnly::Super).expect("may");
    ada.set_password("ada", b"changed").expect("her own");

    let again = open_on(&machine.crash(7, CrashMode::LoseAll), &options()).expect("recovers");
    let sessions = again.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    assert!(matches!(sessions.login("ada", PASSWORD), Err(Error::Denied(Denied::Login))));
    let ada = sessions.login("ada", b"changed").expect("right");
    assert_eq!(ada.rights(&on("shop/*")).expect("there"), Rights::READ);
    assert_eq!(
        ada.namespaces().expect("open"),
        [(String::new(), ReadOnly::No), ("shop".to_owned(), ReadOnly::Super)]
    );
}

#[test]
fn damaged_accounts_keep_sessions_from_opening_and_nothing_else() {
    let machine = SimMachine::new(2);
    let small = options().checkpoint_bytes(u64::MAX);
    let db = open_on(&machine, &small).expect("new");
    let sessions = db.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    sessions.create_administrator("root", PASSWORD).expect("the first");
    let root = sessions.login("root", PASSWORD).expect("right");
    // Names that find their page among the blocks of the file.
    for number in 0..200 {
        root.create_role(&format!("marked-role-{number:04}")).expect("new");
    }
    root.create_tree("t").expect("new");
    root.put("t", "k", "v").expect("may");
    drop((root, sessions));
    db.close().expect("a healthy disk");
    let disk = machine.data();
    let mut bytes = vec![0; latchkv::io::Disk::len_bytes(&*disk).expect("known") as usize];
    latchkv::io::Disk::read(&*disk, 0, &mut bytes).expect("readable");
    let mut damaged = 0;
    for at in (0..bytes.len()).step_by(latchkv::BLOCK_BYTES) {
        let block = &bytes[at..at + latchkv::BLOCK_BYTES];
        if block.windows(12).any(|window| window == b"marked-role-") {
            disk.damage(at as u64 + 100, &[0x55; 64]);
            damaged += 1;
        }
    }
    assert!(damaged > 0, "the names are on disk");
    let again = open_on(&machine, &small).expect("opens");
    let sessions = again.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    for _ in 0..2 {
        let refused = sessions.login("root", PASSWORD).map(drop);
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
    }
    assert!(matches!(sessions.has_accounts(), Err(Error::Corrupt(_))));
    assert!(matches!(sessions.create_administrator("me", PASSWORD), Err(Error::Corrupt(_))));
    let tree = again.open_tree("t").expect("whole").expect("there");
    assert_eq!(tree.get("k").expect("whole").as_deref(), Some(&b"v"[..]));
    assert!(!again.check(|_| ()).expect("runs").problems.is_empty());
}

#[test]
fn what_happened_is_in_the_audit_events_in_order() {
    let (_db, sessions, root) = begun(Policy::Lazy);
    let ada = user(&sessions, &root, "ada");
    grant(&root, "ada", "t", Rights::READ);
    root.create_tree("t").expect("new");
    assert!(ada.put("t", "k", "v").is_err());
    assert!(sessions.login("ada", b"wrong").is_err());
    root.create_namespace("shop").expect("new");
    root.set_read_only("shop", ReadOnly::Super).expect("may");
    root.drop_account("ada").expect("may");
    assert!(matches!(ada.take_audit_events(), Err(Error::Denied(Denied::AccountDropped))));
    let (events, lost) = root.take_audit_events().expect("SUPER");
    assert_eq!(lost, 0);
    let told: Vec<(String, AuditKind)> =
        events.into_iter().map(|event| (event.account, event.kind)).collect();
    let by = |account: &str, kind| (account.to_owned(), kind);
    assert_eq!(
        told,
        [
            by("root", AuditKind::Created { account: "root".into(), role: false }),
            by("root", AuditKind::Login),
            by("root", AuditKind::Created { account: "ada".into(), role: false }),
            by("ada", AuditKind::Login),
            by(
                "root",
                AuditKind::Granted { to: "ada".into(), object: on("t"), rights: Rights::READ }
            ),
            by("ada", AuditKind::Denied { op: "put", needed: Rights::WRITE, object: on("t") }),
            by("ada", AuditKind::LoginRefused),
            by("root", AuditKind::NamespaceCreated { namespace: "shop".into() }),
            by(
                "root",
                AuditKind::StateChanged { namespace: "shop".into(), state: ReadOnly::Super }
            ),
            by("root", AuditKind::Dropped { account: "ada".into() }),
        ]
    );
}

#[test]
fn what_an_account_may_not_change_is_refused_and_changes_nothing() {
    let (_db, sessions, root) = begun(Policy::Lazy);
    let ada = user(&sessions, &root, "ada");
    grant(&root, "ada", "shop/*", Rights::READ | Rights::GRANT);
    root.create_role("clerk").expect("new");
    let before = root.accounts().expect("SUPER");
    for answer in [
        ada.create_user("bob", PASSWORD),
        ada.create_role("bob"),
        ada.drop_account("clerk"),
        ada.set_password("root", b"mine"),
        ada.grant_role("ada", "clerk"),
        ada.grant("clerk", &on("shop/*"), Rights::WRITE),
        ada.grant("clerk", &on("*"), Rights::READ),
        ada.set_read_only("shop", ReadOnly::Yes),
        ada.checkpoint().map(drop),
        ada.check_database(|_| ()).map(drop),
        ada.stats().map(drop),
        ada.take_audit_events().map(drop),
        root.drop_account("root"),
        root.revoke("root", &on("*"), Rights::SUPER),
    ] {
        assert!(matches!(answer, Err(Error::Denied(_))), "{answer:?}");
    }
    for answer in [
        root.drop_account("nobody"),
        root.grant("nobody", &on("*"), Rights::READ),
        root.grant_role("clerk", "clerk"),
        root.create_user("ada", PASSWORD),
        root.create_user("a/b", PASSWORD),
        root.create_user("bob", b""),
    ] {
        assert!(matches!(answer, Err(Error::Usage(_))), "{answer:?}");
    }
    assert_eq!(root.accounts().expect("SUPER"), before);
    ada.grant("clerk", &on("shop/t"), Rights::READ).expect("has it, and GRANT");
    assert_eq!(ada.accounts().expect("her own").len(), 1);
}

#[test]
fn the_records_of_the_system_trees_restore_all_accounts_into_another_database() {
    let (db, sessions, root) = begun(Policy::Lazy);
    root.create_namespace("shop").expect("new");
    let _ada = user(&sessions, &root, "ada");
    root.create_role("clerk").expect("new");
    root.create_role("staff").expect("new");
    root.grant_role("clerk", "staff").expect("no cycle");
    root.grant_role("ada", "clerk").expect("no cycle");
    grant(&root, "staff", "shop/*", Rights::READ);
    root.set_read_only("shop", ReadOnly::Yes).expect("may");
    let mut records = Vec::new();
    for name in db.system_trees().expect("readable") {
        for entry in db.open_tree(&name).expect("readable").expect("there").iter() {
            let (key, value) = entry.expect("readable").into_pair();
            records.push((name.clone(), key, value));
        }
    }
    // In any order.
    records.reverse();
    let other = simulated(&options());
    let restored = other.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    for at in 0..records.len() {
        let mut broken = records.clone();
        // A state that makes no sense counts as "yes"; all else does not count at all.
        if broken[at].0 != "latchkv/namespaces" {
            broken[at].2.push(7);
            assert!(restored.restore(&broken).is_err(), "record {at}");
        }
        broken[at].0 = "latchkv/others".into();
        assert!(restored.restore(&broken).is_err(), "record {at}");
    }
    let without: Vec<_> =
        records.iter().filter(|record| record.0 == "latchkv/namespaces").cloned().collect();
    assert!(matches!(restored.restore(&without), Err(Error::Denied(Denied::LastAdministrator))));
    assert!(!restored.has_accounts().expect("readable"), "nothing was restored");
    restored.restore(&records).expect("whole");
    assert!(matches!(restored.restore(&records), Err(Error::Usage(Usage::AccountsExist))));
    let again = restored.login("root", PASSWORD).expect("right");
    assert_eq!(again.accounts().expect("SUPER"), root.accounts().expect("SUPER"));
    let ada = restored.login("ada", PASSWORD).expect("right");
    assert_eq!(ada.rights(&on("shop/*")).expect("there"), Rights::READ);
    assert_eq!(
        ada.namespaces().expect("open"),
        [(String::new(), ReadOnly::No), ("shop".to_owned(), ReadOnly::Yes)]
    );
    root.create_user("bob", PASSWORD).expect("new");
    again.create_user("bob", PASSWORD).expect("an id of its own");
}

/// The next account once got the same id, and the accounts did not open again.
#[test]
fn after_the_last_id_no_account_is_made_and_what_is_there_stays() {
    let (db, _sessions, _root) = begun(Policy::Lazy);
    let mut records = Vec::new();
    for name in db.system_trees().expect("readable") {
        let tree = db.open_tree(&name).expect("readable").expect("there");
        for entry in tree.iter() {
            let entry = entry.expect("readable");
            let mut value = entry.value().to_vec();
            if name == "latchkv/accounts" {
                value[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
            }
            records.push((name.clone(), entry.key().to_vec(), value));
        }
    }
    let machine = SimMachine::new(1);
    let restored = options().open_disks(machine.data(), machine.log()).expect("empty disks");
    let sessions = restored.sessions_with(session_options(Policy::Lazy)).expect("the first to ask");
    sessions.restore(&records).expect("an id like others");
    let root = sessions.login("root", PASSWORD).expect("right");
    for _ in 0..2 {
        assert!(matches!(root.create_user("ada", PASSWORD), Err(Error::Full { .. })));
    }
    restored.close().expect("a healthy disk");
    let restored = options().open_disks(machine.data(), machine.log()).expect("whole");
    restored.sessions().login("root", PASSWORD).expect("the only account");
}

#[test]
fn denied_changes_of_accounts_and_namespaces_are_in_the_audit_events() {
    let (_db, sessions, root) = begun(Policy::Lazy);
    let ada = user(&sessions, &root, "ada");
    root.create_role("staff").expect("new");
    root.create_namespace("shop").expect("new");
    grant(&root, "ada", "shop/*", Rights::MAINTENANCE);
    drop(root.take_audit_events().expect("SUPER"));
    let denied = [
        ada.create_user("bob", PASSWORD),
        ada.create_role("clerks"),
        ada.set_password("root", PASSWORD),
        ada.drop_account("root"),
        ada.grant_role("ada", "staff"),
        ada.revoke_role("ada", "staff"),
        ada.grant("ada", &on("*"), Rights::SUPER),
        ada.revoke("root", &on("shop/t"), Rights::READ),
        ada.create_namespace("other"),
        ada.drop_namespace("shop"),
        ada.set_read_only("shop", ReadOnly::Super),
    ];
    for answer in &denied {
        assert!(
            matches!(answer, Err(Error::Denied(Denied::NeedsRights { .. }))),
            "{answer:?} of {denied:?}"
        );
    }
    let (events, _) = root.take_audit_events().expect("SUPER");
    let told: Vec<_> = events
        .into_iter()
        .map(|event| match event.kind {
            AuditKind::Denied { op, needed, object } => (event.account, op, needed, object),
            other => panic!("{other:?}"),
        })
        .collect();
    let told: Vec<_> = told.iter().map(|(by, op, r, on)| (&by[..], *op, *r, on)).collect();
    let (all, super_) = (on("*"), Rights::SUPER);
    assert_eq!(
        told,
        [
            ("ada", "create a user", super_, &all),
            ("ada", "create a role", super_, &all),
            ("ada", "set a password", super_, &all),
            ("ada", "drop an account", super_, &all),
            ("ada", "grant a role", super_, &all),
            ("ada", "revoke a role", super_, &all),
            ("ada", "grant rights", super_ | Rights::GRANT, &all),
            ("ada", "revoke rights", Rights::GRANT, &on("shop/t")),
            ("ada", "create a namespace", Rights::CREATE, &on("other/*")),
            ("ada", "drop a namespace", Rights::DROP, &on("shop/*")),
            ("ada", "set a namespace read-only", super_, &all),
        ]
    );
}
