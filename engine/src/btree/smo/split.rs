//! Splitting a full node, from above.
//!
//! ```text
//! parent  [ .. k2 .. ]                 parent  [ .. s k2 .. ]
//!              |            ->                     |  |
//!            [node]                            [node][new]     node < s <= new
//! ```
//! A parent without room for `s` is split first. A full root keeps its page id: its content moves to a new
//! page, of which it becomes the parent, and that page is split.

use crate::btree::attempts::Attempts;
use crate::btree::{Btree, NodeAt, Reached};
use crate::error::Result;
use crate::node::{
    ChildWord, SplitPoint, choose_inner, choose_leaf, key_bytes_max, split_off, words_for,
};
use crate::pool::{FrameX, Reservation};

/// How a try to split ended.
enum Split {
    /// There is room now, or somebody else is at it.
    Done,
    /// The tree moved on.
    Restart,
    /// The parent has no room for the separator.
    ParentFull,
}

impl<'p> Btree<'p> {
    /// Makes room of `need_words` in the leaf that covers `key`. The caller holds no latch and is outside the
    /// gate, unless it holds the gate for longer.
    pub(in crate::btree) fn split_leaf(
        self,
        attempts: &mut Attempts<'p>,
        key: &[u8],
        need_words: usize,
    ) -> Result<()> {
        self.split_level(attempts, key, 0, need_words)
    }

    fn split_level(
        self,
        attempts: &mut Attempts<'p>,
        key: &[u8],
        level: u8,
        need_words: usize,
    ) -> Result<()> {
        loop {
            match self.try_split(key, level, need_words)? {
                Split::Done => return Ok(()),
                Split::Restart => attempts.again()?,
                Split::ParentFull => {
                    let separator = key_bytes_max(self.pool.store().page_bytes() as usize);
                    self.split_level(attempts, key, level + 1, 2 + words_for(separator))?;
                }
            }
        }
    }

    fn try_split(self, key: &[u8], level: u8, need_words: usize) -> Result<Split> {
        // A root needs two: one for its content, one for the split of that. The reservation is inside the
        // gate.
        let mut reservation = self.pool.reserve(2)?;
        self.check_alive()?;
        let Some(reached) = self.try_descend(level, |page| page.find_child(key))? else {
            // A parent that is gone needs no room: whoever asked for it looks again.
            return Ok(if self.is_lower_than(level)? { Split::Done } else { Split::Restart });
        };
        match reached.parent {
            None => self.split_root(reached.node, key, need_words, &mut reservation),
            Some((parent, at)) => {
                self.split_child(parent, at, reached, key, need_words, &mut reservation)
            }
        }
    }

    fn latch(self, node: NodeAt) -> Option<FrameX<'p>> {
        self.pool.exclusive_at(node.frame, node.version)
    }

    fn choose(self, x: &FrameX<'p>, key: &[u8]) -> Result<SplitPoint> {
        let page = x.page();
        let point = if page.level() == 0 {
            choose_leaf(page, page.find(key).at, key)
        } else {
            choose_inner(page)
        };
        point.ok_or_else(|| self.damage(page.page_id(), "full page that cannot be split"))
    }

    fn split_child(
        self,
        parent: NodeAt,
        at: usize,
        reached: Reached,
        key: &[u8],
        need_words: usize,
        reservation: &mut Reservation<'p>,
    ) -> Result<Split> {
        let Some(parent) = self.latch(parent) else { return Ok(Split::Restart) };
        let Some(node) = self.latch(reached.node) else {
            parent.release_clean();
            return Ok(Split::Restart);
        };
        let clean = |outcome: Result<Split>, parent: FrameX<'p>, node: FrameX<'p>| {
            node.release_clean();
            parent.release_clean();
            outcome
        };
        if node.page().free_words() >= need_words {
            return clean(Ok(Split::Done), parent, node);
        }
        let point = match self.choose(&node, key) {
            Ok(point) => point,
            Err(error) => return clean(Err(error), parent, node),
        };
        if !parent.page().has_room_for_separator(point.separator.len()) {
            return clean(Ok(Split::ParentFull), parent, node);
        }
        if let Err(error) = self.touch(&parent).and_then(|()| self.touch(&node)) {
            return clean(Err(error), parent, node);
        }
        self.cut(&parent, at, &node, &point, reservation)?;
        Ok(Split::Done)
    }

    /// Cuts `node`, child `at` of `parent`. Nothing here can fail but damage in memory.
    fn cut(
        self,
        parent: &FrameX<'p>,
        at: usize,
        node: &FrameX<'p>,
        point: &SplitPoint,
        reservation: &mut Reservation<'p>,
    ) -> Result<()> {
        let new = reservation.create();
        split_off(node.page(), new.page(), new.page_id(), point)
            .ok_or_else(|| self.damage(node.page_id(), "page that cannot be split"))?;
        parent.page().set_child(at, ChildWord::new(new.page_id(), new.frame()));
        let kept = ChildWord::new(node.page_id(), node.frame());
        if !parent.page().insert_child(at, &point.separator, kept) {
            return Err(self.damage(parent.page_id(), "parent without the room it said it had"));
        }
        Ok(())
    }

    fn split_root(
        self,
        root: NodeAt,
        key: &[u8],
        need_words: usize,
        reservation: &mut Reservation<'p>,
    ) -> Result<Split> {
        let Some(root) = self.latch(root) else { return Ok(Split::Restart) };
        if root.page().free_words() >= need_words {
            root.release_clean();
            return Ok(Split::Done);
        }
        let point = match self.choose(&root, key).and_then(|point| {
            self.touch(&root)?;
            Ok(point)
        }) {
            Ok(point) => point,
            Err(error) => {
                root.release_clean();
                return Err(error);
            }
        };
        let child = reservation.create();
        child.page().copy_from(root.page(), child.page_id());
        let level = root.page().level() + 1;
        root.page()
            .become_parent_of(ChildWord::new(child.page_id(), child.frame()), level)
            .ok_or_else(|| self.damage(root.page_id(), "root without fences"))?;
        self.cut(&root, 0, &child, &point, reservation)?;
        Ok(Split::Done)
    }
}
