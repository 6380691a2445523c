//! The stream of bytes, read out of the slots.
//!
//! [`Slots`] is what the headers of a file say; [`Window`] holds a stretch of the stream in memory, contiguous
//! though it lies in several slots, and moves forward.
//!
//! ```text
//!   stream    part 7 ........| part 8 ........| part 9 ..
//!   window              [#########]
//!                        ^ start       grows to what is asked for, at most a record and one read
//! ```
//!
//! What is missing is no error here: the stream just ends. It ends where a part is missing, belongs to another
//! run, or lies behind the end of the file.
//!
//! Tested in `tests::recovery`.

use super::record::{HEADER_BYTES, Header, RECORD_BYTES_MAX};
use super::slots::{FORMAT_VERSION, SlotHeader};
use super::slots::{Found, Geometry, HEADER_BLOCK_BYTES, Run, SLOT_BYTES_MAX, SLOT_BYTES_MIN};
use crate::error::{Corruption, Error, OpenError, Result};
use crate::id::BLOCK_BYTES;
use crate::io::{AlignedBuf, Disk, disk_error};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one read.
pub(super) const READ_BYTES: usize = 1 << 20;
/// Slots of a file at most; more are damage, or somebody else's file.
const SLOTS_MAX: u64 = 1 << 20;

/// What the headers of a file say.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    /// `None` when there is no valid header.
    pub(super) geometry: Option<Geometry>,
    /// The valid headers, ascending by part.
    pub(super) headers: Vec<SlotHeader>,
    /// Numbers of the slots without a valid header, ascending.
    pub(super) unreadable: Vec<u64>,
    /// Length of the file.
    pub(super) file_bytes: u64,
}

impl Slots {
    /// Reads all headers.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Open`] for another database's log or a newer one; [`Error::Corrupt`] for a file
    /// with absurdly many slots.
    pub(super) fn read(disk: Arc<dyn Disk>, path: &Path, uuid: [u8; 16]) -> Result<Slots> {
        let io_error = |source| disk_error("reading the log", path, source);
        let file_bytes = disk.len_bytes().map_err(io_error)?;
        let mut slots = Slots {
            disk,
            path: path.to_owned(),
            geometry: None,
            headers: Vec::new(),
            unreadable: Vec::new(),
            file_bytes,
        };
        let Some(slot_bytes) = slots.find_slot_bytes()? else { return Ok(slots) };
        let geometry = Geometry::new(slot_bytes);
        slots.geometry = Some(geometry);
        let count = file_bytes.div_ceil(slot_bytes);
        if count > SLOTS_MAX {
            return Err(slots.corrupt(0, "the log has too many slots", SLOTS_MAX, count));
        }
        for slot in 0..count {
            match slots.header_at(geometry.slot_offset(slot))? {
                Some(header) if header.slot_bytes == slot_bytes => {
                    if header.uuid != uuid {
                        let why = "its log is that of another database";
                        return Err(OpenError::NotADatabase { path: slots.path, why }.into());
                    }
                    slots.headers.push(header);
                }
                _ => slots.unreadable.push(slot),
            }
        }
        slots.headers.sort_by_key(|header| (header.part, header.run.first_part));
        // A part is once in a file; of two that claim it, the later run's is believed.
        let mut latest: Vec<SlotHeader> = Vec::with_capacity(slots.headers.len());
        for header in slots.headers.drain(..) {
            match latest.last_mut() {
                Some(last) if last.part == header.part => {
                    slots.unreadable.push(last.slot);
                    *last = header;
                }
                _ => latest.push(header),
            }
        }
        slots.headers = latest;
        slots.unreadable.sort_unstable();
        Ok(slots)
    }

    /// What a slot's length is, by the first header; or, if that is damaged, by any that lies at a power of two.
    fn find_slot_bytes(&self) -> Result<Option<u64>> {
        let doublings = (SLOT_BYTES_MAX / SLOT_BYTES_MIN).ilog2();
        let offsets = (0..=doublings).map(|doubling| SLOT_BYTES_MIN << doubling);
        for offset in [0].into_iter().chain(offsets) {
            if let Some(header) = self.header_at(offset)? {
                return Ok(Some(header.slot_bytes));
            }
        }
        Ok(None)
    }

    fn header_at(&self, offset: u64) -> Result<Option<SlotHeader>> {
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        let bytes = self.read_bytes(offset, &mut block)?;
        match SlotHeader::decode(&block[..bytes], offset) {
            Found::Valid(header) => Ok(Some(header)),
            Found::Nothing => Ok(None),
            Found::Newer(found) => Err(OpenError::NewerVersion {
                path: self.path.clone(),
                found,
                supported: FORMAT_VERSION,
            }
            .into()),
        }
    }

    /// The header of a part.
    pub(super) fn header_of(&self, part: u64) -> Option<&SlotHeader> {
        let index = self.headers.binary_search_by_key(&part, |header| header.part).ok()?;
        self.headers.get(index)
    }

    /// Reads at a place of the file, as far as the file goes; how much.
    pub(super) fn read_bytes(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let bytes = (buf.len() as u64).min(self.file_bytes.saturating_sub(offset)) as usize;
        if bytes > 0 {
            match self.disk.read(offset, &mut buf[..bytes]) {
                Ok(()) => {}
                // It was cut meanwhile, by somebody who ignores locks.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(source) => return Err(disk_error("reading the log", &self.path, source)),
            }
        }
        Ok(bytes)
    }

    /// Reads the stream of a run from `lsn` to the end of its part at most; how much.
    fn read_stream(&self, run: Run, lsn: u64, buf: &mut [u8]) -> Result<usize> {
        let Some(geometry) = self.geometry else { return Ok(0) };
        let part = geometry.part(lsn);
        let Some(header) = self.header_of(part).filter(|header| header.run == run) else {
            return Ok(0);
        };
        let left = geometry.start(part + 1) - lsn;
        let bytes = (buf.len() as u64).min(left) as usize;
        self.read_bytes(geometry.offset(header.slot, lsn), &mut buf[..bytes])
    }

    /// The offset in the file of the byte at `lsn`, if its part is there.
    pub(super) fn offset_of(&self, lsn: u64) -> Option<u64> {
        let geometry = self.geometry?;
        let header = self.header_of(geometry.part(lsn))?;
        Some(geometry.offset(header.slot, lsn))
    }

    /// Whether everything behind the header block of the first slot is zeros: so it is in a file whose first
    /// header never was synced.
    pub(super) fn is_blank(&self) -> Result<bool> {
        let mut buf = AlignedBuf::new(READ_BYTES);
        let mut offset = HEADER_BLOCK_BYTES;
        while offset < self.file_bytes {
            let bytes = self.read_bytes(offset, &mut buf)?;
            if bytes == 0 {
                break;
            }
            if buf[..bytes].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            offset += bytes as u64;
        }
        Ok(true)
    }

    /// Damage at a place of the file.
    pub(super) fn corrupt(
        &self,
        offset: u64,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Error {
        Error::from(Corruption {
            file: self.path.clone(),
            offset: Some(offset),
            page: None,
            tree: None,
            what,
            expected: expected.to_string(),
            got: got.to_string(),
        })
    }
}

/// A stretch of the stream in memory.
#[derive(Debug, Default)]
pub(super) struct Window {
    run: Option<Run>,
    start: u64,
    /// Longer than what is filled, so that no read has to clear it first.
    bytes: Vec<u8>,
    filled: usize,
    /// The stream ends behind what is filled.
    is_last: bool,
}

impl Window {
    /// The stream of a run from `lsn` on: `want` bytes, at most a record, or fewer where it ends.
    pub(super) fn get(&mut self, slots: &Slots, run: Run, lsn: u64, want: usize) -> Result<&[u8]> {
        let end = self.start + self.filled as u64;
        if self.run != Some(run) || lsn < self.start || lsn > end {
            self.filled = 0;
            (self.run, self.start, self.is_last) = (Some(run), lsn, false);
        }
        let mut at = (lsn - self.start) as usize;
        if self.filled - at < want && !self.is_last {
            self.bytes.copy_within(at..self.filled, 0);
            self.filled -= at;
            (self.start, at) = (lsn, 0);
            while self.filled < want && !self.is_last {
                self.read_on(slots, run)?;
            }
        }
        let there = &self.bytes[at..self.filled];
        Ok(&there[..want.min(there.len())])
    }

    fn read_on(&mut self, slots: &Slots, run: Run) -> Result<()> {
        let slot_bytes =
            slots.geometry.map_or(READ_BYTES, |geometry| geometry.slot_bytes() as usize);
        let end = self.filled + READ_BYTES.min(slot_bytes);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let lsn = self.start + self.filled as u64;
        let read = slots.read_stream(run, lsn, &mut self.bytes[self.filled..end])?;
        self.filled += read;
        self.is_last = read == 0;
        Ok(())
    }

    /// The header of the record at `lsn`, if it is whole; the operations are behind it in the window.
    pub(super) fn whole(&mut self, slots: &Slots, run: Run, lsn: u64) -> Result<Option<Header>> {
        let Some(head) = self.get(slots, run, lsn, HEADER_BYTES)?.first_chunk() else {
            return Ok(None);
        };
        let header = Header::decode(head);
        if !header.is_plausible(lsn) {
            return Ok(None);
        }
        debug_assert!(header.bytes <= RECORD_BYTES_MAX);
        let bytes = header.bytes as usize;
        let record = self.get(slots, run, lsn, bytes)?;
        let is_whole = record.len() == bytes && header.is_right(&record[HEADER_BYTES..], run.salt);
        Ok(is_whole.then_some(header))
    }

    /// Whether all bytes are there that a record at `lsn` would have, by what is there of its header.
    pub(super) fn holds_record_or_none(
        &mut self,
        slots: &Slots,
        run: Run,
        lsn: u64,
    ) -> Result<bool> {
        let Some(head) = self.get(slots, run, lsn, HEADER_BYTES)?.first_chunk() else {
            return Ok(false);
        };
        let header = Header::decode(head);
        let bytes = header.bytes as usize;
        Ok(!header.is_plausible(lsn) || self.get(slots, run, lsn, bytes)?.len() == bytes)
    }

    /// The operations of a record that [`Window::whole`] gave last.
    pub(super) fn ops(&self, header: &Header) -> &[u8] {
        let at = (header.lsn - self.start) as usize + HEADER_BYTES;
        self.bytes[..self.filled].get(at..at + header.ops_len()).unwrap_or(&[])
    }
}
