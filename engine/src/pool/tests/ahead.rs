//! Pages read ahead.

use super::*;
use crate::error::Error;
use crate::io::sim::{Fault, OpKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages with the stamps 0, 1, .. on disk, and a pool of `frames` frames that has none of them.
fn cold(frames: usize, count: u64) -> (Bench, Vec<PageId>) {
    let Bench { pool, disk, .. } = bench(64);
    let pages = (0..count).map(|n| create(&pool, n).expect("there is room")).collect();
    checkpoint(&pool).expect("the disk works");
    drop(pool);
    let hooked = Arc::new(Hooked { disk: Some(disk.clone()), ..Hooked::default() });
    let pool = pool_on(hooked.clone(), false, &options(frames)).expect("the checkpoint opens");
    (Bench { pool: Arc::new(pool), disk, hooked }, pages)
}

/// Batches and single reads that the disk has seen.
fn reads(bench: &Bench) -> (u64, u64) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    (read(&bench.hooked.batches), read(&bench.hooked.singles))
}

/// Where the image of a page lies.
fn offset(pool: &Pool, page: PageId) -> u64 {
    pool.store().placement(page).expect("it is on disk").block.offset()
}

#[test]
fn pages_come_in_as_one_batch_and_are_not_read_again() {
    let (bench, pages) = cold(256, 100);
    let pool = &bench.pool;
    let before = reads(&bench);
    let count = pool.read_ahead_max();
    assert!((4..100).contains(&count));
    assert_eq!(pool.read_ahead(&pages), count, "no more than the buffers are for");
    assert_eq!(pool.read_ahead(&pages[..count]), 0, "they are there");
    for (n, &page) in (0..).zip(&pages[..count]) {
        assert_eq!(read_stamp(pool, page).expect("it came"), n);
    }
    assert_eq!(reads(&bench), (before.0 + 1, before.1));
    let stats = pool.stats();
    assert_eq!((stats.loads, stats.loads_ahead), (count as u64, count as u64));
    assert_eq!(stats.frames_free, stats.frames - count as u64);
    assert_eq!(read_stamp(pool, pages[count]).expect("it is on disk"), count as u64);
    assert_eq!(reads(&bench), (before.0 + 1, before.1 + 1));
}

#[test]
fn a_damaged_page_of_a_batch_is_told_to_its_reader_alone() {
    let (bench, pages) = cold(256, 8);
    let pool = &bench.pool;
    let free = pool.stats().frames_free;
    bench.disk.damage(offset(pool, pages[3]) + 100, &[1, 2, 3]);
    assert_eq!(pool.read_ahead(&pages), 7);
    assert_eq!(pool.stats().frames_free, free - 7, "the eighth frame went back");
    for (n, &page) in (0..).zip(&pages) {
        match read_stamp(pool, page) {
            Err(Error::Corrupt(corruption)) => {
                assert_eq!((n, corruption.page, corruption.what), (3, Some(page), "checksum"));
            }
            read => assert_eq!(read.expect("it is whole"), n),
        }
    }
}

#[test]
fn a_read_that_fails_within_a_batch_leaves_the_others_and_can_be_done_again() {
    for index in 0..8 {
        let (bench, pages) = cold(256, 8);
        let pool = &bench.pool;
        bench.disk.fail_at(index, Fault::Eio, OpKind::Read);
        assert_eq!(pool.read_ahead(&pages), 7);
        bench.disk.clear_faults();
        assert_eq!(pool.read_ahead(&pages), 1);
        for (n, &page) in (0..).zip(&pages) {
            assert_eq!(read_stamp(pool, page).expect("it came"), n);
        }
        bench.disk.fail_from(0, Fault::Eio, OpKind::Read);
        assert_eq!(pool.read_ahead(&[PageId(4000)]), 0, "who needs it will be told");
    }
}

#[test]
fn ids_of_no_page_and_ids_named_twice_do_no_harm() {
    let (bench, pages) = cold(256, 4);
    let pool = &bench.pool;
    let free = pool.stats().frames_free;
    let freed = pages[1];
    {
        let _inside = pool.gate().enter();
        pool.free_unloaded(freed);
    }
    let beyond = PageId(PageId::MAX.0 + 1);
    let named = [pages[0], freed, PageId::NONE, pages[0], beyond, PageId(999), pages[2], pages[0]];
    assert_eq!(pool.read_ahead(&named), 2);
    assert_eq!(pool.stats().frames_free, free - 2);
    pool.reach(freed).expect_err("it was freed");
    assert_eq!(read_stamp(pool, pages[2]).expect("it came"), 2);
}

#[test]
fn sixteen_frames_are_too_few_to_read_ahead() {
    let (bench, pages) = cold(16, 12);
    assert_eq!(bench.pool.read_ahead_max(), 0);
    assert_eq!(bench.pool.read_ahead(&pages), 0);
    assert_eq!(bench.pool.stats().loads, 0);
    assert_eq!(read_stamp(&bench.pool, pages[5]).expect("it is on disk"), 5);
}

#[test]
fn nothing_is_written_for_what_may_be_unneeded() {
    let (bench, pages) = cold(64, 30);
    let pool = &bench.pool;
    assert!(pool.read_ahead_max() >= 2);
    // Every frame holds a page that is to be written.
    while pool.stats().frames_dirty < pool.stats().frames {
        create(pool, 1).expect("there is room");
    }
    let (writes, writebacks) = (bench.disk.op_count(OpKind::Write), pool.stats().writebacks);
    assert_eq!(pool.read_ahead(&pages), 0, "no frame can be had without writing");
    assert_eq!(pool.stats().writebacks, writebacks);
    assert_eq!(bench.disk.op_count(OpKind::Write), writes);
    assert_eq!(read_stamp(pool, pages[7]).expect("it is on disk"), 7);
}

#[test]
fn threads_that_read_ahead_load_change_and_free_the_same_pages_see_whole_pages() {
    let _watchdog =
        watchdog("threads_that_read_ahead_load_change_and_free_the_same_pages_see_whole_pages");
    let bench = bench(64);
    let pool = &bench.pool;
    let kept: Vec<PageId> = (0..200).map(|n| create(pool, n).expect("there is room")).collect();
    // Ids of pages that one thread frees and makes again, so those of the others are stale.
    let passing: Vec<AtomicU64> =
        (0..20).map(|n| AtomicU64::new(create(pool, n).expect("there is room").0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (kept, passing) = (&kept, &passing);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..150 {
                    let from = random.usize(..kept.len() - 8);
                    let mut named = kept[from..from + 8].to_vec();
                    let stale = passing[random.usize(..passing.len())].load(Ordering::Relaxed);
                    named.insert(random.usize(..8), PageId(stale));
                    pool.read_ahead(&named);
                    for &page in &kept[from..from + 8] {
                        read_stamp(pool, page).expect("it was written");
                    }
                    stamp(pool, kept[from], random.u64(..1000)).expect("there is room");
                }
            });
        }
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(9);
            for round in 0..300 {
                let slot = &passing[random.usize(..passing.len())];
                let page = PageId(slot.load(Ordering::Relaxed));
                {
                    let _inside = pool.gate().enter();
                    pool.free(latch(pool, page).expect("nobody else frees it"));
                }
                let made = create(pool, round).expect("there is room");
                assert_eq!(read_stamp(pool, made).expect("it was made"), round);
                slot.store(made.0, Ordering::Relaxed);
            }
        });
    });
    for &page in &kept {
        read_stamp(pool, page).expect("it was written");
    }
    checkpoint(pool).expect("the disk works");
    assert!(pool.store().audit().is_empty());
    let stats = pool.stats();
    assert!(stats.loads_ahead > 0 && stats.loads > stats.loads_ahead, "{stats:?}");
}
