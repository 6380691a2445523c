//! Single records, parts of trees, exit codes.

mod common;
use common::{NONE, Place, files_below, program};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

#[test]
fn a_value_put_is_got_back_and_deleted_once() {
    let place = Place::new();
    place.ok("put", &["key", "a value"]);
    assert_eq!(place.ok("get", &["key"]), "a value\n");
    assert_eq!(place.ok("count", &NONE), "1\n");
    place.ok("put", &["key", "another"]);
    assert_eq!(place.run("get", &["key", "--raw"]).out, b"another");
    place.ok("del", &["key"]);
    assert!(place.fails(1, "del", &["key"]).contains("no key key"));
    assert!(place.fails(1, "get", &["key"]).contains("no key key"));
    assert_eq!(place.fails(1, "get", &["key", "-q"]), "");
}

#[test]
fn binary_keys_and_values_go_in_and_out_in_every_notation() {
    let place = Place::new();
    place.ok("put", &["hex:00ff0a", "x\\0y\\n"]);
    assert_eq!(place.ok("get", &["\\0\\xff\\n"]), "x\\0y\\n\n");
    assert_eq!(place.ok("get", &["00ff0a", "--hex"]), "7800790a\n");
    assert_eq!(place.run("get", &["hex:00ff0a", "--raw"]).out, b"x\0y\n");
    assert_eq!(place.ok("scan", &NONE), "\\0\\xff\\n\n");
    assert_eq!(place.ok("scan", &["--values", "--hex"]), "00ff0a\t7800790a\n");
    let raw = OsStr::from_bytes(b"raw\xfe");
    place.ok("put", &[raw, OsStr::new("")]);
    assert_eq!(place.ok("get", &["raw\\xfe"]), "\n");
    place.ok("put", &["", "empty key"]);
    assert_eq!(place.ok("get", &[""]), "empty key\n");
}

#[test]
fn a_value_comes_from_standard_input_when_none_is_given() {
    let place = Place::new();
    let value: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    assert_eq!(place.run_with_input("put", &["large"], &value).code, 0);
    assert_eq!(place.run("get", &["large", "--raw"]).out, value);
    assert_eq!(place.run_with_input("put", &["61", "--hex"], b"00ff\n").code, 0);
    assert_eq!(place.ok("get", &["a"]), "\\0\\xff\n");
}

#[test]
fn a_scan_keeps_to_its_bounds_in_both_directions() {
    let place = Place::new();
    let input = place.file("in.tsv", "a\t1\nb\t2\nba\t3\nb\\xff\t4\nc\t5\n");
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("scan", &["--from", "b", "--to", "c"]), "b\nba\nb\\xff\n");
    assert_eq!(place.ok("scan", &["--prefix", "b", "--reverse"]), "b\\xff\nba\nb\n");
    assert_eq!(place.ok("scan", &["--reverse", "--limit", "2", "--values"]), "c\t5\nb\\xff\t4\n");
    assert_eq!(place.ok("scan", &["--from", "c", "--to", "b"]), "");
    assert_eq!(place.ok("scan", &["--limit", "0"]), "");
    assert_eq!(place.ok("scan", &["--from", "62", "--to", "6261", "--hex"]), "62\n");
    assert_eq!(place.ok("count", &["--prefix", "b"]), "3\n");
    assert_eq!(place.ok("count", &["--from", "ba"]), "3\n");
}

#[test]
fn trees_are_apart_and_listed() {
    let place = Place::new();
    place.ok("put", &["k", "1"]);
    place.ok("put", &["k", "2", "--tree", "other"]);
    assert_eq!(place.ok("get", &["k"]), "1\n");
    assert_eq!(place.ok("get", &["k", "--tree", "other"]), "2\n");
    assert_eq!(place.ok("trees", &NONE), "main\nother\n");
    let message = place.fails(1, "get", &["k", "--tree", "none"]);
    assert!(message.contains("main, other"), "{message}");
}

#[test]
fn what_is_wrong_decides_the_exit_code() {
    let place = Place::new();
    for command in ["get", "del"] {
        assert!(place.fails(3, command, &["k"]).contains("no database"));
    }
    for command in ["scan", "count", "trees", "stat", "check", "dump"] {
        assert!(place.fails(3, command, &NONE).contains("no database"));
    }
    assert!(!place.path("db").exists());
    place.fails(2, "put", &["k\\q", "v"]);
    place.fails(2, "put", &["k", "v", "--hex"]);
    place.fails(2, "nonsense", &NONE);
    let large = "k".repeat(20_000);
    assert!(place.fails(2, "put", &[large.as_str(), "v"]).contains("20000 bytes"));
    assert!(!place.path("db").exists(), "a mistake leaves no database");
}

#[test]
fn commands_that_read_change_no_byte() {
    let place = Place::new();
    let input = place.file("in.tsv", "a\t1\nb\t2\n");
    place.ok("load", &[input.as_os_str()]);
    let before = files_below(&place.path("db"));
    place.ok("get", &["a"]);
    place.ok("scan", &["--values"]);
    for command in ["count", "trees", "stat", "check", "dump"] {
        place.ok(command, &NONE);
    }
    assert!(before == files_below(&place.path("db")), "a read command has written");
}

#[test]
fn statistics_are_text_or_one_json_object() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    assert!(place.ok("stat", &NONE).lines().count() > 1);
    let json: serde_json::Value =
        serde_json::from_str(&place.ok("stat", &["--json"])).expect("JSON");
    assert!(json.is_object());
    assert!(json["log"]["file_bytes"].as_u64() > Some(0), "{json}");
    assert_eq!(json["snapshots"]["count"], 0);
    assert!(place.ok("stat", &NONE).lines().any(|line| line.starts_with("log ")));
}

#[test]
fn every_durability_leaves_the_same_records() {
    let place = Place::new();
    let input = place.file("in.tsv", "a\t1\nb\t2\n");
    let mut want = String::from("a\t1\nb\t2\n");
    place.ok("put", &["a", "old"]);
    for level in ["none", "buffered", "sync"] {
        let durability = ["--durability", level];
        place.ok("put", &[&[level, "v"][..], &durability].concat());
        place.ok("put", &[&["gone", "v"][..], &durability].concat());
        place.ok("del", &[&["gone"][..], &durability].concat());
        let options = durability.map(OsStr::new);
        place.ok("load", &[input.as_os_str(), options[0], options[1]]);
        want += &format!("{level}\tv\n");
        let mut lines: Vec<&str> = want.lines().collect();
        lines.sort_unstable();
        assert_eq!(place.ok("scan", &["--values"]), lines.join("\n") + "\n");
    }
    place.fails(2, "put", &["k", "v", "--durability", "often"]);
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|n| format!("key number {n:08}\tv\n")).collect();
    let input = place.file("in.tsv", lines);
    place.ok("load", &[input.as_os_str()]);
    for command in ["scan", "dump"] {
        let mut child = program()
            .arg(command)
            .arg(place.path("db"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut first = [0; 10];
        child.stdout.take().expect("piped").read_exact(&mut first).expect("a line at least");
        let ended = child.wait_with_output().expect("ends");
        assert_eq!(ended.status.code(), Some(0), "{command}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    }
}
