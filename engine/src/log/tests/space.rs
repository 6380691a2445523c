//! Growth, recycling, and a full disk.

use super::super::slots::Geometry;
use super::*;
use crate::io::sim::{Fault, OpKind};

pub(super) fn file_bytes(disk: &SimDisk) -> u64 {
    disk.len_bytes().expect("a healthy disk")
}

#[test]
fn with_checkpoints_the_file_stays_at_a_few_slots() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..600 {
        commit_durably(&log, &body(number, 3000)).expect("a healthy disk");
        log.background().expect("a healthy disk");
        if number % 20 == 19 {
            log.release(log.tail());
        }
        assert!(file_bytes(&disk) <= 5 * SMALL.slot_bytes);
    }
    let usage = log.stats();
    assert!(usage.tail > 25 * SMALL.slot_bytes, "slots went round many times");
    assert_eq!(usage.file_bytes, file_bytes(&disk));
    assert_eq!(usage.live_bytes, 0);
}

#[test]
fn a_long_log_is_cut_after_a_checkpoint() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..300 {
        commit(&log, &body(number, 3000)).expect("room");
    }
    log.sync().expect("a healthy disk");
    let long = file_bytes(&disk);
    assert!(long >= 14 * SMALL.slot_bytes);
    assert!(log.stats().live_bytes > 300 * 3000);
    // The end of the file is in use until the stream has gone on into slots at its start.
    log.release(log.tail());
    for number in 0..50 {
        commit_durably(&log, &body(number, 3000)).expect("a healthy disk");
    }
    let checkpoint = log.tail();
    log.release(checkpoint);
    assert!(file_bytes(&disk) <= 6 * SMALL.slot_bytes, "{} of {long}", file_bytes(&disk));
    let last = commit_durably(&log, b"last").expect("a healthy disk");
    assert_eq!(contents(&after_kill(&disk), checkpoint).expect("whole").len(), 1);
    assert_eq!(log.durable(), last);
}

#[test]
fn the_place_of_a_checkpoint_at_the_end_of_a_part_is_kept() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let geometry = Geometry::new(SMALL.slot_bytes);
    for part in 2..8 {
        // Records that end just with the part.
        let start = geometry.start(part);
        while start - log.tail() > 16_000 {
            commit_durably(&log, &body(part, 5000)).expect("a healthy disk");
        }
        let left = start - log.tail() - 32;
        commit_durably(&log, &body(part, left as usize)).expect("a healthy disk");
        assert_eq!(log.tail(), start);
        log.release(start);
        assert_eq!(contents(&after_kill(&disk), start).expect("its place is there"), []);
        let crashed = Arc::new(disk.crash(part, CrashMode::Random));
        let (found, _) = recover(&crashed, start).expect("its place is there");
        assert_eq!(found, []);
        // Even when the next parts have taken all slots that are free, and their headers were torn.
        log.background().expect("a healthy disk");
        commit(&log, b"next").expect("room");
        let slots = open(&disk, start).expect("its place is there").slots;
        assert!(slots.header_of(part - 1).is_some(), "the part that ends there");
    }
}

#[test]
fn a_disk_that_is_full_refuses_commits_and_goes_on_when_there_is_room() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    disk.set_capacity(Some(2 * SMALL.slot_bytes + 9000));
    let mut acknowledged = 0;
    let full = loop {
        match commit_durably(&log, &body(acknowledged, 3000)) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
    assert!(acknowledged > 35, "both slots were used");
    assert_eq!(file_bytes(&disk), 2 * SMALL.slot_bytes, "what was added in vain is given back");
    let tail = log.tail();
    assert!(matches!(log.reserve(3000), Err(Error::Full { .. })), "again");
    assert_eq!(log.tail(), tail, "nothing was reserved");
    assert!(log.health().is_ok());
    log.background().expect("a full disk does not stop it");
    commit_durably(&log, &body(0, 30)).expect("what fits goes on");
    disk.set_capacity(None);
    commit_durably(&log, &body(acknowledged, 3000)).expect("room again");
    let found = contents(&after_kill(&disk), 0).expect("whole");
    assert_eq!(found.len() as u64, acknowledged + 2);
}

#[test]
fn a_full_disk_is_helped_by_a_checkpoint() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    disk.set_capacity(Some(3 * SMALL.slot_bytes));
    let mut number = 0;
    for _ in 0..10 {
        while commit_durably(&log, &body(number, 3000)).is_ok() {
            number += 1;
        }
        log.health().expect("only full");
        log.release(log.tail());
    }
    assert!(number > 300);
}

#[test]
fn a_full_disk_below_a_slot_that_exists_stops_writing() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    commit_durably(&log, b"one").expect("a healthy disk");
    disk.fail_at(0, Fault::Enospc, OpKind::Write);
    let failed = commit_durably(&log, b"two").expect_err("the write fails");
    let Error::Poisoned { cause } = failed else { panic!("{failed:?}") };
    assert!(matches!(*cause, Error::Full { .. }));
    assert!(matches!(commit_durably(&log, b"three"), Err(Error::Poisoned { .. })));
}

#[test]
fn a_slot_is_ready_before_it_is_needed() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..200 {
        assert!(log.background().is_ok());
        let before = disk.op_count(OpKind::Any);
        commit(&log, &body(number, 3000)).expect("room");
        assert_eq!(disk.op_count(OpKind::Any), before, "no commit waits for the file to grow");
    }
}
