//! Is this page well formed ([N3])? Asked of every page that comes from disk, before anybody sees it.

use super::image::Fault;
use super::{
    Kind, LeafPayload, Page, SLOTS_AT, Slot, UPPER_AT, common_prefix_bytes, key_bytes_max,
    words_for,
};
use crate::id::PageId;
use std::cmp::Ordering;

/// No tree is higher. 2^40 pages of two children each do not reach it.
const LEVEL_MAX: u8 = 48;

impl Page<'_> {
    /// Checks every rule of [N3]. Never panics, whatever the bytes; allocates at most a few keys.
    pub(crate) fn verify(self, expect: PageId) -> Result<(), Fault> {
        let Some(kind) = self.kind() else {
            return Err(Fault::new("page kind", "1 or 2", self.load(0) as u8));
        };
        if self.page_id() != expect {
            return Err(Fault::new("page id", expect, self.page_id()));
        }
        let level = self.level();
        if (kind == Kind::Leaf) != (level == 0) || level > LEVEL_MAX {
            return Err(Fault::new("page level", format!("one that fits {kind:?}"), level));
        }
        let stated = self.field16(0, 32);
        if stated != self.count() || SLOTS_AT + stated > self.data_off() {
            return Err(Fault::new("slot count", "slots that end before the cells", stated));
        }
        self.verify_fences()?;
        self.verify_cells(kind)?;
        self.verify_order()
    }

    fn verify_fences(self) -> Result<(), Fault> {
        let end = self.len_words();
        let (lower_at, lower_len) = self.lower_place();
        let (upper_at, upper_len) = self.upper_place();
        let placed = lower_at + words_for(lower_len) == end
            && upper_at + words_for(upper_len) == lower_at
            && upper_at >= self.data_off();
        let key_max = key_bytes_max(self.len_bytes());
        if !placed || lower_len > key_max || upper_len > key_max {
            return Err(Fault::new(
                "fence keys",
                "two fences at the end of the page",
                format!(
                    "{lower_len} bytes at word {lower_at}, {upper_len} bytes at word {upper_at}"
                ),
            ));
        }
        let lower = self.lower().unwrap_or_default();
        let upper = self.upper().flatten();
        let prefix = upper.as_ref().map_or(0, |upper| common_prefix_bytes(&lower, upper));
        if !self.has_upper() && upper_len != 0 {
            return Err(Fault::new("upper fence", "none", format!("{upper_len} bytes")));
        }
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Err(Fault::new("fence order", "lower below upper", "the reverse"));
        }
        if prefix != self.prefix_len() {
            return Err(Fault::new("prefix length", prefix, self.prefix_len()));
        }
        Ok(())
    }

    fn verify_cells(self, kind: Kind) -> Result<(), Fault> {
        let end = self.len_words();
        let data = self.data_off();
        let key_max = key_bytes_max(self.len_bytes());
        let (upper_at, _) = self.upper_place();
        let mut live = end - upper_at;
        for at in 0..self.count() {
            let slot = self.slot(at);
            let inside = slot.offset() >= data
                && slot.offset() < upper_at
                && slot.offset() + self.cell_words(slot) <= upper_at;
            if !inside {
                return Err(Fault::new(
                    "cell place",
                    format!("words {data} to {upper_at}"),
                    slot.offset(),
                ));
            }
            if self.prefix_len() + slot.klen() > key_max {
                return Err(Fault::new("key length", format!("at most {key_max}"), slot.klen()));
            }
            if kind == Kind::Leaf {
                let meta = super::RecordMeta::from_word(self.load(slot.offset()));
                let payload_len = meta.payload_len();
                if meta.is_tombstone() && (meta.is_extent() || payload_len > 0)
                    || meta.is_extent() && payload_len != LeafPayload::EXTENT_BYTES
                {
                    return Err(Fault::new(
                        "record flags",
                        "a value, an extent or a tombstone",
                        self.load(slot.offset()),
                    ));
                }
                if meta.lsn() > self.max_lsn() {
                    return Err(Fault::new(
                        "record lsn",
                        format!("at most {}", self.max_lsn()),
                        meta.lsn(),
                    ));
                }
            } else if self.child(at).page() == PageId::NONE {
                return Err(Fault::new("child page", "a page id", 0));
            }
            live += self.cell_words(slot);
        }
        if kind == Kind::Inner && self.load(UPPER_AT) & PageId::MAX.0 == 0 {
            return Err(Fault::new("upper child", "a page id", 0));
        }
        if live + self.frag() != end - data {
            return Err(Fault::new("words in cells", end - data, live + self.frag()));
        }
        Ok(())
    }

    fn verify_order(self) -> Result<(), Fault> {
        let fault = |at| {
            Fault::new("key order", "strictly ascending between the fences", format!("slot {at}"))
        };
        let count = self.count();
        for at in 1..count {
            if self.cmp_slots(self.slot(at - 1), self.slot(at)) != Ordering::Less {
                return Err(fault(at));
            }
        }
        if count > 0 {
            let first = self.key(0).ok_or_else(|| fault(0))?;
            let last = self.key(count - 1).ok_or_else(|| fault(count - 1))?;
            if !self.covers(&first) || !self.covers(&last) {
                return Err(fault(0));
            }
        }
        Ok(())
    }

    fn cmp_slots(self, a: Slot, b: Slot) -> Ordering {
        a.head().cmp(&b.head()).then_with(|| {
            let common = a.tail_len().min(b.tail_len());
            for word in 0..words_for(common) {
                let keep = match common - 8 * word {
                    1..8 => u64::MAX << (64 - 8 * (common - 8 * word)),
                    _ => u64::MAX,
                };
                let left = self.load(a.offset() + 1 + word).swap_bytes() & keep;
                let right = self.load(b.offset() + 1 + word).swap_bytes() & keep;
                if left != right {
                    return left.cmp(&right);
                }
            }
            a.klen().cmp(&b.klen())
        })
    }
}
