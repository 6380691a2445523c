//! Registering a reader, the horizon, and dropping what nobody can see.
//!
//! A pin keeps everything that its lsn can see. Who moves the horizon looks at all pins
//! (`latch/src/snapshots.rs` proves that it misses none), then drops old versions below it and frees their large
//! values.
//!
//! * [H1] The horizon only rises, and a pin's lsn is never below it.
//! * [H2] A reader that was ended from outside believes nothing that it read before it asked
//!   [`Ledger::is_ended`].
//!
//! Tested by `engine/tests/transactions/snapshots.rs`.

use super::Ledger;
use crate::btree::View;
use crate::error::Result;
use crate::pool::Pool;
use latchkv_latch::SnapshotSlot;
use latchkv_latch::primitives::Ordering;
use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A reader of this thread, for as long as this lives.
#[derive(Debug)]
pub(super) struct Pin<'a> {
    ledger: &'a Ledger,
    slot: SnapshotSlot,
    lsn: u64,
}

impl Pin<'_> {
    pub(super) fn lsn(&self) -> u64 {
        self.lsn
    }

    pub(super) fn slot(&self) -> SnapshotSlot {
        self.slot
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.ledger.unpin(self.slot);
    }
}

/// What snapshots hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SnapshotUsage {
    /// Snapshots and transactions under way.
    pub count: u64,
    /// Age of the oldest of them.
    pub oldest_age: Option<Duration>,
    /// Bytes of the log that were written since it began: how far back it looks.
    pub oldest_behind_bytes: u64,
    /// Old versions that are kept.
    pub versions: u64,
    /// Bytes of memory that they take, with what belongs to them.
    pub version_bytes: u64,
    /// Bytes of temporary files that they take.
    pub version_spilled_bytes: u64,
}

/// Milliseconds since the first call in this process.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Ledger {
    /// Registers a reader of all that is visible now. Wait-free, no read-modify-write. To be given back by
    /// [`Ledger::unpin`].
    #[inline]
    pub(crate) fn pin_slot(&self) -> (SnapshotSlot, u64) {
        let slot = self.snapshots.register(now_ms(), || self.log.visible());
        (slot, self.snapshots.lsn(slot))
    }

    /// Registers a reader of what no crash can take back any more: of what is durable by now, or, if that is too old
    /// to be read, of what is visible now, once that is durable.
    ///
    /// # Errors
    /// What was waited for failed.
    pub(crate) fn pin_durable(&self) -> Result<(SnapshotSlot, u64)> {
        let lsn = self.log.durable().min(self.log.visible());
        let slot = self.snapshots.register(now_ms(), || lsn);
        // [H1]: who moves the horizon from now on sees the slot; who has moved it before is seen here.
        if self.settled_horizon() <= lsn {
            return Ok((slot, lsn));
        }
        self.snapshots.release(slot);
        // The horizon does not pass this one, however long it waits and whatever is committed meanwhile.
        let (slot, lsn) = self.pin_slot();
        match self.log.wait_durable(lsn) {
            Ok(()) => Ok((slot, lsn)),
            Err(error) => {
                self.snapshots.release(slot);
                Err(error)
            }
        }
    }

    /// Lets go of a reader.
    #[inline]
    pub(crate) fn unpin(&self, slot: SnapshotSlot) {
        self.snapshots.release(slot);
    }

    /// The reader was ended for its age: what it read since it last asked may be wrong.
    #[inline]
    pub(crate) fn is_ended(&self, slot: SnapshotSlot) -> bool {
        self.snapshots.is_ended(slot)
    }

    /// A reader for a short while.
    pub(super) fn pin(&self) -> Pin<'_> {
        let (slot, lsn) = self.pin_slot();
        Pin { ledger: self, slot, lsn }
    }

    /// What a reader of `lsn` sees.
    #[inline(always)]
    pub(crate) fn view(&self, lsn: u64) -> View<'_> {
        View::At { snapshot: lsn, versions: &self.versions }
    }

    /// The horizon after the move that is under way, if one is.
    fn settled_horizon(&self) -> u64 {
        // The lock orders this after or before a whole move: a move that comes later sees the slot.
        let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: under the lock.
        self.horizon.load(Ordering::Relaxed)
    }

    /// Moves the horizon on, drops what only snapshots below it could see, and frees the large values of what was
    /// dropped. The caller holds no latch and is outside the gate.
    pub(crate) fn sweep(&self, pool: &Pool) {
        let mut freed = Vec::new();
        {
            let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
            // Relaxed, both: under the lock.
            let before = self.horizon.load(Ordering::Relaxed);
            let horizon = self.snapshots.horizon(|| self.log.visible(), before);
            self.horizon.store(horizon, Ordering::Relaxed);
            self.versions.reclaim(horizon, &mut freed);
        }
        if !freed.is_empty() {
            let _inside = pool.gate().enter();
            freed.into_iter().for_each(|page| pool.free_unloaded(page));
        }
    }

    /// The horizon of the last sweep. A hint that may be old, which only keeps more than must be.
    pub(super) fn last_horizon(&self) -> u64 {
        // Relaxed: what was superseded below any value that it ever had is seen by nobody.
        self.horizon.load(Ordering::Relaxed)
    }

    /// Calls `f` for each reader with its lsn and age.
    pub(crate) fn each_reader(&self, mut f: impl FnMut(SnapshotSlot, u64, Duration)) {
        let now = now_ms();
        self.snapshots.each(|slot, lsn, since| {
            f(slot, lsn, Duration::from_millis(now.saturating_sub(since)));
        });
    }

    /// Ends a reader. False: it is gone already.
    pub(crate) fn end_reader(&self, slot: SnapshotSlot, lsn: u64) -> bool {
        self.snapshots.end(slot, lsn)
    }

    /// What snapshots hold.
    pub(crate) fn snapshot_usage(&self) -> SnapshotUsage {
        let versions = self.versions.usage();
        let mut usage = SnapshotUsage {
            versions: versions.versions,
            version_bytes: versions.memory_bytes,
            version_spilled_bytes: versions.spilled_bytes,
            ..SnapshotUsage::default()
        };
        let mut oldest_lsn = u64::MAX;
        self.each_reader(|_, lsn, age| {
            usage.count += 1;
            usage.oldest_age = usage.oldest_age.max(Some(age));
            oldest_lsn = oldest_lsn.min(lsn);
        });
        if usage.count > 0 {
            usage.oldest_behind_bytes = self.log.visible().saturating_sub(oldest_lsn);
        }
        usage
    }
}
