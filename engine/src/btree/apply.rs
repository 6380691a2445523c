//! Applying the changes of a commit, ascending: a leaf is come down to once for all of its keys.
//!
//! The log has the commit already, so a change is made whatever it meets ([J1] of `journal`); only damage and a page
//! that cannot be read stop it.

use super::ahead::leading;
use super::journal::{Journal, Stamp};
use super::prepare::Place;
use super::smo::SPARSE_PERCENT;
use super::{Btree, Staged, View};
use crate::error::Result;
use crate::id::PageId;
use crate::node::{LeafPayload, Page, words_for};
use std::ops::Bound;

/// A change of a key: a value, or that it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applying<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// `None`: it goes.
    pub(crate) value: Option<Staged<'a>>,
    /// Where the key led to, if that was looked up before.
    pub(crate) place: Option<Place>,
}

impl Applying<'_> {
    /// Bytes that it takes in the leaf, behind the key.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.value.map_or(0, |value| value.payload_bytes())
    }
}

/// What changed in one leaf.
#[derive(Default)]
struct Changed {
    count: usize,
    length: i64,
    adopted: Vec<PageId>,
    released: Vec<PageId>,
    /// Records were taken out.
    removed: bool,
}

impl<'p> Btree<'p> {
    /// Makes the first changes of `changes`, which ascend by their keys, as far as the leaf of the first reaches;
    /// gives how many, at least one. `journal` gives the same lsn for all and never says "later".
    pub(crate) fn apply<J: Journal>(
        self,
        changes: &[Applying<'_>],
        journal: &mut impl FnMut(usize) -> J,
    ) -> Result<usize> {
        let Some(first) = changes.first() else { return Ok(0) };
        let mut attempts = self.attempts();
        let mut place = first.place;
        loop {
            let leaf = match place.take() {
                Some(place) => self.leaf_at(&mut attempts, place),
                None => self.descend_to_change(&mut attempts, first.key)?.node,
            };
            let Some((inside, x)) = self.latch_for_change(&attempts, leaf)? else {
                attempts.again()?;
                continue;
            };
            let mut changed = Changed::default();
            let made = self.change_leaf(x.page(), changes, journal, &mut changed);
            let sparse = changed.removed && x.page().fill_percent() < SPARSE_PERCENT;
            drop(x);
            self.pool.adopt(&changed.adopted);
            for extent in changed.released {
                self.let_go::<J>(Some(extent));
            }
            if changed.length != 0 {
                self.core.lengths.add(changed.length);
            }
            drop(inside);
            made?;
            if changed.count > 0 {
                if sparse {
                    // The keys are gone whether or not a merge comes off.
                    let _ = self.merge_at(&mut attempts, first.key, 0);
                }
                return Ok(changed.count);
            }
            let bytes = first.key.len() + first.payload_bytes();
            self.split_leaf(&mut attempts, first.key, 2 + words_for(bytes))?;
            attempts.again()?;
        }
    }

    /// Changes a leaf under X until its fence, its end of room, or the end of the changes.
    fn change_leaf<J: Journal>(
        self,
        page: Page<'_>,
        changes: &[Applying<'_>],
        journal: &mut impl FnMut(usize) -> J,
        changed: &mut Changed,
    ) -> Result<()> {
        let covered = leading(changes, |change| page.covers(change.key));
        if covered == 0 {
            return Err(self.damage(page.page_id(), "page does not cover a key that led to it"));
        }
        for (index, change) in changes[..covered].iter().enumerate() {
            let key = change.key;
            let found = page.find(key);
            let replaced = found.exact.then_some(found.at);
            let old = match replaced {
                Some(at) => Some(self.old_record(page, at)?),
                None => None,
            };
            let was_live = old.is_some_and(|old| !old.meta.is_tombstone());
            let payload = match change.value {
                Some(value) => value.payload,
                None if !was_live => {
                    changed.count += 1;
                    continue;
                }
                None => LeafPayload::Tombstone,
            };
            let removed = replaced.filter(|_| !J::VERSIONED && change.value.is_none());
            if removed.is_none() && !page.has_room_for_record(replaced, key, payload.bytes()) {
                return Ok(());
            }
            let mut journal = journal(index);
            let Stamp::At(lsn) = journal.stamp()? else { return Ok(()) };
            changed.released.extend(self.keep(page, key, old, &mut journal));
            let stored = match (removed, replaced) {
                (Some(at), _) => {
                    page.remove(at);
                    changed.removed = true;
                    true
                }
                (None, Some(at)) => page.replace_record(at, key, lsn, payload),
                (None, None) => page.insert_record(found.at, key, lsn, payload),
            };
            if !stored {
                return Err(self.damage(page.page_id(), "page without the room it said it had"));
            }
            changed.adopted.extend(change.value.and_then(|value| value.unnamed));
            changed.length += i64::from(change.value.is_some()) - i64::from(was_live);
            changed.count += 1;
            journal.applied();
        }
        Ok(())
    }

    /// Whether no record of the leaf that covers `key` is of lsn `since` or later; if so, the upper fence of the
    /// leaf, up to which that holds. Brings the leaf in.
    pub(crate) fn unchanged_up_to(self, key: &[u8], since: u64) -> Result<Option<Bound<Vec<u8>>>> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to(&mut attempts, key)?.node;
            let page = self.page(leaf);
            let unchanged = page.max_lsn() < since;
            let upper = if unchanged { page.upper() } else { None };
            if self.valid(leaf) {
                return Ok(match upper {
                    Some(Some(fence)) => Some(Bound::Excluded(fence)),
                    Some(None) => Some(Bound::Unbounded),
                    None => None,
                });
            }
            attempts.again()?;
        }
    }

    /// Looks, for keys that come in ascending order, whether a record of lsn `since` or later is there.
    pub(crate) fn conflicts(self, since: u64) -> Conflicts<'p> {
        Conflicts { tree: self, since, up_to: None }
    }
}

/// See [`Btree::conflicts`].
pub(crate) struct Conflicts<'p> {
    tree: Btree<'p>,
    since: u64,
    /// No record below it, from the last key on, is of `since` or later.
    up_to: Option<Bound<Vec<u8>>>,
}

impl<'p> Conflicts<'p> {
    /// The tree in which it looks.
    pub(crate) fn tree(&self) -> Btree<'p> {
        self.tree
    }

    /// Whether the record of `key`, a tombstone included, is of lsn `since` or later.
    pub(crate) fn at(&mut self, key: &[u8]) -> Result<bool> {
        match &self.up_to {
            Some(Bound::Unbounded) => return Ok(false),
            Some(Bound::Excluded(fence)) if key < &fence[..] => return Ok(false),
            _ => {}
        }
        self.up_to = self.tree.unchanged_up_to(key, self.since)?;
        if self.up_to.is_some() {
            return Ok(false);
        }
        let lsn = self.tree.lsn_of(key, View::Latest)?;
        Ok(lsn.is_some_and(|lsn| lsn >= self.since))
    }
}
