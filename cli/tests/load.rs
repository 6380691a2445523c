//! `load`: every format, all or nothing, and what is left out.

mod common;
use common::{NONE, Place};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

const ENTRIES: &str = "a\t1\nb\t2\n";

#[test]
fn an_input_that_is_not_there_is_told_as_such_whatever_its_name_is() {
    let place = Place::new();
    for name in ["none", "none.tsv"] {
        let path = place.path(name);
        let message = place.fails(3, "load", &[path.as_os_str()]);
        assert!(message.contains(&format!("opening {} failed", path.display())), "{message}");
        assert!(!message.contains("format"), "{message}");
    }
    assert!(!place.path("db").exists());
}

#[test]
fn every_format_gives_the_same_tree() {
    let place = Place::new();
    let inputs = [
        ("in.tsv", "a\\x62\tx\\ty\nc\t\n"),
        ("in.csv", "ab,x\ty\nc,\n"),
        ("in.jsonl", "{\"key\":\"ab\",\"value\":\"x\\ty\"}\n{\"key_hex\":\"63\",\"value\":\"\"}\n"),
        (
            "in.dump",
            "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 6162\n 780979\n 63\n \nDATA=END\n",
        ),
    ];
    for (name, text) in inputs {
        let input = place.file(name, text);
        let db = format!("db-{name}");
        let ran = place.run_on(&db, "load", &[input.as_os_str()], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let scan = place.run_on(&db, "scan", &["--values"], b"");
        assert_eq!(scan.text(), "ab\tx\\ty\nc\t\n", "{name}");
        let format = name.trim_start_matches("in.");
        let db = format!("stdin-{format}");
        let ran = place.run_on(&db, "load", &["-", "--format", format], text.as_bytes());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(
            place.run_on(&db, "scan", &["--values"], b"").text(),
            "ab\tx\\ty\nc\t\n",
            "{name}"
        );
    }
}

#[test]
fn a_folder_comes_back_byte_by_byte() {
    let place = Place::new();
    let folder = place.path("folder");
    fs::create_dir_all(folder.join("sub/deep")).expect("create");
    let large: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_le_bytes()).collect();
    fs::write(folder.join("large"), &large).expect("write");
    fs::write(folder.join("sub/deep/empty"), "").expect("write");
    fs::write(folder.join(OsStr::from_bytes(b"sub/raw\xff")), "raw").expect("write");
    // The database lies in the folder that is loaded, and a link leads out of it.
    std::os::unix::fs::symlink("/", folder.join("link")).expect("link");
    let ran = place.run_on("folder/db", "load", &[folder.as_os_str()], b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("not loaded: 1 symbolic link\n"), "{}", ran.err);
    let get = |key: &str| place.run_on("folder/db", "get", &[key, "--raw"], b"").out;
    assert_eq!(get("large"), large);
    assert_eq!(get("sub/raw\\xff"), b"raw");
    let scan = place.run_on("folder/db", "scan", &NONE, b"");
    assert_eq!(scan.text(), "large\nsub/deep/empty\nsub/raw\\xff\n");
}

#[test]
fn malformed_input_names_its_line_and_loads_nothing() {
    let place = Place::new();
    let bad = place.file("bad.tsv", "a\t1\nb\t2\nno tab\nc\t3\n");
    let message = place.fails(3, "load", &[bad.as_os_str()]);
    assert!(message.contains("bad.tsv, line 3: no TAB"), "{message}");
    assert!(message.contains("nothing was loaded"), "{message}");
    assert!(!place.path("db").exists(), "no database comes into being");

    place.ok("put", &["a", "old"]);
    place.fails(3, "load", &[bad.as_os_str()]);
    assert_eq!(place.ok("scan", &["--values"]), "a\told\n");
    // With so little memory for sorting the input is read twice.
    let small = ["--sort-memory", "1"].map(OsStr::new);
    place.fails(3, "load", &[bad.as_os_str(), small[0], small[1]]);
    assert_eq!(place.ok("scan", &["--values"]), "a\told\n");
}

#[test]
fn keep_going_leaves_bad_lines_out_and_counts_them() {
    let place = Place::new();
    let mut text = String::from(ENTRIES);
    for number in 0..12 {
        text += &format!("bad {number}\n");
    }
    text += &format!("{}\tkey over the limit\nc\t3\n", "k".repeat(20_000));
    let input = place.file("in.tsv", text);
    for sort_memory in ["256M", "1"] {
        let arguments =
            [input.as_os_str(), OsStr::new("--keep-going"), OsStr::new("--sort-memory")];
        let arguments = [&arguments[..], &[OsStr::new(sort_memory)]].concat();
        let ran = place.run("load", &arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.err.matches("left out: ").count(), 10, "{}", ran.err);
        assert!(ran.err.contains("13 bad records"), "{}", ran.err);
        assert_eq!(place.ok("scan", &NONE), "a\nb\nc\n");
    }
}

#[test]
fn input_larger_than_the_sort_memory_gives_the_same_tree() {
    let place = Place::new();
    let mut random = fastrand::Rng::with_seed(3);
    let line = |n: u32| format!("{:05}\t{n}\n", random.u32(..3_000));
    let input = place.file("in.tsv", (0..6_000).map(line).collect::<String>());
    let load = |db: &str, more: &[&str]| {
        let more = more.iter().map(OsStr::new);
        let arguments: Vec<&OsStr> = [input.as_os_str()].into_iter().chain(more).collect();
        let ran = place.run_on(db, "load", &arguments, b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        place.run_on(db, "scan", &["--values"], b"").out
    };
    let at_once = load("at-once", &[]);
    assert!(at_once.len() > 10_000);
    assert!(load("in-pieces", &["--sort-memory", "20K"]) == at_once);
    // Again into the tree that has everything: nothing changes.
    assert!(load("at-once", &["--sort-memory", "20K"]) == at_once);
    assert!(load("in-pieces", &[]) == at_once);
    // However many records a commit has.
    for batch in ["1", "7", "100000"] {
        let db = format!("batches-of-{batch}");
        assert!(load(&db, &["--sort-memory", "50K", "--batch", batch]) == at_once);
        assert!(load(&db, &["--batch", batch]) == at_once);
        assert_eq!(place.run_on(&db, "trees", &NONE, b"").text(), "main\n");
    }
    for db in ["at-once", "in-pieces"] {
        assert_eq!(place.run_on(db, "trees", &NONE, b"").text(), "main\n");
        assert_eq!(place.run_on(db, "check", &NONE, b"").code, 0);
    }
}

#[test]
fn the_last_of_equal_keys_counts() {
    let place = Place::new();
    let input = place.file("in.tsv", "k\t1\na\t0\nk\t2\n");
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("scan", &["--values"]), "a\t0\nk\t2\n");
}

#[test]
fn loading_adds_to_a_tree_and_leaves_others_alone() {
    let place = Place::new();
    place.ok("put", &["b", "old"]);
    place.ok("put", &["x", "stays"]);
    place.ok("put", &["k", "v", "--tree", "other"]);
    let input = place.file("in.tsv", ENTRIES);
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("scan", &["--values"]), "a\t1\nb\t2\nx\tstays\n");
    assert_eq!(place.ok("scan", &["--tree", "other", "--values"]), "k\tv\n");
}

#[test]
fn csv_columns_are_found_by_their_names() {
    let place = Place::new();
    let input = place.file("in.csv", "id,name,note\n1,one,\"a, b\"\n2,two,c\n");
    let options = ["--key-column", "name", "--value-column", "note"].map(OsStr::new);
    let arguments = [&[input.as_os_str()][..], &options].concat();
    place.ok("load", &arguments);
    assert_eq!(place.ok("scan", &["--values"]), "one\ta, b\ntwo\tc\n");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_created() {
    let place = Place::new();
    let unclear = place.file("in.txt", ENTRIES);
    assert!(place.fails(2, "load", &[unclear.as_os_str()]).contains("--format"));
    let tree = ["--tree", "latchkv.load", "--format", "tsv"].map(OsStr::new);
    place.fails(2, "load", &[&[unclear.as_os_str()][..], &tree].concat());
    let missing = place.path("none.tsv");
    assert!(place.fails(3, "load", &[missing.as_os_str()]).contains("none.tsv"));
    assert!(!place.path("db").exists());
}

#[test]
fn empty_input_gives_an_empty_tree() {
    let place = Place::new();
    let input = place.file("in.tsv", "");
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("count", &NONE), "0\n");
}
