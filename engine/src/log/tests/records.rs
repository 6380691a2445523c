//! Bytes of records, and reservations that come to nothing.

use super::super::slots::Geometry;
use super::*;
use crate::io::sim::{Fault, OpKind};

#[test]
fn records_of_all_lengths_and_kinds_come_back_in_order() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let most = log.ops_bytes_max() as usize;
    let lengths = (0..70).chain([960, 999, 1000, 1001, 1008, 2030, 5000, most - 1, most]);
    let mut expected = Vec::new();
    for (number, len) in lengths.enumerate() {
        let ops = body(number as u64, len);
        let (first, rest) = ops.split_at(len / 3);
        let (second, third) = rest.split_at(rest.len() / 2);
        let reserved = log.reserve(len as u32).expect("room");
        let lsn = reserved.lsn();
        let kind = [RecordKind::Commit, RecordKind::Part][number % 2];
        let end = reserved.end();
        let applying = reserved.copy(kind, &[first, &[], second, third]);
        assert_eq!(applying.applied(), end);
        expected.push((lsn, kind, ops));
    }
    log.sync().expect("a healthy disk");
    assert_eq!(log.durable(), log.tail());
    assert_eq!(log.visible(), log.tail());
    assert_eq!(contents(&after_kill(&disk), 0).expect("whole"), expected);
    let from_second = contents(&after_kill(&disk), expected[1].0).expect("whole");
    assert_eq!(from_second, expected[1..]);
    let lost = Arc::new(disk.crash(1, CrashMode::LoseAll));
    assert_eq!(contents(&lost, 0).expect("whole"), expected, "a sync keeps all");
}

#[test]
fn a_record_above_the_limit_is_refused() {
    let log = create(&Arc::new(SimDisk::new(1)));
    let tail = log.tail();
    let refused = log.reserve(log.ops_bytes_max() + 1).expect_err("too long");
    assert!(matches!(refused, Error::Usage(Usage::ValueTooLarge { .. })), "{refused:?}");
    assert_eq!(log.tail(), tail);
    assert_eq!(log.ops_bytes_max(), (16 << 10) - 32);
}

#[test]
fn a_reservation_that_comes_to_nothing_is_a_void_record_and_holds_up_nobody() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    commit(&log, b"one").expect("room");
    drop(log.reserve(2000).expect("room"));
    let reserved = log.reserve(5).expect("room");
    let end = reserved.end();
    drop(reserved);
    assert_eq!(log.visible(), end);
    let end = commit_durably(&log, b"two").expect("a healthy disk");
    assert_eq!(log.visible(), end);
    let kinds: Vec<(RecordKind, Vec<u8>)> = contents(&after_kill(&disk), 0)
        .expect("whole")
        .into_iter()
        .map(|(_, kind, ops)| (kind, ops))
        .collect();
    assert_eq!(
        kinds,
        [
            (RecordKind::Commit, b"one".to_vec()),
            (RecordKind::Void, vec![0; 2000]),
            (RecordKind::Void, vec![0; 5]),
            (RecordKind::Commit, b"two".to_vec())
        ]
    );
}

#[test]
fn a_commit_given_up_half_applied_never_becomes_visible_and_stops_writing() {
    let log = create(&Arc::new(SimDisk::new(1)));
    commit(&log, b"one").expect("room");
    let given_up = log.reserve(3).expect("room");
    let later = log.reserve(3).expect("room");
    let lsn = given_up.lsn();
    drop(given_up.copy(RecordKind::Commit, &[b"two"]));
    let end = later.copy(RecordKind::Commit, &[b"six"]).applied();
    log.wait_visible(end);
    assert_eq!(log.visible(), lsn);
    assert!(matches!(log.reserve(1), Err(Error::Poisoned { .. })));
    for level in [Durability::None, Durability::Buffered, Durability::Sync] {
        assert!(matches!(log.acknowledge(end, level), Err(Error::Poisoned { .. })), "{level:?}");
    }
}

#[test]
fn a_commit_behind_one_given_up_is_not_acknowledged_even_if_it_is_durable() {
    let log = create(&Arc::new(SimDisk::new(1)));
    let given_up = log.reserve(3).expect("room").copy(RecordKind::Commit, &[b"two"]);
    let later = log.reserve(3).expect("room");
    let end = later.copy(RecordKind::Commit, &[b"six"]).applied();
    log.wait(end, Durability::Sync).expect("a healthy disk");
    drop(given_up);
    assert!(log.durable() >= end);
    for level in [Durability::None, Durability::Buffered, Durability::Sync] {
        let acknowledged = log.acknowledge(end, level);
        assert!(matches!(acknowledged, Err(Error::Poisoned { .. })), "nobody sees it: {level:?}");
    }
}

#[test]
fn a_commit_that_nobody_will_write_any_more_is_not_acknowledged() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let one = commit(&log, b"one").expect("room");
    log.acknowledge(one, Durability::None).expect("it will be written");
    let late = log.reserve(3).expect("room");
    disk.fail_at(0, Fault::Eio, OpKind::Write);
    assert!(log.wait(one, Durability::Buffered).is_err());
    let end = late.copy(RecordKind::Commit, &[b"two"]).applied();
    assert!(matches!(log.acknowledge(end, Durability::None), Err(Error::Poisoned { .. })));
}

#[test]
#[should_panic(expected = "another length")]
fn copying_another_length_than_was_reserved_panics() {
    let log = create(&Arc::new(SimDisk::new(1)));
    let _ = log.reserve(3).expect("room").copy(RecordKind::Commit, &[b"four"]).applied();
}

/// Four commits, each durable before the next; the offset of the last record in the file.
fn four_commits(last: &[u8]) -> (Arc<SimDisk>, Vec<Kept>, u64) {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..3 {
        commit_durably(&log, &body(number, 100)).expect("a healthy disk");
    }
    let lsn = log.tail();
    commit_durably(&log, last).expect("a healthy disk");
    let all = contents(&after_kill(&disk), 0).expect("whole");
    let offset = Geometry::new(SMALL.slot_bytes).offset(0, lsn);
    (disk, all, offset)
}

/// The last record is gone, all before it are there, and the log goes on behind them.
fn ends_before_the_last(disk: &Arc<SimDisk>, all: &[Kept], what: &str) {
    let (found, log) = recover(disk, 0).expect(what);
    assert_eq!(found, all[..all.len() - 1], "{what}");
    commit_durably(&log, b"after").expect("a healthy disk");
    let found = contents(&after_kill(disk), 0).expect(what);
    assert_eq!(found.len(), all.len(), "{what}");
    assert_eq!(found.last().map(|(_, _, ops)| ops.as_slice()), Some(b"after".as_slice()));
}

#[test]
fn every_flip_of_the_last_record_opens_the_log_up_to_the_one_before() {
    let (disk, all, offset) = four_commits(&body(9, 77));
    let image = bytes_of(&disk);
    for at in 0..32 + 77 {
        let flipped = after_kill(&disk);
        let place = offset + at;
        flipped.damage(place, &[image[place as usize] ^ (1 << (at % 8))]);
        ends_before_the_last(&flipped, &all, &format!("byte {at} flipped"));
    }
}

#[test]
fn every_cut_of_the_last_record_opens_the_log_up_to_the_one_before() {
    let (disk, all, offset) = four_commits(&body(9, 77));
    for at in 0..32 + 77 {
        let torn = after_kill(&disk);
        torn.damage(offset + at, &[0; 120][at as usize..]);
        ends_before_the_last(&torn, &all, &format!("zeros from byte {at} on"));
        // No crash leaves a file that ends in a slot with synced records. Who says that this is the end has it.
        let cut = after_kill(&disk);
        let len_bytes = cut.len_bytes().expect("a healthy disk");
        cut.set_len(offset + at).expect("a healthy disk");
        assert!(matches!(contents(&cut, 0), Err(Error::Corrupt(_))), "file cut at byte {at}");
        cut.set_len(len_bytes).expect("a healthy disk");
        ends_before_the_last(&cut, &all, &format!("file cut at byte {at}"));
    }
}

#[test]
fn a_torn_value_that_holds_records_of_the_same_log_is_no_damage() {
    // All of the file of before, as a user may well store it: with records that claim much to be synced.
    let (disk, _, _) = four_commits(b"x");
    let image = bytes_of(&disk)[4096..12288].to_vec();
    let (disk, all, offset) = four_commits(&image);
    disk.damage(offset + 24, &[0; 8]);
    ends_before_the_last(&disk, &all, "torn");
}
