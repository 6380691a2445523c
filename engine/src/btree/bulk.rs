//! Building a tree from sorted records, bottom up and packed.
//!
//! Each level stages entries until a page is full, then forms the page and passes its lower fence and its
//! child word up. Pages are provisional, so a crash or an error in between leaks nothing; at the end the top
//! page's content goes into the root inside the gate, in one step.
//!
//! Since the prefix of a page depends on its upper fence, which is known only when the next page's first key
//! is, a level keeps a little more than a page and closes a page at the last entry with which it still fits.

use super::Btree;
use super::journal::{Journal, Stamp};
use crate::error::{Result, Usage};
use crate::id::PageId;
use crate::node::{
    ChildWord, LeafPayload, Page, SLOTS_AT, common_prefix_bytes, shortest_separator, words_for,
};
use latchkv_latch::primitives::Ordering;

/// Words of a built page left free for later changes: one in so many.
const SPARE_ONE_IN: usize = 24;

/// One entry of a level: a record of a leaf, or a child and the lower fence of its page.
struct Entry {
    key: Vec<u8>,
    body: Body,
}

enum Body {
    Value(Vec<u8>),
    Extent { page: PageId, len: u64 },
    Tombstone,
    Child(ChildWord),
}

impl Entry {
    fn payload_len(&self) -> usize {
        match &self.body {
            Body::Value(value) => value.len(),
            Body::Extent { .. } => LeafPayload::EXTENT_BYTES,
            Body::Tombstone | Body::Child(_) => 0,
        }
    }

    /// Words of slot and cell behind `prefix` shared bytes.
    fn words(&self, prefix: usize) -> usize {
        let tail = self.key.len().saturating_sub(prefix + 4);
        2 + words_for(tail + self.payload_len())
    }
}

/// One level under construction.
#[derive(Default)]
struct Level {
    staged: Vec<Entry>,
    /// Bytes that the lower fence shares with the last staged key, and so with a fence at it.
    prefix: usize,
    /// Words of `staged` behind so many bytes.
    staged_words: usize,
    /// Lower fence of the page to be formed next.
    lower: Vec<u8>,
}

impl Level {
    /// The keys share so many bytes with the lower fence from now on.
    fn share(&mut self, prefix: usize) {
        if prefix != self.prefix {
            self.count(prefix);
        }
    }

    fn count(&mut self, prefix: usize) {
        self.prefix = prefix;
        self.staged_words = self.staged.iter().map(|entry| entry.words(prefix)).sum();
    }
}

/// What a build has made so far. Records come in ascending order; nobody else sees any of it.
pub(super) struct Built {
    /// Pages, the top one not yet among them.
    pub(super) pages: Vec<PageId>,
    /// Large values that were written for it.
    pub(super) extents: Vec<PageId>,
    levels: Vec<Level>,
    /// Records that are no tombstones.
    pub(super) records: u64,
}

impl Built {
    /// Nothing yet.
    pub(super) fn new() -> Built {
        let levels = vec![Level::default()];
        Built { pages: Vec::new(), extents: Vec::new(), levels, records: 0 }
    }
}

impl<'p> Btree<'p> {
    /// Builds a tree of strictly ascending records into this one, if it holds nothing, not even tombstones; gives
    /// the number of records. `None`: it holds something. `ready` is given the number of pages and large values once
    /// all are built, before any of it is seen; what it gives is held until all of it is.
    pub(crate) fn bulk_load<K, V, H, J: Journal>(
        self,
        records: impl Iterator<Item = (K, V)>,
        ready: impl FnOnce(usize) -> Result<H>,
        journal: &mut J,
    ) -> Result<Option<u64>>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        if !self.is_empty()? {
            return Ok(None);
        }
        let mut built = Built::new();
        let result = self
            .build(&mut built, records)
            .and_then(|()| ready(built.pages.len() + built.extents.len()))
            .and_then(|_held| self.install(&built, journal));
        match result {
            Ok(true) => Ok(Some(built.records)),
            failed => {
                self.drop_built(&built);
                failed.and_then(|_| Err(Usage::NotEmpty.into()))
            }
        }
    }

    /// The tree holds nothing and is one leaf.
    pub(crate) fn is_empty(self) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let root = self.descend(&mut attempts, |_| 0)?;
            let empty = root.parent.is_none() && self.page(root.node).count() == 0;
            if self.valid(root.node) {
                return Ok(empty);
            }
            attempts.again()?;
        }
    }

    fn build<K, V>(self, built: &mut Built, records: impl Iterator<Item = (K, V)>) -> Result<()>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut last: Option<Vec<u8>> = None;
        for (key, value) in records {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.check_key(key)?;
            self.check_value(value)?;
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(Usage::Unsorted { position: built.records }.into());
            }
            self.build_value(built, key, value)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        self.build_top(built)
    }

    /// Adds a record; a large value is written first.
    pub(super) fn build_value(self, built: &mut Built, key: &[u8], value: &[u8]) -> Result<()> {
        let body = if self.stays_inline(key, value) {
            Body::Value(value.to_vec())
        } else {
            let page = self.pool.store().write_value(value)?;
            built.extents.push(page);
            Body::Extent { page, len: value.len() as u64 }
        };
        built.records += 1;
        self.stage_entry(built, 0, Entry { key: key.to_vec(), body })
    }

    /// Adds a record with what a leaf holds of it. A large value stays whose it was.
    pub(super) fn build_payload(
        self,
        built: &mut Built,
        key: &[u8],
        payload: LeafPayload<'_>,
    ) -> Result<()> {
        let body = match payload {
            LeafPayload::Inline(value) => Body::Value(value.to_vec()),
            LeafPayload::Extent { page, len } => Body::Extent { page, len },
            LeafPayload::Tombstone => Body::Tombstone,
        };
        built.records += u64::from(!matches!(body, Body::Tombstone));
        self.stage_entry(built, 0, Entry { key: key.to_vec(), body })
    }

    /// Forms the pages of every level but the top one, which becomes the root's content.
    pub(super) fn build_top(self, built: &mut Built) -> Result<()> {
        let mut level = 0;
        while level < built.levels.len() {
            while !built.levels[level].staged.is_empty() {
                let top = level + 1 == built.levels.len();
                let staged = &built.levels[level];
                if top && self.fitting(staged, level, true) == staged.staged.len() {
                    return Ok(());
                }
                self.close_page(built, level, true)?;
            }
            level += 1;
        }
        Ok(())
    }

    /// Puts the top level into a page, a root.
    pub(super) fn form_root(self, page: Page<'p>, built: &Built) -> Result<()> {
        let at = built.levels.len() - 1;
        let level = &built.levels[at];
        self.form(page, self.core.root, level, at, level.staged.len(), None)
    }

    fn words_max(self) -> usize {
        let words = self.pool.store().page_bytes() as usize / 8;
        words - words / SPARE_ONE_IN
    }

    fn stage_entry(self, built: &mut Built, at: usize, entry: Entry) -> Result<()> {
        let level = &mut built.levels[at];
        level.share(common_prefix_bytes(&level.lower, &entry.key));
        // A page of what is staged so far, at most: a fence at this entry is no longer than its key.
        let fences = words_for(level.lower.len()) + words_for(entry.key.len());
        let words = SLOTS_AT + fences + level.staged_words;
        level.staged_words += entry.words(level.prefix);
        level.staged.push(entry);
        if words > self.words_max() {
            let fitting = self.fitting(&built.levels[at], at, false);
            if fitting + 1 < built.levels[at].staged.len() {
                self.close_page(built, at, false)?;
            }
        }
        Ok(())
    }

    /// Words of a page of the first `take` entries; `None` as fence means unbounded.
    fn page_words(level: &Level, at: usize, take: usize, upper: Option<&[u8]>) -> usize {
        let prefix = upper.map_or(0, |upper| common_prefix_bytes(&level.lower, upper));
        let fences = words_for(level.lower.len()) + words_for(upper.map_or(0, <[u8]>::len));
        // The last child of an inner page is its upper child; the first one's key is the lower fence.
        let from = usize::from(at > 0);
        let entries: usize =
            level.staged[from.min(take)..take].iter().map(|entry| entry.words(prefix)).sum();
        SLOTS_AT + fences + entries
    }

    /// The fence above the first `take` entries.
    fn upper_of(level: &Level, at: usize, take: usize) -> Option<Vec<u8>> {
        let next = level.staged.get(take)?;
        Some(if at == 0 {
            shortest_separator(&level.staged[take - 1].key, &next.key)
        } else {
            next.key.clone()
        })
    }

    /// How many staged entries make the fullest page, at least one. If more may come, the last entry stays
    /// back to be the fence.
    fn fitting(self, level: &Level, at: usize, finish: bool) -> usize {
        let len = level.staged.len();
        let fits = |take: usize| {
            let upper = Self::upper_of(level, at, take);
            Self::page_words(level, at, take, upper.as_deref()) <= self.words_max()
        };
        let mut take = if finish { len } else { len - 1 };
        while take > 1 && !fits(take) {
            take -= 1;
        }
        take.max(1)
    }

    /// Forms a page of the first entries of a level and passes it up.
    fn close_page(self, built: &mut Built, at: usize, finish: bool) -> Result<()> {
        let level = &built.levels[at];
        let take = self.fitting(level, at, finish);
        let upper = Self::upper_of(level, at, take);
        let mut reservation = self.pool.reserve_provisional(1)?;
        let x = reservation.create();
        built.pages.push(x.page_id());
        let formed = self.form(x.page(), x.page_id(), level, at, take, upper.as_deref());
        let child = ChildWord::new(x.page_id(), x.frame());
        drop(x);
        drop(reservation);
        formed?;
        let level = &mut built.levels[at];
        let lower = std::mem::replace(&mut level.lower, upper.unwrap_or_default());
        level.staged.drain(..take);
        level.count(0);
        if built.levels.len() == at + 1 {
            built.levels.push(Level::default());
        }
        self.stage_entry(built, at + 1, Entry { key: lower, body: Body::Child(child) })
    }

    fn form(
        self,
        page: Page<'p>,
        id: PageId,
        level: &Level,
        at: usize,
        take: usize,
        upper: Option<&[u8]>,
    ) -> Result<()> {
        page.format(at as u8, id, self.core.id, &level.lower, upper);
        let staged = &level.staged[..take];
        for (index, entry) in staged.iter().enumerate() {
            let pushed = match &entry.body {
                Body::Value(value) => page.push_record(&entry.key, 0, LeafPayload::Inline(value)),
                Body::Extent { page: extent, len } => page.push_record(
                    &entry.key,
                    0,
                    LeafPayload::Extent { page: *extent, len: *len },
                ),
                Body::Tombstone => page.push_record(&entry.key, 0, LeafPayload::Tombstone),
                Body::Child(child) => match staged.get(index + 1) {
                    Some(next) => page.push_child(&next.key, *child),
                    None => {
                        page.set_child(page.count(), *child);
                        true
                    }
                },
            };
            if !pushed {
                return Err(self.damage(id, "built page that does not hold what it should"));
            }
        }
        page.finish();
        Ok(())
    }

    /// Puts the top level into the root. False: the tree is not empty any more.
    pub(super) fn install<J: Journal>(self, built: &Built, journal: &mut J) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let reached = self.descend(&mut attempts, |_| 0)?;
            let inside = self.enter()?;
            let node = reached.node;
            let Some(x) = self.pool.exclusive_at(node.frame, node.version) else {
                drop(inside);
                attempts.again()?;
                continue;
            };
            if reached.parent.is_some() || x.page().count() > 0 {
                x.release_clean();
                return Ok(false);
            }
            match self.touch(&x).and_then(|()| journal.stamp()) {
                // Relaxed: see the field.
                Ok(Stamp::At(lsn)) => self.core.filled_at.store(lsn, Ordering::Relaxed),
                Ok(Stamp::Later) => {
                    x.release_clean();
                    drop(inside);
                    journal.wait()?;
                    continue;
                }
                Err(error) => {
                    x.release_clean();
                    return Err(error);
                }
            }
            self.form_root(x.page(), built)?;
            self.pool.adopt(&built.pages);
            self.pool.adopt(&built.extents);
            self.core.lengths.add(built.records as i64);
            drop(x);
            journal.applied();
            return Ok(true);
        }
    }

    /// Gives back the pages of a build that came to nothing, and what large values were written for it.
    pub(super) fn drop_built(self, built: &Built) {
        let _inside = self.pool.gate().enter();
        for &page in built.pages.iter().chain(&built.extents) {
            self.pool.free_unloaded(page);
        }
    }
}
