//! The format on disk stays readable: a small database, kept as text in `golden/`, opens on every machine and
//! holds what it held when it was made (on x86_64).
//!
//! ```text
//!   # comment
//!   bytes <length of `data`>
//!   <offset> <32 bytes>          hexadecimal; rows of zeros are left out
//! ```
//!
//! A new version of the format gets a new file beside the old ones, made by
//! `LATCHKV_TEST_WRITE_GOLDEN=<file> cargo test -p latchkv --test golden`. An old one is never made again.

mod common;

use common::{Model, assert_same, assert_whole, data_file, place, tiny};
use latchkv::Db;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const ROW: usize = 32;
const V1: &str = include_str!("golden/v1.txt");

/// What the golden database holds: every kind of record there is.
fn content() -> BTreeMap<&'static str, Model> {
    let mut numbers = Model::new();
    for i in 0..120u32 {
        numbers.insert(i.to_be_bytes().to_vec(), format!("number {i}").into_bytes());
    }
    let mut odd = Model::new();
    odd.insert(Vec::new(), b"under the empty key".to_vec());
    odd.insert(b"empty value".to_vec(), Vec::new());
    odd.insert(vec![0xff; 512], b"under the greatest key".to_vec());
    odd.insert(b"large".to_vec(), (0..3000u32).flat_map(|i| (i as u16).to_le_bytes()).collect());
    BTreeMap::from([("empty", Model::new()), ("numbers", numbers), ("odd ünïcode", odd)])
}

/// Makes the golden database; some of it twice, so that there are pages of several epochs.
fn make() -> Vec<u8> {
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    for (name, model) in content() {
        let tree = db.tree(name).expect("room");
        for (key, value) in &model {
            tree.put(key, value).expect("room");
        }
        tree.put(b"gone", b"gone").expect("room");
        db.checkpoint().expect("room");
        assert!(tree.delete(b"gone").expect("room"));
    }
    db.close().expect("room");
    fs::read(data_file(&place.path)).expect("there")
}

fn to_text(bytes: &[u8]) -> String {
    let mut text =
        format!("# A latchkv database, format version 1, made on {}.\n", std::env::consts::ARCH);
    writeln!(text, "bytes {}", bytes.len()).expect("strings take everything");
    for (offset, row) in (0..).step_by(ROW).zip(bytes.chunks(ROW)) {
        if row.iter().any(|&byte| byte != 0) {
            let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{offset:x} {hex}").expect("strings take everything");
        }
    }
    text
}

fn from_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (first, second) = line.split_once(' ').expect("two words a line");
        if first == "bytes" {
            bytes.resize(second.parse().expect("a number"), 0);
            continue;
        }
        let offset = usize::from_str_radix(first, 16).expect("hexadecimal");
        for (at, digits) in second.as_bytes().chunks(2).enumerate() {
            let digits = std::str::from_utf8(digits).expect("ascii");
            bytes[offset + at] = u8::from_str_radix(digits, 16).expect("hexadecimal");
        }
    }
    bytes
}

fn assert_golden(db: &Db) {
    let content = content();
    assert!(db.trees().expect("readable").iter().eq(content.keys()));
    for (name, model) in &content {
        assert_same(&db.open_tree(name).expect("readable").expect("there"), model);
    }
    assert_whole(db);
}

#[test]
fn format_version_1_opens_and_takes_changes() {
    if let Ok(file) = std::env::var("LATCHKV_TEST_WRITE_GOLDEN") {
        fs::write(file, to_text(&make())).expect("room");
        return;
    }
    let place = place();
    fs::create_dir(&place.path).expect("room");
    let bytes = from_text(V1);
    fs::write(data_file(&place.path), &bytes).expect("room");
    let db = tiny(4096).open_read_only(&place.path).expect("format version 1");
    assert_golden(&db);
    drop(db);
    assert!(fs::read(data_file(&place.path)).expect("there") == bytes, "reading wrote nothing");
    let db = tiny(4096).open_existing(&place.path).expect("format version 1");
    assert_golden(&db);
    let tree = db.tree("numbers").expect("there");
    tree.put(b"new", b"record").expect("room");
    drop(tree);
    db.close().expect("room");
    let db = tiny(4096).open_existing(&place.path).expect("closed in order");
    let tree = db.tree("numbers").expect("there");
    assert_eq!(tree.get(b"new").expect("readable").as_deref(), Some(&b"record"[..]));
    assert!(tree.delete(b"new").expect("room"));
    drop(tree);
    assert_golden(&db);
}

#[test]
fn the_golden_text_stands_for_the_bytes() {
    let bytes = make();
    assert!(from_text(&to_text(&bytes)) == bytes);
    assert!(bytes.len() >= from_text(V1).len() / 2, "the same content takes about the same room");
}
