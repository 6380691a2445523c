//! Watching a part of a tree.

use super::tree::Tree;
use crate::txn::{Event, WatchQueue};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Committed changes of the keys of a tree that begin with a prefix, in the order of their commits; from
/// [`Tree::watch`].
///
/// Nobody waits for a watcher: it has room for a number of events, and what does not fit is left out and said to
/// be by an [`Event::Overflow`]. Events come once the commit is applied and given to the operating system.
/// Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    queue: Arc<WatchQueue>,
    /// Keeps the database open.
    _tree: Tree,
}

impl Watch {
    pub(super) fn new(queue: Arc<WatchQueue>, tree: Tree) -> Watch {
        Watch { queue, _tree: tree }
    }

    /// The next event, if there is one by now.
    pub fn try_next(&self) -> Option<Event> {
        self.queue.try_next()
    }

    /// The next event, once there is one, or `None` after `timeout` or when the database was closed.
    pub fn next_timeout(&self, timeout: Duration) -> Option<Event> {
        self.queue.next(Instant::now().checked_add(timeout))
    }
}

impl Iterator for Watch {
    type Item = Event;

    /// The next event, once there is one. `None`: the database was closed.
    fn next(&mut self) -> Option<Event> {
        self.queue.next(None)
    }
}
