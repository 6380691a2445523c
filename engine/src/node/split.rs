//! Where to split a page, moving its upper part away, and taking it back.
//!
//! All routines rebuild both pages from a private copy, since the prefix changes with the fences. The caller
//! holds X on both. `None` means damage in memory ([N3] broken).

use super::edit::{RecordMeta, with_copy};
use super::{
    ChildWord, FLAG_UPPER, Kind, Page, SLOTS_AT, UPPER_AT, common_prefix_bytes, words_for,
};
use crate::id::PageId;

/// Where a page is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SplitPoint {
    /// Slots before this stay. On an inner page the slot itself moves up into the parent.
    pub(crate) at: usize,
    /// Upper fence of what stays, lower fence of what leaves.
    pub(crate) separator: Vec<u8>,
}

/// Inserts in ascending order before a split takes them for a run and leaves the page full behind them.
const RUN_MIN: usize = 8;
/// Places tried for the cut behind such a run.
const RUN_TRIES: usize = 4;

/// The shortest string above `left` and not above `right`.
pub(crate) fn shortest_separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = common_prefix_bytes(left, right);
    right[..(common + 1).min(right.len())].to_vec()
}

/// The range of cut positions that leave 40 to 60 % of the words below them.
fn middle(page: Page<'_>, first: usize, last: usize) -> (usize, usize) {
    let count = page.count();
    let words = |at| page.cell_words(page.slot(at)) + 1;
    let total: usize = (0..count).map(words).sum();
    let (mut below, mut low, mut high) = (0, None, first);
    for at in 0..count {
        if at >= first && at <= last {
            if below * 10 >= total * 4 && low.is_none() {
                low = Some(at);
            }
            if below * 10 <= total * 6 {
                high = at;
            }
        }
        below += words(at);
    }
    let low = low.unwrap_or(last);
    (low, high.max(low))
}

/// Words of a leaf that takes slots `from..to` of `page` between fences that are not wider than its own.
fn leaf_words(
    page: Page<'_>,
    from: usize,
    to: usize,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Option<usize> {
    let prefix = upper.map_or(0, |upper| common_prefix_bytes(lower, upper));
    let more = prefix.checked_sub(page.prefix_len())?;
    let fences = words_for(lower.len()) + upper.map_or(0, |upper| words_for(upper.len()));
    let slots = (from..to).map(|at| {
        let tail = page.slot(at).klen().saturating_sub(more + 4);
        2 + words_for(tail + page.record_payload_len(at))
    });
    Some(SLOTS_AT + fences + slots.sum::<usize>())
}

/// Both parts of a leaf that is cut at `point` fit a page.
fn both_fit(page: Page<'_>, point: &SplitPoint) -> Option<bool> {
    let (lower, upper) = (page.lower()?, page.upper()?);
    let left = leaf_words(page, 0, point.at, &lower, Some(&point.separator))?;
    let right = leaf_words(page, point.at, page.count(), &point.separator, upper.as_deref())?;
    Some(left.max(right) <= page.len_words())
}

/// Chooses where to cut a full leaf into which `key` would go at slot `at`.
pub(crate) fn choose_leaf(page: Page<'_>, at: usize, key: &[u8]) -> Option<SplitPoint> {
    let count = page.count();
    let (last, run) = page.insert_run();
    if run >= RUN_MIN && at == last + 1 && (1..=count).contains(&at) {
        // What stays may be all there is, and the new fence comes on top of it: then a record or two go
        // along.
        for cut in (1..=at).rev().take(RUN_TRIES) {
            let left = page.key(cut - 1)?;
            let separator = match (cut == at, cut == count) {
                (true, true) => shortest_separator(&left, key),
                (true, false) => shortest_separator(key, &page.key(cut)?),
                (false, _) => shortest_separator(&left, &page.key(cut)?),
            };
            let point = SplitPoint { at: cut, separator };
            if both_fit(page, &point)? {
                return Some(point);
            }
        }
    }
    let (low, high) = middle(page, 1, count.checked_sub(1)?);
    let mut best: Option<SplitPoint> = None;
    let mut left = page.key(low.checked_sub(1)?)?;
    for at in low..=high {
        let right = page.key(at)?;
        let len = common_prefix_bytes(&left, &right) + 1;
        if best.as_ref().is_none_or(|best| len < best.separator.len()) {
            best = Some(SplitPoint { at, separator: shortest_separator(&left, &right) });
        }
        left = right;
    }
    best
}

/// Chooses where to cut a full inner page.
pub(crate) fn choose_inner(page: Page<'_>) -> Option<SplitPoint> {
    let count = page.count();
    let last = count.checked_sub(2)?;
    if last == 0 {
        return None;
    }
    let (last_insert, run) = page.insert_run();
    if run >= RUN_MIN && last_insert + 1 == count {
        return Some(SplitPoint { at: last, separator: page.key(last)? });
    }
    let (low, high) = middle(page, 1, last);
    let mut best: Option<SplitPoint> = None;
    for at in low..=high {
        let key = page.key(at)?;
        if best.as_ref().is_none_or(|best| key.len() < best.separator.len()) {
            best = Some(SplitPoint { at, separator: key });
        }
    }
    best
}

/// Appends slots `from..to` of `source` to `target`.
fn append_slots(source: Page<'_>, from: usize, to: usize, target: Page<'_>) -> Option<()> {
    let leaf = source.kind()? == Kind::Leaf;
    let (mut key, mut payload) = (Vec::new(), Vec::new());
    for at in from..to {
        key.clear();
        source.append_key(at, &mut key)?;
        let count = target.count();
        let slot = source.slot(at);
        let fits = if leaf {
            let meta = RecordMeta::from_word(source.load(slot.offset()));
            payload.clear();
            source.append_bytes(
                slot.offset() + 1,
                slot.tail_len(),
                meta.payload_len(),
                &mut payload,
            );
            target.insert_raw_record(count, &key, meta, &payload)
        } else {
            target.insert_child_unsampled(count, &key, source.child(at))
        };
        if !fits {
            return None;
        }
    }
    Some(())
}

/// Moves what lies at and above `point` from `left` into `right`, which becomes page `right_id`.
pub(crate) fn split_off(
    left: Page<'_>,
    right: Page<'_>,
    right_id: PageId,
    point: &SplitPoint,
) -> Option<()> {
    with_copy(left, |old| {
        let (lower, upper) = (old.lower()?, old.upper()?);
        let count = old.count();
        let (level, tree, lsn) = (old.level(), old.tree(), old.max_lsn());
        left.format(level, old.page_id(), tree, &lower, Some(&point.separator));
        right.format(level, right_id, tree, &point.separator, upper.as_deref());
        append_slots(old, 0, point.at, left)?;
        let mut from = point.at;
        if old.kind()? == Kind::Inner {
            left.store(UPPER_AT, old.child(point.at).0);
            right.store(UPPER_AT, old.child(count).0);
            from += 1;
        }
        append_slots(old, from, count, right)?;
        left.store(2, lsn);
        right.store(2, lsn);
        left.sample_heads();
        right.sample_heads();
        Some(())
    })
}

/// Both pages' slots fit `left`, with the separator between them if they are inner pages.
pub(crate) fn merge_fits(left: Page<'_>, right: Page<'_>, separator: &[u8]) -> Option<bool> {
    let (lower, upper) = (left.lower()?, right.upper()?);
    let upper_len = upper.as_ref().map_or(0, Vec::len);
    let prefix = upper.as_ref().map_or(0, |upper| common_prefix_bytes(&lower, upper));
    let mut words = SLOTS_AT + words_for(lower.len()) + words_for(upper_len);
    for page in [left, right] {
        let grown = page.prefix_len().checked_sub(prefix)?;
        for at in 0..page.count() {
            let slot = page.slot(at);
            let payload = page.record_payload_len(at);
            let tail = (slot.klen() + grown).saturating_sub(4);
            words += 2 + words_for(tail + payload);
        }
    }
    if left.kind()? == Kind::Inner {
        words += 2 + words_for(separator.len().saturating_sub(prefix + 4));
    }
    Some(words <= left.len_words())
}

/// Takes the slots of `right` into `left`; `separator` is the fence between them. Call only if
/// [`merge_fits`].
pub(crate) fn merge(left: Page<'_>, right: Page<'_>, separator: &[u8]) -> Option<()> {
    with_copy(left, |old| {
        let (lower, upper) = (old.lower()?, right.upper()?);
        left.format(old.level(), old.page_id(), old.tree(), &lower, upper.as_deref());
        append_slots(old, 0, old.count(), left)?;
        if old.kind()? == Kind::Inner {
            let count = left.count();
            if !left.insert_child_unsampled(count, separator, old.child(old.count())) {
                return None;
            }
            left.store(UPPER_AT, right.child(right.count()).0);
        }
        append_slots(right, 0, right.count(), left)?;
        left.store(2, old.max_lsn().max(right.max_lsn()));
        left.sample_heads();
        Some(())
    })
}

impl Page<'_> {
    fn record_payload_len(self, at: usize) -> usize {
        match self.kind() {
            Some(Kind::Leaf) => {
                RecordMeta::from_word(self.load(self.slot(at).offset())).payload_len()
            }
            _ => 0,
        }
    }

    /// Caller holds X: becomes a copy of `source` under the page id `id`.
    pub(crate) fn copy_from(self, source: Page<'_>, id: PageId) {
        for at in 0..self.len_words() {
            self.store(at, source.load(at));
        }
        self.store(1, id.0);
    }

    /// Caller holds X: becomes an inner page whose only child is `child`, with the fences it has.
    pub(crate) fn become_parent_of(self, child: ChildWord, level: u8) -> Option<()> {
        let (lower, upper) = (self.lower()?, self.upper()?);
        let lsn = self.max_lsn();
        self.format(level, self.page_id(), self.tree(), &lower, upper.as_deref());
        self.store(UPPER_AT, child.0);
        self.store(2, lsn);
        Some(())
    }

    /// Caller holds X: removes the separator in slot `at` and the child behind it, keeping the child before
    /// it.
    pub(crate) fn remove_child_behind(self, at: usize) {
        let kept = self.child(at);
        self.set_child(at + 1, kept);
        self.remove(at);
    }

    /// Has an upper fence.
    pub(crate) fn has_upper(self) -> bool {
        self.flags() & FLAG_UPPER != 0
    }
}
