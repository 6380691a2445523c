//! [`SimDisk`] and [`SimMachine`]: disks in memory that lose power, run full and fail, all by a seed.
//!
//! ```text
//!   write, set_len ---> visible image     what reads see
//!   allocate       \--> pending           in no order, until
//!   sync ------------> durable image      what a power cut cannot take
//!
//!   crash(seed, mode) = durable + some of pending, a length of its own  ->  another SimDisk
//!
//!   SimMachine   data : SimDisk --+-- one lock, one count of calls, one history,
//!                log  : SimDisk --+   one power cut  ->  another SimMachine
//! ```
//!
//! The parts: `machine.rs` several disks that lose power together, `file.rs` the state of one, `holes.rs` what
//! takes no room, `image.rs` bytes that are cheap to copy, `crash.rs` what a power cut leaves, `fault.rs` which
//! calls fail, `rng.rs` the seed. A [`SimDisk`] of its own is the only disk of a machine.
//!
//! # The model
//!
//! - \[S1\] The unit is a sector of 512 bytes. A power cut may keep, lose or tear each unsynced sector, or
//!   leave an older unsynced version of it. Nothing else in the file changes.
//! - \[S2\] After a sync that succeeded, a power cut changes nothing.
//! - \[S3\] The length is kept apart from the data: any length since the last sync may be found.
//! - \[S4\] A write that fails with `EIO` leaves any of its sectors; with `ENOSPC`, a first part of the
//!   batch, down to nothing and up to all of it.
//! - \[S5\] A sync that fails makes any of the pending sectors durable and **drops the others**: reads still
//!   see them, no later sync saves them. So a caller that retries a sync loses data here, as it does on
//!   Linux.
//! - \[S6\] The same seed and the same calls give the same disk. What a disk loses hangs on its own calls
//!   alone, so calls of the other disk of a machine between them change nothing.
//! - \[S7\] The disks of a machine lose power at the same instant, and what each keeps is drawn apart: no sync
//!   of one says anything of the other.
//! - \[S8\] Room: what is written or allocated takes some, what a file is lengthened by takes none before that. An
//!   allocation that fails may leave the file longer, with a first part of the room. After a power cut a file has
//!   room for all of its length, as where file systems keep both together.
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
mod file;
mod holes;
mod image;
mod machine;
mod rng;
#[cfg(test)]
mod tests;

pub use crash::{CrashMode, Snapshot};
pub use fault::{Fault, OpKind};
pub use machine::{MachineSnapshot, SimMachine};

use super::disk::{BackendReport, Disk, Write, check_range, check_writes};
use image::Image;
use machine::Machine;
use rng::Rng;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a power cut treats as one.
pub const SECTOR_BYTES: usize = 512;

/// Which states [`SimDisk::history`] and [`SimMachine::history`] collect.
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

/// A simulated disk, alone or one of a [`SimMachine`]. See the module head for what it does.
#[derive(Debug)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
    /// Which disk of the machine.
    index: usize,
}

impl SimDisk {
    /// An empty disk. The seed decides what failing calls leave behind.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::with_image(seed, Image::default())
    }

    fn with_image(seed: u64, image: Image) -> SimDisk {
        let machine = Machine::new([(Rng::new(seed), image)]);
        SimDisk { machine: Arc::new(Mutex::new(machine)), index: 0 }
    }

    /// The disk found after a power cut now: [`Snapshot::crash`] of the present state. For the disks of a
    /// machine together: [`SimMachine::crash`].
    pub fn crash(&self, seed: u64, mode: CrashMode) -> SimDisk {
        self.snapshot().crash(seed, mode)
    }

    /// The present state.
    pub fn snapshot(&self) -> Snapshot {
        self.machine().file(self.index).snapshot()
    }

    /// Lets one call of that kind fail: the `index`-th of this disk from now, from 0.
    pub fn fail_at(&self, index: u64, fault: Fault, kind: OpKind) {
        self.machine().file(self.index).faults.plan(kind, index, true, fault);
    }

    /// Lets all calls of that kind of this disk fail from the `index`-th from now on, until
    /// [`SimDisk::clear_faults`].
    pub fn fail_from(&self, index: u64, fault: Fault, kind: OpKind) {
        self.machine().file(self.index).faults.plan(kind, index, false, fault);
    }

    /// Forgets all failures planned for this disk; the capacity stays.
    pub fn clear_faults(&self) {
        self.machine().file(self.index).faults.clear();
    }

    /// Greatest room that the file may take, in bytes (\[S8\]): what would take more fails with `ENOSPC`. `None` = no
    /// limit.
    pub fn set_capacity(&self, bytes_max: Option<u64>) {
        self.machine().file(self.index).capacity_bytes = bytes_max;
    }

    /// How many calls of that kind there were, failed ones included.
    pub fn op_count(&self, kind: OpKind) -> u64 {
        self.machine().file(self.index).faults.count(kind)
    }

    /// What to collect from now on. Forgets what was collected before. A machine has one history for its
    /// disks.
    pub fn record_history(&self, record: Record) {
        self.machine().record_history(record);
    }

    /// What was collected since [`SimDisk::record_history`], oldest first.
    pub fn history(&self) -> Vec<Snapshot> {
        let machine = self.machine();
        machine.history().map(|moment| moment.file(self.index)).collect()
    }

    /// Puts foreign bytes on the disk, durable at once and past all counting: bit rot, a misdirected write.
    /// May have any offset and length.
    pub fn damage(&self, offset: u64, bytes: &[u8]) {
        self.machine().file(self.index).damage(offset, bytes);
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A test that panicked elsewhere may still look at the disk.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn backend(&self) -> BackendReport {
        BackendReport { name: "sim", direct: false, note: None }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.machine().read(self.index, offset, buf)
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        check_writes(writes)?;
        self.machine().write(self.index, writes)
    }

    fn sync(&self) -> io::Result<()> {
        self.machine().sync(self.index)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.machine().file(self.index).len_bytes())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.machine().set_len(self.index, bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        check_range(offset, bytes as usize).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.machine().allocate(self.index, offset, bytes)
    }
}
