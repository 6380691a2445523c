//! Taking a detached tree apart: one that no handle reaches any more.
//!
//! From the last leaf to the first, one leaf a step, each step inside the gate and leaving a tree that can be
//! taken apart further, so that it goes on after a crash from wherever it was. An inner page that loses its
//! only child becomes an empty leaf and goes with the next step.

use super::{Btree, Content, NodeAt};
use crate::error::Result;
use crate::id::PageId;
use crate::node::Kind;
use crate::pool::FrameX;
use latchkv_latch::primitives::Ordering;

/// How a step ended.
enum Step {
    Restart,
    Further,
    /// The root is an empty leaf, and all that is left.
    Emptied,
}

impl<'p> Btree<'p> {
    /// Frees every page of the tree but the root, which is an empty leaf then.
    pub(crate) fn destroy(self) -> Result<()> {
        let mut attempts = self.attempts();
        loop {
            match self.destroy_last_leaf()? {
                Step::Restart => attempts.again()?,
                Step::Further => {}
                Step::Emptied => return Ok(()),
            }
        }
    }

    fn destroy_last_leaf(self) -> Result<Step> {
        let (frame, version) = self.pool.reach(self.core.root)?;
        let mut node = NodeAt { frame, version };
        let mut parent: Option<NodeAt> = None;
        loop {
            let page = self.page(node);
            let level = page.level();
            if page.tree() != self.core.id {
                self.torn(node, "page of another tree")?;
                return Ok(Step::Restart);
            }
            if page.kind() == Some(Kind::Leaf) {
                return self.free_leaf(parent, node);
            }
            let Some(child) = self.reach_child(node, page.count())? else {
                return Ok(Step::Restart);
            };
            if self.page(child).level() >= level {
                self.torn(child, "page is not below its parent")?;
                return Ok(Step::Restart);
            }
            parent = Some(node);
            node = child;
        }
    }

    fn free_leaf(self, parent: Option<NodeAt>, leaf: NodeAt) -> Result<Step> {
        let _inside = self.pool.gate().enter();
        let parent_x = match parent {
            None => None,
            Some(parent) => match self.pool.exclusive_at(parent.frame, parent.version) {
                Some(x) => Some(x),
                None => return Ok(Step::Restart),
            },
        };
        let Some(x) = self.pool.exclusive_at(leaf.frame, leaf.version) else {
            if let Some(parent) = parent_x {
                parent.release_clean();
            }
            return Ok(Step::Restart);
        };
        // What will be changed: the parent of a leaf that is freed, or the root.
        let changed = parent_x.as_ref().unwrap_or(&x);
        let ready = self.extents_of(&x).and_then(|extents| {
            self.touch(changed)?;
            Ok(extents)
        });
        let extents = match ready {
            Ok(extents) => extents,
            Err(error) => {
                x.release_clean();
                if let Some(parent) = parent_x {
                    parent.release_clean();
                }
                return Err(error);
            }
        };
        let step = match parent_x {
            None => {
                Btree::format_root(x.page(), x.page_id(), self.core.id);
                drop(x);
                Step::Emptied
            }
            Some(parent) => {
                self.pool.free(x);
                self.remove_last_child(&parent);
                drop(parent);
                Step::Further
            }
        };
        // With no latch held: a damaged record may name one of these pages.
        for extent in extents {
            self.pool.free_unloaded(extent);
        }
        Ok(step)
    }

    /// Takes the last child word out of an inner page; with the only one it becomes an empty leaf.
    fn remove_last_child(self, parent: &FrameX<'_>) {
        let page = parent.page();
        match page.count().checked_sub(1) {
            Some(last) => {
                page.set_child(last + 1, page.child(last));
                page.remove(last);
            }
            None => {
                let lower = page.lower().unwrap_or_default();
                page.format(
                    0,
                    parent.page_id(),
                    self.core.id,
                    &lower,
                    page.upper().flatten().as_deref(),
                );
            }
        }
    }

    fn extents_of(self, x: &FrameX<'_>) -> Result<Vec<PageId>> {
        let mut extents = Vec::new();
        for at in 0..x.page().count() {
            extents.extend(self.extent_at(x.page(), at)?);
        }
        Ok(extents)
    }

    /// Moves the content of the root to page `to`, an empty leaf, and leaves an empty tree, or one that holds
    /// `instead`: whoever reads sees the one or the other. The caller keeps the gate closed. `ready` runs when
    /// nothing else can fail but by damage, and gives the lsn.
    pub(crate) fn move_root_to(
        self,
        to: PageId,
        instead: Option<&Content>,
        mut ready: impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        let mut attempts = self.attempts();
        loop {
            let (target, target_at) = self.pool.reach(to)?;
            let (root, root_at) = self.pool.reach(self.core.root)?;
            // Root first, as everywhere; nobody else but evictors is about.
            if let Some(root) = self.pool.exclusive_at(root, root_at) {
                if let Some(target) = self.pool.exclusive_at(target, target_at) {
                    let touched = self.touch(&root).and_then(|()| self.touch(&target));
                    let lsn = match touched.and_then(|()| ready()) {
                        Ok(lsn) => lsn,
                        Err(error) => {
                            target.release_clean();
                            root.release_clean();
                            return Err(error);
                        }
                    };
                    // Release: see the field.
                    self.core.cleared_at.store(lsn, Ordering::Release);
                    target.page().copy_from(root.page(), to);
                    match instead {
                        Some(content) => self.put_content(&root, content, lsn)?,
                        None => {
                            Btree::format_root(root.page(), self.core.root, self.core.id);
                            self.core.lengths.set(0);
                        }
                    }
                    return Ok(());
                }
                root.release_clean();
            }
            attempts.again()?;
        }
    }
}
