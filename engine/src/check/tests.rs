//! What a check says of superblocks. Damage of pages: `engine/tests/damage`.

use crate::api::{Db, Options};
use crate::error::Error;
use crate::io::Backend;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the two slots lie, in bytes.
const SLOTS: [u64; 2] = [0, 16 * 4096];

fn options() -> Options {
    Options::new().huge_pages(false).cache_bytes(8 << 20).backend(Backend::Pread)
}

/// Offsets of warnings, and number of problems.
fn findings(db: &Db) -> (Vec<u64>, u64) {
    let report = db.check(|_| {}).expect("it can be checked");
    let offset = |warning: &Error| match warning {
        Error::Corrupt(corruption) => corruption.offset.expect("superblocks have a place"),
        other => panic!("{other:?}"),
    };
    (report.warnings.iter().map(offset).collect(), report.problem_count)
}

#[test]
fn a_new_database_and_one_with_checkpoints_have_two_whole_superblocks() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = options().create(dir.path().join("db")).expect("room");
    for round in 0..3u8 {
        assert_eq!(findings(&db), (vec![], 0), "after {round} checkpoints");
        db.tree("t").expect("room").put([round], "v").expect("room");
        db.checkpoint().expect("room");
    }
}

#[test]
fn one_damaged_superblock_is_a_warning_until_the_next_checkpoint_and_two_are_a_problem() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    options().create(&path).and_then(Db::close).expect("room");
    let file = File::options().write(true).open(path.join("data")).expect("there");
    for slot in SLOTS {
        for bytes in [&[0; 4096][..], &[1], &[0xff; 512]] {
            file.write_all_at(bytes, slot + 12).expect("in the file");
            let db = options().open_read_only(&path).expect("one slot is whole");
            let report = db.check(|_| {}).expect("it can be checked");
            assert!(report.is_ok());
            assert_eq!(findings(&db), (vec![slot], 0));
            drop(db);
            let db = options().open_existing(&path).expect("one slot is whole");
            assert_eq!(findings(&db), (vec![slot], 0));
            db.checkpoint().expect("room");
            assert_eq!(findings(&db), (vec![], 0), "mended");
            db.close().expect("room");
        }
    }
    let db = options().open_read_only(&path).expect("whole");
    for slot in SLOTS {
        file.write_all_at(&[0; 4096], slot).expect("in the file");
    }
    let (warnings, problems) = findings(&db);
    assert!(warnings.is_empty() && problems > 0, "under an open database: {warnings:?}");
}
