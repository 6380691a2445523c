//! Which blocks of `data` are free, and when a superseded one becomes so. All in memory; nothing here does
//! I/O.
//!
//! ```text
//!              allocate                     supersede
//!   free ------------------> given out ------------------> pending.next --+
//!    ^ ^                     (fresh)          |                           | freeze
//!    | |                        |  never installed, or                    v
//!    | +------------------------+  still fresh: at once              pending.frozen
//!    +--------------------------------------------------------------------+
//!                                 published
//! ```
//!
//! *Fresh*: given out since the last freeze and in no frozen map, so nothing that is or may become durable
//! names it.
//!
//! - [B1] The free runs, the runs given out and the pending runs are disjoint and together are
//!   `RESERVED_BLOCKS .. end`. No two free runs touch: they are merged.
//! - [B2] A run is freed as it was given out, whole; so its first block stands for it in `fresh`.
//! - [B3] A run that the durable checkpoint or the frozen map names is given out or pending, never free.
//! - [B4] `pending.frozen` was superseded before the last freeze, so once that checkpoint is published,
//!   nothing names it.
//!
//! Runs are chosen best fit, then lowest address, the run at the end of the file last: fragments are filled
//! first, and the end of the file empties. Not a buddy system: lengths differ by page and any length is found
//! in O(log n).
//!
//! Tested below against a set of blocks, and through `store::tests`.

use super::place::RESERVED_BLOCKS;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A run of blocks: first block and number of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        self.start + self.len
    }
}

/// What is wrong with a set of used runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RunFault {
    /// Two runs share a block; the second of them begins here.
    Overlap(Run),
    /// A run lies outside of the blocks that can be given out.
    Outside(Run),
}

/// Free space of the file and the runs that wait to become it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    free_blocks: u64,
    /// Blocks of the file.
    end: u64,
    fresh: HashSet<u64>,
    /// Runs given out that nothing names yet: their images are being written.
    on_the_way: BTreeMap<u64, u64>,
    pending_next: Vec<Run>,
    pending_frozen: Vec<Run>,
    pending_blocks: u64,
}

impl Blocks {
    /// The complement of the used runs (in any order) in a file of `end` blocks. An error names a run that
    /// breaks [B1].
    pub(super) fn complement(mut used: Vec<Run>, end: u64) -> Result<Blocks, RunFault> {
        // As one number: most of the time that opening a large file takes.
        used.sort_unstable_by_key(|run| run.start << 24 | run.len);
        let mut blocks = Blocks { end: end.max(RESERVED_BLOCKS), ..Blocks::default() };
        let mut at = RESERVED_BLOCKS;
        for run in used {
            if run.start < RESERVED_BLOCKS || run.end() > blocks.end {
                return Err(RunFault::Outside(run));
            }
            if run.start < at {
                return Err(RunFault::Overlap(run));
            }
            blocks.insert_free(at, run.start - at);
            at = run.end();
        }
        blocks.insert_free(at, blocks.end - at);
        Ok(blocks)
    }

    /// Gives out a run of `len` blocks, or `None` if the file has to grow first. It is fresh.
    pub(super) fn allocate(&mut self, len: u64) -> Option<Run> {
        debug_assert!(len > 0, "a run has blocks");
        let tail = self.end - self.tail_free();
        let mut fitting = self.by_len.range((len, 0)..);
        let first = fitting.next()?;
        let &(found, start) = match first.1 == tail {
            true => fitting.next().unwrap_or(first),
            false => first,
        };
        self.remove_free(start, found);
        self.insert_free(start + len, found - len);
        self.fresh.insert(start);
        self.on_the_way.insert(start, len);
        Some(Run { start, len })
    }

    /// Gives out one run for each length, all adjacent; `None` if there is no room for that. They are fresh.
    pub(super) fn allocate_adjacent(&mut self, lens: &[u64]) -> Option<Vec<Run>> {
        let whole = self.allocate(lens.iter().sum())?;
        self.fresh.remove(&whole.start);
        self.on_the_way.remove(&whole.start);
        let mut start = whole.start;
        let runs = lens.iter().map(|&len| {
            let run = Run { start, len };
            self.fresh.insert(start);
            self.on_the_way.insert(start, len);
            start += len;
            run
        });
        Some(runs.collect())
    }

    /// How many blocks the file needs at its end for a run of `len`, given what is free there already.
    pub(super) fn blocks_short(&self, len: u64) -> u64 {
        len.saturating_sub(self.tail_free())
    }

    /// How many of `runs` runs of `run_blocks` blocks each have no room among the free ones. As many shorter runs find
    /// theirs too, in whatever order they are given out: each takes no more than one of the places counted.
    pub(super) fn runs_short(&self, runs: u64, run_blocks: u64) -> u64 {
        let mut short = runs;
        // The longest first: with enough room, few are looked at.
        for &(len, _) in self.by_len.iter().rev() {
            if short == 0 || len < run_blocks {
                break;
            }
            short = short.saturating_sub(len / run_blocks);
        }
        short
    }

    /// The file has grown to `end` blocks.
    pub(super) fn grown(&mut self, end: u64) {
        if end > self.end {
            let start = self.end;
            self.end = end;
            self.merge_free(Run { start, len: end - start });
        }
    }

    /// The file is about to be cut to `end` blocks; gives false, and changes nothing, if not all beyond is
    /// free.
    pub(super) fn cut(&mut self, end: u64) -> bool {
        let tail = self.tail_free();
        if end >= self.end || end < self.end - tail {
            return false;
        }
        let start = self.end - tail;
        self.remove_free(start, tail);
        self.insert_free(start, end - start);
        self.end = end;
        true
    }

    /// A run that no map, frozen or current, names, nor will: it is free at once.
    pub(super) fn release(&mut self, run: Run) {
        self.fresh.remove(&run.start);
        self.named(run);
        self.merge_free(run);
    }

    /// A run that was given out is named now, or given up.
    pub(super) fn named(&mut self, run: Run) {
        self.on_the_way.remove(&run.start);
    }

    /// The current map names this run no longer. Free at once if fresh, else after the checkpoint that
    /// follows the next freeze.
    pub(super) fn supersede(&mut self, run: Run) {
        if self.fresh.remove(&run.start) {
            self.merge_free(run);
        } else {
            self.pend_next(run);
        }
    }

    /// The frozen map names this run now, and so will the durable one ([B3]).
    pub(super) fn not_fresh(&mut self, run: Run) {
        self.fresh.remove(&run.start);
    }

    /// Waits for the checkpoint that follows the next freeze.
    pub(super) fn pend_next(&mut self, run: Run) {
        self.pending_blocks += run.len;
        self.pending_next.push(run);
    }

    /// Waits for the checkpoint in progress.
    pub(super) fn pend_frozen(&mut self, run: Run) {
        self.pending_blocks += run.len;
        self.pending_frozen.push(run);
    }

    /// A checkpoint begins.
    pub(super) fn freeze(&mut self) {
        self.fresh.clear();
        self.pending_frozen.append(&mut self.pending_next);
    }

    /// The checkpoint is durable ([B4]).
    pub(super) fn published(&mut self) {
        for run in std::mem::take(&mut self.pending_frozen) {
            self.pending_blocks -= run.len;
            self.merge_free(run);
        }
    }

    /// The checkpoint was given up: what waited for it waits for the next.
    pub(super) fn aborted(&mut self) {
        self.pending_next.append(&mut self.pending_frozen);
    }

    /// Blocks of the file.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Free blocks at the end of the file.
    pub(super) fn tail_free(&self) -> u64 {
        match self.by_start.last_key_value() {
            Some((start, len)) if start + len == self.end => *len,
            _ => 0,
        }
    }

    pub(super) fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    pub(super) fn pending_blocks(&self) -> u64 {
        self.pending_blocks
    }

    /// All runs that were given out and are not named yet, for an audit.
    pub(super) fn runs_on_the_way(&self) -> Vec<Run> {
        self.on_the_way.iter().map(|(&start, &len)| Run { start, len }).collect()
    }

    /// All free and pending runs, for an audit.
    pub(super) fn unused_runs(&self) -> Vec<Run> {
        self.by_start
            .iter()
            .map(|(&start, &len)| Run { start, len })
            .chain(self.pending_next.iter().copied())
            .chain(self.pending_frozen.iter().copied())
            .collect()
    }

    fn insert_free(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.by_start.insert(start, len);
            self.by_len.insert((len, start));
            self.free_blocks += len;
        }
    }

    fn remove_free(&mut self, start: u64, len: u64) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
        self.free_blocks -= len;
    }

    fn merge_free(&mut self, run: Run) {
        let (mut start, mut end) = (run.start, run.end());
        let before = self.by_start.range(..start).next_back();
        if let Some((&at, &len)) = before {
            debug_assert!(at + len <= start, "[B1] {run:?} is free already");
            if at + len == start {
                self.remove_free(at, len);
                start = at;
            }
        }
        let after = self.by_start.range(run.start..).next();
        if let Some((&at, &len)) = after {
            debug_assert!(at >= end, "[B1] {run:?} is free already");
            if at == end {
                self.remove_free(at, len);
                end = at + len;
            }
        }
        self.insert_free(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, len: u64) -> Run {
        Run { start, len }
    }

    #[test]
    fn best_fit_takes_the_lowest_of_the_shortest() {
        let used = vec![run(36, 1), run(39, 1), run(42, 1), run(60, 1)];
        let mut blocks = Blocks::complement(used, 100).expect("disjoint");
        // Free: 32..36, 37..39, 40..42, 43..60, 61..100.
        assert_eq!(blocks.allocate(2), Some(run(37, 2)));
        assert_eq!(blocks.allocate(2), Some(run(40, 2)));
        assert_eq!(blocks.allocate(2), Some(run(32, 2)));
        assert_eq!(blocks.allocate(20), Some(run(61, 20)));
        assert_eq!(blocks.allocate(20), None);
        assert_eq!(blocks.blocks_short(20), 1);
        blocks.grown(101);
        assert_eq!(blocks.allocate(20), Some(run(81, 20)));
    }

    #[test]
    fn runs_that_are_not_short_find_room_whatever_shorter_ones_are_taken() {
        let mut rng = fastrand::Rng::with_seed(12);
        for _ in 0..300 {
            let used: Vec<Run> =
                (32..200).filter(|_| rng.u8(..5) == 0).map(|at| run(at, 1)).collect();
            let mut blocks = Blocks::complement(used, 200).expect("disjoint");
            let run_blocks = rng.u64(1..6);
            let runs = 500 - blocks.runs_short(500, run_blocks);
            assert_eq!(blocks.runs_short(runs, run_blocks), 0);
            assert_eq!(blocks.runs_short(runs + 2, run_blocks), 2);
            let mut left = runs;
            while left > 0 {
                let together = rng.u64(1..=left.min(4));
                let lens: Vec<u64> = (0..together).map(|_| rng.u64(1..=run_blocks)).collect();
                if blocks.allocate_adjacent(&lens).is_none() {
                    lens.iter().for_each(|&len| {
                        blocks.allocate(len).expect("there was room for all");
                    });
                }
                left -= together;
            }
        }
    }

    #[test]
    fn adjacent_runs_are_freed_one_by_one() {
        let mut blocks = Blocks::complement(vec![run(34, 1)], 50).expect("disjoint");
        // Free: 32..34, 35..50.
        let runs = blocks.allocate_adjacent(&[2, 3, 1]).expect("room");
        assert_eq!(runs, [run(35, 2), run(37, 3), run(40, 1)]);
        assert_eq!(blocks.allocate_adjacent(&[2, 8]), None);
        blocks.supersede(runs[1]);
        assert_eq!(blocks.allocate(3), Some(runs[1]), "each is fresh");
        blocks.freeze();
        blocks.supersede(runs[0]);
        assert_eq!(blocks.pending_blocks(), 2);
    }

    #[test]
    fn overlapping_and_outside_runs_are_named() {
        let fault = |used| Blocks::complement(used, 100).expect_err("faulty");
        assert_eq!(fault(vec![run(50, 2), run(40, 11)]), RunFault::Overlap(run(50, 2)));
        assert_eq!(fault(vec![run(31, 2)]), RunFault::Outside(run(31, 2)));
        assert_eq!(fault(vec![run(99, 2)]), RunFault::Outside(run(99, 2)));
    }

    #[test]
    fn superseded_runs_wait_for_the_second_half_of_a_checkpoint() {
        let mut blocks = Blocks::complement(vec![run(32, 4)], 40).expect("disjoint");
        let fresh = blocks.allocate(4).expect("free");
        blocks.supersede(fresh);
        assert_eq!(blocks.free_blocks(), 4, "fresh: at once");
        blocks.supersede(run(32, 4));
        assert_eq!((blocks.free_blocks(), blocks.pending_blocks()), (4, 4));
        blocks.published();
        assert_eq!(blocks.free_blocks(), 4, "that checkpoint still named it");
        blocks.freeze();
        blocks.aborted();
        blocks.published();
        assert_eq!(blocks.free_blocks(), 4, "a checkpoint that did not happen");
        blocks.freeze();
        blocks.published();
        assert_eq!((blocks.free_blocks(), blocks.pending_blocks()), (8, 0));
    }

    #[test]
    fn a_run_given_out_before_a_freeze_is_not_fresh_after_it() {
        let mut blocks = Blocks::complement(vec![], 40).expect("disjoint");
        let old = blocks.allocate(4).expect("free");
        blocks.freeze();
        let new = blocks.allocate(4).expect("free");
        blocks.not_fresh(new);
        blocks.supersede(old);
        blocks.supersede(new);
        assert_eq!(blocks.pending_blocks(), 8);
    }

    #[test]
    fn only_a_free_tail_can_be_cut() {
        let mut blocks = Blocks::complement(vec![run(50, 1)], 100).expect("disjoint");
        assert!(!blocks.cut(50));
        assert!(!blocks.cut(100));
        assert!(blocks.cut(60));
        assert_eq!((blocks.end(), blocks.tail_free()), (60, 9));
        assert!(blocks.cut(51));
        assert_eq!((blocks.end(), blocks.tail_free()), (51, 0));
        assert_eq!(blocks.free_blocks(), 18);
    }

    #[test]
    fn random_traffic_keeps_runs_disjoint_and_merged() {
        let mut rng = fastrand::Rng::with_seed(11);
        let mut blocks = Blocks::complement(vec![], 64).expect("disjoint");
        let mut held: Vec<Run> = Vec::new();
        for _ in 0..3000 {
            if rng.bool() || held.is_empty() {
                let len = rng.u64(1..6);
                match blocks.allocate(len) {
                    Some(run) => held.push(run),
                    None => blocks.grown(blocks.end() + blocks.blocks_short(len)),
                }
            } else {
                let run = held.swap_remove(rng.usize(..held.len()));
                blocks.release(run);
            }
            let mut all = blocks.unused_runs();
            for pair in all.windows(2) {
                assert!(pair[0].end() < pair[1].start, "merged and ascending");
            }
            all.extend(&held);
            let total: u64 = all.iter().map(|run| run.len).sum();
            assert_eq!(total, blocks.end() - RESERVED_BLOCKS);
            let rebuilt = Blocks::complement(held.clone(), blocks.end()).expect("disjoint");
            assert_eq!(rebuilt.by_start, blocks.by_start);
        }
    }
}
