//! Removing tombstones that nobody needs from a leaf.

use super::Btree;
use super::smo::SPARSE_PERCENT;
use crate::error::Result;
use crate::node::Page;

/// Slots of tombstones with an lsn below `horizon`, descending. Means something if the leaf validates.
fn useless(page: Page<'_>, horizon: u64) -> Vec<usize> {
    let is_useless = |at: &usize| {
        page.record(*at)
            .is_some_and(|record| record.meta.is_tombstone() && record.meta.lsn() < horizon)
    };
    (0..page.count()).rev().filter(is_useless).collect()
}

impl Btree<'_> {
    /// Removes the tombstones with an lsn below `horizon` from the leaf that covers `key`. Gives the lower fence
    /// of the next leaf; `None`: it was the last.
    pub(crate) fn purge_leaf(self, key: &[u8], horizon: u64) -> Result<Option<Vec<u8>>> {
        let mut attempts = self.attempts();
        loop {
            let reached = self.descend_to_change(&mut attempts, key)?;
            let leaf = reached.node;
            let page = self.page(leaf);
            let some = !useless(page, horizon).is_empty();
            let upper = page.upper();
            let Some(upper) = upper.filter(|_| self.valid(leaf)) else {
                attempts.again()?;
                continue;
            };
            if !some {
                return Ok(upper);
            }
            let Some((inside, x)) = self.latch_for_change(&attempts, leaf)? else {
                attempts.again()?;
                continue;
            };
            for at in useless(x.page(), horizon) {
                x.page().remove(at);
            }
            let sparse = reached.parent.is_some() && x.page().fill_percent() < SPARSE_PERCENT;
            drop(x);
            drop(inside);
            if sparse {
                // A disk too full for a merge is no failure.
                let _ = self.merge_at(&mut attempts, key, 0);
            }
            return Ok(upper);
        }
    }
}
