//! The page hash as a contender: look-ups of pages that are in it, at each stride and with each way to read.
//!
//! A read looks a page up and compares the frame. A write removes the page and enters it again, two holds of X;
//! who finds that another thread has it removed at the moment leaves it. Nothing is done while a cell is held,
//! as nothing may be: sections do not apply here.
//!
//! There is one page a place, in a hash made for four times as many, so that nearly all are in their home cells.

use super::places::{Contender, Op, Spread};
use super::section::Section;
use crate::Fail;
use latchkv_latch::{LatchPlacement, Line64, Line64Padded128, Line128, PageHash, Stride};

/// How a page is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By a latch in each cell, optimistically: what ships.
    Optimistic,
    /// By a latch in each cell, under S.
    #[cfg(feature = "measure")]
    Shared,
    /// By so many latches in an array outside of the cells, under S.
    Outside(usize),
}

/// All ways and strides, for `spread`; what ships first.
pub(super) fn contenders(spread: Spread) -> Vec<Box<dyn Contender>> {
    let mut all = Vec::new();
    for way in [
        Way::Optimistic,
        #[cfg(feature = "measure")]
        Way::Shared,
    ] {
        all.push(Cells::<Line64>::boxed("Line64", way, spread));
        all.push(Cells::<Line64Padded128>::boxed("Line64Padded128", way, spread));
        all.push(Cells::<Line128>::boxed("Line128", way, spread));
    }
    for count in [16, 1024] {
        all.push(Cells::<Line64>::boxed("Line64", Way::Outside(count), spread));
    }
    all
}

struct Cells<S: Stride> {
    stride: &'static str,
    way: Way,
    pages: u32,
    hash: PageHash<S>,
}

/// The page of a place, and its frame.
fn entry(place: u32) -> (u64, u32) {
    (u64::from(place) + 1, place)
}

impl<S: Stride> Cells<S> {
    fn boxed(stride: &'static str, way: Way, spread: Spread) -> Box<dyn Contender> {
        let placement = match way {
            Way::Outside(count) => LatchPlacement::Outside { count },
            _ => LatchPlacement::PerCell,
        };
        let pages = spread.places();
        let hash = PageHash::new(pages as usize * 4, placement);
        for (page, frame) in (0..pages).map(entry) {
            hash.insert(page, frame).expect("no page is entered twice");
        }
        Box::new(Cells::<S> { stride, way, pages, hash })
    }

    #[inline]
    fn look_up(&self, page: u64) -> Option<u32> {
        match self.way {
            #[cfg(feature = "measure")]
            Way::Shared => self.hash.lookup_shared(page),
            Way::Optimistic | Way::Outside(_) => self.hash.lookup(page),
        }
    }
}

impl<S: Stride> Contender for Cells<S> {
    fn name(&self) -> String {
        match self.way {
            Way::Optimistic => format!("{}, optimistic", self.stride),
            #[cfg(feature = "measure")]
            Way::Shared => format!("{}, shared", self.stride),
            Way::Outside(count) => format!("{}, {count} outside", self.stride),
        }
    }

    fn batch(&self, ops: &[Op], _: Section) -> u64 {
        let mut right = 0;
        for op in ops {
            let (page, frame) = entry(op.place);
            let ok = if op.write {
                !self.hash.remove(page, frame) || self.hash.insert(page, frame).is_ok()
            } else {
                self.look_up(page).is_none_or(|found| found == frame)
            };
            right += u64::from(ok);
        }
        right
    }

    fn check(&self, _: u64) -> Result<(), Fail> {
        let lost =
            (0..self.pages).map(entry).find(|&(page, frame)| self.look_up(page) != Some(frame));
        lost.map_or(Ok(()), |(page, _)| Err(format!("{}: page {page} is lost", self.name()).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_survive_two_threads_that_remove_and_enter_them_by_any_way() {
        for spread in [Spread::Hot, Spread::Zipf] {
            for contender in contenders(spread) {
                let ops = spread.draw(50, 5000, &mut fastrand::Rng::with_seed(1));
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            let right = contender.batch(&ops, Section::EMPTY);
                            assert_eq!(right, 5000, "{}", contender.name());
                        });
                    }
                });
                contender.check(0).expect("all pages");
            }
        }
    }
}
