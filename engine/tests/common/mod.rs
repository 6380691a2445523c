//! What the integration tests share: scale, seeds, a watchdog, keys and values, comparing a tree with a model,
//! the matrix of page sizes and backends, and other processes.
//!
//! Environment:
//! - `LATCHKV_TEST_SCALE`: size of the tests in percent, 100 by default; small under an emulator.
//! - `LATCHKV_TEST_SEED`: another seed than the fixed one. Each test prints the seed it ran with.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod counting;
pub(crate) mod matrix;
pub(crate) mod process;

use latchkv::io::sim::SimMachine;
use latchkv::{Db, Durability, Error, Options, Tree, Usage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// The oracle of a tree.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// `count` at the scale of this run, at least `least`.
pub(crate) fn scaled(count: usize, least: usize) -> usize {
    let percent = std::env::var("LATCHKV_TEST_SCALE").ok().and_then(|percent| percent.parse().ok());
    (count * percent.unwrap_or(100usize) / 100).max(least)
}

/// The seed of this run, mixed with what makes the test's own; printed, so that a failure shows it.
pub(crate) fn seed(salt: u64) -> u64 {
    let base = std::env::var("LATCHKV_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let base: u64 = base.unwrap_or(20_240_607);
    println!("LATCHKV_TEST_SEED={base} (salt {salt})");
    base ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A directory of its own, gone with the value.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    /// Where the database is or is to be.
    pub(crate) path: PathBuf,
}

/// A place for a database.
pub(crate) fn place() -> Place {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    Place { _dir: dir, path }
}

/// The path of the file with the pages.
pub(crate) fn data_file(db: &Path) -> PathBuf {
    db.join("data")
}

/// The path of the file with the log.
pub(crate) fn log_file(db: &Path) -> PathBuf {
    db.join("log")
}

/// The least cache that a page size allows, as the error of too small a one says.
pub(crate) fn least_cache_bytes(page_bytes: u32) -> u64 {
    let machine = SimMachine::new(1);
    let options = Options::new().page_bytes(page_bytes).huge_pages(false).cache_bytes(1);
    match options.open_disks(machine.data(), machine.log()) {
        Err(Error::Usage(Usage::BadOption { option: "cache_bytes", allowed, .. })) => {
            let least = allowed.split(' ').find_map(|word| word.parse().ok());
            least.unwrap_or_else(|| panic!("no number in {allowed:?}"))
        }
        other => panic!("a cache of one byte gave {other:?}"),
    }
}

/// Options with the least cache (sixteen frames), no huge pages, checkpoints only on request, the least log, and
/// commits that wait for nothing.
pub(crate) fn tiny(page_bytes: u32) -> Options {
    Options::new()
        .page_bytes(page_bytes)
        .huge_pages(false)
        .cache_bytes(least_cache_bytes(page_bytes))
        .checkpoint_bytes(u64::MAX)
        .log_slot_bytes(64 << 10)
        .log_buffer_bytes(64 << 10)
        .durability(Durability::None)
}

/// The database on the disks of `machine`.
pub(crate) fn open_on(machine: &SimMachine, options: &Options) -> Result<Db, Error> {
    options.open_disks(machine.data(), machine.log())
}

/// A new database on simulated disks.
#[track_caller]
pub(crate) fn simulated(options: &Options) -> Db {
    open_on(&SimMachine::new(1), options).expect("empty disks")
}

/// Ends the process with a message if it is not dropped in time: a test that hangs says so.
#[must_use]
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

/// Starts a [`Watchdog`] of two minutes, or ten in runs at a scale below 100, which are emulated ones.
pub(crate) fn watchdog(test: &'static str) -> Watchdog {
    let (alive, gone) = channel();
    let patience = Duration::from_secs(if scaled(100, 0) < 100 { 600 } else { 120 });
    std::thread::spawn(move || {
        if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = gone.recv_timeout(patience) {
            eprintln!("{test}: no end after {patience:?}, it hangs");
            std::process::abort();
        }
    });
    Watchdog { _alive: alive }
}

/// A value that says which key it belongs to, `len` bytes long; different `generation`s differ if `len`
/// allows.
pub(crate) fn value_of(key: &[u8], generation: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(
        generation
            ^ key
                .iter()
                .fold(7, |sum, &byte| u64::wrapping_mul(sum, 31).wrapping_add(u64::from(byte))),
    );
    let mut value = vec![0; len];
    rng.fill(&mut value);
    value
}

/// Key and value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// All records of a tree, ascending.
pub(crate) fn records(tree: &Tree) -> Result<Vec<Pair>, Error> {
    tree.iter().map(|entry| entry.map(|entry| entry.into_pair())).collect()
}

/// The tree holds exactly what the model does, whichever way it is asked.
#[track_caller]
pub(crate) fn assert_same(tree: &Tree, model: &Model) {
    assert_eq!(tree.len().expect("open"), model.len() as u64, "length of {:?}", tree.name());
    let mut expected = model.iter();
    for entry in tree.iter() {
        let entry = entry.expect("readable");
        let (key, value) = expected.next().expect("the tree holds a record too many");
        assert_eq!(entry.key(), key, "a key of {:?}", tree.name());
        assert!(entry.value() == value, "the value of {:?}", key.escape_ascii().to_string());
    }
    assert_eq!(expected.next(), None, "{:?} lacks a record", tree.name());
    let mut expected = model.iter().rev();
    for entry in tree.iter().rev() {
        let entry = entry.expect("readable");
        let (key, value) = expected.next().expect("a record too many from the back");
        assert!(entry.key() == key && entry.value() == value, "backward at {key:?}");
    }
    assert_eq!(expected.next(), None, "{:?} lacks a record from the back", tree.name());
}

/// The database finds nothing wrong with itself.
#[track_caller]
pub(crate) fn assert_whole(db: &Db) {
    let report = db.check(|_| {}).expect("it can be checked");
    assert!(
        report.is_ok(),
        "{} problems, the first: {:?}",
        report.problem_count,
        report.problems.first()
    );
}
