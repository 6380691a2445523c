//! Runs: sorted writes of a transaction that did not fit its memory.
//!
//! A run is a tree like others, built packed and never changed, of pages that are provisional: no checkpoint has
//! them, so a crash leaks nothing, and no log knows of them. A deletion is a tombstone in it. A later run is over
//! an earlier one, as the memory is over all.
//!
//! ```text
//! memory       b        e'
//! run 1     a     -d          -d: deleted
//! run 0     a' c   d    e
//! said      a  b c -d   e'    merged: one pass over all of them
//! ```
//!
//! * [C1] Nobody but the transaction reaches a run. Its large values are its own until a leaf of another tree names
//!   them; then the run is given back without them.
//!
//! Tested by `engine/tests/transactions/large.rs`, against a `BTreeMap`.

use super::bulk::Built;
use super::journal::Journal;
use super::{Batch, BatchItem, Btree, Cursor, Edge, TreeCore, View};
use crate::error::Result;
use crate::id::{PageId, TreeId};
use crate::node::LeafPayload;
use crate::pool::{FrameX, Pool};
use latchkv_latch::primitives::Ordering;
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

/// What a run says of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said<V> {
    /// It has this value.
    Put(V),
    /// It is deleted.
    Deleted,
}

impl Said<()> {
    /// What a record of a run says.
    pub(crate) fn of(item: BatchItem) -> Said<()> {
        if item.is_tombstone() { Said::Deleted } else { Said::Put(()) }
    }
}

/// A run. To be given back by [`Run::free`].
#[derive(Debug)]
pub(crate) struct Run {
    /// Its tree.
    pub(crate) core: Arc<TreeCore>,
    pages: Vec<PageId>,
    extents: Vec<PageId>,
}

impl Run {
    /// Builds a run, meant for `tree`, of what `said` gives in strictly ascending order of the keys.
    pub(crate) fn build<'a>(
        pool: &Pool,
        tree: TreeId,
        said: impl Iterator<Item = (&'a [u8], Said<&'a [u8]>)>,
    ) -> Result<Run> {
        let mut reservation = pool.reserve_provisional(1)?;
        let root = reservation.create();
        Btree::format_root(root.page(), root.page_id(), tree);
        let core = TreeCore::new(tree, root.page_id(), 0);
        drop(root);
        drop(reservation);
        let mut built = Built::new();
        let made = Btree::new(pool, &core).build_run(&mut built, said);
        let run = Run { core: Arc::new(core), pages: built.pages, extents: built.extents };
        match made {
            Ok(()) => Ok(run),
            Err(error) => {
                run.free(pool, &HashSet::new());
                Err(error)
            }
        }
    }

    /// What it says of `key`; `None`: nothing.
    pub(crate) fn get(&self, pool: &Pool, key: &[u8]) -> Result<Option<Said<Vec<u8>>>> {
        let tree = Btree::new(pool, &self.core);
        if let Some(value) = tree.get_with(key, <[u8]>::to_vec)? {
            return Ok(Some(Said::Put(value)));
        }
        Ok(tree.lsn_of(key, View::Latest)?.map(|_| Said::Deleted))
    }

    /// Gives its pages back, and its large values but for those that are `used` elsewhere.
    pub(crate) fn free(self, pool: &Pool, used: &HashSet<PageId>) {
        let _inside = pool.gate().enter();
        let extents = self.extents.iter().filter(|page| !used.contains(page));
        for &page in self.pages.iter().chain(extents).chain([&self.core.root]) {
            pool.free_unloaded(page);
        }
    }
}

impl<'p> Btree<'p> {
    fn build_run<'a>(
        self,
        built: &mut Built,
        said: impl Iterator<Item = (&'a [u8], Said<&'a [u8]>)>,
    ) -> Result<()> {
        for (key, said) in said {
            match said {
                Said::Put(value) => self.build_value(built, key, value)?,
                Said::Deleted => self.build_payload(built, key, LeafPayload::Tombstone)?,
            }
        }
        self.build_top(built)?;
        let _inside = self.pool.gate().enter();
        loop {
            let (frame, version) = self.pool.reach(self.core.root)?;
            let Some(x) = self.pool.exclusive_at(frame, version) else { continue };
            if let Err(error) = self.touch(&x) {
                x.release_clean();
                return Err(error);
            }
            return self.form_root(x.page(), built);
        }
    }

    /// Builds the content of this tree from all that runs say, without touching it; `extents` gets the large values
    /// that it names. `None`: the runs say that something is deleted.
    pub(crate) fn build_from(
        self,
        merge: &Merge<'_>,
        extents: &mut Vec<PageId>,
    ) -> Result<Option<Content>> {
        let mut built = Built::new();
        let mut deletes = false;
        let made = merge
            .each(|key, payload| {
                match payload {
                    Some(LeafPayload::Extent { page, .. }) => extents.push(page),
                    Some(_) => {}
                    None => deletes = true,
                }
                match payload {
                    Some(payload) if !deletes => self.build_payload(&mut built, key, payload),
                    _ => Ok(()),
                }
            })
            .and_then(|()| self.build_top(&mut built));
        match made {
            Ok(()) if !deletes => Ok(Some(Content(built))),
            made => {
                self.drop_built(&built);
                made.map(|()| None)
            }
        }
    }

    /// Builds what this tree holds, as a view sees it, anew; large values are copied.
    pub(crate) fn build_copy(self, view: View<'_>) -> Result<Content> {
        let mut built = Built::new();
        match self.build_from_view(&mut built, view) {
            Ok(()) => Ok(Content(built)),
            Err(error) => {
                self.drop_built(&built);
                Err(error)
            }
        }
    }

    fn build_from_view(self, built: &mut Built, view: View<'_>) -> Result<()> {
        let mut cursor = Cursor::new(Edge::Front, Bound::Unbounded);
        let mut batch = Batch::default();
        let mut value = Vec::new();
        loop {
            self.next_batch(&mut cursor, Bound::Unbounded, view, &mut batch)?;
            if batch.len() == 0 {
                return self.build_top(built);
            }
            for at in 0..batch.len() {
                let item = batch.item(at);
                let (key, payload) = (batch.key(item), batch.payload(item));
                if !item.is_extent() {
                    self.build_value(built, key, payload)?;
                    continue;
                }
                let (page, len) = LeafPayload::extent_of(payload)
                    .ok_or_else(|| self.damage(self.core.root, "name of a large value"))?;
                value.clear();
                self.pool.store().read_value(page, len as usize, &mut value)?;
                self.build_value(built, key, &value)?;
            }
        }
    }

    /// Makes `content`, and the large values that it names, that of this tree. False: the tree holds something.
    pub(crate) fn fill(
        self,
        content: &Content,
        extents: &[PageId],
        journal: &mut impl Journal,
    ) -> Result<bool> {
        let filled = self.install(&content.0, journal)?;
        if filled {
            self.pool.adopt(extents);
        }
        Ok(filled)
    }

    /// Makes `content` that of this tree, of whose root nothing is needed any more. The caller keeps the gate closed.
    pub(super) fn put_content(self, root: &FrameX<'_>, content: &Content, lsn: u64) -> Result<()> {
        let Content(built) = content;
        // Relaxed: see the field.
        self.core.filled_at.store(lsn, Ordering::Relaxed);
        self.form_root(root.page(), built)?;
        self.pool.adopt(&built.pages);
        self.pool.adopt(&built.extents);
        self.core.lengths.set(built.records);
        Ok(())
    }

    /// Gives back what was built and not used.
    pub(crate) fn drop_content(self, content: &Content) {
        self.drop_built(&content.0);
    }
}

/// The content of a tree, built and not yet in place.
pub(crate) struct Content(Built);

impl Content {
    /// Number of its pages.
    pub(crate) fn pages(&self) -> usize {
        self.0.pages.len()
    }
}

/// Goes through runs as through one.
pub(crate) struct Merge<'p> {
    pool: &'p Pool,
    /// The latest first.
    runs: Vec<&'p Run>,
}

/// One run, and where it is.
struct Reader<'p> {
    tree: Btree<'p>,
    cursor: Cursor,
    batch: Batch,
    at: usize,
}

impl Reader<'_> {
    /// The next key, if there is one.
    fn peek(&mut self) -> Result<Option<&[u8]>> {
        if self.at == self.batch.len() && !self.cursor.is_done() {
            let view = View::Changed { since: 0 };
            self.tree.next_batch(&mut self.cursor, Bound::Unbounded, view, &mut self.batch)?;
            self.at = 0;
        }
        let some = self.at < self.batch.len();
        Ok(some.then(|| self.batch.key(self.batch.item(self.at))))
    }
}

impl<'p> Merge<'p> {
    /// All of `runs`, the earliest first.
    pub(crate) fn new(pool: &'p Pool, runs: &'p [Run]) -> Merge<'p> {
        Merge { pool, runs: runs.iter().rev().collect() }
    }

    /// Calls `f` for each key that something is said of, ascending; `None` stands for a deletion.
    pub(crate) fn each(
        &self,
        mut f: impl FnMut(&[u8], Option<LeafPayload<'_>>) -> Result<()>,
    ) -> Result<()> {
        let mut readers: Vec<Reader<'_>> = self
            .runs
            .iter()
            .map(|run| Reader {
                tree: Btree::new(self.pool, &run.core),
                cursor: Cursor::new(Edge::Front, Bound::Unbounded),
                batch: Batch::default(),
                at: 0,
            })
            .collect();
        let mut key = Vec::new();
        loop {
            let mut first: Option<usize> = None;
            for index in 0..readers.len() {
                // A later run is before an earlier one, so of equal keys it is the one that stays.
                let (before, rest) = readers.split_at_mut(index);
                let Some(next) = rest[0].peek()? else { continue };
                let least = match first {
                    Some(first) => before[first].peek()?,
                    None => None,
                };
                if least.is_none_or(|least| next < least) {
                    first = Some(index);
                }
            }
            let Some(first) = first else { return Ok(()) };
            key.clear();
            key.extend_from_slice(readers[first].peek()?.unwrap_or_default());
            let (upper, lower) = readers.split_at_mut(first + 1);
            let reader = &mut upper[first];
            let item = reader.batch.item(reader.at);
            reader.at += 1;
            // What earlier runs say of the key is passed over.
            for reader in lower {
                if reader.peek()? == Some(&key[..]) {
                    reader.at += 1;
                }
            }
            let payload = match said_by(&reader.batch, item) {
                Some(Said::Put(payload)) => Some(payload),
                Some(Said::Deleted) => None,
                None => {
                    let error = reader.tree.damage(reader.tree.core.root, "name of a large value");
                    return Err(error);
                }
            };
            f(&key, payload)?;
        }
    }
}

fn said_by(batch: &Batch, item: BatchItem) -> Option<Said<LeafPayload<'_>>> {
    Some(match Said::of(item) {
        Said::Deleted => Said::Deleted,
        Said::Put(()) if item.is_extent() => {
            let (page, len) = LeafPayload::extent_of(batch.payload(item))?;
            Said::Put(LeafPayload::Extent { page, len })
        }
        Said::Put(()) => Said::Put(LeafPayload::Inline(batch.payload(item))),
    })
}
