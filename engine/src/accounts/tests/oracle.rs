//! The lazy answer is the eager one: on random contents, and after random changes.

use super::*;
use crate::accounts::eager::EagerRights;
use crate::accounts::{Directory, ReadOnly};
use proptest::prelude::*;

const USERS: [&str; 3] = ["ada", "bob", "root"];
const ROLES: [&str; 4] = ["r0", "r1", "r2", "r3"];
const OBJECTS: [&str; 9] =
    ["*", "/*", "shop/*", "logs/*", "shop/a", "shop/b", "logs/2026/a", "a", "*/a"];
const TREES: [(&str, &str); 9] = [
    ("shop", "a"),
    ("shop", "b"),
    ("shop", "*"),
    ("logs", "2026/a"),
    ("", "a"),
    ("", "*"),
    ("*", "a"),
    ("nowhere", "a"),
    ("latchkv", "accounts"),
];

fn account(at: usize) -> &'static str {
    let at = at % (USERS.len() + ROLES.len());
    USERS.get(at).copied().unwrap_or_else(|| ROLES[at - USERS.len()])
}

#[track_caller]
fn assert_same(directory: &Directory, eager: &EagerRights) {
    for account in USERS.iter().chain(&ROLES) {
        let Some((name, found)) = directory.find(account) else { continue };
        for (namespace, tree) in TREES {
            let lazy = directory.rights(found.id, namespace, tree);
            let all = eager.check_eager(name.as_str(), found.id, namespace, tree);
            assert_eq!(lazy, all.rights(), "{account} on {namespace:?} {tree:?}");
            let other = eager.check_eager(name.as_str(), AccountId(u64::MAX), namespace, tree);
            assert_eq!(other.rights(), Rights::NONE);
        }
    }
}

/// Some grants: who, on what, which.
fn grants() -> impl Strategy<Value = Vec<(usize, usize, u16)>> {
    prop::collection::vec((0..7_usize, 0..OBJECTS.len(), 1..=Rights::ALL.bits()), 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn lazy_equals_eager_on_random_contents(
        // A role is granted to accounts, and to roles before it: no cycles.
        members in prop::collection::vec((0..7_usize, 0..ROLES.len()), 0..10),
        grants in grants(),
    ) {
        let mut content = content_of(&USERS, &ROLES, &[], &[]);
        for (member, role) in members {
            if member < USERS.len() || member - USERS.len() < role {
                content.roles.entry(name(account(member))).or_default().insert(name(ROLES[role]));
            }
        }
        for (grantee, on, bits) in grants {
            let on = object(OBJECTS[on]);
            let given = Rights::from_bits(bits).expect("in range").intersection(on.grantable());
            if !given.is_empty() {
                content.grants.entry(name(account(grantee))).or_default().insert(on, given);
            }
        }
        let eager = EagerRights::default();
        eager.replace(&content);
        assert_same(&Directory::new(content, 1), &eager);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Drop(usize),
    GrantRole(usize, usize),
    RevokeRole(usize, usize),
    Grant(usize, usize, u16),
    Revoke(usize, usize, u16),
    State(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (who, what, bits) = (0..7_usize, 0..OBJECTS.len(), 1..=Rights::ALL.bits());
    prop_oneof![
        2 => who.clone().prop_map(Step::Create),
        1 => who.clone().prop_map(Step::Drop),
        3 => (who.clone(), who.clone()).prop_map(|(role, member)| Step::GrantRole(role, member)),
        1 => (who.clone(), who.clone()).prop_map(|(role, member)| Step::RevokeRole(role, member)),
        4 => (who.clone(), what.clone(), bits.clone()).prop_map(|(w, o, b)| Step::Grant(w, o, b)),
        2 => (who, what, bits).prop_map(|(w, o, b)| Step::Revoke(w, o, b)),
        1 => (0..3_usize, 0..3_u8).prop_map(|(namespace, state)| Step::State(namespace, state)),
    ]
}

/// Does one step as `root`, whatever comes of it.
fn take(house: &House, step: &Step) -> Result<()> {
    let (db, root, accounts) = (&house.db, house.root, &house.accounts);
    let set = |bits| Rights::from_bits(bits).expect("in range");
    match *step {
        Step::Create(who) if who < USERS.len() => {
            accounts.create_user(db, root, &name(account(who)), PASSWORD).map(drop)
        }
        Step::Create(who) => accounts.create_role(db, root, &name(account(who))).map(drop),
        Step::Drop(who) => house.drop(root, account(who)),
        Step::GrantRole(role, member) => house.grant_role(account(role), account(member)),
        Step::RevokeRole(role, member) => house.revoke_role(root, account(role), account(member)),
        Step::Grant(who, on, bits) => {
            let on = object(OBJECTS[on]);
            let given = set(bits).intersection(on.grantable());
            accounts.grant(db, root, &name(account(who)), &on, given)
        }
        Step::Revoke(who, on, bits) => {
            accounts.revoke(db, root, &name(account(who)), &object(OBJECTS[on]), set(bits))
        }
        Step::State(namespace, state) => {
            let state = [ReadOnly::No, ReadOnly::Yes, ReadOnly::Super][usize::from(state)];
            accounts.set_namespace_state(db, root, ["", "shop", "logs"][namespace], state, || {})
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// What is in memory is what another opening reads, and both policies agree on it.
    #[test]
    fn random_changes_keep_memory_disk_and_both_policies_alike(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let house = House::new();
        // "logs" is none: what is to be done to it is refused.
        house.namespace("shop");
        for step in &steps {
            let epoch = house.accounts.epoch();
            match take(&house, step) {
                Ok(()) => prop_assert!(house.accounts.epoch() <= epoch + 1),
                Err(Error::Usage(_) | Error::Denied(_)) => {
                    prop_assert_eq!(house.accounts.epoch(), epoch, "{:?} was refused", step);
                }
                Err(other) => panic!("{step:?}: {other:?}"),
            }
            let directory = house.accounts.directory(&house.db).expect("whole");
            assert_same(&directory, house.accounts.eager());
            prop_assert!(directory.has_administrator());
        }
        let again = house.reopened();
        prop_assert_eq!(again.listed(), house.listed());
        let directory = again.accounts.directory(&again.db).expect("whole");
        assert_same(&directory, again.accounts.eager());
    }
}
