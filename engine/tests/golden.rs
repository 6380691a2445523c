//! The format on disk stays readable: small databases, kept as text in `golden/`, open on every machine and hold what
//! they held when they were made (on x86_64).
//!
//! ```text
//!   # comment
//!   file <name>                  data, unless it is said
//!   bytes <its length>
//!   <offset> <32 bytes>          hexadecimal; rows of zeros are left out
//!   <offset> <32 bytes> <count>  the same row again and again
//! ```
//!
//! That of version 1 was closed and has no log. That of version 2 was not closed: most of it is in the log alone, in
//! records of every kind.
//!
//! A new version of the format gets a new file beside the old ones, made by
//! `LATCHKV_TEST_WRITE_GOLDEN=<file> cargo test -p latchkv --test golden`. An old one is never made again.

mod common;

use common::{Model, assert_same, assert_whole, place, tiny};
use latchkv::{Db, Durability, Error, OpenError, WriteBatch};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const ROW: usize = 32;
const V1: &str = include_str!("golden/v1.txt");
const V2: &str = include_str!("golden/v2.txt");

/// Bytes of files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// What the golden databases hold: every kind of record there is.
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

/// Too large for one record of the log.
fn in_parts() -> Model {
    Model::from([(b"in parts".to_vec(), vec![0x5a; 40_000])])
}

/// What the golden database of version 2 holds.
fn content_of_v2() -> BTreeMap<&'static str, Model> {
    let mut content = content();
    content.insert("in parts", in_parts());
    content
}

/// Makes the golden database: a checkpoint, and in the log all that a log can say.
fn make() -> Files {
    let place = place();
    let options = tiny(4096).durability(Durability::Buffered);
    let db = options.create(&place.path).expect("nothing there");
    let content = content_of_v2();
    let (numbers, odd) = (&content["numbers"], &content["odd ünïcode"]);
    let tree = db.tree("numbers").expect("room");
    tree.bulk_load(numbers.iter().take(50)).expect("ascending");
    tree.put(b"gone", b"gone").expect("room");
    db.tree("empty").expect("room").put(b"gone", b"gone").expect("room");
    db.tree("dropped").expect("room").put(b"gone", b"gone").expect("room");
    let renamed = db.tree("renamed").expect("room");
    for (key, value) in odd.iter().take(2) {
        renamed.put(key, value).expect("room");
    }
    db.checkpoint().expect("room");

    assert!(tree.delete(b"gone").expect("room"));
    for (key, value) in numbers.iter().skip(50).take(50) {
        tree.put(key, value).expect("room");
    }
    db.open_tree("empty").expect("readable").expect("there").clear().expect("room");
    assert!(db.drop_tree("dropped").expect("room"));
    db.rename_tree("renamed", "odd ünïcode").expect("free");
    let parts = db.tree("in parts").expect("room");
    let mut batch = WriteBatch::new();
    for (key, value) in &content["in parts"] {
        batch.put(&parts, key, value).expect("small enough");
    }
    for (key, value) in odd.iter().skip(2) {
        batch.put(&renamed, key, value).expect("small enough");
    }
    db.write(&batch).expect("room");
    db.transact(|transaction| {
        for (key, value) in numbers.iter().skip(100) {
            transaction.put(&tree, key, value)?;
        }
        Ok(())
    })
    .expect("nobody else is there");
    // Taken as a crash would find it.
    let files = ["log", "data"].map(|name| {
        let bytes = fs::read(place.path.join(name)).expect("there");
        (name.to_owned(), bytes)
    });
    Files::from(files)
}

fn to_text(files: &Files) -> String {
    let mut text =
        format!("# A latchkv database, format version 2, made on {}.\n", std::env::consts::ARCH);
    for (name, bytes) in files {
        writeln!(text, "file {name}\nbytes {}", bytes.len()).expect("strings take everything");
        let mut rows = (0..).step_by(ROW).zip(bytes.chunks(ROW)).peekable();
        while let Some((offset, row)) = rows.next() {
            let mut count = 1;
            while rows.next_if(|(_, next)| *next == row).is_some() {
                count += 1;
            }
            if row.iter().any(|&byte| byte != 0) {
                let hex: String = row.iter().map(|byte| format!("{byte:02x}")).collect();
                let count = if count > 1 { format!(" {count}") } else { String::new() };
                writeln!(text, "{offset:x} {hex}{count}").expect("strings take everything");
            }
        }
    }
    text
}

fn from_text(text: &str) -> Files {
    let mut files = Files::new();
    let mut name = "data";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split(' ').collect();
        let bytes = files.entry(name.to_owned()).or_default();
        match words[..] {
            ["file", other] => name = other,
            ["bytes", len] => bytes.resize(len.parse().expect("a number"), 0),
            [offset, row, ref count @ ..] => {
                let count = count.first().map_or(1, |count| count.parse().expect("a number"));
                let mut at = usize::from_str_radix(offset, 16).expect("hexadecimal");
                for _ in 0..count {
                    for digits in row.as_bytes().chunks(2) {
                        let digits = std::str::from_utf8(digits).expect("ascii");
                        bytes[at] = u8::from_str_radix(digits, 16).expect("hexadecimal");
                        at += 1;
                    }
                }
            }
            _ => panic!("a line of one word: {line:?}"),
        }
    }
    files
}

fn write(path: &Path, files: &Files) {
    fs::create_dir(path).expect("room");
    for (name, bytes) in files {
        fs::write(path.join(name), bytes).expect("room");
    }
}

/// Files as they were, with no others but the lock.
#[track_caller]
fn assert_untouched(path: &Path, files: &Files) {
    for (name, bytes) in files {
        assert!(fs::read(path.join(name)).expect("there") == *bytes, "{name} was written");
    }
    let names =
        fs::read_dir(path).expect("there").map(|entry| entry.expect("readable").file_name());
    let others =
        names.filter(|name| name != "lock" && !files.contains_key(name.to_str().unwrap_or("")));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
}

fn assert_golden(db: &Db, content: &BTreeMap<&str, Model>) {
    assert!(db.trees().expect("readable").iter().eq(content.keys()));
    for (name, model) in content {
        assert_same(&db.open_tree(name).expect("readable").expect("there"), model);
    }
    assert_whole(db);
}

/// The database takes a change, is closed, and has it when it is opened again.
fn assert_takes_changes(path: &Path, content: &BTreeMap<&str, Model>) {
    let db = tiny(4096).open_existing(path).expect("an old format");
    assert_golden(&db, content);
    let tree = db.tree("numbers").expect("there");
    tree.put(b"new", b"record").expect("room");
    drop(tree);
    db.close().expect("room");
    let db = tiny(4096).open_read_only(path).expect("closed in order");
    drop(db);
    let db = tiny(4096).open_existing(path).expect("closed in order");
    let tree = db.tree("numbers").expect("there");
    assert_eq!(tree.get(b"new").expect("readable").as_deref(), Some(&b"record"[..]));
    assert!(tree.delete(b"new").expect("room"));
    drop(tree);
    assert_golden(&db, content);
}

#[test]
fn format_version_1_opens_and_takes_changes() {
    let place = place();
    let files = from_text(V1);
    assert!(files.keys().eq(["data"]));
    write(&place.path, &files);
    let db = tiny(4096).open_read_only(&place.path).expect("format version 1");
    assert_golden(&db, &content());
    drop(db);
    assert_untouched(&place.path, &files);
    assert_takes_changes(&place.path, &content());
}

#[test]
fn format_version_2_that_was_not_closed_recovers_and_takes_changes() {
    if let Ok(file) = std::env::var("LATCHKV_TEST_WRITE_GOLDEN") {
        fs::write(file, to_text(&make())).expect("room");
        return;
    }
    let place = place();
    let files = from_text(V2);
    assert!(files.keys().eq(["data", "log"]));
    write(&place.path, &files);
    let opened = tiny(4096).open_read_only(&place.path);
    assert!(matches!(opened, Err(Error::Open(OpenError::NeedsRecovery(_)))), "{opened:?}");
    assert_untouched(&place.path, &files);
    assert_takes_changes(&place.path, &content_of_v2());
}

#[test]
fn the_golden_text_stands_for_the_bytes() {
    let files = make();
    assert!(from_text(&to_text(&files)) == files);
    let golden = from_text(V2);
    for (name, bytes) in &files {
        assert!(
            bytes.len() >= golden[name].len() / 2,
            "the same content takes about the same room"
        );
    }
    let place = place();
    write(&place.path, &files);
    let db = tiny(4096).open_existing(&place.path).expect("a crash leaves this");
    assert_golden(&db, &content_of_v2());
}
