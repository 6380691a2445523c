use super::{fast, key, on, small};
use crate::common::{Model, assert_whole, seed, value_of, watchdog};
use latchkv::io::sim::SimMachine;
use latchkv::{Db, Durability, Entry, Error, Options, ReadAt, Snapshot, Tree, Usage};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn pairs(range: impl Iterator<Item = latchkv::Result<Entry>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.expect("readable").into_pair()).collect()
}

fn assert_sees(snapshot: &Snapshot<'_>, tree: &Tree, model: &Model) {
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(pairs(snapshot.iter(tree)), expected);
    let mut backward = pairs(snapshot.iter(tree).rev());
    backward.reverse();
    assert_eq!(backward, expected);
}

#[test]
fn a_snapshot_sees_what_was_there_whatever_is_put_deleted_and_inserted_later() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let mut model = Model::new();
    for number in (0..2000).step_by(2) {
        tree.put(key(number), b"before").expect("room");
        model.insert(key(number), b"before".to_vec());
    }
    let snapshot = db.snapshot().expect("open");
    for number in 0..2000 {
        match number % 5 {
            0 => drop(tree.delete(key(number)).expect("room")),
            1 | 2 => tree.put(key(number), b"after, and longer").expect("room"),
            _ => {}
        }
    }
    assert_sees(&snapshot, &tree, &model);
    for number in 0..2000 {
        let seen = snapshot.get(&tree, key(number)).expect("readable");
        assert_eq!(seen.as_ref(), model.get(&key(number)), "{number}");
    }
    let seen = pairs(snapshot.range(&tree, key(100)..=key(200)));
    assert_eq!(seen.len(), 51);
    drop(snapshot);
    assert_whole(&db);
}

#[test]
fn snapshots_of_many_moments_each_see_theirs_under_random_changes() {
    let seed = seed(0x5eed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let _watchdog = watchdog("snapshots under random changes");
    for cache_bytes in [4 << 20, 600_000] {
        let options = Options::new().page_bytes(4096).huge_pages(false).cache_bytes(cache_bytes);
        let db =
            on(&SimMachine::new(1), &options.durability(Durability::None).version_bytes(1 << 16));
        let tree = db.tree("t").expect("new");
        let mut model = Model::new();
        let mut held: Vec<(Snapshot<'_>, Model)> = Vec::new();
        for step in 0..6000u32 {
            let key = key(rng.u32(0..400));
            match rng.u32(0..10) {
                0..6 => {
                    let len = if rng.u32(0..50) == 0 { 5000 } else { rng.usize(0..200) };
                    let value = value_of(&key, u64::from(step), len);
                    tree.put(&key, &value).expect("room");
                    model.insert(key, value);
                }
                6..9 => {
                    let was = model.remove(&key).is_some();
                    assert_eq!(tree.delete(&key).expect("room"), was);
                }
                _ if held.len() < 6 => {
                    held.push((db.snapshot().expect("open"), model.clone()));
                }
                _ => {
                    let (snapshot, expected) = held.swap_remove(rng.usize(0..held.len()));
                    assert_sees(&snapshot, &tree, &expected);
                }
            }
            if step % 1500 == 0 {
                db.checkpoint().expect("room");
            }
        }
        for (snapshot, expected) in &held {
            assert_sees(snapshot, &tree, expected);
        }
        drop(held);
        assert_whole(&db);
    }
}

#[test]
fn what_snapshots_kept_goes_when_they_do_and_tombstones_with_it() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    for number in 0..5000 {
        tree.put(key(number), vec![7; 100]).expect("room");
    }
    let snapshot = db.snapshot().expect("open");
    for number in 0..5000 {
        tree.delete(key(number)).expect("room");
    }
    let held = db.stats().snapshots;
    assert_eq!(held.count, 1);
    assert!(held.versions >= 5000 && held.version_bytes >= 500_000, "{held:?}");
    assert_eq!(snapshot.iter(&tree).count(), 5000);
    drop(snapshot);
    let pages_before = db.stats().pool.frames - db.stats().pool.frames_free;
    // The background thread gets there by itself.
    let mut waited = 0;
    while db.stats().pool.frames - db.stats().pool.frames_free > pages_before / 4 {
        std::thread::sleep(Duration::from_millis(20));
        waited += 1;
        assert!(waited < 3000, "tombstones stay: {:?}", db.stats());
    }
    assert_eq!(tree.iter().count(), 0);
    assert_whole(&db);
}

#[test]
fn a_large_value_stays_readable_as_long_as_a_snapshot_sees_it_and_then_its_place_is_used_again() {
    let machine = SimMachine::new(3);
    let options = small().durability(Durability::None);
    let db = on(&machine, &options);
    let tree = db.tree("t").expect("new");
    let large = |generation| value_of(b"large", generation, 100_000);
    tree.put("large", large(0)).expect("room");
    let snapshot = db.snapshot().expect("open");
    for generation in 1..50 {
        tree.put("large", large(generation)).expect("room");
        db.checkpoint().expect("room");
        assert_eq!(snapshot.get(&tree, "large").expect("readable"), Some(large(0)));
    }
    drop(snapshot);
    let mut waited = 0;
    loop {
        for generation in 0..20 {
            tree.put("large", large(generation)).expect("room");
        }
        db.checkpoint().expect("room");
        let used = db.stats().store.used_blocks;
        if used < 400 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        waited += 1;
        assert!(waited < 1000, "{used} blocks are used");
    }
    assert_whole(&db);
}

#[test]
fn a_snapshot_of_before_a_clear_fails_and_one_of_after_it_does_not() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    tree.put("k", "v").expect("room");
    let before = db.snapshot().expect("open");
    tree.clear().expect("room");
    assert!(matches!(before.get(&tree, "k"), Err(Error::Usage(Usage::ClearedSince))));
    assert!(matches!(before.iter(&tree).next(), Some(Err(Error::Usage(Usage::ClearedSince)))));
    let after = db.snapshot().expect("open");
    tree.put("k", "new").expect("room");
    assert_eq!(after.get(&tree, "k").expect("readable"), None);
}

#[test]
fn a_bulk_load_is_not_seen_by_a_snapshot_of_before_it() {
    let db = fast();
    let tree = db.tree("t").expect("new");
    let before = db.snapshot().expect("open");
    tree.bulk_load((0..5000).map(|number| (key(number), "v"))).expect("sorted");
    assert_eq!(before.get(&tree, key(7)).expect("readable"), None);
    assert_eq!(before.iter(&tree).count(), 0);
    assert_eq!(before.iter(&tree).rev().count(), 0);
    let after = db.snapshot().expect("open");
    tree.put(key(7), "changed").expect("room");
    assert_eq!(after.get(&tree, key(7)).expect("readable").as_deref(), Some(&b"v"[..]));
    assert_eq!(before.get(&tree, key(7)).expect("readable"), None);
    assert_eq!(after.iter(&tree).count(), 5000);
}

#[test]
fn a_durable_snapshot_sees_nothing_that_a_power_cut_could_take() {
    let machine = SimMachine::new(5);
    let db = on(&machine, &small().durability(Durability::None));
    let tree = db.tree("t").expect("new");
    for number in 0..200 {
        tree.put(key(number), "v").expect("room");
        let snapshot = db.snapshot_at(ReadAt::Durable, None).expect("open");
        let seen: Vec<_> = pairs(snapshot.iter(&tree));
        let crashed = machine.crash(u64::from(number), latchkv::io::sim::CrashMode::LoseAll);
        let left = on(&crashed, &small());
        let left = match left.open_tree("t").expect("readable") {
            Some(tree) => pairs(tree.iter()),
            None => Vec::new(),
        };
        assert!(left.starts_with(&seen), "{} seen, {} left", seen.len(), left.len());
    }
}

#[test]
fn a_reader_that_gets_too_old_is_told_of_and_ended_by_name() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let options = small()
        .durability(Durability::None)
        .snapshot_age_max(Duration::from_millis(2000))
        .on_slow_reader(Duration::from_millis(100), move |reader| {
            tell.lock().expect("whole").push(reader);
        });
    let db = on(&SimMachine::new(1), &options);
    let tree = db.tree("t").expect("new");
    tree.put("k", "v").expect("room");
    let snapshot = db.snapshot_at(ReadAt::Visible, Some("backup")).expect("open");
    assert!(snapshot.get(&tree, "k").expect("young").is_some());
    let mut waited = 0;
    let error = loop {
        match snapshot.get(&tree, "k") {
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => break error,
        }
        waited += 1;
        assert!(waited < 6000, "it is never ended");
    };
    match error {
        Error::SnapshotEnded { name, age_max } => {
            assert_eq!(name.as_deref(), Some("backup"));
            assert_eq!(age_max, Duration::from_millis(2000));
        }
        other => panic!("{other:?}"),
    }
    let told = told.lock().expect("whole");
    assert!(told.iter().any(|reader| !reader.ended && reader.name.as_deref() == Some("backup")));
    assert!(told.iter().any(|reader| reader.ended));
}

#[test]
fn a_snapshot_keeps_the_database_open_once_it_owns_itself() {
    let db: Db = fast();
    let tree = db.tree("t").expect("new");
    tree.put("k", "v").expect("room");
    let snapshot = db.snapshot().expect("open").into_owned();
    drop(db);
    let seen = std::thread::spawn(move || snapshot.get(&tree, "k")).join().expect("no panic");
    assert_eq!(seen.expect("open").as_deref(), Some(&b"v"[..]));
}
