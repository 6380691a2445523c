//! What is found when a log is opened.

use super::super::slots::{Geometry, SlotHeader};
use super::space::file_bytes;
use super::*;
use crate::error::OpenError;

/// A log of many parts, each commit durable before the next.
fn long_log(commits: u64) -> (Arc<SimDisk>, Vec<Kept>) {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..commits {
        commit_durably(&log, &body(number, 3000)).expect("a healthy disk");
    }
    let all = contents(&after_kill(&disk), 0).expect("whole");
    assert_eq!(all.len() as u64, commits);
    (disk, all)
}

fn is_corrupt<T: fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Corrupt(_)))
}

#[test]
fn damage_before_a_synced_place_is_an_error_and_nothing_is_cut() {
    let (disk, all) = long_log(60);
    let image = bytes_of(&disk);
    let geometry = Geometry::new(SMALL.slot_bytes);
    for (index, (lsn, _, _)) in all[..all.len() - 1].iter().enumerate() {
        // No slot was recycled, so parts lie in their order.
        let offset = geometry.offset(geometry.part(*lsn) - 1, *lsn) as usize;
        for at in [0, 4, 9, 17, 25, 31] {
            let damaged = after_kill(&disk);
            damaged.damage((offset + at) as u64, &[image[offset + at] ^ 0x21]);
            let before = bytes_of(&damaged);
            let mut recovering = open(&damaged, 0).expect("headers are whole");
            let mut count = 0;
            let error = loop {
                match recovering.next() {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => panic!("record {index}, byte {at}: taken for the end"),
                    Err(error) => break error,
                }
            };
            assert_eq!(count, index);
            let Error::Corrupt(damage) = &error else { panic!("{error:?}") };
            assert_eq!(damage.offset, Some(offset as u64));
            assert!(is_corrupt(&recovering.next()), "it stays in error");
            assert!(is_corrupt(&recovering.finish()), "and cannot be cut");
            assert_eq!(bytes_of(&damaged), before);
        }
    }
}

/// The log, cut at `len_bytes`, as a checkpoint finds it that knew a file of `file_bytes`.
fn cut_at(disk: &SimDisk, len_bytes: u64, anchor: Anchor) -> Result<Vec<Kept>> {
    let cut = after_kill(disk);
    cut.set_len(len_bytes).expect("a healthy disk");
    read_all(&mut Log::open(cut, path(), UUID, anchor, SMALL)?)
}

#[test]
fn a_file_that_others_cut_short_is_damage_if_it_may_have_cost_a_commit() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let mut ends = Vec::new();
    for number in 0..70 {
        ends.push(commit_durably(&log, &body(number, 3000)).expect("a healthy disk"));
    }
    let anchor = Anchor { lsn: ends[9], file_bytes: log.pledge(ends[9]) };
    let len_bytes = file_bytes(&disk);
    assert_eq!(anchor.file_bytes, len_bytes, "all of it is durable, and stays");
    let geometry = Geometry::new(SMALL.slot_bytes);
    let all = cut_at(&disk, len_bytes, anchor).expect("whole");
    assert_eq!(all.len(), 60);
    let last_end = geometry.offset(geometry.part(ends[69]) - 1, ends[69]);
    for len_bytes in (SMALL.slot_bytes..len_bytes).step_by(1021) {
        let found = cut_at(&disk, len_bytes, anchor);
        if len_bytes >= last_end + 32 {
            assert_eq!(found.expect("nothing was lost"), all, "{len_bytes} bytes");
        } else {
            assert!(is_corrupt(&found), "{len_bytes} bytes");
        }
        // With nothing but the log to go by: not where its slots end, and not before a second group in a slot.
        let alone = cut_at(&disk, len_bytes, Anchor { file_bytes: 0, ..anchor });
        let in_slot = len_bytes % SMALL.slot_bytes;
        if (3 * 3040 + 4096..SMALL.slot_bytes).contains(&in_slot) && len_bytes < last_end {
            assert!(is_corrupt(&alone), "{len_bytes} bytes");
        }
    }
}

#[test]
fn a_file_is_not_cut_below_what_a_checkpoint_was_told() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    for number in 0..300 {
        commit_durably(&log, &body(number, 3000)).expect("a healthy disk");
    }
    let mut anchor = Anchor { lsn: log.tail(), file_bytes: log.pledge(log.tail()) };
    let mut rng = fastrand::Rng::with_seed(7);
    for number in 0..200 {
        commit_durably(&log, &body(number, 3000)).expect("a healthy disk");
        assert!(file_bytes(&disk) >= anchor.file_bytes);
        if rng.u8(..4) == 0 {
            let lsn = log.tail();
            let next = Anchor { lsn, file_bytes: log.pledge(lsn) };
            // The superblock may be there by now, or the one before: both have to be right.
            let crashed = Arc::new(disk.crash(number, CrashMode::Random));
            for anchor in [anchor, next] {
                let disk = Arc::clone(&crashed) as Arc<dyn Disk>;
                let mut found = Log::open(disk, path(), UUID, anchor, SMALL).expect("its place");
                read_all(&mut found).expect("a crash cuts nothing off");
            }
            if rng.bool() {
                log.release(lsn);
                anchor = next;
            }
        }
    }
    assert!(file_bytes(&disk) <= 8 * SMALL.slot_bytes, "it was cut in the end");
}

#[test]
fn a_slot_that_a_crash_left_in_part_is_whole_when_the_log_was_opened() {
    let (disk, all) = long_log(20);
    let len_bytes = file_bytes(&disk);
    for more in [512, 4096, 5000, 60_000] {
        let crashed = after_kill(&disk);
        crashed.set_len(len_bytes + more).expect("a healthy disk");
        let (found, log) = recover(&crashed, 0).expect("no records were there");
        assert_eq!(found, all);
        assert_eq!(file_bytes(&crashed) % SMALL.slot_bytes, 0);
        commit_durably(&log, b"after").expect("a healthy disk");
        assert_eq!(contents(&after_kill(&crashed), 0).expect("whole").len(), all.len() + 1);
    }
}

#[test]
fn a_lost_header_before_a_synced_place_is_damage_wherever_it_is() {
    let (disk, all) = long_log(60);
    let slots = disk.len_bytes().expect("healthy") / SMALL.slot_bytes;
    assert!(slots >= 3);
    for slot in 0..slots {
        let one_copy = after_kill(&disk);
        one_copy.damage(slot * SMALL.slot_bytes, &[0xff; 2048]);
        assert_eq!(contents(&one_copy, 0).expect("the other copy will do"), all);
        let both = after_kill(&disk);
        both.damage(slot * SMALL.slot_bytes, &[0xff; 4096]);
        assert!(is_corrupt(&contents(&both, 0)), "slot {slot}");
    }
}

#[test]
fn the_only_header_lost_is_damage_even_if_no_checkpoint_knew_the_log() {
    let (disk, _) = long_log(3);
    disk.damage(0, &[0; 4096]);
    assert!(is_corrupt(&contents(&disk, 0)));
}

#[test]
fn no_log_an_empty_log_and_one_that_was_just_being_made_open_as_empty() {
    for record in [0, 1] {
        let disk = Arc::new(SimDisk::new(1));
        if record > 0 {
            disk.record_history(crate::io::sim::Record::Changes);
        }
        let log = create(&disk);
        commit_durably(&log, b"first").expect("a healthy disk");
        for snapshot in disk.history() {
            for seed in 0..20 {
                let crashed = Arc::new(snapshot.crash(seed, CrashMode::Random));
                let (found, log) = recover(&crashed, 0).expect("a crash is no damage");
                assert!(found.len() <= 1);
                commit_durably(&log, b"second").expect("a healthy disk");
                let now = contents(&after_kill(&crashed), 0).expect("whole");
                assert_eq!(now.len(), found.len() + 1);
            }
        }
    }
    let nothing = Arc::new(SimDisk::new(1));
    assert_eq!(contents(&nothing, 0).expect("no log is no damage"), []);
    assert_eq!(bytes_of(&nothing), [], "reading writes nothing");
}

#[test]
fn a_checkpoint_that_the_log_does_not_reach_is_damage() {
    let (disk, all) = long_log(30);
    let beyond = all[29].0 + 40 * SMALL.slot_bytes;
    assert!(is_corrupt(&contents(&disk, beyond)));
    assert!(is_corrupt(&contents(&disk, 8)));
    assert!(is_corrupt(&contents(&disk, u64::MAX)));
    assert!(is_corrupt(&contents(&disk, all[3].0 + 1)));
    assert!(is_corrupt(&contents(&Arc::new(SimDisk::new(1)), all[3].0)));
}

#[test]
fn every_run_goes_on_where_the_one_before_ended_without_any_checkpoint() {
    let disk = Arc::new(SimDisk::new(1));
    let mut log = create(&disk);
    let mut disk = disk;
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for run in 0..12 {
        for number in 0..run {
            expected.push(body(run * 100 + number, 2000));
            commit(&log, expected.last().expect("just pushed")).expect("room");
        }
        log.flush().expect("a healthy disk");
        drop(log);
        disk = after_kill(&disk);
        let (found, next) = recover(&disk, 0).expect("whole");
        assert!(found.iter().map(|(_, _, ops)| ops).eq(&expected), "run {run}");
        assert!(found.is_sorted_by_key(|(lsn, _, _)| *lsn));
        log = next;
    }
}

#[test]
fn opening_again_and_again_takes_no_more_room() {
    let disk = Arc::new(SimDisk::new(1));
    let mut log = create(&disk);
    for _ in 0..30 {
        commit_durably(&log, b"x").expect("a healthy disk");
        let checkpoint = log.tail();
        log.release(checkpoint);
        drop(log);
        let (found, next) = recover(&disk, checkpoint).expect("whole");
        assert_eq!(found, []);
        let start = next.tail();
        next.release(start);
        log = next;
    }
    assert!(disk.len_bytes().expect("healthy") <= 5 * SMALL.slot_bytes);
}

#[test]
fn what_a_lost_run_left_never_follows_a_record_of_a_later_run() {
    // Two processes start from the same image and get the same part and slot: as if the header of the first
    // had been lost, and its records had not.
    let (disk, all) = long_log(3);
    let image = after_kill(&disk);
    let run = |commits: u64| {
        let disk = after_kill(&image);
        let (found, log) = recover(&disk, 0).expect("whole");
        assert_eq!(found, all);
        for number in 0..commits {
            commit_durably(&log, &body(number, 100)).expect("a healthy disk");
        }
        (disk, log.tail())
    };
    let (first, _) = run(10);
    let (second, tail) = run(4);
    let geometry = Geometry::new(SMALL.slot_bytes);
    let offset = geometry.offset(1, tail);
    let left = &bytes_of(&first)[offset as usize..];
    assert!(left[..32].iter().any(|&byte| byte != 0), "records 4 to 9 of the first");
    second.damage(offset, left);
    assert_eq!(contents(&second, 0).expect("stale bytes are no damage").len(), all.len() + 4);
}

#[test]
fn stale_records_of_recycled_slots_are_neither_records_nor_damage() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let mut last = Vec::new();
    for number in 0..400 {
        // All of one length, so that old records lie where new ones would.
        last = body(number, 1000);
        commit_durably(&log, &last).expect("a healthy disk");
        if number % 10 == 0 {
            log.release(log.tail());
        }
        if number % 7 == 0 {
            let checkpoint = log.space.usage().1;
            let found =
                contents(&after_kill(&disk), checkpoint).expect("stale bytes are no damage");
            assert_eq!(found.last().map(|(_, _, ops)| ops), (number % 10 != 0).then_some(&last));
            assert_eq!(found.len() as u64, number % 10);
        }
    }
    assert!(disk.len_bytes().expect("healthy") <= 4 * SMALL.slot_bytes);
    assert_eq!(last, body(399, 1000));
}

#[test]
fn a_log_that_was_ended_before_a_record_stays_ended_there() {
    let (disk, all) = long_log(6);
    let disk = after_kill(&disk);
    let mut recovering = open(&disk, 0).expect("whole");
    for _ in 0..4 {
        recovering.next().expect("whole");
    }
    recovering.end_before(all[3].0);
    assert_eq!(recovering.position(), all[3].0);
    let log = recovering.finish().expect("a healthy disk");
    commit_durably(&log, b"after").expect("a healthy disk");
    let found = contents(&after_kill(&disk), 0).expect("whole");
    assert_eq!(found[..3], all[..3]);
    assert_eq!(found[3].2, b"after");
    assert_eq!(found.len(), 4);
}

#[test]
fn progress_never_passes_its_total_and_records_can_be_read_again() {
    let (disk, all) = long_log(50);
    let mut recovering = open(&disk, all[5].0).expect("whole");
    let total = recovering.total_bytes();
    let mut count = 0;
    while let Some(record) = recovering.next().expect("whole") {
        let (lsn, end) = (record.lsn, record.end);
        count += 1;
        assert!(recovering.read_bytes() <= total);
        assert_eq!(recovering.position(), end);
        let again = recovering.read_at(all[count / 2].0).expect("whole");
        assert_eq!(again.ops, all[count / 2].2);
        assert!(is_corrupt(&recovering.read_at(lsn + 8)));
    }
    assert_eq!(count, 45);
    assert!(recovering.read_bytes() > 40 * 3000);
}

#[test]
fn records_of_a_large_buffer_are_read_by_a_small_one() {
    let disk = Arc::new(SimDisk::new(1));
    let options = LogOptions { slot_bytes: 64 << 10, buffer_bytes: 4 << 20 };
    let log = try_create(Arc::clone(&disk) as Arc<dyn Disk>, options);
    let log = log.expect("a healthy disk");
    let ops = body(1, log.ops_bytes_max() as usize);
    assert_eq!(ops.len(), (1 << 20) - 32);
    commit_durably(&log, &ops).expect("a healthy disk");
    let (found, log) = recover(&after_kill(&disk), 0).expect("whole");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].2, ops);
    assert_eq!(log.ops_bytes_max(), (16 << 10) - 32);
}

#[test]
fn parts_of_a_commit_are_found_between_records_of_others() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let pieces = [body(1, 500), body(2, 9000), body(3, 7)];
    let (mut first, mut bytes) = (0, 0);
    for piece in &pieces {
        commit(&log, b"another").expect("room");
        let reserved = log.reserve((ops::PartHead::BYTES + piece.len()) as u32).expect("room");
        first = if first == 0 { reserved.lsn() } else { first };
        bytes += piece.len() as u64;
        let head = ops::PartHead { first }.encode();
        reserved.copy(RecordKind::Part, &[&head, piece]).applied();
        // A part of yet another commit, whose first part is itself.
        let other = log.reserve(ops::PartHead::BYTES as u32).expect("room");
        let head = ops::PartHead { first: other.lsn() }.encode();
        other.copy(RecordKind::Part, &[&head]).applied();
    }
    let commit_lsn = log.tail();
    commit_durably(&log, b"head").expect("a healthy disk");
    let mut recovering = open(&disk, 0).expect("whole");
    let mut found = Vec::new();
    ops::read_parts(&mut recovering, (first, bytes), commit_lsn, |piece| {
        found.push(piece.to_vec());
        Ok(())
    })
    .expect("all parts are there");
    assert_eq!(found, pieces);
    let short = ops::read_parts(&mut recovering, (first, bytes + 1), commit_lsn, |_| Ok(()));
    assert!(is_corrupt(&short));
}

#[test]
fn another_databases_log_and_a_newer_one_are_refused() {
    let (disk, _) = long_log(2);
    let (log, anchor) = (Arc::clone(&disk) as Arc<dyn Disk>, Anchor::default());
    let other = Log::open(log, path(), [4; 16], anchor, SMALL);
    assert!(matches!(other, Err(Error::Open(OpenError::NotADatabase { .. }))), "{other:?}");

    let mut block = bytes_of(&disk)[..4096].to_vec();
    for at in [0, 2048] {
        block[at + 8] = 2;
        let check = xxhash_rust::xxh3::xxh3_64(&block[at..at + 88]);
        block[at + 88..at + 96].copy_from_slice(&check.to_le_bytes());
    }
    disk.damage(0, &block);
    let newer = contents(&disk, 0);
    assert!(
        matches!(newer, Err(Error::Open(OpenError::NewerVersion { found: 2, .. }))),
        "{newer:?}"
    );
}

#[test]
fn options_out_of_range_are_refused() {
    for (slot_bytes, buffer_bytes) in
        [(32 << 10, 1 << 20), (96 << 10, 1 << 20), (2 << 30, 1 << 20), (1 << 20, 4096)]
    {
        let options = LogOptions { slot_bytes, buffer_bytes };
        let made = try_create(Arc::new(SimDisk::new(1)), options);
        assert!(matches!(made, Err(Error::Usage(Usage::BadOption { .. }))), "{options:?}");
    }
}

#[test]
fn hostile_bytes_are_errors_or_records_and_never_a_panic() {
    let (disk, all) = long_log(25);
    let image = bytes_of(&disk);
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..150 {
        let hostile = after_kill(&disk);
        for _ in 0..rng.usize(1..6) {
            let near_header = rng.bool().then(|| rng.usize(..2) << 16);
            let at = near_header.unwrap_or(0)
                + rng.usize(..if near_header.is_some() { 5000 } else { image.len() });
            let len = rng.usize(1..40).min(image.len() - at);
            let bytes: Vec<u8> = match rng.u8(..3) {
                0 => vec![0xff; len],
                1 => (0..len).map(|_| rng.u8(..)).collect(),
                _ => {
                    let from = rng.usize(..image.len() - len);
                    image[from..from + len].to_vec()
                }
            };
            hostile.damage(at as u64, &bytes);
        }
        let checkpoint = if rng.bool() { 0 } else { all[rng.usize(..all.len())].0 };
        if let Ok((found, log)) = recover(&hostile, checkpoint) {
            assert!(found.iter().all(|record| all.contains(record)));
            let _ = commit_durably(&log, b"on");
        }
    }
}

#[test]
fn headers_that_lie_about_everything_are_survived() {
    let run = super::super::slots::Run { first_part: 1, salt: 0, previous_end: 0 };
    let far = (1 << 48) / (64 << 10) - 2;
    for (part, first_part, previous_end, synced) in [
        (1, 1, 0, u64::MAX),
        (far, far, 0, 0),
        (far, 1, u64::MAX, 0),
        (2, 1, 61_440, 0),
        (1, 1, 61_440, 61_440),
    ] {
        let disk = Arc::new(SimDisk::new(1));
        let header = SlotHeader {
            uuid: UUID,
            slot_bytes: 64 << 10,
            slot: 0,
            part,
            run: super::super::slots::Run { first_part, previous_end, ..run },
            synced,
        };
        disk.damage(0, &header.encode());
        for checkpoint in [0, 61_440, part * 61_440, part * 61_440 + 64] {
            if let Ok((found, log)) = recover(&after_kill(&disk), checkpoint) {
                assert_eq!(found, []);
                let _ = commit_durably(&log, b"on");
            }
        }
    }
}

#[test]
fn a_file_full_of_false_claims_is_damage_in_bounded_time() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    commit_durably(&log, b"first").expect("a healthy disk");
    let (tail, salt) = (log.tail(), log.salt);
    drop(log);
    let geometry = Geometry::new(SMALL.slot_bytes);
    // From behind the next record on: headers without a record, that claim to be long.
    let claim = |lsn: u64| {
        let header = record::Header {
            kind: 1,
            pad: 0,
            zero: 0,
            bytes: 30_000,
            lsn,
            synced: lsn,
            check: salt,
        };
        header.encode()
    };
    let mut lsn = tail + 8;
    while lsn + 64 < geometry.start(2) {
        disk.damage(geometry.offset(0, lsn), &claim(lsn));
        lsn += 32;
    }
    match contents(&disk, 0) {
        Ok(found) => assert_eq!(found.len(), 1),
        Err(error) => assert!(matches!(error, Error::Corrupt(_)), "{error:?}"),
    }
}
