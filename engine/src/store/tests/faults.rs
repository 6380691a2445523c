//! A full disk, and failing calls.

use super::model::World;
use super::*;
use crate::io::sim::{CrashMode, Fault, OpKind, Record};

const ACTS: usize = 120;

/// Calls of that kind that the traffic of this seed makes.
fn calls_of(seed: u64, kind: OpKind) -> u64 {
    let mut world = World::new(seed);
    let before = world.disk.op_count(kind);
    world.play(ACTS).expect("no faults");
    world.checkpoint().expect("no faults");
    world.disk.op_count(kind) - before
}

#[test]
fn a_full_disk_at_any_call_loses_nothing_and_the_store_goes_on() {
    for kind in [OpKind::Write, OpKind::SetLen, OpKind::Allocate] {
        for index in 0..calls_of(50, kind) {
            let mut world = World::new(50);
            world.disk.fail_at(index, Fault::Enospc, kind);
            let played = world.play(ACTS).and_then(|()| world.checkpoint());
            let played = match played {
                Err(Error::Full { .. }) => world.checkpoint(),
                other => other,
            };
            played.expect("there is room again");
            assert_audit(&world.store);
            for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
                world.assert_recovers_now(index, mode);
            }
        }
    }
}

/// A full disk at the superblock may have written it all the same: what it reaches must stay as it is.
#[test]
fn a_superblock_refused_by_a_full_disk_leaves_two_checkpoints_whole_until_the_next() {
    let mut found_refused = 0;
    for seed in 60..84 {
        let mut world = World::new(seed);
        world.play(40).expect("no faults");
        world.checkpoint().expect("no faults");
        let [mut world, mut twin] =
            [(); 2].map(|()| world.assert_recovers_now(seed, CrashMode::KeepAll));
        twin.play(20).expect("no faults");
        world.play(20).expect("no faults");
        let before = twin.disk.op_count(OpKind::Write);
        twin.checkpoint().expect("no faults");
        // The last one copies the superblock.
        let superblock = twin.disk.op_count(OpKind::Write) - before - 2;
        world.disk.fail_at(superblock, Fault::Enospc, OpKind::Write);
        world.disk.record_history(Record::Changes);
        assert!(matches!(world.checkpoint(), Err(Error::Full { .. })));
        let refused = world.refused_lsn().expect("it came to the superblock");
        world.store.health().expect("a full disk poisons nothing");
        world.play(ACTS).expect("no faults");
        for (number, snapshot) in world.disk.history().iter().enumerate() {
            for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
                let disk = snapshot.crash(number as u64, mode);
                let found = world.assert_recovers(disk, snapshot.op());
                found_refused += u32::from(found.store.checkpoint_lsn() == refused);
            }
        }
    }
    assert!(found_refused > 0, "no refused superblock was ever found");
}

#[test]
fn any_failed_write_or_sync_poisons_and_the_next_open_recovers() {
    for kind in [OpKind::Write, OpKind::Sync] {
        for index in 0..calls_of(51, kind) {
            let mut world = World::new(51);
            world.disk.fail_at(index, Fault::Eio, kind);
            let played = world.play(ACTS).and_then(|()| world.checkpoint());
            let error = played.expect_err("every call of the traffic matters");
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            assert!(matches!(world.store.health(), Err(Error::Poisoned { .. })));
            let changes = world.disk.op_count(OpKind::Change);
            assert!(matches!(checkpoint(&world.store), Err(Error::Poisoned { .. })));
            assert!(world.store.write_value(b"more").is_err());
            assert_eq!(
                world.disk.op_count(OpKind::Change),
                changes,
                "nothing is written or synced after a failure"
            );
            world.assert_clean_frames_read_back();
            world.assert_recovers_now(index, CrashMode::Random);
        }
    }
}

#[test]
fn a_failed_read_is_an_error_of_that_read_alone() {
    let disk = Arc::new(SimDisk::new(52));
    let store = new_store(&disk);
    let page = store.allocate_page().expect("room");
    put(&store, page, 1, store.epoch()).expect("room");
    disk.fail_at(0, Fault::Eio, OpKind::Read);
    let mut buf = AlignedBuf::new(PAGE_BYTES as usize);
    assert!(matches!(store.read_page(page, &mut buf), Err(Error::Io { .. })));
    assert!(holds(&store, page, 1));
    store.health().expect("reads do not poison");
}

#[test]
fn a_store_on_a_full_disk_goes_on_when_there_is_room() {
    let disk = Arc::new(SimDisk::new(53));
    let store = new_store(&disk);
    let pages: Vec<PageId> = (0..20).map(|_| store.allocate_page().expect("room")).collect();
    for &page in &pages {
        put(&store, page, 4, store.epoch()).expect("room");
    }
    checkpoint(&store).expect("room");
    disk.set_capacity(Some(disk.len_bytes().expect("a length")));
    let mut refused = 0;
    let mut attempt = |done: Result<()>| match done {
        Ok(()) => {}
        Err(Error::Full { .. }) => refused += 1,
        Err(error) => panic!("{error}"),
    };
    for stamp in (7..200).step_by(4) {
        for &page in &pages {
            attempt(put(&store, page, stamp, store.epoch()).map(drop));
        }
        attempt(checkpoint(&store));
        attempt(store.write_value(&vec![1; 300_000]).map(drop));
        assert_audit(&store);
    }
    assert!(refused > 0, "the disk was to be filled");
    store.health().expect("a full disk poisons nothing");
    let reopened = reopen(&disk);
    assert_audit(&reopened);
    drop(reopened);
    disk.set_capacity(None);
    for &page in &pages {
        put(&store, page, 1003, store.epoch()).expect("room again");
    }
    checkpoint(&store).expect("room again");
    let reopened = reopen(&disk);
    assert!(pages.iter().all(|&page| holds(&reopened, page, 1003)));
}
