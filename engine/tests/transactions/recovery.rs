use super::{key, on};
use crate::common::{Model, assert_same, assert_whole, value_of};
use latchkv::io::sim::{CrashMode, SimMachine};
use latchkv::{Durability, Options, WriteBatch};

fn options() -> Options {
    Options::new().page_bytes(4096).huge_pages(false).cache_bytes(2 << 20).log_slot_bytes(64 << 10)
}

#[test]
fn every_commit_that_was_acknowledged_as_synced_survives_a_power_cut() {
    let machine = SimMachine::new(11);
    let db = on(&machine, &options());
    let tree = db.tree("t").expect("new");
    let mut model = Model::new();
    for number in 0..300u32 {
        let key = key(number % 70);
        if number % 7 == 3 {
            let was = model.remove(&key).is_some();
            assert_eq!(tree.delete(&key).expect("room"), was);
        } else {
            let len = if number % 50 == 0 { 20_000 } else { 50 };
            let value = value_of(&key, u64::from(number), len);
            tree.put(&key, &value).expect("room");
            model.insert(key, value);
        }
        if number == 150 {
            db.checkpoint().expect("room");
        }
        if number % 13 == 0 {
            for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
                let after = machine.crash(u64::from(number), mode);
                let db = on(&after, &options());
                assert_same(&db.open_tree("t").expect("readable").expect("there"), &model);
                assert_whole(&db);
            }
        }
    }
}

#[test]
fn recovery_that_is_interrupted_again_and_again_ends_with_the_same() {
    let machine = SimMachine::new(12);
    let db = on(&machine, &options());
    let tree = db.tree("t").expect("new");
    let mut model = Model::new();
    for number in 0..400u32 {
        let value = value_of(&key(number), 1, 300);
        tree.put(key(number), &value).expect("room");
        model.insert(key(number), value);
    }
    let mut machine = machine.crash(1, CrashMode::Random);
    for round in 0..5 {
        machine.record_history(latchkv::io::sim::Record::Changes);
        drop(on(&machine, &options()));
        let moments = machine.history();
        let moment = &moments[moments.len() * round / 5];
        machine = moment.crash(round as u64, CrashMode::Random);
    }
    let db = on(&machine, &options());
    assert_same(&db.open_tree("t").expect("readable").expect("there"), &model);
    assert_whole(&db);
}

#[test]
fn definitions_survive_as_they_were_made() {
    let machine = SimMachine::new(13);
    let db = on(&machine, &options());
    for name in ["kept", "dropped", "renamed", "cleared", "reborn"] {
        let tree = db.tree(name).expect("new");
        for number in 0..500 {
            tree.put(key(number), name).expect("room");
        }
    }
    db.drop_tree("dropped").expect("there");
    db.rename_tree("renamed", "new name").expect("free");
    let cleared = db.open_tree("cleared").expect("readable").expect("there");
    cleared.clear().expect("room");
    cleared.put("after", "clear").expect("room");
    db.drop_tree("reborn").expect("there");
    db.tree("reborn").expect("new").put("second", "life").expect("room");
    for mode in [CrashMode::LoseAll, CrashMode::KeepAll] {
        let db = on(&machine.crash(3, mode), &options());
        assert_eq!(db.trees().expect("readable"), ["cleared", "kept", "new name", "reborn"]);
        let len = |name| db.open_tree(name).expect("readable").expect("there").len().expect("open");
        assert_eq!([len("cleared"), len("kept"), len("new name"), len("reborn")], [1, 500, 500, 1]);
        assert_whole(&db);
    }
}

#[test]
fn a_batch_is_there_whole_or_not_at_all_wherever_the_power_goes() {
    let machine = SimMachine::new(14);
    let options = options().durability(Durability::None).log_buffer_bytes(64 << 10);
    let db = on(&machine, &options);
    let tree = db.tree("t").expect("new");
    db.sync().expect("room");
    machine.record_history(latchkv::io::sim::Record::Changes);
    for generation in 0..6u64 {
        let mut batch = WriteBatch::new();
        // The later ones do not fit one record.
        for number in 0..40 + 100 * generation as u32 {
            batch.put(&tree, key(number), generation.to_le_bytes().repeat(8)).expect("small");
        }
        db.write(&batch).expect("room");
        if generation % 2 == 0 { db.flush() } else { db.sync() }.expect("room");
    }
    let moments = machine.history();
    assert!(moments.len() >= 6);
    for (index, moment) in moments.iter().enumerate() {
        for seed in 0..4 {
            let after = moment.crash(seed + index as u64 * 100, CrashMode::Random);
            let db = on(&after, &options);
            let tree = db.open_tree("t").expect("readable").expect("synced before");
            let len = tree.len().expect("open") as u32;
            if len > 0 {
                let generation = u64::from((len - 40) / 100);
                assert_eq!(len, 40 + 100 * generation as u32, "a batch in part");
                for entry in tree.iter() {
                    let entry = entry.expect("readable");
                    assert_eq!(entry.value(), generation.to_le_bytes().repeat(8));
                }
            }
            assert_whole(&db);
        }
    }
}

#[test]
fn a_bulk_load_is_durable_when_it_returns_and_what_follows_it_never_survives_it() {
    let machine = SimMachine::new(15);
    let db = on(&machine, &options().durability(Durability::None));
    let tree = db.tree("t").expect("new");
    let beside = db.tree("beside").expect("new");
    db.sync().expect("room");
    machine.record_history(latchkv::io::sim::Record::Changes);
    tree.bulk_load((0..3000).map(|number| (key(number), "loaded"))).expect("sorted");
    beside.put("after", "the load").expect("room");
    db.sync().expect("room");
    for (index, moment) in machine.history().iter().enumerate() {
        let db = on(&moment.crash(index as u64, CrashMode::Random), &options());
        let len = |name| db.open_tree(name).expect("readable").expect("there").len().expect("open");
        let (loaded, after) = (len("t"), len("beside"));
        assert!(loaded == 0 || loaded == 3000, "{loaded}");
        assert!(after == 0 || loaded == 3000, "moment {index}");
        assert_whole(&db);
    }
    let db = on(&machine.crash(1, CrashMode::LoseAll), &options());
    let len = |name| db.open_tree(name).expect("readable").expect("there").len().expect("open");
    assert_eq!((len("t"), len("beside")), (3000, 1));
}

#[test]
fn the_log_is_cut_by_checkpoints_and_opening_reads_only_what_is_behind_the_last() {
    let machine = SimMachine::new(16);
    let options = options()
        .durability(Durability::None)
        .log_slot_bytes(64 << 10)
        .log_buffer_bytes(64 << 10)
        .checkpoint_log_bytes(256 << 10);
    let db = on(&machine, &options);
    let tree = db.tree("t").expect("new");
    let snapshot = db.snapshot().expect("an old reader");
    let mut longest = 0;
    for round in 0..200u64 {
        for number in 0..100 {
            tree.put(key(number), value_of(&key(number), round, 200)).expect("room");
        }
        longest = longest.max(db.stats().log.expect("written to").file_bytes);
    }
    assert!(longest < 4 << 20, "the log grew to {longest} bytes");
    assert_eq!(snapshot.iter(&tree).count(), 0);
    drop(snapshot);
    db.close().expect("room");
    let db = on(&machine, &options);
    let log = db.stats().log.expect("written to");
    assert_eq!(log.live_bytes, 0, "{log:?}");
}

/// Changes of the empty key without a value take no bytes of what recovery gathers, and were once sorted by those.
#[test]
fn of_many_changes_of_the_empty_key_recovery_applies_the_last() {
    for rounds in 1000..1004u32 {
        let machine = SimMachine::new(13);
        let db = on(&machine, &options().durability(Durability::None));
        let tree = db.tree("t").expect("new");
        db.checkpoint().expect("room");
        let mut model = Model::new();
        for round in 0..rounds {
            tree.put(key(round % 97), "value").expect("room");
            model.insert(key(round % 97), b"value".to_vec());
            if round % 2 == 0 {
                tree.put("", "").expect("room");
                model.insert(Vec::new(), Vec::new());
            } else {
                tree.delete("").expect("room");
                model.remove(&b""[..]);
            }
            tree.put("", "x").expect("room");
            tree.delete("").expect("room");
            if round % 2 == 0 {
                tree.put("", "").expect("room");
            }
        }
        db.sync().expect("room");
        let again = on(&machine.crash(1, CrashMode::LoseAll), &options());
        assert_same(&again.open_tree("t").expect("readable").expect("there"), &model);
        assert_whole(&again);
    }
}
