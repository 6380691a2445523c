//! Damaged files: whatever their bytes, the answer is right or an error that names the place. No panic, no
//! hang, no memory beyond a small bound, and `check` reports what a reader would meet.
//!
//! - `media`: damage as media do it: sectors of 512 bytes flipped, zeroed, cut off, exchanged.
//! - `log`: a torn end of the log, damage before a place that was synced, absurd headers and records.
//! - `forged`: damage as media cannot do it, with all checksums made right again, which reaches the code
//!   behind them.
//!
//! The allocator of this test binary counts the bytes in use, and refuses a request that is absurd.

#[path = "../common/mod.rs"]
mod common;
mod forged;
mod log;
mod media;

use common::counting::{Counting, in_use_bytes, peak_bytes, reset_peak_bytes};
use common::{Model, value_of};
use latchkv::{Db, Error, OpenError};
use std::collections::BTreeMap;

/// More than any test here has a use for.
const REQUEST_BYTES_MAX: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: Counting = Counting::refusing_over(REQUEST_BYTES_MAX);

/// How much more memory than before a look at a damaged file may take.
const LOOK_BYTES_MAX: usize = 48 << 20;

type Trees = BTreeMap<String, Model>;

/// A database of some hundred kilobytes: two levels, three trees, large values. Gives what it holds.
fn fill(db: &Db) -> Trees {
    let mut trees = Trees::new();
    let page_bytes = db.stats().page_bytes as usize;
    // Three leaves at least, a dozen of the smallest.
    let many = 60 + 4 * page_bytes / 1024;
    let large = 9000.max(page_bytes / 4 + 100);
    for (name, records, len) in [("many", 600u32, many), ("few", 3, 10), ("large", 4, large)] {
        let tree = db.tree(name).expect("room");
        let mut model = Model::new();
        for i in 0..records {
            let key = format!("{name}/{:06}", i.wrapping_mul(7919) % 10_007).into_bytes();
            let value = value_of(&key, 1, len);
            tree.put(&key, &value).expect("room");
            model.insert(key, value);
        }
        trees.insert(name.to_owned(), model);
    }
    db.checkpoint().expect("room");
    trees
}

/// An error that a damaged file may cause: it names the place.
#[track_caller]
fn assert_names_the_place(error: &Error, what: &str) {
    match error {
        Error::Corrupt(corruption) => {
            let placed = corruption.offset.is_some() || corruption.page.is_some();
            assert!(placed, "{what}: no place in {error}");
            assert!(!corruption.file.as_os_str().is_empty(), "{what}: no file in {error}");
            assert!(!corruption.what.is_empty(), "{what}: {error:?}");
        }
        Error::Open(OpenError::NotADatabase { .. } | OpenError::NewerVersion { .. }) => {}
        // The end of a file that was cut.
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::UnexpectedEof => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// Memory of one look, bounded.
fn bounded(what: &str, look: impl FnOnce() -> usize) -> usize {
    let before = in_use_bytes();
    reset_peak_bytes();
    let errors = look();
    let peak = peak_bytes();
    assert!(
        peak <= before + LOOK_BYTES_MAX,
        "{what}: {} bytes of memory",
        peak.saturating_sub(before)
    );
    errors
}
