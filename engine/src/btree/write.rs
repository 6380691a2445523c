//! Changes of one key.
//!
//! Come down, decide at the version found, enter the gate, upgrade the leaf at that version, change it. Two
//! read-modify-writes in all: the upgrade and its release. What does not fit asks `smo` for room and starts
//! again. What a change means to log and snapshots is said by its [`Journal`].

use super::attempts::Attempts;
use super::journal::{Journal, Stamp};
use super::smo::SPARSE_PERCENT;
use super::{Btree, NodeAt, Reached};
use crate::error::{Result, Usage};
use crate::id::PageId;
use crate::node::{
    Found, LeafPayload, Page, RecordMeta, bytes_of, cell_bytes_max, key_bytes_max, words_for,
};
use crate::pool::FrameX;
use crate::store::VALUE_BYTES_MAX;
use crate::versions::Old;
use latchkv_latch::primitives::Ordering;
use std::cell::Cell;

/// What `compare_and_swap` found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Swap {
    Swapped,
    Mismatch(Option<Vec<u8>>),
}

/// What a change may find and still go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Only {
    Always,
    IfAbsent,
}

/// A value on its way into a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged<'v> {
    pub(super) payload: LeafPayload<'v>,
    /// The extent is not yet named by any leaf.
    pub(crate) unnamed: Option<PageId>,
}

/// A record that is about to be replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldRecord {
    at: usize,
    pub(super) meta: RecordMeta,
    extent: Option<(PageId, u64)>,
}

thread_local! {
    /// The payload of a record on its way to the journal.
    static KEPT: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

impl<'v> Staged<'v> {
    /// What a run has: a value, or an extent that only it names.
    pub(crate) fn of_run(payload: LeafPayload<'v>) -> Staged<'v> {
        let unnamed = match payload {
            LeafPayload::Extent { page, .. } => Some(page),
            LeafPayload::Inline(_) | LeafPayload::Tombstone => None,
        };
        Staged { payload, unnamed }
    }

    /// Bytes that it takes in the leaf, behind the key.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload.bytes()
    }
}

impl<'p> Btree<'p> {
    /// Refuses keys over the limit.
    #[inline]
    pub(crate) fn check_key(self, key: &[u8]) -> Result<()> {
        let maximum = key_bytes_max(self.pool.store().page_bytes() as usize);
        if key.len() > maximum {
            return Err(Usage::KeyTooLarge { actual: key.len(), maximum }.into());
        }
        Ok(())
    }

    /// Refuses values over the limit.
    pub(crate) fn check_value(self, value: &[u8]) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(
                Usage::ValueTooLarge { actual: value.len(), maximum: VALUE_BYTES_MAX }.into()
            );
        }
        Ok(())
    }

    /// The record is kept in its leaf; a greater one keeps its value in an extent. The 8 bytes are the cell's
    /// meta word.
    pub(crate) fn stays_inline(self, key: &[u8], value: &[u8]) -> bool {
        let page_bytes = self.pool.store().page_bytes() as usize;
        8 + key.len() + value.len() <= cell_bytes_max(page_bytes)
    }

    /// Puts a large value on disk first, so that nothing can fail once the leaf changes.
    pub(crate) fn stage<'v>(self, key: &[u8], value: &'v [u8]) -> Result<Staged<'v>> {
        self.check_key(key)?;
        self.check_value(value)?;
        if self.stays_inline(key, value) {
            return Ok(Staged { payload: LeafPayload::Inline(value), unnamed: None });
        }
        let page = self.pool.store().write_value(value)?;
        let payload = LeafPayload::Extent { page, len: value.len() as u64 };
        Ok(Staged { payload, unnamed: Some(page) })
    }

    /// Stages `value`, runs `change`, and drops the staged extent unless `change` says that a leaf names it
    /// now.
    fn with_staged(
        self,
        key: &[u8],
        value: &[u8],
        change: impl FnOnce(&Staged<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let incoming = self.stage(key, value)?;
        let changed = change(&incoming);
        if let (Some(page), false) = (incoming.unnamed, matches!(changed, Ok(true))) {
            self.pool.free_unloaded(page);
        }
        changed
    }

    /// Puts `value` under `key`, whatever was there.
    pub(crate) fn put<J: Journal>(self, key: &[u8], value: &[u8], journal: &mut J) -> Result<()> {
        self.with_staged(key, value, |incoming| self.store(key, incoming, Only::Always, journal))?;
        Ok(())
    }

    /// Puts `value` under `key` if there is none. False: there is one.
    pub(crate) fn insert<J: Journal>(
        self,
        key: &[u8],
        value: &[u8],
        journal: &mut J,
    ) -> Result<bool> {
        self.with_staged(key, value, |incoming| self.store(key, incoming, Only::IfAbsent, journal))
    }

    fn store<J: Journal>(
        self,
        key: &[u8],
        incoming: &Staged<'_>,
        only: Only,
        journal: &mut J,
    ) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to_change(&mut attempts, key)?.node;
            let found = self.page(leaf).find(key);
            let refused = only == Only::IfAbsent && self.is_live(leaf, found)?;
            if refused {
                if self.valid(leaf) {
                    return Ok(false);
                }
            } else if self.try_store(&mut attempts, leaf, found, key, incoming, journal)? {
                return Ok(true);
            }
            attempts.again()?;
        }
    }

    /// There is a record, and it is not deleted. Means something if `leaf` validates afterwards.
    fn is_live(self, leaf: NodeAt, found: Found) -> Result<bool> {
        if !found.exact {
            return Ok(false);
        }
        match self.page(leaf).record(found.at) {
            Some(record) => Ok(!record.meta.is_tombstone()),
            None => self.torn(leaf, "record lies outside the page").map(|()| false),
        }
    }

    /// Stores into the leaf at the version found. False: it moved on, or was split to make room.
    #[inline]
    fn try_store<J: Journal>(
        self,
        attempts: &mut Attempts<'p>,
        leaf: NodeAt,
        found: Found,
        key: &[u8],
        incoming: &Staged<'_>,
        journal: &mut J,
    ) -> Result<bool> {
        let Some(inside) = self.enter_for_change(attempts)? else { return Ok(false) };
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else { return Ok(false) };
        let page = x.page();
        let payload = incoming.payload;
        let replaced = found.exact.then_some(found.at);
        if !page.has_room_for_record(replaced, key, payload.bytes()) {
            let covered = page.covers(key);
            x.release_clean();
            drop(inside);
            if !covered {
                // Room would not help: the file says that this page holds keys that it does not.
                return Err(self.damage(page.page_id(), "page does not cover a key that led to it"));
            }
            // The whole key counts, so that a shrinking prefix does not matter.
            self.split_leaf(attempts, key, 2 + words_for(key.len() + payload.bytes()))?;
            return Ok(false);
        }
        let ready = self.ready(&x, replaced, journal);
        let (old, lsn) = match ready {
            Ok(Some(ready)) => ready,
            Ok(None) => {
                x.release_clean();
                drop(inside);
                return journal.wait().map(|()| false);
            }
            Err(error) => {
                x.release_clean();
                return Err(error);
            }
        };
        let released = self.keep(page, key, old, journal);
        let stored = match replaced {
            Some(at) => page.replace_record(at, key, lsn, payload),
            None => page.insert_record(found.at, key, lsn, payload),
        };
        if !stored {
            return Err(self.damage(page.page_id(), "page without the room it said it had"));
        }
        drop(x);
        if let Some(extent) = incoming.unnamed {
            self.pool.adopt(&[extent]);
        }
        self.let_go::<J>(released);
        let was = old.is_some_and(|old| !old.meta.is_tombstone());
        let is = !matches!(payload, LeafPayload::Tombstone);
        if was != is {
            self.core.lengths.add(if is { 1 } else { -1 });
        }
        journal.applied();
        Ok(true)
    }

    /// All that can fail before a change of a leaf: the record it replaces is decoded, the page touched, the
    /// lsn given. `None`: not now.
    #[inline]
    fn ready<J: Journal>(
        self,
        x: &FrameX<'_>,
        replaced: Option<usize>,
        journal: &mut J,
    ) -> Result<Option<(Option<OldRecord>, u64)>> {
        let old = match replaced {
            Some(at) => Some(self.old_record(x.page(), at)?),
            None => None,
        };
        self.touch(x)?;
        Ok(match journal.stamp()? {
            Stamp::At(lsn) => Some((old, lsn)),
            Stamp::Later => None,
        })
    }

    /// The record in slot `at`, of a page under X.
    pub(super) fn old_record(self, page: Page<'_>, at: usize) -> Result<OldRecord> {
        let record = page
            .record(at)
            .ok_or_else(|| self.damage(page.page_id(), "record lies outside the page"))?;
        let meta = record.meta;
        if !meta.is_extent() {
            return Ok(OldRecord { at, meta, extent: None });
        }
        let mut name = Vec::new();
        let start = page.copy_payload(record, &mut name);
        let extent = LeafPayload::extent_of(&bytes_of(&name)[start..])
            .ok_or_else(|| self.damage(page.page_id(), "name of a large value"))?;
        Ok(OldRecord { at, meta, extent: Some(extent) })
    }

    /// The extent that the record in slot `at` names, if it is one. The page is X.
    pub(super) fn extent_at(self, page: Page<'_>, at: usize) -> Result<Option<PageId>> {
        Ok(self.old_record(page, at)?.extent.map(|(extent, _)| extent))
    }

    /// Hands the record that is about to go to the journal; gives its extent.
    #[inline]
    pub(super) fn keep<J: Journal>(
        self,
        page: Page<'_>,
        key: &[u8],
        old: Option<OldRecord>,
        journal: &mut J,
    ) -> Option<PageId> {
        let old = old?;
        if J::VERSIONED {
            // Records that a fill brought carry no lsn of their own. Relaxed: see the field.
            let since = old.meta.lsn().max(self.core.filled_at.load(Ordering::Relaxed));
            match old.extent {
                Some((page, len)) => journal.keep(key, since, Old::Extent { page, len }),
                None if old.meta.is_tombstone() => journal.keep(key, since, Old::Tombstone),
                None => {
                    let mut scratch = KEPT.take();
                    if let Some(record) = page.record(old.at) {
                        let start = page.copy_payload(record, &mut scratch);
                        let end = start + record.meta.payload_len();
                        journal.keep(key, since, Old::Inline(&bytes_of(&scratch)[start..end]));
                    }
                    KEPT.set(scratch);
                }
            }
        }
        old.extent.map(|(extent, _)| extent)
    }

    /// An extent that no leaf names any more: nobody's, or in the charge of the journal.
    pub(super) fn let_go<J: Journal>(self, extent: Option<PageId>) {
        match extent {
            Some(extent) if J::VERSIONED => self.pool.store().condemn(extent),
            Some(extent) => self.pool.free_unloaded(extent),
            None => {}
        }
    }

    /// Removes `key`. False: there was none.
    pub(crate) fn delete<J: Journal>(self, key: &[u8], journal: &mut J) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let reached = self.descend_to_change(&mut attempts, key)?;
            let found = self.page(reached.node).find(key);
            if !self.is_live(reached.node, found)? {
                if self.valid(reached.node) {
                    return Ok(false);
                }
            } else if self.try_delete(&mut attempts, reached, found, key, journal)? {
                return Ok(true);
            }
            attempts.again()?;
        }
    }

    /// Removes the live record found, at the version found. False: the leaf moved on.
    fn try_delete<J: Journal>(
        self,
        attempts: &mut Attempts<'p>,
        reached: Reached,
        found: Found,
        key: &[u8],
        journal: &mut J,
    ) -> Result<bool> {
        let Some(inside) = self.enter_for_change(attempts)? else { return Ok(false) };
        let leaf = reached.node;
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else { return Ok(false) };
        let (old, lsn) = match self.ready(&x, Some(found.at), journal) {
            Ok(Some(ready)) => ready,
            Ok(None) => {
                x.release_clean();
                drop(inside);
                return journal.wait().map(|()| false);
            }
            Err(error) => {
                x.release_clean();
                return Err(error);
            }
        };
        let page = x.page();
        let released = self.keep(page, key, old, journal);
        let gone = if J::VERSIONED {
            page.replace_record(found.at, key, lsn, LeafPayload::Tombstone)
        } else {
            page.remove(found.at);
            true
        };
        if !gone {
            return Err(self.damage(page.page_id(), "page without room for less"));
        }
        let sparse =
            !J::VERSIONED && reached.parent.is_some() && page.fill_percent() < SPARSE_PERCENT;
        drop(x);
        self.let_go::<J>(released);
        self.core.lengths.add(-1);
        journal.applied();
        drop(inside);
        if sparse {
            // The key is gone whether or not a merge comes off: a disk too full for one is no failure.
            let _ = self.merge_at(attempts, key, 0);
        }
        Ok(true)
    }

    /// Puts `new` in place of `expected`; `None` means absent. Atomic.
    pub(crate) fn compare_and_swap<J: Journal>(
        self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        journal: &mut J,
    ) -> Result<Swap> {
        let mut mismatch = None;
        let mut change = |incoming: Option<&Staged<'_>>| -> Result<bool> {
            let mut attempts = self.attempts();
            loop {
                let reached = self.descend_to_change(&mut attempts, key)?;
                // Read at the version at which the leaf will be upgraded, so that nothing comes between.
                if let Some((found, current)) = self.value_at(reached.node, key)? {
                    if current.as_deref() != expected {
                        mismatch = Some(current);
                        return Ok(false);
                    }
                    let leaf = reached.node;
                    let done = match incoming {
                        Some(new) => {
                            self.try_store(&mut attempts, leaf, found, key, new, journal)?
                        }
                        None if current.is_some() => {
                            self.try_delete(&mut attempts, reached, found, key, journal)?
                        }
                        None => true,
                    };
                    if done {
                        return Ok(true);
                    }
                }
                attempts.again()?;
            }
        };
        let swapped = match new {
            Some(value) => self.with_staged(key, value, |incoming| change(Some(incoming)))?,
            None => change(None)?,
        };
        Ok(if swapped { Swap::Swapped } else { Swap::Mismatch(mismatch.flatten()) })
    }
}
