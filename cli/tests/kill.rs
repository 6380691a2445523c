//! `load` killed at any time: the database opens, is sound, and has all or nothing of a new tree.

mod common;
use common::{NONE, Place, program};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

const LINES: usize = 8_000;
const KILLS: u32 = 8;

fn lines() -> String {
    // Not in order of keys, so that pieces of the input overlap.
    (0..LINES).map(|n| format!("{:06}\tvalue number {n}\n", n * 7919 % LINES)).collect()
}

/// Starts a load that writes many small pieces, and kills it after `delay`.
fn load_and_kill(db: &Path, input: &Path, delay: Duration) {
    let mut child = program()
        .args(["-q", "load"])
        .args([db, input])
        .args(["--sort-memory", "32K"])
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    thread::sleep(delay);
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().expect("ends");
}

fn load_time(place: &Place, input: &Path) -> Duration {
    let started = Instant::now();
    let ran =
        place.run_on("whole", "load", &[input.as_os_str(), "--sort-memory=32K".as_ref()], b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    started.elapsed()
}

#[test]
fn a_new_tree_has_all_or_nothing_after_a_kill() {
    let place = Place::new();
    let input = place.file("in.tsv", lines());
    let whole = load_time(&place, &input);
    for kill in 0..KILLS {
        load_and_kill(&place.path("db"), &input, whole * kill / (KILLS - 1));
        let check = place.run("check", &NONE);
        if check.code == 3 && check.err.contains("no database") {
            continue; // Killed before there was one.
        }
        assert_eq!(check.code, 0, "{}{}", check.text(), check.err);
        let count = place.run("count", &NONE);
        let all = count.code == 0 && count.text() == format!("{LINES}\n");
        assert!(all || count.code == 1, "kill {kill}: {}{}", count.text(), count.err);
        if all {
            std::fs::remove_dir_all(place.path("db")).expect("remove");
        }
    }
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("count", &NONE), format!("{LINES}\n"));
    assert_eq!(place.ok("trees", &NONE), "main\n");
}

#[test]
fn a_tree_with_records_keeps_them_after_a_kill_and_has_only_whole_new_ones() {
    let place = Place::new();
    let input = place.file("in.tsv", lines());
    let whole = load_time(&place, &input);
    let mut expected: Vec<String> = lines().lines().map(String::from).collect();
    expected.push("before\tstays".into());
    expected.sort();
    place.ok("put", &["before", "stays"]);
    for kill in 0..KILLS {
        load_and_kill(&place.path("db"), &input, whole * kill / (KILLS - 1));
        place.ok("check", &NONE);
        let scan = place.ok("scan", &["--values"]);
        assert!(scan.lines().any(|line| line == "before\tstays"), "kill {kill}");
        for line in scan.lines() {
            assert!(expected.binary_search_by(|known| known.as_str().cmp(line)).is_ok(), "{line}");
        }
    }
    place.ok("load", &[input.as_os_str()]);
    assert_eq!(place.ok("count", &NONE), format!("{}\n", LINES + 1));
}
