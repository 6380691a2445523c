//! A full disk, and failing calls.

use super::model::World;
use super::*;
use crate::io::sim::{CrashMode, Fault, OpKind};

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
    for kind in [OpKind::Write, OpKind::SetLen] {
        for index in 0..calls_of(50, kind) {
            let mut world = World::new(50);
            world.disk.fail_at(index, Fault::Enospc, kind);
            let played = world.play(ACTS).and_then(|()| world.checkpoint());
            let played = match played {
                Err(Error::Full { .. }) => world.checkpoint(),
                other => other,
            };
            if let Err(error) = played {
                // Only a superblock that may be half written ends writing.
                assert!(matches!(&error, Error::Poisoned { .. }), "{error}");
                assert!(error.to_string().contains("superblock"), "{error}");
            } else {
                assert_audit(&world.store);
            }
            world.assert_recovers_now(index, CrashMode::Random);
        }
    }
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
