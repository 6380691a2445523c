//! Iterating over records, from both ends.

use super::tree::Tree;
use crate::btree::{Batch, Cursor, Edge};
use crate::error::{Error, Result};
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

/// A record that an iterator gave: a key and its value.
///
/// It shares memory with its neighbours; to keep few of many, copy them out by [`into_pair`](Self::into_pair).
#[derive(Clone)]
pub struct Entry {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Shared { batch: Arc<Batch>, at: usize },
    Owned { key: Vec<u8>, value: Vec<u8> },
}

impl Entry {
    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.source {
            Source::Shared { batch, at } => batch.key(batch.item(*at)),
            Source::Owned { key, .. } => key,
        }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.source {
            Source::Shared { batch, at } => batch.payload(batch.item(*at)),
            Source::Owned { value, .. } => value,
        }
    }

    /// Key and value, as copies of their own.
    pub fn into_pair(self) -> (Vec<u8>, Vec<u8>) {
        match self.source {
            Source::Owned { key, value } => (key, value),
            Source::Shared { .. } => (self.key().to_vec(), self.value().to_vec()),
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key() && self.value() == other.value()
    }
}

impl Eq for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (self.key().escape_ascii(), self.value().escape_ascii());
        f.debug_struct("Entry").field("key", &format_args!("{key}")).field("value", &format_args!("{value}")).finish()
    }
}

/// One end of a range: what was read ahead, and where to read on.
struct End {
    cursor: Cursor,
    batch: Arc<Batch>,
    /// Records of the batch that were given.
    given: usize,
    /// At least one record was given.
    moved: bool,
}

impl End {
    fn new(edge: Edge, from: Bound<Vec<u8>>) -> End {
        End { cursor: Cursor::new(edge, from), batch: Arc::default(), given: 0, moved: false }
    }

    /// What the other end may not pass: the last key given from here.
    fn limit(&self) -> Option<&[u8]> {
        match self.given.checked_sub(1) {
            Some(last) => Some(self.batch.key(self.batch.item(last))),
            // A batch that was just read, of which nothing was given: the cursor stands behind it.
            None => None,
        }
    }
}

/// An iterator over the records of a range, ascending; from the back, descending. Both ends may be used by turns and
/// meet without giving a record twice.
///
/// After an error it gives the same error for ever.
pub struct Range {
    tree: Tree,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    front: End,
    back: End,
    failed: Option<Error>,
    done: bool,
}

impl Range {
    pub(super) fn new(tree: Tree, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Range {
        let done = is_empty(&lower, &upper);
        Range {
            tree,
            front: End::new(Edge::Front, lower.clone()),
            back: End::new(Edge::Back, upper.clone()),
            lower,
            upper,
            failed: None,
            done,
        }
    }

    pub(super) fn of_prefix(tree: Tree, prefix: &[u8]) -> Range {
        Range::new(tree, Bound::Included(prefix.to_vec()), above_prefix(prefix))
    }

    /// Reads the next batch of an end. False: there is none.
    fn refill(&mut self, edge: Edge) -> Result<bool> {
        let tree = self.tree.btree()?;
        let (end, until) = match edge {
            Edge::Front => (&mut self.front, &self.upper),
            Edge::Back => (&mut self.back, &self.lower),
        };
        if end.cursor.is_done() {
            return Ok(false);
        }
        // The old batch is read into again if no entry of it is left.
        if Arc::get_mut(&mut end.batch).is_none() {
            end.batch = Arc::default();
        }
        let batch = Arc::get_mut(&mut end.batch).expect("made or found unshared above");
        end.given = 0;
        self.tree.explained(tree.next_batch(&mut end.cursor, until, batch))?;
        Ok(batch.len() > 0)
    }

    /// The other end has given this key or one behind it already.
    fn is_past(&self, edge: Edge, key: &[u8]) -> bool {
        match edge {
            Edge::Front => match &self.upper {
                Bound::Excluded(upper) => self.back.moved && key >= &upper[..],
                _ => false,
            },
            Edge::Back => match &self.lower {
                Bound::Excluded(lower) => self.front.moved && key <= &lower[..],
                _ => false,
            },
        }
    }

    fn step(&mut self, edge: Edge) -> Result<Option<Entry>> {
        if self.done {
            return Ok(None);
        }
        // What the other end gave becomes the bound of this one.
        self.meet(edge);
        loop {
            let end = match edge {
                Edge::Front => &mut self.front,
                Edge::Back => &mut self.back,
            };
            if end.given == end.batch.len() {
                if !self.refill(edge)? {
                    self.done = true;
                    return Ok(None);
                }
                continue;
            }
            let (batch, at) = (Arc::clone(&end.batch), end.given);
            end.given += 1;
            end.moved = true;
            let item = batch.item(at);
            if self.is_past(edge, batch.key(item)) {
                self.done = true;
                return Ok(None);
            }
            if !item.is_extent() {
                return Ok(Some(Entry { source: Source::Shared { batch, at } }));
            }
            if let Some(entry) = self.large(&batch, at)? {
                return Ok(Some(entry));
            }
        }
    }

    /// Takes over the other end's last key as the bound of this end.
    fn meet(&mut self, edge: Edge) {
        match edge {
            Edge::Front if self.back.moved => {
                if let Some(limit) = self.back.limit() {
                    self.upper = Bound::Excluded(limit.to_vec());
                }
            }
            Edge::Back if self.front.moved => {
                if let Some(limit) = self.front.limit() {
                    self.lower = Bound::Excluded(limit.to_vec());
                }
            }
            _ => {}
        }
    }

    /// A record whose value is an extent is read again, as it is now. `None`: it is gone.
    fn large(&self, batch: &Batch, at: usize) -> Result<Option<Entry>> {
        let key = batch.key(batch.item(at)).to_vec();
        let value = self.tree.get(&key)?;
        Ok(value.map(|value| Entry { source: Source::Owned { key, value } }))
    }

    fn give(&mut self, edge: Edge) -> Option<Result<Entry>> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let stepped = self.step(edge);
        if let Err(error) = &stepped {
            self.failed = Some(error.clone());
        }
        stepped.transpose()
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        self.give(Edge::Front)
    }
}

impl DoubleEndedIterator for Range {
    #[inline]
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.give(Edge::Back)
    }
}

impl FusedIterator for Range {}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("tree", &self.tree.name())
            .field("lower", &self.lower)
            .field("upper", &self.upper)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// No key lies between the bounds.
fn is_empty(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Included(upper) | Bound::Excluded(upper)) => {
            lower >= upper
        }
    }
}

/// The upper bound of all keys that start with `prefix`: the prefix up to its last byte below 255, that byte raised by one. There is
/// none if every byte is 255.
fn above_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut upper = prefix[..=last].to_vec();
            upper[last] += 1;
            Bound::Excluded(upper)
        }
    }
}
