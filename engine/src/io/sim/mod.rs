//! [`SimDisk`]: a disk in memory that loses power, runs full and fails, all by a seed.
//!
//! ```text
//!   write, set_len ---> visible image     what reads see
//!                  \--> pending           in no order, until
//!   sync ------------> durable image      what a power cut cannot take
//!
//!   crash(seed, mode) = durable + some of pending, a length of its own  ->  another SimDisk
//! ```
//!
//! The parts: `image.rs` bytes that are cheap to copy, `crash.rs` what a power cut leaves, `fault.rs` which
//! calls fail, `rng.rs` the seed.
//!
//! # The model
//!
//! - \[S1\] The unit is a sector of 512 bytes. A power cut may keep, lose or tear each unsynced sector, or
//!   leave an older unsynced version of it. Nothing else in the file changes.
//! - \[S2\] After a sync that succeeded, a power cut changes nothing.
//! - \[S3\] The length is kept apart from the data: any length since the last sync may be found.
//! - \[S4\] A write that fails with `EIO` leaves any of its sectors; with `ENOSPC`, a first part of the
//!   batch.
//! - \[S5\] A sync that fails makes any of the pending sectors durable and **drops the others**: reads still
//!   see them, no later sync saves them. So a caller that retries a sync loses data here, as it does on
//!   Linux.
//! - \[S6\] The same seed and the same calls give the same disk.
//!
//! Not modelled: time, bit rot (use [`SimDisk::damage`]), a sector of another file.
//!
//! # Example
//!
//! ```
//! use latchkv::io::sim::{CrashMode, SimDisk};
//! use latchkv::io::{AlignedBuf, Disk, Write};
//!
//! let disk = SimDisk::new(1);
//! let mut block = AlignedBuf::new(4096);
//! block.fill(1);
//! disk.write(&[Write { offset: 0, bytes: &block }])?;
//! disk.sync()?;
//! block.fill(2);
//! disk.write(&[Write { offset: 0, bytes: &block }])?;
//!
//! disk.crash(7, CrashMode::LoseAll).read(0, &mut block)?;
//! assert_eq!(block[0], 1);
//! disk.crash(7, CrashMode::KeepAll).read(0, &mut block)?;
//! assert_eq!(block[0], 2);
//! # Ok::<(), std::io::Error>(())
//! ```

mod crash;
mod fault;
mod image;
mod rng;
#[cfg(test)]
mod tests;

pub use crash::{CrashMode, Snapshot};
pub use fault::{Fault, OpKind};

use super::disk::{BackendReport, Disk, Write, check_writes};
use crash::{Pending, apply};
use fault::Faults;
use image::Image;
use rng::Rng;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a power cut treats as one.
pub const SECTOR_BYTES: usize = 512;

/// Which states [`SimDisk::history`] collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Record {
    /// None.
    #[default]
    Nothing,
    /// Before and after every sync.
    Syncs,
    /// After every call that changes something; the state before a sync is that after the call before it.
    Changes,
}

/// A simulated disk. See the module head for what it does.
#[derive(Debug)]
pub struct SimDisk {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    visible: Image,
    durable: Image,
    pending: Vec<Arc<Pending>>,
    lengths: Vec<u64>,
    faults: Faults,
    rng: Rng,
    capacity_bytes: Option<u64>,
    record: Record,
    history: Vec<Snapshot>,
}

impl SimDisk {
    /// An empty disk. The seed decides what failing calls leave behind.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with_image(seed, Image::default())
    }

    fn with_image(seed: u64, image: Image) -> SimDisk {
        SimDisk {
            state: Mutex::new(State {
                lengths: vec![image.len_bytes()],
                visible: image.clone(),
                durable: image,
                pending: Vec::new(),
                faults: Faults::default(),
                rng: Rng::new(seed),
                capacity_bytes: None,
                record: Record::Nothing,
                history: Vec::new(),
            }),
        }
    }

    /// The disk found after a power cut now: [`Snapshot::crash`] of the present state.
    pub fn crash(&self, seed: u64, mode: CrashMode) -> SimDisk {
        self.snapshot().crash(seed, mode)
    }

    /// The present state.
    pub fn snapshot(&self) -> Snapshot {
        self.state().snapshot()
    }

    /// Lets one call of that kind fail: the `index`-th from now, from 0.
    pub fn fail_at(&self, index: u64, fault: Fault, kind: OpKind) {
        self.state().faults.plan(kind, index, true, fault);
    }

    /// Lets all calls of that kind fail from the `index`-th from now on, until [`SimDisk::clear_faults`].
    pub fn fail_from(&self, index: u64, fault: Fault, kind: OpKind) {
        self.state().faults.plan(kind, index, false, fault);
    }

    /// Forgets all planned failures; the capacity stays.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Greatest length of the file in bytes: what would make it longer fails with `ENOSPC`. `None` = no
    /// limit.
    pub fn set_capacity(&self, bytes_max: Option<u64>) {
        self.state().capacity_bytes = bytes_max;
    }

    /// How many calls of that kind there were, failed ones included.
    pub fn op_count(&self, kind: OpKind) -> u64 {
        self.state().faults.count(kind)
    }

    /// What to collect from now on. Forgets what was collected before.
    pub fn record_history(&self, record: Record) {
        let mut state = self.state();
        state.record = record;
        state.history.clear();
    }

    /// What was collected since [`SimDisk::record_history`], oldest first.
    pub fn history(&self) -> Vec<Snapshot> {
        self.state().history.clone()
    }

    /// Puts foreign bytes on the disk, durable at once and past all counting: bit rot, a misdirected write.
    /// May have any offset and length.
    pub fn damage(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.state();
        state.visible.write(offset, bytes);
        state.durable.write(offset, bytes);
        state.note_length();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere may still look at the disk.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            op: self.faults.count(OpKind::Any),
            durable: self.durable.clone(),
            pending: self.pending.clone(),
            lengths: self.lengths.clone(),
        }
    }

    fn record(&mut self, when: Record) {
        if self.record == when {
            let snapshot = self.snapshot();
            self.history.push(snapshot);
        }
    }

    fn note_length(&mut self) {
        let len_bytes = self.visible.len_bytes();
        if self.lengths.last() != Some(&len_bytes) {
            self.lengths.push(len_bytes);
        }
    }

    fn is_beyond_capacity(&self, end: u64) -> bool {
        self.capacity_bytes.is_some_and(|capacity| end > capacity.max(self.visible.len_bytes()))
    }

    /// Stores sectors in the visible image, unsynced.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.visible.write(offset, bytes);
        self.pending.push(Arc::new(Pending::Write { offset, bytes: bytes.into() }));
        self.note_length();
    }

    fn write(&mut self, writes: &[Write<'_>]) -> io::Result<()> {
        let fault = self.faults.meet(OpKind::Write);
        if fault == Some(Fault::Eio) {
            for write in writes {
                for (sector, offset) in sectors(write.offset, write.bytes) {
                    if self.rng.chance(8) {
                        self.put(offset, sector);
                    }
                }
            }
            return Err(Fault::Eio.error());
        }
        let taken = if fault.is_some() { self.rng.below(writes.len()) } else { writes.len() };
        for write in &writes[..taken] {
            if self.is_beyond_capacity(write.offset + write.bytes.len() as u64) {
                return Err(Fault::Enospc.error());
            }
            self.put(write.offset, write.bytes);
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn sync(&mut self) -> io::Result<()> {
        let fault = self.faults.meet(OpKind::Sync);
        for pending in std::mem::take(&mut self.pending) {
            match (&*pending, fault) {
                (pending, None) => apply(&mut self.durable, pending),
                // [S5]: the rest is dropped for good.
                (Pending::Write { offset, bytes }, Some(_)) => {
                    for (sector, offset) in sectors(*offset, bytes) {
                        if self.rng.chance(8) {
                            self.durable.write(offset, sector);
                        }
                    }
                }
                (pending @ Pending::Cut { .. }, Some(_)) => apply(&mut self.durable, pending),
            }
        }
        let len_bytes = self.visible.len_bytes();
        self.durable.set_len(len_bytes);
        self.lengths.clear();
        self.lengths.push(len_bytes);
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn set_len(&mut self, bytes: u64) -> io::Result<()> {
        if let Some(fault) = self.faults.meet(OpKind::SetLen) {
            return Err(fault.error());
        }
        if self.is_beyond_capacity(bytes) {
            return Err(Fault::Enospc.error());
        }
        if bytes < self.visible.len_bytes() {
            // The rest of a sector that is cut in its middle becomes zero with the length.
            let cut_sector = bytes / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
            self.visible.set_len(bytes);
            if cut_sector != bytes {
                let mut sector = [0; SECTOR_BYTES];
                self.visible.read(cut_sector, &mut sector);
                let bytes = sector.into();
                self.pending.push(Arc::new(Pending::Write { offset: cut_sector, bytes }));
            }
            self.pending.push(Arc::new(Pending::Cut { at: bytes }));
        }
        self.visible.set_len(bytes);
        self.note_length();
        Ok(())
    }
}

impl Disk for SimDisk {
    fn backend(&self) -> BackendReport {
        BackendReport { name: "sim", direct: false, note: None }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        if let Some(fault) = state.faults.meet(OpKind::Read) {
            return Err(fault.error());
        }
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > state.visible.len_bytes()) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        state.visible.read(offset, buf);
        Ok(())
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        check_writes(writes)?;
        let mut state = self.state();
        let written = state.write(writes);
        state.record(Record::Changes);
        written
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.record(Record::Syncs);
        let synced = state.sync();
        state.record(Record::Syncs);
        state.record(Record::Changes);
        synced
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.state().visible.len_bytes())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        let set = state.set_len(bytes);
        state.record(Record::Changes);
        set
    }
}

/// The sectors of a write with their offsets.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    bytes.chunks(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES))
}
