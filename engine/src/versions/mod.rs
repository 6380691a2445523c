//! Old versions: what records were before, for the snapshots that still see it.
//!
//! # A worked example
//!
//! `k` was put at lsn 10, again at 20, deleted at 30. The page has the tombstone of 30; each commit pushed what it
//! replaced:
//!
//! ```text
//!   push(lsn 10, "a", superseded 20)        seen by snapshots 11 to 20
//!   push(lsn 20, "b", superseded 30)        seen by snapshots 21 to 30
//!
//!   find(25)      "b"
//!   find(10)      nothing: `k` was not there
//!   reclaim(21)   what snapshots below 21 alone see may go: "a", once nothing else in its segment is needed
//! ```
//!
//! An insert pushes nothing: the lsn of the record hides it from older snapshots.
//!
//! What this is not: a history (what no snapshot needs is dropped, and nothing outlives the process), or an index
//! of keys (a scan finds keys on the pages, where a tombstone stands for each that was deleted).
//!
//! # Parts
//!
//! ```text
//!   Versions    hash -> one of 64 shards
//!     Guarded     its latch: S to find, X to push and to reclaim                  guarded.rs
//!       Shard       bucket -> keys -> versions, newest first                      shard.rs
//!         Version     the bytes of one version                                    record.rs
//!         SegmentArena  segments, each dropped as a whole                         latchkv_alloc
//!     SegmentSource  one budget for all shards, temporary files beyond it         latchkv_alloc
//! ```
//!
//! A find takes S of one shard and copies under it. Latches of shards come last in the order of waiting, and nobody
//! waits for anything else while holding one, except for the memory of a new segment and for the system to bring
//! in a part of a mapped file.
//!
//! # Memory
//!
//! A sixteenth of the budget is the index, the rest segments. The index does not grow: past about 130 bytes of
//! budget for each key with old versions its lists become longer than one key. Versions beyond the budget lie in
//! mapped files, which the system may write out; if no file can be had, memory goes over the budget, and
//! [`VersionUsage::over_budget_bytes`] says how far. Emptied segments are kept for what comes next, up to a quarter
//! of the budget, so that nothing is allocated in steady state. The queue of old large values, 16 bytes each, is
//! counted but not limited.
//!
//! # Invariants
//!
//! - \[K1\] A version whose superseded >= the horizon of every `reclaim` so far is found by each snapshot that sees
//!   it: lsn < snapshot <= superseded.
//! - \[K2\] A find never gives anything but the version that its snapshot sees.
//! - \[K3\] The page of a large value is handed out once, by a `reclaim` whose horizon is above its superseded, so
//!   that no snapshot which may still be registered can find it.
//!
//! Tested in `tests` against a model of all versions, and with threads.

mod guarded;
mod record;
mod shard;
#[cfg(test)]
mod tests;

use self::guarded::Guarded;
use self::record::Owner;
use self::shard::{IndexAt, Shard};
use crate::id::{PageId, TreeId};
use latchkv_alloc::{SegmentArena, SegmentSource};
use latchkv_latch::prefetch::prefetch_line;
use std::alloc::{Layout, handle_alloc_error};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of a hash that choose the shard; those from here to [`TAG_SHIFT`] choose the bucket.
const BUCKET_SHIFT: u32 = 16;
/// The bits of a hash from here on are kept with each version.
const TAG_SHIFT: u32 = 32;

const SHARD_COUNT_MAX: usize = 1 << BUCKET_SHIFT;
const BUCKET_COUNT_MAX: usize = 1 << (TAG_SHIFT - BUCKET_SHIFT);
const BUCKET_COUNT_MIN: usize = 16;

/// Of the budget, one part in so many is the index.
const INDEX_SHARE: usize = 16;

const SEGMENT_BYTES_MIN: usize = 4 << 10;
/// Holds the largest key and value that a leaf of 64 KiB takes. Larger segments would cost more cache: each shard
/// writes through a segment of its own.
const SEGMENT_BYTES_MAX: usize = 32 << 10;

/// Bytes of one temporary file.
const SPILL_FILE_BYTES: usize = 16 << 20;

/// How [`Versions`] uses memory.
#[derive(Clone, Debug)]
pub(crate) struct VersionOptions {
    /// Bytes of memory, index included, before versions are spilled to temporary files. Less than 16 KiB or so
    /// spills everything.
    pub(crate) memory_bytes: u64,
    /// Where the temporary files go, which have no names; `None` is the temporary directory of the system.
    pub(crate) spill_directory: Option<PathBuf>,
    /// Independent parts, each with a latch; rounded up to a power of two.
    pub(crate) shards: usize,
}

impl Default for VersionOptions {
    fn default() -> VersionOptions {
        VersionOptions { memory_bytes: 64 << 20, spill_directory: None, shards: 64 }
    }
}

/// What a key was before a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Old<'a> {
    /// Deleted.
    Tombstone,
    /// A value in the leaf.
    Inline(&'a [u8]),
    /// A value of `len` bytes outside the tree.
    Extent { page: PageId, len: u64 },
}

/// A version that [`Versions::find`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// Lsn of the commit that made it.
    pub(crate) lsn: u64,
    /// What the key was.
    pub(crate) kind: SeenKind,
}

/// What the key was, in a [`Seen`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SeenKind {
    /// Deleted.
    Tombstone,
    /// A value: this range of the buffer given to [`Versions::find`].
    Inline(Range<usize>),
    /// A value of `len` bytes outside the tree.
    Extent { page: PageId, len: u64 },
}

/// What [`Versions`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VersionUsage {
    /// Versions kept.
    pub(crate) versions: u64,
    /// Bytes of memory, the index and spare segments included, the mapped files not.
    pub(crate) memory_bytes: u64,
    /// Bytes of the temporary files, free parts included.
    pub(crate) spilled_bytes: u64,
    /// How far segments are over the budget because no file could be had.
    pub(crate) over_budget_bytes: u64,
    /// Segments that hold versions.
    pub(crate) segments: u64,
    /// The least lsn that superseded a version which is still kept.
    pub(crate) oldest_superseded: Option<u64>,
}

/// The old versions of all records of a database.
#[derive(Debug)]
pub(crate) struct Versions {
    /// A power of two.
    shards: Box<[Guarded<Shard>]>,
    /// The index of each shard, for [`Versions::prefetch`].
    indexes: Box<[IndexAt]>,
    source: Arc<SegmentSource>,
    index_bytes: usize,
}

impl Versions {
    /// Keeps nothing yet, and makes no file before the budget is used up.
    pub(crate) fn new(options: VersionOptions) -> Versions {
        let memory_bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
        let shard_count = options.shards.clamp(1, SHARD_COUNT_MAX).next_power_of_two();
        let shard_bytes = memory_bytes / shard_count;
        let bucket_count = power_of_two_below(shard_bytes / INDEX_SHARE / size_of::<u64>())
            .clamp(BUCKET_COUNT_MIN, BUCKET_COUNT_MAX);
        let index_bytes = shard_count * bucket_count * size_of::<u64>();
        let segment_bytes =
            power_of_two_below(shard_bytes / 4).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let limit_bytes = memory_bytes.saturating_sub(index_bytes);
        // At least one for each shard: a reclaim may empty them all at once.
        let spare_count_max = (limit_bytes / 4 / segment_bytes).max(shard_count);
        let directory = options.spill_directory.unwrap_or_else(std::env::temp_dir);
        let source = SegmentSource::new(segment_bytes, limit_bytes)
            .with_spares(spare_count_max)
            .with_spill(directory, SPILL_FILE_BYTES);
        let source = Arc::new(source);
        let shard =
            |_| Guarded::new(Shard::new(SegmentArena::new(Arc::clone(&source)), bucket_count));
        let shards: Box<[_]> = (0..shard_count).map(shard).collect();
        let indexes = shards.iter().map(|shard| shard.shared(Shard::index_at)).collect();
        Versions { shards, indexes, source, index_bytes }
    }

    /// Keeps what a key was, made by the commit `lsn` and replaced by the commit `superseded`; both are below 2^48.
    /// `hash` is the [`key_hash`] of tree and key.
    ///
    /// For one key, pushes come in the order of their lsns: the caller holds the key's stripe and leaf. Those of
    /// different keys may come in any order; the further they are from it, the longer versions are kept.
    ///
    /// Cannot fail: if no file can be had it uses memory beyond the budget, and if the system has no memory it
    /// ends the process as any allocation does.
    pub(crate) fn push(
        &self,
        tree: TreeId,
        key: &[u8],
        hash: u64,
        lsn: u64,
        old: Old<'_>,
        superseded: u64,
    ) {
        let owner = Owner { tree, key, tag: (hash >> TAG_SHIFT) as u32 };
        let pushed = self
            .shard(hash)
            .exclusive(|shard| shard.push(&owner, hash >> BUCKET_SHIFT, lsn, old, superseded));
        if let Err(exhausted) = pushed {
            let layout = Layout::from_size_align(exhausted.asked_bytes, 1);
            handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()));
        }
    }

    /// What a key was for `snapshot`: the version with lsn < `snapshot` <= superseded, if one is kept. A value
    /// inside the tree is appended to `out`.
    ///
    /// `None` says that the key was not there, or that nothing superseded what is on its page since; the lsn on
    /// the page tells which. Snapshots below the horizon of a past [`Versions::reclaim`] get `None` for versions
    /// that are gone.
    pub(crate) fn find(
        &self,
        tree: TreeId,
        key: &[u8],
        hash: u64,
        snapshot: u64,
        out: &mut Vec<u8>,
    ) -> Option<Seen> {
        let owner = Owner { tree, key, tag: (hash >> TAG_SHIFT) as u32 };
        self.shard(hash).shared(|shard| shard.find(&owner, hash >> BUCKET_SHIFT, snapshot, out))
    }

    /// Drops the segments all of whose versions were superseded below `horizon`, as no snapshot from `horizon` on
    /// sees them, and appends to `freed` the pages of large values that were superseded below it. One step per
    /// segment and large value; a look at each shard if there is nothing to do.
    pub(crate) fn reclaim(&self, horizon: u64, freed: &mut Vec<PageId>) {
        for shard in &self.shards {
            if shard.shared(|shard| shard.can_reclaim(horizon)) {
                shard.exclusive(|shard| shard.reclaim(horizon, freed));
            }
        }
        self.source.settle();
    }

    /// What is held. One step per segment, so not for every commit.
    pub(crate) fn usage(&self) -> VersionUsage {
        let mut usage = VersionUsage {
            memory_bytes: (self.index_bytes + self.source.held_bytes()) as u64,
            spilled_bytes: self.source.spilled_bytes() as u64,
            over_budget_bytes: self.source.over_limit_bytes() as u64,
            ..VersionUsage::default()
        };
        for shard in &self.shards {
            let part = shard.shared(|shard| shard.usage());
            usage.versions += part.versions;
            usage.segments += part.segments as u64;
            usage.memory_bytes += part.extents_bytes as u64;
            usage.oldest_superseded =
                usage.oldest_superseded.into_iter().chain(part.oldest_superseded).min();
        }
        usage
    }

    /// Asks for what a [`push`](Self::push) of that hash will look at first. A hint.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let shard = self.shard_of(hash);
        prefetch_line(&raw const self.shards[shard]);
        self.indexes[shard].prefetch(hash >> BUCKET_SHIFT);
    }

    fn shard(&self, hash: u64) -> &Guarded<Shard> {
        &self.shards[self.shard_of(hash)]
    }

    fn shard_of(&self, hash: u64) -> usize {
        hash as usize & (self.shards.len() - 1)
    }
}

/// Hash of a key of a tree: for the old versions and for the latches of keys.
pub(crate) fn key_hash(tree: TreeId, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, u64::from(tree.0))
}

/// The greatest power of two that is at most `number`; 0 for 0.
fn power_of_two_below(number: usize) -> usize {
    number.checked_ilog2().map_or(0, |bits| 1 << bits)
}
