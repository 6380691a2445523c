//! The file `log` of a database directory.

use super::*;
use crate::error::OpenError;
use crate::io::Write;
use std::fs;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn create(dir: &Path) -> Result<Opened> {
    Store::create_at(dir, 4096, Backend::Pread)
}

fn open(dir: &Path, mode: Mode) -> Result<Opened> {
    Store::open_at(dir, mode, Backend::Pread)
}

/// Whether it did not open because the log is missing.
fn is_missing(opened: Result<Opened>) -> bool {
    match opened {
        Err(Error::Corrupt(corruption)) => corruption.file.ends_with("log"),
        other => panic!("{other:?}"),
    }
}

/// Makes a checkpoint that goes on at `lsn`.
fn checkpoint_at(store: &Store, lsn: u64) {
    store.freeze(Vec::new(), TreeId(1), lsn).expect("writable");
    store.publish(|| Ok(0)).expect("room");
}

#[test]
fn the_log_is_made_with_the_database_and_keeps_its_content_on_every_backend() {
    for backend in [Backend::Auto, Backend::Mmap, Backend::Pread] {
        let temp = temporary();
        let dir = temp.path().join("db");
        let made = Store::create_at(&dir, 4096, backend).expect("nothing there");
        let log = made.log.as_ref().expect("made with the database");
        assert_eq!(log.len_bytes().expect("a length"), 0);
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        // Grows while it is read.
        for number in 0..20u8 {
            let offset = u64::from(number) * BLOCK_BYTES as u64;
            block.fill(number + 1);
            log.write(&[Write { offset, bytes: &block }]).expect("room");
            for earlier in 0..=number {
                let offset = u64::from(earlier) * BLOCK_BYTES as u64;
                log.read(offset, &mut block).expect("written");
                assert!(block.iter().all(|&byte| byte == earlier + 1), "{backend:?}");
            }
        }
        log.set_len(64 << 20).expect("room");
        log.read((64 << 20) - BLOCK_BYTES as u64, &mut block).expect("within the length");
        assert!(block.iter().all(|&byte| byte == 0));
        log.sync().expect("a plain file");
        drop(made);
        for mode in [Mode::Write, Mode::Read] {
            let opened = Store::open_at(&dir, mode, backend).expect("whole");
            let log = opened.log.expect("there");
            assert_eq!(log.len_bytes().expect("a length"), 64 << 20);
            log.read(19 * BLOCK_BYTES as u64, &mut block).expect("there");
            assert_eq!(block[..3], [20; 3]);
        }
    }
}

/// Turns a database into one of format version 1, without a log.
fn as_version_1(dir: &Path) {
    let data = dir.join("data");
    let mut bytes = fs::read(&data).expect("there");
    for slot in SLOT_BLOCKS {
        let block = &mut bytes[slot.offset() as usize..][..BLOCK_BYTES];
        block[8..12].copy_from_slice(&1u32.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&block[..BLOCK_BYTES - 8]);
        block[BLOCK_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
    }
    fs::write(&data, bytes).expect("room");
    fs::remove_file(dir.join("log")).expect("there");
}

#[test]
fn a_database_that_never_had_a_log_gets_one_when_opened_for_writing() {
    let temp = temporary();
    drop(create(temp.path()).expect("usable"));
    as_version_1(temp.path());
    let log = temp.path().join("log");
    let opened = open(temp.path(), Mode::Read).expect("readable");
    assert!(opened.log.is_none() && opened.log_path == log && !log.exists());
    drop(opened);
    let opened = open(temp.path(), Mode::Write).expect("whole");
    assert_eq!(opened.log.as_ref().expect("made").len_bytes().expect("a length"), 0);
    checkpoint_at(&opened.store, 0);
    drop(opened);
    fs::remove_file(&log).expect("it was made");
    assert!(
        is_missing(open(temp.path(), Mode::Write)),
        "from its first checkpoint on it has a log"
    );
}

#[test]
fn a_log_that_has_gone_is_an_error_and_is_not_made_anew() {
    for lsn in [0, 4096] {
        let temp = temporary();
        let made = create(temp.path()).expect("usable");
        if lsn > 0 {
            checkpoint_at(&made.store, lsn);
        }
        drop(made);
        let log = temp.path().join("log");
        fs::remove_file(&log).expect("there");
        assert!(is_missing(open(temp.path(), Mode::Write)));
        assert!(!log.exists());
        let opened = open(temp.path(), Mode::Read).expect("what the checkpoint has can be read");
        assert!(opened.log.is_none());
        assert_eq!(opened.store.checkpoint_lsn(), lsn);
    }
}

#[test]
fn a_log_with_content_and_no_data_is_left_alone() {
    let temp = temporary();
    let log = temp.path().join("log");
    fs::write(&log, b"of something else").expect("room");
    for opened in [create(temp.path()), open(temp.path(), Mode::Write)] {
        assert!(matches!(opened, Err(Error::Open(OpenError::NotADatabase { .. }))), "{opened:?}");
    }
    assert_eq!(fs::read(&log).expect("there"), b"of something else");
    assert_eq!(fs::read_dir(temp.path()).expect("there").count(), 1);
}
