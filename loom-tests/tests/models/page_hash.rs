//! Cells of two entries, so that the third page of a cell overflows.

use crate::setup::beside;
use latchkv_latch::cell::Line24;
use latchkv_latch::primitives::Mutant;
use latchkv_latch::{LatchPlacement, PageHash};
use latchkv_loom_tests::check;
use loom::sync::Arc;

type Hash = PageHash<Line24>;

fn hash() -> Arc<Hash> {
    Arc::new(Hash::with_shape(2, 2, LatchPlacement::PerCell))
}

/// The first `N` pages of a home cell.
fn pages<const N: usize>(hash: &Hash, home: usize) -> [u64; N] {
    let mut pages = (1..).filter(|&page| hash.home_of(page) == home);
    std::array::from_fn(|_| pages.next().expect("endless"))
}

/// Would falsify: a page that is in the hash all the time is found, though its entry moves within the cell.
#[test]
fn an_entry_that_moves_within_its_cell_is_not_missed() {
    check(3, &[Mutant::MissWithoutValidation], || {
        let hash = hash();
        let [goes, stays] = pages(&hash, 0);
        hash.insert(goes, 1).unwrap();
        hash.insert(stays, 2).unwrap();
        let remover = beside(&hash, move |hash| assert!(hash.remove(goes, 1)));
        assert_eq!(hash.lookup(stays), Some(2));
        remover.join().unwrap();
    });
}

/// Would falsify: the same, when the entry moves out of an overflow cell that is then given back.
#[test]
fn an_entry_that_moves_out_of_an_overflow_cell_is_not_missed() {
    check(2, &[Mutant::MissWithoutValidation], || {
        let hash = hash();
        let [goes, second, third] = pages(&hash, 0);
        for (page, frame) in [(goes, 1), (second, 2), (third, 3)] {
            hash.insert(page, frame).unwrap();
        }
        let remover = beside(&hash, move |hash| assert!(hash.remove(goes, 1)));
        assert_eq!(hash.lookup(second), Some(2));
        assert_eq!(hash.lookup(third), Some(3));
        remover.join().unwrap();
        assert_eq!(hash.overflow_cells(), 0);
    });
}

/// Would falsify: a page that overflows into a new cell, and its neighbours that move there, are found.
#[test]
fn an_entry_that_moves_into_an_overflow_cell_is_not_missed() {
    check(3, &[Mutant::MissWithoutValidation], || {
        let hash = hash();
        let [first, second, comes] = pages(&hash, 0);
        hash.insert(first, 1).unwrap();
        hash.insert(second, 2).unwrap();
        let inserter = beside(&hash, move |hash| hash.insert(comes, 3).unwrap());
        assert_eq!(hash.lookup(second), Some(2));
        inserter.join().unwrap();
        assert_eq!(hash.lookup(comes), Some(3));
    });
}

/// Would falsify: a reader that walks a chain while its overflow cell goes to another chain still answers
/// rightly.
#[test]
fn an_overflow_cell_that_changes_chains_misleads_nobody() {
    check(2, &[Mutant::MissWithoutValidation], || {
        let hash = hash();
        let [goes, second, third, never] = pages(&hash, 0);
        let [other_1, other_2, other_3] = pages(&hash, 1);
        for (page, frame) in [(goes, 1), (second, 2), (third, 3), (other_1, 4), (other_2, 5)] {
            hash.insert(page, frame).unwrap();
        }
        let mover = beside(&hash, move |hash| {
            assert!(hash.remove(goes, 1));
            hash.insert(other_3, 6).unwrap();
        });
        assert_eq!(hash.lookup(never), None);
        assert_eq!(hash.lookup(third), Some(3));
        mover.join().unwrap();
        assert_eq!(hash.lookup(other_3), Some(6));
        assert_eq!(hash.overflow_cells(), 1);
    });
}

/// Would falsify: two chains that take and give overflow cells at one time never get the same cell.
#[test]
fn two_chains_never_share_an_overflow_cell() {
    check(3, &[], || {
        let hash = hash();
        let left: [u64; 3] = pages(&hash, 0);
        let right: [u64; 3] = pages(&hash, 1);
        for (frame, page) in left.into_iter().enumerate() {
            hash.insert(page, frame as u32).unwrap();
        }
        hash.insert(right[0], 10).unwrap();
        hash.insert(right[1], 11).unwrap();
        let other = beside(&hash, move |hash| {
            assert!(hash.remove(left[0], 0));
            hash.insert(left[0], 0).unwrap();
        });
        hash.insert(right[2], 12).unwrap();
        other.join().unwrap();
        for (frame, page) in left.into_iter().enumerate() {
            assert_eq!(hash.lookup(page), Some(frame as u32));
        }
        for (frame, page) in right.into_iter().enumerate() {
            assert_eq!(hash.lookup(page), Some(frame as u32 + 10));
        }
    });
}

/// Would falsify: of two insertions of one page one succeeds, and the other learns its frame.
#[test]
fn of_two_insertions_of_a_page_one_wins_and_the_other_learns_its_frame() {
    check(3, &[Mutant::InsertWithoutSearch], || {
        let hash = hash();
        let [page] = pages(&hash, 0);
        let other = beside(&hash, move |hash| hash.insert(page, 1));
        let mine = hash.insert(page, 2);
        let others = other.join().unwrap();
        assert!(matches!((mine, others), (Ok(()), Err(2)) | (Err(1), Ok(()))));
    });
}
