//! [`SegmentArena`]: old versions, kept in the order in which they become useless.
//!
//! # A worked example
//!
//! A key is changed by the commits 10, 20 and 30. Each commit pushes the version that it replaced, under
//! its own lsn: the version before commit 20 is of use only to snapshots older than 20.
//!
//! ```text
//!   push(10, "a0")  push(20, "a1")  push(30, "a2")                       segments of two records
//!
//!   segment 0: [10 "a0"][20 "a1"]  lsn_max 20        segment 1: [30 "a2"]  lsn_max 30
//!
//!   oldest snapshot is 15: reclaim(15 + 1)   nothing: segment 0 holds a record of lsn 20
//!   oldest snapshot is 25: reclaim(25 + 1)   segment 0 is dropped whole; slots into it give None
//! ```
//!
//! So reclaiming costs one step per segment, never one per record, and a forgotten snapshot shows as
//! [`SegmentArena::held_bytes`].
//!
//! Not an index: finding the version of a key is the caller's. Not shared: the caller brings its own
//! latch, or has one arena a thread.
//!
//! ```text
//!   segment   [ lsn:64 | len:32 | 0:32 | bytes, padded to 8 ][ ... ][      room      ]
//!   slot      63              24 23                      0
//!             [  segment : 40   ][  offset / 8 : 24      ]
//! ```
//!
//! # Invariants
//!
//! - \[V1\] Segments are numbered in the order of their making and never renumbered; `segments[0]` has number
//!   `first`. So a slot into a dropped segment is recognised, and never reads what came later.
//! - \[V2\] Every record of a segment has an lsn of at most the segment's `lsn_max`.
//! - \[V3\] Bytes of a segment below its length never change.
//!
//! Order is a matter of promptness only: a record pushed out of order is kept at least as long as it must.
//!
//! Safe code throughout. Tested below against a list of all records.

use crate::Exhausted;
use std::collections::VecDeque;

const OFFSET_BITS: u32 = 24;
const OFFSET_UNIT: usize = 8;
const HEAD_BYTES: usize = 16;

/// Greatest size of a segment, by the bits of a [`Slot`].
pub const SEGMENT_BYTES_MAX: usize = OFFSET_UNIT << OFFSET_BITS;

/// Segment numbers end here.
const SEGMENT_COUNT_MAX: u64 = 1 << (64 - OFFSET_BITS);

/// Emptied segments kept for what comes next.
const SPARE_COUNT_MAX: usize = 4;

/// Names one record of a [`SegmentArena`]. Keeps naming it, and nothing else, after it is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u64);

impl Slot {
    /// The slot as bits, to be kept in a word.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The slot of bits that [`Slot::to_bits`] gave. Other bits make a slot that names nothing, or a
    /// garbled record: never a panic.
    pub fn from_bits(bits: u64) -> Slot {
        Slot(bits)
    }

    fn new(segment: u64, offset: usize) -> Slot {
        Slot(segment << OFFSET_BITS | (offset / OFFSET_UNIT) as u64)
    }

    fn segment(self) -> u64 {
        self.0 >> OFFSET_BITS
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * OFFSET_UNIT
    }
}

/// A record as it was pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The lsn given with it.
    pub lsn: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A run of records, dropped as one.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    lsn_max: u64,
}

/// Append-only memory, reclaimed from its old end a segment at a time.
#[derive(Debug)]
pub struct SegmentArena {
    segments: VecDeque<Segment>,
    first: u64,
    spares: Vec<Vec<u8>>,
    segment_bytes: usize,
    limit_bytes: usize,
    held_bytes: usize,
    record_count: u64,
}

impl SegmentArena {
    /// An arena of segments of `segment_bytes` (64 bytes to [`SEGMENT_BYTES_MAX`], rounded into that range)
    /// that never holds more than `limit_bytes`, spare segments included. Allocates nothing yet.
    pub fn new(segment_bytes: usize, limit_bytes: usize) -> SegmentArena {
        SegmentArena {
            segments: VecDeque::new(),
            first: 0,
            spares: Vec::new(),
            segment_bytes: segment_bytes.clamp(64, SEGMENT_BYTES_MAX),
            limit_bytes,
            held_bytes: 0,
            record_count: 0,
        }
    }

    /// Keeps a copy of `bytes` until [`SegmentArena::reclaim`] passes `lsn`. A record larger than a segment
    /// gets one of its own.
    ///
    /// # Errors
    /// [`Exhausted`] when the limit or the system's memory does not allow it, or `bytes` is longer than
    /// 4 GiB - 1. Nothing is kept then.
    pub fn push(&mut self, lsn: u64, bytes: &[u8]) -> Result<Slot, Exhausted> {
        let exhausted = self.exhausted(bytes.len());
        let len = u32::try_from(bytes.len()).map_err(|_| exhausted)?;
        let needed = bytes
            .len()
            .checked_next_multiple_of(OFFSET_UNIT)
            .and_then(|padded| padded.checked_add(HEAD_BYTES))
            .ok_or(exhausted)?;
        let fits = |segment: &Segment| {
            segment.bytes.len() < SEGMENT_BYTES_MAX
                && segment.bytes.capacity() - segment.bytes.len() >= needed
        };
        if !self.segments.back().is_some_and(fits) {
            self.add_segment(needed)?;
        }
        let number = self.first + self.segments.len() as u64 - 1;
        let segment =
            self.segments.back_mut().expect("a segment with room is there or was just added");
        let offset = segment.bytes.len();
        segment.bytes.extend_from_slice(&lsn.to_ne_bytes());
        segment.bytes.extend_from_slice(&u64::from(len).to_ne_bytes());
        segment.bytes.extend_from_slice(bytes);
        segment.bytes.resize(offset + needed, 0);
        segment.lsn_max = segment.lsn_max.max(lsn);
        self.record_count += 1;
        Ok(Slot::new(number, offset))
    }

    /// The record at `slot`, `None` once it was reclaimed.
    pub fn get(&self, slot: Slot) -> Option<Record<'_>> {
        let index = usize::try_from(slot.segment().checked_sub(self.first)?).ok()?;
        let bytes = self.segments.get(index)?.bytes.get(slot.offset()..)?;
        let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
        let word = |at: usize| {
            let word = head[at..at + 8].try_into().expect("a head is two words of 8 bytes");
            u64::from_ne_bytes(word)
        };
        Some(Record { lsn: word(0), bytes: body.get(..usize::try_from(word(8)).ok()?)? })
    }

    /// Drops, from the old end on, every segment whose records all have an lsn below `before_lsn`. Gives the
    /// bytes of those segments; some of them are kept as spares for what is pushed next.
    pub fn reclaim(&mut self, before_lsn: u64) -> usize {
        let mut freed_bytes = 0;
        while self.segments.front().is_some_and(|segment| segment.lsn_max < before_lsn) {
            let Some(Segment { mut bytes, .. }) = self.segments.pop_front() else {
                break;
            };
            self.first += 1;
            freed_bytes += bytes.capacity();
            if self.spares.len() < SPARE_COUNT_MAX && bytes.capacity() == self.segment_bytes {
                bytes.clear();
                self.spares.push(bytes);
            } else {
                self.held_bytes -= bytes.capacity();
            }
        }
        freed_bytes
    }

    /// Gives the spare segments back to the system.
    pub fn trim(&mut self) {
        for spare in self.spares.drain(..) {
            self.held_bytes -= spare.capacity();
        }
    }

    /// Bytes of all segments, spare ones included.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes of the segments that hold records.
    pub fn live_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes.capacity()).sum()
    }

    /// Records pushed since the arena was made, reclaimed ones included.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    fn exhausted(&self, asked_bytes: usize) -> Exhausted {
        Exhausted { asked_bytes, held_bytes: self.held_bytes, limit_bytes: self.limit_bytes }
    }

    /// Opens a segment with room for a record of `needed` bytes.
    fn add_segment(&mut self, needed: usize) -> Result<(), Exhausted> {
        let exhausted = self.exhausted(needed);
        if self.first + self.segments.len() as u64 >= SEGMENT_COUNT_MAX {
            return Err(exhausted);
        }
        let capacity = needed.max(self.segment_bytes);
        let spare = if capacity == self.segment_bytes { self.spares.pop() } else { None };
        let bytes = match spare {
            Some(spare) => spare,
            None => {
                if self.held_bytes.checked_add(capacity).is_none_or(|held| held > self.limit_bytes)
                {
                    return Err(exhausted);
                }
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(capacity).map_err(|_| exhausted)?;
                self.held_bytes += bytes.capacity();
                bytes
            }
        };
        self.segments.push_back(Segment { bytes, lsn_max: 0 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_holds() {
        let mut arena = SegmentArena::new(64, usize::MAX);
        let a0 = arena.push(10, b"a0").expect("room");
        let a1 = arena.push(20, b"a1").expect("room");
        let a2 = arena.push(30, b"a2, which is longer").expect("room");
        assert_eq!(arena.reclaim(16), 0);
        assert_eq!(arena.get(a0), Some(Record { lsn: 10, bytes: b"a0" }));
        assert_eq!(arena.reclaim(26), 64);
        assert_eq!((arena.get(a0), arena.get(a1)), (None, None));
        assert_eq!(arena.get(a2), Some(Record { lsn: 30, bytes: b"a2, which is longer" }));
    }

    #[test]
    fn a_loop_of_push_and_reclaim_reuses_its_memory() {
        let mut arena = SegmentArena::new(256, 1024);
        for lsn in 0..1_000 {
            arena.push(lsn, &[lsn as u8; 100]).expect("memory that was reclaimed is there again");
            arena.reclaim(lsn.saturating_sub(3));
        }
        assert!(arena.held_bytes() <= 1024);
        arena.reclaim(u64::MAX);
        arena.trim();
        assert_eq!((arena.held_bytes(), arena.live_bytes()), (0, 0));
        assert_eq!(arena.record_count(), 1_000);
    }

    #[test]
    fn a_record_larger_than_a_segment_has_its_own() {
        let mut arena = SegmentArena::new(64, usize::MAX);
        let small = arena.push(1, b"small").expect("room");
        let large = arena.push(2, &[7; 10_000]).expect("room");
        assert_eq!(arena.get(large).map(|record| record.bytes.len()), Some(10_000));
        arena.reclaim(2);
        assert_eq!(arena.get(small), None);
        assert!(arena.reclaim(3) >= 10_000);
        assert_eq!(arena.get(large), None);
        assert!(arena.held_bytes() < 1000);
    }

    #[test]
    fn the_limit_refuses_and_keeps_what_is_there() {
        let mut arena = SegmentArena::new(128, 300);
        let kept = arena.push(1, b"kept").expect("room");
        assert!(arena.push(2, &[0; 1000]).is_err());
        let mut pushed = 0;
        while arena.push(3, &[1; 40]).is_ok() {
            pushed += 1;
        }
        assert_eq!(pushed, 3);
        assert_eq!(arena.get(kept), Some(Record { lsn: 1, bytes: b"kept" }));
        assert!(arena.held_bytes() <= 300);
    }

    #[test]
    fn a_record_out_of_order_is_kept_as_long_as_it_must() {
        let mut arena = SegmentArena::new(64, usize::MAX);
        let late = arena.push(50, &[1; 40]).expect("room");
        let early = arena.push(40, &[2; 40]).expect("room");
        arena.reclaim(45);
        assert!(arena.get(late).is_some());
        assert!(arena.get(early).is_some());
        arena.reclaim(51);
        assert!(arena.get(early).is_none());
    }

    #[test]
    fn any_bits_as_a_slot_are_harmless() {
        let mut arena = SegmentArena::new(128, usize::MAX);
        arena.push(u64::MAX, &[0xff; 50]).expect("room");
        for bits in (0..64).chain([u64::MAX, 1 << 24, u64::MAX >> 1]) {
            arena.get(Slot::from_bits(bits));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 64 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn what_a_snapshot_may_need_is_there_and_unchanged(
            segment_bytes in 64usize..600,
            steps in prop::collection::vec((0usize..300, 0u64..4, 0u64..40), 1..200),
        ) {
            let mut arena = SegmentArena::new(segment_bytes, usize::MAX);
            let (mut lsn, mut before) = (0, 0);
            let mut all = Vec::new();
            for (number, &(len, advance, lag)) in steps.iter().enumerate() {
                lsn += advance;
                let bytes = vec![number as u8; len];
                all.push((arena.push(lsn, &bytes).expect("no limit"), lsn, bytes));
                before = before.max(lsn.saturating_sub(lag));
                arena.reclaim(before);
                for (slot, lsn, bytes) in &all {
                    match arena.get(*slot) {
                        Some(record) => prop_assert_eq!(record, Record { lsn: *lsn, bytes }),
                        None => prop_assert!(*lsn < before),
                    }
                }
            }
            prop_assert!(arena.live_bytes() <= arena.held_bytes());
            arena.reclaim(u64::MAX);
            prop_assert_eq!(arena.live_bytes(), 0);
        }
    }
}
