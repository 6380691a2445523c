//! The records of a range as a transaction sees them: those of its snapshot, with its own writes over them.
//!
//! ```text
//! snapshot   a    c  d     f          both ends have one record of each in hand
//! runs            c'       f'         writes that did not fit the memory, the latest first
//! memory        b   -d  e  f"
//! seen       a  b c'    e  f"
//! ```
//!
//! Tested by `engine/tests/transactions`, against a `BTreeMap` in `large`.

use super::range::{Entry, Range, State, is_empty};
use super::reader::Reader;
use super::transaction::conflict_of;
use super::tree::Tree;
use crate::btree::Said;
use crate::error::{Error, Result};
use crate::txn::{Change, Reads, Span, WriteSet, WritesIn};
use std::cell::RefCell;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

/// A double-ended iterator with the next item of each end in hand.
struct Ends<I: DoubleEndedIterator> {
    inner: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(inner: I) -> Ends<I> {
        Ends { inner, front: None, back: None }
    }

    /// The next item from one end, to look at or to take.
    fn next(&mut self, front: bool) -> &mut Option<I::Item> {
        // When the middle is used up, what the other end has in hand is the next of this one too.
        if front {
            if self.front.is_none() {
                self.front = self.inner.next().or_else(|| self.back.take());
            }
            &mut self.front
        } else {
            if self.back.is_none() {
                self.back = self.inner.next_back().or_else(|| self.front.take());
            }
            &mut self.back
        }
    }
}

/// What a transaction's own writes say of a key.
enum Seen {
    Value(Entry),
    Nothing,
}

/// Takes the next record of an end if it is of this key.
fn take_at(rows: &mut Ends<Range<'_>>, front: bool, key: &[u8]) -> Option<Result<Entry>> {
    rows.next(front).take_if(|entry| entry.as_ref().is_ok_and(|entry| entry.key() == key))
}

/// An iterator over the records of a range as a transaction sees them, from both ends.
///
/// After an error it gives the same error for ever.
#[must_use = "nothing is read before the first record is asked for"]
pub struct TransactionRange<'t> {
    rows: Ends<Range<'t>>,
    /// The latest first.
    runs: Vec<Ends<Range<'t>>>,
    writes: Ends<WritesIn<'t>>,
    reads: Option<Noted<'t>>,
    /// It was refused from the start.
    refused: Option<Error>,
}

/// What is to be said of the range when it is dropped: up to where it was read.
struct Noted<'t> {
    reads: &'t RefCell<Reads>,
    number: usize,
    span: Span,
    front: Option<Vec<u8>>,
    back: Option<Vec<u8>>,
    whole: bool,
}

impl<'t> TransactionRange<'t> {
    pub(super) fn new(
        reader: &'t Reader<'_>,
        writes: &'t WriteSet,
        reads: Option<&'t RefCell<Reads>>,
        tree: &Tree,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> TransactionRange<'t> {
        let target = tree.target();
        let own = if is_empty(&lower, &upper) {
            WritesIn::none()
        } else {
            let (lower, upper) = (lower.as_ref(), upper.as_ref());
            writes.range(target.core.id, lower.map(Vec::as_slice), upper.map(Vec::as_slice))
        };
        let refused = reads.and_then(|reads| reader.shared().refuse_reads(&reads.borrow()).err());
        let noted = reads.filter(|_| refused.is_none()).map(|reads| {
            let span = Span { lower: lower.clone(), upper: upper.clone() };
            let number = reads.borrow_mut().note_span(target, span.clone());
            Noted { reads, number, span, front: None, back: None, whole: false }
        });
        let runs = writes.runs(target.core.id).map(|core| {
            let tree = Tree::new(
                Arc::clone(reader.handle()),
                Arc::clone(core),
                tree.target().name.as_ref(),
            );
            Ends::new(Range::new(tree, State::Run, lower.clone(), upper.clone()))
        });
        let runs = runs.collect();
        TransactionRange {
            rows: Ends::new(Range::of_reader(reader, tree, lower, upper)),
            runs,
            writes: Ends::new(own),
            reads: noted,
            refused,
        }
    }

    fn step(&mut self, front: bool) -> Option<Result<Entry>> {
        if let Some(error) = &self.refused {
            return Some(Err(error.clone()));
        }
        if self.runs.is_empty() && self.writes.next(front).is_none() {
            // Nothing of its own is left here.
            let row = self.rows.next(front).take()?;
            return Some(row.map_err(|error| conflict_of(error, self.rows.inner.tree())));
        }
        loop {
            // The least key of all, or the greatest.
            let mut first: Option<Vec<u8>> = None;
            let mut see = |key: &[u8]| {
                let ahead =
                    |first: &Vec<u8>| if front { key < &first[..] } else { key > &first[..] };
                if first.as_ref().is_none_or(ahead) {
                    first = Some(key.to_vec());
                }
            };
            for rows in self.runs.iter_mut().chain([&mut self.rows]) {
                match rows.next(front) {
                    Some(Ok(entry)) => see(entry.key()),
                    Some(Err(error)) => {
                        let error = error.clone();
                        return Some(Err(conflict_of(error, rows.inner.tree())));
                    }
                    None => {}
                }
            }
            if let Some((key, _)) = self.writes.next(front) {
                see(key);
            }
            let first = first?;
            // All that say something of this key go on; the uppermost is believed.
            let mut seen = None;
            if let Some((_, change)) = self.writes.next(front).take_if(|(key, _)| *key == first) {
                seen = match change {
                    Change::Put(value) => {
                        Some(Seen::Value(Entry::owned(first.clone(), value.to_vec())))
                    }
                    Change::Delete => Some(Seen::Nothing),
                    Change::Guard => None,
                };
            }
            for run in &mut self.runs {
                let Some(Ok(entry)) = take_at(run, front, &first) else { continue };
                if seen.is_none() {
                    seen = Some(match entry.said() {
                        Said::Put(()) => Seen::Value(entry),
                        Said::Deleted => Seen::Nothing,
                    });
                }
            }
            let row = take_at(&mut self.rows, front, &first);
            match seen {
                Some(Seen::Value(entry)) => return Some(Ok(entry)),
                Some(Seen::Nothing) => {}
                None => {
                    if row.is_some() {
                        return row;
                    }
                }
            }
        }
    }

    fn note(&mut self, front: bool, given: &Option<Result<Entry>>) {
        let Some(noted) = &mut self.reads else { return };
        match given {
            Some(Ok(entry)) if front => noted.front = Some(entry.key().to_vec()),
            Some(Ok(entry)) => noted.back = Some(entry.key().to_vec()),
            // To the end, or to where nobody knows.
            _ => noted.whole = true,
        }
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        let given = self.step(true);
        self.note(true, &given);
        given
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        let given = self.step(false);
        self.note(false, &given);
        given
    }
}

impl FusedIterator for TransactionRange<'_> {}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if self.whole {
            return;
        }
        let Span { lower, upper } = &self.span;
        let front =
            self.front.take().map(|key| Span { lower: lower.clone(), upper: Bound::Included(key) });
        let back =
            self.back.take().map(|key| Span { lower: Bound::Included(key), upper: upper.clone() });
        self.reads.borrow_mut().narrow(self.number, front.into_iter().chain(back));
    }
}

impl fmt::Debug for TransactionRange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange").finish_non_exhaustive()
    }
}
