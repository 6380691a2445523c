//! Readers that take long: their names, who is told of them, and how old they may get.

use crate::txn::Ledger;
use latchkv_latch::SnapshotSlot;
use latchkv_latch::primitives::{AtomicUsize, Ordering};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A snapshot or transaction that has been under way for long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowReader {
    /// The name that it was given.
    pub name: Option<String>,
    /// How long ago it began.
    pub age: Duration,
    /// Bytes of the log that were written since.
    pub behind_bytes: u64,
    /// It was ended for its age, and its next read fails.
    pub ended: bool,
}

/// Who is told of slow readers.
#[derive(Clone)]
pub(super) struct SlowReaderCallback(pub(super) Arc<dyn Fn(SlowReader) + Send + Sync>);

impl fmt::Debug for SlowReaderCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a callback")
    }
}

/// When a reader is slow, and what becomes of it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReaderLimits {
    /// From this age on a reader is told of, once.
    pub(super) slow_after: Option<(Duration, SlowReaderCallback)>,
    /// At this age a reader is ended.
    pub(super) age_max: Option<Duration>,
}

/// The readers of one database, as far as somebody asks for them by name or age.
#[derive(Debug)]
pub(super) struct Readers {
    limits: ReaderLimits,
    names: Mutex<HashMap<SnapshotSlot, String>>,
    /// How many names there are, so that readers without one do not take the lock. Relaxed: a name is taken out
    /// by the one who put it in.
    named: AtomicUsize,
    told: Mutex<HashSet<SnapshotSlot>>,
}

impl Readers {
    pub(super) fn new(limits: ReaderLimits) -> Readers {
        Readers {
            limits,
            names: Mutex::default(),
            named: AtomicUsize::new(0),
            told: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<SnapshotSlot, String>> {
        // Whole after any panic.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a reader a name.
    pub(super) fn name(&self, slot: SnapshotSlot, name: &str) {
        if self.names().insert(slot, name.to_owned()).is_none() {
            // Relaxed: see the field.
            self.named.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The reader is gone.
    pub(super) fn forget(&self, slot: SnapshotSlot) {
        // Relaxed: see the field.
        if self.named.load(Ordering::Relaxed) > 0 && self.names().remove(&slot).is_some() {
            self.named.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The name of a reader.
    pub(super) fn name_of(&self, slot: SnapshotSlot) -> Option<String> {
        self.names().get(&slot).cloned()
    }

    /// How old a reader may get.
    pub(super) fn age_max(&self) -> Duration {
        self.limits.age_max.unwrap_or(Duration::MAX)
    }

    /// Looks for readers that are slow or too old.
    pub(super) fn look(&self, ledger: &Ledger) {
        if self.limits.slow_after.is_none() && self.limits.age_max.is_none() {
            return;
        }
        let visible = ledger.log.visible();
        let mut alive = HashSet::new();
        let mut to_tell = Vec::new();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.each_reader(|slot, lsn, age| {
            alive.insert(slot);
            let ended = self.limits.age_max.is_some_and(|age_max| age >= age_max)
                && ledger.end_reader(slot, lsn);
            let slow = matches!(&self.limits.slow_after, Some((after, _)) if age >= *after);
            if ended || slow && !told.contains(&slot) {
                told.insert(slot);
                let name = self.name_of(slot);
                let behind_bytes = visible.saturating_sub(lsn);
                to_tell.push(SlowReader { name, age, behind_bytes, ended });
            }
        });
        told.retain(|slot| alive.contains(slot));
        drop(told);
        if let Some((_, callback)) = &self.limits.slow_after {
            to_tell.into_iter().for_each(|reader| (callback.0)(reader));
        }
    }
}
