//! What a transaction has written: sorted by tree and key, its own until it commits.
//!
//! Keys and values lie in a bump arena that goes as a whole. A value that is written over stays there until then.
//! Past a budget all of it moves to a *run* (`btree/run.rs`), and the memory begins anew; what is in memory lies
//! over what is in runs. If savepoints are set, it moves to several: what was said before the first, what was said from
//! there to the next, and so on. Going back to a savepoint drops the runs that came after it.
//!
//! ```text
//! trees   [ target, key -> entry, runs ]   in the order in which they were first written to
//! undo    [ tree, key, entry before ]      only while a savepoint is set
//!
//! undo        ..........|.......|..        savepoints: places in it, with the number of runs of each tree
//! spilled   run 0    run 1    run 2        each has what its keys were at its end
//! ```
//!
//! Guards stay in memory: a run has no word for them. So do changes since more than [`PLACES_MAX`] savepoints, which
//! would be as many runs.
//!
//! * [B1] A [`Held`] never leaves the write set whose arena its bytes lie in, and the arena is never reset while
//!   there are entries: both go together, and the entries first.
//! * [B2] Bytes in the arena do not move and, once held, do not change.
//! * [B3] The state at a savepoint is: its first `runs` runs of each tree, and over them the memory with all of `undo`
//!   from its place on taken back.
//!
//! Tested by `engine/tests/transactions`: `large` against a `BTreeMap`, `writes` and `savepoints` for savepoints.

mod held;
mod spill;

use super::{Change, Target, Write};
use crate::btree::{Run, Said, TreeCore};
use crate::error::Result;
use crate::id::{PageId, TreeId};
use crate::pool::Pool;
use held::{Held, Key};
use latchkv_alloc::Bump;
use latchkv_latch::primitives::{AtomicU64, Ordering::Relaxed};
use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::btree_map::{self, BTreeMap};
use std::ops::Bound;
use std::sync::Arc;

/// Number of the next write set with savepoints.
static OWNERS: AtomicU64 = AtomicU64::new(1);

/// First block of the arena, in bytes.
const BLOCK_BYTES_FIRST: usize = 4 << 10;
/// What an entry costs beside its bytes: its place in the map.
const ENTRY_BYTES: usize = 64;
/// Places of savepoints between which changes are spilled at a time, to runs of their own: every read searches all
/// runs, so they are not to be many times as many as without savepoints.
const PLACES_MAX: usize = 16;

/// What is to become of a key.
#[derive(Clone, Copy)]
enum Slot {
    Put(Held),
    Delete,
    Guard,
}

impl Slot {
    /// What it says should become of the key.
    fn change(&self) -> Change<'_> {
        match self {
            Slot::Put(value) => Change::Put(value.bytes()),
            Slot::Delete => Change::Delete,
            Slot::Guard => Change::Guard,
        }
    }

    /// What a run has to say; `None`: nothing.
    fn said(&self) -> Option<Said<&[u8]>> {
        match self {
            Slot::Put(value) => Some(Said::Put(value.bytes())),
            Slot::Delete => Some(Said::Deleted),
            Slot::Guard => None,
        }
    }
}

struct TreeWrites {
    target: Target,
    slots: BTreeMap<Key, Slot>,
    /// What did not fit the memory, the earliest first.
    runs: Vec<Run>,
    /// What is in each of them.
    amounts: Vec<Amount>,
}

/// So many changes of one tree.
#[derive(Clone, Copy, Default)]
pub(super) struct Amount {
    /// Their number.
    pub(super) changes: usize,
    /// Bytes of their keys and of what goes into leaves.
    pub(super) bytes: usize,
}

impl Amount {
    /// Both.
    pub(super) fn and(self, other: Amount) -> Amount {
        Amount { changes: self.changes + other.changes, bytes: self.bytes + other.bytes }
    }
}

/// A tree that was written to, with what did not fit the memory.
pub(super) struct Spilled<'a> {
    pub(super) target: &'a Target,
    pub(super) runs: &'a [Run],
    /// What the runs say, what later ones are over counted too.
    pub(super) amount: Amount,
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
    /// What the memory said before.
    before: Option<Slot>,
}

/// A savepoint, [B3].
struct Mark {
    number: u64,
    /// Length of `undo` when it was set.
    undo_len: usize,
    /// Number of runs of each tree when it was set; trees that are not named had none.
    runs: Vec<usize>,
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
    /// The earliest first, [B3].
    savepoints: Vec<Mark>,
    /// How many places in `undo` they have.
    places: usize,
    savepoints_ever: u64,
    /// Tells its savepoints from those of others; 0 until the first is set.
    owner: u64,
    entry_bytes: usize,
    /// What the last spill left in memory: guards.
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
    type Item = (&'a [u8], Change<'a>);

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
            places: 0,
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

    /// Bytes that [`spill`](Self::spill) would free: all but those that it had to leave the last time, or none if
    /// there are too many savepoints.
    pub(crate) fn spillable_bytes(&self) -> usize {
        if self.places > PLACES_MAX { 0 } else { self.bytes().saturating_sub(self.kept_bytes) }
    }

    /// Bytes that have to stay in memory.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.bytes() - self.spillable_bytes()
    }

    fn hold(&self, bytes: &[u8]) -> Held {
        Held::of(self.arena.alloc_slice_copy(bytes))
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
            Some(Slot::Guard) | None => {}
        }
        for run in writes.runs.iter().rev() {
            match run.get(pool, key)? {
                Some(Said::Put(value)) => return Ok(Some(Own::Put(Cow::Owned(value)))),
                Some(Said::Deleted) => return Ok(Some(Own::Deleted)),
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
            self.trees.push(TreeWrites { target, slots, runs: Vec::new(), amounts: Vec::new() });
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
        // Whoever writes a key guards it.
        if matches!(change, Change::Guard)
            && (known.is_some() || self.get(pool, id, key)?.is_some())
        {
            return Ok(());
        }
        let slot = match change {
            Change::Put(value) => Slot::Put(self.hold(value)),
            Change::Delete => Slot::Delete,
            Change::Guard => Slot::Guard,
        };
        let held = known.map_or_else(|| Key::of(self.hold(key)), |(held, _)| held);
        self.trees[tree].slots.insert(held, slot);
        if known.is_none() {
            self.entry_bytes += ENTRY_BYTES;
        }
        if !self.savepoints.is_empty() {
            let before = known.map(|(_, before)| before);
            self.undo.push(Undo { tree, key: held, before });
            self.entry_bytes += size_of::<Undo>();
        }
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
        let mut trees: Vec<Spilled<'_>> = trees
            .map(|tree| Spilled {
                target: &tree.target,
                runs: &tree.runs,
                amount: tree.amounts.iter().copied().fold(Amount::default(), Amount::and),
            })
            .collect();
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
        let number = self.savepoints_ever;
        let undo_len = self.undo.len();
        if self.savepoints.last().is_none_or(|mark| mark.undo_len != undo_len) {
            self.places += 1;
        }
        let runs = self.trees.iter().map(|tree| tree.runs.len()).collect();
        self.savepoints.push(Mark { number, undo_len, runs });
        self.entry_bytes += size_of::<Mark>();
        Savepoint { number, owner: self.owner }
    }

    /// Takes back what was written since the savepoint, which stays set; later ones are gone. False: it is not of
    /// this transaction, or gone.
    pub(crate) fn rollback_to(&mut self, pool: &Pool, savepoint: Savepoint) -> bool {
        let place = self.savepoints.iter().position(|mark| mark.number == savepoint.number);
        let (Some(place), true) = (place, savepoint.owner == self.owner) else { return false };
        self.savepoints.truncate(place + 1);
        let mark = &self.savepoints[place];
        for undo in self.undo.drain(mark.undo_len..).rev() {
            let slots = &mut self.trees[undo.tree].slots;
            match undo.before {
                Some(before) => slots.insert(undo.key, before),
                None => slots.remove(&undo.key),
            };
        }
        for (tree, writes) in self.trees.iter_mut().enumerate() {
            let kept = mark.runs.get(tree).copied().unwrap_or(0);
            writes.amounts.truncate(kept);
            writes.runs.drain(kept..).for_each(|run| run.free(pool, &HashSet::new()));
        }
        self.count();
        true
    }

    /// Forgets all savepoints: nothing will go back.
    pub(super) fn settle(&mut self) {
        self.savepoints.clear();
        self.undo.clear();
        self.count();
    }

    /// Counts what entries and savepoints take.
    fn count(&mut self) {
        let mut places: Vec<usize> = self.savepoints.iter().map(|mark| mark.undo_len).collect();
        places.dedup();
        self.places = places.len();
        let entries: usize = self.trees.iter().map(|tree| tree.slots.len()).sum();
        self.entry_bytes = entries * ENTRY_BYTES
            + self.undo.len() * size_of::<Undo>()
            + self.savepoints.len() * size_of::<Mark>();
    }

    /// All writes in memory, ascending by tree and key.
    pub(crate) fn writes(&self) -> Vec<Write<'_>> {
        let mut trees: Vec<&TreeWrites> = self.trees.iter().collect();
        trees.sort_by_key(|tree| tree.target.core.id);
        let writes = trees.into_iter().flat_map(|tree| {
            let target = &tree.target;
            let slots = tree.slots.iter();
            slots.map(move |(key, slot)| Write { target, key: key.bytes(), change: slot.change() })
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
