//! Iterating over records, from both ends.

use super::reader::Reader;
use super::tree::Tree;
use crate::btree::{Batch, Cursor, Edge, Said, View};
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

/// A record that an iterator gave: a key and its value.
///
/// It shares memory with its neighbours; to keep few of many, copy them out by
/// [`into_pair`](Self::into_pair).
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
    /// A record with memory of its own.
    pub(super) fn owned(key: Vec<u8>, value: Vec<u8>) -> Entry {
        Entry { source: Source::Owned { key, value } }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.source {
            Source::Shared { batch, at } => batch.key(batch.item(*at)),
            Source::Owned { key, .. } => key,
        }
    }

    /// What it says, in a range over a run.
    pub(super) fn said(&self) -> Said<()> {
        match &self.source {
            Source::Shared { batch, at } => Said::of(batch.item(*at)),
            Source::Owned { .. } => Said::Put(()),
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
        f.debug_struct("Entry")
            .field("key", &format_args!("{key}"))
            .field("value", &format_args!("{value}"))
            .finish()
    }
}

thread_local! {
    /// Batches of ranges that ended, for the next ranges of this thread: short ranges then allocate next to
    /// nothing.
    static SPARE: RefCell<Vec<Arc<Batch>>> = const { RefCell::new(Vec::new()) };
}

/// Spare batches that a thread keeps.
const SPARE_MAX: usize = 4;
/// A batch that holds more memory is not kept.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// One end of a range: what was read ahead, and where to read on.
struct End {
    cursor: Cursor,
    batch: Option<Arc<Batch>>,
    /// Records of the batch that were given.
    given: usize,
}

impl End {
    fn new(edge: Edge, from: Bound<Vec<u8>>) -> End {
        End { cursor: Cursor::new(edge, from), batch: None, given: 0 }
    }

    /// The batch, to be read into: the old one if no entry of it is left. A new one begins with the old one's
    /// last record, from which the cursor goes on.
    fn batch_mut(&mut self) -> &mut Batch {
        let batch = self
            .batch
            .get_or_insert_with(|| SPARE.with_borrow_mut(|spare| spare.pop()).unwrap_or_default());
        if Arc::get_mut(batch).is_none() {
            *batch = Arc::new(batch.copy_of_last());
        }
        Arc::get_mut(batch).expect("unshared, or made just now")
    }

    /// The next record that was read ahead.
    fn read_ahead(&self) -> Option<(&Arc<Batch>, usize)> {
        let batch = self.batch.as_ref()?;
        (self.given < batch.len()).then_some((batch, self.given))
    }

    /// What the other end may not pass: the last key given from here, or where this end began.
    fn limit(&self) -> Bound<&[u8]> {
        match (&self.batch, self.given.checked_sub(1)) {
            (Some(batch), Some(last)) => Bound::Excluded(batch.key(batch.item(last))),
            _ => self.cursor.origin(),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(mut batch) = self.batch.take() else { return };
        if let Some(unshared) = Arc::get_mut(&mut batch)
            && unshared.capacity_bytes() <= SPARE_BYTES_MAX
        {
            unshared.clear();
            // A thread that is ending keeps nothing.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < SPARE_MAX {
                    spare.push(batch);
                }
            });
        }
    }
}

/// Which records a range reads.
#[derive(Clone, Copy)]
pub(super) enum State<'s> {
    /// Each as it is.
    Latest,
    /// Those of a reader's state.
    Of(&'s Reader<'s>),
    /// Those of a run, all that it says included.
    Run,
}

/// An iterator over the records of a range, ascending; from the back, descending. Both ends may be used by
/// turns and meet without giving a record twice.
///
/// After an error it gives the same error for ever.
#[must_use = "nothing is read before the first record is asked for"]
pub struct Range<'s> {
    tree: Tree,
    state: State<'s>,
    front: End,
    back: End,
    /// The large value that `next_borrowed` lends.
    large: Vec<u8>,
    failed: Option<Error>,
    done: bool,
}

/// A record that was found, and where it is.
enum Given {
    InBatch(usize),
    Large(Vec<u8>, Vec<u8>),
}

impl<'s> Range<'s> {
    /// The records of a state.
    pub(super) fn of_reader(
        reader: &'s Reader<'_>,
        tree: &Tree,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Range<'s> {
        Range::new(tree.clone(), State::Of(reader), lower, upper)
    }

    pub(super) fn new(
        tree: Tree,
        state: State<'s>,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Range<'s> {
        let done = is_empty(&lower, &upper);
        Range {
            tree,
            state,
            front: End::new(Edge::Front, lower),
            back: End::new(Edge::Back, upper),
            large: Vec::new(),
            failed: None,
            done,
        }
    }

    /// The tree that it reads.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn of_prefix(tree: &Tree, state: State<'s>, prefix: &[u8]) -> Range<'s> {
        let (lower, upper) = bounds_of_prefix(prefix);
        Range::new(tree.clone(), state, lower, upper)
    }

    /// Key and value of the next record, lent instead of given: the way to go through many records that costs
    /// least.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// # let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// let mut range = tree.iter();
    /// while let Some((key, value)) = range.next_borrowed().transpose()? {
    ///     assert_eq!((key, value), (&b"a"[..], &b"1"[..]));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Tree::get`].
    pub fn next_borrowed(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        match self.advance(Edge::Front)? {
            Err(error) => Some(Err(error)),
            Ok(Given::InBatch(at)) => {
                let batch = self.front.batch.as_ref().expect("a record of it was found");
                let item = batch.item(at);
                Some(Ok((batch.key(item), batch.payload(item))))
            }
            Ok(Given::Large(key, value)) => {
                let key_len = key.len();
                self.large = key;
                self.large.extend_from_slice(&value);
                Some(Ok(self.large.split_at(key_len)))
            }
        }
    }

    /// The next record of an end; fused, and stuck once it failed.
    #[inline]
    fn advance(&mut self, edge: Edge) -> Option<Result<Given>> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let stepped = self.step(edge);
        if let Err(error) = &stepped {
            self.failed = Some(error.clone());
        }
        stepped.transpose()
    }

    #[inline]
    fn step(&mut self, edge: Edge) -> Result<Option<Given>> {
        while !self.done {
            let (end, other) = match edge {
                Edge::Front => (&mut self.front, &self.back),
                Edge::Back => (&mut self.back, &self.front),
            };
            let Some((batch, at)) = end.read_ahead() else {
                self.done = !refill(&self.tree, self.state, end, other.limit())?;
                continue;
            };
            let item = batch.item(at);
            // What was read ahead may have been given by the other end since.
            if other.given > 0 && is_past(edge, batch.key(item), other.limit()) {
                self.done = true;
                return Ok(None);
            }
            if !item.is_extent() {
                end.given += 1;
                return Ok(Some(Given::InBatch(at)));
            }
            // A large value is read now, as it is now; or it is gone.
            let key = batch.key(item).to_vec();
            end.given += 1;
            let value = match self.state {
                State::Latest | State::Run => self.tree.get(&key)?,
                State::Of(reader) => reader.get_with(&self.tree, &key, <[u8]>::to_vec)?,
            };
            if let Some(value) = value {
                return Ok(Some(Given::Large(key, value)));
            }
        }
        Ok(None)
    }

    #[inline]
    fn give(&mut self, edge: Edge) -> Option<Result<Entry>> {
        let given = self.advance(edge)?;
        let end = match edge {
            Edge::Front => &self.front,
            Edge::Back => &self.back,
        };
        Some(given.map(|given| match given {
            Given::Large(key, value) => Entry { source: Source::Owned { key, value } },
            Given::InBatch(at) => {
                let batch = Arc::clone(end.batch.as_ref().expect("a record of it was found"));
                Entry { source: Source::Shared { batch, at } }
            }
        }))
    }
}

/// Reads the next batch of an end. False: there is none.
fn refill(tree: &Tree, state: State<'_>, end: &mut End, until: Bound<&[u8]>) -> Result<bool> {
    if end.cursor.is_done() {
        return Ok(false);
    }
    let (btree, view) = match state {
        State::Latest => (tree.reading()?, View::Latest),
        State::Of(reader) => (reader.tree(tree)?, reader.view()),
        State::Run => (tree.reading()?, View::Changed { since: 0 }),
    };
    end.batch_mut();
    let batch = end.batch.as_mut().and_then(Arc::get_mut).expect("unshared by `batch_mut`");
    let read = tree.explain(btree.next_batch(&mut end.cursor, until, view, batch));
    end.given = 0;
    let read = match state {
        State::Of(reader) => reader.check(read),
        State::Latest | State::Run => read,
    };
    read.map(|()| batch.len() > 0)
}

/// The other end, whose last key is `limit`, has given this key or one behind it already.
fn is_past(edge: Edge, key: &[u8], limit: Bound<&[u8]>) -> bool {
    match (edge, limit) {
        (Edge::Front, Bound::Excluded(limit)) => key >= limit,
        (Edge::Back, Bound::Excluded(limit)) => key <= limit,
        _ => false,
    }
}

impl Iterator for Range<'_> {
    type Item = Result<Entry>;

    #[inline]
    fn next(&mut self) -> Option<Result<Entry>> {
        self.give(Edge::Front)
    }
}

impl DoubleEndedIterator for Range<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.give(Edge::Back)
    }
}

impl FusedIterator for Range<'_> {}

impl fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("tree", &self.tree.name())
            .field("lower", &self.front.limit())
            .field("upper", &self.back.limit())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// No key lies between the bounds.
pub(super) fn is_empty(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower >= upper,
    }
}

/// The bounds of all keys that start with `prefix`.
pub(super) fn bounds_of_prefix(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (Bound::Included(prefix.to_vec()), above_prefix(prefix))
}

/// The upper bound of all keys that start with `prefix`: the prefix up to its last byte below 255, that byte
/// raised by one. There is none if every byte is 255.
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
