//! B+-trees over the buffer pool.
//!
//! Readers and writers come down by optimistic lock coupling: begin the child, then validate the parent. A
//! reader does no read-modify-write, but to repair a hint or to park; it stores a reference bit that is
//! clear. An update upgrades only its leaf; a full node is split, an underfull one merged, by a pass of its
//! own from above that latches parent, then node, then sibling. The root keeps its page id for the life of
//! the tree, and there are no sibling links: a scan goes on by the fence key of the leaf that it leaves.
//!
//! * [T1] A value read optimistically is used only after the latch of its page validated.
//! * [T2] `find` is asked only for keys between the page's fences: a descent whose every step
//!   validated ends at such a page.
//! * [T3] Order: ticket, gate, reservation, latches. No thread waits for a frame or a load while it holds a
//!   latch: pages are made resident and frames reserved first.
//! * [T4] A change is made inside the gate, after [`Pool::touch`], and nothing can fail between its first
//!   store and its last.
//! * [T5] Levels fall by one a step, so that no damaged file leads a descent in a circle.
//! * [T6] A clear moves the root's content to another tree and leaves the versions of the pages below as they
//!   are. So a change that came down before it enters the gate goes on only if no clear came between
//!   ([`Btree::enter_for_change`]).
//!
//! Optimistic lock coupling: Leis et al., "The ART of Practical Synchronization" (DaMoN 2016) and "Optimistic
//! Lock Coupling" (IEEE Data Eng. Bull. 2019).
//!
//! Tested through the public API against a `BTreeMap` (`engine/tests`), with tiny pools and every page size.

mod ahead;
mod apply;
mod attempts;
mod bulk;
mod descend;
mod destroy;
mod journal;
mod lengths;
#[cfg(feature = "measure")]
mod measure;
mod prepare;
mod purge;
mod read;
mod salvage;
mod run;
mod scan;
mod smo;
mod view;
mod write;

pub(crate) use apply::{Applying, Conflicts};
pub(crate) use journal::{Filled, Journal, Stamp, Unversioned};
pub(crate) use lengths::Lengths;
pub(crate) use prepare::Prepared;
pub(crate) use run::{Content, Merge, Run, Said};
pub(crate) use salvage::{
    LostRange, SalvageCursor, SalvagedRecord, SalvagedValue, Step as SalvageStep, is_of_a_page,
    records_from,
};
pub(crate) use scan::{Batch, BatchItem, Cursor, Edge};
pub(crate) use view::View;
pub(crate) use write::{Staged, Swap};

use crate::error::{Error, Result};
use crate::id::{FrameId, PageId, TreeId};
use crate::node::{self, ChildWord};
use crate::pool::{FrameX, Pool};
use attempts::Attempts;
use latchkv_latch::primitives::{AtomicBool, AtomicU64, Ordering};
use latchkv_latch::{Inside, Version};

/// What all handles of one tree share.
#[derive(Debug)]
pub(crate) struct TreeCore {
    /// Its id.
    pub(crate) id: TreeId,
    /// Its root, for ever.
    pub(crate) root: PageId,
    /// The root's child word. Relaxed everywhere: a stale hint is found out by the frame header, and any
    /// thread may put in what it found.
    root_hint: AtomicU64,
    /// Number of records.
    pub(crate) lengths: Lengths,
    /// Lsn of the last clear. Stored with the gate closed and the root under X, from before the root is emptied:
    /// Release, which pairs with the Acquire of who loads it before a descent, so whoever sees a clear comes down
    /// through the root that it left. Loaded Relaxed once inside the gate, or once the root was read: gate and
    /// latch carry the edge then.
    cleared_at: AtomicU64,
    /// Lsn of the last commit that filled the tree at once, whose records carry no lsn of their own: snapshots
    /// of before see an empty tree, or that it was cleared, if it was not empty before. Stored under X of the root, before it is filled, and loaded after it was read:
    /// Relaxed, the latch carries the edge.
    filled_at: AtomicU64,
    /// Set inside the gate, which is closed once afterwards, before any page is freed: whoever enters then sees it,
    /// and whoever was inside has left. Relaxed: the gate carries the edge for writers, and a reader that misses it
    /// meets a root that is gone.
    dropped: AtomicBool,
}

impl TreeCore {
    /// A tree of `length` records.
    pub(crate) fn new(id: TreeId, root: PageId, length: u64) -> TreeCore {
        TreeCore {
            id,
            root,
            root_hint: AtomicU64::new(ChildWord::unhinted(root).0),
            lengths: Lengths::new(length),
            cleared_at: AtomicU64::new(0),
            filled_at: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
        }
    }

    /// The tree is gone.
    #[inline(always)]
    pub(crate) fn is_dropped(&self) -> bool {
        // Relaxed: see the field.
        self.dropped.load(Ordering::Relaxed)
    }

    /// The tree is gone from now on. The caller is inside the gate, and closes it before it frees a page.
    pub(crate) fn set_dropped(&self) {
        // Relaxed: see the field.
        self.dropped.store(true, Ordering::Relaxed);
    }
}

/// How a change gets into the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GateMode {
    /// By entering it for each step.
    Enter,
    /// The caller is inside for longer than this change.
    Held,
    /// The caller is inside, and the change is of a commit that the log has already: it goes on where another
    /// would rather fail.
    Committed,
}

/// A tree and the pool it lives in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Btree<'p> {
    pool: &'p Pool,
    core: &'p TreeCore,
    gate: GateMode,
}

/// A page reached optimistically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeAt {
    frame: FrameId,
    version: Version,
}

/// A page reached optimistically, and the place in its parent it was reached by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    node: NodeAt,
    /// Parent and the index of the child in it; the root has none.
    parent: Option<(NodeAt, usize)>,
}

impl<'p> Btree<'p> {
    /// A tree whose changes enter the gate.
    #[inline(always)]
    pub(crate) fn new(pool: &'p Pool, core: &'p TreeCore) -> Btree<'p> {
        Btree { pool, core, gate: GateMode::Enter }
    }

    /// A tree changed by a thread that is inside the gate already.
    pub(crate) fn within_gate(pool: &'p Pool, core: &'p TreeCore) -> Btree<'p> {
        Btree { pool, core, gate: GateMode::Held }
    }

    /// A tree to which a thread that is inside the gate applies what the log has.
    pub(crate) fn of_commit(pool: &'p Pool, core: &'p TreeCore) -> Btree<'p> {
        Btree { pool, core, gate: GateMode::Committed }
    }

    fn attempts(self) -> Attempts<'p> {
        Attempts::new(self.pool, self.gate == GateMode::Enter)
    }

    /// Enters the gate. What is dropped stays as it is. The caller holds no latch.
    #[inline(always)]
    fn enter(self) -> Result<Option<Inside<'p>>> {
        if self.gate != GateMode::Committed {
            self.pool.leave_some_clean()?;
        }
        let inside = match self.gate {
            GateMode::Enter => Some(self.pool.gate().enter()),
            GateMode::Held | GateMode::Committed => None,
        };
        self.check_alive()?;
        Ok(inside)
    }

    /// Enters the gate for a change of a page that was reached since `attempts` noted the last clear. `None`: the
    /// tree was cleared meanwhile, and the page may be none of it any more ([T6]).
    #[inline(always)]
    fn enter_for_change(self, attempts: &Attempts<'p>) -> Result<Option<Option<Inside<'p>>>> {
        let inside = self.enter()?;
        // Relaxed: see the field.
        let same = self.core.cleared_at.load(Ordering::Relaxed) == attempts.cleared_at;
        Ok(same.then_some(inside))
    }

    /// Enters the gate and latches a leaf that was reached since `attempts` noted the last clear; the page is
    /// touched. `None`: it moved on, or the tree was cleared.
    fn latch_for_change(
        self,
        attempts: &Attempts<'p>,
        leaf: NodeAt,
    ) -> Result<Option<(Option<Inside<'p>>, FrameX<'p>)>> {
        let Some(inside) = self.enter_for_change(attempts)? else { return Ok(None) };
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else { return Ok(None) };
        if let Err(error) = self.touch(&x) {
            x.release_clean();
            return Err(error);
        }
        Ok(Some((inside, x)))
    }

    /// Fails if the tree was dropped. Stays true while the caller is inside the gate or holds off data
    /// definition.
    ///
    /// A change of a commit goes on: a drop beside it frees no page before the commit has left the gate.
    #[inline(always)]
    pub(crate) fn check_alive(self) -> Result<()> {
        if self.core.is_dropped() && self.gate != GateMode::Committed {
            Err(self.damage(self.core.root, "tree was dropped"))
        } else {
            Ok(())
        }
    }

    /// [`Pool::touch`], as this tree's changes want it.
    #[inline(always)]
    fn touch(self, x: &FrameX<'_>) -> Result<()> {
        self.pool.touch(x, self.gate == GateMode::Committed)
    }

    #[inline(always)]
    fn page(self, at: NodeAt) -> node::Page<'p> {
        self.pool.page(at.frame)
    }

    #[inline(always)]
    fn valid(self, at: NodeAt) -> bool {
        self.pool.latch(at.frame).validate(at.version)
    }

    /// Something read from `at` makes no sense: fine if the page changed meanwhile, damage if it did not.
    #[cold]
    fn torn(self, at: NodeAt, what: &'static str) -> Result<()> {
        let page = self.page(at).page_id();
        if self.valid(at) { Err(self.damage(page, what)) } else { Ok(()) }
    }

    #[cold]
    pub(crate) fn damage(self, page: PageId, what: &'static str) -> Error {
        let error = self.pool.store().corrupt(page, what, String::new(), String::new());
        error.in_tree(self.core.id)
    }

    /// Formats the root as an empty leaf. For a tree whose root page was just created.
    pub(crate) fn format_root(page: node::Page<'_>, root: PageId, tree: TreeId) {
        page.format(0, root, tree, b"", None);
    }

    fn root_word(self) -> ChildWord {
        // Relaxed: a hint.
        ChildWord(self.core.root_hint.load(Ordering::Relaxed))
    }
}
