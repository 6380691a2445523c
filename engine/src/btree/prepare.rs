//! Before the changes of a commit, which have to succeed: their leaves are brought in, with room in them.
//!
//! A key that comes behind another most often lies in the same leaf, so that leaf is looked at first; and the change is
//! made there, without coming down again, if the leaf is then as it was.
//!
//! * [P1] A [`Place`] says where a key led to at the leaf's version. As long as the version holds, so do the fences of
//!   the page; whoever changes it there latches it at that version, and asks for clears since ([T6] of `btree`).
//!
//! Tested by `engine/tests/transactions`, and with other writers by `engine/tests/concurrent`.

use super::attempts::Attempts;
use super::{Btree, NodeAt};
use crate::error::Result;
use crate::node::words_for;

/// A leaf that was come down to for a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    leaf: NodeAt,
    /// Last clear of the tree before the descent.
    cleared_at: u64,
}

/// What [`Btree::prepare`] found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    /// Lsn of the record that is there, a tombstone included.
    pub(crate) lsn: Option<u64>,
    /// Where it is, or will be.
    pub(crate) place: Place,
}

impl<'p> Btree<'p> {
    /// Before a change of `key` that has to succeed: brings its leaf in and makes room in it for so many payload
    /// bytes. `near` is where the key before it lies.
    pub(crate) fn prepare(
        self,
        key: &[u8],
        payload_bytes: usize,
        near: Option<Place>,
    ) -> Result<Prepared> {
        let mut attempts = self.attempts();
        let mut place = near.filter(|near| self.page(near.leaf).covers(key));
        loop {
            let here = match place.take() {
                Some(near) => near,
                None => {
                    let leaf = self.descend_to_change(&mut attempts, key)?.node;
                    Place { leaf, cleared_at: attempts.cleared_at }
                }
            };
            let page = self.page(here.leaf);
            let found = page.find(key);
            let replaced = found.exact.then_some(found.at);
            let lsn = replaced.and_then(|at| page.record(at)).map(|record| record.meta.lsn());
            let room = page.has_room_for_record(replaced, key, payload_bytes);
            if self.valid(here.leaf) {
                if room {
                    return Ok(Prepared { lsn, place: here });
                }
                self.split_leaf(&mut attempts, key, 2 + words_for(key.len() + payload_bytes))?;
            }
            attempts.again()?;
        }
    }

    /// The leaf of a place, which `attempts` is told of.
    pub(super) fn leaf_at(self, attempts: &mut Attempts<'p>, place: Place) -> NodeAt {
        attempts.cleared_at = place.cleared_at;
        place.leaf
    }
}
