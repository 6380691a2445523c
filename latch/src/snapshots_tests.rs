//! Tests of the registry of snapshots with real threads. The orderings are the business of the loom models.

use super::*;
use crate::primitives::{AtomicBool, rmw_count};
use std::thread;

fn live(snapshots: &Snapshots) -> Vec<(u64, u64)> {
    let mut live = Vec::new();
    snapshots.each(|_, lsn, since| live.push((lsn, since)));
    live.sort_unstable();
    live
}

#[test]
fn registering_and_releasing_do_no_read_modify_write() {
    let snapshots = Snapshots::new();
    snapshots.release(snapshots.register(0, || 8));
    let before = rmw_count();
    let slots: Vec<_> = (0..7).map(|i| snapshots.register(i, || 8)).collect();
    for slot in slots {
        assert!(!snapshots.is_ended(slot));
        snapshots.release(slot);
    }
    assert_eq!(snapshots.horizon(|| 16, 8), 16);
    assert_eq!(rmw_count(), before);
}

#[test]
fn the_horizon_is_the_least_of_upper_and_all_that_live() {
    let snapshots = Snapshots::new();
    assert_eq!(snapshots.horizon(|| 800, 0), 800);
    let old = snapshots.register(1, || 80);
    let young = snapshots.register(2, || 160);
    assert_eq!((snapshots.lsn(old), snapshots.lsn(young)), (80, 160));
    assert_eq!(snapshots.horizon(|| 800, 8), 80);
    assert_eq!(snapshots.horizon(|| 40, 8), 40);
    snapshots.release(old);
    assert_eq!(snapshots.horizon(|| 800, 80), 160);
    snapshots.release(young);
    assert_eq!(snapshots.horizon(|| 800, 160), 800);
    assert_eq!(snapshots.horizon(|| 400, 800), 800, "it never falls");
    let late = snapshots.register(3, || 400);
    assert_eq!(snapshots.horizon(|| 1600, 800), 800, "not for one that comes too late either");
    snapshots.release(late);
}

#[test]
fn a_snapshot_that_has_no_lsn_yet_holds_the_horizon_where_it_was() {
    let snapshots = Snapshots::new();
    let slot = snapshots.register(0, || {
        assert_eq!(snapshots.horizon(|| 800, 80), 80);
        assert_eq!(live(&snapshots), []);
        400
    });
    assert_eq!(snapshots.horizon(|| 800, 80), 400);
    snapshots.release(slot);
}

#[test]
fn a_thread_may_hold_any_number_and_gets_its_slots_back() {
    let snapshots = Snapshots::new();
    let slots: Vec<_> = (1..=1_000).map(|i| snapshots.register(i, || 8 * i)).collect();
    let all: Vec<_> = (1..=1_000).map(|i| (8 * i, i)).collect();
    assert_eq!(live(&snapshots), all);
    for (slot, &(lsn, _)) in slots.iter().zip(&all) {
        assert_eq!(snapshots.lsn(*slot), lsn);
        assert_eq!(snapshots.horizon(|| 1 << 40, 0), lsn);
        // As often by another thread as by the owner.
        if lsn % 16 == 0 {
            snapshots.release(*slot);
        } else {
            thread::scope(|scope| {
                scope.spawn(|| snapshots.release(*slot)).join().expect("no panic")
            });
        }
    }
    assert_eq!(live(&snapshots), []);
    let again = snapshots.register(0, || 8);
    assert_eq!(again.place, slots[0].place);
    snapshots.release(again);
}

#[test]
fn an_ended_snapshot_holds_nothing_and_is_told() {
    let snapshots = Snapshots::new();
    let slot = snapshots.register(5, || 80);
    let mut found = None;
    snapshots.each(|slot, lsn, since| found = Some((slot, lsn, since)));
    assert_eq!(found, Some((slot, 80, 5)));
    assert!(!snapshots.end(slot, 88), "another lsn");
    assert!(!snapshots.is_ended(slot));
    assert!(snapshots.end(slot, 80));
    assert!(!snapshots.end(slot, 80), "ended already");
    assert!(snapshots.is_ended(slot));
    assert_eq!(snapshots.lsn(slot), 80);
    assert_eq!(snapshots.horizon(|| 800, 8), 800);
    assert_eq!(live(&snapshots), []);
    snapshots.release(slot);
    let next = snapshots.register(6, || 80);
    assert_eq!(next.place, slot.place);
    assert!(!snapshots.is_ended(next));
    assert!(!snapshots.end(slot, 80), "the slot is another's, of the same lsn");
    assert!(!snapshots.is_ended(next));
    snapshots.release(next);
}

#[test]
fn generations_wrap_without_touching_lsn_or_state() {
    let snapshots = Snapshots::new();
    for i in 0..(1 << 14) + 5 {
        let slot = snapshots.register(i, || LSN);
        assert_eq!((slot.place, snapshots.lsn(slot)), (0, LSN));
        snapshots.release(slot);
    }
    assert_eq!(live(&snapshots), []);
}

#[test]
fn no_reader_finds_dropped_what_it_may_ask_for() {
    const READERS: usize = 3;
    let snapshots = Snapshots::new();
    let visible = AtomicU64::new(8);
    // What is below was dropped.
    let dropped = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    for i in 0..1_500 {
                        let slot = snapshots.register(i, || visible.load(Acquire));
                        let lsn = snapshots.lsn(slot);
                        assert!(dropped.load(Acquire) <= lsn || snapshots.is_ended(slot));
                        if i % 8 == 0 {
                            thread::yield_now();
                        }
                        assert!(dropped.load(Acquire) <= lsn || snapshots.is_ended(slot));
                        snapshots.release(slot);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut horizon = 0;
            for round in 0_u64.. {
                if stop.load(Acquire) {
                    break;
                }
                visible.store(8 * (round + 2), Release);
                if round % 16 == 0 {
                    snapshots.each(|slot, lsn, _| {
                        snapshots.end(slot, lsn);
                    });
                }
                let next = snapshots.horizon(|| visible.load(Acquire), horizon);
                assert!(next >= horizon);
                horizon = next;
                dropped.store(horizon, Release);
            }
        });
        for reader in readers {
            let done = reader.join();
            if done.is_err() {
                stop.store(true, Release);
            }
            done.expect("no reader panics");
        }
        stop.store(true, Release);
    });
    assert_eq!(live(&snapshots), []);
}
