//! Coming down from the root, optimistically.

use super::attempts::Attempts;
use super::{Btree, NodeAt, Reached};
use crate::error::Result;
use crate::id::{FrameId, PageId};
use crate::node::{ChildWord, Page};
use latchkv_latch::Version;
use latchkv_latch::primitives::Ordering;

/// Lines of an inner page that are asked for before it is visited: header, sampled heads, first slots. The
/// rest depends on the key.
const INNER_LINES: usize = 3;
/// Lines of a leaf that are asked for: also the slots of an ordinary leaf of 16 KiB. They are most likely in
/// no cache, and together they come as fast as one of them. Measured at 5 million records: 7 % of a point read
/// against four lines.
const LEAF_LINES: usize = 13;

/// How many lines of a child of a page of level `level` to ask for.
#[inline(always)]
pub(super) fn lines_below(level: u8) -> usize {
    if level > 1 { INNER_LINES } else { LEAF_LINES }
}

impl<'p> Btree<'p> {
    /// The root, at a version.
    #[inline(always)]
    fn reach_root(self) -> Result<NodeAt> {
        let word = self.root_word();
        let (frame, version) = match self.pool.reach_hinted(word) {
            Some(reached) => reached,
            None => {
                let reached =
                    self.pool.reach(word.page()).map_err(|error| error.in_tree(self.core.id))?;
                // Relaxed: a hint.
                let word = ChildWord::new(word.page(), reached.0);
                self.core.root_hint.store(word.0, Ordering::Relaxed);
                reached
            }
        };
        Ok(NodeAt { frame, version })
    }

    /// Child `at` of `parent`. `None`: the parent changed meanwhile, start again.
    ///
    /// The child is begun before the parent is validated, so the two were parent and child at one moment.
    #[inline(always)]
    pub(super) fn reach_child(self, parent: NodeAt, at: usize) -> Result<Option<NodeAt>> {
        self.reach_child_by(parent, at, |page| self.pool.reach(page))
    }

    /// As [`Btree::reach_child`]; a child that is not where its hint says is reached by `reach`.
    #[inline(always)]
    pub(super) fn reach_child_by(
        self,
        parent: NodeAt,
        at: usize,
        reach: impl FnOnce(PageId) -> Result<(FrameId, Version)>,
    ) -> Result<Option<NodeAt>> {
        let Some(slot) = self.page(parent).child_slot(at) else {
            self.torn(parent, "child slot lies outside the page")?;
            return Ok(None);
        };
        // Relaxed: R2.
        let child = ChildWord(slot.load(Ordering::Relaxed));
        self.pool.prefetch(child, lines_below(self.page(parent).level()));
        if let Some((frame, version)) = self.pool.reach_hinted(child) {
            return Ok(self.valid(parent).then_some(NodeAt { frame, version }));
        }
        // Not to load a page that a torn word names.
        if !self.valid(parent) {
            return Ok(None);
        }
        match reach(child.page()) {
            Ok((frame, version)) => {
                if !self.valid(parent) {
                    return Ok(None);
                }
                self.pool.repair_hint(parent.frame, parent.version, slot, child, frame);
                Ok(Some(NodeAt { frame, version }))
            }
            // The page may have been freed since.
            Err(error) if self.valid(parent) => Err(error.in_tree(self.core.id)),
            Err(_) => Ok(None),
        }
    }

    /// One descent to `level`, choosing children by `pick`. `None`: start again. A tree lower than `level`
    /// gives `None` too, after [`Btree::torn`] had its say.
    #[inline(always)]
    pub(super) fn try_descend(
        self,
        level: u8,
        pick: impl Fn(Page<'p>) -> usize,
    ) -> Result<Option<Reached>> {
        let mut node = self.reach_root()?;
        if self.page(node).tree() != self.core.id {
            self.torn(node, "root of another tree")?;
            return Ok(None);
        }
        let mut parent = None;
        let mut expected = None;
        loop {
            let page = self.page(node);
            let here = page.level();
            if expected.is_some_and(|expected| expected != here) {
                self.torn(node, "page is not one level below its parent")?;
                return Ok(None);
            }
            self.pool.reference(node.frame);
            if here <= level {
                return Ok((here == level).then_some(Reached { node, parent }));
            }
            let at = pick(page);
            let Some(child) = self.reach_child(node, at)? else { return Ok(None) };
            parent = Some((node, at));
            node = child;
            expected = Some(here - 1);
        }
    }

    /// The tree has no such level, or had none a moment ago: pages above it were merged or cleared away.
    pub(super) fn is_lower_than(self, level: u8) -> Result<bool> {
        let root = self.reach_root()?;
        let lower = self.page(root).level() < level;
        Ok(lower && self.valid(root))
    }

    /// Comes down to the leaf chosen by `pick`, as often as it takes.
    #[inline(always)]
    pub(super) fn descend(
        self,
        attempts: &mut Attempts<'p>,
        pick: impl Fn(Page<'p>) -> usize + Copy,
    ) -> Result<Reached> {
        loop {
            // By value: behind a reference it would be called, not inlined, at every level.
            if let Some(reached) = self.try_descend(0, pick)? {
                return Ok(reached);
            }
            attempts.again()?;
        }
    }

    /// Comes down to the leaf that covers `key`, for a change of it.
    #[inline(always)]
    pub(super) fn descend_to_change(
        self,
        attempts: &mut Attempts<'p>,
        key: &[u8],
    ) -> Result<Reached> {
        // Acquire: see the field.
        attempts.cleared_at = self.core.cleared_at.load(Ordering::Acquire);
        self.descend_to(attempts, key)
    }

    /// Comes down to the leaf that covers `key`.
    #[inline(always)]
    pub(super) fn descend_to(self, attempts: &mut Attempts<'p>, key: &[u8]) -> Result<Reached> {
        self.descend(attempts, |page| page.find_child(key))
    }
}
