//! Building a tree from sorted records, bottom up and packed.
//!
//! Each level stages entries until a page is full, then forms the page and passes its lower fence and its
//! child word up. Pages are provisional, so a crash or an error in between leaks nothing; at the end the top
//! page's content goes into the root inside the gate, in one step.
//!
//! Since the prefix of a page depends on its upper fence, which is known only when the next page's first key
//! is, a level keeps a little more than a page and closes a page at the last entry with which it still fits.

use super::Btree;
use crate::error::{Result, Usage};
use crate::id::PageId;
use crate::node::{
    ChildWord, LeafPayload, Page, SLOTS_AT, common_prefix_bytes, shortest_separator, words_for,
};

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
    Child(ChildWord),
}

impl Entry {
    fn payload_len(&self) -> usize {
        match &self.body {
            Body::Value(value) => value.len(),
            Body::Extent { .. } => LeafPayload::EXTENT_BYTES,
            Body::Child(_) => 0,
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
    /// Upper bound of the words of `staged`, as if nothing were shared.
    staged_words: usize,
    /// Lower fence of the page to be formed next.
    lower: Vec<u8>,
}

/// What a build has made so far.
struct Built {
    pages: Vec<PageId>,
    extents: Vec<PageId>,
    levels: Vec<Level>,
    records: u64,
}

impl<'p> Btree<'p> {
    /// Loads strictly ascending records. An empty tree is built packed; into another one they are put one by
    /// one. Gives the number of records.
    pub(crate) fn bulk_load<K, V>(self, records: impl Iterator<Item = (K, V)>) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        if !self.is_empty()? {
            return self.put_ascending(records);
        }
        let mut built = Built {
            pages: Vec::new(),
            extents: Vec::new(),
            levels: vec![Level::default()],
            records: 0,
        };
        let result = self.build(&mut built, records).and_then(|()| self.install(&mut built));
        match result {
            Ok(true) => Ok(built.records),
            failed => {
                self.drop_built(&built);
                failed.and_then(|_| Err(Usage::NotEmpty.into()))
            }
        }
    }

    /// The tree holds nothing and is one leaf.
    fn is_empty(self) -> Result<bool> {
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

    fn put_ascending<K, V>(self, records: impl Iterator<Item = (K, V)>) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut count = 0;
        let mut last: Option<Vec<u8>> = None;
        for (key, value) in records {
            let key = key.as_ref();
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(Usage::Unsorted { position: count }.into());
            }
            self.put(key, value.as_ref())?;
            last = Some(key.to_vec());
            count += 1;
        }
        Ok(count)
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
            Self::check_value(value)?;
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(Usage::Unsorted { position: built.records }.into());
            }
            let body = if self.stays_inline(key, value) {
                Body::Value(value.to_vec())
            } else {
                let page = self.pool.store().write_value(value)?;
                built.extents.push(page);
                Body::Extent { page, len: value.len() as u64 }
            };
            self.stage_entry(built, 0, Entry { key: key.to_vec(), body })?;
            built.records += 1;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        // Flush every level but the top one, which becomes the root's content.
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

    fn words_max(self) -> usize {
        let words = self.pool.store().page_bytes() as usize / 8;
        words - words / SPARE_ONE_IN
    }

    fn stage_entry(self, built: &mut Built, at: usize, entry: Entry) -> Result<()> {
        let level = &mut built.levels[at];
        level.staged_words += entry.words(0);
        level.staged.push(entry);
        // Ask only when the pessimistic sum, less what a prefix could save, is over a page.
        let level = &built.levels[at];
        let prefix = match (level.staged.first(), level.staged.last()) {
            (Some(first), Some(last)) => common_prefix_bytes(&first.key, &last.key),
            _ => 0,
        };
        let saved = level.staged.len() * words_for(prefix + 7);
        if level.staged_words.saturating_sub(saved) + SLOTS_AT > self.words_max() {
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
        let gone: usize = level.staged.drain(..take).map(|entry| entry.words(0)).sum();
        level.staged_words -= gone;
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
    fn install(self, built: &mut Built) -> Result<bool> {
        let at = built.levels.len() - 1;
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
            if let Err(error) = self.pool.touch(&x) {
                x.release_clean();
                return Err(error);
            }
            let level = &built.levels[at];
            self.form(x.page(), self.core.root, level, at, level.staged.len(), None)?;
            self.pool.adopt(&built.pages);
            self.pool.adopt(&built.extents);
            self.core.lengths.add(built.records as i64);
            return Ok(true);
        }
    }

    /// Gives back the pages of a build that came to nothing. One that cannot be reached stays taken until the
    /// database is reopened: no checkpoint knows it.
    fn drop_built(self, built: &Built) {
        for &page in &built.pages {
            while let Ok((frame, version)) = self.pool.reach(page) {
                let _inside = self.pool.gate().enter();
                if let Some(x) = self.pool.exclusive_at(frame, version) {
                    self.pool.free(x);
                    break;
                }
            }
        }
        for &extent in &built.extents {
            self.pool.free_unloaded(extent);
        }
    }
}
