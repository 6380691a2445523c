//! Changing a page. The caller holds the frame's X latch.
//!
//! An edit either fits and is done, or changes nothing and says so; the caller then splits. Cells are written
//! downwards; a removed cell leaves `frag` words behind, gathered by [`Page::compact`] when a new cell would
//! fit without them.

use super::bytes::head_of;
use super::{
    ChildWord, FLAG_UPPER, HINTS, HINTS_AT, HINTS_FROM, Kind, Page, SLOTS_AT, Slot, UPPER_AT,
    common_prefix_bytes, words_for,
};
use crate::id::{PageId, TreeId};
use latchkv_latch::primitives::AtomicU64;
use std::cell::RefCell;

/// The first word of a leaf cell.
///
/// ```text
/// 63        16 15            2    1        0
/// [   lsn     | payload bytes | extent | tomb ]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordMeta(u64);

impl RecordMeta {
    const EXTENT: u64 = 2;
    const TOMBSTONE: u64 = 1;

    fn new(lsn: u64, payload_len: usize, extent: bool) -> RecordMeta {
        debug_assert!(payload_len < 1 << 14);
        RecordMeta(lsn << 16 | (payload_len as u64) << 2 | if extent { Self::EXTENT } else { 0 })
    }

    #[inline(always)]
    pub(super) fn from_word(word: u64) -> RecordMeta {
        RecordMeta(word)
    }

    /// Bytes behind the key.
    #[inline(always)]
    pub(crate) fn payload_len(self) -> usize {
        usize::from(self.0 as u16 >> 2)
    }

    /// The payload names an extent.
    #[inline(always)]
    pub(crate) fn is_extent(self) -> bool {
        self.0 & Self::EXTENT != 0
    }

    /// The record was deleted at its lsn.
    #[inline(always)]
    pub(crate) fn is_tombstone(self) -> bool {
        self.0 & Self::TOMBSTONE != 0
    }

    /// Of the commit that wrote it; 0 = none that a snapshot could tell from another.
    #[inline(always)]
    pub(crate) fn lsn(self) -> u64 {
        self.0 >> 16
    }
}

/// What goes behind the key of a leaf record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeafPayload<'v> {
    /// The value itself.
    Inline(&'v [u8]),
    /// A value kept in the page map.
    Extent {
        /// Its page.
        page: PageId,
        /// Its length in bytes.
        len: u64,
    },
    /// The record is deleted; its lsn says since when.
    Tombstone,
}

impl LeafPayload<'_> {
    /// Bytes of an extent's name: page id and length.
    pub(crate) const EXTENT_BYTES: usize = 16;

    /// Bytes behind the key.
    pub(crate) fn bytes(self) -> usize {
        match self {
            LeafPayload::Inline(value) => value.len(),
            LeafPayload::Extent { .. } => Self::EXTENT_BYTES,
            LeafPayload::Tombstone => 0,
        }
    }

    fn encoded<R>(self, lsn: u64, then: impl FnOnce(RecordMeta, &[u8]) -> R) -> R {
        match self {
            LeafPayload::Inline(value) => then(RecordMeta::new(lsn, value.len(), false), value),
            LeafPayload::Tombstone => then(RecordMeta(lsn << 16 | RecordMeta::TOMBSTONE), &[]),
            LeafPayload::Extent { page, len } => {
                let mut name = [0; Self::EXTENT_BYTES];
                name[..8].copy_from_slice(&page.0.to_le_bytes());
                name[8..].copy_from_slice(&len.to_le_bytes());
                then(RecordMeta::new(lsn, name.len(), true), &name)
            }
        }
    }

    /// Reads an extent's name.
    pub(crate) fn extent_of(payload: &[u8]) -> Option<(PageId, u64)> {
        let page = u64::from_le_bytes(*payload.first_chunk::<8>()?);
        let len = u64::from_le_bytes(*payload.get(8..)?.first_chunk::<8>()?);
        Some((PageId(page & PageId::MAX.0), len))
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<AtomicU64>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` on a private copy of `page`.
pub(super) fn with_copy<R>(page: Page<'_>, f: impl FnOnce(Page<'_>) -> R) -> R {
    // Taken out while in use, so that a copy of a copy gets memory of its own.
    let mut words = SCRATCH.with(|scratch| std::mem::take(&mut *scratch.borrow_mut()));
    words.clear();
    words.extend((0..page.len_words()).map(|at| AtomicU64::new(page.load(at))));
    let result = f(Page::new(&words));
    SCRATCH.with(|scratch| *scratch.borrow_mut() = words);
    result
}

impl Page<'_> {
    /// Makes an empty page between two fences. `upper` = `None`: unbounded.
    pub(crate) fn format(
        self,
        level: u8,
        page: PageId,
        tree: TreeId,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) {
        let kind = if level == 0 { Kind::Leaf } else { Kind::Inner };
        let prefix = upper.map_or(0, |upper| common_prefix_bytes(lower, upper));
        let flags = if upper.is_some() { FLAG_UPPER } else { 0 };
        let end = self.len_words();
        let lower_at = end - words_for(lower.len());
        let upper_bytes = upper.unwrap_or(&[]);
        let upper_at = lower_at - words_for(upper_bytes.len());
        self.store(
            0,
            kind as u64 | u64::from(level) << 8 | u64::from(flags) << 16 | (prefix as u64) << 48,
        );
        self.store(1, page.0);
        self.store(2, 0);
        self.store(
            3,
            lower_at as u64
                | (lower.len() as u64) << 16
                | (upper_at as u64) << 32
                | (upper_bytes.len() as u64) << 48,
        );
        self.store(4, upper_at as u64);
        self.store(UPPER_AT, 0);
        self.store(6, u64::from(tree.0));
        self.store(7, 0);
        for at in HINTS_AT..SLOTS_AT {
            self.store(at, 0);
        }
        self.put_bytes(lower_at, lower);
        self.put_bytes(upper_at, upper_bytes);
    }

    fn set_count(self, count: usize) {
        self.set_field16(0, 32, count);
    }

    fn set_data_off(self, words: usize) {
        self.set_field16(4, 0, words);
    }

    fn set_frag(self, words: usize) {
        self.set_field16(4, 16, words);
    }

    /// Position of the last insert, and how many inserts in a row came right behind their predecessor.
    pub(super) fn insert_run(self) -> (usize, usize) {
        (self.field16(4, 32), self.field16(4, 48))
    }

    fn note_insert(self, at: usize) {
        let (last, run) = self.insert_run();
        let run = if at == last + 1 { (run + 1).min(usize::from(u16::MAX)) } else { 0 };
        self.set_field16(4, 32, at);
        self.set_field16(4, 48, run);
    }

    /// Caller holds X: no record of the page has an lsn over `lsn` afterwards.
    fn raise_lsn(self, lsn: u64) {
        if lsn > self.max_lsn() {
            self.store(2, lsn);
        }
    }

    /// Words of the cell in slot `slot`, its first word included.
    pub(super) fn cell_words(self, slot: Slot) -> usize {
        let payload = match self.kind() {
            Some(Kind::Leaf) => RecordMeta::from_word(self.load(slot.offset())).payload_len(),
            _ => 0,
        };
        1 + words_for(slot.tail_len() + payload)
    }

    /// Makes the hole large enough for a slot and a cell of `words` words. False: it cannot be.
    fn make_room(self, words: usize) -> bool {
        let need = 1 + words;
        let hole = self.data_off().saturating_sub(SLOTS_AT + self.count());
        if need <= hole {
            return true;
        }
        if need > hole + self.frag() {
            return false;
        }
        self.compact();
        true
    }

    /// Gathers the free words among the cells into the hole.
    fn compact(self) {
        with_copy(self, |old| {
            let end = self.len_words();
            let (_, lower_len) = old.lower_place();
            let (_, upper_len) = old.upper_place();
            let fences = words_for(lower_len) + words_for(upper_len);
            // The fences were written first and never move: they are the last words of the page.
            let mut at = end - fences;
            for index in 0..old.count() {
                let slot = old.slot(index);
                let words = old.cell_words(slot);
                at -= words;
                for word in 0..words {
                    self.store(at + word, old.load(slot.offset() + word));
                }
                self.store(SLOTS_AT + index, Slot::new(slot.head(), at, slot.klen()).0);
            }
            self.set_data_off(at);
            self.set_frag(0);
        });
    }

    /// Samples heads into the hint line.
    pub(super) fn sample_heads(self) {
        let count = self.count();
        if count < HINTS_FROM {
            return;
        }
        let step = count / (HINTS + 1);
        for pair in 0..HINTS / 2 {
            let low = self.slot(step * (2 * pair + 1)).head();
            let high = self.slot(step * (2 * pair + 2)).head();
            self.store(HINTS_AT + pair, u64::from(low) | u64::from(high) << 32);
        }
    }

    fn open_slot(self, at: usize, slot: Slot) {
        let count = self.count();
        for index in (at..count).rev() {
            self.store(SLOTS_AT + index + 1, self.load(SLOTS_AT + index));
        }
        self.store(SLOTS_AT + at, slot.0);
        self.set_count(count + 1);
    }

    /// Writes a cell into the hole, first word `first`, then `tail` and `payload` without a gap.
    fn write_cell(self, first: u64, tail: &[u8], payload: &[u8]) -> usize {
        let words = 1 + words_for(tail.len() + payload.len());
        let at = self.data_off() - words;
        self.set_data_off(at);
        self.fill_cell(at, first, tail, payload);
        at
    }

    fn fill_cell(self, at: usize, first: u64, tail: &[u8], payload: &[u8]) {
        self.store(at, first);
        let whole = tail.len() / 8 * 8;
        self.put_bytes(at + 1, &tail[..whole]);
        let rest = &tail[whole..];
        let mut next = at + 1 + whole / 8;
        let mut payload = payload;
        if !rest.is_empty() {
            // The word in which tail and payload meet.
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            let take = payload.len().min(8 - rest.len());
            word[rest.len()..rest.len() + take].copy_from_slice(&payload[..take]);
            self.store(next, u64::from_le_bytes(word));
            payload = &payload[take..];
            next += 1;
        }
        self.put_bytes(next, payload);
    }

    /// The key behind the prefix, split into slot and cell parts. `None`: the key is not of this page.
    fn split_key(self, key: &[u8]) -> Option<(u32, usize, &[u8])> {
        let prefix = self.prefix_len();
        let klen = key.len().checked_sub(prefix)?;
        let tail = key.get(prefix + 4..).unwrap_or(&[]);
        Some((head_of(key, prefix), klen, tail))
    }

    /// Inserts a record at slot `at`. False: it does not fit, and nothing changed.
    #[must_use]
    pub(crate) fn insert_record(
        self,
        at: usize,
        key: &[u8],
        lsn: u64,
        payload: LeafPayload<'_>,
    ) -> bool {
        let inserted = self.insert_record_unsampled(at, key, lsn, payload);
        if inserted {
            self.note_insert(at);
            self.sample_heads();
        }
        inserted
    }

    /// [`insert_record`](Self::insert_record) for a builder that samples once at the end.
    pub(super) fn insert_record_unsampled(
        self,
        at: usize,
        key: &[u8],
        lsn: u64,
        payload: LeafPayload<'_>,
    ) -> bool {
        payload.encoded(lsn, |meta, bytes| self.insert_raw_record(at, key, meta, bytes))
    }

    pub(super) fn insert_raw_record(
        self,
        at: usize,
        key: &[u8],
        meta: RecordMeta,
        bytes: &[u8],
    ) -> bool {
        let Some((head, klen, tail)) = self.split_key(key) else { return false };
        if !self.make_room(1 + words_for(tail.len() + bytes.len())) {
            return false;
        }
        let cell = self.write_cell(meta.0, tail, bytes);
        self.open_slot(at, Slot::new(head, cell, klen));
        self.raise_lsn(meta.0 >> 16);
        true
    }

    /// Appends a record behind all others, in a page under construction. False: it does not fit.
    #[must_use]
    pub(crate) fn push_record(self, key: &[u8], lsn: u64, payload: LeafPayload<'_>) -> bool {
        self.insert_record_unsampled(self.count(), key, lsn, payload)
    }

    /// Appends a separator behind all others, in a page under construction. False: it does not fit.
    #[must_use]
    pub(crate) fn push_child(self, key: &[u8], child: ChildWord) -> bool {
        self.insert_child_unsampled(self.count(), key, child)
    }

    /// Ends the construction of a page.
    pub(crate) fn finish(self) {
        self.sample_heads();
    }

    /// Replaces the payload of slot `at`. False: it does not fit, and nothing changed.
    #[must_use]
    pub(crate) fn replace_record(
        self,
        at: usize,
        key: &[u8],
        lsn: u64,
        payload: LeafPayload<'_>,
    ) -> bool {
        payload.encoded(lsn, |meta, bytes| {
            let Some((head, klen, tail)) = self.split_key(key) else { return false };
            let slot = self.slot(at);
            let old_words = self.cell_words(slot);
            let words = 1 + words_for(tail.len() + bytes.len());
            if words == old_words {
                self.fill_cell(slot.offset(), meta.0, tail, bytes);
                self.raise_lsn(lsn);
                return true;
            }
            let hole = self.data_off().saturating_sub(SLOTS_AT + self.count());
            if words > hole + self.frag() + old_words {
                return false;
            }
            if words > hole {
                // Gathering must not carry the old cell along: take the slot out first.
                self.close_slot(at);
                self.set_frag(self.frag() + old_words);
                self.compact();
                let cell = self.write_cell(meta.0, tail, bytes);
                self.open_slot(at, Slot::new(head, cell, klen));
            } else {
                let cell = self.write_cell(meta.0, tail, bytes);
                self.store(SLOTS_AT + at, Slot::new(head, cell, klen).0);
                self.set_frag(self.frag() + old_words);
            }
            self.raise_lsn(lsn);
            true
        })
    }

    /// Whether a record of `key` with so many payload bytes fits: in place of the one in slot `replaced`, or
    /// beside all others.
    pub(crate) fn has_room_for_record(
        self,
        replaced: Option<usize>,
        key: &[u8],
        payload_len: usize,
    ) -> bool {
        let Some((_, _, tail)) = self.split_key(key) else { return false };
        let words = 1 + words_for(tail.len() + payload_len);
        match replaced {
            Some(at) => words <= self.free_words() + self.cell_words(self.slot(at)),
            None => words < self.free_words(),
        }
    }

    fn close_slot(self, at: usize) {
        let count = self.count();
        for index in at + 1..count {
            self.store(SLOTS_AT + index - 1, self.load(SLOTS_AT + index));
        }
        self.set_count(count - 1);
    }

    /// Removes slot `at` and its cell.
    pub(crate) fn remove(self, at: usize) {
        let words = self.cell_words(self.slot(at));
        self.close_slot(at);
        self.set_frag(self.frag() + words);
        self.sample_heads();
    }

    /// Inserts a separator at slot `at`. False: it does not fit, and nothing changed.
    #[must_use]
    pub(crate) fn insert_child(self, at: usize, key: &[u8], child: ChildWord) -> bool {
        let inserted = self.insert_child_unsampled(at, key, child);
        if inserted {
            self.note_insert(at);
            self.sample_heads();
        }
        inserted
    }

    pub(super) fn insert_child_unsampled(self, at: usize, key: &[u8], child: ChildWord) -> bool {
        let Some((head, klen, tail)) = self.split_key(key) else { return false };
        if !self.make_room(1 + words_for(tail.len())) {
            return false;
        }
        let cell = self.write_cell(child.0, tail, &[]);
        self.open_slot(at, Slot::new(head, cell, klen));
        true
    }

    /// A separator of `key_bytes` still fits.
    pub(crate) fn has_room_for_separator(self, key_bytes: usize) -> bool {
        2 + words_for(key_bytes) <= self.free_words()
    }
}
