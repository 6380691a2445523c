//! The bytes of one tree page, as 64-bit words.
//!
//! This layer knows no latches and no disk, and of frames only the hint in a child word: it reads and edits a
//! slice of atomic words. The caller holds the frame's X latch to edit; a reader may hold nothing, see any
//! bytes at all, and finds out afterwards by validating the latch. So
//!
//! * [N1] every access is one whole word, Relaxed (R2 and W1/W2 of the ordering law carry the edges);
//! * [N2] nothing read is used as an offset, length or index before it was checked against the slice, and
//!   a getter that finds nonsense says `None`, which an optimistic caller takes as "restart";
//! * [N3] a page that a loader let in ([`image::decode`]) is well formed: slots and cells lie inside, cells
//!   do not overlap, keys ascend strictly and lie inside the fences. Edits keep it so. Hence `None` under
//!   an X latch is damage in memory, not a race.
//!
//! # Layout
//!
//! Words are little-endian on disk. Offsets are in words (8 bytes).
//!
//! ```text
//!        63      48 47      32 31      16 15    8 7     0
//! w0     [ prefix  |  count   |  flags   | level | kind ]  flags: bit 0 = there is an upper fence
//! w1     [ 24 unused |            page id : 40          ]
//! w2     [          greatest lsn on the page            ]
//! w3     [ up len  |  up off  |  lo len  |  lo off      ]  fences, lo inclusive, up exclusive; no lo = len 0
//! w4     [ run     | last ins |  frag    |  data off    ]  frag = free words among the cells
//! w5     [ hint : 24 |     upper child : 40             ]  inner pages only
//! w6     [              0         |      tree : 32      ]
//! w7     [                     0                        ]
//! w8-15  sixteen sampled heads, two a word
//! w16-   slots, ascending by key:  [ klen | offset | head : 32 ]
//!        ... hole ...
//!        cells and fences, down from the end of the page
//!
//! leaf cell   [ lsn : 48 | value bytes : 14 | extent | tombstone ]  key tail, value
//! inner cell  [ child word: hint : 24 | page : 40 ]                 key tail
//! ```
//!
//! `prefix` bytes shared by both fences are shared by every key and kept nowhere else. The next four bytes of
//! a key are its *head*, big-endian and padded with zeros, in the slot; what follows is the *tail*, in the
//! cell. A tombstone has no value. `klen` counts head and tail. An inner slot's child holds the keys below its
//! separator; the upper child holds the rest.
//!
//! # How it is tested
//!
//! Against a `BTreeMap` under random edits at every page size (`tests.rs`), images by flipping every byte.
//!
//! Prefix truncation, fence keys, heads and sampled hints: Graefe, "Modern B-Tree Techniques" (2011), and
//! the node layout of LeanStore and vmcache; whole-word atomic access is ours.

mod bytes;
mod edit;
pub(crate) mod image;
mod search;
mod split;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use bytes::{bytes_of, common_prefix_bytes, words_for};
pub(crate) use edit::{LeafPayload, RecordMeta};
pub(crate) use search::{Found, KeyFront};
pub(crate) use split::{
    SplitPoint, choose_inner, choose_leaf, merge, merge_fits, shortest_separator, split_off,
};

use crate::id::{FrameId, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PageId, TreeId};
use latchkv_latch::primitives::{AtomicU64, Ordering};

/// First slot word.
pub(crate) const SLOTS_AT: usize = 16;
/// Word of the first sampled head.
const HINTS_AT: usize = 8;
/// Number of sampled heads.
const HINTS: usize = 16;
/// Word of the upper child.
const UPPER_AT: usize = 5;
/// A page narrower than this is searched without its sampled heads.
const HINTS_FROM: usize = 2 * HINTS;
/// There is an upper fence.
const FLAG_UPPER: u16 = 1;

/// Greatest key of a page size, in bytes. With [`cell_bytes_max`] it lets every page hold its two fences
/// and at least two cells, so that a full page can always be split.
pub(crate) const fn key_bytes_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// Greatest leaf cell (meta word, whole key, value) that stays in the page, in bytes; a greater record
/// keeps its value in an extent.
pub(crate) const fn cell_bytes_max(page_bytes: usize) -> usize {
    page_bytes / 4
}

const _: () = {
    let mut page = PAGE_BYTES_MIN;
    while page <= PAGE_BYTES_MAX {
        let fences = 2 * key_bytes_max(page);
        assert!(SLOTS_AT * 8 + fences + 2 * (cell_bytes_max(page) + 8) <= page);
        assert!(8 + key_bytes_max(page) + 16 <= cell_bytes_max(page));
        // Value lengths have 14 bits.
        assert!(cell_bytes_max(page) - 8 < (1 << 14));
        page *= 2;
    }
};

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Holds records.
    Leaf = 1,
    /// Holds separators and children.
    Inner = 2,
}

/// A child slot: which page, and in which frame it was last seen.
///
/// ```text
/// 63      40 39          0
/// [  hint   |    page    ]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChildWord(pub(crate) u64);

impl ChildWord {
    /// A child with a hint.
    #[inline(always)]
    pub(crate) fn new(page: PageId, hint: FrameId) -> ChildWord {
        ChildWord(page.0 & PageId::MAX.0 | u64::from(hint.0) << 40)
    }

    /// A child whose frame is not known, as on disk.
    pub(crate) fn unhinted(page: PageId) -> ChildWord {
        ChildWord::new(page, FrameId::NO_HINT)
    }

    /// The page.
    #[inline(always)]
    pub(crate) fn page(self) -> PageId {
        PageId(self.0 & PageId::MAX.0)
    }

    /// The frame it was last seen in, or any number at all.
    #[inline(always)]
    pub(crate) fn hint(self) -> FrameId {
        FrameId((self.0 >> 40) as u32)
    }
}

/// A view of one page. Copies freely; never outlives the frame region.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    words: &'a [AtomicU64],
}

/// A decoded slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u64);

impl Slot {
    fn new(head: u32, offset: usize, klen: usize) -> Slot {
        debug_assert!(offset <= usize::from(u16::MAX) && klen <= usize::from(u16::MAX));
        Slot(u64::from(head) | (offset as u64) << 32 | (klen as u64) << 48)
    }
    #[inline(always)]
    fn head(self) -> u32 {
        self.0 as u32
    }
    #[inline(always)]
    fn offset(self) -> usize {
        usize::from((self.0 >> 32) as u16)
    }
    /// Bytes of the key behind the page's prefix.
    #[inline(always)]
    fn klen(self) -> usize {
        usize::from((self.0 >> 48) as u16)
    }
    /// Bytes of the key in the cell.
    #[inline(always)]
    fn tail_len(self) -> usize {
        self.klen().saturating_sub(4)
    }
}

impl<'a> Page<'a> {
    /// A view of `words`, a whole page.
    #[inline(always)]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Page<'a> {
        Page { words }
    }

    /// Words of the page.
    #[inline(always)]
    pub(crate) fn len_words(self) -> usize {
        self.words.len()
    }

    /// Bytes of the page.
    pub(crate) fn len_bytes(self) -> usize {
        self.words.len() * 8
    }

    /// [N1], [N2]: a word, or 0 outside the page.
    #[inline(always)]
    fn load(self, at: usize) -> u64 {
        match self.words.get(at) {
            // Relaxed: R2, the latch's begin and validate carry the edges.
            Some(word) => word.load(Ordering::Relaxed),
            None => 0,
        }
    }

    /// Caller holds X. A store outside the page is dropped; [N3] says there is none.
    #[inline(always)]
    fn store(self, at: usize, value: u64) {
        debug_assert!(at < self.words.len());
        if let Some(word) = self.words.get(at) {
            // Relaxed: the X latch's acquire fence and release carry the edges (W1, W2).
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Copies every word into `target`, which is the caller's alone; torn unless the caller validates.
    pub(crate) fn copy_words(self, target: &[AtomicU64]) {
        for (at, word) in target.iter().enumerate() {
            // Relaxed: nobody else sees the copy.
            word.store(self.load(at), Ordering::Relaxed);
        }
    }

    fn field16(self, at: usize, shift: u32) -> usize {
        usize::from((self.load(at) >> shift) as u16)
    }

    fn set_field16(self, at: usize, shift: u32, value: usize) {
        debug_assert!(value <= usize::from(u16::MAX));
        let word = self.load(at) & !(0xffff << shift) | (value as u64) << shift;
        self.store(at, word);
    }

    /// What the page is, if it is anything.
    #[inline(always)]
    pub(crate) fn kind(self) -> Option<Kind> {
        match self.load(0) as u8 {
            1 => Some(Kind::Leaf),
            2 => Some(Kind::Inner),
            _ => None,
        }
    }

    /// Distance from the leaves: 0 for a leaf.
    #[inline(always)]
    pub(crate) fn level(self) -> u8 {
        (self.load(0) >> 8) as u8
    }

    fn flags(self) -> u16 {
        (self.load(0) >> 16) as u16
    }

    /// Number of slots, never more than fit the page.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        self.field16(0, 32).min(self.words.len().saturating_sub(SLOTS_AT))
    }

    /// Bytes that every key of the page starts with.
    #[inline(always)]
    pub(crate) fn prefix_len(self) -> usize {
        self.field16(0, 48)
    }

    /// The page's own name.
    pub(crate) fn page_id(self) -> PageId {
        PageId(self.load(1) & PageId::MAX.0)
    }

    /// The tree it belongs to.
    pub(crate) fn tree(self) -> TreeId {
        TreeId(self.load(6) as u32)
    }

    /// No record on the page has a greater lsn.
    pub(crate) fn max_lsn(self) -> u64 {
        self.load(2)
    }

    fn data_off(self) -> usize {
        self.field16(4, 0)
    }

    fn frag(self) -> usize {
        self.field16(4, 16)
    }

    #[inline(always)]
    fn slot(self, at: usize) -> Slot {
        Slot(self.load(SLOTS_AT + at))
    }

    /// The word that holds child `at`; `count()` names the upper child.
    #[inline(always)]
    pub(crate) fn child_slot(self, at: usize) -> Option<&'a AtomicU64> {
        if at >= self.count() {
            self.words.get(UPPER_AT)
        } else {
            self.words.get(self.slot(at).offset())
        }
    }

    /// Child `at`; `count()` names the upper child.
    #[inline(always)]
    pub(crate) fn child(self, at: usize) -> ChildWord {
        if at >= self.count() {
            ChildWord(self.load(UPPER_AT))
        } else {
            ChildWord(self.load(self.slot(at).offset()))
        }
    }

    /// Caller holds X: replaces child `at`; `count()` names the upper child.
    pub(crate) fn set_child(self, at: usize, child: ChildWord) {
        if at >= self.count() {
            self.store(UPPER_AT, child.0);
        } else {
            self.store(self.slot(at).offset(), child.0);
        }
    }

    /// Words of the hole between slots and cells plus the free words among the cells.
    pub(crate) fn free_words(self) -> usize {
        self.data_off().saturating_sub(SLOTS_AT + self.count()) + self.frag()
    }

    /// Live part of the room that slots and cells share, in percent.
    pub(crate) fn fill_percent(self) -> usize {
        let room = self.words.len() - SLOTS_AT;
        (room - self.free_words().min(room)) * 100 / room
    }
}

impl std::fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("kind", &self.kind())
            .field("level", &self.level())
            .field("page", &self.page_id())
            .field("tree", &self.tree())
            .field("count", &self.count())
            .field("prefix", &self.prefix_len())
            .finish()
    }
}
