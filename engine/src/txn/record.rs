//! The changes of a commit on their way into the log.
//!
//! ```text
//! small   [ Commit: changes ]
//! large   [ Part: head | changes ] [ Part: head | changes ] ... [ Commit: where the first part is ]
//! ```
//!
//! A stream of operations that is longer than a record is cut where the record ends, be it within an operation.
//! Large values are in it whole: so no block that the log names has to be kept, and recovery reads none back.

use crate::error::Result;
use crate::log::ops::{Op, PartHead};
use crate::log::{Applying, Log, RecordKind, Reserved};

/// A commit's operations, gathered; parts are in the log already.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    log: &'a Log,
    bytes: Vec<u8>,
    bytes_max: usize,
    first_part: Option<u64>,
    parts_bytes: u64,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(log: &'a Log) -> Recorder<'a> {
        let bytes_max = (log.ops_bytes_max() as usize).saturating_sub(PartHead::BYTES);
        Recorder { log, bytes: Vec::new(), bytes_max, first_part: None, parts_bytes: 0 }
    }

    /// Adds an operation. The caller is inside the gate, and alone with large commits if the sum of all may be
    /// over a record.
    ///
    /// # Errors
    /// Those of reserving room for a part. Parts that no Commit follows mean nothing.
    pub(super) fn push(&mut self, op: Op<'_>) -> Result<()> {
        op.encode_into(&mut self.bytes);
        let mut from = 0;
        while self.bytes.len() - from > self.bytes_max {
            let to = from + self.bytes_max;
            self.part(from, to)?;
            from = to;
        }
        self.bytes.drain(..from);
        Ok(())
    }

    /// Puts a part of what was gathered into the log.
    fn part(&mut self, from: usize, to: usize) -> Result<()> {
        let part = &self.bytes[from..to];
        let reserved = self.log.reserve((PartHead::BYTES + part.len()) as u32)?;
        let first = *self.first_part.get_or_insert(reserved.lsn());
        let head = PartHead { first }.encode();
        reserved.copy(RecordKind::Part, &[&head, part]).applied();
        self.parts_bytes += part.len() as u64;
        Ok(())
    }

    /// Reserves the record of the commit.
    ///
    /// # Errors
    /// Those of reserving room for it.
    pub(super) fn reserve(mut self) -> Result<Ready<'a>> {
        if self.first_part.is_some() && !self.bytes.is_empty() {
            self.part(0, self.bytes.len())?;
        }
        if let Some(first) = self.first_part {
            self.bytes.clear();
            Op::Parts { first, bytes: self.parts_bytes }.encode_into(&mut self.bytes);
        }
        let reserved = self.log.reserve(self.bytes.len() as u32)?;
        Ok(Ready { reserved, bytes: self.bytes })
    }
}

/// A commit with its lsn, not yet in the log.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) reserved: Reserved<'a>,
    bytes: Vec<u8>,
}

impl<'a> Ready<'a> {
    /// Copies it: it is made from here on.
    pub(super) fn copy(self) -> Applying<'a> {
        self.reserved.copy(RecordKind::Commit, &[&self.bytes])
    }
}
