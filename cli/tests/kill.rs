//! Commits with many threads, killed at any time, against a record of acknowledgements outside of the database.
//!
//! Each round starts the program, which commits and writes a line to a pipe for each commit that was acknowledged,
//! kills it after some of them, and looks for every commit that was ever acknowledged in the same database.
//! `LATCHKV_TEST_SCALE` (percent) makes it longer.

mod common;
use common::{NONE, Place, kill, program, scaled};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const THREADS: u32 = 6;

/// Runs and threads with the number of their commits.
type Commits = BTreeMap<(u32, u32), u64>;

/// Commits and says so, until `lines` lines were read and then, without reading any more, is killed. Gives what was
/// acknowledged in all.
fn commit_and_kill(place: &Place, run: u32, durability: &str, lines: usize) -> Commits {
    let db = place.path("db");
    let mut child = program()
        .arg("commit-until-killed")
        .arg(&db)
        .args(["--run", &run.to_string(), "--threads", &THREADS.to_string()])
        .args(["--durability", durability])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut record = Commits::new();
    let mut note = |line: &str| {
        let numbers: Vec<u64> =
            line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [of_run, thread, number] = numbers[..] else { panic!("{line:?}") };
        assert_eq!(of_run, u64::from(run));
        let commits = record.entry((run, thread as u32)).or_default();
        assert_eq!(*commits, number, "a thread acknowledges its commits in order");
        *commits = number + 1;
    };
    let mut line = String::new();
    for _ in 0..lines {
        line.clear();
        output.read_line(&mut line).expect("a pipe");
        note(line.strip_suffix('\n').expect("it goes on until killed"));
    }
    kill(&mut child, &db);
    // What it had written before: the kernel keeps that.
    output.lines().map_while(Result::ok).for_each(|line| note(&line));
    record
}

/// What is in the database: commits by run and thread, each found to be whole and none missing before another.
fn found(place: &Place) -> Commits {
    let mut keys: BTreeMap<(u32, u32), BTreeMap<u64, u64>> = BTreeMap::new();
    for key in place.ok("scan", &["--tree", "commits"]).lines() {
        let numbers: Vec<u64> =
            key.split('.').map(|word| word.parse().expect("a number")).collect();
        let [run, thread, number, _part] = numbers[..] else { panic!("{key:?}") };
        *keys.entry((run as u32, thread as u32)).or_default().entry(number).or_default() += 1;
    }
    let mut found = Commits::new();
    for (of, commits) in keys {
        for (expected, (&number, &parts)) in (0..).zip(&commits) {
            assert_eq!(number, expected, "a commit of {of:?} is missing");
            assert_eq!(parts, 1 + number % 3, "commit {number} of {of:?} is not whole");
        }
        found.insert(of, commits.len() as u64);
    }
    found
}

fn rounds(durability: &str, rounds: usize) {
    let place = Place::new();
    place.ok("put", &["before", "stays"]);
    let mut acknowledged = Commits::new();
    for round in 0..rounds {
        // A small page cache, so that pages are written and read meanwhile, and few and many commits.
        let lines = [40, 1, 400, 150][round % 4];
        acknowledged.extend(commit_and_kill(&place, round as u32, durability, lines));
        // Now and then another crash follows before anything was done.
        if round % 3 != 2 {
            assert!(place.run("count", &NONE).err.contains("was not closed"));
            place.ok("recover", &NONE);
        } else {
            continue;
        }
        let found = found(&place);
        for (of, &count) in &acknowledged {
            let there = found.get(of).copied().unwrap_or(0);
            assert!(there >= count, "{of:?}: {count} acknowledged, {there} found");
            assert!(there <= count + 1, "{of:?}: {there} found, the last acknowledged was {count}");
        }
        assert_eq!(place.ok("get", &["before"]), "stays\n");
        place.ok("check", &NONE);
    }
}

#[test]
fn every_commit_acknowledged_as_durable_is_there_after_kills() {
    rounds("sync", scaled(5));
}

#[test]
fn every_commit_given_to_the_operating_system_is_there_after_kills() {
    rounds("buffered", scaled(2));
}

#[test]
fn what_was_acknowledged_for_nothing_is_lost_at_the_end_only() {
    let place = Place::new();
    place.ok("put", &["before", "stays"]);
    commit_and_kill(&place, 0, "none", 200);
    place.run("recover", &NONE);
    if place.ok("trees", &NONE).contains("commits") {
        // Says that commits are whole and none is missing before another.
        found(&place);
    }
    assert_eq!(place.ok("get", &["before"]), "stays\n");
    place.ok("check", &NONE);
}

#[test]
fn commands_that_read_name_the_one_that_recovers() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    commit_and_kill(&place, 0, "sync", 10);
    let before = common::files_below(&place.path("db"));
    for command in ["count", "trees", "stat", "check", "dump", "scan"] {
        let message = place.fails(3, command, &NONE);
        let want = format!("`latchkv recover {}`", place.path("db").display());
        assert!(message.contains("was not closed") && message.contains(&want), "{message}");
    }
    assert!(before == common::files_below(&place.path("db")), "they write nothing");
    let ran = place.run("recover", &NONE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("of its log applied"), "{}", ran.err);
    assert!(place.run("recover", &NONE).err.contains("there is nothing to apply"));
    assert_eq!(place.ok("get", &["k"]), "v\n");
    // A command that writes needs no other before it.
    commit_and_kill(&place, 1, "sync", 10);
    let ran = place.run("put", &["k", "w"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("was not closed: "), "{}", ran.err);
    assert_eq!(place.ok("get", &["k"]), "w\n");
}
