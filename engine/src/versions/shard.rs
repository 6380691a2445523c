//! One shard of the old versions: an arena, an index into it, and the extents that wait for their versions to go.
//!
//! ```text
//!   heads      bucket -> newest version of one key
//!                             |  below                 below
//!   keys of      [ k1 v9 ] ------------> [ k4 v3 ] ------------> [ k2 v5 ] ---> end
//!   the bucket       | previous              | previous              |
//!                [ k1 v8 ]               [ k4 v2 ]               [ k2 v4 ]
//!                    |                       .
//!                [ k1 v7 ] ...
//! ```
//!
//! A bucket lists each of its keys once, so a key that changes all the time costs its neighbours one step. Pushing
//! a version takes its key out of the list and puts it in front.
//!
//! # Far back in one key
//!
//! An old snapshot may look behind a million versions of one key. Each version has, besides the link to the one
//! before it, a *jump* further back, whose length depends on the number of versions before it alone (the last
//! digit of its skew-binary form: Myers, "An applicative random-access stack", 1983):
//!
//! ```text
//!   depth    0   1   2   3   4   5   6   7   8 ...
//!   jump         1   1   3   1   1   3   7   1 ...     versions back
//! ```
//!
//! Going along the jump where it does not lead too far, and one step back else, finds any version in a number of
//! steps logarithmic in the depth. Pushing takes the jump over from another version, which is not rewritten for it.
//! Measured with memory out of the cache: 0.4 us at a thousand versions, 3 us at a hundred thousand, 5 us at a
//! million.
//!
//! # Invariants
//!
//! - \[H1\] A link leads to a record that was pushed earlier, or nowhere. The arena drops records in the order in
//!   which they were pushed, so behind a link that leads to a dropped record everything is dropped: it means *end*.
//!   So dropping needs no work on the index.
//! - \[H2\] `heads` and `below` list, newest first, the newest versions of the keys of a bucket, each key once.
//! - \[H3\] Along `previous` and `jump` the versions of one key have ever smaller lsns.
//! - \[H4\] A version is what a snapshot `s` sees if and only if lsn < `s` <= superseded. So one that lingers in a
//!   segment, for the sake of others, is not found by a snapshot that does not see it: not even if the key was
//!   deleted then, the tombstone purged, and the key inserted anew.
//! - \[H5\] Each extent is in the queue `extents` from its push until it is handed out.
//!
//! Not shared: `Guarded` is around it. Tested below for the shape of the index, in `tests` for the rest.

use super::record::{self, Links, Owner, Version};
use super::{Old, Seen};
use crate::id::PageId;
use latchkv_alloc::{Exhausted, SegmentArena, Slot};
use latchkv_latch::prefetch::prefetch_line;
use std::collections::VecDeque;

/// Room for extents that an empty queue keeps.
const EXTENTS_KEPT: usize = 1024;

/// A large value that was superseded.
#[derive(Clone, Copy)]
struct OldExtent {
    superseded: u64,
    page: PageId,
}

/// What one shard holds.
pub(super) struct ShardUsage {
    pub(super) versions: u64,
    pub(super) segments: usize,
    pub(super) extents_bytes: usize,
    pub(super) oldest_superseded: Option<u64>,
}

/// Where the newest version of a key is.
struct Newest<'a> {
    /// The key before it in the list of its bucket; [`Slot::NONE`] if it is the first.
    above: Slot,
    slot: Slot,
    version: Version<'a>,
}

pub(super) struct Shard {
    arena: SegmentArena,
    /// Bits of slots. A power of two.
    heads: Box<[u64]>,
    extents: VecDeque<OldExtent>,
}

/// Where the index of a shard lies, as long as the shard is there: to ask for its lines without the shard's latch.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexAt {
    /// Nothing is read or written by it.
    address: usize,
    bucket_count: usize,
}

impl IndexAt {
    /// Asks for the line of a bucket, given as in [`Shard::push`].
    #[inline]
    pub(super) fn prefetch(self, bucket: u64) {
        let at = self.address + (bucket as usize & (self.bucket_count - 1)) * size_of::<u64>();
        prefetch_line(std::ptr::without_provenance::<u64>(at));
    }
}

impl Shard {
    /// Where its index lies.
    pub(super) fn index_at(&self) -> IndexAt {
        IndexAt { address: self.heads.as_ptr().addr(), bucket_count: self.heads.len() }
    }

    /// An empty shard with `bucket_count` buckets, a power of two.
    pub(super) fn new(arena: SegmentArena, bucket_count: usize) -> Shard {
        debug_assert!(bucket_count.is_power_of_two());
        // Zeroes are `Slot::NONE`, and the system gives them without touching the memory.
        Shard { arena, heads: vec![0; bucket_count].into(), extents: VecDeque::new() }
    }

    /// Keeps what `owner` was from `lsn` until `superseded`. `bucket` is any number that depends on the key.
    ///
    /// # Errors
    /// When the system has no memory. Nothing is kept then, but versions of that key may not be found.
    pub(super) fn push(
        &mut self,
        owner: &Owner<'_>,
        bucket: u64,
        lsn: u64,
        old: Old<'_>,
        superseded: u64,
    ) -> Result<(), Exhausted> {
        let bucket = self.bucket(bucket);
        let first = Slot::from_bits(self.heads[bucket]);
        let mut links = Links { below: first, previous: Slot::NONE, jump: Slot::NONE, depth: 0 };
        if let Some(Newest { above, slot, version }) = self.newest(owner, bucket) {
            // What was loaded in bulk has lsn 0. Snapshots of before that do not read the tree.
            debug_assert!(
                lsn == 0 || version.superseded() <= lsn,
                "versions of a key come in order"
            );
            links.previous = slot;
            (links.depth, links.jump) = self.jump_after(slot, &version);
            // [H2] The key leaves its place in the list.
            let below = version.below();
            match self.arena.get_mut(above) {
                Some(above) => record::set_below(above, below),
                None => links.below = below,
            }
        }
        let slot =
            record::lay_out(owner, lsn, old, &links, |parts| self.arena.push(superseded, parts))?;
        self.heads[bucket] = slot.to_bits();
        if let Old::Extent { page, .. } = old {
            self.extents.push_back(OldExtent { superseded, page });
        }
        Ok(())
    }

    /// The version of `owner` that `snapshot` sees [H4]. A value is appended to `out`.
    pub(super) fn find(
        &self,
        owner: &Owner<'_>,
        bucket: u64,
        snapshot: u64,
        out: &mut Vec<u8>,
    ) -> Option<Seen> {
        let newest = self.newest(owner, self.bucket(bucket))?.version;
        let version = self.way_back(newest, snapshot).find(|version| version.lsn() < snapshot)?;
        if version.superseded() < snapshot {
            return None;
        }
        version.copy_to(out)
    }

    /// Whether [`Shard::reclaim`] would do anything.
    pub(super) fn can_reclaim(&self, horizon: u64) -> bool {
        self.arena.can_reclaim(horizon)
            || self.extents.front().is_some_and(|extent| extent.superseded < horizon)
    }

    /// Drops the segments that no snapshot needs from `horizon` on, and appends to `freed` the extents that none
    /// sees. An extent that was pushed slightly out of order waits for those before it.
    pub(super) fn reclaim(&mut self, horizon: u64, freed: &mut Vec<PageId>) {
        self.arena.reclaim(horizon);
        while let Some(extent) = self.extents.pop_front_if(|extent| extent.superseded < horizon) {
            freed.push(extent.page);
        }
        if self.extents.is_empty() {
            self.extents.shrink_to(EXTENTS_KEPT);
        }
    }

    pub(super) fn usage(&self) -> ShardUsage {
        ShardUsage {
            versions: self.arena.live_count(),
            segments: self.arena.segment_count(),
            extents_bytes: self.extents.capacity() * size_of::<OldExtent>(),
            oldest_superseded: self.arena.lsn_min(),
        }
    }

    fn bucket(&self, number: u64) -> usize {
        number as usize & (self.heads.len() - 1)
    }

    fn version(&self, slot: Slot) -> Option<Version<'_>> {
        Version::of(self.arena.get(slot)?)
    }

    /// Looks for a key in the list of its bucket.
    fn newest(&self, owner: &Owner<'_>, bucket: usize) -> Option<Newest<'_>> {
        let mut above = Slot::NONE;
        let mut slot = Slot::from_bits(self.heads[bucket]);
        loop {
            let version = self.version(slot)?; // [H1]
            if version.belongs_to(owner) {
                return Some(Newest { above, slot, version });
            }
            above = slot;
            slot = version.below();
        }
    }

    /// The versions on the way from `newest` to the first with lsn < `snapshot`, or to the end.
    fn way_back<'a>(
        &'a self,
        newest: Version<'a>,
        snapshot: u64,
    ) -> impl Iterator<Item = Version<'a>> {
        std::iter::successors(Some(newest), move |at| {
            if at.lsn() < snapshot {
                return None;
            }
            match self.version(at.jump()) {
                Some(far) if far.lsn() >= snapshot => Some(far),
                _ => self.version(at.previous()),
            }
        })
    }

    /// Depth and jump of the version that comes after `previous`.
    fn jump_after(&self, slot: Slot, previous: &Version<'_>) -> (u32, Slot) {
        // Depths that are used up begin anew: the first of them has no jump, but the link to the one before.
        let Some(depth) = previous.depth().checked_add(1) else {
            return (0, Slot::NONE);
        };
        if jump_span(depth) == 1 {
            return (depth, slot);
        }
        // Two jumps of one length before it: over both. If the first leads to a dropped record, so does this.
        (depth, self.version(previous.jump()).map_or(Slot::NONE, |far| far.jump()))
    }
}

/// How many versions the jump at `depth` leads back: the last digit of `depth` as a sum of numbers 2^k - 1, each
/// the greatest that fits.
fn jump_span(depth: u32) -> u64 {
    let mut rest = u64::from(depth);
    let mut span = 0;
    while rest > 0 {
        span = (1 << (rest + 1).ilog2()) - 1;
        rest -= span;
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TreeId;
    use latchkv_alloc::SegmentSource;
    use std::sync::Arc;

    fn shard(segment_bytes: usize) -> Shard {
        let source = Arc::new(SegmentSource::new(segment_bytes, usize::MAX));
        Shard::new(SegmentArena::new(source), 4)
    }

    fn owner(key: &[u8]) -> Owner<'_> {
        Owner { tree: TreeId(3), key, tag: 0 }
    }

    fn push(shard: &mut Shard, key: &[u8], lsn: u64, superseded: u64) {
        let value = lsn.to_ne_bytes();
        shard.push(&owner(key), 0, lsn, Old::Inline(&value), superseded).expect("memory");
    }

    fn find(shard: &Shard, key: &[u8], snapshot: u64) -> Option<u64> {
        let mut out = Vec::new();
        let seen = shard.find(&owner(key), 0, snapshot, &mut out)?;
        assert_eq!(out, seen.lsn.to_ne_bytes());
        Some(seen.lsn)
    }

    /// Keys of bucket 0, in the order of its list.
    fn listed(shard: &Shard, keys: &[&[u8]]) -> Vec<usize> {
        let next = |version: &Version<'_>| shard.version(version.below());
        std::iter::successors(shard.version(Slot::from_bits(shard.heads[0])), next)
            .map(|version| {
                keys.iter().position(|key| version.belongs_to(&owner(key))).expect("a known key")
            })
            .collect()
    }

    #[test]
    fn jumps_are_as_long_as_two_equal_ones_before_them() {
        let mut spans = vec![0u64];
        for depth in 1..5000u64 {
            let before = spans[depth as usize - 1];
            let next = spans[(depth - 1 - before) as usize];
            let equal = depth > 1 && before == next;
            spans.push(if equal { 2 * before + 1 } else { 1 });
        }
        for (depth, &span) in spans.iter().enumerate() {
            assert_eq!(jump_span(depth as u32), span, "depth {depth}");
        }
        assert_eq!(jump_span(u32::MAX), u64::from(u32::MAX));
    }

    #[test]
    fn a_bucket_lists_each_key_once_and_newest_first() {
        let mut shard = shard(1 << 12);
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        for (lsn, key) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            push(&mut shard, keys[key], lsn, lsn + 10);
        }
        assert_eq!(listed(&shard, &keys), [3, 2, 1, 0]);
        for (key, order) in
            [(1, [1, 3, 2, 0]), (1, [1, 3, 2, 0]), (0, [0, 1, 3, 2]), (3, [3, 0, 1, 2])]
        {
            let lsn = 100 + shard.arena.live_count() * 100;
            push(&mut shard, keys[key], lsn, lsn + 10);
            assert_eq!(listed(&shard, &keys), order);
        }
        for (lsn, key) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            assert_eq!(find(&shard, keys[key], lsn + 1), Some(lsn));
        }
    }

    #[test]
    fn the_list_ends_where_segments_were_dropped() {
        let mut shard = shard(256);
        let keys: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
        for round in 0..20u64 {
            for (index, key) in keys.iter().enumerate().take(if round < 10 { 5 } else { 3 }) {
                let lsn = round * 10 + index as u64;
                push(&mut shard, key, lsn, lsn + 10);
            }
            shard.reclaim((round * 10).saturating_sub(20), &mut Vec::new());
        }
        assert_eq!(listed(&shard, &keys), [2, 1, 0]);
        assert_eq!(find(&shard, b"a", 185), Some(180));
        assert_eq!(find(&shard, b"e", 95), None, "dropped");
        shard.reclaim(u64::MAX, &mut Vec::new());
        assert_eq!(listed(&shard, &keys), []);
        push(&mut shard, b"e", 1000, 1001);
        assert_eq!(listed(&shard, &keys), [4]);
    }

    #[test]
    fn a_key_with_many_versions_is_searched_in_few_steps() {
        let mut shard = shard(1 << 14);
        let count = 20_000;
        for lsn in 0..count {
            push(&mut shard, b"hot", lsn, lsn + 1);
        }
        push(&mut shard, b"cold", 1, 2);
        let steps = |shard: &Shard, snapshot| {
            let newest = shard.newest(&owner(b"hot"), 0).expect("kept").version;
            shard.way_back(newest, snapshot).count()
        };
        for snapshot in (1..=count).step_by(7) {
            assert_eq!(find(&shard, b"hot", snapshot), Some(snapshot - 1));
            assert!(steps(&shard, snapshot) <= 3 * 15, "{snapshot}");
        }
        // The same with half of them dropped: jumps that lead there are no way, but cost nothing either.
        shard.reclaim(count / 2, &mut Vec::new());
        for snapshot in (count / 2..=count).step_by(7) {
            assert_eq!(find(&shard, b"hot", snapshot), Some(snapshot - 1));
            assert!(steps(&shard, snapshot) <= 3 * 15, "{snapshot}");
        }
        for lsn in count..2 * count {
            push(&mut shard, b"hot", lsn, lsn + 1);
            shard.reclaim(lsn - count / 2, &mut Vec::new());
        }
        for snapshot in (2 * count - count / 2..=2 * count).step_by(7) {
            assert_eq!(find(&shard, b"hot", snapshot), Some(snapshot - 1));
            assert!(steps(&shard, snapshot) <= 3 * 16, "{snapshot}");
        }
    }

    #[test]
    fn depths_that_are_used_up_begin_anew() {
        let mut shard = shard(1 << 12);
        let deep = Links {
            below: Slot::NONE,
            previous: Slot::NONE,
            jump: Slot::NONE,
            depth: u32::MAX - 1,
        };
        let slot =
            record::lay_out(&owner(b"a"), 1, Old::Inline(&1u64.to_ne_bytes()), &deep, |parts| {
                shard.arena.push(2, parts).expect("memory")
            });
        shard.heads[0] = slot.to_bits();
        (2..50).for_each(|lsn| push(&mut shard, b"a", lsn, lsn + 1));
        (2..=50).for_each(|snapshot| assert_eq!(find(&shard, b"a", snapshot), Some(snapshot - 1)));
    }

    #[test]
    fn a_version_that_lingers_is_not_seen_by_later_snapshots() {
        let mut shard = shard(1 << 12);
        push(&mut shard, b"a", 5, 10);
        // Deleted at 10, the tombstone purged, inserted at 20 (an insert pushes nothing), changed at 30.
        assert_eq!(find(&shard, b"a", 10), Some(5));
        assert_eq!(find(&shard, b"a", 11), None);
        push(&mut shard, b"a", 20, 30);
        assert_eq!(find(&shard, b"a", 10), Some(5));
        assert_eq!(find(&shard, b"a", 11), None);
        assert_eq!(find(&shard, b"a", 20), None);
        assert_eq!(find(&shard, b"a", 21), Some(20));
        assert_eq!(find(&shard, b"a", 31), None);
    }
}
