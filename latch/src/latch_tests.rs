//! Tests of the latch with real threads. The orderings are the business of the loom models.

use super::*;
use crate::primitives::rmw_count;
use std::thread;

#[test]
fn optimistic_read_does_no_read_modify_write() {
    let latch = Latch::new();
    let before = rmw_count();
    let at = latch.begin();
    assert!(latch.validate(at));
    assert_eq!(rmw_count(), before);
    drop(latch.exclusive());
    if cfg!(debug_assertions) {
        assert!(rmw_count() >= before + 2, "one to take X, one to release it");
    }
}

#[test]
fn version_moves_on_release_but_not_on_clean_release_or_shared() {
    let latch = Latch::new();
    let at = latch.begin();
    drop(latch.shared());
    assert_eq!(latch.exclusive().release_clean(), at);
    assert!(latch.validate(at));
    let after = latch.exclusive().release();
    assert_ne!(after, at);
    assert!(!latch.validate(at));
    assert!(latch.validate(after));
}

#[test]
fn exclusive_excludes_everything() {
    let latch = Latch::new();
    let at = latch.begin();
    let x = latch.try_exclusive().expect("free");
    assert!(latch.try_begin().is_none());
    assert!(latch.try_shared().is_none());
    assert!(latch.try_exclusive().is_none());
    assert!(latch.upgrade(at).is_none());
    assert!(latch.try_upgrade(at).is_none());
    assert!(latch.shared_at(at).is_none());
    assert!(!latch.validate(at));
    let _ = x.release_clean();
    assert!(latch.upgrade(at).is_some());
}

#[test]
fn downgrade_lets_readers_in_and_writers_not() {
    let latch = Latch::new();
    let at = latch.begin();
    let s = latch.exclusive().downgrade();
    assert_ne!(s.version(), at);
    assert!(latch.try_shared().is_some());
    assert!(latch.try_exclusive().is_none());
    assert!(latch.try_upgrade(s.version()).is_none());
    drop(s);
    assert!(latch.try_exclusive().is_some());
}

#[test]
fn full_shared_count_makes_the_next_reader_wait_for_room() {
    let latch = Latch::new();
    let mut held: Vec<_> = (0..4095).map(|_| latch.try_shared().expect("room")).collect();
    assert!(latch.try_shared().is_none());
    assert!(latch.shared_at(latch.begin()).is_none());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(latch.shared()));
        for _ in 0..100 {
            thread::yield_now();
        }
        held.pop();
        waiter.join().expect("the waiter got the room");
    });
    drop(held);
    assert!(latch.try_exclusive().is_some());
}

#[test]
fn upgrade_waits_for_a_reader() {
    let latch = Latch::new();
    let at = latch.begin();
    let s = latch.shared();
    thread::scope(|scope| {
        let upgrader = scope.spawn(|| latch.upgrade(at).is_some());
        for _ in 0..100 {
            thread::yield_now();
        }
        drop(s);
        assert!(upgrader.join().expect("no panic"));
    });
}

#[test]
fn readers_of_any_kind_never_see_half_a_write() {
    const ROUNDS: u64 = 2_000;
    let latch = Latch::new();
    let words = [const { AtomicU64::new(0) }; 4];
    let read = || words.each_ref().map(|word| word.load(Relaxed));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let _x = latch.exclusive();
                    for word in &words {
                        word.store(word.load(Relaxed) + 1, Relaxed);
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut last = 0;
            while last < 2 * ROUNDS {
                let at = latch.begin();
                let seen = read();
                if latch.validate(at) {
                    assert!(seen.iter().all(|&word| word == seen[0]) && seen[0] >= last);
                    last = seen[0];
                }
            }
        });
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let _s = latch.shared();
                let seen = read();
                assert!(seen.iter().all(|&word| word == seen[0]));
            }
        });
    });
    assert_eq!(read(), [2 * ROUNDS; 4]);
}
