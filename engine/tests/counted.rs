//! What the hot paths cost, counted: read-modify-writes of shared memory and heap allocations of the calling
//! thread.
//!
//! A debug build counts each read-modify-write that `latchkv_latch::primitives` does; the allocator of this
//! test binary counts the allocations of each thread. Both are exact, so the tests are too. Uncontended,
//! pages resident.

mod common;

use common::counting::{Counting, allocations};
use latchkv::io::SimDisk;
use latchkv::{Db, Options, PageHashLatches, Tree};
use latchkv_latch::primitives::rmw_count;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// What an act cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cost {
    rmws: u64,
    allocations: u64,
}

const FREE: Cost = Cost { rmws: 0, allocations: 0 };

fn cost(act: impl FnOnce()) -> Cost {
    let (rmws, before) = (rmw_count(), allocations());
    act();
    Cost { rmws: rmw_count() - rmws, allocations: allocations() - before }
}

const KEYS: u32 = 5000;

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

/// A tree of three levels, wholly resident and clean, which every path was used on once.
fn resident(options: Options) -> (Db, Tree) {
    let options =
        options.page_bytes(4096).huge_pages(false).cache_bytes(16 << 20).checkpoint_bytes(u64::MAX);
    let db = options.open_disk(Arc::new(SimDisk::new(1))).expect("an empty disk");
    let tree = db.tree("t").expect("made");
    for i in 0..KEYS {
        tree.put(key(i), [i as u8; 100]).expect("room");
    }
    db.checkpoint().expect("room");
    warm(&tree);
    (db, tree)
}

/// Uses every page, so that hints are repaired, reference bits set and scratch memory is there.
fn warm(tree: &Tree) {
    read_all(tree);
    read_all(tree);
}

fn read_all(tree: &Tree) {
    for i in 0..KEYS {
        assert_eq!(tree.get_with(key(i), <[u8]>::len).expect("readable"), Some(100));
    }
}

#[test]
fn a_point_read_does_no_read_modify_write_and_allocates_nothing() {
    let (_db, tree) = resident(Options::new());
    let read = cost(|| read_all(&tree));
    assert_eq!(read, FREE, "{KEYS} reads");
    let absent = cost(|| {
        for i in 0..KEYS {
            assert!(
                tree.get_with([key(i), [1; 4]].concat_in_place(), |_| ())
                    .expect("readable")
                    .is_none()
            );
        }
    });
    assert_eq!(absent, FREE, "reads of absent keys");
    let contains = cost(|| {
        for i in 0..KEYS {
            assert!(tree.contains(key(i)).expect("readable"));
        }
    });
    assert_eq!(contains, FREE, "contains");
}

/// Joins two arrays without a heap.
trait ConcatInPlace {
    fn concat_in_place(self) -> [u8; 8];
}

impl ConcatInPlace for [[u8; 4]; 2] {
    fn concat_in_place(self) -> [u8; 8] {
        let [[a, b, c, d], [e, f, g, h]] = self;
        [a, b, c, d, e, f, g, h]
    }
}

#[test]
fn a_point_read_through_the_page_hash_does_no_read_modify_write_either() {
    let (db, tree) = resident(Options::new().frame_hints(false));
    let hits = db.stats().pool.hash_hits;
    let read = cost(|| read_all(&tree));
    assert_eq!(read, FREE);
    let hits = db.stats().pool.hash_hits - hits;
    assert!(hits >= u64::from(KEYS), "only {hits} of {KEYS} reads asked the page hash");
}

#[test]
fn latches_outside_of_the_cells_cost_two_read_modify_writes_a_look_up() {
    let outside = PageHashLatches::Outside { count: 64 };
    let (db, tree) = resident(Options::new().frame_hints(false).page_hash_latches(outside));
    let hits = db.stats().pool.hash_hits;
    let read = cost(|| read_all(&tree));
    let hits = db.stats().pool.hash_hits - hits;
    assert_eq!(
        read,
        Cost { rmws: 2 * hits, allocations: 0 },
        "what it is there to measure against"
    );
}

#[test]
fn an_update_in_place_does_two_read_modify_writes_and_allocates_nothing() {
    let (_db, tree) = resident(Options::new());
    // The first change of each page since the checkpoint has more to do.
    for i in 0..KEYS {
        tree.put(key(i), [1; 100]).expect("room");
    }
    warm(&tree);
    let update = cost(|| {
        for i in 0..KEYS {
            tree.put(key(i), [2; 100]).expect("room");
        }
    });
    // Taking the leaf's latch, and releasing it.
    let expected = Cost { rmws: 2 * u64::from(KEYS), allocations: 0 };
    assert_eq!(update, expected, "{KEYS} updates");
}

#[test]
fn an_insert_and_a_delete_without_a_split_do_two_read_modify_writes_each() {
    let (_db, tree) = resident(Options::new());
    let near = |i: u32| [key(i * 50), [0; 4]].concat_in_place();
    // Pages far apart; each has the room after the first round.
    for i in 0..KEYS / 50 {
        tree.put(near(i), [1; 20]).expect("room");
        assert!(tree.delete(near(i)).expect("room"));
    }
    warm(&tree);
    let count = u64::from(KEYS / 50);
    let inserts = cost(|| {
        for i in 0..KEYS / 50 {
            assert!(tree.insert(near(i), [3; 20]).expect("room"));
        }
    });
    assert_eq!(inserts, Cost { rmws: 2 * count, allocations: 0 }, "inserts");
    let deletes = cost(|| {
        for i in 0..KEYS / 50 {
            assert!(tree.delete(near(i)).expect("room"));
        }
    });
    assert_eq!(deletes, Cost { rmws: 2 * count, allocations: 0 }, "deletes");
}

#[test]
fn a_scan_does_no_read_modify_write_for_each_record() {
    let (_db, tree) = resident(Options::new());
    let lend = |tree: &Tree| {
        let (mut range, mut bytes) = (tree.iter(), 0);
        while let Some(record) = range.next_borrowed() {
            bytes += record.expect("readable").1.len();
        }
        assert_eq!(bytes, KEYS as usize * 100);
    };
    let scan = |tree: &Tree| {
        let mut bytes = 0;
        for entry in tree.iter() {
            bytes += entry.expect("readable").value().len();
        }
        assert_eq!(bytes, KEYS as usize * 100);
    };
    for scan in [&scan as &dyn Fn(&Tree), &lend] {
        scan(&tree);
        let cost = cost(|| scan(&tree));
        assert_eq!(cost.rmws, 0, "{cost:?}");
        // A few for each leaf, of which there are more than a hundred.
        assert!(cost.allocations <= u64::from(KEYS) / 10, "{cost:?}");
    }
}
