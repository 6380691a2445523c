//! What a process leaves that did not close its database: killed, or copied while it wrote.

mod common;

use common::process::this_program;
use common::{assert_whole, data_file, log_file, place, records, scaled, tiny};
use latchkv::{Durability, Error, OpenError, WriteBatch};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> OpenError {
    match result {
        Err(Error::Open(error)) => error,
        other => panic!("{other:?}"),
    }
}

const KILLED: &str = "LATCHKV_TEST_KILLED_PATH";
const KILLED_LEVEL: &str = "LATCHKV_TEST_KILLED_LEVEL";

/// Not a test of its own: what the other process of the next one runs until it is killed.
#[test]
fn other_process_writes_until_it_is_killed() {
    let Ok(path) = std::env::var(KILLED) else {
        return;
    };
    let level = match std::env::var(KILLED_LEVEL).expect("set with the path").as_str() {
        "None" => Durability::None,
        "Buffered" => Durability::Buffered,
        "Sync" => Durability::Sync,
        other => panic!("{other:?}"),
    };
    let db = tiny(4096).durability(level).create(path).expect("nothing there");
    let (tree, pairs) = (db.tree("t").expect("made"), db.tree("pairs").expect("made"));
    let mut out = std::io::stdout().lock();
    for number in 0u64.. {
        if number % 3 == 0 {
            let mut batch = WriteBatch::new();
            batch.put(&tree, number.to_be_bytes(), [7; 200]).expect("small");
            batch.put(&pairs, number.to_be_bytes(), [8; 300]).expect("small");
            db.write(&batch).expect("room");
        } else {
            tree.put(number.to_be_bytes(), [7; 200]).expect("room");
        }
        if number == 150 {
            db.checkpoint().expect("room");
        }
        writeln!(out, "acknowledged {number}").and_then(|()| out.flush()).expect("it is read");
    }
}

#[test]
fn a_killed_process_keeps_what_it_was_told_is_kept() {
    for level in [Durability::None, Durability::Buffered, Durability::Sync] {
        for wanted in [1, scaled(120, 20), scaled(400, 200)] {
            let place = place();
            let mut command = this_program("other_process_writes_until_it_is_killed");
            command.env(KILLED, &place.path).env(KILLED_LEVEL, format!("{level:?}"));
            let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
            let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
            let acknowledged = |line: std::io::Result<String>| {
                line.ok()?.split_once("acknowledged ")?.1.parse().ok()
            };
            let mut lines = lines.filter_map(acknowledged);
            let enough = lines.by_ref().take(wanted).last();
            child.kill().expect("it runs");
            // Some more that it wrote before it was gone.
            let last: u64 = lines.last().or(enough).expect("one at least");
            child.wait().expect("ours");

            if level == Durability::Buffered {
                let error = refused(tiny(4096).open_read_only(&place.path));
                assert!(matches!(error, OpenError::NeedsRecovery(_)), "{error:?}");
                assert!(error.to_string().contains("open it for writing"), "{error}");
            }
            let db = tiny(4096).open_existing(&place.path).expect("it recovers");
            assert_whole(&db);
            let tree = db.tree("t").expect("there");
            let found = records(&tree).expect("readable");
            let numbers = found.iter().map(|(key, _)| {
                u64::from_be_bytes(key.as_slice().try_into().expect("eight bytes"))
            });
            assert!(numbers.eq(0..found.len() as u64), "{level:?}: a commit is missing in between");
            let least = match level {
                // What a checkpoint has.
                Durability::None => {
                    if last > 150 {
                        151
                    } else {
                        0
                    }
                }
                _ => last + 1,
            };
            assert!(found.len() as u64 >= least, "{level:?}: {} of {least}", found.len());
            let pairs = db.tree("pairs").expect("there").len().expect("open");
            assert_eq!(pairs, found.len().div_ceil(3) as u64, "{level:?}: half of a batch");
            drop(tree);
            db.close().expect("room");
            tiny(4096).open_read_only(&place.path).expect("closed in order");
        }
    }
}

#[test]
fn a_database_that_was_not_closed_is_not_read_only_before_it_recovered_and_stays_as_it_is() {
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    db.checkpoint().expect("room");
    let copy = |name: &str| {
        let to = place.path.with_extension(name);
        fs::create_dir(&to).expect("room");
        for file in [log_file, data_file] {
            fs::copy(file(&place.path), file(&to)).expect("there");
        }
        to
    };
    let clean = copy("clean");
    tree.put(b"k", b"v").expect("room");
    db.flush().expect("room");
    let unclean = copy("unclean");

    let db = tiny(4096).open_read_only(&clean).expect("nothing is behind its checkpoint");
    assert!(db.open_tree("t").expect("readable").expect("there").is_empty().expect("open"));
    let files = || [data_file, log_file].map(|file| fs::read(file(&unclean)).expect("there"));
    let before = files();
    let error = refused(tiny(4096).open_read_only(&unclean));
    assert!(
        matches!(&error, OpenError::NeedsRecovery(path) if path.starts_with(&unclean)),
        "{error:?}"
    );
    assert!(error.to_string().contains("open it for writing"), "{error}");
    assert!(files() == before, "something was written");
    let db = tiny(4096).open_existing(&unclean).expect("it recovers");
    let value = db.open_tree("t").expect("readable").expect("there").get(b"k").expect("readable");
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
    drop(db);
    tiny(4096).open_read_only(&unclean).expect("closed in order");
}

#[test]
fn without_its_log_a_database_gives_its_last_checkpoint_for_reading_and_is_not_written_to() {
    let place = place();
    let db = latchkv::Db::create(&place.path).expect("new");
    db.tree("t").expect("new").put("k", "v").expect("room");
    db.close().expect("room");
    let log = log_file(&place.path);
    std::fs::write(&log, vec![0x5a; 100_000]).expect("a file");
    let damaged = latchkv::Db::open_read_only(&place.path);
    assert!(matches!(damaged, Err(Error::Corrupt(_))), "{damaged:?}");
    let without = latchkv::Options::new().without_log(true);
    let db = without.open_read_only(&place.path).expect("the data are whole");
    let tree = db.open_tree("t").expect("readable").expect("in the checkpoint");
    assert_eq!(tree.get("k").expect("readable").as_deref(), Some(&b"v"[..]));
    drop((tree, db));
    let writing = without.open_existing(&place.path);
    assert!(matches!(writing, Err(Error::Denied(_))), "{writing:?}");
    assert_eq!(std::fs::read(&log).expect("there"), vec![0x5a; 100_000]);
}
