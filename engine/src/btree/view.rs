//! Which state of a tree a read sees.
//!
//! ```text
//! record on the page          Latest        At { snapshot }
//! none                        absent        absent: a tombstone stays until no snapshot needs it
//! lsn <  snapshot             it            it
//! lsn >= snapshot             it            what `versions` has of the key, or absent
//! ```
//!
//! * [V1] The record is looked at, and the leaf validated, before `versions` is asked: what a change replaces is
//!   kept before the leaf changes.
//! * [V2] Clears and bulk loads are asked for after the read: they are noted before the root changes, so a read
//!   that came through a changed root knows.

use super::{Batch, Btree, Cursor, Edge};
use crate::error::{Error, Result, Usage};
use crate::versions::{SeenKind, Versions, key_hash};
use latchkv_latch::primitives::Ordering;
use std::ops::Bound;

/// Which state of a tree a read sees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'v> {
    /// What is there now, each record by itself.
    Latest,
    /// What commits below an lsn left.
    At {
        /// The lsn.
        snapshot: u64,
        /// What records were before.
        versions: &'v Versions,
    },
    /// The records, tombstones included, that commits from an lsn on left: for scans only.
    Changed {
        /// The lsn.
        since: u64,
    },
}

/// What a view makes of a record on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    /// It is what the view sees.
    Value,
    /// The view sees that it is deleted.
    Absent,
    /// The view sees something older.
    Older,
}

impl View<'_> {
    /// What the view makes of a record.
    #[inline(always)]
    pub(super) fn sight(self, meta: crate::node::RecordMeta) -> Sight {
        match self {
            View::At { snapshot, .. } if meta.lsn() >= snapshot => Sight::Older,
            View::Changed { since } if meta.lsn() < since => Sight::Absent,
            View::Changed { .. } => Sight::Value,
            _ if meta.is_tombstone() => Sight::Absent,
            _ => Sight::Value,
        }
    }
}

impl Btree<'_> {
    /// What the view sees of a key whose record is newer than it.
    #[cold]
    pub(super) fn older(self, key: &[u8], view: View<'_>) -> Result<Option<Vec<u8>>> {
        let View::At { snapshot, versions } = view else { return Ok(None) };
        let mut value = Vec::new();
        let hash = key_hash(self.core.id, key);
        let Some(seen) = versions.find(self.core.id, key, hash, snapshot, &mut value) else {
            return Ok(None);
        };
        match seen.kind {
            SeenKind::Tombstone => Ok(None),
            SeenKind::Inline(_) => Ok(Some(value)),
            SeenKind::Extent { page, len } => {
                let read = self.pool.store().read_value(page, len as usize, &mut value);
                read.map_err(|error| error.in_tree(self.core.id))?;
                Ok(Some(value))
            }
        }
    }

    /// The lsn of what the view sees of `key`, a tombstone included. `None`: nothing, not even that.
    pub(crate) fn lsn_of(self, key: &[u8], view: View<'_>) -> Result<Option<u64>> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to(&mut attempts, key)?.node;
            let page = self.page(leaf);
            let found = page.find(key);
            let record = if found.exact { page.record(found.at) } else { None };
            if self.valid(leaf) {
                let Some(record) = record else { return Ok(None) };
                return Ok(match view {
                    View::At { snapshot, versions } if record.meta.lsn() >= snapshot => {
                        let hash = key_hash(self.core.id, key);
                        let mut value = Vec::new();
                        let seen = versions.find(self.core.id, key, hash, snapshot, &mut value);
                        seen.map(|seen| seen.lsn)
                    }
                    _ => Some(record.meta.lsn()),
                });
            }
            attempts.again()?;
        }
    }

    /// Whether a commit of lsn `since` or later, but below `at`, left something between the bounds.
    pub(crate) fn changed_between(
        self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        since: u64,
        at: u64,
        versions: &Versions,
    ) -> Result<bool> {
        let view = View::At { snapshot: at, versions };
        let mut cursor = Cursor::new(Edge::Front, lower.map(<[u8]>::to_vec));
        let mut batch = Batch::default();
        loop {
            self.next_batch(&mut cursor, upper, View::Changed { since }, &mut batch)?;
            if batch.len() == 0 {
                return Ok(self.changed_as_a_whole(since));
            }
            for index in 0..batch.len() {
                let key = batch.key(batch.item(index));
                if self.lsn_of(key, view)?.is_some_and(|lsn| lsn >= since) {
                    return Ok(true);
                }
            }
        }
    }

    /// The tree was cleared, or filled at once, by a commit of lsn `since` or later.
    pub(crate) fn changed_as_a_whole(self, since: u64) -> bool {
        // Relaxed, both: see the fields.
        self.core.cleared_at.load(Ordering::Relaxed) >= since
            || self.core.filled_at.load(Ordering::Relaxed) >= since
    }

    /// To be asked after a read ([V2]): false if the tree, as the view sees it, was empty.
    ///
    /// # Errors
    /// [`Usage::ClearedSince`].
    #[inline(always)]
    pub(super) fn check_view(self, view: View<'_>) -> Result<bool> {
        let View::At { snapshot, .. } = view else { return Ok(true) };
        // Relaxed, both: see the fields.
        if self.core.cleared_at.load(Ordering::Relaxed) >= snapshot {
            return Err(Error::from(Usage::ClearedSince));
        }
        Ok(self.core.filled_at.load(Ordering::Relaxed) < snapshot)
    }
}
