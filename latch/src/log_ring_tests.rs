//! Tests of the log ring with real threads. The orderings are the business of the loom models.

use super::*;
use crate::primitives::{AtomicBool, rmw_count};
use std::thread;

/// What the word `index` of the record `lsn` is, but for the first, which is the length.
fn content(lsn: u64, index: usize) -> u64 {
    (lsn ^ (index as u64) << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Copies and marks a record of `len` bytes.
fn fill(ring: &LogRing, lsn: u64, len: u32) {
    let words: Vec<u64> = (1..len as usize / 8).map(|index| content(lsn, index)).collect();
    // The length last, and the rest in two parts, as of a header and what follows it.
    let (some, more) = words.split_at(words.len() / 2);
    ring.copy(lsn, 8, some);
    ring.copy(lsn, 8 + 8 * some.len() as u32, more);
    ring.copy(lsn, 0, &[7 << 56 | u64::from(len)]);
    ring.copied(lsn);
}

fn commit(ring: &LogRing, len: u32) -> u64 {
    let lsn = ring.reserve(len).expect("there is room");
    fill(ring, lsn, len);
    ring.applied(lsn);
    lsn
}

/// Reads what the flusher would write from `from` on, looks at each byte, and gives the records' lsns and the
/// end.
fn drain(ring: &LogRing, from: u64) -> (Vec<u64>, u64) {
    let end = ring.copied_end(from);
    let mut words = vec![0; (end - from) as usize / 8];
    ring.read(from, &mut words);
    let (mut lsn, mut rest, mut lsns) = (from, &words[..], Vec::new());
    while let Some(&first) = rest.first() {
        assert_eq!(first >> 56, 7);
        let len = first as u32;
        let (record, behind) = rest.split_at(len as usize / 8);
        for (index, &word) in record.iter().enumerate().skip(1) {
            assert_eq!(word, content(lsn, index), "word {index} of the record {lsn}");
        }
        lsns.push(lsn);
        lsn += u64::from(len);
        rest = behind;
    }
    assert_eq!(lsn, end);
    (lsns, end)
}

#[test]
fn reserving_is_one_read_modify_write_and_copying_none() {
    let ring = LogRing::new(4096, 0);
    let count = |act: &mut dyn FnMut()| {
        let before = rmw_count();
        act();
        rmw_count() - before
    };
    let ones = |n: u64| if cfg!(debug_assertions) { n } else { 0 };
    let mut lsns = Vec::new();
    for _ in 0..2 {
        assert_eq!(count(&mut || lsns.push(ring.reserve(64).expect("room"))), ones(1));
    }
    assert_eq!(count(&mut || lsns.iter().for_each(|&lsn| fill(&ring, lsn, 64))), 0);
    assert_eq!(count(&mut || ring.applied(lsns[1])), 0, "the one before is not applied");
    assert_eq!(count(&mut || ring.applied(lsns[0])), ones(2), "it moves visible over both");
    assert_eq!(count(&mut || assert_eq!(ring.visible(), 128)), 0);
}

#[test]
fn visible_waits_for_the_first_and_then_passes_all() {
    let ring = LogRing::new(4096, 4088);
    let lsns: Vec<u64> = (0..5).map(|_| ring.reserve(40).expect("room")).collect();
    assert_eq!(lsns, [4088, 4128, 4168, 4208, 4248]);
    for &lsn in &lsns[1..] {
        fill(&ring, lsn, 40);
        ring.applied(lsn);
        assert_eq!((ring.visible(), ring.copied_end(4088)), (4088, 4088));
    }
    fill(&ring, lsns[0], 40);
    assert_eq!((ring.visible(), ring.copied_end(4088)), (4088, 4288));
    assert_eq!(ring.copied_end(4168), 4288, "from the middle");
    ring.applied(lsns[0]);
    assert_eq!((ring.visible(), ring.tail()), (4288, 4288));
    ring.wait_visible(4288);
    assert_eq!(drain(&ring, 4088).1, 4288);
}

#[test]
fn a_full_ring_refuses_until_it_is_retired() {
    let ring = LogRing::new(4096, 8);
    assert_eq!(commit(&ring, 4064), 8);
    assert_eq!(ring.reserve(40), None);
    assert_eq!(commit(&ring, 32), 4072, "the last 32 bytes");
    assert_eq!(ring.reserve(32), None);
    assert_eq!(ring.visible(), 8 + 4096, "and goes no further over the marks of the lap before");
    assert_eq!(ring.copied_end(ring.visible()), 8 + 4096);
    ring.retire(4072);
    assert_eq!(ring.retired(), 4072);
    assert_eq!(ring.reserve(4072), None);
    assert_eq!(commit(&ring, 4064), 8 + 4096);
    assert_eq!(drain(&ring, 4072).0, [4072, 8 + 4096]);
}

#[test]
fn a_record_as_long_as_the_ring_fits_and_a_longer_one_never() {
    let ring = LogRing::new(4096, 40);
    assert_eq!(ring.reserve(4104), None);
    assert_eq!(commit(&ring, 4096), 40);
    assert_eq!(drain(&ring, 40).0, [40]);
}

#[test]
fn the_limit_refuses_what_would_pass_it() {
    let ring = LogRing::new(4096, 64);
    ring.set_limit(64);
    assert_eq!(ring.reserve(32), None);
    ring.set_limit(160);
    assert_eq!(commit(&ring, 64), 64);
    assert_eq!(ring.reserve(40), None);
    assert_eq!(commit(&ring, 32), 128);
    ring.set_limit(u64::MAX);
    assert!(ring.reserve(3000).is_some());
}

#[test]
fn no_lsn_reaches_the_limit_of_lsns() {
    let ring = LogRing::new(4096, LSN_LIMIT - 64);
    ring.set_limit(u64::MAX);
    assert_eq!(ring.reserve(64), None);
    assert_eq!(commit(&ring, 32), LSN_LIMIT - 64);
    assert_eq!(ring.reserve(32), None);
}

#[test]
#[should_panic(expected = "retired 0, then 64")]
fn retiring_what_is_not_visible_panics() {
    let ring = LogRing::new(4096, 0);
    let lsn = ring.reserve(64).expect("room");
    fill(&ring, lsn, 64);
    ring.retire(64);
}

#[test]
fn whoever_waits_for_room_gets_it_or_gives_up() {
    let ring = LogRing::new(4096, 0);
    commit(&ring, 4096);
    let poisoned = AtomicBool::new(false);
    thread::scope(|scope| {
        let one = scope.spawn(|| ring.wait_room(64, || poisoned.load(Acquire)));
        ring.retire(4096);
        assert!(one.join().expect("no panic"));
        commit(&ring, 4096);
        let one = scope.spawn(|| ring.wait_room(64, || poisoned.load(Acquire)));
        poisoned.store(true, Release);
        ring.wake_waiters();
        assert!(!one.join().expect("no panic"));
        poisoned.store(false, Release);
        ring.set_limit(8192);
        ring.retire(8192);
        let one = scope.spawn(|| ring.wait_room(64, || poisoned.load(Acquire)));
        ring.set_limit(8192 + 64);
        assert!(one.join().expect("no panic"));
    });
}

#[test]
fn many_committers_and_a_flusher_go_round_a_small_ring_and_no_byte_is_lost() {
    const COMMITTERS: u64 = 4;
    const RECORDS: u64 = 400;
    const LEN_MAX: u64 = 512;
    const START: u64 = (1 << 40) + 8;
    let ring = LogRing::new(4096, START);
    // What was applied, by lsn.
    let applied: Vec<AtomicU64> =
        (0..COMMITTERS * RECORDS * LEN_MAX / 32).map(|_| AtomicU64::new(0)).collect();
    let applied = |lsn: u64| &applied[((lsn - START) / 32) as usize];
    thread::scope(|scope| {
        for seed in 0..COMMITTERS {
            let ring = &ring;
            scope.spawn(move || {
                let mut random = content(seed, 1);
                let mut last = 0;
                for _ in 0..RECORDS {
                    random = content(random, 2);
                    let len = 32 + (random >> 32) as u32 % (LEN_MAX as u32 - 32) / 8 * 8;
                    let lsn = loop {
                        match ring.reserve(len) {
                            Some(lsn) => break lsn,
                            None => assert!(ring.wait_room(len, || false)),
                        }
                    };
                    assert!(lsn > last, "lsns of one thread rise");
                    last = lsn;
                    fill(ring, lsn, len);
                    if random.is_multiple_of(3) {
                        // As a serializable committer does.
                        ring.wait_visible(lsn);
                    }
                    applied(lsn).store(lsn, Relaxed);
                    ring.applied(lsn);
                    if random.is_multiple_of(2) {
                        ring.wait_visible(lsn + u64::from(len));
                    }
                }
            });
        }
        let (mut from, mut records) = (START, 0);
        while records < COMMITTERS * RECORDS {
            let (lsns, end) = drain(&ring, from);
            ring.wait_visible(end);
            for &lsn in &lsns {
                assert_eq!(applied(lsn).load(Relaxed), lsn, "visible, but not applied");
            }
            records += lsns.len() as u64;
            ring.retire(end);
            if end == from {
                thread::yield_now();
            }
            from = end;
        }
        assert_eq!((ring.visible(), ring.tail()), (from, from));
        assert!(from - START > 50 * ring.bytes() as u64, "it went round many times");
    });
}
