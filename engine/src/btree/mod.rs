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

mod attempts;
mod bulk;
mod descend;
mod destroy;
mod lengths;
#[cfg(feature = "measure")]
mod measure;
mod read;
mod salvage;
mod scan;
mod smo;
mod write;

pub(crate) use lengths::Lengths;
pub(crate) use salvage::{
    LostRange, SalvageCursor, SalvagedRecord, SalvagedValue, Step as SalvageStep, is_of_a_page,
    records_from,
};
pub(crate) use scan::{Batch, Cursor, Edge};
pub(crate) use write::Swap;

use crate::error::{Error, Result};
use crate::id::{FrameId, PageId, TreeId};
use crate::node::{self, ChildWord};
use crate::pool::Pool;
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
    /// How often the tree was cleared; moves inside the closed gate, after the root was emptied. Loaded with
    /// Acquire before a descent, which pairs with the Release here: whoever sees a clear comes down through
    /// the root that it left. Loaded Relaxed once inside, where the gate carries the edge.
    clears: AtomicU64,
    /// Set inside the closed gate, so that no change straddles it. Relaxed: the gate carries the edge for
    /// writers, and a reader that misses it meets a root that is gone.
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
            clears: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
        }
    }

    /// The tree is gone.
    #[inline(always)]
    pub(crate) fn is_dropped(&self) -> bool {
        // Relaxed: see the field.
        self.dropped.load(Ordering::Relaxed)
    }

    /// The tree is gone from now on; the caller keeps the gate closed.
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

    fn attempts(self) -> Attempts<'p> {
        Attempts::new(self.pool, self.gate == GateMode::Enter)
    }

    /// Enters the gate. What is dropped stays as it is. The caller holds no latch.
    #[inline(always)]
    fn enter(self) -> Result<Option<Inside<'p>>> {
        self.pool.leave_some_clean()?;
        let inside = match self.gate {
            GateMode::Enter => Some(self.pool.gate().enter()),
            GateMode::Held => None,
        };
        self.check_alive()?;
        Ok(inside)
    }

    /// Enters the gate for a change of a page that was reached since `attempts` noted the clears. `None`: the
    /// tree was cleared meanwhile, and the page may be none of it any more ([T6]).
    #[inline(always)]
    fn enter_for_change(self, attempts: &Attempts<'p>) -> Result<Option<Option<Inside<'p>>>> {
        let inside = self.enter()?;
        // Relaxed: see the field.
        let same = self.core.clears.load(Ordering::Relaxed) == attempts.clears;
        Ok(same.then_some(inside))
    }

    /// Fails if the tree was dropped. Stays true while the caller is inside the gate or holds off data
    /// definition.
    #[inline(always)]
    pub(crate) fn check_alive(self) -> Result<()> {
        if self.core.is_dropped() {
            Err(self.damage(self.core.root, "tree was dropped"))
        } else {
            Ok(())
        }
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
    fn damage(self, page: PageId, what: &'static str) -> Error {
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
