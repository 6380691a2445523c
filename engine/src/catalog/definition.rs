//! How a definition gets into the log: reserved before it changes anything, so that nothing stands in its way
//! afterwards, and completed when it has changed everything.
//!
//! Reserving is done inside the gate, like the change itself, so that a checkpoint has both or neither.

use crate::error::Result;
use crate::id::TreeId;

/// What is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Definition<'a> {
    /// A tree of this id and name, empty.
    Create(TreeId, &'a str),
    /// The tree is gone.
    Drop(TreeId),
    /// The tree has this name from now on.
    Rename(TreeId, &'a str),
    /// The tree is empty from now on.
    Clear(TreeId),
    /// The tree has another content from now on, which the log does not have.
    Fill(TreeId),
}

/// A place in the log for one definition. Dropped before [`done`](Self::done), it says that nothing happened.
pub(crate) trait Place {
    /// The lsn.
    fn lsn(&self) -> u64;
    /// The definition has taken effect.
    fn done(self);
}

/// Gives places in the log.
pub(crate) trait DefinitionLog {
    /// What it gives.
    type Place: Place;
    /// A place for `definition`. The caller is inside the gate, or keeps it closed.
    ///
    /// # Errors
    /// There is no room, or the log has failed.
    fn reserve(&self, definition: Definition<'_>) -> Result<Self::Place>;
}

/// For definitions that the log has already, at this lsn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed(pub(crate) u64);

impl Place for Replayed {
    fn lsn(&self) -> u64 {
        self.0
    }

    fn done(self) {}
}

impl DefinitionLog for Replayed {
    type Place = Replayed;

    fn reserve(&self, _definition: Definition<'_>) -> Result<Replayed> {
        Ok(*self)
    }
}
