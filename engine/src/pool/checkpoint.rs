//! The frames' part of a checkpoint.
//!
//! ```text
//! close the gate | lengths, lsn, Store::freeze: epoch e -> e+1 | open the gate
//! loop: every frame with 0 < dirty_epoch <= e: image under S, write, install under X
//!       every image put aside: write, install
//! until a scan finds neither         -> Store::publish, which calls back for the log before the superblock
//! any error                                                   -> Store::abort
//! ```
//!
//! * [K1] Writers that leave the gate before it closes are wholly in the checkpoint, the others wholly out:
//!   each has its changes and their dirty epochs made inside.
//! * [K2] The frames with `0 < dirty_epoch <= e` only become fewer: a touch or a new page gives e+1, a load,
//!   a writeback or a free gives 0. Each round settles every such frame it met, so the loop ends. Images put
//!   aside come from frames that left that set, so they end too.
//! * [K3] The dirty epoch is enough to settle an image ([W2]): while it stays at its value `d <= e` the page
//!   is not changed, because a change is preceded by a touch, which makes it e+1; and a frame that lost the
//!   page and got it back is clean. So a moved version alone is no reason to write again.
//! * [K4] The last scan sees for each frame a dirty epoch above e or 0. By the Release of whoever stored it,
//!   its image is in the frozen map by then, or was put aside before and is found by the drain that follows
//!   the scan.
//! * [K5] An abort leaves the pages dirty. Images put aside are dropped: their frames hold newer content and
//!   are dirty, or the page was freed and nothing durable needs it.
//!
//! The checkpoint holds no latch while it waits for one, so it is nobody's obstacle. It holds the gate only
//! for the freeze.

use super::Pool;
use super::budget::Budget;
use super::writeback::Batch;
use crate::error::Result;
use crate::id::{Epoch, FrameId, TreeId};
use crate::store::Image;
use latchkv_latch::primitives::Ordering;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The epoch that it made durable.
    pub epoch: u64,
    /// Page images that it wrote. Those that evictors wrote before are not among them.
    pub pages: u64,
    /// How many of them writers had put aside.
    pub put_aside: u64,
    /// How long writers were kept out.
    pub gate_closed: Duration,
    /// How long all of it took.
    pub total: Duration,
}

/// What one checkpoint at a time needs.
#[derive(Debug)]
pub(super) struct Checkpointer {
    batch: Batch,
    batch_images: usize,
    /// Frames to write next, by page id.
    order: Vec<(u64, FrameId)>,
    order_entries: usize,
}

impl Checkpointer {
    /// Buffers for a checkpoint.
    pub(super) fn new(budget: &Budget) -> Checkpointer {
        Checkpointer {
            batch: Batch::new(budget),
            batch_images: budget.batch_images,
            order: Vec::with_capacity(budget.order_entries),
            order_entries: budget.order_entries,
        }
    }
}

impl Pool {
    /// Makes the state durable in which all writers that are inside the gate now have left it. `at_close`
    /// runs while nobody is inside and gives the tree lengths, the next tree id and the lsn below which all
    /// commits are in this state. `before_superblock` is given that lsn when all pages are durable and nothing
    /// names them yet; it makes the log durable up to there, and gives how long its file is at least (see
    /// [`Store::publish`](crate::store::Store::publish)). Checkpoints go one at a time. The caller is outside
    /// the gate and holds no latch.
    ///
    /// # Errors
    /// `Full` if the disk has no room: the checkpoint is given up, nothing is lost, a later one may succeed.
    /// `Io` or `Poisoned` if a write or sync failed. What `before_superblock` gives: the checkpoint is given up.
    pub(crate) fn checkpoint(
        &self,
        at_close: impl FnOnce() -> (Vec<(TreeId, u64)>, TreeId, u64),
        before_superblock: impl FnOnce(u64) -> Result<u64>,
    ) -> Result<CheckpointReport> {
        let begun = Instant::now();
        // Batch and order are cleared before they are used.
        let mut work = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = CheckpointReport::default();
        let lsn = self.freeze(at_close, &mut report)?;
        let done = self
            .write_frozen(&mut work, &mut report)
            .and_then(|()| self.store.publish(|| before_superblock(lsn)));
        if let Err(error) = done {
            self.side.abandon(|| self.store.abort());
            return Err(error);
        }
        report.total = begun.elapsed();
        self.counters.checkpoints.add(1);
        Ok(report)
    }

    /// Runs `f` while no checkpoint is in progress. The caller is outside the gate.
    pub(crate) fn between_checkpoints<R>(&self, f: impl FnOnce() -> R) -> R {
        let _work = self.checkpointer.lock().unwrap_or_else(PoisonError::into_inner);
        f()
    }

    /// [K1]: the moment between two epochs. Gives the checkpoint's lsn.
    fn freeze(
        &self,
        at_close: impl FnOnce() -> (Vec<(TreeId, u64)>, TreeId, u64),
        report: &mut CheckpointReport,
    ) -> Result<u64> {
        let begun = Instant::now();
        let closed = self.gate.close();
        let (lengths, next_tree, lsn) = at_close();
        self.side.begin();
        let frozen = self.store.freeze(lengths, next_tree, lsn);
        if frozen.is_ok() {
            self.counters.dirtied_bytes.set(0);
        }
        report.epoch = self.store.frozen_epoch().0;
        drop(closed);
        report.gate_closed = begun.elapsed();
        self.counters
            .gate_closed_ns
            .set(u64::try_from(report.gate_closed.as_nanos()).unwrap_or(u64::MAX));
        frozen.map(|()| lsn)
    }

    /// Writes everything that belongs to the frozen epoch, [K2].
    fn write_frozen(&self, work: &mut Checkpointer, report: &mut CheckpointReport) -> Result<()> {
        let frozen = self.store.frozen_epoch();
        loop {
            let mut found = 0;
            let mut next = 0;
            while next < self.frame_count() {
                next = self.collect(work, next, frozen);
                found += work.order.len();
                self.write_collected(work, frozen, report)?;
            }
            found += self.write_put_aside(work.batch_images, report)?;
            if let Some(error) = self.side.doomed() {
                return Err(error);
            }
            if found == 0 {
                return Ok(());
            }
        }
    }

    /// Notes the frames of the frozen epoch from `next` on, as many as there is room for; gives where it
    /// stopped.
    fn collect(&self, work: &mut Checkpointer, mut next: usize, frozen: Epoch) -> usize {
        work.order.clear();
        for header in &self.frames.headers()[next..] {
            if work.order.len() == work.order_entries {
                break;
            }
            // Acquire: [K4].
            let epoch = header.dirty_epoch.load(Ordering::Acquire);
            if epoch != 0 && epoch <= frozen.0 {
                // Relaxed: only to sort by; read again under S.
                work.order.push((header.ident.load(Ordering::Relaxed), FrameId(next as u32)));
            }
            next += 1;
        }
        work.order.sort_unstable();
        next
    }

    fn write_collected(
        &self,
        work: &mut Checkpointer,
        frozen: Epoch,
        report: &mut CheckpointReport,
    ) -> Result<()> {
        let Checkpointer { batch, batch_images, order, .. } = work;
        for frames in order.chunks(*batch_images) {
            batch.clear();
            for &(_, frame) in frames {
                let shared = self.latch(frame).shared();
                self.add_image(batch, frame, shared.version(), |epoch| epoch <= frozen);
            }
            if batch.taken().is_empty() {
                continue;
            }
            let placements = self.write_batch(batch)?;
            for (taken, placement) in batch.taken().iter().zip(placements) {
                let x = self.latch(taken.frame).exclusive();
                report.pages += u64::from(self.settle(taken, placement, &x));
                x.release_clean();
            }
            // Writers find room sooner.
            self.write_put_aside(*batch_images, report)?;
        }
        Ok(())
    }

    /// Writes what was put aside; gives how many there were.
    fn write_put_aside(&self, batch_images: usize, report: &mut CheckpointReport) -> Result<usize> {
        let waiting = self.side.drain();
        let count = waiting.len();
        let written = waiting.chunks(batch_images).try_for_each(|part| {
            let images: Vec<_> = part
                .iter()
                .map(|aside| Image { page: aside.page, bytes: &aside.buf[..aside.bytes] })
                .collect();
            let placements = self.store.write_images(&images)?;
            for (aside, placement) in part.iter().zip(placements) {
                self.store.install(aside.page, placement, aside.epoch);
            }
            self.counters.writebacks.add(part.len() as u64);
            Ok(())
        });
        self.side.give_back(waiting);
        report.pages += count as u64;
        report.put_aside += count as u64;
        written.map(|()| count)
    }
}
