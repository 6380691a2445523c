//! Races that once went wrong, each with its story.

mod common;

use common::{assert_whole, open_on, place, tiny, watchdog};
use latchkv::io::sim::{Fault, OpKind, SimMachine};
use latchkv::{Error, Options};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn long_key(n: u64, len: usize) -> Vec<u8> {
    [vec![b'k'; len - 8], n.to_be_bytes().to_vec()].concat()
}

/// A put whose leaf was full asked for room in its parent, a clear took the parent's whole level away, and the put looked for
/// that level for ever.
#[test]
fn a_put_that_splits_ends_while_another_clears() {
    let _watch = watchdog("a_put_that_splits_ends_while_another_clears");
    let place = place();
    let db = Options::new().page_bytes(4096).huge_pages(false).cache_bytes(64 << 20);
    let db = db.checkpoint_bytes(u64::MAX).create(&place.path).expect("a new place");
    let tree = db.tree("t").expect("room");
    let puts = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(3);
            while !stop.load(Ordering::Relaxed) {
                tree.put(long_key(rng.u64(..), 500), [1; 400]).expect("room");
                puts.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..common::scaled(400, 20) {
            let before = puts.load(Ordering::Relaxed);
            while puts.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
            tree.clear().expect("room");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_whole(&db);
}

/// The trees were listed before the gate was closed, so a tree made or dropped in between was a false alarm; and a
/// page that an evictor moved while it was read looked damaged.
#[test]
fn a_check_beside_definitions_and_writers_finds_nothing() {
    let _watch = watchdog("a_check_beside_definitions_and_writers_finds_nothing");
    let place = place();
    let db = tiny(4096).checkpoint_bytes(64 << 10).create(&place.path).expect("a new place");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                for round in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("t{thread}-{}", round % 3);
                    let tree = db.tree(&name).expect("room");
                    for key in 0..100_u64 {
                        tree.put(key.to_be_bytes(), [thread as u8; 200]).expect("room");
                    }
                    assert_eq!(tree.iter().count(), 100);
                    if round % 2 == 0 {
                        tree.clear().expect("room");
                        assert_eq!(tree.iter().count(), 0);
                    }
                    assert!(db.drop_tree(&name).expect("room"));
                }
            });
        }
        for _ in 0..common::scaled(60, 5) {
            let report = db.check(|_| {}).expect("readable");
            assert!(report.is_ok(), "{:?}", report.problems);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_whole(&db);
}

/// A read that had been restarted often kept the pool's ticket while its closure ran.
#[test]
fn closures_of_reads_may_write_however_scarce_frames_are() {
    let _watch = watchdog("closures_of_reads_may_write_however_scarce_frames_are");
    let place = place();
    let db = tiny(4096).create(&place.path).expect("a new place");
    let tree = db.tree("t").expect("room");
    for key in 0..500_u64 {
        tree.put(key.to_be_bytes(), [7; 300]).expect("room");
    }
    std::thread::scope(|scope| {
        for seed in 0..16 {
            let tree = &tree;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                for _ in 0..common::scaled(100, 10) {
                    let (from, to) = (rng.u64(..500).to_be_bytes(), rng.u64(..500).to_be_bytes());
                    let put = tree.get_with(from, |value| tree.put(to, value)).expect("readable");
                    put.expect("there").expect("room");
                }
            });
        }
    });
    assert_whole(&db);
}

/// A put came down through the only page that could leave, whose frame the load of the leaf then took: it restarted for
/// ever. Reads did the same.
#[test]
fn puts_are_refused_and_reads_go_on_when_no_dirty_page_can_be_written() {
    let _watch = watchdog("puts_are_refused_and_reads_go_on_when_no_dirty_page_can_be_written");
    for fault in [Fault::Eio, Fault::Enospc] {
        let machine = SimMachine::new(5);
        let db = open_on(&machine, &tiny(4096)).expect("empty disks");
        let tree = db.tree("t").expect("room");
        for key in 0..2000_u64 {
            tree.put(key.to_be_bytes(), [1; 300]).expect("room");
        }
        db.checkpoint().expect("room");
        machine.data().fail_from(0, fault, OpKind::Change);
        let mut keys = (0..2000_u64).map(|n| (n * 37 % 2000).to_be_bytes());
        let failed = keys.find_map(|key| tree.put(key, [2; 300]).err());
        assert!(matches!(failed, Some(Error::Full { .. } | Error::Poisoned { .. })), "{failed:?}");
        for key in 0..2000_u64 {
            assert!(tree.get(key.to_be_bytes()).expect("readable").is_some());
        }
        machine.clear_faults();
        if fault == Fault::Enospc {
            tree.put(b"more", b"").expect("there is room again");
            db.checkpoint().expect("there is room again");
            assert_whole(&db);
        }
    }
}
