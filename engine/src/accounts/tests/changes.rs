//! What changes do, and who may make them.

use super::*;
use crate::accounts::ReadOnly;

#[test]
fn the_first_administrator_has_every_right_and_is_made_once() {
    let house = House::new();
    assert_eq!(house.held(house.root, "*"), Rights::ALL.to_string());
    let again = house.accounts.create_first_administrator(&house.db, &name("root"), PASSWORD);
    misused(again, Usage::AccountsExist);
    assert_eq!(house.accounts.login(&house.db, "root", PASSWORD).expect("right").id, house.root);
}

#[test]
fn rights_are_granted_added_and_revoked_on_the_very_object() {
    let house = House::new();
    let ada = house.user("ada");
    house.grant(house.root, "ada", "shop/*", "READ").expect("root may");
    house.grant(house.root, "ada", "shop/*", "WRITE").expect("root may");
    house.grant(house.root, "ada", "shop/orders", "DROP").expect("root may");
    assert_eq!(house.held(ada, "shop/orders"), "READ,WRITE,DROP");
    assert_eq!(house.held(ada, "shop/items"), "READ,WRITE");
    assert_eq!(house.held(ada, "other/orders"), "NONE");

    let not_granted = |on: &str, rights: &str| Usage::NotGranted {
        grantee: "ada".into(),
        rights: rights.into(),
        object: on.into(),
    };
    // It has the right by a wider object, which has to be named.
    misused(
        house.revoke(house.root, "ada", "shop/orders", "READ"),
        not_granted("shop/orders", "READ"),
    );
    house.revoke(house.root, "ada", "shop/*", "READ,CREATE").expect("one of them is there");
    assert_eq!(house.held(ada, "shop/orders"), "WRITE,DROP");
    house.revoke(house.root, "ada", "shop/*", "ALL").expect("what is left");
    misused(house.revoke(house.root, "ada", "shop/*", "WRITE"), not_granted("shop/*", "WRITE"));
    assert_eq!(house.held(ada, "shop/orders"), "DROP");
}

#[test]
fn all_means_what_the_object_can_have_and_more_is_refused_by_name() {
    let house = House::new();
    house.user("ada");
    house.grant(house.root, "ada", "shop/orders", "ALL").expect("all of a tree");
    assert_eq!(house.held(house.id("ada"), "shop/orders"), "READ,WRITE,CREATE,DROP,GRANT");
    house.grant(house.root, "ada", "shop/*", "ALL").expect("all of a namespace");
    assert_eq!(house.held(house.id("ada"), "shop/*"), "READ,WRITE,CREATE,DROP,GRANT,MAINTENANCE");
    let beyond = |rights: &str, object: &str| Usage::BadGrant {
        rights: rights.into(),
        object: object.into(),
    };
    misused(house.grant(house.root, "ada", "shop/*", "SUPER,READ"), beyond("SUPER", "shop/*"));
    misused(house.grant(house.root, "ada", "t", "MAINTENANCE"), beyond("MAINTENANCE", "t"));
    let none =
        house.accounts.grant(&house.db, house.root, &name("ada"), &Object::All, Rights::NONE);
    misused(none, Usage::BadRights("NONE".into()));
}

#[test]
fn one_grants_what_one_holds_with_grant_on_that_object_and_nothing_else() {
    let house = House::new();
    let ada = house.user("ada");
    house.user("bob");
    house.grant(house.root, "ada", "shop/*", "READ,GRANT").expect("root may");
    house.grant(house.root, "ada", "*", "WRITE").expect("root may");

    house.grant(ada, "bob", "shop/*", "READ").expect("held with GRANT");
    house.grant(ada, "bob", "shop/orders", "READ,WRITE").expect("held by a wider object");
    denied(house.grant(ada, "bob", "shop/*", "DROP"), needs("ada", "DROP", "shop/*"));
    denied(house.grant(ada, "bob", "*", "WRITE"), needs("ada", "GRANT", "*"));
    denied(house.grant(ada, "bob", "*", "READ"), needs("ada", "READ,GRANT", "*"));
    denied(house.grant(ada, "bob", "other/x", "WRITE"), needs("ada", "GRANT", "other/x"));
    // Whether there is such an account is not told to those who may not grant.
    denied(house.grant(ada, "nobody", "*", "WRITE"), needs("ada", "GRANT", "*"));
    denied(house.revoke(ada, "nobody", "other/*", "READ"), needs("ada", "GRANT", "other/*"));

    house.grant(house.root, "bob", "shop/*", "DROP").expect("root may");
    denied(house.revoke(ada, "bob", "shop/*", "ALL"), needs("ada", "DROP", "shop/*"));
    house.revoke(ada, "bob", "shop/*", "READ").expect("held with GRANT");
    assert_eq!(house.held(house.id("bob"), "shop/*"), "DROP");
}

#[test]
fn accounts_and_roles_are_for_super_and_a_password_also_for_its_owner() {
    let house = House::new();
    let ada = house.user("ada");
    house.user("bob");
    house.role("staff");
    house
        .grant(house.root, "ada", "*", "READ,WRITE,CREATE,DROP,GRANT,MAINTENANCE")
        .expect("root may");
    let wanting = || needs("ada", "SUPER", "*");
    let (db, accounts) = (&house.db, &house.accounts);
    denied(accounts.create_user(db, ada, &name("eve"), PASSWORD), wanting());
    denied(accounts.create_role(db, ada, &name("eve")), wanting());
    denied(accounts.drop_account(db, ada, &name("bob")), wanting());
    denied(accounts.grant_role(db, ada, &name("staff"), &name("ada")), wanting());
    denied(accounts.revoke_role(db, ada, &name("staff"), &name("ada")), wanting());
    denied(accounts.set_password(db, ada, &name("bob"), b"new"), wanting());
    denied(accounts.set_password(db, ada, &name("nobody"), b"new"), wanting());

    accounts.set_password(db, ada, &name("ada"), b"new").expect("its own");
    denied(accounts.login(db, "ada", PASSWORD), Denied::Login);
    assert_eq!(accounts.login(db, "ada", b"new").expect("the new one").id, ada);
    accounts.set_password(db, house.root, &name("ada"), b"newer").expect("root may");
    assert_eq!(accounts.login(db, "ada", b"newer").expect("the newer one").id, ada);
    misused(
        accounts.set_password(db, house.root, &name("staff"), b"x"),
        Usage::NotAUser("staff".into()),
    );
    misused(
        accounts.set_password(db, house.root, &name("nobody"), b"x"),
        Usage::NoSuchAccount("nobody".into()),
    );
    misused(accounts.set_password(db, house.root, &name("ada"), b""), Usage::BadPassword);
}

#[test]
fn names_are_taken_by_users_and_roles_alike() {
    let house = House::new();
    house.user("ada");
    house.role("staff");
    for taken in ["ada", "staff", "root"] {
        let user = house.accounts.create_user(&house.db, house.root, &name(taken), PASSWORD);
        misused(user, Usage::AccountExists(taken.into()));
        let role = house.accounts.create_role(&house.db, house.root, &name(taken));
        misused(role, Usage::AccountExists(taken.into()));
    }
    misused(house.grant(house.root, "nobody", "*", "READ"), Usage::NoSuchAccount("nobody".into()));
    misused(house.revoke(house.root, "nobody", "*", "READ"), Usage::NoSuchAccount("nobody".into()));
    misused(house.drop(house.root, "nobody"), Usage::NoSuchAccount("nobody".into()));
}

#[test]
fn roles_nest_and_a_cycle_of_any_length_is_refused() {
    let house = House::new();
    for role in ["a", "b", "c"] {
        house.role(role);
    }
    let ada = house.user("ada");
    house.grant_role("a", "b").expect("no cycle");
    house.grant_role("b", "c").expect("no cycle");
    house.grant_role("c", "ada").expect("no cycle");
    house.grant(house.root, "a", "shop/*", "READ").expect("root may");
    assert_eq!(house.held(ada, "shop/*"), "READ");
    let cycle =
        |role: &str, member: &str| Usage::RoleCycle { role: role.into(), member: member.into() };
    misused(house.grant_role("a", "a"), cycle("a", "a"));
    misused(house.grant_role("b", "a"), cycle("b", "a"));
    misused(house.grant_role("c", "a"), cycle("c", "a"));
    misused(house.grant_role("ada", "a"), Usage::NotARole("ada".into()));
    misused(house.grant_role("nobody", "a"), Usage::NoSuchAccount("nobody".into()));
    misused(house.grant_role("a", "nobody"), Usage::NoSuchAccount("nobody".into()));

    let not_a_member = Usage::NotAMember { role: "a".into(), member: "ada".into() };
    misused(house.revoke_role(house.root, "a", "ada"), not_a_member);
    house.revoke_role(house.root, "a", "b").expect("granted");
    assert_eq!(house.held(ada, "shop/*"), "NONE");
    house.grant_role("c", "a").expect("no cycle any more");
}

#[test]
fn what_was_dropped_leaves_no_rights_behind_for_a_later_account_of_its_name() {
    let house = House::new();
    let ada = house.user("ada");
    house.role("staff");
    house.role("inner");
    house.grant_role("staff", "ada").expect("root may");
    house.grant_role("inner", "staff").expect("root may");
    house.grant(house.root, "ada", "*", "WRITE").expect("root may");
    house.grant(house.root, "inner", "shop/*", "READ").expect("root may");
    assert_eq!(house.held(ada, "shop/*"), "READ,WRITE");

    house.drop(house.root, "staff").expect("root may");
    assert_eq!(house.held(ada, "shop/*"), "WRITE");
    house.role("staff");
    assert_eq!(house.held(ada, "shop/*"), "WRITE");

    house.drop(house.root, "ada").expect("root may");
    let later = house.user("ada");
    assert_ne!(later, ada);
    for account in [ada, later] {
        assert_eq!(house.held(account, "shop/*"), "NONE");
    }
    house.grant(house.root, "ada", "*", "READ").expect("root may");
    assert_eq!(house.held(later, "*"), "READ");
    assert_eq!(house.held(ada, "*"), "NONE");
    denied(house.grant(ada, "ada", "*", "READ"), Denied::AccountDropped);
    denied(house.accounts.set_password(&house.db, ada, &name("ada"), b"x"), Denied::AccountDropped);
}

#[test]
fn states_are_set_with_maintenance_and_the_strictest_only_with_super() {
    let house = House::new();
    let ada = house.user("ada");
    house.namespace("shop");
    house.grant(house.root, "ada", "shop/*", "MAINTENANCE").expect("root may");
    let set = |acting, namespace: &str, state| {
        house.accounts.set_namespace_state(&house.db, acting, namespace, state, || {})
    };
    let state = |namespace: &str| {
        house.accounts.directory(&house.db).expect("whole").namespace_state(namespace)
    };
    set(ada, "shop", ReadOnly::Yes).expect("MAINTENANCE on it");
    assert_eq!(state("shop"), ReadOnly::Yes);
    assert_eq!((state(""), state("other")), (ReadOnly::No, ReadOnly::No));
    denied(set(ada, "other", ReadOnly::Yes), needs("ada", "MAINTENANCE", "other/*"));
    denied(set(ada, "shop", ReadOnly::Super), needs("ada", "SUPER", "*"));
    set(house.root, "shop", ReadOnly::Super).expect("SUPER");
    denied(set(ada, "shop", ReadOnly::No), needs("ada", "SUPER", "*"));
    set(house.root, "shop", ReadOnly::No).expect("SUPER");
    set(house.root, "", ReadOnly::Yes).expect("the unnamed one is one too");
    assert_eq!(state(""), ReadOnly::Yes);
    denied(set(house.root, "latchkv", ReadOnly::Yes), Denied::SystemTree("latchkv/*".into()));
    assert!(matches!(
        set(house.root, "a/b", ReadOnly::Yes),
        Err(Error::Usage(Usage::BadObject { .. }))
    ));
    // A name with a mistake in it was made a namespace.
    misused(set(house.root, "shpo", ReadOnly::Yes), Usage::NoSuchNamespace("shpo".into()));
    denied(set(ada, "shpo", ReadOnly::Yes), needs("ada", "MAINTENANCE", "shpo/*"));
}

#[test]
fn namespaces_are_made_and_forgotten_by_those_with_the_rights() {
    let house = House::new();
    let ada = house.user("ada");
    let (db, accounts) = (&house.db, &house.accounts);
    denied(accounts.create_namespace(db, ada, "shop"), needs("ada", "CREATE", "shop/*"));
    house.grant(house.root, "ada", "shop/*", "CREATE,DROP").expect("root may");
    accounts.create_namespace(db, ada, "shop").expect("CREATE on it");
    misused(accounts.create_namespace(db, ada, "shop"), Usage::NamespaceExists("shop".into()));
    let list = |expected: &[(&str, ReadOnly)]| {
        let directory = accounts.directory(db).expect("whole");
        let unnamed = [("", ReadOnly::No)];
        let expected = [&unnamed[..], expected].concat();
        assert_eq!(directory.namespaces().collect::<Vec<_>>(), expected);
    };
    list(&[("shop", ReadOnly::No)]);
    accounts.set_namespace_state(db, house.root, "shop", ReadOnly::Yes, || {}).expect("root may");
    let barred = Denied::NamespaceReadOnly { namespace: "shop".into(), state: "yes".into() };
    denied(accounts.drop_namespace(db, ada, "shop", || {}), barred);
    accounts.set_namespace_state(db, house.root, "shop", ReadOnly::No, || {}).expect("root may");
    accounts.drop_namespace(db, ada, "shop", || {}).expect("DROP on it");
    list(&[]);
    misused(accounts.drop_namespace(db, ada, "shop", || {}), Usage::NoSuchNamespace("shop".into()));

    let root = house.root;
    misused(accounts.create_namespace(db, root, ""), Usage::NamespaceExists(String::new()));
    for refused in [
        accounts.drop_namespace(db, root, "", || {}),
        // Nothing could be granted on a namespace or a tree that stands for others.
        accounts.create_namespace(db, root, "*"),
    ] {
        assert!(matches!(refused, Err(Error::Usage(Usage::BadObject { .. }))), "{refused:?}");
    }
    list(&[]);
}

#[test]
fn the_epoch_moves_once_for_each_change_and_not_for_what_changes_nothing() {
    let house = House::new();
    let mut epoch = house.accounts.epoch();
    let mut moved = |by: u64, what: &str| {
        assert_eq!(house.accounts.epoch(), epoch + by, "{what}");
        assert_eq!(house.accounts.directory(&house.db).expect("whole").epoch(), epoch + by);
        epoch += by;
    };
    house.user("ada");
    moved(1, "a user");
    house.role("staff");
    moved(1, "a role");
    house.grant(house.root, "ada", "*", "READ").expect("root may");
    moved(1, "a grant");
    house.grant(house.root, "ada", "*", "READ").expect("root may");
    moved(0, "the same grant");
    house.grant_role("staff", "ada").expect("root may");
    moved(1, "a membership");
    house.grant_role("staff", "ada").expect("root may");
    moved(0, "the same membership");
    house.namespace("a");
    moved(1, "a namespace");
    let state =
        || house.accounts.set_namespace_state(&house.db, house.root, "a", ReadOnly::Yes, || {});
    state().expect("root may");
    moved(1, "a state");
    state().expect("root may");
    moved(0, "the same state");
    house.grant(house.root, "nobody", "*", "READ").expect_err("nobody");
    house.revoke(house.root, "ada", "*", "DROP").expect_err("not granted");
    house.drop(house.root, "root").expect_err("the last one");
    moved(0, "what is refused");
    house.drop(house.root, "ada").expect("root may");
    moved(1, "a drop");
}
