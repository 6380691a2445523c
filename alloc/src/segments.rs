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
//!   segment 1: [10 "a0"][20 "a1"]  lsn_max 20        segment 2: [30 "a2"]  lsn_max 30
//!
//!   oldest snapshot is 15: reclaim(15 + 1)   nothing: segment 1 holds a record of lsn 20
//!   oldest snapshot is 25: reclaim(25 + 1)   segment 1 is dropped whole; slots into it give None
//! ```
//!
//! So reclaiming costs one step per segment, never one per record, and a forgotten snapshot shows as
//! [`SegmentArena::live_bytes`].
//!
//! Not an index: finding the version of a key is the caller's. Not shared: the caller brings its own
//! latch, or has one arena a thread. The memory is not its own: it comes from a [`SegmentSource`], which may
//! serve many arenas and may take it from files.
//!
//! ```text
//!   segment   [ lsn:64 | len:32 | 0:32 | bytes, padded to 8 ][ ... ][      room      ]
//!   slot      63              24 23                      0
//!             [  segment : 40   ][  offset / 8 : 24      ]          0 is no slot
//! ```
//!
//! # Invariants
//!
//! - \[V1\] Segments are numbered from 1 in the order of their making and never renumbered; `segments[0]` has
//!   number `first`. So a slot into a dropped segment is recognised, and never reads what came later. As segments
//!   are dropped from the old end only, all records older than one that is gone are gone too.
//! - \[V2\] Every record of a segment has an lsn of at least its `lsn_min` and at most its `lsn_max`.
//! - \[V3\] Bytes of a segment below its length change only through [`SegmentArena::get_mut`], which reaches the
//!   bytes of one record and no head.
//!
//! Order is a matter of promptness only: a record pushed out of order is kept at least as long as it must.
//!
//! Safe code throughout. Tested below against a list of all records.

use crate::Exhausted;
use crate::segment_source::{Memory, SegmentSource};
use std::collections::VecDeque;
use std::sync::Arc;

const OFFSET_BITS: u32 = 24;
const OFFSET_UNIT: usize = 8;
const HEAD_BYTES: usize = 16;

/// Greatest size of a segment, by the bits of a [`Slot`].
pub const SEGMENT_BYTES_MAX: usize = OFFSET_UNIT << OFFSET_BITS;

/// Segment numbers end here.
const SEGMENT_COUNT_MAX: u64 = 1 << (64 - OFFSET_BITS);

/// Names one record of a [`SegmentArena`]. Keeps naming it, and nothing else, after it is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u64);

impl Slot {
    /// Names nothing. Its bits are 0, so that zeroed memory is an empty index.
    pub const NONE: Slot = Slot(0);

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
    memory: Memory,
    len_bytes: usize,
    record_count: u64,
    lsn_min: u64,
    lsn_max: u64,
}

/// Append-only memory, reclaimed from its old end a segment at a time.
#[derive(Debug)]
pub struct SegmentArena {
    segments: VecDeque<Segment>,
    first: u64,
    source: Arc<SegmentSource>,
}

impl SegmentArena {
    /// An arena of segments from `source`. Takes none yet.
    pub fn new(source: Arc<SegmentSource>) -> SegmentArena {
        SegmentArena { segments: VecDeque::new(), first: 1, source }
    }

    /// Keeps a copy of `parts`, one after the other, until [`SegmentArena::reclaim`] passes `lsn`. A record larger
    /// than a segment gets one of its own.
    ///
    /// # Errors
    /// [`Exhausted`] when the source refuses, or the parts are longer than 4 GiB - 1 together. Nothing is kept
    /// then.
    pub fn push(&mut self, lsn: u64, parts: &[&[u8]]) -> Result<Slot, Exhausted> {
        let sum = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
        let exhausted = || self.source.exhausted(sum.unwrap_or(usize::MAX));
        let len = sum.and_then(|sum| u32::try_from(sum).ok()).ok_or_else(exhausted)?;
        let needed = (len as usize)
            .checked_next_multiple_of(OFFSET_UNIT)
            .and_then(|padded| padded.checked_add(HEAD_BYTES))
            .ok_or_else(exhausted)?;
        let fits = |segment: &Segment| {
            segment.len_bytes < SEGMENT_BYTES_MAX
                && segment.memory.bytes().len() - segment.len_bytes >= needed
        };
        if !self.segments.back().is_some_and(fits) {
            self.add_segment(needed)?;
        }
        let number = self.first + self.segments.len() as u64 - 1;
        let segment =
            self.segments.back_mut().expect("a segment with room is there or was just added");
        let offset = segment.len_bytes;
        let mut rest = &mut segment.memory.bytes_mut()[offset..offset + needed];
        for part in [&lsn.to_ne_bytes(), &u64::from(len).to_ne_bytes()] {
            rest = copy_to_front(rest, part);
        }
        for part in parts {
            rest = copy_to_front(rest, part);
        }
        rest.fill(0);
        segment.len_bytes += needed;
        segment.record_count += 1;
        segment.lsn_min = segment.lsn_min.min(lsn);
        segment.lsn_max = segment.lsn_max.max(lsn);
        Ok(Slot::new(number, offset))
    }

    /// The record at `slot`, `None` once it was reclaimed.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<Record<'_>> {
        let segment = self.segments.get(self.index(slot)?)?;
        let (head, body) = segment.memory.bytes()[..segment.len_bytes]
            .get(slot.offset()..)?
            .split_at_checked(HEAD_BYTES)?;
        Some(Record {
            lsn: word(head, 0),
            bytes: body.get(..usize::try_from(word(head, 1)).ok()?)?,
        })
    }

    /// The bytes of the record at `slot`, to be changed in place; `None` once it was reclaimed.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut [u8]> {
        let index = self.index(slot)?;
        let segment = self.segments.get_mut(index)?;
        let (head, body) = segment.memory.bytes_mut()[..segment.len_bytes]
            .get_mut(slot.offset()..)?
            .split_at_mut_checked(HEAD_BYTES)?;
        body.get_mut(..usize::try_from(word(head, 1)).ok()?)
    }

    /// Whether [`SegmentArena::reclaim`] would drop anything.
    pub fn can_reclaim(&self, before_lsn: u64) -> bool {
        self.segments.front().is_some_and(|segment| segment.lsn_max < before_lsn)
    }

    /// Drops, from the old end on, every segment whose records all have an lsn below `before_lsn`. Gives the
    /// bytes of those segments, which go back to the source.
    pub fn reclaim(&mut self, before_lsn: u64) -> usize {
        let mut freed_bytes = 0;
        while self.can_reclaim(before_lsn) {
            let Some(segment) = self.segments.pop_front() else {
                break;
            };
            self.first += 1;
            freed_bytes += segment.memory.bytes().len();
            self.source.give(segment.memory);
        }
        freed_bytes
    }

    /// Where the segments come from.
    pub fn source(&self) -> &Arc<SegmentSource> {
        &self.source
    }

    /// Bytes of the segments that hold records, in memory and in files. One step per segment, as the next three.
    pub fn live_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.memory.bytes().len()).sum()
    }

    /// Records in those segments.
    pub fn live_count(&self) -> u64 {
        self.segments.iter().map(|segment| segment.record_count).sum()
    }

    /// The least lsn of all records, `None` if there are none.
    pub fn lsn_min(&self) -> Option<u64> {
        self.segments.iter().map(|segment| segment.lsn_min).min()
    }

    /// Segments that hold records.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    fn index(&self, slot: Slot) -> Option<usize> {
        usize::try_from(slot.segment().checked_sub(self.first)?).ok()
    }

    /// Opens a segment with room for a record of `needed` bytes.
    fn add_segment(&mut self, needed: usize) -> Result<(), Exhausted> {
        if self.first + self.segments.len() as u64 >= SEGMENT_COUNT_MAX {
            return Err(self.source.exhausted(needed));
        }
        let memory = self.source.take(needed.max(self.source.segment_bytes()))?;
        self.segments.push_back(Segment {
            memory,
            len_bytes: 0,
            record_count: 0,
            lsn_min: u64::MAX,
            lsn_max: 0,
        });
        Ok(())
    }
}

impl Drop for SegmentArena {
    fn drop(&mut self) {
        for segment in self.segments.drain(..) {
            self.source.give(segment.memory);
        }
    }
}

/// Copies `part` to the front of `to` and gives what is behind it.
fn copy_to_front<'a>(to: &'a mut [u8], part: &[u8]) -> &'a mut [u8] {
    let (front, behind) = to.split_at_mut(part.len());
    front.copy_from_slice(part);
    behind
}

/// A word of the head of a record.
#[inline(always)]
fn word(head: &[u8], index: usize) -> u64 {
    let word = head[index * 8..][..8].try_into().expect("a head is two words of 8 bytes");
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arena(segment_bytes: usize, limit_bytes: usize) -> SegmentArena {
        SegmentArena::new(Arc::new(SegmentSource::new(segment_bytes, limit_bytes)))
    }

    #[test]
    fn the_worked_example_holds() {
        let mut arena = arena(64, usize::MAX);
        let a0 = arena.push(10, &[b"a0"]).expect("room");
        let a1 = arena.push(20, &[b"a1"]).expect("room");
        let a2 = arena.push(30, &[b"a2", b", which is ", b"", b"longer"]).expect("room");
        assert_eq!((arena.live_count(), arena.segment_count(), arena.lsn_min()), (3, 2, Some(10)));
        assert_eq!(arena.reclaim(16), 0);
        assert_eq!(arena.get(a0), Some(Record { lsn: 10, bytes: b"a0" }));
        assert_eq!(arena.reclaim(26), 64);
        assert_eq!((arena.get(a0), arena.get(a1)), (None, None));
        assert_eq!(arena.get(a2), Some(Record { lsn: 30, bytes: b"a2, which is longer" }));
        assert_eq!((arena.live_count(), arena.lsn_min()), (1, Some(30)));
    }

    #[test]
    fn a_loop_of_push_and_reclaim_reuses_its_memory() {
        let mut arena = arena(256, 1024);
        for lsn in 0..1_000 {
            arena
                .push(lsn, &[&[lsn as u8; 100]])
                .expect("memory that was reclaimed is there again");
            arena.reclaim(lsn.saturating_sub(3));
        }
        assert!(arena.source().held_bytes() <= 1024);
        arena.reclaim(u64::MAX);
        arena.source().trim();
        assert_eq!((arena.source().held_bytes(), arena.live_bytes()), (0, 0));
    }

    #[test]
    fn arenas_of_one_source_share_its_limit_and_give_all_back() {
        let source = Arc::new(SegmentSource::new(64, 128));
        let mut one = SegmentArena::new(Arc::clone(&source));
        let mut two = SegmentArena::new(Arc::clone(&source));
        one.push(1, &[b"one"]).expect("room");
        two.push(1, &[b"two"]).expect("room");
        assert!(one.push(2, &[&[0; 48]]).is_err());
        drop(two);
        one.push(2, &[&[0; 48]]).expect("what the other arena held");
        drop(one);
        source.trim();
        assert_eq!(source.held_bytes(), 0);
    }

    #[test]
    fn a_record_larger_than_a_segment_has_its_own() {
        let mut arena = arena(64, usize::MAX);
        let small = arena.push(1, &[b"small"]).expect("room");
        let large = arena.push(2, &[&[7; 10_000]]).expect("room");
        assert_eq!(arena.get(large).map(|record| record.bytes.len()), Some(10_000));
        arena.reclaim(2);
        assert_eq!(arena.get(small), None);
        assert!(arena.reclaim(3) >= 10_000);
        assert_eq!(arena.get(large), None);
        assert!(arena.source().held_bytes() < 1000);
    }

    #[test]
    fn the_limit_refuses_and_keeps_what_is_there() {
        let mut arena = arena(128, 300);
        let kept = arena.push(1, &[b"kept"]).expect("room");
        assert!(arena.push(2, &[&[0; 1000]]).is_err());
        let mut pushed = 0;
        while arena.push(3, &[&[1; 40]]).is_ok() {
            pushed += 1;
        }
        assert_eq!(pushed, 3);
        assert_eq!(arena.get(kept), Some(Record { lsn: 1, bytes: b"kept" }));
        assert!(arena.source().held_bytes() <= 300);
    }

    #[test]
    fn a_record_out_of_order_is_kept_as_long_as_it_must() {
        let mut arena = arena(64, usize::MAX);
        let late = arena.push(50, &[&[1; 40]]).expect("room");
        let early = arena.push(40, &[&[2; 40]]).expect("room");
        assert_eq!(arena.lsn_min(), Some(40));
        arena.reclaim(45);
        assert!(arena.get(late).is_some());
        assert!(arena.get(early).is_some());
        arena.reclaim(51);
        assert!(arena.get(early).is_none());
    }

    #[test]
    fn a_change_in_place_reaches_one_record() {
        let mut arena = arena(256, usize::MAX);
        let slots = [1, 2, 3].map(|lsn| arena.push(lsn, &[b"12345"]).expect("room"));
        arena.get_mut(slots[1]).expect("kept").fill(b'x');
        let bytes = slots.map(|slot| arena.get(slot).expect("kept").bytes);
        assert_eq!(bytes, [b"12345", b"xxxxx", b"12345"]);
        arena.reclaim(4);
        assert_eq!(arena.get_mut(slots[1]), None);
    }

    #[test]
    fn any_bits_as_a_slot_are_harmless() {
        let mut arena = arena(128, usize::MAX);
        arena.push(u64::MAX, &[&[0xff; 50]]).expect("room");
        for bits in (0..64).chain([u64::MAX, u64::MAX >> 1]).chain((1 << 24)..(1 << 24) + 64) {
            arena.get(Slot::from_bits(bits));
            arena.get_mut(Slot::from_bits(bits));
        }
        assert_eq!(arena.get(Slot::NONE), None);
        assert_eq!(Slot::NONE.to_bits(), 0);
    }

    /// Pushes as `steps` say and compares with a list of all records after each.
    fn compare_with_a_list(source: SegmentSource, steps: &[(usize, u64, u64)]) {
        let source = Arc::new(source);
        let mut arena = SegmentArena::new(Arc::clone(&source));
        let (mut lsn, mut before) = (0, 0);
        let mut all = Vec::new();
        for (number, &(len, advance, lag)) in steps.iter().enumerate() {
            lsn += advance;
            let bytes = vec![number as u8; len];
            let (front, back) = bytes.split_at(len / 3);
            all.push((arena.push(lsn, &[front, back]).expect("no limit"), lsn, bytes));
            before = before.max(lsn.saturating_sub(lag));
            arena.reclaim(before);
            for (slot, lsn, bytes) in &all {
                match arena.get(*slot) {
                    Some(record) => assert_eq!(record, Record { lsn: *lsn, bytes }),
                    None => assert!(*lsn < before),
                }
            }
        }
        arena.reclaim(u64::MAX);
        assert_eq!((arena.live_bytes(), arena.live_count(), arena.lsn_min()), (0, 0, None));
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
            compare_with_a_list(SegmentSource::new(segment_bytes, usize::MAX), &steps);
        }

        #[test]
        #[cfg(target_os = "linux")]
        #[cfg_attr(miri, ignore = "Miri maps no files")]
        fn what_a_snapshot_may_need_is_there_and_unchanged_in_files(
            segment_bytes in 64usize..600,
            limit_bytes in 0usize..2000,
            steps in prop::collection::vec((0usize..300, 0u64..4, 0u64..40), 1..100),
        ) {
            let source = SegmentSource::new(segment_bytes, limit_bytes);
            compare_with_a_list(source.with_spill(std::env::temp_dir(), 4096), &steps);
        }
    }
}
