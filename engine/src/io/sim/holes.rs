//! [`Holes`]: the ranges of a simulated file that take no room.
//!
//! ```text
//!   file     ########........####....|      # has room, . is a hole
//!   ranges           [8,16)      [20,24)    disjoint, ascending, none empty, none beyond the end
//! ```
//!
//! Lengthening makes a hole; a write or an allocation fills it, for good; a cut takes away what lies behind. In
//! bytes: whoever calls does whole blocks.

use std::collections::BTreeMap;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl Holes {
    /// Bytes without room in all.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Bytes without room between two places.
    pub(super) fn bytes_in(&self, start: u64, end: u64) -> u64 {
        let before = self.ranges.range(..end).rev().take_while(|(_, hole_end)| **hole_end > start);
        before.map(|(from, to)| end.min(*to) - start.max(*from)).sum()
    }

    /// The file, which ends at `start`, is lengthened to `end`.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if start < end {
            self.ranges.insert(start, end);
        }
    }

    /// What lies between two places has room from now on.
    pub(super) fn fill(&mut self, start: u64, end: u64) {
        let touched = self.ranges.range(..end).rev().take_while(|(_, hole_end)| **hole_end > start);
        let touched: Vec<(u64, u64)> = touched.map(|(from, to)| (*from, *to)).collect();
        for (from, to) in touched {
            self.ranges.remove(&from);
            self.add(from, start.min(to));
            self.add(end.max(from), to);
        }
    }

    /// The file ends here now.
    pub(super) fn cut(&mut self, len_bytes: u64) {
        self.fill(len_bytes, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_say_the_same_as_a_set_of_bytes() {
        let mut seed = super::super::rng::Rng::new(3);
        for _ in 0..200 {
            let (mut holes, mut bytes, mut len) = (Holes::default(), Vec::new(), 0);
            for _ in 0..30 {
                let (start, more) = (seed.below(40), seed.below(12));
                let end = start + more;
                match seed.below(4) {
                    0 => {
                        holes.add(len as u64, (len + more) as u64);
                        bytes.resize(len + more, true);
                        len += more;
                    }
                    1 if start < len => {
                        holes.cut(start as u64);
                        bytes.truncate(start);
                        len = start;
                    }
                    _ => {
                        holes.fill(start as u64, end as u64);
                        bytes.iter_mut().take(end).skip(start).for_each(|hole| *hole = false);
                    }
                }
                let (from, to) = (seed.below(40), 40);
                let count = |from: usize| bytes.iter().skip(from).filter(|hole| **hole).count();
                assert_eq!(holes.bytes_in(from as u64, 2 * to), count(from) as u64);
                assert_eq!(holes.bytes(), count(0) as u64);
            }
        }
    }
}
