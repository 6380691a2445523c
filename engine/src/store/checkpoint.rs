//! The durable half of a checkpoint: freeze, publish, abort. Which frames are written in between is the
//! pool's affair.
//!
//! ```text
//!   freeze            gate closed: epoch e -> e+1, dirty map pages shared with the frozen map; no I/O
//!     |               images of epoch <= e are written and installed (pool)
//!   publish  1        map pages, manifest -> fresh blocks        full: abort. else: poison
//!            2        sync                                        fails: poison
//!                     what the caller wants durable before (the log)   fails: abort
//!            3        superblock -> the slot that is not known to hold the newest
//!            4        sync                                        3 full: abort. 3, 4 fail: poison
//!            5        give back what only the older one reached; cut a free tail
//!            6        superblock -> the other slot, not waited for
//!   abort             the frozen map is dropped; all of it waits for the next freeze
//! ```
//!
//! Why 5 is safe before 6 is durable: the slot of 3 is synced, so the other one is not needed (\[S3], \[S4]).
//! Why a torn 6 is harmless: the next publish writes to that slot first again, as its step 3, after its step
//! 2 has synced. A full disk in 6 (a file system that copies on write) leaves the slot for the next publish.
//!
//! After step 3 has begun nobody knows which of the two checkpoints a crash would leave, so blocks of neither
//! may be written. Every failure from there on poisons, but for a full disk in 3 itself (again where writing in
//! place takes room): the checkpoint is given up, and what it alone reaches waits like what is superseded. All
//! its images do so anyway ([I2], [I3] of `state`); its map pages and its manifest join them. The next publish
//! writes the same slot, so the other stays the one that surely holds the older checkpoint.
//!
//! Tested in `store::tests`.

use super::blocks::Run;
use super::manifest::Manifest;
use super::page_map::encode_map_page;
use super::pages::CHUNK_BYTES;
use super::place::{Placement, seed_manifest};
use super::room::kept_blocks;
use super::superblock::{FORMAT_VERSION, LSN_END, SLOT_BLOCKS, Superblock};
use super::{Durable, NO_PANIC, Store};
use crate::error::{Error, Result};
use crate::id::{BLOCK_BYTES, BlockId, Epoch, TreeId};
use crate::io::{AlignedBuf, Write};
use latchkv_latch::primitives::Ordering;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a publish has written, and where.
#[derive(Default)]
struct Written {
    /// Map page index, its place, the end of the highest block that it names.
    map_pages: Vec<(usize, Placement, u64)>,
    runs: Vec<Run>,
}

impl Store {
    /// Begins a checkpoint of the present state: trees of these lengths, and all that was installed or will
    /// be with an image epoch up to the present one. `checkpoint_lsn` is where the log goes on from it: the
    /// lsn below which all commits are in that state. The epoch moves on. The caller has closed the gate; no
    /// I/O is done.
    ///
    /// A checkpoint still in progress is given up first.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Poisoned`]: nothing has changed.
    pub(crate) fn freeze(
        &self,
        mut lengths: Vec<(TreeId, u64)>,
        next_tree: TreeId,
        checkpoint_lsn: u64,
    ) -> Result<()> {
        self.writable("checkpoint")?;
        debug_assert!(self.frozen_epoch() == Epoch(0), "one checkpoint at a time");
        debug_assert!(
            (self.checkpoint_lsn()..LSN_END).contains(&checkpoint_lsn),
            "logs go forward"
        );
        self.abort();
        lengths.sort_by_key(|(tree, _)| *tree);
        lengths.dedup_by_key(|(tree, _)| *tree);
        let above_all = lengths.last().map_or(0, |(tree, _)| tree.0.saturating_add(1));
        let next_tree = TreeId(next_tree.0.max(above_all));
        let mut state = self.state_mut();
        let epoch = self.epoch();
        state.freeze(epoch, lengths, next_tree, checkpoint_lsn);
        // Ordering: rows `epoch` and `frozen_epoch` of the module head of `store`.
        self.epoch.store(epoch.0 + 1, Ordering::Relaxed);
        self.frozen_epoch.store(epoch.0, Ordering::Release);
        Ok(())
    }

    /// Makes the frozen state durable. All images of the frozen epoch have been installed. Does nothing if no
    /// checkpoint is in progress.
    ///
    /// `before_superblock` is called when the pages of the checkpoint are durable and nothing names them yet:
    /// what the checkpoint relies on outside of the store, as the log up to its lsn, is made durable there. It gives
    /// how long the file of the log is at least from then on, in bytes, as it is durable; 0 = not said.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`] if the file cannot be lengthened, and what `before_superblock` gives: the
    /// checkpoint was given up as by [`Store::abort`], nothing is lost; an open that follows may find it all the
    /// same. [`Error::Poisoned`]: writing has ended; the next open finds this checkpoint or the one before, whole.
    pub(crate) fn publish(&self, before_superblock: impl FnOnce() -> Result<u64>) -> Result<()> {
        self.writable("checkpoint")?;
        let _alone = self.publishing.lock().expect(NO_PANIC);
        let mut written = Written::default();
        let (old, old_slot) = {
            let durable = self.durable();
            (durable.superblock, durable.slot)
        };
        let (mut superblock, manifest) = match self.write_map(&old, &mut written) {
            Ok(Some(done)) => done,
            Ok(None) => return Ok(()),
            Err(error) => return Err(self.give_up(written, error)),
        };
        self.sync("sync pages")?;
        match before_superblock() {
            Ok(log_bytes) => superblock.log_bytes = log_bytes,
            Err(error) => return Err(self.give_up(written, error)),
        }
        let slot = 1 - old_slot;
        let bytes = superblock.encode();
        match self.write_superblock(slot, &bytes) {
            Ok(()) => {}
            Err(full @ Error::Full { .. }) => {
                self.put_off(&written);
                return Err(full);
            }
            Err(error) => return Err(self.poison(error)),
        }
        self.sync("sync the superblock")?;

        *self.durable() =
            Durable { superblock, slot, lengths: manifest.lengths, next_tree: manifest.next_tree };
        self.state_mut().published(&written.map_pages, superblock.manifest);
        self.frozen_epoch.store(0, Ordering::Release); // Ordering: row `frozen_epoch`.
        self.cut_tail();
        match self.write_superblock(1 - slot, &bytes) {
            Ok(()) | Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(self.poison(error)),
        }
    }

    /// Gives up the checkpoint in progress, after a failure before [`Store::publish`]: what was to become
    /// durable with it waits for the next one. Does nothing if there is none.
    pub(crate) fn abort(&self) {
        let mut state = self.state_mut();
        state.aborted();
        self.frozen_epoch.store(0, Ordering::Release); // Ordering: row `frozen_epoch`.
    }

    /// A failure before step 3: what was written is given back, unless it is poisoned and stays as it is.
    fn give_up(&self, written: Written, error: Error) -> Error {
        if self.health().is_ok() {
            let mut state = self.state_mut();
            for run in written.runs {
                state.blocks.release(run);
            }
            drop(state);
            self.abort();
        }
        error
    }

    /// A full disk in step 3: a crash may leave this checkpoint or the older one, so what was written stays as it
    /// is until the next one is durable.
    fn put_off(&self, written: &Written) {
        let mut state = self.state_mut();
        for &run in &written.runs {
            state.blocks.named(run);
            state.blocks.not_fresh(run);
            state.blocks.pend_next(run);
        }
        drop(state);
        self.abort();
    }

    /// Step 1. Gives `None` if no checkpoint is in progress.
    fn write_map(
        &self,
        old: &Superblock,
        written: &mut Written,
    ) -> Result<Option<(Superblock, Manifest)>> {
        let mut manifest = Manifest::default();
        let mut reach: Vec<u64> = Vec::new();
        let checkpoint_lsn;
        let to_write = {
            let mut state = self.state_mut();
            let Some(frozen) = &mut state.frozen else {
                return Ok(None);
            };
            let to_write = frozen.seal();
            manifest.epoch = frozen.epoch;
            manifest.next_tree = frozen.next_tree;
            manifest.lengths = std::mem::take(&mut frozen.lengths);
            checkpoint_lsn = frozen.checkpoint_lsn;
            for slot in state.map.slots() {
                manifest.directory.push(slot.on_disk);
                reach.push(slot.on_disk_reach);
            }
            to_write
        };
        let mut batch: Vec<(AlignedBuf, Run)> = Vec::new();
        let mut batch_bytes = 0;
        for (index, entries) in to_write {
            let (buf, mut placement) = encode_map_page(&entries, index);
            if placement.is_mapped() {
                let run = self.give_out(&[u64::from(placement.blocks)])?[0];
                written.runs.push(run);
                placement.block = BlockId(run.start);
                batch_bytes += buf.len();
                batch.push((buf, run));
            }
            manifest.directory[index] = placement;
            reach[index] = entries.reach();
            written.map_pages.push((index, placement, reach[index]));
            if batch_bytes >= CHUNK_BYTES {
                self.write_map_batch(&mut batch)?;
                batch_bytes = 0;
            }
        }
        while manifest.directory.last() == Some(&Placement::NONE) {
            manifest.directory.pop();
        }
        let buf = manifest.encode();
        let run = self.give_out(&[(buf.len() / BLOCK_BYTES) as u64])?[0];
        written.runs.push(run);
        let sequence = old.sequence + 1;
        let placement = Placement {
            block: BlockId(run.start),
            blocks: run.len as u32,
            checksum: xxh3_64_with_seed(&buf, seed_manifest(sequence)),
        };
        batch.push((buf, run));
        self.write_map_batch(&mut batch)?;
        let map_pages = manifest.directory.iter().map(Placement::end);
        let file_blocks = reach.into_iter().chain(map_pages).chain([placement.end()]);
        let superblock = Superblock {
            sequence,
            version: FORMAT_VERSION,
            epoch: manifest.epoch,
            checkpoint_lsn,
            manifest: placement,
            manifest_bytes: manifest.bytes() as u64,
            file_blocks: file_blocks.max().unwrap_or(0),
            ..*old
        };
        Ok(Some((superblock, manifest)))
    }

    fn write_map_batch(&self, batch: &mut Vec<(AlignedBuf, Run)>) -> Result<()> {
        let writes: Vec<Write<'_>> = batch
            .iter()
            .map(|(buf, run)| Write { offset: BlockId(run.start).offset(), bytes: buf })
            .collect();
        // The caller gives the runs back after a full disk: none is named here.
        self.write_runs(&writes, &[], "write the page map")?;
        batch.clear();
        Ok(())
    }

    fn sync(&self, op: &'static str) -> Result<()> {
        let synced = self.disk.sync();
        synced.map_err(|error| self.poison(self.disk_error(op, error)))
    }

    fn write_superblock(&self, slot: usize, bytes: &AlignedBuf) -> Result<()> {
        let write = Write { offset: SLOT_BLOCKS[slot].offset(), bytes };
        let written = self.disk.write(&[write]);
        written.map_err(|error| self.disk_error("write a superblock", error))
    }

    /// Cuts the free blocks at the end of the file, down to those that it keeps, once there are twice as many.
    fn cut_tail(&self) {
        let too_long = |end: u64, tail: u64| {
            let step = kept_blocks(end - tail);
            (tail > 2 * step).then_some(end - tail + step)
        };
        let target = |state: &super::State| too_long(state.blocks.end(), state.blocks.tail_free());
        if target(&self.state()).is_none() {
            return;
        }
        let _alone = self.cut.write().expect(NO_PANIC);
        let mut state = self.state_mut();
        if let Some(to) = target(&state) {
            let end = state.blocks.end();
            // A failure leaves the file as long as it was.
            if state.blocks.cut(to) && self.disk.set_len(to * BLOCK_BYTES as u64).is_err() {
                state.blocks.grown(end);
            }
        }
    }
}
