//! Pages that are needed soon are read in batches: fewer waits, the same answers.

mod common;

use common::{Model, assert_same, assert_whole, least_cache_bytes, scaled, seed, value_of};
use latchkv::io::disk::BackendReport;
use latchkv::io::sim::{CrashMode, Fault, OpKind, SimMachine};
use latchkv::io::{Disk, Read, Write};
use latchkv::{Db, Durability, Error, Options, Tree};
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: u32 = 4096;

/// Counts how often a reader waits for the disk below: for one range, or for several at once.
#[derive(Debug)]
struct Counted {
    below: Arc<dyn Disk>,
    waits: AtomicU64,
}

impl Counted {
    fn waits(&self) -> u64 {
        // Relaxed, here and below: a count, nothing hangs on it.
        self.waits.load(Ordering::Relaxed)
    }
}

impl Disk for Counted {
    fn backend(&self) -> BackendReport {
        self.below.backend()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.below.read(offset, buf)
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Vec<io::Result<()>> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.below.read_many(reads)
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.below.write(writes)
    }

    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.below.len_bytes()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.below.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.below.allocate(offset, bytes)
    }
}

fn options() -> Options {
    Options::new()
        .page_bytes(PAGE_BYTES)
        .huge_pages(false)
        .cache_bytes(8 << 20)
        .checkpoint_bytes(u64::MAX)
        .durability(Durability::None)
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

/// The database of `machine`, none of its pages in memory, and its disk.
fn open(machine: &SimMachine, options: &Options) -> (Db, Tree, Arc<Counted>) {
    let disk = Arc::new(Counted { below: machine.data(), waits: AtomicU64::new(0) });
    let db = options.open_disks(disk.clone(), machine.log()).expect("it opens");
    let tree = db.tree("t").expect("it is there, or made");
    (db, tree, disk)
}

/// A closed database with a tree of `count` records, some thirty in a leaf.
fn stored(count: usize) -> (SimMachine, Model) {
    let machine = SimMachine::new(1);
    let (db, tree, _) = open(&machine, &options());
    let mut model = Model::new();
    for n in 0..count {
        let value = value_of(&key(n), 0, 100);
        tree.put(key(n), &value).expect("there is room");
        model.insert(key(n), value);
    }
    drop(tree);
    db.close().expect("the disk works");
    (machine, model)
}

/// Pages loaded, and those of them that were read ahead.
fn loads(db: &Db) -> (u64, u64) {
    let pool = db.stats().pool;
    (pool.loads, pool.loads_ahead)
}

#[test]
fn a_cold_scan_waits_once_for_many_leaves_whichever_way_it_goes() {
    let (machine, model) = stored(scaled(10_000, 3_000));
    for backward in [false, true] {
        let (db, tree, disk) = open(&machine, &options());
        let before = disk.waits();
        let mut found: Vec<_> = if backward {
            tree.iter().rev().map(|entry| entry.expect("readable").into_pair()).collect()
        } else {
            tree.iter().map(|entry| entry.expect("readable").into_pair()).collect()
        };
        let waits = disk.waits() - before;
        if backward {
            found.reverse();
        }
        assert!(found.into_iter().eq(model.clone()), "backward: {backward}");
        let (loads, ahead) = loads(&db);
        assert!(loads > model.len() as u64 / 40, "it was cold: {loads} loads");
        assert!(ahead > loads * 4 / 5 && waits < loads / 4, "{loads} loads, {waits} waits");
        // Everything is in memory: nothing more is read.
        assert_same(&tree, &model);
        assert_eq!(db.stats().pool.loads, loads);
    }
}

#[test]
fn a_scan_reads_nothing_past_its_bound() {
    let (machine, model) = stored(3_000);
    let mut random = fastrand::Rng::with_seed(seed(1));
    let few = options().cache_bytes(least_cache_bytes(PAGE_BYTES));
    for _ in 0..scaled(30, 6) {
        let from = random.usize(..1_500);
        let to = from + random.usize(200..1_200);
        let bounds = match random.u8(..4) {
            0 => (Bound::Included(key(from)), Bound::Excluded(key(to))),
            1 => (Bound::Excluded(key(from)), Bound::Included(key(to))),
            2 => (Bound::Unbounded, Bound::Excluded(key(to))),
            _ => (Bound::Included(key(from)), Bound::Unbounded),
        };
        let backward = random.bool();
        let scan = |options: &Options| {
            let (db, tree, _) = open(&machine, options);
            let range = tree.range::<Vec<u8>>(bounds.clone());
            let count = if backward { range.rev().count() } else { range.count() };
            assert_eq!(count, model.range(bounds.clone()).count());
            loads(&db)
        };
        // Sixteen frames are too few to read ahead.
        let (needed, none) = scan(&few);
        let (loads, ahead) = scan(&options());
        assert_eq!(none, 0);
        assert!(ahead > 0, "{bounds:?}, backward: {backward}");
        assert!(loads <= needed, "{bounds:?}, backward: {backward}: {loads} for {needed}");
    }
}

#[test]
fn a_short_range_reads_no_page_ahead() {
    let (machine, _) = stored(3_000);
    let (db, tree, _) = open(&machine, &options());
    for from in (0..2_000).step_by(400) {
        let found = tree.range(key(from)..).take(10).filter(|entry| entry.is_ok()).count();
        assert_eq!(found, 10);
        let found = tree.range(..key(from + 300)).rev().take(10).filter(|entry| entry.is_ok());
        assert_eq!(found.count(), 10);
    }
    let (loads, ahead) = loads(&db);
    assert!(loads > 10);
    assert_eq!(ahead, 0);
}

#[test]
fn a_scan_that_meets_a_failing_read_gives_what_is_before_it_and_all_of_it_later() {
    let (machine, model) = stored(2_000);
    let mut failed = 0;
    for index in 0..scaled(60, 20) as u64 {
        let (db, tree, _) = open(&machine, &options());
        machine.data().fail_at(index, Fault::Eio, OpKind::Read);
        let mut expected = model.iter();
        for entry in tree.iter() {
            match entry {
                Ok(entry) => {
                    let (key, value) = expected.next().expect("no record too many");
                    assert!(entry.key() == key && entry.value() == value);
                }
                Err(Error::Io { .. }) => {
                    failed += 1;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        machine.clear_faults();
        assert_same(&tree, &model);
        db.close().expect("the disk works");
    }
    assert!(failed > 0, "a read that somebody waited for failed");
}

#[test]
fn recovery_of_puts_into_a_cold_tree_waits_once_for_many_leaves() {
    let count = scaled(12_000, 6_000);
    let (machine, mut model) = stored(count);
    let mut random = fastrand::Rng::with_seed(seed(2));
    let crashed = {
        let (db, tree, _) = open(&machine, &options());
        for round in 1..=2 {
            for n in 0..count {
                // Every leaf changes, in no order of the keys.
                let n = (n * 7919 + random.usize(..3)) % count;
                if random.u8(..10) == 0 {
                    tree.delete(key(n)).expect("there is room");
                    model.remove(&key(n));
                } else {
                    let value = value_of(&key(n), round, 100);
                    tree.put(key(n), &value).expect("there is room");
                    model.insert(key(n), value);
                }
            }
        }
        db.flush().expect("the disk works");
        machine.crash(3, CrashMode::KeepAll)
    };
    let (db, tree, disk) = open(&crashed, &options());
    let (waits, (loads, ahead)) = (disk.waits(), loads(&db));
    assert!(loads > count as u64 / 40, "it was cold: {loads} loads");
    assert!(ahead > loads / 2, "{loads} loads, {ahead} ahead");
    assert!(waits < loads / 2, "{loads} loads, {waits} waits");
    assert_same(&tree, &model);
    assert_whole(&db);
}

#[test]
fn a_transaction_of_many_keys_in_a_cold_tree_waits_once_for_many_leaves() {
    let count = scaled(6_000, 3_000);
    let (machine, mut model) = stored(count);
    // Once in memory, once in runs.
    for write_set_bytes in [64 << 20, 64 << 10] {
        let options = options().write_set_bytes(write_set_bytes);
        let (db, tree, disk) = open(&machine, &options);
        let mut transaction = db.begin().expect("open");
        for n in (0..count).step_by(9) {
            let value = value_of(&key(n), write_set_bytes as u64, 100);
            transaction.put(&tree, key(n), &value).expect("there is room");
            model.insert(key(n), value);
        }
        let before = (disk.waits(), loads(&db));
        transaction.commit().expect("nobody else writes");
        let after = (disk.waits(), loads(&db));
        let (waits, loads) = (after.0 - before.0, after.1.0 - before.1.0);
        assert!(loads > count as u64 / 40, "it was cold: {loads} loads");
        assert!(waits < loads / 2, "{loads} loads, {waits} waits");
        assert_same(&tree, &model);
        drop(tree);
        db.close().expect("the disk works");
    }
}

#[test]
fn the_walk_of_a_check_reads_most_pages_ahead() {
    let (machine, _) = stored(3_000);
    let (db, _tree, _) = open(&machine, &options());
    assert_whole(&db);
    let (loads, ahead) = loads(&db);
    assert!(loads > 60 && ahead > loads * 3 / 4, "{loads} loads, {ahead} ahead");
}
