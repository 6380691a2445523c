//! Which calls of a simulated disk fail, and the count of them all.

use std::io;

/// What a planned failure reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The device failed (`EIO`).
    Eio,
    /// There is no room (`ENOSPC`).
    Enospc,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Fault::Eio => libc::EIO,
            Fault::Enospc => libc::ENOSPC,
        })
    }
}

/// Which calls are counted or meant. [`Disk::len_bytes`](crate::io::Disk::len_bytes) is none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// [`Disk::read`](crate::io::Disk::read).
    Read,
    /// [`Disk::write`](crate::io::Disk::write).
    Write,
    /// [`Disk::sync`](crate::io::Disk::sync).
    Sync,
    /// [`Disk::set_len`](crate::io::Disk::set_len).
    SetLen,
    /// [`Disk::allocate`](crate::io::Disk::allocate).
    Allocate,
    /// All but reads.
    Change,
    /// All of them.
    Any,
}

impl OpKind {
    /// Whether a call of the basic kind `op` is meant.
    pub(super) fn covers(self, op: OpKind) -> bool {
        match self {
            OpKind::Any => true,
            OpKind::Change => op != OpKind::Read,
            kind => kind == op,
        }
    }
}

#[derive(Debug)]
struct Planned {
    kind: OpKind,
    /// Calls of that kind still to pass.
    left: u64,
    once: bool,
    fault: Fault,
}

/// The plan, and how many calls of each basic kind there were.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<Planned>,
    counts: [u64; 5],
}

impl Faults {
    /// Plans a failure after `left` more calls of that kind: of one call, or of all from there on.
    pub(super) fn plan(&mut self, kind: OpKind, left: u64, once: bool, fault: Fault) {
        self.planned.push(Planned { kind, left, once, fault });
    }

    pub(super) fn clear(&mut self) {
        self.planned.clear();
    }

    /// Calls of that kind so far.
    pub(super) fn count(&self, kind: OpKind) -> u64 {
        let [reads, writes, syncs, set_lens, allocates] = self.counts;
        match kind {
            OpKind::Read => reads,
            OpKind::Write => writes,
            OpKind::Sync => syncs,
            OpKind::SetLen => set_lens,
            OpKind::Allocate => allocates,
            OpKind::Change => writes + syncs + set_lens + allocates,
            OpKind::Any => reads + writes + syncs + set_lens + allocates,
        }
    }

    /// Counts a call of a basic kind; the fault it is to meet, if any.
    pub(super) fn meet(&mut self, op: OpKind) -> Option<Fault> {
        match op {
            OpKind::Read => self.counts[0] += 1,
            OpKind::Write => self.counts[1] += 1,
            OpKind::Sync => self.counts[2] += 1,
            OpKind::SetLen => self.counts[3] += 1,
            OpKind::Allocate => self.counts[4] += 1,
            OpKind::Change | OpKind::Any => {}
        }
        let mut met = None;
        self.planned.retain_mut(|planned| {
            if !planned.kind.covers(op) {
                return true;
            }
            if planned.left > 0 {
                planned.left -= 1;
                return true;
            }
            met = met.or(Some(planned.fault));
            !planned.once
        });
        met
    }
}
