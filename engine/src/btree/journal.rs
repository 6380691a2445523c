//! What a change of a record means to the layers above: its lsn, and what becomes of the record that it
//! replaces.
//!
//! The tree calls a [`Journal`] at fixed moments of a change:
//!
//! ```text
//! inside the gate, leaf under X    stamp    everything else is ready: the lsn, or "not now"
//!                                  keep     the record that is about to be replaced
//!                                  (the leaf changes)
//! inside the gate                  applied  the leaf has changed; released already, if the change was alone
//! outside the gate, no latch       wait     after a "not now"
//! ```
//!
//! * [J1] Once `stamp` gave an lsn the change is made: nothing between it and `applied` fails but for damage in
//!   memory.
//! * [J2] `stamp` and `keep` wait for nobody who could wait for a leaf.

use crate::error::Result;
use crate::versions::Old;

/// Answer to the wish to change a record now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamp {
    /// The change has this lsn and is to be made.
    At(u64),
    /// Not now: let go of everything, [`Journal::wait`], and come again.
    Later,
}

/// See the module head.
pub(crate) trait Journal {
    /// Snapshots may see the tree: a record that goes leaves a tombstone, and one that is replaced is kept. If
    /// not, `keep` is never called.
    const VERSIONED: bool;

    /// The lsn of the change.
    ///
    /// # Errors
    /// What keeps the change from being made. Nothing has changed then.
    fn stamp(&mut self) -> Result<Stamp>;

    /// Takes charge of what `key` was from lsn `since` until the lsn of this change, a large value included.
    fn keep(&mut self, key: &[u8], since: u64, old: Old<'_>);

    /// The change is in the leaf.
    fn applied(&mut self) {}

    /// Waits for what `stamp` lacked.
    ///
    /// # Errors
    /// It will not come.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Changes that no snapshot sees and whose lsn is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unversioned {
    /// What the records carry.
    pub(crate) lsn: u64,
}

impl Unversioned {
    /// Changes that no log knows.
    pub(crate) fn unlogged() -> Unversioned {
        Unversioned { lsn: 0 }
    }
}

impl Journal for Unversioned {
    const VERSIONED: bool = false;

    fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp::At(self.lsn))
    }

    fn keep(&mut self, _key: &[u8], _since: u64, _old: Old<'_>) {}
}

/// A fill of an empty tree whose lsn is known: nothing was there that snapshots could want.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// The lsn of all records.
    pub(crate) lsn: u64,
}

impl Journal for Filled {
    const VERSIONED: bool = true;

    fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp::At(self.lsn))
    }

    fn keep(&mut self, _key: &[u8], _since: u64, _old: Old<'_>) {}
}
