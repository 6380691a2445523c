//! Point reads. With the pages in memory and their hints right: no latch, no read-modify-write, no heap
//! allocation but for the scratch of a thread's first read, and no store to shared memory but of a reference
//! bit that is clear.

use super::view::{Sight, View};
use super::{Btree, NodeAt};
use crate::error::Result;
use crate::node::{Found, LeafPayload, bytes_of};
use std::cell::Cell;

thread_local! {
    /// Taken while in use, so that a closure may read again.
    static SCRATCH: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Scratch beyond this is given back after use, in words.
const SCRATCH_KEPT_WORDS: usize = 8 << 10;

/// What one look at a leaf says.
enum Look {
    Restart,
    Absent,
    /// The value lies in the scratch from this byte on, for so many bytes.
    Inline(usize, usize),
    /// The value of an extent, or of an older version.
    Owned(Vec<u8>),
}

impl<'p> Btree<'p> {
    /// Hands the value of `key` to `f`; `None` if there is no such key.
    #[inline]
    pub(crate) fn get_with<R>(self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_at(key, View::Latest, f)
    }

    /// Hands the value of `key` that the view sees to `f`; `None` if it sees none.
    #[inline(always)]
    pub(crate) fn get_at<R>(
        self,
        key: &[u8],
        view: View<'_>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let mut scratch = SCRATCH.take();
        let looked = self.look_for(key, view, &mut scratch);
        // Nothing is held while `f` runs, not even the ticket of a read that was restarted too often.
        let result = looked.map(|look| match look {
            Look::Inline(start, len) => Some(f(&bytes_of(&scratch)[start..start + len])),
            Look::Owned(value) => Some(f(&value)),
            Look::Absent | Look::Restart => None,
        });
        if scratch.capacity() <= SCRATCH_KEPT_WORDS {
            SCRATCH.set(scratch);
        }
        result
    }

    /// Looks until it sees something whole: never gives [`Look::Restart`].
    #[inline(always)]
    fn look_for(self, key: &[u8], view: View<'_>, scratch: &mut Vec<u64>) -> Result<Look> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to(&mut attempts, key)?.node;
            match self.look(leaf, key, view, scratch)? {
                Look::Restart => attempts.again()?,
                look => return Ok(if self.check_view(view)? { look } else { Look::Absent }),
            }
        }
    }

    /// The value of `key` in `leaf` at the leaf's version, and its place. `None`: start again.
    pub(super) fn value_at(
        self,
        leaf: NodeAt,
        key: &[u8],
    ) -> Result<Option<(Found, Option<Vec<u8>>)>> {
        let found = self.page(leaf).find(key);
        let mut scratch = Vec::new();
        Ok(match self.look(leaf, key, View::Latest, &mut scratch)? {
            Look::Restart => None,
            Look::Absent => Some((found, None)),
            Look::Inline(start, len) => {
                Some((found, Some(bytes_of(&scratch)[start..start + len].to_vec())))
            }
            Look::Owned(value) => Some((found, Some(value))),
        })
    }

    /// Whether `key` is there.
    pub(crate) fn contains(self, key: &[u8]) -> Result<bool> {
        let mut attempts = self.attempts();
        loop {
            let leaf = self.descend_to(&mut attempts, key)?.node;
            let page = self.page(leaf);
            let found = page.find(key);
            let live = found.exact
                && page.record(found.at).is_some_and(|record| !record.meta.is_tombstone());
            if self.valid(leaf) {
                return Ok(live);
            }
            attempts.again()?;
        }
    }

    #[inline(always)]
    fn look(
        self,
        leaf: NodeAt,
        key: &[u8],
        view: View<'_>,
        scratch: &mut Vec<u64>,
    ) -> Result<Look> {
        let page = self.page(leaf);
        let found = page.find(key);
        if !found.exact {
            return Ok(if self.valid(leaf) { Look::Absent } else { Look::Restart });
        }
        let Some(record) = page.record(found.at) else {
            self.torn(leaf, "record lies outside the page")?;
            return Ok(Look::Restart);
        };
        let sight = view.sight(record.meta);
        let start = page.copy_payload(record, scratch);
        if !self.valid(leaf) {
            return Ok(Look::Restart);
        }
        match sight {
            Sight::Value => {}
            Sight::Absent => return Ok(Look::Absent),
            Sight::Older => {
                return Ok(self.older(key, view)?.map_or(Look::Absent, Look::Owned));
            }
        }
        let len = record.meta.payload_len();
        if !record.meta.is_extent() {
            return Ok(Look::Inline(start, len));
        }
        let name = bytes_of(scratch).get(start..start + len).and_then(LeafPayload::extent_of);
        let Some((extent, len)) = name else {
            return Err(self.damage(page.page_id(), "name of a large value"));
        };
        let mut value = Vec::new();
        let read = self.pool.store().read_value(extent, len as usize, &mut value);
        // An extent lives at least as long as the leaf that names it is unchanged.
        match read {
            _ if !self.valid(leaf) => Ok(Look::Restart),
            Ok(()) => Ok(Look::Owned(value)),
            Err(error) => Err(error.in_tree(self.core.id)),
        }
    }
}
