//! A tree as a transaction knows it, and one write to it.

use crate::btree::TreeCore;
use crate::error::{Error, Usage};
use crate::name::Name;
use std::sync::Arc;

/// A tree, and the name by which its user knows it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The tree.
    pub(crate) core: Arc<TreeCore>,
    /// For messages.
    pub(crate) name: Name,
}

impl Target {
    /// The tree was dropped.
    #[cold]
    pub(crate) fn dropped(&self) -> Error {
        Usage::TreeDropped(self.name.to_string()).into()
    }

    /// Somebody else committed a change of `key`, or of all keys.
    #[cold]
    pub(crate) fn conflict(&self, key: Option<&[u8]>) -> Error {
        Error::Conflict { tree: self.name.to_string(), key: key.map(<[u8]>::to_vec) }
    }
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// This value, in place of what was there.
    Put(&'a [u8]),
    /// It goes, if it was there.
    Delete,
    /// Nothing; but nobody else may have changed it.
    Guard,
}

/// One write of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    /// Where.
    pub(crate) target: &'a Target,
    /// Which key.
    pub(crate) key: &'a [u8],
    /// What.
    pub(crate) change: Change<'a>,
}
