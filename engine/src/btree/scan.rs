//! Scans, both ways, a batch of records at a time.
//!
//! A batch is copied out of one leaf at one version of it, so each record is seen as it was at one moment,
//! and a record that is there during the whole scan is seen exactly once: batches cover the key space without
//! a gap or an overlap, since each begins where the last key or the fence of its predecessor ended.
//!
//! The cursor keeps the leaf and its parent with their versions. As long as these hold it goes on without
//! coming down again; else it seeks the last key that it gave. Backwards it seeks the greatest key *below*
//! that key or a fence. Leaves that are not in memory are read in batches, by what `ahead` knows of them.

use super::ahead::Siblings;
use super::view::{Sight, View};
use super::{Attempts, Btree, Reached};
use crate::error::Result;
use crate::node::{KeyFront, Page, bytes_of};
use std::ops::Bound;

/// Records of the first batch; later ones take the rest of a leaf.
const FIRST_BATCH: usize = 10;

/// A record in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchItem {
    start: u32,
    key_len: u32,
    payload_len: u32,
    extent: bool,
    /// The view sees something older of this key.
    older: bool,
    /// It is a tombstone: only in views that show them.
    tombstone: bool,
}

/// Records copied out of one leaf, in the order of the scan.
#[derive(Default, Debug)]
pub(crate) struct Batch {
    words: Vec<u64>,
    items: Vec<BatchItem>,
    front: KeyFront,
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
        &bytes_of(&self.words)[item.start as usize..][..item.key_len as usize]
    }

    /// The value of a record, or the name of its extent.
    #[inline]
    pub(crate) fn payload(&self, item: BatchItem) -> &[u8] {
        &bytes_of(&self.words)[(item.start + item.key_len) as usize..][..item.payload_len as usize]
    }

    /// Bytes of memory held.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.words.capacity() * 8 + self.items.capacity() * size_of::<BatchItem>()
    }

    /// A batch of the last record alone.
    pub(crate) fn copy_of_last(&self) -> Batch {
        let mut copy = Batch::default();
        if let Some(&last) = self.items.last() {
            let from = last.start as usize / 8;
            copy.words.extend_from_slice(&self.words[from..]);
            copy.items.push(BatchItem { start: last.start - from as u32 * 8, ..last });
        }
        copy
    }

    /// Adds bytes of a record that no page has, without an item for them.
    fn append(&mut self, key: &[u8], value: &[u8]) -> BatchItem {
        let start = self.words.len() * 8;
        let bytes = key.iter().chain(value).copied().chain(std::iter::repeat(0));
        let mut bytes = bytes.take((key.len() + value.len()).next_multiple_of(8));
        while let Some(first) = bytes.next() {
            let mut word = [first; 8];
            word[1..].fill_with(|| bytes.next().unwrap_or(0));
            self.words.push(u64::from_ne_bytes(word));
        }
        BatchItem {
            start: start as u32,
            key_len: key.len() as u32,
            payload_len: value.len() as u32,
            extent: false,
            older: false,
            tombstone: false,
        }
    }

    /// Forgets the records and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.items.clear();
    }
}

impl BatchItem {
    /// The payload names an extent.
    #[inline]
    pub(crate) fn is_extent(self) -> bool {
        self.extent
    }

    /// The record is deleted.
    #[inline]
    pub(crate) fn is_tombstone(self) -> bool {
        self.tombstone
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
    /// Where to seek while no batch says better. Front: a lower bound; back: an upper bound.
    from: Bound<Vec<u8>>,
    standing: Option<Standing>,
    siblings: Siblings,
    batches: usize,
    done: bool,
}

/// What became of a try to fill a batch.
enum Fill {
    Restart,
    /// There may be more, in this leaf or behind it.
    More,
    /// The leaf gave nothing; there is a next one behind this fence.
    Fence(Vec<u8>),
    /// The scan is at its end.
    End,
}

impl Cursor {
    /// A cursor that begins at `from`: its lower bound for the front, its upper bound for the back.
    pub(crate) fn new(edge: Edge, from: Bound<Vec<u8>>) -> Cursor {
        Cursor {
            edge,
            from,
            standing: None,
            siblings: Siblings::default(),
            batches: 0,
            done: false,
        }
    }

    /// Nothing more will come.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// What comes next lies behind `key`.
    fn go_behind(&mut self, key: &[u8]) {
        match &mut self.from {
            Bound::Excluded(from) => {
                from.clear();
                from.extend_from_slice(key);
            }
            from => *from = Bound::Excluded(key.to_vec()),
        }
    }

    /// Whether `key` lies where the cursor has not been.
    fn is_ahead(&self, key: &[u8]) -> bool {
        match (self.edge, &self.from) {
            (_, Bound::Unbounded) => true,
            (Edge::Front, Bound::Included(from)) => key >= &from[..],
            (Edge::Front, Bound::Excluded(from)) => key > &from[..],
            (Edge::Back, Bound::Included(from)) => key <= &from[..],
            (Edge::Back, Bound::Excluded(from)) => key < &from[..],
        }
    }

    /// The bound at which the cursor began, as long as it gave no batch.
    pub(crate) fn origin(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(|key| &key[..])
    }
}

impl<'p> Btree<'p> {
    /// Fills `batch`, which holds the cursor's last batch, with the next records that lie before `until`
    /// (front: an upper bound; back: a lower bound). An empty batch means the end.
    pub(crate) fn next_batch(
        self,
        cursor: &mut Cursor,
        until: Bound<&[u8]>,
        view: View<'_>,
        batch: &mut Batch,
    ) -> Result<()> {
        let mut attempts = self.attempts();
        let mut standing = self.go_on(cursor, until)?;
        if let Some(&last) = batch.items.last() {
            // Even while the cursor stands somewhere: its leaf may change before the copy of it is validated.
            cursor.go_behind(batch.key(last));
        }
        batch.clear();
        while !cursor.done {
            let here = match standing.take() {
                Some(standing) => standing,
                None => self.seek(cursor, &mut attempts)?,
            };
            let fill = match cursor.edge {
                Edge::Front => self.fill_forward(cursor, here, until, view, batch)?,
                Edge::Back => self.fill_backward(cursor, here, until, view, batch)?,
            };
            if matches!(fill, Fill::Restart) {
                batch.clear();
                attempts.again()?;
                continue;
            }
            self.check_ahead(cursor, here, batch, &fill)?;
            let behind = self.look_back(cursor, view, batch)?;
            match fill {
                Fill::Restart => {}
                Fill::More => {
                    // All that the leaf gave is not to be seen: go on behind it.
                    if let Some(key) = behind.filter(|_| batch.len() == 0) {
                        standing = self.go_on(cursor, until)?;
                        cursor.go_behind(&key);
                    }
                }
                Fill::Fence(fence) => {
                    // Front: the next leaf begins with its fence. Back: it ends before it.
                    cursor.from = match cursor.edge {
                        Edge::Front => Bound::Included(fence),
                        Edge::Back => Bound::Excluded(fence),
                    };
                    standing = self.go_on(cursor, until)?;
                }
                Fill::End => cursor.done = true,
            }
            cursor.batches += 1;
            if batch.len() > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Puts what the view sees in place of records that are newer than it, and leaves out what it does not see.
    /// Gives the last key of the batch as it was.
    fn look_back(
        self,
        cursor: &mut Cursor,
        view: View<'_>,
        batch: &mut Batch,
    ) -> Result<Option<Vec<u8>>> {
        if !self.check_view(view)? {
            batch.clear();
            cursor.done = true;
        }
        if !batch.items.iter().any(|item| item.older) {
            return Ok(None);
        }
        let last = batch.items.last().map(|item| batch.key(*item).to_vec());
        let mut items = std::mem::take(&mut batch.items);
        let mut failed = Ok(());
        items.retain_mut(|item| {
            if !item.older || failed.is_err() {
                return true;
            }
            let key = batch.key(*item).to_vec();
            match self.older(&key, view) {
                Ok(Some(value)) => {
                    *item = batch.append(&key, &value);
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    failed = Err(error);
                    true
                }
            }
        });
        batch.items = items;
        failed.map(|()| last)
    }

    /// A leaf that stands in a wrong place must not lead the scan in a circle.
    fn check_ahead(
        self,
        cursor: &Cursor,
        here: Standing,
        batch: &Batch,
        fill: &Fill,
    ) -> Result<()> {
        let ahead = match (batch.items.first(), fill) {
            (Some(&first), _) => cursor.is_ahead(batch.key(first)),
            // A leaf ends above what it was sought by.
            (None, Fill::Fence(fence)) => {
                let stuck = matches!(&cursor.from, Bound::Included(from) if cursor.edge == Edge::Front && from == fence);
                cursor.is_ahead(fence) && !stuck
            }
            (None, _) => true,
        };
        if ahead {
            return Ok(());
        }
        Err(self.damage(
            self.page(here.reached.node).page_id(),
            "keys outside of the place of their leaf",
        ))
    }

    /// The next place without coming down from the root, if the cursor's leaf or its parent are as they were.
    fn go_on(self, cursor: &mut Cursor, until: Bound<&[u8]>) -> Result<Option<Standing>> {
        let Some(standing) = cursor.standing.take() else { return Ok(None) };
        let Reached { node, parent } = standing.reached;
        let within = match cursor.edge {
            Edge::Front => standing.next < self.page(node).count(),
            Edge::Back => standing.next > 0,
        };
        if !self.valid(node) {
            return Ok(None);
        }
        if within {
            return Ok(Some(standing));
        }
        let Some((parent, at)) = parent else { return Ok(None) };
        let next_at = match cursor.edge {
            Edge::Front => at + 1,
            Edge::Back => at.wrapping_sub(1),
        };
        if next_at > self.page(parent).count() || !self.valid(parent) {
            return Ok(None);
        }
        let next = self.reach_child_by(parent, next_at, |page| match self.pool.find(page) {
            Some(found) => Ok(found),
            None => {
                self.read_siblings(&mut cursor.siblings, cursor.edge, (parent, next_at), until);
                self.pool.reach(page)
            }
        })?;
        let Some(next) = next else { return Ok(None) };
        self.pool.reference(next.frame);
        let next_record = match cursor.edge {
            Edge::Front => 0,
            Edge::Back => self.page(next).count(),
        };
        let reached = Reached { node: next, parent: Some((parent, next_at)) };
        Ok(Some(Standing { reached, next: next_record }))
    }

    fn seek(self, cursor: &Cursor, attempts: &mut Attempts<'p>) -> Result<Standing> {
        let from = cursor.origin();
        let reached = self.descend(attempts, |page: Page<'p>| match (cursor.edge, from) {
            (_, Bound::Included(key)) | (Edge::Front, Bound::Excluded(key)) => page.find_child(key),
            (Edge::Back, Bound::Excluded(key)) => page.find_child_below(key),
            (Edge::Front, Bound::Unbounded) => 0,
            (Edge::Back, Bound::Unbounded) => page.count(),
        })?;
        let page = self.page(reached.node);
        let next = match (cursor.edge, from) {
            (Edge::Front, Bound::Included(key)) | (Edge::Back, Bound::Excluded(key)) => {
                page.find(key).at
            }
            (_, Bound::Included(key) | Bound::Excluded(key)) => {
                let found = page.find(key);
                found.at + usize::from(found.exact)
            }
            (Edge::Front, Bound::Unbounded) => 0,
            (Edge::Back, Bound::Unbounded) => page.count(),
        };
        Ok(Standing { reached, next })
    }

    /// Copies records `range` of a leaf into `batch`, forwards or backwards, until it has `wanted`; gives how many
    /// of the range it passed. `None`: torn.
    fn copy_records(
        self,
        page: Page<'p>,
        range: impl ExactSizeIterator<Item = usize>,
        wanted: usize,
        view: View<'_>,
        batch: &mut Batch,
    ) -> Option<usize> {
        if range.len() == 0 {
            return Some(0);
        }
        page.key_front(&mut batch.front)?;
        batch.items.reserve(range.len().min(wanted));
        if let View::Changed { since } = view
            && page.max_lsn() < since
        {
            return Some(range.len());
        }
        let mut passed = 0;
        for at in range {
            if batch.items.len() == wanted {
                break;
            }
            passed += 1;
            let record = page.record(at)?;
            let sight = view.sight(record.meta);
            if sight == Sight::Absent {
                continue;
            }
            let (start, key_len) = page.copy_record(record, &batch.front, &mut batch.words)?;
            batch.items.push(BatchItem {
                start: start as u32,
                key_len: key_len as u32,
                payload_len: record.meta.payload_len() as u32,
                extent: record.meta.is_extent(),
                older: sight == Sight::Older,
                tombstone: record.meta.is_tombstone(),
            });
        }
        Some(passed)
    }

    fn fill_forward(
        self,
        cursor: &mut Cursor,
        standing: Standing,
        until: Bound<&[u8]>,
        view: View<'_>,
        batch: &mut Batch,
    ) -> Result<Fill> {
        let node = standing.reached.node;
        let page = self.page(node);
        let from = standing.next;
        // Records from `end` on are not wanted; `last` says that no later leaf has any either.
        let (end, last) = match until {
            Bound::Unbounded => (page.count(), false),
            Bound::Included(key) | Bound::Excluded(key) if page.covers(key) => {
                let found = page.find(key);
                let included = found.exact && matches!(until, Bound::Included(_));
                (found.at + usize::from(included), true)
            }
            // Not of this leaf: of a later one, or of an earlier one (a range that is empty).
            Bound::Included(key) | Bound::Excluded(key) => match page.lower() {
                Some(lower) if *key < lower[..] => (from, true),
                _ => (page.count(), false),
            },
        };
        let end = end.max(from);
        let wanted = Self::take_now(cursor, end - from);
        page.prefetch_records(from..from + wanted);
        let Some(passed) = self.copy_records(page, from..end, wanted, view, batch) else {
            self.torn(node, "record lies outside the page")?;
            return Ok(Fill::Restart);
        };
        let stop = from + passed;
        let fill = if stop < end {
            Fill::More
        } else if last {
            Fill::End
        } else if batch.len() > 0 && page.has_upper() {
            Fill::More
        } else {
            match page.upper() {
                Some(Some(fence)) => Fill::Fence(fence),
                Some(None) => Fill::End,
                None => Fill::Restart,
            }
        };
        self.filled(cursor, standing, stop, fill)
    }

    fn fill_backward(
        self,
        cursor: &mut Cursor,
        standing: Standing,
        until: Bound<&[u8]>,
        view: View<'_>,
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
                Some(lower) if *key < lower[..] => (0, false),
                _ => (top, true),
            },
        };
        let start = start.min(top);
        let wanted = Self::take_now(cursor, top - start);
        page.prefetch_records(top - wanted..top);
        let Some(passed) = self.copy_records(page, (start..top).rev(), wanted, view, batch) else {
            self.torn(node, "record lies outside the page")?;
            return Ok(Fill::Restart);
        };
        let stop = top - passed;
        let fill = if stop > start {
            Fill::More
        } else if last {
            Fill::End
        } else {
            match page.lower() {
                Some(fence) if fence.is_empty() => Fill::End,
                Some(_) if batch.len() > 0 => Fill::More,
                Some(fence) => Fill::Fence(fence),
                None => Fill::Restart,
            }
        };
        self.filled(cursor, standing, stop, fill)
    }

    /// What was copied counts if the leaf is as it was.
    fn filled(
        self,
        cursor: &mut Cursor,
        standing: Standing,
        next: usize,
        fill: Fill,
    ) -> Result<Fill> {
        if !self.valid(standing.reached.node) {
            return Ok(Fill::Restart);
        }
        cursor.standing = Some(Standing { next, ..standing });
        Ok(fill)
    }

    /// How many of `wanted` records to take now.
    fn take_now(cursor: &Cursor, wanted: usize) -> usize {
        if cursor.batches == 0 { wanted.min(FIRST_BATCH) } else { wanted }
    }
}
