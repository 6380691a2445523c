//! What a serializable transaction has read, and whether it still holds.
//!
//! Keys and ranges are kept as asked, not as answered: absence is read too. All of it stays in memory until the
//! transaction ends, so who reads asks first how much there is.
//!
//! * [Q1] A read is noted before, or together with, its answer. What was noted is narrowed only to what was given.

use super::Target;
use crate::btree::{Btree, View};
use crate::error::Result;
use crate::pool::Pool;
use crate::versions::Versions;
use std::ops::Bound;

/// Keys between two bounds that were read.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Where it begins.
    pub(crate) lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub(crate) upper: Bound<Vec<u8>>,
}

/// Everything one transaction has read.
#[derive(Default, Debug)]
pub(crate) struct Reads {
    keys: Vec<(Target, Vec<u8>)>,
    spans: Vec<(Target, Span)>,
    /// What keys and bounds take beside their places in the two.
    held_bytes: usize,
}

impl Span {
    fn held_bytes(&self) -> usize {
        let bytes = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        bytes(&self.lower) + bytes(&self.upper)
    }
}

impl Reads {
    /// Bytes of memory, near enough.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() * size_of::<(Target, Vec<u8>)>()
            + self.spans.len() * size_of::<(Target, Span)>()
            + self.held_bytes
    }

    /// A key was read.
    pub(crate) fn note_key(&mut self, target: &Target, key: &[u8]) {
        self.held_bytes += key.len();
        self.keys.push((target.clone(), key.to_vec()));
    }

    /// A range is being read; gives its number.
    pub(crate) fn note_span(&mut self, target: &Target, span: Span) -> usize {
        self.held_bytes += span.held_bytes();
        self.spans.push((target.clone(), span));
        self.spans.len() - 1
    }

    /// A range was read only this far.
    pub(crate) fn narrow(&mut self, number: usize, spans: impl IntoIterator<Item = Span>) {
        let Some((target, span)) = self.spans.get_mut(number) else { return };
        let target = target.clone();
        self.held_bytes -= span.held_bytes();
        // What is left of it stays under its number; an empty span is no harm.
        *span = Span { lower: Bound::Excluded(Vec::new()), upper: Bound::Excluded(Vec::new()) };
        for span in spans {
            self.held_bytes += span.held_bytes();
            self.spans.push((target.clone(), span));
        }
    }

    /// Nothing was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }

    /// Looks whether a commit of lsn `since` or later, but below `at`, changed what was read. All commits below
    /// `at` are applied. The caller is inside the gate.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::error::Error::Conflict), and those of reading.
    pub(super) fn validate(
        &self,
        pool: &Pool,
        versions: &Versions,
        since: u64,
        at: u64,
    ) -> Result<()> {
        let view = View::At { snapshot: at, versions };
        let targets = self.keys.iter().map(|(target, _)| target);
        for target in targets.chain(self.spans.iter().map(|(target, _)| target)) {
            // One that is dropped from now on is dropped after `at`, and its pages stay as long as the gate is open.
            if target.core.is_dropped() {
                return Err(target.dropped());
            }
        }
        for (target, key) in &self.keys {
            let tree = Btree::new(pool, &target.core);
            let changed = tree.changed_as_a_whole(since)
                || tree.lsn_of(key, view)?.is_some_and(|lsn| lsn >= since);
            if changed {
                return Err(target.conflict(Some(key)));
            }
        }
        for (target, span) in &self.spans {
            let tree = Btree::new(pool, &target.core);
            let (lower, upper) = (span.lower.as_ref(), span.upper.as_ref());
            let (lower, upper) = (lower.map(Vec::as_slice), upper.map(Vec::as_slice));
            if tree.changed_between(lower, upper, since, at, versions)? {
                return Err(target.conflict(None));
            }
        }
        Ok(())
    }
}
