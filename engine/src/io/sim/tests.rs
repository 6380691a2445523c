//! Tests of the model \[S1\] to \[S6\].

use super::*;
use crate::id::BLOCK_BYTES;
use std::collections::BTreeSet;

fn block(fill: u8) -> Vec<u8> {
    vec![fill; BLOCK_BYTES]
}

fn put(disk: &SimDisk, number: u64, fill: u8) -> io::Result<()> {
    let bytes = block(fill);
    disk.write(&[Write { offset: number * BLOCK_BYTES as u64, bytes: &bytes }])
}

fn get(disk: &SimDisk, number: u64) -> Vec<u8> {
    let mut bytes = block(0xee);
    disk.read(number * BLOCK_BYTES as u64, &mut bytes).expect("inside the file");
    bytes
}

/// A disk with one synced block of ones, overwritten by twos and then threes, unsynced.
fn overwritten() -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, 0, 1).expect("no fault");
    disk.sync().expect("no fault");
    put(&disk, 0, 2).expect("no fault");
    put(&disk, 0, 3).expect("no fault");
    disk
}

#[test]
fn a_synced_write_survives_every_crash() {
    let disk = overwritten();
    disk.sync().expect("no fault");
    put(&disk, 1, 9).expect("no fault");
    for seed in 0..200 {
        for mode in [CrashMode::KeepAll, CrashMode::LoseAll, CrashMode::Random] {
            assert_eq!(get(&disk.crash(seed, mode), 0), block(3), "seed {seed}");
        }
    }
}

#[test]
fn unsynced_sectors_are_kept_lost_torn_and_overtaken() {
    let disk = overwritten();
    assert_eq!(get(&disk, 0), block(3));
    assert_eq!(get(&disk.crash(0, CrashMode::LoseAll), 0), block(1));
    assert_eq!(get(&disk.crash(0, CrashMode::KeepAll), 0), block(3));
    let mut halves = BTreeSet::new();
    let mut wholes = BTreeSet::new();
    for seed in 0..500 {
        let found = get(&disk.crash(seed, CrashMode::Random), 0);
        for sector in found.chunks(SECTOR_BYTES) {
            let (first, second) = sector.split_at(SECTOR_BYTES / 2);
            assert!(first.iter().all(|byte| byte == &first[0]), "seed {seed} tears at a half only");
            assert!(
                second.iter().all(|byte| byte == &second[0]),
                "seed {seed} tears at a half only"
            );
            halves.insert((first[0], second[0]));
        }
        if found.iter().all(|byte| byte == &found[0]) {
            wholes.insert(found[0]);
        }
    }
    assert_eq!(wholes, BTreeSet::from([1, 2, 3]));
    for outcome in [(1, 1), (2, 2), (3, 3), (1, 3), (3, 1), (1, 2)] {
        assert!(halves.contains(&outcome), "{outcome:?} never found");
    }
    assert!(!halves.iter().any(|&(first, second)| first == 0 || second == 0 || first > 3));
}

#[test]
fn a_later_write_can_survive_an_earlier_one() {
    let disk = SimDisk::new(0);
    disk.set_len(2 * BLOCK_BYTES as u64).expect("no fault");
    disk.sync().expect("no fault");
    put(&disk, 0, 1).expect("no fault");
    put(&disk, 1, 2).expect("no fault");
    let found: BTreeSet<(bool, bool)> = (0..200)
        .map(|seed| disk.crash(seed, CrashMode::Random))
        .map(|disk| (get(&disk, 0) == block(1), get(&disk, 1) == block(2)))
        .collect();
    assert_eq!(found.len(), 4);
}

#[test]
fn the_length_is_found_apart_from_the_data() {
    let disk = SimDisk::new(0);
    for number in 0..3 {
        put(&disk, number, 1).expect("no fault");
    }
    let mut lengths = BTreeSet::new();
    let mut holes = 0;
    for seed in 0..300 {
        let found = disk.crash(seed, CrashMode::Random);
        let len_bytes = found.len_bytes().expect("no fault");
        lengths.insert(len_bytes / BLOCK_BYTES as u64);
        holes += u32::from(len_bytes > 0 && get(&found, 0) == block(0));
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3]));
    assert!(holes > 0, "a length without its data is never found");
}

#[test]
fn a_cut_that_was_not_synced_may_be_undone_and_never_shows_old_bytes_once_synced() {
    let disk = SimDisk::new(0);
    put(&disk, 0, 1).expect("no fault");
    put(&disk, 1, 2).expect("no fault");
    disk.sync().expect("no fault");
    disk.set_len(1000).expect("no fault");
    assert_eq!(disk.crash(0, CrashMode::LoseAll).len_bytes().expect("no fault"), 8192);
    disk.set_len(8192).expect("no fault");
    assert_eq!(get(&disk, 1), block(0));
    disk.sync().expect("no fault");
    let found = disk.crash(0, CrashMode::Random);
    assert_eq!(get(&found, 1), block(0));
    let first = get(&found, 0);
    assert!(
        first[..1000].iter().all(|&byte| byte == 1) && first[1000..].iter().all(|&byte| byte == 0)
    );
}

#[test]
fn a_full_disk_fails_the_write_and_works_again_with_room() {
    let disk = SimDisk::new(0);
    disk.set_capacity(Some(BLOCK_BYTES as u64));
    put(&disk, 0, 1).expect("fits");
    assert_eq!(put(&disk, 1, 1).expect_err("full").kind(), io::ErrorKind::StorageFull);
    let len_bytes = disk.len_bytes().expect("no fault");
    let refused = disk.allocate(len_bytes, 1 << 20).expect_err("full");
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    put(&disk, 0, 2).expect("overwriting takes no room");
    disk.set_capacity(None);
    put(&disk, 1, 1).expect("room");
}

#[test]
fn a_longer_file_takes_no_room_before_it_is_written_or_allocated() {
    let block = BLOCK_BYTES as u64;
    let disk = SimDisk::new(0);
    disk.set_capacity(Some(3 * block));
    disk.set_len(8 * block).expect("takes nothing");
    disk.allocate(2 * block, 2 * block).expect("two of three");
    put(&disk, 7, 1).expect("three of three");
    assert_eq!(put(&disk, 0, 1).expect_err("full").kind(), io::ErrorKind::StorageFull);
    assert!(disk.allocate(block, 2 * block).is_err(), "one more");
    for number in [2, 3, 7] {
        put(&disk, number, 2).expect("has its room");
    }
    disk.set_len(7 * block).expect("gives one back");
    put(&disk, 0, 1).expect("takes it");
    let found = disk.crash(1, CrashMode::KeepAll);
    found.set_capacity(Some(0));
    put(&found, 1, 1).expect("a file that is found has its room");
}

#[test]
fn planned_faults_hit_their_call_and_no_other() {
    let disk = SimDisk::new(0);
    disk.fail_at(1, Fault::Enospc, OpKind::Write);
    disk.fail_at(3, Fault::Eio, OpKind::Any);
    put(&disk, 0, 1).expect("write 0");
    assert_eq!(put(&disk, 0, 1).expect_err("write 1").kind(), io::ErrorKind::StorageFull);
    put(&disk, 0, 1).expect("write 2");
    let mut bytes = block(0);
    let failed = disk.read(0, &mut bytes).expect_err("call 3");
    assert_eq!(failed.raw_os_error(), Some(libc::EIO));
    disk.read(0, &mut bytes).expect("call 4");
    disk.fail_from(0, Fault::Eio, OpKind::Change);
    for _ in 0..3 {
        assert!(disk.sync().is_err() && disk.set_len(0).is_err() && put(&disk, 0, 1).is_err());
    }
    disk.read(0, &mut bytes).expect("reads go on");
    disk.clear_faults();
    put(&disk, 0, 1).expect("after clearing");
    assert_eq!((disk.op_count(OpKind::Write), disk.op_count(OpKind::Read)), (7, 3));
    assert_eq!(disk.op_count(OpKind::Any), 16);
}

#[test]
fn a_retried_sync_reports_success_and_has_lost_data() {
    let disk = SimDisk::new(3);
    for number in 0..8 {
        put(&disk, number, 7).expect("no fault");
    }
    disk.fail_at(0, Fault::Eio, OpKind::Sync);
    assert!(disk.sync().is_err());
    disk.sync().expect("as the kernel does");
    assert_eq!(get(&disk, 0), block(7));
    let found = disk.crash(0, CrashMode::KeepAll);
    assert!((0..8).any(|number| get(&found, number) != block(7)));
}

#[test]
fn history_holds_every_sync_boundary() {
    let disk = SimDisk::new(0);
    disk.record_history(Record::Syncs);
    for fill in 1..=3 {
        put(&disk, 0, fill).expect("no fault");
        disk.sync().expect("no fault");
    }
    let history = disk.history();
    let pending: Vec<usize> = history.iter().map(Snapshot::pending_count).collect();
    assert_eq!(pending, [1, 0, 1, 0, 1, 0]);
    let ops: Vec<u64> = history.iter().map(Snapshot::op).collect();
    assert_eq!(ops, [1, 2, 3, 4, 5, 6]);
    for (index, fill) in [(1, 1), (3, 2), (5, 3)] {
        assert_eq!(get(&history[index].crash(0, CrashMode::Random), 0), block(fill));
    }
    disk.record_history(Record::Changes);
    put(&disk, 0, 4).expect("no fault");
    disk.set_len(0).expect("no fault");
    assert_eq!(disk.history().len(), 2);
}

#[test]
fn the_same_seed_finds_the_same_disk() {
    let disk = overwritten();
    for seed in 0..50 {
        let [one, two] = [(); 2].map(|()| get(&disk.crash(seed, CrashMode::Random), 0));
        assert_eq!(one, two);
    }
}

#[test]
fn damage_is_seen_at_once_and_survives() {
    let disk = overwritten();
    disk.sync().expect("no fault");
    disk.damage(10, b"rot");
    assert_eq!(&get(&disk, 0)[9..14], b"\x03rot\x03");
    assert_eq!(&get(&disk.crash(0, CrashMode::LoseAll), 0)[9..14], b"\x03rot\x03");
}
