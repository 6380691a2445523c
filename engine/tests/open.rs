//! Opening and refusing to open; what is refused says what is wrong and what would do.

mod common;

use common::process::{assert_passed, this_program};
use common::{
    Model, assert_same, assert_whole, data_file, least_cache_bytes, log_file, place, records,
    scaled, simulated, tiny,
};
use latchkv::{BLOCK_BYTES, Db, Denied, Error, OpenError, Options, Usage, WriteBatch};
use std::fs;
use std::path::Path;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> OpenError {
    match result {
        Err(Error::Open(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn misused<T: std::fmt::Debug>(result: Result<T, Error>) -> Usage {
    match result {
        Err(Error::Usage(usage)) => usage,
        other => panic!("{other:?}"),
    }
}

fn sample(path: &Path) -> Model {
    let db = tiny(4096).create(path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    let model: Model = (0..200u32).map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; 30])).collect();
    tree.bulk_load(model.iter()).expect("ascending");
    drop(tree);
    db.close().expect("room");
    model
}

#[test]
fn opening_what_is_not_there_says_so_and_makes_nothing() {
    let place = place();
    let error = refused(Db::open_existing(&place.path));
    assert_eq!(error, OpenError::NotFound(place.path.clone()));
    assert!(error.to_string().contains(place.path.to_str().expect("ascii")), "{error}");
    assert!(matches!(refused(Db::open_read_only(&place.path)), OpenError::NotFound(_)));
    assert!(!place.path.exists());
    // A parent that is not there is not made.
    let deep = place.path.join("no/such/parent");
    assert!(Db::create(&deep).is_err());
    assert!(!place.path.exists());
}

#[test]
fn an_empty_directory_is_as_good_as_none() {
    let place = place();
    fs::create_dir(&place.path).expect("room");
    assert!(matches!(refused(Db::open_existing(&place.path)), OpenError::NotFound(_)));
    assert!(matches!(refused(Db::open_read_only(&place.path)), OpenError::NotFound(_)));
    assert_eq!(
        fs::read_dir(&place.path).expect("there").count(),
        0,
        "nothing was written to find that out"
    );
    Db::open(&place.path).expect("made").close().expect("room");
    assert!(matches!(refused(Db::create(&place.path)), OpenError::AlreadyExists(_)));
    Db::open(&place.path).expect("there");
}

#[test]
fn a_file_and_a_foreign_directory_are_left_alone() {
    let place = place();
    fs::write(&place.path, b"a letter").expect("room");
    let foreign = place.path.with_extension("dir");
    fs::create_dir(&foreign).expect("room");
    fs::write(foreign.join("letter"), b"dear").expect("room");
    for path in [&place.path, &foreign] {
        for opened in
            [Db::open(path), Db::create(path), Db::open_existing(path), Db::open_read_only(path)]
        {
            let error = refused(opened);
            assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
        }
    }
    assert_eq!(fs::read(&place.path).expect("there"), b"a letter");
    assert_eq!(fs::read_dir(&foreign).expect("there").count(), 1);
}

#[test]
fn a_data_file_that_is_no_database_is_told_from_a_damaged_one() {
    let place = place();
    sample(&place.path);
    let data = data_file(&place.path);
    let bytes = fs::read(&data).expect("there");
    for foreign in [&b""[..], b"short", &[0; 200_000], &[0x55; 200_000]] {
        fs::write(&data, foreign).expect("room");
        for opened in [Db::open(&place.path), Db::open_read_only(&place.path)] {
            let error = refused(opened);
            assert!(
                matches!(error, OpenError::NotADatabase { .. }),
                "{} bytes: {error:?}",
                foreign.len()
            );
        }
        assert_eq!(fs::read(&data).expect("there"), foreign, "it was left alone");
    }
    let mut damaged = bytes.clone();
    damaged[100] ^= 1;
    damaged[16 * BLOCK_BYTES + 100] ^= 1;
    fs::write(&data, damaged).expect("room");
    let opened = Db::open(&place.path);
    assert!(matches!(opened, Err(Error::Corrupt(_))), "{opened:?}");
    fs::write(&data, bytes).expect("room");
    Db::open(&place.path).expect("whole again");
}

#[test]
fn a_newer_format_is_refused_by_both_numbers() {
    let place = place();
    sample(&place.path);
    let data = data_file(&place.path);
    let mut bytes = fs::read(&data).expect("there");
    let whole = bytes.clone();
    for slot in [0, 16 * BLOCK_BYTES] {
        let block = &mut bytes[slot..slot + BLOCK_BYTES];
        block[8..12].copy_from_slice(&7u32.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&block[..BLOCK_BYTES - 8]);
        block[BLOCK_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(&data, &bytes).expect("room");
    for opened in [Db::open(&place.path), Db::open_read_only(&place.path)] {
        let error = refused(opened);
        assert!(
            matches!(error, OpenError::NewerVersion { found: 7, supported: 2, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains('7'), "{error}");
    }
    assert_eq!(fs::read(&data).expect("there"), bytes, "it was left alone");
    fs::write(&data, whole).expect("room");
    Db::open(&place.path).expect("whole again");
}

#[test]
fn a_second_opener_of_this_process_is_refused_by_whatever_path_it_comes() {
    let place = place();
    sample(&place.path);
    let db = Db::open(&place.path).expect("there");
    let link = place.path.with_extension("link");
    std::os::unix::fs::symlink(&place.path, &link).expect("links");
    for path in [place.path.clone(), link.clone(), place.path.join("."), place.path.join("../db")] {
        for opened in [Db::open(&path), Db::open_existing(&path), Db::open_read_only(&path)] {
            let error = refused(opened);
            assert!(matches!(error, OpenError::Locked { .. }), "{}: {error:?}", path.display());
            assert!(error.to_string().contains("this process"), "{error}");
        }
    }
    let tree = db.tree("t").expect("there");
    drop(db);
    assert!(matches!(refused(Db::open(&link)), OpenError::Locked { .. }), "a tree holds it open");
    drop(tree);
    Db::open(&link).expect("unlocked");
}

const OTHER_PROCESS: &str = "LATCHKV_TEST_OPEN_PATH";

/// Not a test of its own: what the other process of the next one runs.
#[test]
fn other_process_tries_to_open() {
    let Ok(path) = std::env::var(OTHER_PROCESS) else {
        return;
    };
    for opened in [Db::open(&path), Db::open_read_only(&path)] {
        let error = refused(opened);
        assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
        assert!(error.to_string().contains("another process"), "{error}");
    }
}

#[test]
fn a_second_opener_of_another_process_is_refused() {
    let place = place();
    sample(&place.path);
    let run = || {
        let mut other = this_program("other_process_tries_to_open");
        other.env(OTHER_PROCESS, &place.path).output().expect("it starts")
    };
    let db = Db::open(&place.path).expect("there");
    let held = run();
    assert_passed(&held);
    drop(db);
    assert!(
        !run().status.success(),
        "unlocked, so that the other process opens it and its assertion fails"
    );
    Db::open(&place.path).expect("and is released by its end");
}

#[test]
fn readers_share_a_database_and_exclude_writers() {
    let place = place();
    let model = sample(&place.path);
    let first = Db::open_read_only(&place.path).expect("there");
    let second = Db::open_read_only(&place.path).expect("shared");
    assert_same(&first.tree("t").expect("there"), &model);
    drop(first);
    assert!(matches!(refused(Db::open(&place.path)), OpenError::Locked { .. }));
    assert_same(&second.tree("t").expect("there"), &model);
    drop(second);
    Db::open(&place.path).expect("unlocked");
}

#[test]
fn a_read_only_database_refuses_every_write_and_writes_nothing() {
    let place = place();
    let model = sample(&place.path);
    fs::remove_file(place.path.join("lock")).expect("there");
    let files = || [data_file, log_file].map(|file| fs::read(file(&place.path)).expect("there"));
    let before = files();
    let modified = |path: &Path| fs::metadata(path).expect("there").modified().expect("known");
    let times = || {
        [place.path.clone(), data_file(&place.path), log_file(&place.path)]
            .map(|path| modified(&path))
    };
    let times_before = times();

    let db = tiny(4096).open_read_only(&place.path).expect("needs no lock file");
    let tree = db.tree("t").expect("there");
    let key = 3u32.to_be_bytes();
    let denied = [
        tree.put(key, b"v"),
        tree.insert(b"new", b"v").map(drop),
        tree.delete(key).map(drop),
        tree.compare_and_swap(key, None, Some(b"v")).map(drop),
        tree.clear(),
        tree.bulk_load([(b"z", b"v")]).map(drop),
        db.tree("new").map(drop),
        db.drop_tree("t").map(drop),
        db.rename_tree("t", "u"),
        db.checkpoint().map(drop),
        db.flush(),
        db.sync(),
        db.begin().map(drop),
        db.write(&WriteBatch::new()).map(drop),
        db.transact(|_| Ok(())),
    ];
    for (number, denied) in denied.into_iter().enumerate() {
        let error = denied.expect_err("read-only");
        assert!(
            matches!(error, Error::Denied(Denied::ReadOnly { .. })),
            "call {number}: {error:?}"
        );
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    assert_same(&tree, &model);
    assert_whole(&db);
    assert!(db.open_tree("new").expect("readable").is_none());
    drop(tree);
    db.close().expect("nothing to write");
    assert_eq!(times(), times_before, "nothing was touched");
    assert!(files() == before);
    assert_eq!(fs::read_dir(&place.path).expect("there").count(), 2);
}

#[test]
fn keys_values_and_names_over_their_limits_are_refused_by_both_numbers() {
    for page_bytes in [4096u32, 65536] {
        let place = place();
        let db = tiny(page_bytes).create(&place.path).expect("nothing there");
        let limits = db.limits();
        assert_eq!(limits.key_bytes_max, page_bytes as usize / 8);
        assert_eq!(limits.value_bytes_max, 1 << 30);
        let tree = db.tree("t").expect("made");
        let maximum = limits.key_bytes_max;
        tree.put(vec![b'k'; maximum], b"fits").expect("at the limit");
        let long = vec![b'k'; maximum + 1];
        let over = Usage::KeyTooLarge { actual: maximum + 1, maximum };
        assert_eq!(misused(tree.put(&long, b"v")), over);
        assert_eq!(misused(tree.insert(&long, b"v")), over);
        assert_eq!(misused(tree.compare_and_swap(&long, None, Some(b"v"))), over);
        let after = vec![b'z'; maximum + 1];
        assert_eq!(misused(tree.bulk_load([(&after, b"v")])), over);
        assert!(over.to_string().contains(&maximum.to_string()), "{over}");
        assert!(over.to_string().contains(&(maximum + 1).to_string()), "{over}");
        // No such key can be there.
        assert_eq!(tree.get(&long).expect("no error"), None);
        assert!(!tree.contains(&long).expect("no error"));
        assert!(!tree.delete(&long).expect("no error"));
        assert_eq!(tree.range(&long[..]..).count(), 0);
        assert_eq!(tree.range(..&long[..]).count(), 1);
        assert_eq!(tree.prefix(&long).count(), 0);

        for (name, maximum) in [(String::new(), 0), ("x".repeat(256), 255), ("a\nb".into(), 0)] {
            let calls = [
                misused(db.tree(&name)),
                misused(db.open_tree(&name)),
                misused(db.drop_tree(&name)),
                misused(db.rename_tree("t", &name)),
                misused(db.rename_tree(&name, "u")),
            ];
            for usage in calls {
                assert!(matches!(&usage, Usage::BadName { .. }), "{usage:?}");
                assert!(maximum == 0 || usage.to_string().contains("255"), "{usage}");
            }
        }
        db.tree("x".repeat(limits.name_bytes_max)).expect("at the limit");
        db.tree("a name with spaces, ünïcode and 🦀").expect("allowed");
        assert_eq!(tree.len().expect("open"), 1);
        assert_whole(&db);
    }
}

#[test]
fn a_value_over_the_limit_is_refused_before_anything_is_written() {
    // Not touched, so that it takes no memory.
    let huge = vec![0u8; (1 << 30) + 1];
    let db = simulated(&tiny(4096));
    let tree = db.tree("t").expect("made");
    let over = Usage::ValueTooLarge { actual: (1 << 30) + 1, maximum: 1 << 30 };
    assert_eq!(misused(tree.put(b"k", &huge)), over);
    assert_eq!(misused(tree.insert(b"k", &huge)), over);
    assert_eq!(misused(tree.compare_and_swap(b"k", None, Some(&huge))), over);
    assert_eq!(misused(tree.bulk_load([(b"k", &huge)])), over);
    assert!(tree.is_empty().expect("open"));
}

#[test]
fn options_out_of_range_name_what_is_allowed() {
    let place = place();
    for page_bytes in [0, 1, 512, 4095, 4097, 12288, 131_072, u32::MAX] {
        let usage = misused(Options::new().page_bytes(page_bytes).open(&place.path));
        assert!(matches!(&usage, Usage::BadOption { option: "page_bytes", .. }), "{usage:?}");
        let text = usage.to_string();
        assert!(
            text.contains(&page_bytes.to_string())
                && text.contains("4096")
                && text.contains("65536"),
            "{text}"
        );
    }
    let usage = misused(Options::new().checkpoint_bytes(0).open(&place.path));
    assert!(matches!(&usage, Usage::BadOption { option: "checkpoint_bytes", .. }), "{usage:?}");
    assert!(!place.path.exists(), "nothing was made");
}

#[test]
fn a_cache_too_small_is_told_the_least_and_that_one_does() {
    for page_bytes in [4096u32, 8192, 16384, 32768, 65536] {
        let place = place();
        let least = least_cache_bytes(page_bytes);
        assert!(least >= 16 * u64::from(page_bytes));
        let options = Options::new().page_bytes(page_bytes).huge_pages(false);
        let usage = misused(options.clone().cache_bytes(least - 1).open(&place.path));
        assert!(matches!(&usage, Usage::BadOption { option: "cache_bytes", .. }), "{usage:?}");
        assert!(usage.to_string().contains(&least.to_string()), "{usage}");
        let db = options.cache_bytes(least).open(&place.path).expect("the least it named");
        assert_eq!(db.stats().pool.frames, 16);
        assert_eq!(db.stats().page_bytes, page_bytes);
        assert!(db.stats().pool.total_bytes <= least);
        db.tree("t").expect("made").put(b"k", b"v").expect("room");
        assert_whole(&db);
    }
}

#[test]
fn an_existing_database_keeps_its_page_size() {
    let place = place();
    let model = sample(&place.path);
    let db =
        Options::new().page_bytes(65536).cache_bytes(4 << 20).open(&place.path).expect("there");
    assert_eq!(db.stats().page_bytes, 4096);
    assert_same(&db.tree("t").expect("there"), &model);
}

#[test]
fn opening_and_dropping_a_thousand_times_needs_no_pause() {
    let place = place();
    sample(&place.path);
    for round in 0..scaled(1000, 50) {
        let options = tiny(4096);
        let db = if round % 2 == 0 {
            options.open(&place.path)
        } else {
            options.open_read_only(&place.path)
        };
        let db = db.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(db.tree("t").expect("there").len().expect("open"), 200, "round {round}");
    }
    let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    assert!(files < 200, "{files} files are still open");
}

#[test]
fn trees_outlive_their_database_handle_and_close_closes_them() {
    let place = place();
    let db = Db::create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    drop(db);
    tree.put(b"k", b"v").expect("a tree keeps it open");
    drop(tree);
    let db = Db::open_existing(&place.path).expect("closed by the tree");
    let tree = db.tree("t").expect("there");
    assert_eq!(records(&tree).expect("readable"), [(b"k".to_vec(), b"v".to_vec())]);
    let other = db.clone();
    db.close().expect("room");
    other.close().expect("closing again is nothing");
    assert!(matches!(tree.get(b"k"), Err(Error::Closed)));
}
