//! Merging an underfull node with a sibling under the same parent, and lowering the root.
//!
//! ```text
//! parent  [ .. s k2 .. ]                parent  [ .. k2 .. ]
//!             |  |           ->                     |
//!         [left][right]                          [left]
//! ```
//! The right page leaves the tree and is freed. A merge that does not fit, or that would leave a page nearly
//! full, is not done.

use super::SPARSE_PERCENT;
use crate::btree::attempts::Attempts;
use crate::btree::{Btree, NodeAt, Reached};
use crate::error::Result;
use crate::node::{merge, merge_fits};
use crate::pool::FrameX;

/// Two siblings are merged if together they are no fuller than this, in percent of a page.
const MERGED_PERCENT_MAX: usize = 85;
/// Tries before a merge is left to the next delete.
const TRIES: usize = 8;

/// How a try to merge ended.
enum Merge {
    /// Nothing to do, or done; the parent is not sparse.
    Done,
    /// Done, and the parent may want a merge of its own.
    ParentSparse,
    Restart,
}

impl<'p> Btree<'p> {
    /// Merges the node at `level` that covers `key` with a sibling if both fit, and goes on upwards. The
    /// caller holds no latch and is outside the gate, unless it holds the gate for longer.
    pub(in crate::btree) fn merge_at(
        self,
        attempts: &mut Attempts<'p>,
        key: &[u8],
        mut level: u8,
    ) -> Result<()> {
        let mut tries = 0;
        while tries < TRIES {
            match self.try_merge(key, level)? {
                Merge::Done => return Ok(()),
                Merge::ParentSparse => {
                    level += 1;
                    tries = 0;
                }
                Merge::Restart => {
                    tries += 1;
                    attempts.again()?;
                }
            }
        }
        Ok(())
    }

    fn try_merge(self, key: &[u8], level: u8) -> Result<Merge> {
        let Some(reached) = self.try_descend(level, |page| page.find_child(key))? else {
            return Ok(if self.is_lower_than(level)? { Merge::Done } else { Merge::Restart });
        };
        let Some((parent, at)) = reached.parent else { return self.lower_root(reached.node) };
        let children = self.page(parent).count() + 1;
        if children < 2 {
            // No sibling here: the parent wants one itself, or is a root to be lowered.
            return Ok(if self.valid(parent) { Merge::ParentSparse } else { Merge::Restart });
        }
        // The sibling to the right, or to the left of the last.
        let left_at = if at + 1 < children { at } else { at - 1 };
        let sibling_at = if left_at == at { at + 1 } else { left_at };
        let Some(sibling) = self.reach_child(parent, sibling_at)? else {
            return Ok(Merge::Restart);
        };
        let (left, right) =
            if left_at == at { (reached.node, sibling) } else { (sibling, reached.node) };
        self.merge_pair(parent, left_at, left, right, reached)
    }

    fn merge_pair(
        self,
        parent: NodeAt,
        left_at: usize,
        left: NodeAt,
        right: NodeAt,
        reached: Reached,
    ) -> Result<Merge> {
        let _inside = self.enter()?;
        let Some([parent, left, right]) = self.latch_all([parent, left, right]) else {
            return Ok(Merge::Restart);
        };
        let keep = |outcome: Result<Merge>, nodes: [FrameX<'p>; 3]| {
            nodes.into_iter().for_each(FrameX::release_clean);
            outcome
        };
        let node = if left.frame() == reached.node.frame { &left } else { &right };
        let worth = node.page().fill_percent() < SPARSE_PERCENT
            && left.page().fill_percent() + right.page().fill_percent() <= MERGED_PERCENT_MAX;
        let separator = parent.page().key(left_at);
        let fits = separator
            .as_deref()
            .and_then(|separator| merge_fits(left.page(), right.page(), separator));
        let (Some(separator), Some(fits)) = (separator, fits) else {
            let error = self.damage(parent.page_id(), "siblings that do not belong together");
            return keep(Err(error), [parent, left, right]);
        };
        if !worth || !fits {
            return keep(Ok(Merge::Done), [parent, left, right]);
        }
        let touched = [&parent, &left, &right].into_iter().try_for_each(|x| self.touch(x));
        if let Err(error) = touched {
            return keep(Err(error), [parent, left, right]);
        }
        merge(left.page(), right.page(), &separator)
            .ok_or_else(|| self.damage(left.page_id(), "siblings that cannot be merged"))?;
        parent.page().remove_child_behind(left_at);
        self.pool.free(right);
        drop(left);
        let sparse = parent.page().count() == 0 || parent.page().fill_percent() < SPARSE_PERCENT;
        Ok(if sparse { Merge::ParentSparse } else { Merge::Done })
    }

    /// All of `nodes` under X, in order, or none.
    fn latch_all<const N: usize>(self, nodes: [NodeAt; N]) -> Option<[FrameX<'p>; N]> {
        let mut latched = Vec::with_capacity(N);
        for node in nodes {
            match self.pool.exclusive_at(node.frame, node.version) {
                Some(x) => latched.push(x),
                None => {
                    latched.into_iter().for_each(FrameX::release_clean);
                    return None;
                }
            }
        }
        Some(latched.try_into().expect("one latch a node"))
    }

    /// A root whose only child is its upper child takes that child's content.
    fn lower_root(self, root: NodeAt) -> Result<Merge> {
        let page = self.page(root);
        if page.level() == 0 || page.count() > 0 {
            return Ok(Merge::Done);
        }
        let Some(child) = self.reach_child(root, 0)? else { return Ok(Merge::Restart) };
        let _inside = self.enter()?;
        let Some([root, child]) = self.latch_all([root, child]) else { return Ok(Merge::Restart) };
        let touched = self.touch(&root).and_then(|()| self.touch(&child));
        if let Err(error) = touched {
            child.release_clean();
            root.release_clean();
            return Err(error);
        }
        root.page().copy_from(child.page(), root.page_id());
        self.pool.free(child);
        Ok(Merge::Done)
    }
}
