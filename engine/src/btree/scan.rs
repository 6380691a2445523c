//! Scans, both ways, a batch of records at a time.
//!
//! A batch is copied out of one leaf at one version of it, so each record is seen as it was at one
//! moment, and a record that is there during the whole scan is seen exactly once: batches cover the key space without
//! a gap or an overlap, since each begins where the fence or the last key of its predecessor ended.
//!
//! The cursor keeps the leaf and its parent with their versions. As long as these hold it goes on without coming down
//! again; else it seeks the key at which it stands. Backwards it seeks the greatest key *below* a fence.

use super::{Btree, Reached};
use crate::error::Result;
use crate::id::PageId;
use crate::node::{LeafPayload, Page};
use std::ops::Bound;

/// Records of the first batch; later ones take the rest of a leaf.
const FIRST_BATCH: usize = 12;

/// A record in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchItem {
    start: u32,
    key_len: u32,
    payload_len: u32,
    extent: bool,
}

/// Records copied out of one leaf, in the order of the scan.
#[derive(Default, Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    items: Vec<BatchItem>,
}

impl Batch {
    /// Number of records.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Record `at`.
    #[inline]
    pub(crate) fn item(&self, at: usize) -> BatchItem {
        self.items[at]
    }

    /// The key of a record.
    #[inline]
    pub(crate) fn key(&self, item: BatchItem) -> &[u8] {
        &self.bytes[item.start as usize..][..item.key_len as usize]
    }

    /// The value of a record, or the name of its extent.
    #[inline]
    pub(crate) fn payload(&self, item: BatchItem) -> &[u8] {
        &self.bytes[item.start as usize + item.key_len as usize..][..item.payload_len as usize]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }
}

impl BatchItem {
    /// The payload names an extent.
    #[inline]
    pub(crate) fn is_extent(self) -> bool {
        self.extent
    }
}

/// Which way a cursor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// From the least key up.
    Front,
    /// From the greatest key down.
    Back,
}

/// Where a cursor stands: between the last leaf and the next, or within one.
#[derive(Clone, Copy, Debug)]
struct Standing {
    reached: Reached,
    /// Front: index of the next record. Back: one above it.
    next: usize,
}

/// One end of a scan.
#[derive(Debug)]
pub(crate) struct Cursor {
    edge: Edge,
    /// Where to seek. Front: a lower bound; back: an upper bound.
    from: Bound<Vec<u8>>,
    standing: Option<Standing>,
    batches: usize,
    done: bool,
}

/// What became of a try to fill a batch.
enum Fill {
    Restart,
    /// The leaf has more.
    More,
    /// The leaf is used up; there is a next one behind this fence.
    Fence(Vec<u8>),
    /// The scan is at its end.
    End,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Cursor {
    /// A cursor that begins at `from`: its lower bound for the front, its upper bound for the back.
    pub(crate) fn new(edge: Edge, from: Bound<Vec<u8>>) -> Cursor {
        Cursor { edge, from, standing: None, batches: 0, done: false }
    }

    /// Nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Nothing more shall come.
    pub(crate) fn finish(&mut self) {
        self.done = true;
    }

    /// The bound behind which the records not yet given lie.
    pub(crate) fn bound(&self) -> &Bound<Vec<u8>> {
        &self.from
    }
}

impl<'p> Btree<'p> {
    /// Fills `batch` with the next records of `cursor` that lie before `until` (front: an upper bound; back: a
    /// lower bound). An empty batch means the end.
    pub(crate) fn next_batch(
        self,
        cursor: &mut Cursor,
        until: &Bound<Vec<u8>>,
        batch: &mut Batch,
    ) -> Result<()> {
        batch.clear();
        let mut attempts = self.attempts();
        while batch.len() == 0 && !cursor.done {
            let standing = match self.go_on(cursor)? {
                Some(standing) => standing,
                None => self.seek(cursor, &mut attempts)?,
            };
            let fill = match cursor.edge {
                Edge::Front => self.fill_forward(cursor, standing, until, batch)?,
                Edge::Back => self.fill_backward(cursor, standing, until, batch)?,
            };
            let last = batch.items.last().map(|&item| batch.key(item).to_vec());
            match fill {
                Fill::Restart => {
                    batch.clear();
                    cursor.standing = None;
                    attempts.again();
                    continue;
                }
                Fill::More => {
                    let last = last.expect("a leaf with more gave at least one record");
                    cursor.from = Bound::Excluded(last);
                }
                Fill::Fence(fence) => {
                    // Front: the next leaf begins with its fence. Back: it ends before it.
                    cursor.from = match cursor.edge {
                        Edge::Front => Bound::Included(fence),
                        Edge::Back => Bound::Excluded(fence),
                    };
                }
                Fill::End => cursor.done = true,
            }
            cursor.batches += 1;
        }
        Ok(())
    }

    /// The next place without coming down from the root, if the cursor's leaf or its parent are as they were.
    fn go_on(self, cursor: &mut Cursor) -> Result<Option<Standing>> {
        let Some(standing) = cursor.standing.take() else { return Ok(None) };
        let Reached { node, parent } = standing.reached;
        let within = match cursor.edge {
            Edge::Front => standing.next < self.page(node).count(),
            Edge::Back => standing.next > 0,
        };
        if within {
            return Ok(self.valid(node).then_some(standing));
        }
        let Some((parent, at)) = parent else { return Ok(None) };
        let next_at = match cursor.edge {
            Edge::Front => at + 1,
            Edge::Back => at.wrapping_sub(1),
        };
        if next_at > self.page(parent).count() || !self.valid(parent) {
            return Ok(None);
        }
        let Some(next) = self.reach_child(parent, next_at)? else { return Ok(None) };
        self.pool.reference(next.frame);
        let next_record = match cursor.edge {
            Edge::Front => 0,
            Edge::Back => self.page(next).count(),
        };
        let reached = Reached { node: next, parent: Some((parent, next_at)) };
        Ok(Some(Standing { reached, next: next_record }))
    }

    fn seek(self, cursor: &Cursor, attempts: &mut super::Attempts<'p>) -> Result<Standing> {
        let from = as_slice(&cursor.from);
        let reached = self.descend(attempts, |page: Page<'p>| match (cursor.edge, from) {
            (_, Bound::Included(key)) | (Edge::Front, Bound::Excluded(key)) => page.find_child(key),
            (Edge::Back, Bound::Excluded(key)) => page.find_child_below(key),
            (Edge::Front, Bound::Unbounded) => 0,
            (Edge::Back, Bound::Unbounded) => page.count(),
        })?;
        let page = self.page(reached.node);
        let next = match (cursor.edge, from) {
            (Edge::Front, Bound::Included(key)) | (Edge::Back, Bound::Excluded(key)) => page.find(key).at,
            (_, Bound::Included(key) | Bound::Excluded(key)) => {
                let found = page.find(key);
                found.at + usize::from(found.exact)
            }
            (Edge::Front, Bound::Unbounded) => 0,
            (Edge::Back, Bound::Unbounded) => page.count(),
        };
        Ok(Standing { reached, next })
    }

    fn copy_record(self, page: Page<'p>, at: usize, batch: &mut Batch) -> Option<()> {
        let record = page.record(at)?;
        let start = batch.bytes.len();
        let key_len = page.append_record(record, &mut batch.bytes)?;
        batch.items.push(BatchItem {
            start: start as u32,
            key_len: key_len as u32,
            payload_len: record.meta.payload_len() as u32,
            extent: record.meta.is_extent(),
        });
        Some(())
    }

    fn fill_forward(
        self,
        cursor: &mut Cursor,
        standing: Standing,
        until: &Bound<Vec<u8>>,
        batch: &mut Batch,
    ) -> Result<Fill> {
        let node = standing.reached.node;
        let page = self.page(node);
        let count = page.count();
        // Records from `end` on are not wanted; `last` says that no later leaf has any either.
        let (end, last) = match until {
            Bound::Unbounded => (count, false),
            Bound::Included(key) | Bound::Excluded(key) if page.covers(key) => {
                let found = page.find(key);
                let included = found.exact && matches!(until, Bound::Included(_));
                (found.at + usize::from(included), true)
            }
            // Not of this leaf: of a later one, or of an earlier one (a range that is empty).
            Bound::Included(key) | Bound::Excluded(key) => match page.lower() {
                Some(lower) if *key < lower => (standing.next, true),
                _ => (count, false),
            },
        };
        let stop = self.stop_of(cursor, end.saturating_sub(standing.next)) + standing.next;
        for at in standing.next..stop {
            if self.copy_record(page, at, batch).is_none() {
                self.torn(node, "record lies outside the page")?;
                return Ok(Fill::Restart);
            }
        }
        let fill = if stop < end {
            Fill::More
        } else if last {
            Fill::End
        } else {
            match page.upper() {
                Some(Some(fence)) => Fill::Fence(fence),
                Some(None) => Fill::End,
                None => Fill::Restart,
            }
        };
        if !self.valid(node) {
            return Ok(Fill::Restart);
        }
        cursor.standing = Some(Standing { next: stop, ..standing });
        Ok(fill)
    }

    fn fill_backward(
        self,
        cursor: &mut Cursor,
        standing: Standing,
        until: &Bound<Vec<u8>>,
        batch: &mut Batch,
    ) -> Result<Fill> {
        let node = standing.reached.node;
        let page = self.page(node);
        let top = standing.next.min(page.count());
        // Records below `start` are not wanted; `last` says that no earlier leaf has any either.
        let (start, last) = match until {
            Bound::Unbounded => (0, false),
            Bound::Included(key) | Bound::Excluded(key) if page.covers(key) => {
                let found = page.find(key);
                let excluded = found.exact && matches!(until, Bound::Excluded(_));
                (found.at + usize::from(excluded), true)
            }
            Bound::Included(key) | Bound::Excluded(key) => match page.lower() {
                Some(lower) if *key < lower => (0, false),
                _ => (top, true),
            },
        };
        let stop = top - self.stop_of(cursor, top.saturating_sub(start)).min(top);
        for at in (stop..top).rev() {
            if self.copy_record(page, at, batch).is_none() {
                self.torn(node, "record lies outside the page")?;
                return Ok(Fill::Restart);
            }
        }
        let fill = if stop > start {
            Fill::More
        } else if last {
            Fill::End
        } else {
            match page.lower() {
                Some(fence) if fence.is_empty() => Fill::End,
                Some(fence) => Fill::Fence(fence),
                None => Fill::Restart,
            }
        };
        if !self.valid(node) {
            return Ok(Fill::Restart);
        }
        cursor.standing = Some(Standing { next: stop, ..standing });
        Ok(fill)
    }

    /// How many of `wanted` records to take now.
    fn stop_of(self, cursor: &Cursor, wanted: usize) -> usize {
        if cursor.batches == 0 { wanted.min(FIRST_BATCH) } else { wanted }
    }

    /// The extent that a record's payload names.
    pub(crate) fn extent_named(payload: &[u8]) -> Option<(PageId, u64)> {
        LeafPayload::extent_of(payload)
    }
}

