//! The state of one simulated file: what is visible, what is durable, and what lies between.
//!
//! What fails and how much room the file may take is said with each call, since a machine has a say in both. Nothing is
//! counted or recorded here.

use super::SECTOR_BYTES;
use super::crash::{Pending, Snapshot, apply};
use super::fault::{Fault, Faults, OpKind};
use super::holes::Holes;
use super::image::Image;
use super::rng::Rng;
use crate::io::Write;
use std::io;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct File {
    visible: Image,
    durable: Image,
    pending: Vec<Arc<Pending>>,
    lengths: Vec<u64>,
    /// Of the visible file.
    holes: Holes,
    rng: Rng,
    /// Of this file alone.
    pub(super) faults: Faults,
    /// Of this file alone.
    pub(super) capacity_bytes: Option<u64>,
}

impl File {
    /// A file with that content, all of it durable, and with room for all of it.
    pub(super) fn new(rng: Rng, image: Image) -> File {
        File {
            lengths: vec![image.len_bytes()],
            visible: image.clone(),
            durable: image,
            pending: Vec::new(),
            holes: Holes::default(),
            rng,
            faults: Faults::default(),
            capacity_bytes: None,
        }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.visible.len_bytes()
    }

    /// Bytes that it takes.
    pub(super) fn room_bytes(&self) -> u64 {
        self.len_bytes() - self.holes.bytes()
    }

    pub(super) fn damage(&mut self, offset: u64, bytes: &[u8]) {
        self.visible.write(offset, bytes);
        self.durable.write(offset, bytes);
        self.note_length();
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8], fault: Option<Fault>) -> io::Result<()> {
        if let Some(fault) = fault {
            return Err(fault.error());
        }
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.visible.len_bytes()) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.visible.read(offset, buf);
        Ok(())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            op: self.faults.count(OpKind::Any),
            durable: self.durable.clone(),
            pending: self.pending.clone(),
            lengths: self.lengths.clone(),
        }
    }

    fn note_length(&mut self) {
        let len_bytes = self.visible.len_bytes();
        if self.lengths.last() != Some(&len_bytes) {
            self.lengths.push(len_bytes);
        }
    }

    /// Whether there is no room for all between two places; what has some keeps it.
    fn is_too_much(&self, start: u64, end: u64, room_bytes_max: u64) -> bool {
        let behind = end.saturating_sub(self.len_bytes().max(start));
        let more = behind + self.holes.bytes_in(start, end);
        more > 0 && self.room_bytes() + more > room_bytes_max
    }

    /// Gives what lies between two places its room, and what lies before it, if the file gets longer, none.
    fn take_room(&mut self, start: u64, end: u64) {
        self.holes.add(self.len_bytes(), start);
        self.holes.fill(start, end);
    }

    /// Stores sectors in the visible image, unsynced.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.take_room(offset, offset + bytes.len() as u64);
        self.visible.write(offset, bytes);
        self.pending.push(Arc::new(Pending::Write { offset, bytes: bytes.into() }));
        self.note_length();
    }

    pub(super) fn write(
        &mut self,
        writes: &[Write<'_>],
        fault: Option<Fault>,
        room_bytes_max: u64,
    ) -> io::Result<()> {
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
        let bytes: usize = writes.iter().map(|write| write.bytes.len()).sum();
        let mut taken = match fault {
            Some(_) => self.rng.below(bytes / SECTOR_BYTES + 1) * SECTOR_BYTES,
            None => bytes,
        };
        for write in writes {
            let part = &write.bytes[..taken.min(write.bytes.len())];
            let end = write.offset + part.len() as u64;
            if self.is_too_much(write.offset, end, room_bytes_max) {
                return Err(Fault::Enospc.error());
            }
            self.put(write.offset, part);
            taken -= part.len();
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    pub(super) fn sync(&mut self, fault: Option<Fault>) -> io::Result<()> {
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

    pub(super) fn set_len(&mut self, bytes: u64, fault: Option<Fault>) -> io::Result<()> {
        if let Some(fault) = fault {
            return Err(fault.error());
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
        self.holes.add(self.len_bytes(), bytes);
        self.holes.cut(bytes);
        self.visible.set_len(bytes);
        self.note_length();
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        offset: u64,
        bytes: u64,
        fault: Option<Fault>,
        room_bytes_max: u64,
    ) -> io::Result<()> {
        // [S8]: what was refused has a first part of its room, and the file may be longer.
        let whole = offset + bytes;
        let is_refused = fault.is_some() || self.is_too_much(offset, whole, room_bytes_max);
        let end =
            if is_refused { offset + self.rng.below(bytes as usize + 1) as u64 } else { whole };
        if !self.is_too_much(offset, end, room_bytes_max) {
            self.take_room(offset, end);
            self.visible.set_len(end.max(self.len_bytes()));
            self.note_length();
        }
        match (is_refused, fault) {
            (false, _) => Ok(()),
            (true, fault) => Err(fault.unwrap_or(Fault::Enospc).error()),
        }
    }
}

/// The sectors of a write with their offsets.
fn sectors(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    bytes.chunks(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES))
}
