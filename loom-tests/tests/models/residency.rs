//! Frames that are claimed, read and evicted; hints that are repaired.

use crate::setup::beside;
use latchkv_latch::cell::Line24;
use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::primitives::Ordering::{Acquire, Relaxed, Release};
use latchkv_latch::residency::{
    Lookup, begin_hinted, claim, lookup, repair_hint, try_evict, unclaim,
};
use latchkv_latch::{FrameHeader, Latch, LatchPlacement, PageHash};
use latchkv_loom_tests::check;
use loom::sync::Arc;

/// Two frames of one word each.
struct Pool {
    headers: [FrameHeader; 2],
    hash: PageHash<Line24>,
    contents: [AtomicU64; 2],
    loads: AtomicU64,
    flag: AtomicU64,
}

impl Pool {
    fn new() -> Arc<Pool> {
        Arc::new(Pool {
            headers: std::array::from_fn(|_| FrameHeader::new()),
            hash: PageHash::with_shape(2, 1, LatchPlacement::PerCell),
            contents: std::array::from_fn(|_| AtomicU64::new(0)),
            loads: AtomicU64::new(0),
            flag: AtomicU64::new(0),
        })
    }

    /// Loads `page` into the free frame `frame` if no other has it: the word is then `content`.
    fn load(&self, page: u64, frame: u32, content: u64) {
        let x = self.headers[frame as usize].latch.exclusive();
        match claim(&self.headers, &self.hash, page, frame, x) {
            Ok(x) => {
                self.loads.fetch_add(1, Relaxed);
                self.contents[frame as usize].store(content, Relaxed);
                drop(x);
            }
            Err((x, _)) => {
                let _ = x.release_clean();
            }
        }
    }

    fn evict(&self, frame: u32) -> bool {
        let x = self.headers[frame as usize].latch.exclusive();
        match try_evict(&self.headers, &self.hash, frame, x) {
            Ok(_) => true,
            Err(x) => {
                let _ = x.release_clean();
                false
            }
        }
    }

    /// Reads the page, loading it into `frame` if need be.
    fn read(&self, page: u64, frame: u32, content: u64) -> u64 {
        loop {
            match lookup(&self.headers, &self.hash, page) {
                Lookup::Resident(frame, at) => {
                    let seen = self.contents[frame as usize].load(Relaxed);
                    if self.headers[frame as usize].latch.validate(at) {
                        return seen;
                    }
                }
                Lookup::Absent => self.load(page, frame, content),
            }
        }
    }
}

/// Would falsify: of two threads that want a page exactly one loads it, and both read it.
#[test]
fn claim_is_single_flight() {
    check(2, &[Mutant::InsertWithoutSearch], || {
        let pool = Pool::new();
        let other = beside(&pool, move |pool| assert_eq!(pool.read(7, 1, 70), 70));
        assert_eq!(pool.read(7, 0, 70), 70);
        other.join().unwrap();
        assert_eq!(pool.loads.load(Relaxed), 1);
    });
}

/// Would falsify: who waits for a load that fails is woken and loads the page itself.
#[test]
fn a_load_that_fails_is_taken_over_by_who_waited() {
    check(3, &[Mutant::ReleaseForgetsWake, Mutant::ParkWithoutRecheck], || {
        let pool = Pool::new();
        let x = pool.headers[0].latch.exclusive();
        let x = claim(&pool.headers, &pool.hash, 7, 0, x).expect("absent");
        let other = beside(&pool, move |pool| assert_eq!(pool.read(7, 1, 70), 70));
        assert_eq!(unclaim(&pool.headers, &pool.hash, 0, x), 7);
        other.join().unwrap();
    });
}

/// Would falsify: a read by hint that validates has read the page asked for, though its frame goes to another
/// page.
#[test]
fn a_hinted_reader_never_accepts_the_bytes_of_another_page() {
    let mutants = [
        Mutant::IdentBeforeBegin,
        Mutant::BeginRelaxed,
        Mutant::ValidateByAcquireLoad,
        Mutant::ExclusiveWithoutFence,
    ];
    check(3, &mutants, || {
        let pool = Pool::new();
        pool.load(7, 0, 70);
        let other = beside(&pool, move |pool| {
            assert!(pool.evict(0));
            pool.load(8, 0, 80);
        });
        if let Some((_, at)) = begin_hinted(&pool.headers, 7, 0) {
            let seen = pool.contents[0].load(Relaxed);
            if pool.headers[0].latch.validate(at) {
                assert_eq!(seen, 70);
            }
        }
        other.join().unwrap();
    });
}

/// Would falsify: the same for a read by way of the hash.
#[test]
fn a_reader_by_the_hash_never_accepts_the_bytes_of_another_page() {
    check(2, &[Mutant::LookupIgnoresIdent], || {
        let pool = Pool::new();
        pool.load(7, 0, 70);
        let other = beside(&pool, move |pool| {
            // A reader that finds no entry takes the cell, so the eviction may have to give up.
            if pool.evict(0) {
                pool.load(8, 0, 80);
            }
        });
        assert_eq!(pool.read(7, 1, 70), 70);
        other.join().unwrap();
    });
}

/// Would falsify: bytes left in a frame after its page was evicted are not taken for the page as it is now,
/// loaded elsewhere and changed there.
#[test]
fn an_evicted_frame_is_not_read_as_the_page_of_today() {
    check(2, &[Mutant::EvictKeepsVersion], || {
        let pool = Pool::new();
        pool.load(7, 0, 70);
        let other = beside(&pool, move |pool| {
            assert!(pool.evict(0));
            pool.load(7, 1, 71);
            pool.flag.store(1, Release);
        });
        if let Some((_, at)) = begin_hinted(&pool.headers, 7, 0) {
            let changed = pool.flag.load(Acquire) == 1;
            let seen = pool.contents[0].load(Relaxed);
            if pool.headers[0].latch.validate(at) {
                assert!(seen == 70 && !changed);
            }
        }
        other.join().unwrap();
    });
}

/// Would falsify: the repair of a hint never changes a word that a split has turned into key bytes, even if
/// they are equal to the child word that was there.
#[test]
fn a_hint_repair_never_touches_a_word_that_a_split_has_turned_into_key_bytes() {
    check(3, &[Mutant::RepairBareCas, Mutant::SharedAtIgnoresVersion], || {
        let shared = Arc::new((Latch::new(), AtomicU64::new(10), AtomicU64::new(0)));
        let split = beside(&shared, move |shared| {
            let x = shared.0.exclusive();
            shared.2.store(1, Relaxed);
            shared.1.store(10, Relaxed);
            drop(x);
        });
        let at = shared.0.begin();
        let is_key = shared.2.load(Relaxed) == 1;
        let old = shared.1.load(Relaxed);
        if !is_key {
            let repaired = repair_hint(&shared.0, at, &shared.1, old, 11);
            assert!(!repaired || old == 10);
        }
        split.join().unwrap();
        assert_eq!(shared.1.load(Relaxed), 10, "key bytes were changed");
    });
}
