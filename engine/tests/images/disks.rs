//! The disks of a run, and disks that lie: what the runner has to notice.

use latchkv::io::sim::SimMachine;
use latchkv::io::{BackendReport, Disk, Write};
use latchkv::{Db, Options, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the disks do wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lies {
    None,
    /// Every third sync of the log reports success and does nothing.
    LogSync,
    /// Every third sync of the data.
    DataSync,
    /// Every 10th write of the log reports success and does nothing.
    LogWrite,
    /// Every 40th write of the data.
    DataWrite,
}

/// Opens the database on these disks.
pub(crate) fn open(machine: &SimMachine, options: &Options, lies: Lies) -> Result<Db> {
    let (data, log): (Arc<dyn Disk>, Arc<dyn Disk>) = (machine.data(), machine.log());
    match lies {
        Lies::None => options.open_disks(data, log),
        Lies::LogSync => options.open_disks(data, Liar::of(log, Some(3), None)),
        Lies::LogWrite => options.open_disks(data, Liar::of(log, None, Some(10))),
        Lies::DataSync => options.open_disks(Liar::of(data, Some(3), None), log),
        Lies::DataWrite => options.open_disks(Liar::of(data, None, Some(40)), log),
    }
}

#[derive(Debug)]
struct Liar {
    below: Arc<dyn Disk>,
    /// Every how many calls.
    syncs: Option<u32>,
    writes: Option<u32>,
    calls: AtomicU32,
}

impl Liar {
    fn of(below: Arc<dyn Disk>, syncs: Option<u32>, writes: Option<u32>) -> Arc<Liar> {
        Arc::new(Liar { below, syncs, writes, calls: AtomicU32::new(1) })
    }

    fn lies(&self, every: Option<u32>) -> bool {
        // Relaxed: a count, nothing hangs on it.
        every.is_some_and(|every| self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(every))
    }
}

impl Disk for Liar {
    fn backend(&self) -> BackendReport {
        self.below.backend()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.below.read(offset, buf)
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        if self.lies(self.writes) { Ok(()) } else { self.below.write(writes) }
    }

    fn sync(&self) -> io::Result<()> {
        if self.lies(self.syncs) { Ok(()) } else { self.below.sync() }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.below.len_bytes()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.below.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.below.allocate(offset, bytes)
    }
}
