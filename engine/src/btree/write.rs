//! Changes of one key.
//!
//! Come down, decide at the version found, enter the gate, upgrade the leaf at that version, change it. Two
//! read-modify-writes in all: the upgrade and its release. What does not fit asks `smo` for room and starts
//! again.

use super::attempts::Attempts;
use super::smo::SPARSE_PERCENT;
use super::{Btree, NodeAt, Reached};
use crate::error::{Result, Usage};
use crate::id::PageId;
use crate::node::{Found, LeafPayload, bytes_of, cell_bytes_max, key_bytes_max, words_for};
use crate::pool::FrameX;
use crate::store::VALUE_BYTES_MAX;

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
struct Incoming<'v> {
    payload: LeafPayload<'v>,
    /// The extent is not yet named by any leaf.
    unnamed: Option<PageId>,
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
    pub(super) fn check_value(value: &[u8]) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(
                Usage::ValueTooLarge { actual: value.len(), maximum: VALUE_BYTES_MAX }.into()
            );
        }
        Ok(())
    }

    /// The record is kept in its leaf; a greater one keeps its value in an extent. The 8 bytes are the cell's
    /// meta word.
    pub(super) fn stays_inline(self, key: &[u8], value: &[u8]) -> bool {
        let page_bytes = self.pool.store().page_bytes() as usize;
        8 + key.len() + value.len() <= cell_bytes_max(page_bytes)
    }

    /// Puts a large value on disk first, so that nothing can fail once the leaf changes.
    fn stage<'v>(self, key: &[u8], value: &'v [u8]) -> Result<Incoming<'v>> {
        self.check_key(key)?;
        Self::check_value(value)?;
        if self.stays_inline(key, value) {
            return Ok(Incoming { payload: LeafPayload::Inline(value), unnamed: None });
        }
        let page = self.pool.store().write_value(value)?;
        let payload = LeafPayload::Extent { page, len: value.len() as u64 };
        Ok(Incoming { payload, unnamed: Some(page) })
    }

    /// Stages `value`, runs `change`, and drops the staged extent unless `change` says that a leaf names it
    /// now.
    fn with_staged(
        self,
        key: &[u8],
        value: &[u8],
        change: impl FnOnce(&Incoming<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let incoming = self.stage(key, value)?;
        let changed = change(&incoming);
        if let (Some(page), false) = (incoming.unnamed, matches!(changed, Ok(true))) {
            self.pool.free_unloaded(page);
        }
        changed
    }

    /// Puts `value` under `key`, whatever was there.
    pub(crate) fn put(self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with_staged(key, value, |incoming| self.store(key, incoming, Only::Always))?;
        Ok(())
    }

    /// Puts `value` under `key` if there is none. False: there is one.
    pub(crate) fn insert(self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.with_staged(key, value, |incoming| self.store(key, incoming, Only::IfAbsent))
    }

    fn store(self, key: &[u8], incoming: &Incoming<'_>, only: Only) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to_change(&mut attempts, key)?.node;
            let found = self.page(leaf).find(key);
            if found.exact && only == Only::IfAbsent {
                if self.valid(leaf) {
                    return Ok(false);
                }
            } else if self.try_store(&mut attempts, leaf, found, key, incoming)? {
                return Ok(true);
            }
            attempts.again()?;
        }
    }

    /// Stores into the leaf at the version found. False: it moved on, or was split to make room.
    #[inline]
    fn try_store(
        self,
        attempts: &mut Attempts<'p>,
        leaf: NodeAt,
        found: Found,
        key: &[u8],
        incoming: &Incoming<'_>,
    ) -> Result<bool> {
        let Some(inside) = self.enter_for_change(attempts)? else { return Ok(false) };
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else { return Ok(false) };
        let page = x.page();
        let replaced = if found.exact { self.extent_at(&x, found.at)? } else { None };
        if let Err(error) = self.pool.touch(&x) {
            x.release_clean();
            return Err(error);
        }
        let stored = if found.exact {
            page.replace_record(found.at, key, 0, incoming.payload)
        } else {
            page.insert_record(found.at, key, 0, incoming.payload)
        };
        if !stored {
            let covered = page.covers(key);
            x.release_clean();
            drop(inside);
            if !covered {
                // Room would not help: the file says that this page holds keys that it does not.
                return Err(self.damage(page.page_id(), "page does not cover a key that led to it"));
            }
            let payload_len = match incoming.payload {
                LeafPayload::Inline(value) => value.len(),
                LeafPayload::Extent { .. } => LeafPayload::EXTENT_BYTES,
            };
            // The whole key counts, so that a shrinking prefix does not matter.
            self.split_leaf(attempts, key, 2 + words_for(key.len() + payload_len))?;
            return Ok(false);
        }
        drop(x);
        if let Some(extent) = incoming.unnamed {
            self.pool.adopt(&[extent]);
        }
        if let Some(extent) = replaced {
            self.pool.free_unloaded(extent);
        }
        if !found.exact {
            self.core.lengths.add(1);
        }
        Ok(true)
    }

    /// The extent that the record in slot `at` names, if it is one. The page is X.
    pub(super) fn extent_at(self, x: &FrameX<'_>, at: usize) -> Result<Option<PageId>> {
        let page = x.page();
        let record = page
            .record(at)
            .ok_or_else(|| self.damage(page.page_id(), "record lies outside the page"))?;
        if !record.meta.is_extent() {
            return Ok(None);
        }
        let mut name = Vec::new();
        let start = page.copy_payload(record, &mut name);
        LeafPayload::extent_of(&bytes_of(&name)[start..])
            .map(|(extent, _)| Some(extent))
            .ok_or_else(|| self.damage(page.page_id(), "name of a large value"))
    }

    /// Removes `key`. False: there was none.
    pub(crate) fn delete(self, key: &[u8]) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let reached = self.descend_to_change(&mut attempts, key)?;
            let found = self.page(reached.node).find(key);
            if !found.exact {
                if self.valid(reached.node) {
                    return Ok(false);
                }
            } else if self.try_delete(&mut attempts, reached, found, key)? {
                return Ok(true);
            }
            attempts.again()?;
        }
    }

    fn try_delete(
        self,
        attempts: &mut Attempts<'p>,
        reached: Reached,
        found: Found,
        key: &[u8],
    ) -> Result<bool> {
        let Some(inside) = self.enter_for_change(attempts)? else { return Ok(false) };
        let leaf = reached.node;
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else { return Ok(false) };
        let extent = self.extent_at(&x, found.at)?;
        if let Err(error) = self.pool.touch(&x) {
            x.release_clean();
            return Err(error);
        }
        x.page().remove(found.at);
        let sparse = reached.parent.is_some() && x.page().fill_percent() < SPARSE_PERCENT;
        drop(x);
        if let Some(extent) = extent {
            self.pool.free_unloaded(extent);
        }
        self.core.lengths.add(-1);
        drop(inside);
        if sparse {
            // The key is gone whether or not a merge comes off: a disk too full for one is no failure.
            let _ = self.merge_at(attempts, key, 0);
        }
        Ok(true)
    }

    /// Puts `new` in place of `expected`; `None` means absent. Atomic.
    pub(crate) fn compare_and_swap(
        self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let mut mismatch = None;
        let mut change = |incoming: Option<&Incoming<'_>>| -> Result<bool> {
            let mut attempts = self.attempts();
            loop {
                let reached = self.descend_to_change(&mut attempts, key)?;
                // Read at the version at which the leaf will be upgraded, so that nothing comes between.
                if let Some((found, current)) = self.value_at(reached.node, key)? {
                    if current.as_deref() != expected {
                        mismatch = Some(current);
                        return Ok(false);
                    }
                    let done = match incoming {
                        Some(incoming) => {
                            self.try_store(&mut attempts, reached.node, found, key, incoming)?
                        }
                        None if found.exact => {
                            self.try_delete(&mut attempts, reached, found, key)?
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
