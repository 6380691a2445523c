//! What is in a checkpoint and what is not.

use super::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn a_crash_after_a_checkpoint_finds_its_pages() {
    let bench = bench(16);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..40).map(|n| create(pool, n).expect("there is room")).collect();
    let report = checkpoint(pool).expect("the disk works");
    assert_eq!(report.epoch, 1);
    assert!(report.pages <= 40);
    assert_eq!(pool.stats().frames_dirty, 0);
    assert_eq!(pool.dirtied_bytes(), 0);
    // Not in any checkpoint.
    for &page in &pages {
        stamp(pool, page, 999).expect("there is room");
    }
    assert_eq!(pool.dirtied_bytes(), 40 * u64::from(PAGE_BYTES));
    for mode in [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random] {
        let found = bench.after_crash(mode);
        for (n, &page) in (0..).zip(&pages) {
            assert_eq!(read_stamp(&found, page).expect("it was in the checkpoint"), n);
        }
    }
}

#[test]
fn a_page_written_twice_in_an_epoch_counts_once() {
    let bench = bench(16);
    let page = create(&bench.pool, 1).expect("there is room");
    stamp(&bench.pool, page, 2).expect("there is room");
    stamp(&bench.pool, page, 3).expect("there is room");
    assert_eq!(bench.pool.dirtied_bytes(), u64::from(PAGE_BYTES));
    let report = checkpoint(&bench.pool).expect("the disk works");
    assert_eq!((report.pages, report.put_aside), (1, 0));
    let report = checkpoint(&bench.pool).expect("the disk works");
    assert_eq!(report.pages, 0);
}

/// Between the freeze and the first write of a checkpoint a writer changes more pages than can be put aside,
/// and frees two. None of that is in the checkpoint, all of it is in the next.
#[test]
fn a_change_behind_the_freeze_stays_out_of_the_checkpoint() {
    let _watchdog = watchdog("a_change_behind_the_freeze_stays_out_of_the_checkpoint");
    let bench = bench(16);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..12).map(|_| create(pool, 1).expect("there is room")).collect();
    let (changed, freed) = (pages[2..9].to_vec(), pages[9..11].to_vec());
    let hook = {
        let (pool, changed, freed) = (Arc::downgrade(pool), changed.clone(), freed.clone());
        move || {
            let pool = pool.upgrade().expect("the checkpoint runs on it");
            for &page in &freed {
                let _inside = pool.gate().enter();
                pool.free(latch(&pool, page).expect("it is in a frame"));
            }
            for &page in &changed {
                stamp(&pool, page, 2).expect("the disk works");
                stamp(&pool, page, 3).expect("the disk works");
            }
        }
    };
    *bench.hooked.before_write.lock().expect("nobody panicked") = Some(Box::new(hook));
    let report = checkpoint(pool).expect("the disk works");
    assert!(bench.hooked.before_write.lock().expect("nobody panicked").is_none());
    assert!(report.put_aside >= 2, "{report:?}");
    for mode in [CrashMode::LoseAll, CrashMode::Random] {
        let found = bench.after_crash(mode);
        for &page in &pages {
            assert_eq!(read_stamp(&found, page).expect("it was in the checkpoint"), 1, "{page}");
        }
    }

    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    for &page in &pages {
        if freed.contains(&page) {
            found.reach(page).expect_err("it was freed");
            pool.reach(page).expect_err("it was freed");
        } else {
            let expected = if changed.contains(&page) { 3 } else { 1 };
            assert_eq!(read_stamp(&found, page).expect("it is in the checkpoint"), expected);
            assert_eq!(read_stamp(pool, page).expect("it is in the pool"), expected);
        }
    }
    assert!(pool.store().audit().is_empty());
    assert!(found.store().audit().is_empty());
}

/// Stops the writers, also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers change two pages each inside the gate, and a third that is made and freed again. Each checkpoint
/// is the state at its gate, whatever the writers and evictors do meanwhile.
fn checkpoints_under_writers(frames: usize) {
    const WRITERS: usize = 4;
    const PAIRS: usize = 8;
    const CHECKPOINTS: u64 = 6;
    let bench = bench(frames);
    let pool = &bench.pool;
    let pages: Vec<[PageId; 2]> = (0..WRITERS * PAIRS)
        .map(|_| [0, 1].map(|_| create(pool, 0).expect("there is room")))
        .collect();
    let stamps: Vec<_> = pages.iter().map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (pages, stamps, stop) = (&pages, &stamps, &stop);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer as u64);
                let mut next = 0;
                while !stop.load(Ordering::Relaxed) {
                    next += 1;
                    let pair = writer * PAIRS + random.usize(..PAIRS);
                    let short_lived = create(pool, next).expect("the disk works");
                    {
                        let _inside = pool.gate().enter();
                        for page in pages[pair] {
                            stamp(pool, page, next).expect("the disk works");
                        }
                        stamps[pair].store(next, Ordering::Relaxed);
                    }
                    let _inside = pool.gate().enter();
                    pool.free(latch(pool, short_lived).expect("it was made"));
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        for _ in 0..CHECKPOINTS {
            let mut at_gate = Vec::new();
            let at_close = || {
                at_gate = stamps.iter().map(|stamp| stamp.load(Ordering::Relaxed)).collect();
                (vec![(TREE, at_gate.iter().sum())], TreeId(8), 0)
            };
            pool.checkpoint(at_close, |_| Ok(0)).expect("the disk works");
            let found = bench.after_crash(CrashMode::Random);
            assert_eq!(found.store().lengths(), [(TREE, at_gate.iter().sum())]);
            for (pair, expected) in pages.iter().zip(&at_gate) {
                for &page in pair {
                    let stamp = read_stamp(&found, page).expect("it was in the checkpoint");
                    assert_eq!(stamp, *expected, "page {page}");
                }
            }
        }
    });
    checkpoint(pool).expect("the disk works");
    let kept: HashSet<_> = pages.iter().flatten().copied().collect();
    let mapped = pool.store().pages_from(PageId(1), 10_000);
    assert_eq!(mapped.into_iter().collect::<HashSet<_>>(), kept, "freed pages left the map");
    let problems = pool.store().audit();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn checkpoints_under_writers_and_evictors_are_states_of_the_gate() {
    let _watchdog = watchdog("checkpoints_under_writers_and_evictors_are_states_of_the_gate");
    checkpoints_under_writers(16);
}

#[test]
fn checkpoints_under_writers_with_room_are_states_of_the_gate() {
    let _watchdog = watchdog("checkpoints_under_writers_with_room_are_states_of_the_gate");
    checkpoints_under_writers(128);
}

#[test]
fn provisional_pages_are_in_no_checkpoint_until_they_are_adopted() {
    let bench = bench(16);
    let pool = &bench.pool;
    create(pool, 1).expect("there is room");
    // Many, so that some are evicted and some are not.
    let pages: Vec<_> = (0..40)
        .map(|n| {
            let mut reservation = pool.reserve_provisional(1).expect("there is room");
            let x = reservation.create();
            write_stamp(x.page(), x.page_id(), n);
            x.page_id()
        })
        .collect();
    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    for &page in &pages {
        assert!(!found.store().knows(page));
    }
    assert!(found.store().audit().is_empty());
    {
        let _inside = pool.gate().enter();
        pool.adopt(&pages);
    }
    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    for (n, &page) in (0..).zip(&pages) {
        assert_eq!(read_stamp(&found, page).expect("it was adopted"), n);
    }
}

/// The page is in the first checkpoint, whose map page nothing else changes afterwards. The next checkpoint
/// has to write that map page again, or it would name a page whose blocks it gives back.
#[test]
fn a_page_freed_behind_the_freeze_leaves_with_the_next_checkpoint() {
    let bench = bench(16);
    let pool = &bench.pool;
    let page = create(pool, 1).expect("there is room");
    let other = create(pool, 2).expect("there is room");
    let hook = {
        let pool = Arc::downgrade(pool);
        move || {
            let pool = pool.upgrade().expect("the checkpoint runs on it");
            let _inside = pool.gate().enter();
            pool.free(latch(&pool, page).expect("it is in a frame"));
        }
    };
    *bench.hooked.before_write.lock().expect("nobody panicked") = Some(Box::new(hook));
    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    assert_eq!(read_stamp(&found, page).expect("it was there at the freeze"), 1);

    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    found.reach(page).expect_err("it was freed");
    assert_eq!(read_stamp(&found, other).expect("it is there"), 2);
    assert!(found.store().audit().is_empty());
}

/// More pages than one map page names, of which only the first few stay.
#[test]
fn a_map_page_that_becomes_empty_is_no_damage() {
    let _watchdog = watchdog("a_map_page_that_becomes_empty_is_no_damage");
    let bench = bench(64);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..1040).map(|n| create(pool, n).expect("there is room")).collect();
    checkpoint(pool).expect("the disk works");
    for &page in &pages[8..] {
        let _inside = pool.gate().enter();
        pool.free_unloaded(page);
    }
    checkpoint(pool).expect("the disk works");
    let found = bench.after_crash(CrashMode::LoseAll);
    for (n, &page) in (0..).zip(&pages[..8]) {
        assert_eq!(read_stamp(&found, page).expect("it stayed"), n);
    }
    assert_eq!(found.store().pages_from(PageId(1), 10_000), pages[..8]);
}
