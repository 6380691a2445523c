//! Committed changes, for whom may read them.

use super::tree::SessionTree;
use crate::accounts::Rights;
use crate::api::Watch;
use crate::error::{Error, Result};
use crate::txn::Event;
use std::time::Duration;

/// A [`Watch`] of a session. Before each event is given it asks whether the tree may be read still; once not, it gives
/// the error, and nothing after it.
#[derive(Debug)]
pub struct SessionWatch<'s> {
    tree: SessionTree<'s>,
    watch: Watch,
    denied: Option<Error>,
}

impl<'s> SessionWatch<'s> {
    pub(super) fn new(tree: SessionTree<'s>, watch: Watch) -> SessionWatch<'s> {
        SessionWatch { tree, watch, denied: None }
    }

    /// What was fetched may be given, or the error.
    fn checked(&mut self, event: Option<Event>) -> Option<Result<Event>> {
        if self.denied.is_none() {
            let allowed = self.tree.open.allowed(self.tree.session, "watch", Rights::READ);
            self.denied = allowed.err();
        }
        match &self.denied {
            Some(error) => Some(Err(error.clone())),
            None => event.map(Ok),
        }
    }

    /// The next event, if there is one by now.
    pub fn try_next(&mut self) -> Option<Result<Event>> {
        let event = self.watch.try_next();
        self.checked(event)
    }

    /// The next event, once there is one, or `None` after `timeout` or when the database was closed.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Result<Event>> {
        if self.denied.is_some() {
            return self.checked(None);
        }
        let event = self.watch.next_timeout(timeout);
        self.checked(event)
    }
}

impl Iterator for SessionWatch<'_> {
    type Item = Result<Event>;

    /// The next event, once there is one. `None`: the database was closed.
    fn next(&mut self) -> Option<Result<Event>> {
        if self.denied.is_some() {
            return self.checked(None);
        }
        let event = self.watch.next();
        self.checked(event)
    }
}
