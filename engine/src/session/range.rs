//! Records of a tree, one by one, each asked for anew.

use super::tree::SessionTree;
use crate::accounts::Rights;
use crate::api::{Entry, Range, TransactionRange};
use crate::error::{Error, Result};

/// Where records come from.
#[derive(Debug)]
enum Source<'s> {
    Range(Box<Range<'s>>),
    Transaction(Box<TransactionRange<'s>>),
}

/// The records of a range. Each step asks whether they may be read still; an error ends it. Between steps nothing is
/// locked.
#[derive(Debug)]
#[must_use = "iterators are lazy"]
pub struct SessionRange<'s> {
    tree: SessionTree<'s>,
    source: Source<'s>,
    denied: Option<Error>,
}

impl<'s> SessionRange<'s> {
    pub(super) fn new(tree: SessionTree<'s>, range: Range<'s>) -> SessionRange<'s> {
        SessionRange { tree, source: Source::Range(Box::new(range)), denied: None }
    }

    pub(super) fn of_transaction(
        tree: SessionTree<'s>,
        range: TransactionRange<'s>,
    ) -> SessionRange<'s> {
        SessionRange { tree, source: Source::Transaction(Box::new(range)), denied: None }
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Source<'s>) -> Option<Result<Entry>>,
    ) -> Option<Result<Entry>> {
        if let Some(error) = &self.denied {
            return Some(Err(error.clone()));
        }
        let session = self.tree.session;
        // A transaction has the tree in use already.
        let entered = match &self.source {
            Source::Range(_) => self.tree.open.reading(session, "scan").map(Some),
            Source::Transaction(_) => {
                self.tree.open.allowed(session, "scan", Rights::READ).map(|()| None)
            }
        };
        match entered {
            Ok(_in_use) => step(&mut self.source),
            Err(error) => {
                self.denied = Some(error.clone());
                Some(Err(error))
            }
        }
    }
}

impl Iterator for SessionRange<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.step(|source| match source {
            Source::Range(range) => range.next(),
            Source::Transaction(range) => range.next(),
        })
    }
}

impl DoubleEndedIterator for SessionRange<'_> {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.step(|source| match source {
            Source::Range(range) => range.next_back(),
            Source::Transaction(range) => range.next_back(),
        })
    }
}
