//! Many threads on one tree at once, each of which would see a lost, doubled or misplaced key.
//!
//! ```text
//! p00000042        permanent: always there; its value begins with its key and is overwritten at will
//! p00000042.1.3    passing: put and deleted by writer 1 alone, which keeps a model of what must be there
//! ```
//!
//! | threads | do | fail if |
//! |---|---|---|
//! | 3 writers | put and delete passing keys, overwrite permanent values | a delete disagrees with the model |
//! | 4 readers | get permanent keys and files | a key is missing or has a foreign value |
//! | 1 scanner | scan the whole tree, forwards and backwards in turn | a permanent key is not seen exactly once, or order is broken |
//!
//! Passing keys lie between the permanent ones, so that pages split and merge all over the tree.

use super::THREADS;
use super::files::Taken;
use crate::exit::{Failure, Outcome};
use crate::keys::escaped;
use fastrand::Rng;
use latchkv::{Db, Tree};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Number of permanent keys.
pub(super) const PERMANENT_KEYS: u64 = 20_000;
const PERMANENT_KEY_BYTES: usize = 9;
const WRITERS: usize = 3;
const READERS: usize = THREADS - WRITERS - 1;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A tree with its permanent keys.
#[derive(Debug)]
pub(super) struct Work {
    tree: Tree,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) scans: u64,
    pub(super) scanned: u64,
    /// Time of the checkpoint.
    pub(super) checkpoint: Duration,
    /// What each writer left.
    models: Vec<Model>,
}

/// Puts the permanent keys into an empty tree.
pub(super) fn build(tree: &Tree) -> Outcome<Work> {
    let records = (0..PERMANENT_KEYS).map(|number| {
        let key = permanent(number);
        let value = value_of(&key, 0, 80);
        (key, value)
    });
    tree.bulk_load(records)?;
    Ok(Work { tree: tree.clone() })
}

impl Work {
    /// Lets all threads work for `time`, with a checkpoint in the middle.
    pub(super) fn run(
        self,
        db: &Db,
        files: &Tree,
        taken: &[Taken],
        time: Duration,
    ) -> Outcome<Done> {
        let tree = &self.tree;
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> =
                (0..WRITERS).map(|id| scope.spawn(move || write(tree, id, stop))).collect();
            let readers: Vec<_> =
                (0..READERS).map(|_| scope.spawn(|| read(tree, files, taken, stop))).collect();
            let scanner = scope.spawn(|| scan(tree, stop));
            thread::sleep(time / 2);
            let started = Instant::now();
            let checkpoint = db.checkpoint();
            let mut done = Done { checkpoint: started.elapsed(), ..Done::default() };
            thread::sleep(time.saturating_sub(time / 2 + done.checkpoint));
            // Relaxed: the threads only need to see it some time soon.
            stop.store(true, Ordering::Relaxed);
            let calm = "threads of the demo do not panic";
            for writer in writers {
                let (writes, model) = writer.join().expect(calm)?;
                done.writes += writes;
                done.models.push(model);
            }
            for reader in readers {
                done.reads += reader.join().expect(calm)?;
            }
            (done.scans, done.scanned) = scanner.join().expect(calm)?;
            checkpoint?;
            Ok(done)
        })
    }
}

impl Done {
    /// Looks for everything that must be in the tree and says how many keys that are.
    pub(super) fn verify(&self, tree: &Tree) -> Outcome<u64> {
        scan_once(tree, false)?;
        let mut keys = PERMANENT_KEYS;
        for (key, value) in self.models.iter().flatten() {
            keys += 1;
            if tree.get(key)?.as_ref() != Some(value) {
                return Err(wrong(key, "has not the value that was put last"));
            }
        }
        let length = tree.len()?;
        if length != keys {
            return Err(Failure::Error(format!("{keys} keys were left, the tree has {length}")));
        }
        Ok(keys)
    }
}

fn write(tree: &Tree, id: usize, stop: &AtomicBool) -> Outcome<(u64, Model)> {
    let mut random = Rng::new();
    let mut model = Model::new();
    let mut writes = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut key = permanent(random.u64(..PERMANENT_KEYS));
        writes += 1;
        if random.u8(..4) == 0 {
            tree.put(&key, value_of(&key, writes, random.usize(..400)))?;
            continue;
        }
        key.extend_from_slice(format!(".{id}.{}", random.u8(..4)).as_bytes());
        if random.bool() {
            let value = value_of(&key, writes, random.usize(..200));
            tree.put(&key, &value)?;
            model.insert(key, value);
        } else if tree.delete(&key)? != model.remove(&key).is_some() {
            return Err(wrong(&key, "was deleted though absent, or absent though put"));
        }
    }
    Ok((writes, model))
}

fn read(tree: &Tree, files: &Tree, taken: &[Taken], stop: &AtomicBool) -> Outcome<u64> {
    let mut random = Rng::new();
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        reads += 1;
        if reads % 16 == 0 && !taken.is_empty() {
            let file = &taken[random.usize(..taken.len())];
            let key = file.path.as_os_str().as_bytes();
            if files.get_with(key, |value| value.len() as u64)? != Some(file.bytes) {
                return Err(wrong(key, "is missing or has another length"));
            }
            continue;
        }
        let key = permanent(random.u64(..PERMANENT_KEYS));
        if tree.get_with(&key, |value| value.starts_with(&key))? != Some(true) {
            return Err(wrong(&key, "is permanent, but missing or with a foreign value"));
        }
    }
    Ok(reads)
}

fn scan(tree: &Tree, stop: &AtomicBool) -> Outcome<(u64, u64)> {
    let (mut scans, mut scanned) = (0, 0);
    loop {
        scanned += scan_once(tree, scans % 2 == 1)?;
        scans += 1;
        if stop.load(Ordering::Relaxed) {
            return Ok((scans, scanned));
        }
    }
}

/// Sees the whole tree once and gives the number of its records.
fn scan_once(tree: &Tree, reverse: bool) -> Outcome<u64> {
    let mut range = tree.iter();
    let mut permanent_seen = 0;
    let mut scanned = 0;
    let mut before: Option<Vec<u8>> = None;
    while let Some(entry) = if reverse { range.next_back() } else { range.next() } {
        let entry = entry?;
        let key = entry.key();
        scanned += 1;
        if let Some(before) = &before
            && (before.as_slice() >= key) != reverse
        {
            let direction = if reverse { "backward" } else { "forward" };
            let before = escaped(before);
            return Err(wrong(key, &format!("came behind {before} in a {direction} scan")));
        }
        if before.as_deref() == Some(key) {
            return Err(wrong(key, "was seen twice by a scan"));
        }
        if key.len() == PERMANENT_KEY_BYTES {
            let number = if reverse {
                PERMANENT_KEYS.checked_sub(permanent_seen + 1)
            } else {
                Some(permanent_seen)
            };
            let expected = number.map(permanent).unwrap_or_default();
            if key != expected {
                return Err(wrong(&expected, "is permanent, but a scan has missed it"));
            }
            permanent_seen += 1;
        }
        if !entry.value().starts_with(key) {
            return Err(wrong(key, "has a foreign value in a scan"));
        }
        before = Some(key.to_vec());
    }
    if permanent_seen != PERMANENT_KEYS {
        return Err(Failure::Error(format!(
            "a scan has seen {permanent_seen} of {PERMANENT_KEYS} permanent keys"
        )));
    }
    Ok(scanned)
}

fn permanent(number: u64) -> Vec<u8> {
    format!("p{number:08}").into_bytes()
}

/// The key, a number, and padding.
fn value_of(key: &[u8], number: u64, padding_bytes: usize) -> Vec<u8> {
    let mut value = key.to_vec();
    value.extend_from_slice(format!("={number} ").as_bytes());
    value.resize(value.len() + padding_bytes, b'.');
    value
}

fn wrong(key: &[u8], what: &str) -> Failure {
    Failure::Error(format!("key {} {what}", escaped(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_keys_have_one_length_and_the_order_of_their_numbers() {
        let keys: Vec<Vec<u8>> = (0..PERMANENT_KEYS).map(permanent).collect();
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == PERMANENT_KEY_BYTES));
        assert!(value_of(&keys[7], 3, 5).starts_with(&keys[7]));
    }
}
