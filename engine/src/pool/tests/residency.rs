//! Which page is where: loads, evictions, hints, reservations.

use super::*;
use crate::error::{Error, Usage};
use crate::node::ChildWord;
use crate::pool::PageHashLatches;
use crate::pool::reserve::RESERVE_MAX;
use latchkv_latch::primitives::{self, Ordering};
use std::sync::atomic::AtomicU64;

#[test]
fn too_small_a_cache_is_refused_with_the_least_that_would_do() {
    let least = Pool::cache_bytes_min(PAGE_BYTES);
    let small = PoolOptions { cache_bytes: least - 1, ..options(16) };
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let refused = pool_on(disk.clone(), true, &small).expect_err("it is one byte short");
    let Error::Usage(Usage::BadOption { option: "cache_bytes", allowed, .. }) = refused else {
        panic!("{refused}");
    };
    assert!(allowed.contains(&least.to_string()), "{allowed}");
    let pool = pool_on(disk, false, &PoolOptions { cache_bytes: least, ..options(16) });
    let pool = pool.expect("this is the least");
    assert_eq!(pool.frame_count(), 16);
    assert!(pool.stats().total_bytes <= least);
}

#[test]
fn evicted_pages_come_back_as_they_were() {
    let _watchdog = watchdog("evicted_pages_come_back_as_they_were");
    let bench = bench(16);
    let pool = &bench.pool;
    let count = 5 * pool.frame_count() as u64;
    let pages: Vec<_> = (0..count).map(|n| create(pool, n).expect("there is room")).collect();
    for round in 0..3 {
        for (n, &page) in (0..).zip(&pages) {
            assert_eq!(read_stamp(pool, page).expect("it was written"), n + round * 1000);
            stamp(pool, page, n + (round + 1) * 1000).expect("there is room");
        }
    }
    let stats = pool.stats();
    assert!(stats.evictions >= 3 * (count - stats.frames), "{stats:?}");
    assert!(stats.loads >= 3 * (count - stats.frames), "{stats:?}");
}

#[test]
fn eight_threads_on_sixteen_frames_see_whole_pages_and_lose_no_change() {
    let _watchdog = watchdog("eight_threads_on_sixteen_frames_see_whole_pages_and_lose_no_change");
    for latches in [PageHashLatches::PerCell, PageHashLatches::Outside { count: 4 }] {
        let mut options = options(16);
        options.cache_bytes += 4 * 128;
        let bench = bench_with(&PoolOptions { page_hash_latches: latches, ..options });
        let pool = &bench.pool;
        let pages: Vec<_> = (0..200).map(|_| create(pool, 0).expect("there is room")).collect();
        let writes: Vec<_> = pages.iter().map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (pages, writes) = (&pages, &writes);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let mut hints = vec![FrameId::NO_HINT; pages.len()];
                    for _ in 0..400 {
                        let at = random.usize(..pages.len());
                        let page = pages[at];
                        if random.bool() {
                            let read = read_stamp_hinted(pool, page, hints[at]);
                            hints[at] = read.expect("it was written").1;
                        } else {
                            let _inside = pool.gate().enter();
                            let x = latch(pool, page).expect("it was written");
                            pool.touch(&x, false).expect("no checkpoint runs");
                            let before = value_bytes(x.page()).and_then(|b| stamp_of(page, &b));
                            let before = before.expect("X is held");
                            write_stamp(x.page(), page, before + 1);
                            writes[at].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        for (page, writes) in pages.iter().zip(&writes) {
            let stamp = read_stamp(pool, *page).expect("it was written");
            assert_eq!(stamp, writes.load(Ordering::Relaxed), "page {page}");
        }
        assert!(pool.stats().evictions > 200);
    }
}

#[test]
fn reservations_of_more_threads_than_frames_all_end() {
    let _watchdog = watchdog("reservations_of_more_threads_than_frames_all_end");
    let bench = bench(16);
    let pool = &bench.pool;
    std::thread::scope(|scope| {
        for thread in 0..32 {
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..6 {
                    let mut reservation = pool.reserve(RESERVE_MAX).expect("there is room");
                    let made: Vec<_> = (0..=round % RESERVE_MAX)
                        .map(|_| {
                            let x = reservation.create();
                            write_stamp(x.page(), x.page_id(), thread);
                            x.page_id()
                        })
                        .collect();
                    drop(reservation);
                    for page in made {
                        if kept.len() < 3 {
                            kept.push(page);
                        } else {
                            let _inside = pool.gate().enter();
                            pool.free(latch(pool, page).expect("it was made"));
                        }
                    }
                }
                for page in kept {
                    assert_eq!(read_stamp(pool, page).expect("it was kept"), thread);
                }
            });
        }
    });
    let stats = pool.stats();
    assert!(stats.frames_dirty <= stats.frames, "{stats:?}");
}

#[test]
fn a_dropped_reservation_gives_everything_back() {
    let bench = bench(16);
    let free = bench.pool.stats().frames_free;
    let first = {
        let mut reservation = bench.pool.reserve(RESERVE_MAX).expect("there is room");
        let x = reservation.create();
        write_stamp(x.page(), x.page_id(), 1);
        x.page_id()
    };
    assert_eq!(bench.pool.stats().frames_free, free - 1);
    assert!(bench.pool.store().knows(first));
    let known = (1..64).filter(|&page| bench.pool.store().knows(PageId(page))).count();
    assert_eq!(known, 1, "the other ids went back");
}

#[test]
fn a_freed_page_is_gone_and_its_frame_is_free() {
    let bench = bench(16);
    let pool = &bench.pool;
    let free = pool.stats().frames_free;
    let page = create(pool, 1).expect("there is room");
    let other = create(pool, 2).expect("there is room");
    {
        let _inside = pool.gate().enter();
        pool.free(latch(pool, page).expect("it was made"));
        // In a frame, though the caller did not fix it.
        pool.free_unloaded(other);
    }
    for page in [page, other] {
        let gone = pool.reach(page).expect_err("it was freed");
        assert!(matches!(gone, Error::Corrupt(_)), "{gone}");
    }
    let stats = pool.stats();
    assert_eq!((stats.frames_free, stats.frames_dirty), (free, 0));
}

#[test]
fn a_page_that_cannot_be_loaded_is_an_error_for_everyone_and_costs_no_frame() {
    let _watchdog =
        watchdog("a_page_that_cannot_be_loaded_is_an_error_for_everyone_and_costs_no_frame");
    let bench = bench(16);
    let pool = &bench.pool;
    let free = pool.stats().frames_free;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for page in [0, 77, 77, 77, PageId::MAX.0, PageId::MAX.0 + 1, u64::MAX] {
                    let missing = pool.reach(PageId(page)).expect_err("nobody made it");
                    assert!(matches!(missing, Error::Corrupt(_)), "{missing}");
                }
            });
        }
    });
    assert_eq!(pool.stats().frames_free, free);
}

#[test]
fn a_repaired_hint_leads_to_the_frame_and_a_stale_one_nowhere() {
    let bench = bench(16);
    let pool = &bench.pool;
    let child = create(pool, 5).expect("there is room");
    let parent = {
        let mut reservation = pool.reserve(1).expect("there is room");
        let x = reservation.create();
        x.page().format(1, x.page_id(), TREE, &[], None);
        x.page().set_child(0, ChildWord::unhinted(child));
        x.page_id()
    };
    let (parent_frame, at) = pool.reach(parent).expect("it was made");
    let old = pool.page(parent_frame).child(0);
    assert_eq!(pool.reach_hinted(old), None);
    let (frame, _) = pool.reach(child).expect("it was made");
    let slot = pool.page(parent_frame).child_slot(0).expect("the upper child is always there");
    pool.repair_hint(parent_frame, at, slot, old, frame);
    assert!(pool.latch(parent_frame).validate(at), "a repair does not move the version");
    let repaired = pool.page(parent_frame).child(0);
    assert_eq!(repaired, ChildWord::new(child, frame));
    assert_eq!(pool.reach_hinted(repaired).map(|(frame, _)| frame), Some(frame));
    assert_eq!(pool.stats().hint_repairs, 1);

    // Not at another version.
    drop(latch(pool, parent).expect("it was made"));
    pool.repair_hint(parent_frame, at, slot, repaired, FrameId(3));
    assert_eq!(pool.page(parent_frame).child(0), repaired);

    // The child leaves its frame: the hint is stale and is not believed.
    for n in 0..4 * pool.frame_count() as u64 {
        create(pool, n).expect("there is room");
    }
    for n in 0..pool.frame_count() as u32 {
        if let Some((frame, at)) = pool.reach_hinted(ChildWord::new(child, FrameId(n))) {
            let stamp = value_bytes(pool.page(frame)).and_then(|bytes| stamp_of(child, &bytes));
            assert!(pool.latch(frame).validate(at) && stamp == Some(5));
        }
    }
    assert_eq!(pool.reach_hinted(ChildWord::unhinted(child)), None);
    assert_eq!(read_stamp(pool, child).expect("it was written"), 5);
}

#[test]
fn hints_that_are_switched_off_are_never_followed() {
    let bench = bench_with(&PoolOptions { frame_hints: false, ..options(16) });
    let page = create(&bench.pool, 1).expect("there is room");
    let (frame, _) = bench.pool.reach(page).expect("it was made");
    assert_eq!(bench.pool.reach_hinted(ChildWord::new(page, frame)), None);
    bench.pool.prefetch(ChildWord::new(page, frame), 4);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "read-modify-writes are counted in debug builds")]
fn a_page_in_a_frame_is_reached_without_a_read_modify_write() {
    let bench = bench(16);
    let pool = &bench.pool;
    let page = create(pool, 1).expect("there is room");
    let (frame, _) = pool.reach(page).expect("it was made");
    let before = primitives::rmw_count();
    for _ in 0..10 {
        let (hinted, at) =
            pool.reach_hinted(ChildWord::new(page, frame)).expect("the hint is right");
        pool.prefetch(ChildWord::new(page, hinted), 4);
        pool.reference(hinted);
        assert!(pool.latch(hinted).validate(at));
        let (hashed, at) = pool.reach(page).expect("it is there");
        assert!(pool.latch(hashed).validate(at));
    }
    assert_eq!(primitives::rmw_count(), before);
    assert_eq!(pool.stats().hash_hits, 11);

    let _inside = pool.gate().enter();
    let x = latch(pool, page).expect("it was made");
    let before = primitives::rmw_count();
    pool.touch(&x, false).expect("it is dirty already");
    assert_eq!(primitives::rmw_count(), before);
}

#[test]
fn a_background_step_keeps_frames_free_and_stops_when_there_are_enough() {
    let _watchdog = watchdog("a_background_step_keeps_frames_free_and_stops_when_there_are_enough");
    let bench = bench(256);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..400).map(|n| create(pool, n).expect("there is room")).collect();
    // Uses up what eviction in batches left free.
    let mut more = 0;
    while pool.stats().frames_free > 0 {
        create(pool, more).expect("there is room");
        more += 1;
    }
    while pool.clean_ahead().expect("the disk works") {}
    assert!(pool.stats().frames_free >= pool.frame_count() as u64 / 64);
    for (n, &page) in (0..).zip(&pages) {
        assert_eq!(read_stamp(pool, page).expect("it was written"), n);
    }
}
