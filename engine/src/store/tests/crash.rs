//! Power cuts.

use super::model::World;
use super::*;
use crate::io::sim::{CrashMode, Record};

#[test]
fn traffic_without_a_crash_reads_back_what_was_written() {
    for seed in 0..6 {
        let mut world = World::new(seed);
        world.play(1500).expect("no faults");
        world.checkpoint().expect("no faults");
        world.assert_recovers_now(0, CrashMode::LoseAll);
        world.assert_recovers_now(0, CrashMode::KeepAll);
    }
}

#[test]
fn a_crash_before_or_after_any_sync_opens_the_newest_checkpoint() {
    for seed in 10..14 {
        let mut world = World::new(seed);
        world.disk.record_history(Record::Syncs);
        world.play(500).expect("no faults");
        for snapshot in world.disk.history() {
            world.assert_recovers(snapshot.crash(0, CrashMode::LoseAll), snapshot.op());
            for seed in 0..3 {
                world.assert_recovers(snapshot.crash(seed, CrashMode::Random), snapshot.op());
            }
        }
    }
}

#[test]
fn a_crash_after_any_write_opens_the_newest_checkpoint() {
    let mut world = World::new(20);
    world.disk.record_history(Record::Changes);
    world.play(300).expect("no faults");
    for (seed, snapshot) in world.disk.history().iter().enumerate() {
        for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
            world.assert_recovers(snapshot.crash(seed as u64, mode), snapshot.op());
        }
    }
}

#[test]
fn crash_after_crash_goes_on_from_what_was_recovered() {
    let mut world = World::new(30);
    for round in 0..12 {
        world.play(80).expect("no faults");
        world = world.assert_recovers_now(round, CrashMode::Random);
    }
    world.checkpoint().expect("no faults");
    world.assert_recovers_now(0, CrashMode::LoseAll);
}

/// With one slot lost the other is the only way to the checkpoint: the next publish must not begin with it.
#[test]
fn the_only_valid_superblock_is_not_written_first() {
    for lost in SLOT_BLOCKS {
        let world = World::new(35);
        let block = AlignedBuf::new(BLOCK_BYTES);
        let write = crate::io::Write { offset: lost.offset(), bytes: &block };
        world.disk.write(&[write]).expect("room");
        world.disk.sync().expect("no faults");
        let store = reopen(&world.disk);
        world.disk.record_history(Record::Changes);
        checkpoint(&store).expect("no faults");
        for snapshot in world.disk.history() {
            for seed in 0..20 {
                let found = snapshot.crash(seed, CrashMode::Random);
                reopen(&Arc::new(found));
            }
        }
    }
}

#[test]
fn a_power_cut_while_a_store_is_made_leaves_it_or_an_error() {
    let disk = SimDisk::new(40);
    disk.record_history(Record::Changes);
    let disk = Arc::new(disk);
    drop(new_store(&disk));
    for (seed, snapshot) in disk.history().iter().enumerate() {
        let found = Arc::new(snapshot.crash(seed as u64, CrashMode::Random));
        if let Ok(store) = Store::open(found, Path::new("data"), false) {
            assert_eq!(store.usage().pages, 0);
        }
    }
}
