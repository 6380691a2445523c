//! Commands on data with `--user`: what the account may, and not more.

mod common;
use common::{NONE, Place, password_of, program, run};
use std::ffi::OsStr;
use std::fs;

/// Every record, as the owner of the files sees it.
fn everything(place: &Place) -> String {
    let trees = place.ok("trees", &NONE);
    let scan = |tree: &str| format!("{tree}:\n{}", place.ok("scan", &["--values", "--tree", tree]));
    trees.lines().map(scan).collect()
}

#[test]
fn an_account_does_with_records_what_it_was_granted() {
    let place = Place::with_accounts();
    let tree = ["--tree", "shop/orders"];
    let on = |arguments: &[&str]| [&tree[..], arguments].concat().join("\u{0}");
    let split = |text: &str| text.split('\u{0}').map(str::to_owned).collect::<Vec<_>>();
    let bob =
        |command: &str, arguments: &[&str]| place.ok_as("bob", command, &split(&on(arguments)));
    assert_eq!(bob("get", &["1"]), "apples\n");
    bob("put", &["3", "plums"]);
    assert_eq!(bob("scan", &["--values", "--reverse", "--limit", "2"]), "3\tplums\n2\tpears\n");
    assert_eq!(bob("count", &["--from", "2"]), "2\n");
    bob("del", &["3"]);
    assert!(place.fails_as(1, "bob", "del", &split(&on(&["3"]))).contains("no key 3"));
    assert!(place.fails_as(1, "bob", "get", &split(&on(&["3"]))).contains("no key 3"));
    assert_eq!(bob("count", &[]), "2\n");
    assert_eq!(place.ok_as("bob", "trees", &NONE), "shop/orders\n");
    assert_eq!(place.ok_as("ada", "trees", &NONE), "shop/items\nshop/orders\n");
    assert_eq!(place.ok_as("ada", "scan", &tree), "1\n2\n");
}

#[test]
fn what_an_account_may_not_ends_with_four_and_changes_nothing() {
    let place = Place::with_accounts();
    let before = everything(&place);
    let orders = ["--tree", "shop/orders"];
    for (user, command, arguments, needs) in [
        ("ada", "put", &["1", "none"][..], "WRITE"),
        ("ada", "del", &["1"][..], "WRITE"),
        ("ada", "tree drop", &["shop/orders"][..], "DROP"),
        ("ada", "tree clear", &["shop/orders"][..], "needs WRITE,DROP on"),
        ("bob", "tree clear", &["shop/orders"][..], "needs DROP on"),
        ("ada", "tree rename", &["shop/orders", "shop/o"][..], "DROP"),
        ("bob", "tree create", &["shop/new"][..], "CREATE"),
    ] {
        let is_tree = command.starts_with("tree");
        let arguments = [arguments, if is_tree { &[][..] } else { &orders[..] }].concat();
        let message = place.fails_as(4, user, command, &arguments);
        assert!(message.contains(&format!("account {user:?} needs")), "{message}");
        assert!(message.contains(needs) && message.contains("`latchkv grant`"), "{message}");
    }
    // Whether there is such a tree is not told.
    for tree in ["lab/secret", "lab/none", "latchkv/accounts"] {
        let message = place.fails_as(4, "ada", "scan", &["--tree", tree]);
        assert!(message.contains("needs READ on"), "{message}");
    }
    // Neither are trees made into which nothing could be put.
    place.ok_as("root", "grant", &["CREATE", "--on", "lab/*", "--to", "ada"]);
    place.fails_as(4, "ada", "put", &["k", "v", "--tree", "lab/made"]);
    for command in ["stat", "check"] {
        assert!(place.fails_as(4, "ada", command, &NONE).contains("needs MAINTENANCE on \"*\""));
    }
    assert_eq!(everything(&place), before);
}

#[test]
fn trees_of_the_system_are_read_by_super_and_written_by_nobody() {
    let place = Place::with_accounts();
    let accounts = ["--tree", "latchkv/accounts"];
    assert_eq!(place.ok_as("root", "scan", &accounts), "ada\nbob\nroot\n");
    for arguments in [&["ada", "x"][..], &["new", "x"]] {
        let arguments = [arguments, &accounts].concat();
        assert!(place.fails_as(4, "root", "put", &arguments).contains("latchkv/accounts"));
        let message = place.fails(4, "put", &arguments);
        assert!(message.contains("tree of the system: `latchkv user`"), "{message}");
    }
    place.fails_as(4, "root", "tree drop", &["latchkv/accounts"]);
    assert_eq!(place.ok_as("root", "scan", &accounts), "ada\nbob\nroot\n");
}

#[test]
fn a_tree_that_is_not_there_is_made_by_who_may_and_in_a_namespace_that_is() {
    let place = Place::with_accounts();
    place.ok_as("root", "put", &["k", "v", "--tree", "shop/new"]);
    assert_eq!(place.ok_as("ada", "get", &["k", "--tree", "shop/new"]), "v\n");
    let message = place.fails_as(1, "root", "put", &["k", "v", "--tree", "none/new"]);
    assert!(message.contains("`latchkv namespace create`"), "{message}");
    let message = place.fails_as(1, "ada", "scan", &["--tree", "shop/none"]);
    assert!(message.contains("there are: shop/items, shop/new, shop/orders"), "{message}");
}

#[test]
fn a_read_only_namespace_refuses_writes_by_its_state() {
    let place = Place::with_accounts();
    let put = ["1", "none", "--tree", "shop/orders"];
    let set = |state: &str| place.ok_as("root", "namespace read-only", &["shop", state]);
    set("yes");
    let message = place.fails_as(4, "bob", "put", &put);
    let says = "namespace \"shop\" is read-only (yes): `latchkv namespace read-only`";
    assert!(message.contains(says), "{message}");
    let input = place.file("in.tsv", "9\tnone\n");
    let load = [input.as_os_str(), OsStr::new("--tree"), OsStr::new("shop/orders")];
    place.fails_as(4, "bob", "load", &load);
    place.ok_as("root", "put", &["3", "by root", "--tree", "shop/orders"]);
    set("super");
    assert!(place.fails_as(4, "root", "put", &put).contains("read-only (super)"));
    assert_eq!(place.ok_as("root", "namespace list", &NONE), "/\tno\nlab\tno\nshop\tsuper\n");
    assert_eq!(place.ok_as("bob", "get", &["1", "--tree", "shop/orders"]), "apples\n");
    set("no");
    place.ok_as("bob", "put", &put);
    // The trees without a namespace have a state too.
    place.ok_as("root", "namespace read-only", &["/", "super"]);
    assert!(place.fails_as(4, "root", "put", &["k", "w"]).contains("namespace \"/\""));
    assert_eq!(place.ok_as("root", "namespace list", &NONE), "/\tsuper\nlab\tno\nshop\tno\n");
    // No command but the one for that makes a namespace.
    let message = place.fails_as(1, "root", "namespace read-only", &["shpo", "yes"]);
    assert!(message.contains("no namespace is named \"shpo\""), "{message}");
    assert_eq!(place.ok_as("root", "namespace list", &NONE), "/\tsuper\nlab\tno\nshop\tno\n");
}

#[test]
fn a_load_by_an_account_is_in_whole_or_not_at_all() {
    let place = Place::with_accounts();
    let rows: String = (0..3000).map(|n| format!("{:05}\tvalue {n}\n", n * 7919 % 3000)).collect();
    let input = place.file("in.tsv", &rows);
    let to = |tree: &'static str| {
        [input.as_os_str(), OsStr::new("--tree"), OsStr::new(tree), OsStr::new("-q")]
    };
    for (tree, more) in [("shop/orders", 2), ("shop/items", 1)] {
        // In one run, and in pieces that are less than the input.
        let sort = ["--sort-memory", if more == 2 { "256M" } else { "20K" }].map(OsStr::new);
        place.ok_as("root", "load", &[&to(tree)[..], &sort].concat());
        assert_eq!(place.ok("count", &["--tree", tree]), format!("{}\n", 3000 + more));
        assert_eq!(place.ok("get", &["00007", "--tree", tree]).trim_end(), {
            let n = (0..3000).find(|n| n * 7919 % 3000 == 7).expect("a row for each key");
            format!("value {n}")
        });
    }
    // Ada may not write, and a dump with two trees of which bob may write to one goes nowhere.
    let before = everything(&place);
    assert!(place.fails_as(4, "ada", "load", &to("shop/orders")).contains("needs WRITE"));
    let head = |name| format!("VERSION=3\nformat=print\ndatabase={name}\ntype=btree\nHEADER=END\n");
    let (one, two) = (head("shop/orders"), head("shop/items"));
    let two = place.file("two.dump", format!("{one} new\n v\nDATA=END\n{two} new\n v\nDATA=END\n"));
    place.fails_as(4, "bob", "load", &[two.as_os_str()]);
    let bad = place.file("bad.tsv", "new\tv\nno value\n");
    let to_orders = [bad.as_os_str(), OsStr::new("--tree"), OsStr::new("shop/orders")];
    let message = place.fails_as(3, "bob", "load", &to_orders);
    assert!(message.contains("line 2") && message.contains("nothing was loaded"), "{message}");
    assert_eq!(everything(&place), before);
    assert!(!place.ok("trees", &NONE).contains("latchkv.load"), "progress of a load by an account");
}

#[test]
fn a_dump_by_an_account_has_what_it_may_read_and_says_what_it_leaves_out() {
    let place = Place::with_accounts();
    place.ok_as("root", "grant", &["WRITE", "--on", "main", "--to", "ada"]);
    let file = place.path("out.dump");
    let output = ["-o", file.to_str().expect("UTF-8")];
    let ran = place.run_as("ada", "dump", &[&output[..], &["-q"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let left_out: Vec<&str> = ran.err.lines().collect();
    assert_eq!(
        left_out,
        [
            "left out: tree \"main\", which \"ada\" may not read",
            "left out: 1 tree on which \"ada\" has no right",
            "left out: accounts and namespaces, which only SUPER may read",
        ]
    );
    let text = fs::read_to_string(&file).expect("written");
    let databases: Vec<&str> = text.lines().filter(|line| line.starts_with("database=")).collect();
    assert_eq!(databases, ["database=shop/items", "database=shop/orders"]);
    assert_eq!(place.run_on("copy", "load", &[file.as_os_str()], b"").code, 0);
    let orders = ["--values", "--tree", "shop/orders"];
    assert_eq!(place.run_on("copy", "scan", &orders, b"").out, place.run("scan", &orders).out);

    place.fails_as(4, "ada", "dump", &["--tree", "lab/secret"]);
    place.fails_as(4, "ada", "dump", &["--tree", "main"]);
    let all = place.run_as("root", "dump", &NONE);
    assert!(all.text().contains("database=latchkv/accounts"), "{}", all.text());
    assert!(!all.err.contains("left out"), "{}", all.err);
    assert_eq!(all.out, place.run("dump", &NONE).out);
}

#[test]
fn a_dump_with_accounts_is_for_its_owner_and_is_loaded_with_or_without_them() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_accounts();
    let file = place.path("all.dump");
    let output = ["-o", file.to_str().expect("UTF-8")];
    let ran = place.run("dump", &output);
    assert!(ran.code == 0 && ran.err.contains("accounts are in the dump"), "{}", ran.err);
    let mode = fs::metadata(&file).expect("written").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");

    // With the accounts: everything is as it was, passwords too, and a second time changes nothing.
    for _ in 0..2 {
        let ran = place.run_on("db2", "load", &[file.as_os_str()], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    assert_eq!(place.run_on("db2", "dump", &NONE, b"").out, place.run("dump", &NONE).out);
    let get = ["1", "--tree", "shop/orders", "--user", "ada", "--password-file", "-"];
    let got = place.run_on("db2", "get", &get, password_of("ada").as_bytes());
    assert_eq!((got.code, got.text()), (0, "apples\n"), "{}", got.err);

    // LMDB takes no record with an empty key.
    place.ok_as("root", "namespace read-only", &["/", "yes"]);
    let dump = place.ok("dump", &NONE);
    let in_namespaces = dump.split("database=").find(|part| part.starts_with("latchkv/namespaces"));
    let keys: Vec<&str> = in_namespaces.expect("a database").lines().collect();
    assert!(keys.contains(&" 2f") && !keys.contains(&" "), "{keys:?}");
    place.ok_as("root", "namespace read-only", &["/", "no"]);

    // Without them.
    let without = [file.as_os_str(), OsStr::new("--without-accounts")];
    let ran = place.run_on("copy", "load", &without, b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("not loaded: 8 records of accounts and namespaces"), "{}", ran.err);
    assert_eq!(place.run_on("copy", "trees", &NONE, b"").out, place.run("trees", &NONE).out);
    let plain = place.run_on("copy", "dump", &NONE, b"");
    assert!(!plain.text().contains("latchkv/") && plain.err.is_empty(), "{}", plain.err);
}

#[test]
fn accounts_that_cannot_be_restored_load_nothing() {
    let place = Place::with_accounts();
    let dump = place.ok("dump", &NONE);
    place.ok_as("root", "grant", &["READ", "--on", "lab/*", "--to", "ada"]);
    let before = place.ok("dump", &NONE);
    let file = place.file("all.dump", &dump);
    let message = place.fails(3, "load", &[file.as_os_str()]);
    assert!(message.contains("has others already: give --without-accounts"), "{message}");
    let message = place.fails_as(2, "root", "load", &[file.as_os_str()]);
    assert!(message.contains("leave --user out"), "{message}");
    assert_eq!(place.ok("dump", &NONE), before);
    // A record that is cut, and no administrator: what root was granted is left out.
    let root = " 726f6f74002a\n 01007f00\n";
    assert!(dump.contains(root));
    for (with, says) in [(" 726f6f74002a\n 0100\n", "latchkv/grants"), ("", "SUPER")] {
        let bad = place.file("bad.dump", dump.replace(root, with));
        let ran = place.run_on("copy", "load", &[bad.as_os_str()], b"");
        assert_eq!(ran.code, 3, "{}", ran.err);
        let helps =
            ran.err.contains("--without-accounts") && ran.err.contains("nothing was loaded");
        assert!(helps && ran.err.contains(says), "{}", ran.err);
        assert!(!place.path("copy").exists());
    }
}

#[test]
fn statistics_and_checks_are_for_maintenance() {
    let place = Place::with_accounts();
    place.ok_as("root", "grant", &["MAINTENANCE", "--on", "*", "--to", "ada"]);
    let json = place.ok_as("ada", "stat", &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["trees"], serde_json::json!({ "shop/items": 1, "shop/orders": 2 }));
    assert!(place.ok_as("ada", "stat", &NONE).contains("tree shop/orders"));
    assert!(place.ok_as("ada", "check", &NONE).contains("no problems"));
}

#[test]
fn a_failed_login_is_one_answer_and_does_nothing() {
    let place = Place::with_accounts();
    place.ok_as("root", "role add", &["staff"]);
    let before = everything(&place);
    let mut answers = Vec::new();
    for (user, password) in [("root", "wrong"), ("nobody", "wrong"), ("staff", "x"), ("a/b", "x")] {
        let mut put = program();
        put.arg("put").arg(place.path("db")).args(["k", "none", "--user", user]);
        put.env("LATCHKV_PASSWORD", password);
        let ran = run(put, b"");
        assert_eq!(ran.code, 4, "{}", ran.err);
        answers.push(ran.err);
    }
    assert!(answers[0].contains("wrong name or password"), "{}", answers[0]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(everything(&place), before);
}

#[test]
fn an_account_needs_a_database_with_accounts() {
    let place = Place::new();
    let message = place.fails_as(3, "root", "put", &["k", "v"]);
    assert!(message.contains("no database at") && !place.path("db").exists(), "{message}");
    assert!(message.contains("without --user"), "{message}");
    place.ok("put", &["k", "v"]);
    let message = place.fails_as(2, "root", "get", &["k"]);
    assert!(message.contains("`latchkv user add DB NAME` without --user"), "{message}");
}

#[test]
fn standard_input_is_one_thing_only() {
    let place = Place::with_accounts();
    let from = ["--user", "root", "--password-file", "-"];
    for (command, arguments) in [
        ("put", &["k"][..]),
        ("load", &["-", "--format", "tsv"]),
        ("user passwd", &["ada", "--new-password-file", "-"]),
    ] {
        let message = place.fails(2, command, &[arguments, &from].concat());
        assert!(message.contains("standard input cannot be both"), "{message}");
    }
    let ran = place.run_with_input(
        "put",
        &[&["k", "new"][..], &from].concat(),
        password_of("root").as_bytes(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.ok("get", &["k"]), "new\n");
}
