//! `load` interrupted at any point: the next goes on there, and the result is that of one load.

mod common;
use common::{NONE, Place, kill, program, scaled};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

const ROWS: usize = 2_000;

/// Not in order of keys, so that pieces of the input overlap, and each tenth key twice.
fn rows() -> Vec<(String, String)> {
    let key =
        |n: usize| format!("{:05}", n * 7919 % ROWS / 10 * 10 + n % 10 * usize::from(n % 10 > 1));
    (0..ROWS).map(|n| (key(n), format!("value number {n}"))).collect()
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The rows in a format.
fn input(place: &Place, format: &str) -> PathBuf {
    let lines = |line: fn(&str, &str) -> String| -> String {
        rows().iter().map(|(key, value)| line(key, value)).collect()
    };
    let text = match format {
        "tsv" => lines(|key, value| format!("{key}\t{value}\n")),
        "csv" => lines(|key, value| format!("{key},{value}\n")),
        "jsonl" => lines(|key, value| format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}\n")),
        "dump" => {
            let head = |name| {
                format!("VERSION=3\nformat=bytevalue\ndatabase={name}\ntype=btree\nHEADER=END\n")
            };
            let data = lines(|key, value| format!(" {}\n {}\n", hex(key), hex(value)));
            let end = "DATA=END\n";
            format!("{}{data}{end}{}{data}{end}", head("one"), head("two"))
        }
        _ => {
            let folder = place.path("in");
            fs::create_dir(&folder).expect("create");
            for (key, value) in rows().iter().take(ROWS / 4) {
                fs::write(folder.join(key), value).expect("write");
            }
            return folder;
        }
    };
    place.file(&format!("in.{format}"), text)
}

/// Everything in a database, tree by tree.
fn contents(place: &Place, db: &str) -> String {
    let trees = place.run_on(db, "trees", &NONE, b"");
    let scan = |tree: &str| {
        let ran = place.run_on(db, "scan", &["--tree", tree, "--values"], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        format!("tree {tree}\n{}", ran.text())
    };
    trees.text().lines().map(scan).collect()
}

/// Starts a load of small pieces in small, durable batches.
fn start(place: &Place, input: &Path, batch: &str) -> Child {
    program()
        .args(["-q", "load"])
        .arg(place.path("db"))
        .arg(input)
        .args(["--sort-memory", "20K", "--durability", "sync", "--batch", batch])
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

/// Interrupts a load in its middle: when its progress is in the log, and it has far to go.
fn interrupted(place: &Place, input: &Path) {
    let log = place.path("db/log");
    for _ in 0..50 {
        let mut child = start(place, input, "1");
        let written = || fs::read(&log).is_ok_and(|log| has(&log, b"\"written\":7"));
        while !written() && child.try_wait().expect("it can be asked").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        kill(&mut child, &place.path("db"));
        place.ok("recover", &NONE);
        if place.ok("trees", &NONE).contains("latchkv.load") {
            return;
        }
        // It was faster than this test. Begin anew.
        fs::remove_dir_all(place.path("db")).expect("remove");
    }
    panic!("no load could be interrupted");
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn arguments<'a>(input: &'a Path, more: &[&'a str]) -> Vec<&'a OsStr> {
    [input.as_os_str()].into_iter().chain(more.iter().map(|&word| OsStr::new(word))).collect()
}

#[test]
fn a_load_killed_again_and_again_gives_what_one_load_gives_in_every_format() {
    for format in ["tsv", "csv", "jsonl", "dump", "dir"] {
        let place = Place::new();
        let input = input(&place, format);
        let ran = place.run_on("whole", "load", &[input.as_os_str()], b"");
        assert_eq!(ran.code, 0, "{}", ran.err);
        let whole = contents(&place, "whole");
        // Longer and longer, until one load comes to its end.
        let mut delay = Duration::from_millis(4);
        let mut kills = 0;
        let ended = loop {
            let mut child = start(&place, &input, "40");
            thread::sleep(delay);
            if let Some(status) = child.try_wait().expect("it can be asked") {
                break status;
            }
            kill(&mut child, &place.path("db"));
            kills += 1;
            delay = delay.mul_f64(1.0 + 0.3 * 100.0 / scaled(100) as f64);
        };
        assert!(ended.success(), "{format}, after {kills} kills");
        assert!(contents(&place, "db") == whole, "{format}, after {kills} kills");
        place.ok("check", &NONE);
    }
}

#[test]
fn what_is_in_is_not_loaded_again_and_all_else_is() {
    let place = Place::new();
    let input = input(&place, "tsv");
    interrupted(&place, &input);
    let before = place.ok("scan", &["--values"]);
    let count = before.lines().count();
    assert!(count > 0, "something is in");
    // Both were loaded, so they are somebody's by now.
    let first = before.lines().next().expect("some").split('\t').next().expect("a key");
    let last = before.lines().last().expect("some").split('\t').next().expect("a key");
    place.ok("put", &[first, "changed meanwhile"]);
    let ran = place.run("load", &arguments(&input, &["--batch", "500"]));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("was interrupted: going on behind "), "{}", ran.err);
    assert!(ran.err.contains(" of 2,000 records"), "{}", ran.err);
    let told = ran.err.split_once("loaded ").expect("it says what it did").1;
    let more = told.split_once(" more, 2,000 records (").expect("and that it is a rest").0;
    assert!(more.replace(',', "").parse::<usize>().expect("a number") < ROWS, "{}", ran.err);
    assert_eq!(place.ok("trees", &NONE), "main\n");
    let mut want: std::collections::BTreeMap<String, String> = rows().into_iter().collect();
    let got = place.ok("scan", &["--values"]);
    let got: Vec<(&str, &str)> = got.lines().filter_map(|line| line.split_once('\t')).collect();
    // A later row of the input may have the key again, and counts.
    if got[0].1 == "changed meanwhile" {
        want.insert(first.to_owned(), "changed meanwhile".into());
    }
    let want: Vec<(&str, &str)> = want.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert!(got == want, "{count} were in, {first} to {last}");
}

#[test]
fn another_input_is_refused_until_the_interrupted_load_is_given_up() {
    let place = Place::new();
    let input = input(&place, "tsv");
    interrupted(&place, &input);
    let before = contents(&place, "db");
    let other = place.file("other.tsv", "a\t1\n");
    let message = place.fails(3, "load", &[other.as_os_str()]);
    for part in
        ["was interrupted behind ", "in.tsv", "--restart", "other.tsv does not hold the same"]
    {
        assert!(message.contains(part), "{message}");
    }
    // The same name, one byte changed.
    let text = fs::read_to_string(&input).expect("there");
    fs::write(&input, text.replacen("number 1999\n", "number 1998\n", 1)).expect("room");
    let message = place.fails(3, "load", &[input.as_os_str()]);
    assert!(message.contains("in.tsv has changed since"), "{message}");
    // The same records for another tree.
    fs::write(&input, text).expect("room");
    place.fails(3, "load", &arguments(&input, &["--tree", "another"]));
    assert!(contents(&place, "db") == before, "a refusal writes nothing");
    // A dump has what was loaded, and not how far the load was.
    assert!(!place.ok("dump", &NONE).contains("latchkv.load"));
    place.fails(2, "put", &["k", "v", "--tree", "latchkv.load"]);
    place.ok("load", &arguments(&other, &["--restart"]));
    assert_eq!(place.ok("trees", &NONE), "main\n");
    assert_eq!(place.ok("get", &["a"]), "1\n");
    // Nothing is left of it that could be gone on with.
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("count", &["--from", "0", "--to", ":"]), format!("{}\n", distinct()));
}

/// A load went on in a tree that had been dropped, cleared or renamed, and ended with 0 and without the records of before.
#[test]
fn a_load_goes_on_only_in_the_tree_that_it_wrote_to_with_what_it_wrote() {
    type Meanwhile = fn(&Place, first: &str);
    let cases: [(Meanwhile, &str); 5] = [
        (|place, _| drop(place.ok("tree drop", &["main"])), "tree \"main\" was dropped or renamed"),
        (|place, _| drop(place.ok("tree rename", &["main", "x"])), "was dropped or renamed since"),
        (
            |place, _| {
                place.ok("tree drop", &["main"]);
                place.ok("tree create", &["main"]);
            },
            "tree \"main\" is another one than then",
        ),
        (|place, _| drop(place.ok("tree clear", &["main"])), "tree \"main\" was cleared since"),
        (
            |place, first| {
                place.ok("tree clear", &["main"]);
                place.ok("put", &[first, "put anew"]);
            },
            "tree \"main\" was cleared since",
        ),
    ];
    for (meanwhile, why) in cases {
        let place = Place::new();
        let input = input(&place, "tsv");
        interrupted(&place, &input);
        let keys = place.ok("scan", &NONE);
        meanwhile(&place, keys.lines().next().expect("something is in"));
        let before = contents(&place, "db");
        let message = place.fails(3, "load", &[input.as_os_str()]);
        assert!(message.contains(why) && message.contains("--restart"), "{message}");
        assert!(contents(&place, "db") == before, "a refusal writes nothing");
        place.ok("load", &arguments(&input, &["--restart"]));
        assert_eq!(place.ok("count", &NONE), format!("{}\n", distinct()), "{why}");
        assert!(!place.ok("trees", &NONE).contains("latchkv.load"));
    }
}

fn distinct() -> usize {
    rows().into_iter().collect::<std::collections::BTreeMap<String, String>>().len()
}

/// Sends what Ctrl-C sends, and gives the code and the message.
fn interrupt(child: Child) -> (Option<i32>, String) {
    let pid = Pid::from_child(&child);
    // It may have ended by itself.
    let _ = kill_process(pid, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The same load as that of [`start`], with its messages.
fn start_talking(place: &Place, input: &Path) -> Child {
    program()
        .arg("load")
        .arg(place.path("db"))
        .arg(input)
        .args(["--sort-memory", "20K", "--durability", "sync", "--batch", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// The database was left as after a kill, so that commands that read refused it.
#[test]
fn a_load_that_ctrl_c_interrupts_closes_the_database_and_goes_on_later() {
    let place = Place::new();
    let input = input(&place, "tsv");
    let log = place.path("db/log");
    let ended = (0..50).find_map(|_| {
        let mut child = start_talking(&place, &input);
        let written = || fs::read(&log).is_ok_and(|log| has(&log, b"\"written\":7"));
        while !written() && child.try_wait().expect("it can be asked").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let (code, message) = interrupt(child);
        if code == Some(130) {
            return Some(message);
        }
        // It was faster than this test. Begin anew.
        assert_eq!(code, Some(0), "{message}");
        fs::remove_dir_all(place.path("db")).expect("remove");
        None
    });
    let message = ended.expect("a load can be interrupted");
    let says = " of 2,000 records are in; the same command again goes on behind what is in";
    assert!(message.contains("interrupted: ") && message.contains(says), "{message}");
    assert!(place.ok("count", &NONE).trim().parse::<usize>().expect("a number") > 0);
    let ran = place.run("load", &[input.as_os_str()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("going on behind"), "{}", ran.err);
    assert_eq!(place.ok("count", &NONE), format!("{}\n", distinct()));
}

#[test]
fn ctrl_c_before_anything_is_in_takes_the_new_database_away_again() {
    let place = Place::new();
    let rows: String = (0..200_000).map(|n| format!("{n:08}\tvalue number {n}\n")).collect();
    let input = place.file("many.tsv", rows);
    let ended = (0..50).find_map(|_| {
        let mut child = start_talking(&place, &input);
        let is_there = || place.path("db").exists();
        while !is_there() && child.try_wait().expect("it can be asked").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let (code, message) = interrupt(child);
        if message.contains("nothing was loaded") {
            assert_eq!(code, Some(130), "{message}");
            return Some(message);
        }
        // The first records were in before the signal came. Begin anew.
        fs::remove_dir_all(place.path("db")).expect("remove");
        None
    });
    let message = ended.expect("a load can be interrupted early");
    assert!(message.contains("the same command again loads all of it"), "{message}");
    assert!(!place.path("db").exists());
}

#[test]
fn standard_input_goes_on_when_the_same_comes_again() {
    let place = Place::new();
    let input = input(&place, "tsv");
    interrupted(&place, &input);
    let text = fs::read(&input).expect("there");
    let from_stdin: Vec<OsString> = ["-", "--format", "tsv"].map(OsString::from).into();
    let ran = place.run_on("db", "load", &from_stdin, &text);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("going on behind"), "{}", ran.err);
    assert_eq!(place.ok("count", &NONE), format!("{}\n", distinct()));
}

#[test]
fn input_that_fits_into_memory_is_all_or_nothing_in_a_tree_that_was_empty() {
    let place = Place::new();
    let input = input(&place, "tsv");
    for kill_number in 0..scaled(8) {
        let mut child = program()
            .args(["-q", "load"])
            .arg(place.path("db"))
            .arg(&input)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        thread::sleep(Duration::from_millis(5 + 7 * kill_number as u64));
        kill(&mut child, &place.path("db"));
        let recovered = place.run("recover", &NONE);
        if recovered.code == 3 && recovered.err.contains("no database") {
            continue;
        }
        assert_eq!(recovered.code, 0, "{}", recovered.err);
        place.ok("check", &NONE);
        let count = place.run("count", &NONE);
        let is_absent = count.code == 1 || count.text() == "0\n";
        assert!(is_absent || count.text() == format!("{}\n", distinct()), "{}", count.text());
        if !is_absent {
            fs::remove_dir_all(place.path("db")).expect("remove");
        }
    }
}
