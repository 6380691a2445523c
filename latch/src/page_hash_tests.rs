//! Tests of the page hash: against `HashMap`, at every stride and placement, with chains forced by a small
//! shape.

use super::*;
use crate::cell::{Line64Padded128, Line128};
use crate::primitives::rmw_count;
use std::collections::HashMap;
use std::thread;

/// A small generator of test numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

impl<S: Stride> PageHash<S> {
    /// Checks \[HASH2] and \[HASH3], and that the overflow cells in chains are those in use; gives the
    /// entries.
    fn check(&self) -> HashMap<u64, u32> {
        let mut all = HashMap::new();
        let mut chained = 0;
        for home in 0..self.home {
            let mut here = &self.cells()[home];
            let mut depth = 0;
            loop {
                let words: Vec<u64> =
                    here.entries().iter().map(|slot| slot.load(Relaxed)).collect();
                let next = linked(words[S::ENTRIES - 1]);
                let entries = if next.is_some() { &words[..S::ENTRIES - 1] } else { &words[..] };
                let filled = entries.iter().take_while(|&&word| word != 0).count();
                assert!(entries[filled..].iter().all(|&word| word == 0), "a hole in a chain");
                assert!(next.is_none() || filled == S::ENTRIES - 1, "a link from a cell with room");
                assert!(depth == 0 || filled >= 2, "an overflow cell that is not needed");
                for &word in &entries[..filled] {
                    assert_eq!(self.home_of(page_of(word)), home, "an entry in a foreign chain");
                    assert_eq!(all.insert(page_of(word), frame_of(word)), None, "a page twice");
                }
                let Some(index) = next else { break };
                here = self.overflow_cell(index).expect("links name cells that exist");
                depth += 1;
                chained += 1;
            }
        }
        assert_eq!(chained, self.overflow_cells());
        all
    }
}

/// Random inserts and removals of up to `frames` entries, compared with a `HashMap` after each step.
fn agrees_with_a_map<S: Stride>(hash: &PageHash<S>, frames: u32, pages: u64, seed: u64) {
    let mut random = Random(seed);
    let mut map: HashMap<u64, u32> = HashMap::new();
    let mut free: Vec<u32> = (0..frames).collect();
    // Phases that fill and phases that empty, so that chains grow and shrink to nothing.
    for step in 0..6_000 {
        let filling = step / 1_000 % 2 == 0;
        let page = 1 + random.below(pages);
        if random.below(4) > 0 && filling || random.below(8) == 0 {
            let Some(&frame) = free.last() else { continue };
            match map.get(&page) {
                Some(&existing) => assert_eq!(hash.insert(page, frame), Err(existing)),
                None => {
                    assert_eq!(hash.insert(page, frame), Ok(()));
                    map.insert(page, frame);
                    free.pop();
                }
            }
        } else if let Some(&frame) = map.get(&page) {
            assert!(!hash.remove(page, frame ^ 1), "removed an entry of another frame");
            let removed = if step % 2 == 0 {
                hash.remove(page, frame)
            } else {
                hash.try_remove(page, frame) == Some(true)
            };
            assert!(removed);
            map.remove(&page);
            free.push(frame);
        } else {
            assert!(!hash.remove(page, 0));
        }
        let probe = 1 + random.below(pages);
        assert_eq!(hash.lookup(probe), map.get(&probe).copied());
        assert_eq!(hash.lookup_shared(probe), map.get(&probe).copied());
        if step % 250 == 0 {
            assert_eq!(hash.check(), map);
        }
    }
    for (&page, &frame) in &map {
        assert!(hash.remove(page, frame));
    }
    assert_eq!(hash.check(), HashMap::new());
}

fn agrees_at_every_shape<S: Stride>() {
    for placement in [LatchPlacement::PerCell, LatchPlacement::Outside { count: 3 }] {
        let hash = PageHash::<S>::new(200, placement);
        agrees_with_a_map(&hash, 200, 400, 0x5EED_0001);
        // Two home cells: everything is in long chains, and the bound of [HASH4] is all there is.
        let hash = PageHash::<S>::with_shape(2, 100 / (S::ENTRIES - 1), placement);
        agrees_with_a_map(&hash, 100, 150, 0x5EED_0002);
    }
}

#[test]
fn hash_agrees_with_a_map_at_stride_64() {
    agrees_at_every_shape::<Line64>();
}

#[test]
fn hash_agrees_with_a_map_at_stride_64_padded() {
    agrees_at_every_shape::<Line64Padded128>();
}

#[test]
fn hash_agrees_with_a_map_at_stride_128() {
    agrees_at_every_shape::<Line128>();
}

#[test]
fn every_frame_finds_room_even_if_all_pages_share_one_cell() {
    for frames in [1, 2, 7, 8, 13, 14, 16, 100, 333] {
        let hash = PageHash::<Line64>::new(frames, LatchPlacement::PerCell);
        let pages: Vec<u64> = (1..).filter(|&page| hash.home_of(page) == 1).take(frames).collect();
        for (frame, &page) in pages.iter().enumerate() {
            assert_eq!(hash.insert(page, frame as u32), Ok(()));
        }
        assert_eq!(hash.check().len(), frames);
        for (frame, &page) in pages.iter().enumerate() {
            assert_eq!(hash.lookup(page), Some(frame as u32));
        }
        for (frame, &page) in pages.iter().enumerate() {
            assert!(hash.remove(page, frame as u32));
        }
        assert_eq!(hash.check().len(), 0);
    }
}

#[test]
fn lookup_does_no_read_modify_write_unless_latches_lie_outside() {
    let hash = PageHash::<Line64>::new(64, LatchPlacement::PerCell);
    assert_eq!(hash.insert(5, 9), Ok(()));
    let before = rmw_count();
    assert_eq!((hash.lookup(5), hash.lookup(6)), (Some(9), None));
    assert_eq!(rmw_count(), before);

    let hash = PageHash::<Line64>::new(64, LatchPlacement::Outside { count: 8 });
    assert_eq!(hash.insert(5, 9), Ok(()));
    let before = rmw_count();
    assert_eq!(hash.lookup(5), Some(9));
    assert_eq!(rmw_count() > before, cfg!(debug_assertions));
}

#[test]
fn numbers_that_are_no_page_are_in_no_frame() {
    let hash = PageHash::<Line64>::new(64, LatchPlacement::PerCell);
    for page in [0, PAGE_MAX + 1, u64::MAX] {
        assert_eq!((hash.lookup(page), hash.lookup_shared(page)), (None, None));
        hash.prefetch(page);
    }
    assert_eq!(hash.insert(PAGE_MAX, FRAME_END - 1), Ok(()));
    assert_eq!(hash.lookup(PAGE_MAX), Some(FRAME_END - 1));
}

#[test]
fn a_busy_cell_is_not_waited_for_by_try_remove() {
    let hash = PageHash::<Line64>::new(64, LatchPlacement::PerCell);
    assert_eq!(hash.insert(5, 9), Ok(()));
    let held = hash.latch(hash.home_of(5)).exclusive();
    assert_eq!(hash.try_remove(5, 9), None);
    assert_eq!(hash.lookup(5), Some(9), "a hit does not wait for the cell");
    let _ = held.release_clean();
    assert_eq!(hash.try_remove(5, 9), Some(true));
}

#[cfg(feature = "measure")]
#[test]
fn a_lookup_that_meets_nobody_at_its_latch_is_not_counted_and_one_that_waits_is() {
    for count in [1, 16] {
        let hash = PageHash::<Line64>::new(64, LatchPlacement::Outside { count });
        assert_eq!(hash.insert(5, 9), Ok(()));
        assert_eq!((hash.lookup(5), hash.lookup(6), hash.crowded()), (Some(9), None, 0));
        let held = hash.latch(hash.home_of(5)).exclusive();
        thread::scope(|scope| {
            let waits = scope.spawn(|| hash.lookup(5));
            while hash.crowded() == 0 {
                thread::yield_now();
            }
            let _ = held.release_clean();
            assert_eq!(waits.join().expect("no panic"), Some(9));
        });
        assert_eq!(hash.crowded(), 1);
    }
}

#[cfg(feature = "measure")]
#[test]
fn a_hit_in_a_cell_is_not_counted_whoever_holds_it_and_a_miss_is() {
    let hash = PageHash::<Line64>::with_shape(2, 8, LatchPlacement::PerCell);
    assert_eq!(hash.insert(5, 9), Ok(()));
    let absent = (6..).find(|&page| hash.home_of(page) == hash.home_of(5)).expect("one of two");
    let held = hash.latch(hash.home_of(5)).exclusive();
    assert_eq!((hash.lookup(5), hash.crowded()), (Some(9), 0));
    thread::scope(|scope| {
        let waits = scope.spawn(|| hash.lookup(absent));
        while hash.crowded() == 0 {
            thread::yield_now();
        }
        let _ = held.release_clean();
        assert_eq!(waits.join().expect("no panic"), None);
    });
    assert_eq!(hash.crowded(), 1);
}

#[test]
fn hash_lives_in_memory_of_the_callers() {
    #[repr(align(128))]
    struct Memory([u8; 16 * 1024]);
    let mut memory = Box::new(Memory([0; 16 * 1024]));
    let bytes = PageHash::<Line64>::bytes_needed(300);
    assert!(bytes <= memory.0.len());
    let start = NonNull::from(&mut memory.0).cast();
    // SAFETY: zeroed, aligned to 128, and owned by this test until after the hash is dropped.
    let hash =
        unsafe { PageHash::<Line64>::with_memory(start, bytes, 300, LatchPlacement::PerCell) };
    assert_eq!(hash.bytes(), bytes);
    agrees_with_a_map(&hash, 300, 600, 0x5EED_0003);
    drop(hash);
    drop(memory);
}

#[test]
fn an_entry_that_stays_is_found_while_its_neighbours_come_and_go() {
    // Two home cells: the pages that stay move about in chains that grow and shrink all the time.
    let hash = PageHash::<Line64>::with_shape(2, 40, LatchPlacement::PerCell);
    let stay: Vec<u64> = (1..=20).collect();
    for &page in &stay {
        assert_eq!(hash.insert(page, page as u32), Ok(()));
    }
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let hash = &hash;
                scope.spawn(move || {
                    let mut random = Random(writer + 77);
                    for _ in 0..200 {
                        let base = 1_000 * (writer + 1);
                        let pages: Vec<u64> = (0..1 + random.below(60)).map(|i| base + i).collect();
                        for &page in &pages {
                            assert_eq!(hash.insert(page, page as u32), Ok(()));
                        }
                        for &page in &pages {
                            assert!(hash.remove(page, page as u32));
                        }
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            for &page in &stay {
                assert_eq!(hash.lookup(page), Some(page as u32));
            }
        }
    });
    assert_eq!(hash.check().len(), stay.len());
}
