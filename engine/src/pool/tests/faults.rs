//! Disks that are full or broken.

use super::*;
use crate::error::Error;
use crate::io::sim::{Fault, OpKind};

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. })
}

#[test]
fn a_full_disk_fails_the_checkpoint_and_loses_nothing() {
    let _watchdog = watchdog("a_full_disk_fails_the_checkpoint_and_loses_nothing");
    let bench = bench(32);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..20).map(|n| create(pool, n).expect("there is room")).collect();
    checkpoint(pool).expect("the disk works");
    for (n, &page) in (0..).zip(&pages) {
        stamp(pool, page, n + 100).expect("it stays in memory");
    }
    bench.disk.fail_from(0, Fault::Enospc, OpKind::Change);
    let error = checkpoint(pool).expect_err("the disk is full");
    assert!(is_full(&error), "{error}");
    let found = bench.after_crash(CrashMode::LoseAll);
    for (n, &page) in (0..).zip(&pages) {
        assert_eq!(read_stamp(&found, page).expect("the older checkpoint stands"), n);
        assert_eq!(read_stamp(pool, page).expect("it is in the pool"), n + 100);
    }
    bench.disk.clear_faults();
    stamp(pool, pages[0], 7).expect("there is room");
    checkpoint(pool).expect("there is room again");
    let found = bench.after_crash(CrashMode::LoseAll);
    for (n, &page) in (0..).zip(&pages) {
        let expected = if n == 0 { 7 } else { n + 100 };
        assert_eq!(read_stamp(&found, page).expect("it is in the checkpoint"), expected);
    }
    assert!(pool.store().audit().is_empty());
}

#[test]
fn a_disk_that_is_full_at_any_call_of_a_checkpoint_loses_nothing() {
    let _watchdog = watchdog("a_disk_that_is_full_at_any_call_of_a_checkpoint_loses_nothing");
    let mut completed = false;
    for index in 0..64 {
        let bench = bench(16);
        let pool = &bench.pool;
        let pages: Vec<_> = (0..12).map(|_| create(pool, 1).expect("there is room")).collect();
        checkpoint(pool).expect("the disk works");
        for &page in &pages {
            stamp(pool, page, 2).expect("there is room");
        }
        bench.disk.fail_at(index, Fault::Enospc, OpKind::Write);
        let hook = {
            let (pool, pages) = (Arc::downgrade(pool), pages.clone());
            move || {
                let pool = pool.upgrade().expect("the checkpoint runs on it");
                for &page in &pages[4..9] {
                    // What fails must leave the page as it was.
                    let _ = stamp(&pool, page, 3);
                }
                let _inside = pool.gate().enter();
                pool.free(latch(&pool, pages[11]).expect("it is in a frame"));
            }
        };
        *bench.hooked.before_write.lock().expect("nobody panicked") = Some(Box::new(hook));
        completed = checkpoint(pool).is_ok();
        bench.disk.clear_faults();
        let found = bench.after_crash(CrashMode::LoseAll);
        // Which checkpoint stands is a matter of where the fault hit; that it is one of the two is not.
        let first = read_stamp(&found, pages[0]).expect("some checkpoint stands");
        for &page in &pages {
            assert_eq!(read_stamp(&found, page).expect("some checkpoint stands"), first);
        }
        assert_eq!(first, if completed { 2 } else { 1 });
        if pool.store().health().is_ok() {
            checkpoint(pool).expect("there is room again");
            let found = bench.after_crash(CrashMode::LoseAll);
            for (n, &page) in pages.iter().enumerate() {
                if n == 11 {
                    found.reach(page).expect_err("it was freed");
                } else {
                    let stamp = read_stamp(pool, page).expect("it is in the pool");
                    assert!(stamp == 2 || stamp == 3 && (4..9).contains(&n), "{n}: {stamp}");
                    assert_eq!(read_stamp(&found, page).expect("it is there"), stamp);
                }
            }
            assert!(pool.store().audit().is_empty());
        }
        if completed {
            break;
        }
    }
    assert!(completed, "the fault came after the last call at some index");
}

#[test]
fn reads_go_on_when_nothing_can_be_written() {
    let _watchdog = watchdog("reads_go_on_when_nothing_can_be_written");
    let bench = bench(16);
    let pool = &bench.pool;
    let count = 4 * pool.frame_count() as u64;
    let pages: Vec<_> = (0..count).map(|n| create(pool, n).expect("there is room")).collect();
    checkpoint(pool).expect("the disk works");
    bench.disk.fail_from(0, Fault::Enospc, OpKind::Change);
    // Dirty until no clean page is left to make room.
    let mut changed = 0;
    let error = loop {
        match stamp(pool, pages[changed], 1_000_000 + changed as u64) {
            Ok(()) => changed += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&error), "{error}");
    assert!(changed > 8, "{changed}");
    bench.disk.clear_faults();
    for (n, &page) in pages.iter().enumerate() {
        let expected = if n < changed { 1_000_000 + n as u64 } else { n as u64 };
        assert_eq!(read_stamp(pool, page).expect("nothing was lost"), expected);
    }

    // With a few dirty pages the others come and go.
    checkpoint(pool).expect("the disk works");
    for &page in &pages[..4] {
        stamp(pool, page, 5).expect("there is room");
    }
    bench.disk.fail_from(0, Fault::Enospc, OpKind::Change);
    for &page in &pages {
        read_stamp(pool, page).expect("clean pages make room");
    }
}

#[test]
fn a_broken_disk_poisons_and_what_is_in_memory_stays_readable() {
    let _watchdog = watchdog("a_broken_disk_poisons_and_what_is_in_memory_stays_readable");
    let bench = bench(16);
    let pool = &bench.pool;
    let pages: Vec<_> = (0..10).map(|n| create(pool, n).expect("there is room")).collect();
    bench.disk.fail_at(0, Fault::Eio, OpKind::Sync);
    checkpoint(pool).expect_err("the sync failed");
    assert!(pool.store().health().is_err());
    for (n, &page) in (0..).zip(&pages) {
        assert_eq!(read_stamp(pool, page).expect("it is in a frame"), n);
    }
    let again = checkpoint(pool).expect_err("a failed sync is not tried again");
    assert!(matches!(again, Error::Poisoned { .. }), "{again}");
}

#[test]
fn a_damaged_image_is_an_error_that_names_the_page() {
    let bench = bench(16);
    let pool = &bench.pool;
    let page = create(pool, 1).expect("there is room");
    checkpoint(pool).expect("the disk works");
    let placement = pool.store().placement(page).expect("it was written");
    let disk = Arc::new(bench.disk.crash(1, CrashMode::KeepAll));
    let junk = crate::io::AlignedBuf::new(4096);
    disk.write(&[Write { offset: placement.block.offset(), bytes: &junk }]).expect("it works");
    let damaged = pool_on(disk, false, &options(16)).expect("the map is whole");
    let Err(Error::Corrupt(corruption)) = damaged.reach(page) else {
        panic!("the image is not what was written");
    };
    assert_eq!(corruption.page, Some(page));
    assert_eq!(damaged.stats().frames_free, damaged.stats().frames);
}
