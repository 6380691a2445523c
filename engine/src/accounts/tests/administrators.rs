//! Nobody locks everybody out, and nobody itself.

use super::*;

#[test]
fn the_only_administrator_cannot_go_in_any_way() {
    let house = House::new();
    let root = house.root;
    denied(house.drop(root, "root"), Denied::LastAdministrator);
    denied(house.revoke(root, "root", "*", "SUPER"), Denied::LastAdministrator);
    denied(house.revoke(root, "root", "*", "ALL"), Denied::LastAdministrator);
    assert_eq!(house.held(root, "*"), Rights::ALL.to_string());

    // A role with SUPER is no administrator while no user has it.
    house.role("admins");
    house.grant(root, "admins", "*", "SUPER").expect("root may");
    denied(house.drop(root, "root"), Denied::LastAdministrator);
    denied(house.revoke(root, "root", "*", "SUPER"), Denied::LastAdministrator);
}

/// Who took READ, or GRANT, from the last account that had it left nobody who could grant it.
#[test]
fn an_administrator_gives_any_right_back_that_nobody_has_any_more() {
    let house = House::new();
    let root = house.root;
    house.user("ada");
    for right in ["READ", "GRANT", "READ,WRITE,CREATE,DROP,GRANT,MAINTENANCE"] {
        house.revoke(root, "root", "*", right).expect("root may");
        house.grant(root, "ada", "shop/*", right).expect("SUPER grants what it has not");
        house.revoke(root, "ada", "shop/*", right).expect("and takes it away");
        house.grant(root, "root", "*", right).expect("also to itself");
    }
    assert_eq!(house.held(root, "*"), Rights::ALL.to_string());
    house.grant(root, "root", "*", "ALL").expect("root may");
    house.revoke(root, "root", "*", "READ,GRANT").expect("root may");
    let (ada, bob) = (house.id("ada"), house.user("bob"));
    house.grant(root, "ada", "*", "GRANT").expect("root may");
    // It is SUPER alone that needs nothing else.
    denied(house.grant(ada, "bob", "*", "READ"), needs("ada", "READ", "*"));
    denied(house.grant(bob, "ada", "*", "READ"), needs("bob", "READ,GRANT", "*"));
}

#[test]
fn an_administrator_by_nested_roles_cannot_lose_the_last_way_to_super() {
    let house = House::new();
    let root = house.root;
    house.role("admins");
    house.role("inner");
    house.grant(root, "inner", "*", "SUPER,GRANT").expect("root may");
    house.grant_role("inner", "admins").expect("root may");
    house.grant_role("admins", "root").expect("root may");
    house.revoke(root, "root", "*", "ALL").expect("it has SUPER by its roles");
    assert_eq!(house.held(root, "*"), "GRANT,SUPER");

    denied(house.revoke_role(root, "admins", "root"), Denied::LastAdministrator);
    denied(house.revoke_role(root, "inner", "admins"), Denied::LastAdministrator);
    denied(house.revoke(root, "inner", "*", "SUPER"), Denied::LastAdministrator);
    denied(house.drop(root, "inner"), Denied::LastAdministrator);
    denied(house.drop(root, "admins"), Denied::LastAdministrator);
    denied(house.drop(root, "root"), Denied::LastAdministrator);
    assert_eq!(house.held(root, "*"), "GRANT,SUPER");
}

#[test]
fn with_another_administrator_ones_own_account_and_super_still_stay() {
    let house = House::new();
    let root = house.root;
    let ada = house.user("ada");
    house.grant(root, "ada", "*", "ALL").expect("root may");
    denied(house.drop(root, "root"), Denied::OwnAccount("root".into()));
    denied(house.revoke(root, "root", "*", "SUPER"), Denied::OwnSuper("root".into()));
    house.role("admins");
    house.grant(root, "admins", "*", "SUPER").expect("root may");
    house.grant_role("admins", "ada").expect("root may");
    house.revoke(ada, "ada", "*", "SUPER").expect("it keeps it by its role");
    denied(house.revoke_role(ada, "admins", "ada"), Denied::OwnSuper("ada".into()));
    denied(house.drop(ada, "admins"), Denied::OwnSuper("ada".into()));

    // One takes it from the other, and is the last then.
    house.drop(ada, "root").expect("another administrator");
    assert_eq!(house.held(root, "*"), "NONE");
    denied(house.drop(ada, "ada"), Denied::LastAdministrator);
    denied(house.drop(root, "ada"), Denied::AccountDropped);
}

#[test]
fn two_administrators_that_drop_each_other_at_once_leave_one() {
    for round in 0..8 {
        let house = House::new();
        let ada = house.user("ada");
        house.grant(house.root, "ada", "*", "ALL").expect("root may");
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| house.drop(house.root, "ada"));
            let second = scope.spawn(|| house.drop(ada, "root"));
            (first.join().expect("no panic"), second.join().expect("no panic"))
        });
        assert!(first.is_ok() != second.is_ok(), "round {round}: {first:?} {second:?}");
        denied(first.and(second), Denied::AccountDropped);
        let directory = house.accounts.directory(&house.db).expect("whole");
        assert!(directory.has_administrator());
        assert_eq!(directory.list().len(), 1);
    }
}
