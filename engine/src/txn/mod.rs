//! Commits, snapshots, and what lies between: which changes are made together, in which order, and who sees
//! them.
//!
//! What it is not: it holds no records but those of write sets under way and, in `versions`, what records were
//! before; it does not know how the log lies on disk.
//!
//! | module | for |
//! |---|---|
//! | `target` | a tree as a transaction knows it; one write to it |
//! | `stripes` | latches of keys: who may commit a change of one |
//! | `single` | a change outside of a transaction: the short path |
//! | `commit` | several changes at once |
//! | `large` | changes that did not fit the memory |
//! | `record` | the changes of a commit on their way into the log |
//! | `reads` | what a serializable transaction has read |
//! | `write_set` | what a transaction has written, and its savepoints |
//! | `snapshot` | registering a reader; the horizon; dropping what nobody can see |
//! | `purge` | tombstones that nobody needs |
//! | `fill` | sorted records, at once into an empty tree |
//! | `rebuild` | a tree built anew, packed |
//! | `definition` | definitions of trees in the log |
//! | `watch` | committed changes, handed on in their order |
//!
//! # Rules
//!
//! * [X1] A change of a key is committed by who holds the key's stripe, from before it looks for conflicts until
//!   the change is applied. So changes of one key are applied in the order of their lsns.
//! * [X2] An lsn is reserved, and its record applied, in one stay inside the gate. So with the gate closed the
//!   pages hold exactly what lies below the log's tail.
//! * [X3] Order of waiting: fills, stripes ascending, large commits, narrow pools, gate, room in the log, latches of
//!   frames. Who waits for room in the log holds no latch of a frame, so records reserved before are applied
//!   meanwhile.
//! * [X4] After its record is copied a commit is made. If a page cannot be had then, the database is poisoned:
//!   the log has the commit, and opening it again applies it.
//! * [X5] A commit is acknowledged when it is visible, and durable as far as it asked for.
//!
//! Protocols between ring, stripes, gate and snapshots are model-checked in `loom-tests` (`commit::*`). What is
//! promised is shown fact by fact in `engine/tests/transactions`; histories are checked in `engine/tests/history`.

mod commit;
mod definition;
mod fill;
mod large;
mod purge;
mod reads;
mod rebuild;
mod record;
mod single;
mod snapshot;
mod stripes;
mod target;
mod watch;
mod write_set;

pub(crate) use commit::Terms;
pub(crate) use reads::{Reads, Span};
pub use snapshot::SnapshotUsage;
pub(crate) use target::{Change, Target, Write};
pub use watch::Event;
pub(crate) use watch::{WatchQueue, Watchers};
pub use write_set::Savepoint;
pub(crate) use write_set::{Own, WriteSet, WritesIn};

use crate::id::TreeId;
use crate::log::Log;
use crate::versions::Versions;
use latchkv_latch::Snapshots;
use latchkv_latch::primitives::AtomicU64;
use purge::Purge;
use std::sync::{Arc, Mutex, PoisonError};
use stripes::Stripes;

/// Everything that commits and snapshots of one database share.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) log: Log,
    pub(crate) versions: Versions,
    pub(crate) watchers: Arc<Watchers>,
    snapshots: Snapshots,
    stripes: Stripes,
    purge: Purge,
    /// No snapshot is below it. Moves on in `snapshot`, under `sweeping`; Relaxed, see there.
    horizon: AtomicU64,
    /// Who moves the horizon.
    sweeping: Mutex<()>,
    /// The one commit whose record has several parts, so that parts of two never mix.
    large: Mutex<()>,
    /// The one commit of several changes in a pool that is too narrow for two.
    narrow: Mutex<()>,
    /// The one bulk load, or large commit, that puts content into empty trees: until its checkpoint is made.
    filling: Mutex<()>,
    /// The log hands records on.
    watched: Mutex<bool>,
}

impl Ledger {
    /// Starts watching keys of a tree that begin with `prefix`.
    pub(crate) fn watch(&self, tree: TreeId, prefix: &[u8], events_max: usize) -> Arc<WatchQueue> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = self.watchers.add(tree, prefix, self.log.visible(), events_max);
        if !*watched {
            *watched = true;
            let watchers = Arc::clone(&self.watchers);
            self.log.on_retire(Some(Box::new(move |record| watchers.record(record))));
        }
        queue
    }

    /// Lets the log hand on nothing if nobody watches any more.
    pub(crate) fn rest_watch(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if *watched && self.watchers.is_idle() {
            *watched = false;
            self.log.on_retire(None);
        }
    }

    /// The ledger over a log whose records are all applied.
    pub(crate) fn new(log: Log, versions: Versions, watchers: Arc<Watchers>) -> Ledger {
        let horizon = AtomicU64::new(log.visible());
        Ledger {
            log,
            versions,
            watchers,
            snapshots: Snapshots::new(),
            stripes: Stripes::new(),
            purge: Purge::default(),
            horizon,
            sweeping: Mutex::new(()),
            large: Mutex::new(()),
            narrow: Mutex::new(()),
            filling: Mutex::new(()),
            watched: Mutex::new(false),
        }
    }
}
