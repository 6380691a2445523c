//! What the hot paths cost, counted: read-modify-writes of shared memory and heap allocations of the calling
//! thread.
//!
//! A debug build counts each read-modify-write that `latchkv_latch::primitives` does; the allocator of this
//! test binary counts the allocations of each thread. Both are exact, so the tests are too. Uncontended,
//! pages resident.

mod common;

use common::counting::{Counting, allocations};
use common::simulated;
use latchkv::{
    Db, Durability, Name, Options, PageHashLatches, PasswordCost, Session, SessionOptions, Tree,
    names_hashed,
};
use latchkv_latch::primitives::rmw_count;

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

/// What an act costs if the database's own thread, which takes the same latches now and then, does not meet it: the
/// least of several rounds. A round is many acts, so what each of them costs shows.
fn cost_undisturbed(mut act: impl FnMut(u32)) -> Cost {
    let costs: Vec<Cost> = (0..ROUNDS).map(|round| cost(|| act(round))).collect();
    let least = |part: fn(&Cost) -> u64| costs.iter().map(part).min().expect("some rounds");
    Cost { rmws: least(|cost| cost.rmws), allocations: least(|cost| cost.allocations) }
}

const ROUNDS: u32 = 10;
const KEYS: u32 = 5000;

fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

/// A tree of three levels, wholly resident and clean, which every path was used on once.
fn resident(options: Options) -> (Db, Tree) {
    let options = options
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(16 << 20)
        .checkpoint_bytes(u64::MAX)
        .durability(Durability::None);
    let db = simulated(&options);
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

/// What one change of a record costs, whatever the tree: taking and releasing the latch of its leaf, and that of
/// its stripe; reserving its place in the log; moving `visible` past it.
const CHANGE_RMWS: u64 = 2 + 2 + 1 + 1;
/// Beside that, if there was a record: taking and releasing the latch of the shard that keeps it.
const KEEP_RMWS: u64 = 2;

#[test]
fn an_update_in_place_does_eight_read_modify_writes_and_allocates_nothing() {
    let (_db, tree) = resident(Options::new());
    // The first change of each page since the checkpoint has more to do.
    for i in 0..KEYS {
        tree.put(key(i), [1; 100]).expect("room");
    }
    warm(&tree);
    let count = KEYS / ROUNDS;
    let update = cost_undisturbed(|round| {
        for i in 0..count {
            tree.put(key(round * count + i), [2; 100]).expect("room");
        }
    });
    let rmws = (CHANGE_RMWS + KEEP_RMWS) * u64::from(count);
    assert_eq!(update, Cost { rmws, allocations: 0 }, "{count} updates");
}

#[test]
fn an_insert_and_a_delete_without_a_split_cost_what_an_update_does() {
    let (db, tree) = resident(Options::new());
    let near = |i: u32| [key(i * 50), [0; 4]].concat_in_place();
    // Keeps tombstones where they are.
    let snapshot = db.snapshot().expect("open");
    // Pages far apart; each has the room after the first round.
    for i in 0..KEYS / 50 {
        tree.put(near(i), [1; 20]).expect("room");
        assert!(tree.delete(near(i)).expect("room"));
    }
    warm(&tree);
    // Each round in the leaves of its own.
    let each = |round: u32| (0..KEYS / 50).filter(move |i| i % ROUNDS == round);
    let count = u64::from(KEYS / 50 / ROUNDS);
    let rmws = (CHANGE_RMWS + KEEP_RMWS) * count;
    let inserts = cost_undisturbed(|round| {
        for i in each(round) {
            assert!(tree.insert(near(i), [3; 20]).expect("room"));
        }
    });
    assert_eq!(inserts, Cost { rmws, allocations: 0 }, "inserts over tombstones");
    let deletes = cost_undisturbed(|round| {
        for i in each(round) {
            assert!(tree.delete(near(i)).expect("room"));
        }
    });
    // Each notes its key, for the tombstone to be removed later.
    assert_eq!(deletes, Cost { rmws, allocations: count }, "deletes");
    let never_there = |i: u32| [key(i * 50), [1; 4]].concat_in_place();
    let inserts = cost_undisturbed(|round| {
        for i in each(round) {
            tree.put(never_there(i), [3; 8]).expect("room");
        }
    });
    assert_eq!(inserts, Cost { rmws: CHANGE_RMWS * count, allocations: 0 }, "inserts");
    drop(snapshot);
}

#[test]
fn a_snapshot_begins_reads_and_ends_without_a_read_modify_write_or_an_allocation() {
    let (db, tree) = resident(Options::new());
    drop(db.snapshot().expect("the first of this thread"));
    let begun = cost(|| {
        for _ in 0..100 {
            drop(db.snapshot().expect("open"));
        }
    });
    assert_eq!(begun, FREE, "begin and end");
    let snapshot = db.snapshot().expect("open");
    let read = |expected: usize| {
        for i in 0..KEYS {
            let len = snapshot.get_with(&tree, key(i), <[u8]>::len).expect("readable");
            assert_eq!(len, Some(expected));
        }
    };
    let older = cost(|| read(100));
    assert_eq!(older, FREE, "records older than the snapshot");
    // Every page is newer than the snapshot now, and half of its records.
    for i in (0..KEYS).step_by(2) {
        tree.put(key(i), [7; 50]).expect("room");
    }
    read(100);
    let odd = cost(|| {
        for i in (1..KEYS).step_by(2) {
            assert!(snapshot.contains(&tree, key(i)).expect("readable"));
        }
    });
    assert_eq!(odd, FREE, "records older than the snapshot among newer ones");
    let even = cost_undisturbed(|_| read(100));
    // Looking up what a record was takes and releases the latch of its shard, and copies the value.
    let count = u64::from(KEYS / 2);
    assert_eq!(even, Cost { rmws: KEEP_RMWS * count, allocations: count }, "old versions");
}

#[test]
fn a_transaction_that_only_reads_does_no_read_modify_write_and_allocates_nothing() {
    let (db, tree) = resident(Options::new());
    let run = || {
        let transaction = db.begin().expect("open");
        for i in 0..100 {
            assert!(transaction.contains(&tree, key(i)).expect("readable"));
        }
        transaction.commit().expect("nothing to write");
    };
    run();
    assert_eq!(cost(run), FREE);
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

/// A session of an administrator, of a tree that is resident.
fn session() -> (Db, Tree, Session) {
    let (db, tree) = resident(Options::new());
    let options = SessionOptions::new().password_cost(PasswordCost::least());
    let sessions = db.sessions_with(options).expect("the first to ask");
    sessions.create_administrator("root", b"password").expect("no accounts yet");
    let session = sessions.login("root", b"password").expect("right");
    (db, tree, session)
}

#[test]
fn a_point_read_of_a_session_does_no_read_modify_write_allocates_nothing_and_hashes_no_ready_name()
{
    let (_db, tree, session) = session();
    let open = session.tree("t").expect("may");
    let name = Name::new("t").expect("a name");
    session.get_with(&name, key(0), <[u8]>::len).expect("readable");
    warm(&tree);
    let hashed = names_hashed();
    let by_tree = cost(|| {
        for i in 0..KEYS {
            assert_eq!(open.get_with(key(i), <[u8]>::len).expect("readable"), Some(100));
        }
    });
    assert_eq!(by_tree, FREE, "{KEYS} reads by an open tree");
    let by_name = cost(|| {
        for i in 0..KEYS {
            let read = session.get_with(&name, key(i), <[u8]>::len);
            assert_eq!(read.expect("readable"), Some(100));
        }
    });
    assert_eq!(by_name, FREE, "{KEYS} reads by a ready name");
    assert_eq!(names_hashed(), hashed, "nothing was hashed");
    let by_text = cost(|| {
        for i in 0..KEYS {
            let read = session.get_with("t", key(i), <[u8]>::len);
            assert_eq!(read.expect("readable"), Some(100));
        }
    });
    assert_eq!(by_text, FREE, "{KEYS} reads by text");
    assert_eq!(names_hashed() - hashed, u64::from(KEYS), "each text was hashed once");
}

#[test]
fn a_change_of_a_session_costs_what_a_plain_one_does() {
    let (_db, tree, session) = session();
    let open = session.tree("t").expect("may");
    let name = Name::new("t").expect("a name");
    for i in 0..KEYS {
        tree.put(key(i), [1; 100]).expect("room");
    }
    session.put(&name, key(0), [1; 100]).expect("room");
    warm(&tree);
    let count = KEYS / ROUNDS;
    let rmws = (CHANGE_RMWS + KEEP_RMWS) * u64::from(count);
    let by_tree = cost_undisturbed(|round| {
        for i in 0..count {
            open.put(key(round * count + i), [2; 100]).expect("room");
        }
    });
    assert_eq!(by_tree, Cost { rmws, allocations: 0 }, "{count} updates by an open tree");
    let by_name = cost_undisturbed(|round| {
        for i in 0..count {
            session.put(&name, key(round * count + i), [3; 100]).expect("room");
        }
    });
    assert_eq!(by_name, Cost { rmws, allocations: 0 }, "{count} updates by a ready name");
}
