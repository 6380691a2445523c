//! Moving what was written out of the memory, to runs: [`WriteSet::spill`].
//!
//! ```text
//! undo     a b c | a' d | b'        two savepoints, so three spans
//! spans    [a b c] [a' d] [b']      what each says of a key is what the key was at its end
//!          to one run each, in this order
//! ```
//!
//! The spans are found backwards, from what the memory says now and what is to be taken back. A guard that stands at
//! the end of some span stays in memory, from the first such span on.
//!
//! Tested by `engine/tests/transactions`, in `savepoints` against a stack of `BTreeMap`s.

use super::{Amount, BLOCK_BYTES_FIRST, Key, Slot, Undo, WriteSet};
use crate::btree::{Run, Said};
use crate::error::Result;
use crate::id::TreeId;
use crate::pool::Pool;
use latchkv_alloc::Bump;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What keys of one tree were at a moment; `None`: nothing was said of it.
type Moment = BTreeMap<Key, Option<Slot>>;

/// What memory says, in the order in which it was said.
struct Spans {
    /// What keys were at the first savepoint, by tree, where that is not what they are.
    first: Vec<Moment>,
    /// What was said from each place of a savepoint to the next, by tree: what it was at the end of that.
    later: Vec<Vec<Moment>>,
}

/// A guard that stays in memory.
struct Guard {
    /// Number of the span at whose end it stands; 0 = before the first savepoint.
    span: usize,
    tree: usize,
    key: Vec<u8>,
}

/// Runs that were built, by span and tree.
type Built = Vec<Vec<Option<(Run, Amount)>>>;

impl WriteSet {
    /// Moves everything but guards to runs: one for each tree and each span between savepoints in which something
    /// was said of it.
    ///
    /// # Errors
    /// Those of building one. Nothing was moved then.
    pub(crate) fn spill(&mut self, pool: &Pool) -> Result<()> {
        let mut places: Vec<usize> = self.savepoints.iter().map(|mark| mark.undo_len).collect();
        places.dedup();
        let spans = self.spans(&places);
        let mut built = Built::new();
        if let Err(error) = self.build(pool, &spans, &mut built) {
            let runs = built.into_iter().flatten().flatten();
            runs.for_each(|(run, _)| run.free(pool, &HashSet::new()));
            return Err(error);
        }
        let guards = self.guards(&spans);
        drop(spans);
        self.take_runs(&places, built);
        self.keep(&places, guards);
        Ok(())
    }

    fn spans(&self, places: &[usize]) -> Spans {
        let mut first: Vec<Moment> = vec![Moment::new(); self.trees.len()];
        let mut later = Vec::with_capacity(places.len());
        let mut end = self.undo.len();
        for &start in places.iter().rev() {
            let undone = &self.undo[start..end];
            let mut span = vec![Moment::new(); self.trees.len()];
            for &Undo { tree, key, .. } in undone {
                let now = || self.trees[tree].slots.get(&key).copied();
                span[tree].insert(key, first[tree].get(&key).copied().unwrap_or_else(now));
            }
            for &Undo { tree, key, before } in undone.iter().rev() {
                first[tree].insert(key, before);
            }
            later.push(span);
            end = start;
        }
        later.reverse();
        Spans { first, later }
    }

    /// What was said of a tree before the first savepoint.
    fn before<'a>(
        &'a self,
        tree: usize,
        first: &'a Moment,
    ) -> impl Iterator<Item = (&'a Key, &'a Slot)> {
        let slots = self.trees[tree].slots.iter();
        slots.filter_map(move |(key, slot)| match first.get(key) {
            Some(before) => Some((key, before.as_ref()?)),
            None => Some((key, slot)),
        })
    }

    fn build(&self, pool: &Pool, spans: &Spans, built: &mut Built) -> Result<()> {
        for span in 0..=spans.later.len() {
            built.push(Vec::with_capacity(self.trees.len()));
            for (tree, writes) in self.trees.iter().enumerate() {
                let id = writes.target.core.id;
                let run = match span {
                    0 => build(pool, id, || self.before(tree, &spans.first[tree])),
                    span => build(pool, id, || said(&spans.later[span - 1][tree])),
                };
                built[span].push(run?);
            }
        }
        Ok(())
    }

    /// The guards, by span.
    fn guards(&self, spans: &Spans) -> Vec<Guard> {
        let mut guards = Vec::new();
        let mut known = BTreeSet::new();
        let mut note = |span: usize, tree: usize, (key, slot): (&Key, &Slot)| {
            if matches!(slot, Slot::Guard) && (spans.later.is_empty() || known.insert((tree, *key)))
            {
                guards.push(Guard { span, tree, key: key.bytes().to_vec() });
            }
        };
        for tree in 0..self.trees.len() {
            self.before(tree, &spans.first[tree]).for_each(|entry| note(0, tree, entry));
        }
        for (span, trees) in (1..).zip(&spans.later) {
            for (tree, moment) in trees.iter().enumerate() {
                said(moment).for_each(|entry| note(span, tree, entry));
            }
        }
        guards
    }

    /// Adds runs, and moves savepoints behind those that come before them, [B3].
    fn take_runs(&mut self, places: &[usize], built: Built) {
        let before: Vec<usize> = self.trees.iter().map(|tree| tree.runs.len()).collect();
        for (span, runs) in built.into_iter().enumerate() {
            for (writes, run) in self.trees.iter_mut().zip(runs) {
                let (run, amount) = run.unzip();
                writes.runs.extend(run);
                writes.amounts.extend(amount);
            }
            let Some(place) = places.get(span) else { return };
            for mark in self.savepoints.iter_mut().filter(|mark| mark.undo_len == *place) {
                mark.runs.resize(before.len(), 0);
                for ((kept, before), writes) in mark.runs.iter_mut().zip(&before).zip(&self.trees) {
                    // A savepoint from before the last spill has nothing of what the memory says now.
                    if kept == before {
                        *kept = writes.runs.len();
                    }
                }
            }
        }
    }

    /// Begins the memory anew with what has to stay.
    fn keep(&mut self, places: &[usize], guards: Vec<Guard>) {
        // Guards that a savepoint has beside those from before the first, by the number of its place.
        let mut undo_lens = vec![0; places.len()];
        for guard in guards.iter().filter(|guard| guard.span > 0) {
            undo_lens.iter_mut().skip(guard.span).for_each(|undo_len| *undo_len += 1);
        }
        for mark in &mut self.savepoints {
            let place = places.partition_point(|place| *place < mark.undo_len);
            mark.undo_len = undo_lens[place];
        }
        // [B1]: the entries first.
        self.undo.clear();
        self.trees.iter_mut().for_each(|tree| tree.slots.clear());
        self.arena = Bump::new(BLOCK_BYTES_FIRST);
        for Guard { span, tree, key } in guards {
            let key = Key::of(self.hold(&key));
            self.trees[tree].slots.insert(key, Slot::Guard);
            if span > 0 {
                self.undo.push(Undo { tree, key, before: None });
            }
        }
        self.count();
        self.kept_bytes = self.bytes();
    }
}

/// What a moment says.
fn said(moment: &Moment) -> impl Iterator<Item = (&Key, &Slot)> {
    moment.iter().filter_map(|(key, slot)| Some((key, slot.as_ref()?)))
}

/// Builds the run of what `entries` say of a tree; `None`: there is nothing but guards.
fn build<'a, I>(pool: &Pool, tree: TreeId, entries: impl Fn() -> I) -> Result<Option<(Run, Amount)>>
where
    I: Iterator<Item = (&'a Key, &'a Slot)>,
{
    let said = || entries().filter_map(|(key, slot)| Some((key.bytes(), slot.said()?)));
    if said().next().is_none() {
        return Ok(None);
    }
    let run = Run::build(pool, tree, said())?;
    let large_bytes = pool.store().page_bytes() as usize / 4;
    let amount = said().fold(Amount::default(), |amount, (key, said)| {
        // A larger value lies outside of the leaf.
        let value = if let Said::Put(value) = said { value.len().min(large_bytes) } else { 0 };
        amount.and(Amount { changes: 1, bytes: key.len() + value })
    });
    Ok(Some((run, amount)))
}
