//! What a transaction has written: sorted by tree and key, its own until it commits.
//!
//! Keys and values lie in a bump arena that goes as a whole. A value that is written over stays there until then.
//! Past a budget all of it moves to a *run* (`btree/run.rs`), and the memory begins anew; what is in memory lies
//! over what is in runs. While a savepoint is set nothing that it could bring back leaves the memory, so what is
//! written since then counts beyond the budget.
//!
//! ```text
//! trees   [ target, key -> entry, runs ]   in the order in which they were first written to
//! undo    [ tree, key, entry before ]      only while a savepoint is set
//! ```
//!
//! * [B1] A [`Held`] never leaves the write set whose arena its bytes lie in, and the arena is never reset while
//!   there are entries: both go together, and the entries first.
//! * [B2] Bytes in the arena do not move and, once held, do not change.
//!
//! Tested by `engine/tests/transactions`: `large` against a `BTreeMap`, `writes` for savepoints.

use super::{Change, Target, Write};
use crate::btree::{Run, Said, TreeCore};
use crate::error::Result;
use crate::id::{PageId, TreeId};
use crate::pool::Pool;
use latchkv_alloc::Bump;
use latchkv_latch::primitives::{AtomicU64, Ordering::Relaxed};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::collections::btree_map::{self, BTreeMap};
use std::ops::Bound;
use std::ptr::NonNull;
use std::sync::Arc;

/// Number of the next write set with savepoints.
static OWNERS: AtomicU64 = AtomicU64::new(1);

/// First block of the arena, in bytes.
const BLOCK_BYTES_FIRST: usize = 4 << 10;
/// What an entry costs beside its bytes: its place in the map.
const ENTRY_BYTES: usize = 64;

/// Bytes in the arena of the write set that holds this.
#[derive(Clone, Copy)]
struct Held(NonNull<[u8]>);

// SAFETY: [B1], [B2]: plain bytes that nobody changes, owned by the write set with which this moves.
unsafe impl Send for Held {}
// SAFETY: as above; shared reading of bytes that nobody changes.
unsafe impl Sync for Held {}

impl Held {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: [B1], [B2].
        unsafe { self.0.as_ref() }
    }
}

/// A key with its first bytes beside it, by which most comparisons are decided without a look at the arena.
#[derive(Clone, Copy)]
struct Key {
    /// The first eight bytes, big-endian, zeros behind a shorter key.
    head: u64,
    bytes: Held,
}

impl Key {
    /// A key to look up by: not to be kept, as its bytes are the caller's.
    #[inline]
    fn lent(bytes: &[u8]) -> Key {
        Key::of(Held(NonNull::from(bytes)))
    }

    #[inline]
    fn of(held: Held) -> Key {
        let bytes = held.bytes();
        let mut head = [0; 8];
        let len = bytes.len().min(8);
        head[..len].copy_from_slice(&bytes[..len]);
        Key { head: u64::from_be_bytes(head), bytes: held }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        self.head == other.head && self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        // Zeros behind a shorter key sort it no higher than a longer one with the same head.
        self.head.cmp(&other.head).then_with(|| self.bytes().cmp(other.bytes()))
    }
}

/// What is to become of a key.
#[derive(Clone, Copy)]
enum Slot {
    Put(Held),
    Delete,
    Guard,
    /// What runs say of the key is taken back. With a guard, nobody else may have changed it.
    Unsaid {
        guard: bool,
    },
}

impl Slot {
    /// What it says should become of the key; `None`: nothing, and what runs say does not count.
    fn change(&self) -> Option<Change<'_>> {
        match self {
            Slot::Put(value) => Some(Change::Put(value.bytes())),
            Slot::Delete => Some(Change::Delete),
            Slot::Guard => Some(Change::Guard),
            Slot::Unsaid { .. } => None,
        }
    }

    fn is_guard(&self) -> bool {
        matches!(self, Slot::Guard | Slot::Unsaid { guard: true })
    }

    /// What a run has to say; `None`: nothing.
    fn said(&self) -> Option<Said<&[u8]>> {
        match self {
            Slot::Put(value) => Some(Said::Put(value.bytes())),
            Slot::Delete => Some(Said::Deleted),
            Slot::Guard => None,
            Slot::Unsaid { .. } => Some(Said::Unsaid),
        }
    }
}

struct TreeWrites {
    target: Target,
    slots: BTreeMap<Key, Slot>,
    /// What did not fit the memory, the earliest first.
    runs: Vec<Run>,
}

/// A tree that was written to, with what did not fit the memory.
pub(super) struct Spilled<'a> {
    pub(super) target: &'a Target,
    pub(super) runs: &'a [Run],
}

/// What a transaction says of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Own<'a> {
    /// It has this value.
    Put(Cow<'a, [u8]>),
    /// It is deleted.
    Deleted,
}

struct Undo {
    tree: usize,
    key: Key,
    /// What was said before, by the memory or by runs.
    before: Option<Slot>,
}

/// A place in a transaction to which it can go back. Good for the transaction that gave it, until that goes back
/// to an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "nothing goes back to it by itself"]
pub struct Savepoint {
    number: u64,
    owner: u64,
}

/// See the module head.
pub(crate) struct WriteSet {
    // Dropped before the arena, [B1].
    trees: Vec<TreeWrites>,
    undo: Vec<Undo>,
    /// Savepoints by number, with the length of `undo` when they were set.
    savepoints: Vec<(u64, usize)>,
    savepoints_ever: u64,
    /// Tells its savepoints from those of others; 0 until the first is set.
    owner: u64,
    entry_bytes: usize,
    /// What the last spill left in memory: what savepoints may need, and guards.
    kept_bytes: usize,
    arena: Bump,
}

/// The writes of a transaction to one tree within bounds, both ways.
pub(crate) struct WritesIn<'a>(Option<btree_map::Range<'a, Key, Slot>>);

impl WritesIn<'_> {
    /// No writes.
    pub(crate) fn none() -> Self {
        WritesIn(None)
    }
}

impl<'a> Iterator for WritesIn<'a> {
    /// Key and change; no change = what runs say does not count.
    type Item = (&'a [u8], Option<Change<'a>>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.next().map(|(key, slot)| (key.bytes(), slot.change()))
    }
}

impl DoubleEndedIterator for WritesIn<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.next_back().map(|(key, slot)| (key.bytes(), slot.change()))
    }
}

impl WriteSet {
    /// Nothing written.
    pub(crate) fn new() -> WriteSet {
        WriteSet {
            trees: Vec::new(),
            undo: Vec::new(),
            savepoints: Vec::new(),
            savepoints_ever: 0,
            owner: 0,
            entry_bytes: 0,
            kept_bytes: 0,
            arena: Bump::new(BLOCK_BYTES_FIRST),
        }
    }

    /// Nothing is written or guarded.
    pub(crate) fn is_empty(&self) -> bool {
        self.trees.iter().all(|tree| tree.slots.is_empty() && tree.runs.is_empty())
    }

    /// Bytes of memory, near enough.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.held_bytes() + self.entry_bytes
    }

    /// Bytes that [`spill`](Self::spill) may free: all but those that it had to leave the last time.
    pub(crate) fn spillable_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.kept_bytes)
    }

    fn hold(&self, bytes: &[u8]) -> Held {
        let copy: &[u8] = self.arena.alloc_slice_copy(bytes);
        Held(NonNull::from(copy))
    }

    fn tree(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.trees.iter().find(|writes| writes.target.core.id == tree)
    }

    /// What the transaction says of `key`; `None`: nothing, or that nobody else may change it.
    pub(crate) fn get(&self, pool: &Pool, tree: TreeId, key: &[u8]) -> Result<Option<Own<'_>>> {
        let Some(writes) = self.tree(tree) else { return Ok(None) };
        match writes.slots.get(&Key::lent(key)) {
            Some(Slot::Put(value)) => return Ok(Some(Own::Put(Cow::Borrowed(value.bytes())))),
            Some(Slot::Delete) => return Ok(Some(Own::Deleted)),
            Some(Slot::Unsaid { .. }) => return Ok(None),
            Some(Slot::Guard) | None => {}
        }
        for run in writes.runs.iter().rev() {
            match run.get(pool, key)? {
                Some(Said::Put(value)) => return Ok(Some(Own::Put(Cow::Owned(value)))),
                Some(Said::Deleted) => return Ok(Some(Own::Deleted)),
                Some(Said::Unsaid) => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    /// The runs over which the writes in memory to a tree lie, the latest first.
    pub(crate) fn runs(&self, tree: TreeId) -> impl Iterator<Item = &Arc<TreeCore>> {
        self.tree(tree).into_iter().flat_map(|tree| tree.runs.iter().rev().map(|run| &run.core))
    }

    /// Some of it is in runs.
    pub(crate) fn is_spilled(&self) -> bool {
        self.trees.iter().any(|tree| !tree.runs.is_empty())
    }

    /// The writes in memory to a tree between two bounds, which are in order.
    pub(crate) fn range(
        &self,
        tree: TreeId,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> WritesIn<'_> {
        let writes = self.tree(tree);
        let (lower, upper) = (lower.map(Key::lent), upper.map(Key::lent));
        WritesIn(writes.map(|writes| writes.slots.range((lower, upper))))
    }

    /// Says what is to become of `key`. A guard leaves what was said before.
    ///
    /// # Errors
    /// Those of asking runs. Nothing was said then.
    pub(crate) fn set(
        &mut self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<()> {
        let id = target.core.id;
        let tree = self.trees.iter().position(|writes| writes.target.core.id == id);
        let tree = tree.unwrap_or_else(|| {
            let (target, slots) = (target.clone(), BTreeMap::new());
            self.trees.push(TreeWrites { target, slots, runs: Vec::new() });
            self.trees.len() - 1
        });
        if !self.savepoints.is_empty() || matches!(change, Change::Guard) {
            return self.set_slowly(pool, tree, key, change);
        }
        let slot = match change {
            Change::Put(value) => Slot::Put(self.hold(value)),
            Change::Delete | Change::Guard => Slot::Delete,
        };
        if let Some(known) = self.trees[tree].slots.get_mut(&Key::lent(key)) {
            *known = slot;
            return Ok(());
        }
        let held = Key::of(self.hold(key));
        self.trees[tree].slots.insert(held, slot);
        self.entry_bytes += ENTRY_BYTES;
        Ok(())
    }

    /// [`set`](Self::set), where what was said before matters.
    fn set_slowly(
        &mut self,
        pool: &Pool,
        tree: usize,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<()> {
        let id = self.trees[tree].target.core.id;
        let known = self.trees[tree].slots.get_key_value(&Key::lent(key));
        let known = known.map(|(key, slot)| (*key, *slot));
        let is_unsaid = matches!(known, Some((_, Slot::Unsaid { .. })));
        if matches!(change, Change::Guard) && !is_unsaid {
            // Whoever writes a key guards it.
            if known.is_some() || self.get(pool, id, key)?.is_some() {
                return Ok(());
            }
        }
        let before = match known {
            Some((_, before)) => Some(before),
            None if self.savepoints.is_empty() => None,
            // A later run may be over what says it now.
            None => match self.get(pool, id, key)? {
                None => None,
                Some(Own::Deleted) => Some(Slot::Delete),
                Some(Own::Put(value)) => Some(Slot::Put(self.hold(&value))),
            },
        };
        let slot = match change {
            Change::Put(value) => Slot::Put(self.hold(value)),
            Change::Delete => Slot::Delete,
            Change::Guard if is_unsaid => Slot::Unsaid { guard: true },
            Change::Guard => Slot::Guard,
        };
        let held = known.map_or_else(|| Key::of(self.hold(key)), |(held, _)| held);
        self.trees[tree].slots.insert(held, slot);
        if known.is_none() {
            self.entry_bytes += ENTRY_BYTES;
        }
        if !self.savepoints.is_empty() {
            self.undo.push(Undo { tree, key: held, before });
            self.entry_bytes += size_of::<Undo>();
        }
        Ok(())
    }

    /// Moves everything but guards to runs.
    ///
    /// # Errors
    /// Those of building one. What was not moved is in memory still.
    pub(crate) fn spill(&mut self, pool: &Pool) -> Result<()> {
        for writes in &mut self.trees {
            let said = || {
                let slots = writes.slots.iter();
                slots.filter_map(|(key, slot)| Some((key.bytes(), slot.said()?)))
            };
            if said().next().is_some() {
                let run = Run::build(pool, writes.target.core.id, said())?;
                writes.runs.push(run);
                writes.slots.retain(|_, slot| {
                    let guards = slot.is_guard();
                    *slot = Slot::Guard;
                    guards
                });
            }
        }
        if self.undo.is_empty() {
            let guards: Vec<(usize, Vec<u8>)> = self
                .trees
                .iter_mut()
                .enumerate()
                .flat_map(|(tree, writes)| {
                    let slots = std::mem::take(&mut writes.slots);
                    slots.into_keys().map(move |key| (tree, key.bytes().to_vec()))
                })
                .collect();
            // [B1]: the entries are gone.
            self.arena = Bump::new(BLOCK_BYTES_FIRST);
            for (tree, key) in guards {
                let key = Key::of(self.hold(&key));
                self.trees[tree].slots.insert(key, Slot::Guard);
            }
        }
        let entries: usize = self.trees.iter().map(|tree| tree.slots.len()).sum();
        self.entry_bytes = self.undo.len() * size_of::<Undo>() + entries * ENTRY_BYTES;
        self.kept_bytes = self.bytes();
        Ok(())
    }

    /// Gives the runs back, with their large values but for those that leaves name now.
    pub(crate) fn discard(&mut self, pool: &Pool, used: &[PageId]) {
        let used: HashSet<PageId> = used.iter().copied().collect();
        for run in self.trees.iter_mut().flat_map(|writes| writes.runs.drain(..)) {
            run.free(pool, &used);
        }
    }

    /// The trees with what was spilled of them, ascending by tree.
    pub(super) fn spilled(&self) -> Vec<Spilled<'_>> {
        let trees = self.trees.iter().filter(|tree| !tree.runs.is_empty());
        let mut trees: Vec<Spilled<'_>> =
            trees.map(|tree| Spilled { target: &tree.target, runs: &tree.runs }).collect();
        trees.sort_by_key(|tree| tree.target.core.id);
        trees
    }

    /// A place to go back to.
    pub(crate) fn savepoint(&mut self) -> Savepoint {
        if self.owner == 0 {
            // Relaxed: the numbers only have to differ.
            self.owner = OWNERS.fetch_add(1, Relaxed);
        }
        self.savepoints_ever += 1;
        self.savepoints.push((self.savepoints_ever, self.undo.len()));
        Savepoint { number: self.savepoints_ever, owner: self.owner }
    }

    /// Takes back what was written since the savepoint, which stays set; later ones are gone. False: it is not of
    /// this transaction, or gone.
    pub(crate) fn rollback_to(&mut self, savepoint: Savepoint) -> bool {
        let place = self.savepoints.iter().position(|(number, _)| *number == savepoint.number);
        let (Some(place), true) = (place, savepoint.owner == self.owner) else { return false };
        let (_, undo_len) = self.savepoints[place];
        self.savepoints.truncate(place + 1);
        for undo in self.undo.drain(undo_len..).rev() {
            let writes = &mut self.trees[undo.tree];
            match undo.before {
                // What is taken back may be in a run by now.
                Some(Slot::Guard) if !writes.runs.is_empty() => {
                    writes.slots.insert(undo.key, Slot::Unsaid { guard: true });
                }
                Some(before) => {
                    writes.slots.insert(undo.key, before);
                }
                None if writes.runs.is_empty() => {
                    writes.slots.remove(&undo.key);
                }
                None => {
                    writes.slots.insert(undo.key, Slot::Unsaid { guard: false });
                }
            }
        }
        true
    }

    /// All writes in memory, ascending by tree and key.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let mut trees: Vec<&TreeWrites> = self.trees.iter().collect();
        trees.sort_by_key(|tree| tree.target.core.id);
        let writes = trees.into_iter().flat_map(|tree| {
            let target = &tree.target;
            tree.slots.iter().filter_map(move |(key, slot)| {
                let change = match slot {
                    Slot::Unsaid { guard: true } => Change::Guard,
                    slot => slot.change()?,
                };
                Some(Write { target, key: key.bytes(), change })
            })
        });
        writes.collect()
    }
}

impl std::fmt::Debug for WriteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries: usize = self.trees.iter().map(|tree| tree.slots.len()).sum();
        f.debug_struct("WriteSet").field("entries", &entries).finish_non_exhaustive()
    }
}
