//! Reading leaves ahead of those who come to them in the order of their keys.
//!
//! ```text
//!  level 1        [ ... | 7 | 8 | 9 | 10 | 11 | ... ]
//!  scan                   miss miss      a miss right behind a miss: 8 to 11 are read as one batch
//!  changes          k k   k     k k  k   leaves are loaded one by one: those that the next keys lead to are read
//! ```
//!
//! Both begin only once pages had to be waited for, so who stays in memory pays nothing, or the look at a counter.
//! Both name the children of one page of level 1 at one version of it. That is all they know: a page that is gone
//! by then, or cannot be read, is left to who comes to it ([A4] of `pool::ahead`), and so is every error met on the
//! way.
//!
//! Tested by `engine/tests/read_ahead.rs`.

use super::{Btree, Edge, NodeAt};
use crate::error::Result;
use crate::id::PageId;
use crate::node::Page;
use std::ops::{Bound, RangeInclusive};

/// Pages of the first batch of a scan; each later one is twice as long.
const SIBLINGS_FIRST: usize = 4;
/// Pages of its longest batch.
const SIBLINGS_MAX: usize = 32;
/// How often in a row [`Btree::read_leaves`] fails before it gives up.
const FAILURES_MAX: usize = 16;
/// Loads after which sorted keys look for more pages to come.
const LOADS_FEW: u64 = 2;

/// The leaves that a scan had to wait for last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Siblings {
    parent: Option<PageId>,
    /// The child with which they would go on; `None`: one of the next parent.
    next: Option<usize>,
    /// Pages of the last batch; 0: the last miss was the first.
    len: usize,
}

/// Reads ahead for items whose keys ascend. See [`Btree::ahead`].
#[derive(Debug)]
pub(crate) struct Ahead<'p> {
    tree: Btree<'p>,
    /// Items before it have been looked at.
    seen: usize,
    /// Loads of the pool when that was done last.
    loads: u64,
    /// Pages came in by it.
    cold: bool,
}

impl<'p> Btree<'p> {
    /// For who comes to the leaves of ascending keys, one after the other.
    pub(crate) fn ahead(self) -> Ahead<'p> {
        Ahead { tree: self, seen: 0, loads: self.pool.loads(), cold: false }
    }

    /// Reads the leaves that the keys of `items`, which ascend, lead to, up to about `pages_max` of them: for a thread
    /// of its own beside the one that comes to them.
    pub(crate) fn read_leaves<T>(
        self,
        items: &[T],
        key: impl Copy + for<'a> Fn(&'a T) -> &'a [u8],
        pages_max: usize,
    ) {
        let (mut at, mut read, mut failures) = (0, 0, 0);
        while at < items.len() && read < pages_max && failures < FAILURES_MAX {
            match self.leaves_of(&items[at..], key) {
                Ok(Some((pages, seen))) if seen > 0 => {
                    read += self.pool.read_ahead(&pages);
                    at += seen;
                    failures = 0;
                }
                // The other thread has split a leaf just now, or will meet an error.
                _ => failures += 1,
            }
        }
    }

    /// The pages that the first of `items` lead to, as many as are read at a time, and how many items that are.
    /// `None`: it did not come off.
    fn leaves_of<T>(
        self,
        items: &[T],
        key: impl for<'a> Fn(&'a T) -> &'a [u8],
    ) -> Result<Option<(Vec<PageId>, usize)>> {
        let Some(first) = items.first() else { return Ok(None) };
        let reached = self.try_descend(1, |page: Page<'p>| page.find_child(key(first)))?;
        let Some(parent) = reached.map(|reached| reached.node) else { return Ok(None) };
        let page = self.page(parent);
        let pages_max = self.pool.read_ahead_max();
        let (mut pages, mut seen) = (Vec::with_capacity(pages_max), 0);
        while let Some(item) = items.get(seen).filter(|item| page.covers(key(item))) {
            if pages.len() == pages_max {
                break;
            }
            let at = page.find_child(key(item));
            pages.push(page.child(at).page());
            let rest = &items[seen..];
            let of_leaf = match page.key(at) {
                Some(end) => leading(rest, |item| key(item) < &end[..]),
                None => leading(rest, |item| page.covers(key(item))),
            };
            seen += of_leaf.max(1);
        }
        Ok(self.valid(parent).then_some((pages, seen)))
    }

    /// A scan has to wait for child `at` of `parent`: reads it together with those behind it, if that is not the first
    /// one, but none that lies past `until`.
    #[cold]
    pub(super) fn read_siblings(
        self,
        siblings: &mut Siblings,
        edge: Edge,
        (parent, at): (NodeAt, usize),
        until: Bound<&[u8]>,
    ) {
        let page = self.page(parent);
        let (id, count) = (page.page_id(), page.count());
        let goes_on = match siblings.next {
            Some(next) => siblings.parent == Some(id) && next == at,
            None => siblings.parent.is_some_and(|parent| parent != id),
        };
        let len = match (goes_on, siblings.len) {
            (false, _) => 1,
            (true, 0) => SIBLINGS_FIRST,
            (true, len) => (2 * len).min(SIBLINGS_MAX),
        };
        let len = len.min(self.pool.read_ahead_max());
        let wanted = wanted_children(page, edge, at, until);
        let (first, last) = match edge {
            Edge::Front => (at, *wanted.end().min(&(at + len.max(1) - 1))),
            Edge::Back => (*wanted.start().max(&(at + 1).saturating_sub(len.max(1))), at),
        };
        let pages: Vec<PageId> = (first..=last).map(|at| page.child(at).page()).collect();
        if !self.valid(parent) {
            return;
        }
        let next = match edge {
            Edge::Front => (last < count).then_some(last + 1),
            Edge::Back => first.checked_sub(1),
        };
        *siblings = Siblings { parent: Some(id), next, len: if len > 1 { len } else { 0 } };
        if len > 1 {
            self.pool.read_ahead(&pages);
        }
    }
}

/// The children of `page` that a scan may come to from child `at` on.
fn wanted_children(
    page: Page<'_>,
    edge: Edge,
    at: usize,
    until: Bound<&[u8]>,
) -> RangeInclusive<usize> {
    let (Bound::Included(key) | Bound::Excluded(key)) = until else { return 0..=page.count() };
    if !page.covers(key) {
        return 0..=page.count();
    }
    match (edge, until) {
        (Edge::Front, Bound::Excluded(_)) => 0..=page.find_child_below(key).max(at),
        (Edge::Front, _) => 0..=page.find_child(key).max(at),
        (Edge::Back, _) => page.find_child(key).min(at)..=page.count(),
    }
}

impl Ahead<'_> {
    /// To be called before `items[at]` is come to. Reads ahead if pages had to be waited for lately.
    #[inline(always)]
    pub(crate) fn come_to<T>(
        &mut self,
        at: usize,
        items: &[T],
        key: impl for<'a> Fn(&'a T) -> &'a [u8],
    ) {
        if at >= self.seen && (self.cold || self.tree.pool.loads() >= self.loads + LOADS_FEW) {
            self.look(at, items, key);
        }
    }

    #[cold]
    fn look<T>(&mut self, at: usize, items: &[T], key: impl for<'a> Fn(&'a T) -> &'a [u8]) {
        let pool = self.tree.pool;
        let leaves = match pool.read_ahead_max() {
            0 => None,
            // Who comes to the leaf meets the error itself.
            _ => self.tree.leaves_of(&items[at..], key).unwrap_or(None),
        };
        let (pages, seen) = leaves.unwrap_or_default();
        self.cold = pool.read_ahead(&pages) > 0;
        self.seen = at + seen.max(1);
        self.loads = pool.loads();
    }
}

/// How many of the first items, which are ahead of all others, `belongs` is true of; found by ever longer steps, since
/// most often there are few.
pub(super) fn leading<T>(items: &[T], belongs: impl Fn(&T) -> bool) -> usize {
    let mut known = 0;
    let mut step = 1;
    while let Some(item) = items.get(known + step - 1) {
        if !belongs(item) {
            break;
        }
        known += step;
        step *= 2;
    }
    let end = items.len().min(known + step - 1);
    known + items[known..end].partition_point(belongs)
}
