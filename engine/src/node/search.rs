//! Finding a key in a page, and reading what is there.
//!
//! Sampled heads narrow the range to a line or two of slots, a branch-free binary search over heads finds the
//! place, and cells are touched only where heads are equal. The caller's key lies between the page's fences,
//! hence starts with its prefix; if a torn page says otherwise the answer is nonsense that validation throws
//! away.

use super::bytes::head_of;
use super::edit::RecordMeta;
use super::{HINTS, HINTS_AT, HINTS_FROM, Page, SLOTS_AT, Slot, words_for};
use latchkv_latch::prefetch::prefetch_line;
use latchkv_latch::primitives::Ordering as Atomic;
use std::cmp::Ordering;
use std::ops::Range;

/// Lines of a cell that are asked for ahead.
const CELL_LINES: usize = 3;

/// Where a key is, or would go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Index of the first slot that is not below the key.
    pub(crate) at: usize,
    /// That slot holds the key itself.
    pub(crate) exact: bool,
}

/// A leaf record's place on its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRecord {
    slot: Slot,
    /// The record's meta word.
    pub(crate) meta: RecordMeta,
}

/// The bytes that the keys of one page share, ready to be put before each.
#[derive(Default, Debug)]
pub(crate) struct KeyFront {
    words: Vec<u64>,
    prefix_len: usize,
    bytes: Vec<u8>,
}

impl<'a> Page<'a> {
    /// The slots, never reaching out of the page.
    #[inline(always)]
    fn slots(self) -> &'a [latchkv_latch::primitives::AtomicU64] {
        let end = SLOTS_AT + self.count();
        self.words.get(SLOTS_AT..end).unwrap_or(&[])
    }

    /// First slot whose head is not below `head`.
    #[inline(always)]
    fn head_lower_bound(self, head: u32) -> usize {
        let slots = self.slots();
        let (mut base, mut len) = (0, slots.len());
        if len >= HINTS_FROM {
            let step = len / (HINTS + 1);
            let mut below = 0;
            for word in &self.words[HINTS_AT..HINTS_AT + HINTS / 2] {
                // Relaxed: R2.
                let pair = word.load(Atomic::Relaxed);
                below +=
                    usize::from((pair as u32) < head) + usize::from(((pair >> 32) as u32) < head);
            }
            base = below * step;
            let end = if below < HINTS { base + step } else { len };
            len = end - base;
        }
        // Invariant: slots before `base` are below, slots from `base + len` on are not.
        while len > 0 {
            let half = len / 2;
            // Relaxed: R2.
            let probe = slots[base + half].load(Atomic::Relaxed) as u32;
            let below = probe < head;
            base = if below { base + half + 1 } else { base };
            len = if below { len - half - 1 } else { half };
        }
        base
    }

    /// Asks for the lines of a cell of ordinary size.
    #[inline(always)]
    fn prefetch_cell(self, slot: Slot) {
        if let Some(cell) = self.words.get(slot.offset()..) {
            let first = cell.as_ptr();
            for line in 0..CELL_LINES {
                prefetch_line(first.wrapping_add(line * 8));
            }
        }
    }

    /// Asks for the cells of slots `range`, so that reading them one by one does not wait for each.
    pub(crate) fn prefetch_records(self, range: Range<usize>) {
        for at in range {
            self.prefetch_cell(self.slot(at));
        }
    }

    /// Compares the key of slot `slot` with `rest`, the probe behind prefix and head. Heads are equal.
    #[inline(always)]
    fn cmp_behind_head(self, slot: Slot, rest: &[u8], probe_klen: usize) -> Ordering {
        match self.cmp_bytes(slot.offset() + 1, slot.tail_len(), rest) {
            // Short keys have equal (empty) tails and differ in the zeros of their heads.
            Ordering::Equal => slot.klen().cmp(&probe_klen),
            unequal => unequal,
        }
    }

    /// Where `key` is or would go.
    #[inline(always)]
    pub(crate) fn find(self, key: &[u8]) -> Found {
        let prefix = self.prefix_len();
        let head = head_of(key, prefix);
        let klen = key.len().saturating_sub(prefix);
        let rest = key.get(prefix + 4..).unwrap_or(&[]);
        let count = self.count();
        let at = self.head_lower_bound(head);
        if at >= count {
            return Found { at: count, exact: false };
        }
        let slot = self.slot(at);
        if slot.head() != head {
            return Found { at, exact: false };
        }
        // Most likely it is the one, and its value is wanted next.
        self.prefetch_cell(slot);
        match self.cmp_behind_head(slot, rest, klen) {
            Ordering::Equal => Found { at, exact: true },
            Ordering::Greater => Found { at, exact: false },
            Ordering::Less => self.find_in_run(at + 1, head, rest, klen),
        }
    }

    /// Goes on among slots with an equal head, from `from` on.
    fn find_in_run(self, from: usize, head: u32, rest: &[u8], klen: usize) -> Found {
        let (mut low, mut high) = (from, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            let slot = self.slot(middle);
            let order = match slot.head().cmp(&head) {
                Ordering::Equal => self.cmp_behind_head(slot, rest, klen),
                unequal => unequal,
            };
            match order {
                Ordering::Equal => return Found { at: middle, exact: true },
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Found { at: low, exact: false }
    }

    /// Index of the child that holds `key`; `count()` is the upper child.
    #[inline(always)]
    pub(crate) fn find_child(self, key: &[u8]) -> usize {
        let found = self.find(key);
        found.at + usize::from(found.exact)
    }

    /// Index of the child that holds the greatest keys below `key`.
    pub(crate) fn find_child_below(self, key: &[u8]) -> usize {
        self.find(key).at
    }

    /// The record in slot `at` of a leaf. `None`: out of range, or a torn page.
    #[inline(always)]
    pub(crate) fn record(self, at: usize) -> Option<LeafRecord> {
        if at >= self.count() {
            return None;
        }
        let slot = self.slot(at);
        // Relaxed: R2.
        let meta = RecordMeta::from_word(self.words.get(slot.offset())?.load(Atomic::Relaxed));
        let end = slot.offset() + 1 + words_for(slot.tail_len() + meta.payload_len());
        (end <= self.words.len()).then_some(LeafRecord { slot, meta })
    }

    /// Copies the payload of `record` (a value, or the name of an extent) into `out` and says where in it
    /// the payload starts: whole words are copied, with up to 7 key bytes ahead of it.
    #[inline(always)]
    pub(crate) fn copy_payload(self, record: LeafRecord, out: &mut Vec<u64>) -> usize {
        let skip = record.slot.tail_len();
        let first = record.slot.offset() + 1 + skip / 8;
        let skip = skip % 8;
        let words = words_for(skip + record.meta.payload_len());
        out.clear();
        let source = self.words.get(first..first + words).unwrap_or(&[]);
        // Relaxed: R2.
        out.extend(source.iter().map(|word| word.load(Atomic::Relaxed).to_le()));
        skip
    }

    /// What all keys of the page begin with, as words, right-aligned and with four bytes of room for a head
    /// behind it, for [`copy_record`](Self::copy_record). `None`: torn.
    pub(crate) fn key_front(self, front: &mut KeyFront) -> Option<()> {
        let mut prefix = std::mem::take(&mut front.bytes);
        prefix.clear();
        let len = self.prefix_len();
        // Zeros ahead, so that prefix and head end with a word.
        prefix.resize((len + 4).next_multiple_of(8) - (len + 4), 0);
        let copied = self.append_prefix(len, &mut prefix);
        prefix.extend([0; 4]);
        front.words.clear();
        front.words.extend(
            prefix
                .chunks_exact(8)
                .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("chunks of eight"))),
        );
        front.prefix_len = len;
        front.bytes = prefix;
        copied
    }

    /// Appends key and payload of `record` to `out`, one behind the other, whole words at a time, and says
    /// where in the bytes of `out` the key starts and how long it is. `None`: torn.
    #[inline]
    pub(crate) fn copy_record(
        self,
        record: LeafRecord,
        front: &KeyFront,
        out: &mut Vec<u64>,
    ) -> Option<(usize, usize)> {
        let slot = record.slot;
        let key_len = front.prefix_len + slot.klen();
        let first = slot.offset() + 1;
        let words = words_for(slot.tail_len() + record.meta.payload_len());
        let cell = self.words.get(first..first + words)?;
        let (last, ahead) = front.words.split_last()?;
        let last = last | u64::from(slot.head().swap_bytes()) << 32;
        out.reserve(front.words.len() + words);
        let short = 4 - slot.klen().min(4);
        if short == 0 {
            out.extend(ahead.iter().map(|word| word.to_le()));
            out.push(last.to_le());
        } else {
            // The head is shorter, and ends with the last word all the same: all before it moves back.
            let bits = 8 * short as u32;
            let mut carried = 0;
            for word in ahead.iter().chain([&last]) {
                out.push((word << bits | carried).to_le());
                carried = word >> (64 - bits);
            }
        }
        let start = out.len() * 8 - (4 - short) - front.prefix_len;
        // Relaxed: R2.
        out.extend(cell.iter().map(|word| word.load(Atomic::Relaxed).to_le()));
        Some((start, key_len))
    }

    /// Appends prefix and head.
    fn append_key_front(self, slot: Slot, out: &mut Vec<u8>) -> Option<()> {
        self.append_prefix(self.prefix_len(), out)?;
        let head = slot.head().to_be_bytes();
        out.extend_from_slice(&head[..slot.klen().min(4)]);
        Some(())
    }

    /// Appends the first `prefix` bytes of the lower fence. The caller loaded their number, and goes by it: another
    /// load may give another one.
    fn append_prefix(self, prefix: usize, out: &mut Vec<u8>) -> Option<()> {
        if prefix > 0 {
            let (at, len) = self.lower_place();
            if prefix > len || at + words_for(len) > self.words.len() {
                return None;
            }
            self.append_bytes(at, 0, prefix, out);
        }
        Some(())
    }

    /// Appends the key of slot `at`. `None`: out of range, or torn.
    pub(crate) fn append_key(self, at: usize, out: &mut Vec<u8>) -> Option<()> {
        if at >= self.count() {
            return None;
        }
        let slot = self.slot(at);
        if slot.offset() + 1 + words_for(slot.tail_len()) > self.words.len() {
            return None;
        }
        self.append_key_front(slot, out)?;
        self.append_bytes(slot.offset() + 1, 0, slot.tail_len(), out);
        Some(())
    }

    /// The key of slot `at`, owned.
    pub(crate) fn key(self, at: usize) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        self.append_key(at, &mut key)?;
        Some(key)
    }

    pub(super) fn lower_place(self) -> (usize, usize) {
        (self.field16(3, 0), self.field16(3, 16))
    }

    pub(super) fn upper_place(self) -> (usize, usize) {
        (self.field16(3, 32), self.field16(3, 48))
    }

    fn fence(self, (at, len): (usize, usize)) -> Option<Vec<u8>> {
        if at + words_for(len) > self.words.len() {
            return None;
        }
        let mut fence = Vec::with_capacity(len + 8);
        self.append_bytes(at, 0, len, &mut fence);
        Some(fence)
    }

    /// The lower fence, inclusive; empty where the tree has no lower bound. `None`: torn.
    pub(crate) fn lower(self) -> Option<Vec<u8>> {
        self.fence(self.lower_place())
    }

    /// The upper fence, exclusive; `Some(None)` where the tree has no upper bound. `None`: torn.
    pub(crate) fn upper(self) -> Option<Option<Vec<u8>>> {
        if self.flags() & super::FLAG_UPPER == 0 {
            return Some(None);
        }
        self.fence(self.upper_place()).map(Some)
    }

    /// `key` lies between the fences.
    pub(crate) fn covers(self, key: &[u8]) -> bool {
        let (at, len) = self.lower_place();
        if len > 0 && self.cmp_bytes(at, len, key) == Ordering::Greater {
            return false;
        }
        let (at, len) = self.upper_place();
        self.flags() & super::FLAG_UPPER == 0 || self.cmp_bytes(at, len, key) == Ordering::Greater
    }
}
