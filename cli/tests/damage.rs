//! Damaged files: `dump --keep-going`, and what `check` says.

mod common;
use common::{NONE, Place};
use std::collections::BTreeSet;
use std::fs;

const BLOCK: usize = 4096;

/// A database of small pages: a tree of some leaves, one large value, and another tree.
fn filled() -> Place {
    let place = Place::new();
    let mut lines: String =
        (0..300).map(|n| format!("key {n:04}\tvalue {n} {}\n", "x".repeat(100))).collect();
    lines += &format!("large\t{}\n", "y".repeat(20_000));
    let input = place.file("in.tsv", lines);
    place.ok("load", &[input.to_str().expect("UTF-8"), "--page-size", "4K"]);
    place.ok("put", &["k", "v", "--tree", "other"]);
    place
}

/// Keys and values that a dump says, tree by tree.
fn dumped(text: &str) -> BTreeSet<(String, String, String)> {
    let mut records = BTreeSet::new();
    let mut tree = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("database=") {
            tree = name.to_owned();
        } else if let Some(key) = line.strip_prefix(' ') {
            let value = lines.next().expect("a value behind each key").trim_start();
            records.insert((tree.clone(), key.to_owned(), value.to_owned()));
        }
    }
    records
}

#[test]
fn a_dump_that_keeps_going_writes_all_that_is_not_on_a_damaged_block() {
    let place = filled();
    let data = place.path("db/data");
    let whole = fs::read(&data).expect("there");
    let all = dumped(&place.ok("dump", &["--keep-going", "--print"]));
    assert_eq!(all, dumped(&place.ok("dump", &["--print"])));
    assert_eq!(all.len(), 302);
    let (mut with_gaps, mut whole_trees, mut lost_values, mut lost_names) = (0, 0, 0, 0);
    for block in 32..whole.len() / BLOCK {
        let mut bytes = whole.clone();
        bytes[block * BLOCK + 100] ^= 1;
        fs::write(&data, &bytes).expect("room");
        let ran = place.run("dump", &["--keep-going", "--print"]);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        let left = dumped(ran.text());
        let gaps = ran.err.lines().filter(|line| line.starts_with("gap in ")).count();
        match (ran.code, gaps) {
            (0, 0) => {
                whole_trees += 1;
                assert_eq!(left, all);
            }
            // The page map or the manifest: it does not open.
            (3, 0) => assert!(left.is_empty() && ran.err.contains("damaged"), "{}", ran.err),
            (3, 1) => {
                with_gaps += 1;
                assert!(ran.err.contains("latchkv: 1 gap: "), "{}", ran.err);
                assert!(ran.text().ends_with("DATA=END\n"));
                lost_values += usize::from(ran.err.contains("the value of key \"large\" is lost"));
                if ran.err.contains("gap in the catalog") {
                    lost_names += 1;
                    assert_eq!(left.len(), all.len());
                    assert!(left.iter().all(|(tree, ..)| tree.starts_with("latchkv.lost.")));
                    assert_eq!(ran.err.matches("has lost its name").count(), 2, "{}", ran.err);
                } else {
                    assert!(left.len() < all.len() && left.is_subset(&all), "{}", ran.err);
                    assert!(ran.err.contains(&format!(": {} of 302 records", left.len())));
                }
            }
            other => panic!("block {block}: {other:?}: {}", ran.err),
        }
    }
    assert!(with_gaps > 10 && lost_values > 1 && lost_names == 1, "{with_gaps} {whole_trees}");
    fs::write(&data, &whole).expect("room");
    assert_eq!(place.run("check", &NONE).code, 0);
}

#[test]
fn a_dump_file_with_gaps_is_written_and_can_be_loaded() {
    let place = filled();
    let data = place.path("db/data");
    let mut bytes = fs::read(&data).expect("there");
    // A block of records of the tree, found by what stands in it.
    let needle = b"value 150 ";
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("on a page");
    bytes[at] ^= 1;
    fs::write(&data, &bytes).expect("room");

    let file = place.path("out.dump");
    let output = ["-o", file.to_str().expect("UTF-8")];
    let message = place.fails(3, "dump", &output);
    assert!(message.contains("dump --keep-going"), "{message}");
    assert!(!file.exists(), "without the option: all or nothing");
    let message = place.fails(3, "dump", &[&output[..], &["--keep-going", "-q"]].concat());
    let gap = message.lines().find(|line| line.starts_with("gap in tree \"main\", page "));
    let gap = gap.unwrap_or_else(|| panic!("{message}"));
    assert!(gap.contains("keys from \"") && gap.contains(" are lost: damaged "), "{gap}");

    let ran = place.run_on("new", "load", &[file.to_str().expect("UTF-8")], b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let keys = place.run_on("new", "scan", &NONE, b"");
    assert!(!keys.text().contains("key 0150\n") && keys.text().contains("key 0000\n"));
    assert!(keys.text().contains("key 0299\n") && keys.text().contains("large\n"));
    let other = place.run_on("new", "get", &["k", "--tree", "other"], b"");
    assert_eq!(other.text(), "v\n");
    // The other tree is whole: nothing of it is lost.
    place.ok("dump", &["--keep-going", "--tree", "other"]);
    assert!(place.fails(1, "dump", &["--keep-going", "--tree", "none"]).contains("main, other"));

    let check = place.run("check", &NONE);
    assert_eq!(check.code, 3);
    assert!(
        check.err.contains("1 problem: ") || check.err.contains("2 problems: "),
        "{}",
        check.err
    );
    assert!(check.err.contains("--keep-going"), "{}", check.err);
}

#[test]
fn check_warns_of_a_damaged_spare_superblock_and_ends_with_zero() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let data = place.path("db/data");
    let whole = fs::read(&data).expect("there");
    assert!(!place.ok("check", &NONE).contains("warning"));
    for slot in [0, 16] {
        let mut bytes = whole.clone();
        bytes[slot * BLOCK..][..BLOCK].fill(0);
        fs::write(&data, &bytes).expect("room");
        let text = place.ok("check", &NONE);
        let warning = format!("warning: damaged {}, offset {}", data.display(), slot * BLOCK);
        assert!(text.starts_with(&warning), "{text}");
        assert!(text.ends_with("no problems in 2 pages and 1 record\n"), "{text}");
    }
    place.ok("put", &["k", "w"]);
    assert!(!place.ok("check", &NONE).contains("warning"), "a checkpoint mends it");
}
