//! `user`, `role`, `grant`, `revoke`, `namespace` and `tree`, as accounts and as the owner of the files.

mod common;
use common::{NONE, Place, Ran, password_of, program, run};

/// Runs with a new password, that of the account `name`, as `user` if there is one.
fn with_new_password(place: &Place, user: Option<&str>, command: &str, name: &str) -> Ran {
    let mut program = program();
    program.args(command.split(' ')).arg(place.path("db")).arg(name);
    program.env("LATCHKV_NEW_PASSWORD", password_of(name));
    if let Some(user) = user {
        program.args(["--user", user]).env("LATCHKV_PASSWORD", password_of(user));
    }
    run(program, b"")
}

#[test]
fn the_first_user_is_the_administrator_and_the_next_needs_one() {
    let place = Place::new();
    assert!(with_new_password(&place, None, "user add", "root").err.contains("no database at"));
    place.ok("put", &["k", "v"]);
    let first = with_new_password(&place, None, "user add", "root");
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains("\"root\" is the administrator of"), "{}", first.err);
    let second = with_new_password(&place, None, "user add", "ada");
    assert!(second.code == 2 && second.err.contains("give --user"), "{}", second.err);
    let second = with_new_password(&place, Some("root"), "user add", "ada");
    assert_eq!((second.code, &*second.err), (0, ""));
    let all = "*\tREAD,WRITE,CREATE,DROP,GRANT,SUPER,MAINTENANCE";
    let list = place.ok_as("root", "user list", &NONE);
    assert_eq!(list, format!("user\tada\nuser\troot\n\tgrant\t{all}\n"));
    // Who is not an administrator makes nobody, and sees only itself.
    let third = with_new_password(&place, Some("ada"), "user add", "eve");
    assert!(third.code == 4 && third.err.contains("needs SUPER"), "{}", third.err);
    assert_eq!(place.ok_as("ada", "user list", &NONE), "user\tada\n");
    // The owner of the files reads and writes as before.
    assert_eq!(place.ok("get", &["k"]), "v\n");
}

#[test]
fn accounts_are_changed_by_accounts_and_not_by_the_owner_of_the_files() {
    let place = Place::with_accounts();
    for (command, arguments) in [
        ("user passwd", &["ada"][..]),
        ("user drop", &["ada"]),
        ("user list", &[]),
        ("role add", &["staff"]),
        ("role drop", &["staff"]),
        ("role grant", &["staff", "--to", "ada"]),
        ("role revoke", &["staff", "--from", "ada"]),
        ("grant", &["READ", "--on", "*", "--to", "ada"]),
        ("revoke", &["READ", "--on", "shop/*", "--from", "ada"]),
        ("namespace create", &["new"]),
        ("namespace drop", &["lab"]),
        ("namespace list", &[]),
        ("namespace read-only", &["lab", "yes"]),
    ] {
        let message = place.fails(2, command, arguments);
        assert!(message.contains(&format!("`latchkv {command}` needs --user")), "{message}");
    }
}

#[test]
fn a_new_password_counts_from_then_on_and_the_old_one_does_not() {
    let place = Place::with_accounts();
    let set = |user: &str, name: &str, new: &str| {
        let mut passwd = program();
        passwd.args(["user", "passwd"]).arg(place.path("db")).args([name, "--user", user]);
        passwd.env("LATCHKV_PASSWORD", password_of(user)).env("LATCHKV_NEW_PASSWORD", new);
        run(passwd, b"")
    };
    assert_eq!(set("ada", "bob", "taken over").code, 4);
    assert_eq!(set("ada", "ada", "another").code, 0);
    place.fails_as(4, "ada", "trees", &NONE);
    // An administrator sets it back.
    assert_eq!(set("root", "ada", &password_of("ada")).code, 0);
    place.ok_as("ada", "trees", &NONE);
    let none = set("root", "nobody", "x");
    assert!(none.code == 1 && none.err.contains("no account is named"), "{}", none.err);
    let long = set("root", "ada", &"x".repeat(1025));
    assert!(long.code == 2 && long.err.contains("1 to 1024 bytes"), "{}", long.err);
    place.ok_as("ada", "trees", &NONE);
}

#[test]
fn rights_come_and_go_with_grants_and_roles() {
    let place = Place::with_accounts();
    let put = ["k", "v", "--tree", "lab/secret"];
    let root = |command: &str, arguments: &[&str]| place.ok_as("root", command, arguments);
    place.fails_as(4, "ada", "put", &put);
    root("role add", &["staff"]);
    root("grant", &["read,Write", "--on", "lab/*", "--to", "staff"]);
    root("role grant", &["staff", "--to", "ada"]);
    place.ok_as("ada", "put", &put);
    let list = "user\tada\n\trole\tstaff\n\tgrant\tshop/*\tREAD\n";
    assert!(root("user list", &[]).starts_with(list));
    let json: serde_json::Value =
        serde_json::from_str(&root("user list", &["--json"])).expect("JSON");
    let grants = serde_json::json!({ "shop/*": ["READ"] });
    let ada = serde_json::json!({ "role": false, "roles": ["staff"], "grants": grants });
    assert_eq!(json["ada"], ada);
    assert_eq!(json["staff"]["role"], true);
    root("revoke", &["WRITE", "--on", "lab/*", "--from", "staff"]);
    place.fails_as(4, "ada", "put", &put);
    place.ok_as("ada", "get", &["k", "--tree", "lab/secret"]);
    root("role revoke", &["staff", "--from", "ada"]);
    place.fails_as(4, "ada", "get", &["k", "--tree", "lab/secret"]);
    let message = place.fails_as(2, "root", "role revoke", &["staff", "--from", "ada"]);
    assert!(message.contains("was not granted role"), "{message}");
    let message = place.fails_as(2, "root", "grant", &["SUPER", "--on", "lab/*", "--to", "ada"]);
    assert!(message.contains("SUPER goes with *"), "{message}");
    let message = place.fails_as(1, "root", "grant", &["READ", "--on", "*", "--to", "eve"]);
    assert!(message.contains("no account is named \"eve\""), "{message}");
    let message = place.fails_as(4, "ada", "grant", &["READ", "--on", "*", "--to", "ada"]);
    assert!(message.contains("account \"ada\" needs"), "{message}");
}

#[test]
fn what_only_an_administrator_had_is_granted_again() {
    let place = Place::with_accounts();
    let to_root = ["READ,GRANT", "--on", "*", "--to", "root"];
    place.ok_as("root", "revoke", &["READ,GRANT", "--on", "*", "--from", "root"]);
    let message = place.fails_as(4, "root", "get", &["k"]);
    assert!(message.contains("needs READ on \"main\""), "{message}");
    place.ok_as("root", "grant", &to_root);
    assert_eq!(place.ok_as("root", "get", &["k"]), "v\n");
    let message = place.fails_as(4, "ada", "grant", &["READ", "--on", "shop/*", "--to", "bob"]);
    assert!(message.contains("needs GRANT on \"shop/*\""), "{message}");
}

#[test]
fn a_grant_on_a_tree_that_has_the_name_of_a_namespace_says_how_that_is_written() {
    let place = Place::with_accounts();
    let remark = "no tree is named \"shop\" so far: for the namespace write 'shop/*'";
    let grant = |on: &str| place.run_as("root", "grant", &["READ", "--on", on, "--to", "bob"]);
    for (on, is_told) in [("shop", true), ("shop/*", false), ("shop/none", false), ("main", false)]
    {
        let ran = grant(on);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.contains(remark), is_told, "{on}: {}", ran.err);
    }
    place.ok("tree create", &["shop"]);
    assert_eq!(grant("shop").err, "");
}

#[test]
fn the_last_administrator_and_ones_own_account_stay() {
    let place = Place::with_accounts();
    place.fails_as(4, "root", "user drop", &["root"]);
    place.fails_as(4, "root", "revoke", &["SUPER", "--on", "*", "--from", "root"]);
    place.ok_as("root", "role add", &["staff"]);
    let message = place.fails_as(2, "root", "user drop", &["staff"]);
    assert!(message.contains("\"staff\" is a role: `latchkv role drop`"), "{message}");
    let message = place.fails_as(2, "root", "role drop", &["ada"]);
    assert!(message.contains("\"ada\" is a user: `latchkv user drop`"), "{message}");
    place.fails_as(4, "ada", "user drop", &["bob"]);
    place.ok_as("root", "user drop", &["bob"]);
    place.ok_as("root", "role drop", &["staff"]);
    place.fails_as(1, "root", "user drop", &["bob"]);
    place.fails_as(4, "bob", "trees", &NONE);
}

#[test]
fn a_namespace_goes_when_its_trees_are_gone() {
    let place = Place::with_accounts();
    place.fails_as(2, "root", "namespace create", &["lab"]);
    place.fails_as(4, "ada", "namespace create", &["new"]);
    let message = place.fails_as(2, "root", "namespace drop", &["lab"]);
    assert!(message.contains("\"lab/secret\" is one"), "{message}");
    place.ok_as("root", "tree rename", &["lab/secret", "shop/secret"]);
    place.ok_as("root", "namespace drop", &["lab"]);
    place.fails_as(1, "root", "namespace drop", &["lab"]);
    place.ok_as("root", "namespace create", &["new"]);
    assert_eq!(
        place.ok_as("root", "namespace list", &["--json"]),
        "{\"/\":\"no\",\"new\":\"no\",\"shop\":\"no\"}\n"
    );
    assert_eq!(place.ok_as("ada", "get", &["k", "--tree", "shop/secret"]), "v\n");
}

#[test]
fn trees_are_made_renamed_cleared_and_dropped_by_either() {
    for user in [None, Some("root")] {
        let place = Place::with_accounts();
        let run = |command: &str, arguments: &[&str]| match user {
            None => place.run(command, arguments),
            Some(user) => place.run_as(user, command, arguments),
        };
        let ok = |command: &str, arguments: &[&str]| {
            let ran = run(command, arguments);
            assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        };
        let code = |command: &str, arguments: &[&str]| run(command, arguments).code;
        ok("tree create", &["shop/new"]);
        assert_eq!(code("tree create", &["shop/new"]), 2);
        ok("put", &["k", "v", "--tree", "shop/new"]);
        ok("tree rename", &["shop/new", "shop/other"]);
        assert_eq!(code("tree rename", &["shop/new", "shop/third"]), 1);
        ok("tree clear", &["shop/other"]);
        assert_eq!(place.ok("count", &["--tree", "shop/other"]), "0\n");
        ok("tree drop", &["shop/other"]);
        assert_eq!(code("tree drop", &["shop/other"]), 1);
        assert_eq!(code("tree clear", &["shop/other"]), 1);
        assert_eq!(code("tree create", &["latchkv/new"]), 4);
        assert_eq!(code("tree create", &["latchkv.load"]), 2);
        assert_eq!(place.ok("trees", &NONE), "lab/secret\nmain\nshop/items\nshop/orders\n");
    }
}
