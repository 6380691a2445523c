//! What all handles of one database share, and how the last of them ends it.
//!
//! ```text
//!   Db, Tree, Snapshot<'static> .. --Arc--> Handle --Arc--> Shared <--Weak-- background thread
//!                                             '-- the last one dropped, or `close`: stop it, last checkpoint
//! ```

use super::background::Background;
use super::slow::Readers;
use crate::catalog::Catalog;
use crate::error::{Denied, Error, Result, Usage};
use crate::id::BLOCK_BYTES;
use crate::log::Durability;
use crate::pool::{CheckpointReport, Pool};
use crate::store::Directory;
use crate::txn::{Ledger, Reads};
use latchkv_latch::primitives::{AtomicBool, Ordering};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A log of fewer bytes is never too long for the data.
const LOG_BYTES_MIN: u64 = 8 << 20;

/// What a layer above keeps for a database, and is told.
pub(crate) trait Attachment: Any + Send + Sync {
    /// A tree has another name than before. Called in the thread that has renamed it.
    fn tree_renamed(&self);
}

/// Something that a layer above keeps, of a type that this one does not know.
#[derive(Default)]
pub(super) struct Attached(OnceLock<Box<dyn Attachment>>);

impl Attached {
    /// It, made by the first who asks. Only one type is ever asked for.
    pub(super) fn get_or_make<T: Attachment>(&self, make: impl FnOnce() -> T) -> &T {
        let attached = self.0.get_or_init(|| Box::new(make()));
        let attached: &dyn Any = &**attached;
        attached.downcast_ref().expect("only one layer above attaches anything")
    }

    /// Tells it, if there is one, that a tree has another name.
    pub(super) fn tree_renamed(&self) {
        if let Some(attached) = self.0.get() {
            attached.tree_renamed();
        }
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}

/// What every handle and the background thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) catalog: Catalog,
    /// None in a database that was opened for reading.
    pub(super) ledger: Option<Ledger>,
    pub(super) readers: Readers,
    pub(super) durability: Durability,
    /// Memory for the writes of a transaction.
    pub(super) write_set_bytes: usize,
    pub(super) transaction_bytes_max: usize,
    /// Set once, by `close`. Relaxed: an operation that runs at the same time may still go through.
    pub(super) closed: AtomicBool,
    pub(super) checkpoint_bytes: u64,
    pub(super) checkpoint_log_bytes: u64,
    pub(super) attached: Attached,
    /// Locks the directory for as long as anybody can touch the files.
    pub(super) _directory: Option<Directory>,
}

impl Shared {
    #[inline(always)]
    pub(super) fn check_open(&self) -> Result<()> {
        // Relaxed: see the field.
        if self.closed.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    #[inline(always)]
    pub(super) fn check_writable(&self, op: &'static str) -> Result<()> {
        self.check_open()?;
        let store = self.pool.store();
        if store.read_only() {
            return Err(Denied::ReadOnly { op }.into());
        }
        store.health()
    }

    /// What a write needs.
    pub(super) fn ledger(&self, op: &'static str) -> Result<&Ledger> {
        self.ledger.as_ref().ok_or_else(|| Denied::ReadOnly { op }.into())
    }

    /// Refuses more of what a transaction or batch keeps in memory, once that is over its limit.
    pub(super) fn refuse_beyond(&self, bytes: usize, what: &'static str) -> Result<()> {
        let maximum = self.transaction_bytes_max;
        if bytes > maximum {
            return Err(Usage::TransactionTooLarge { what, maximum }.into());
        }
        Ok(())
    }

    /// Refuses another read of a serializable transaction.
    pub(super) fn refuse_reads(&self, reads: &Reads) -> Result<()> {
        self.refuse_beyond(reads.bytes(), "the reads of a serializable transaction")
    }

    pub(super) fn checkpoint(&self) -> Result<CheckpointReport> {
        let ledger = self.ledger("checkpoint")?;
        // It could not be made durable up to here.
        ledger.log.health()?;
        let mut lsn = 0;
        let report = self.pool.checkpoint(
            || {
                let (lengths, next_tree) = self.catalog.lengths_for_checkpoint();
                // Nobody is inside the gate: all that was reserved is applied.
                lsn = ledger.log.tail();
                (lengths, next_tree, lsn)
            },
            |lsn| {
                ledger.log.harden(lsn)?;
                Ok(ledger.log.pledge(lsn))
            },
        )?;
        ledger.log.release(lsn);
        Ok(report)
    }

    /// The log is longer than what an opening after a crash is to read: as said by the options, and no more than the
    /// data themselves.
    pub(super) fn is_log_long(&self) -> bool {
        let Some(ledger) = &self.ledger else { return false };
        let store = self.pool.store();
        let bytes = ledger.log.tail().saturating_sub(store.checkpoint_lsn());
        if self.checkpoint_log_bytes == u64::MAX
            || bytes < LOG_BYTES_MIN.min(self.checkpoint_log_bytes)
        {
            return false;
        }
        let data_bytes = store.usage().used_blocks * BLOCK_BYTES as u64;
        bytes >= self.checkpoint_log_bytes.min(data_bytes.max(LOG_BYTES_MIN))
    }
}

/// The last handle of a database. Stops the background thread and makes what was done durable.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
    background: Option<Background>,
}

impl Handle {
    /// The handle of a database that is ready.
    pub(super) fn start(shared: Shared) -> Result<Handle> {
        let shared = Arc::new(shared);
        let background =
            if shared.ledger.is_none() { None } else { Some(Background::start(&shared)?) };
        Ok(Handle { shared, background })
    }

    /// Stops the background thread and makes a last checkpoint. Only the first call does something.
    pub(super) fn shut(&self) -> Result<()> {
        let shared = &self.shared;
        // Relaxed: the swap decides who shuts, nothing else hangs on it.
        if shared.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(background) = &self.background {
            background.stop();
        }
        let Some(ledger) = &shared.ledger else { return Ok(()) };
        ledger.watchers.close();
        // Nobody begins any more: what tombstones there are, nobody needs, unless a snapshot is still read.
        ledger.sweep(&shared.pool);
        // What keeps tombstones from going keeps the checkpoint from being made, and is told there.
        while ledger.purge(&shared.pool).unwrap_or(false) {}
        shared.checkpoint().map(drop).inspect_err(|_| {
            // The log can still have what no checkpoint will.
            let _ = ledger.log.sync();
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // `Db::close` reports what cannot be reported here; the last checkpoint stays whole in any case.
        let _ = self.shut();
    }
}
