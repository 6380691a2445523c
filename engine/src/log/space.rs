//! [`Space`]: which slots of the file hold what, and where the next part of the stream goes.
//!
//! ```text
//!   slots   [ part 12 ][ free ][ part 11 ][ part 13: prepared ]
//!   live      11, 12, 13                      the run's parts, in order, each with its slot
//!
//!   prepare:  lowest free slot, or a new one at the end, filled with zeros  ->  header  ->  part 14
//!   release:  parts wholly below the checkpoint are free; a free end beyond a few slots is cut off
//!   pledge:   a checkpoint notes how many slots there are, so that a file that was cut by others is known
//! ```
//!
//! A recycled slot keeps its old bytes behind the header: their lsns, or their salts, are others. Only a new
//! slot is filled with zeros, so that later writes into it change no metadata of the file.
//!
//! # Invariants
//!
//! - \[Z1] The parts in `live` follow each other without a gap; the last is `next_part - 1`.
//! - \[Z2] A slot that is not free is given to no other part. A slot becomes free in [`Space::release`] alone,
//!   or because the checkpoint was past it when the log was opened.
//! - \[Z3] The part with the last byte before the checkpoint is kept: so the place of a checkpoint is always in
//!   the file, or right behind it.
//! - \[Z5] `durable_slots` slots lie in the file whole, and a sync that began when they did has returned. A cut takes
//!   its slots out of that before it begins, and does not go below what was pledged.
//! - \[Z4] One thread at a time prepares or cuts (`preparing`); `places` is held for look-ups alone, never
//!   during I/O.
//!
//! Tested in `tests::space`.

use super::slots::{Geometry, HEADER_BLOCK_BYTES, Run, SlotHeader};
use super::{Anchor, LSN_END};
use crate::error::{Error, Result};
use crate::io::{AlignedBuf, Disk, Write, disk_error};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Free slots that are kept for the next parts.
const FREE_SLOTS_KEPT: usize = 2;
/// A new slot is filled in pieces of this many bytes.
const ZEROS_BYTES: usize = 1 << 20;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Nothing that is needed.
    Free,
    /// A part of the stream, of whatever run.
    Part(u64),
}

/// See the module head.
#[derive(Debug)]
pub(super) struct Space {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    uuid: [u8; 16],
    geometry: Geometry,
    run: Run,
    places: Mutex<Places>,
    /// \[Z4]. Holds the zeros that new slots are filled with, once there were any.
    preparing: Mutex<Option<AlignedBuf>>,
}

#[derive(Debug)]
struct Places {
    /// By the number of the slot.
    slots: Vec<Place>,
    /// Slots of the parts of this run that are not released, ascending \[Z1].
    live: VecDeque<u64>,
    /// The part to be prepared next.
    next_part: u64,
    /// The lsn that was released last.
    released: u64,
    /// \[Z5].
    durable_slots: u64,
    /// What checkpoints that may be the newest were told: their lsns, with the slots that stay.
    pledges: Vec<(u64, u64)>,
    /// Where a cut that is under way ends.
    cutting_to: Option<u64>,
    /// How many cuts there were: a sync says nothing of slots that one took away meanwhile.
    cuts: u64,
}

/// The slots that lie in the file at one moment: to be durable by a sync that begins after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaidOut {
    slots: u64,
    cuts: u64,
}

impl Places {
    /// How many slots stay if all below the part `kept` are free: a free end goes, but for a few slots.
    fn slots_without(&self, kept: u64) -> usize {
        let is_free = |place: &Place| match place {
            Place::Free => true,
            Place::Part(part) => *part < kept,
        };
        let mut free = self.slots.iter().filter(|place| is_free(place)).count();
        let mut slots = self.slots.len();
        while free > FREE_SLOTS_KEPT && self.slots[..slots].last().is_some_and(is_free) {
            slots -= 1;
            free -= 1;
        }
        slots
    }
}

impl Space {
    /// A space whose run holds no part yet. `slots` is what the file holds; `anchor` what the checkpoint says.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        uuid: [u8; 16],
        geometry: Geometry,
        run: Run,
        slots: Vec<Place>,
        anchor: Anchor,
    ) -> Space {
        let places = Places {
            slots,
            live: VecDeque::new(),
            next_part: run.first_part,
            released: anchor.lsn,
            durable_slots: 0,
            pledges: vec![(anchor.lsn, anchor.file_bytes / geometry.slot_bytes())],
            cutting_to: None,
            cuts: 0,
        };
        let (places, preparing) = (Mutex::new(places), Mutex::new(None));
        Space { disk, path, uuid, geometry, run, places, preparing }
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// End of the parts that are prepared.
    pub(super) fn granted(&self) -> u64 {
        self.geometry.start(self.places().next_part)
    }

    /// Length of the file as far as it is slots, and the lsn that was released last, or where the run begins.
    pub(super) fn usage(&self) -> (u64, u64) {
        let places = self.places();
        let released = places.released.max(self.geometry.start(self.run.first_part));
        (self.geometry.slot_offset(places.slots.len() as u64), released)
    }

    /// Offset in the file of the byte at `lsn`, which lies in a part that is prepared and not released.
    ///
    /// # Errors
    /// [`Error::Io`] if it does not: a write there would hit another part.
    pub(super) fn offset(&self, lsn: u64) -> Result<u64> {
        let places = self.places();
        let part = self.geometry.part(lsn);
        let first = places.next_part - places.live.len() as u64;
        let slot = part.checked_sub(first).and_then(|index| places.live.get(index as usize));
        match slot {
            Some(&slot) => Ok(self.geometry.offset(slot, lsn)),
            None => {
                let source = io::Error::other("the log's record lies in no slot");
                Err(disk_error("finding a slot of the log", &self.path, source))
            }
        }
    }

    /// Prepares the slot of the next part, unless `wanted` is granted already; then hands the end of what is
    /// granted to `raise`, one call at a time. Gives whether the file grew. `synced` goes into the header.
    ///
    /// # Errors
    /// [`Error::Full`], and the part can be prepared later; [`Error::Io`].
    pub(super) fn prepare(
        &self,
        wanted: u64,
        synced: u64,
        raise: impl FnOnce(u64),
    ) -> Result<bool> {
        let mut zeros = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        let (part, slot, is_new) = {
            let places = self.places();
            let granted = self.geometry.start(places.next_part);
            if granted >= wanted {
                return Ok(false);
            }
            let free = places.slots.iter().position(|place| *place == Place::Free);
            (places.next_part, free.unwrap_or(places.slots.len()) as u64, free.is_none())
        };
        if self.geometry.start(part + 1) >= LSN_END {
            let source = io::Error::other("all lsns are used up: the log cannot grow");
            return Err(self.failed("adding to the log", source));
        }
        if is_new {
            let zeros = zeros.get_or_insert_with(|| {
                AlignedBuf::new(ZEROS_BYTES.min(self.geometry.data_bytes() as usize))
            });
            self.fill(slot, zeros)?;
        }
        self.write_header(slot, part, synced)?;
        let mut places = self.places();
        match places.slots.get_mut(slot as usize) {
            Some(place) => *place = Place::Part(part),
            None => places.slots.push(Place::Part(part)),
        }
        places.live.push_back(slot);
        places.next_part = part + 1;
        drop(places);
        raise(self.geometry.start(part + 1));
        Ok(is_new)
    }

    /// Writes zeros all over the data of a new slot, so that its blocks are allocated.
    fn fill(&self, slot: u64, zeros: &[u8]) -> Result<()> {
        let start = self.geometry.slot_offset(slot);
        let end = start + self.geometry.slot_bytes();
        let mut offset = start + HEADER_BLOCK_BYTES;
        while offset < end {
            let bytes = &zeros[..zeros.len().min((end - offset) as usize)];
            if let Err(source) = self.disk.write(&[Write { offset, bytes }]) {
                // What was added is given back as far as that works: others may want the room.
                let _ = self.disk.set_len(start);
                return Err(self.failed("adding to the log", source));
            }
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    fn write_header(&self, slot: u64, part: u64, synced: u64) -> Result<()> {
        let header = SlotHeader {
            uuid: self.uuid,
            slot_bytes: self.geometry.slot_bytes(),
            slot,
            part,
            run: self.run,
            synced,
        };
        let bytes = &header.encode();
        let offset = self.geometry.slot_offset(slot);
        self.disk
            .write(&[Write { offset, bytes }])
            .map_err(|source| self.failed("preparing a slot of the log", source))
    }

    /// See [`super::Log::release`].
    pub(super) fn release(&self, checkpoint_lsn: u64) {
        {
            let mut places = self.places();
            places.released = places.released.max(checkpoint_lsn);
            // Z3.
            let kept = self.geometry.part(checkpoint_lsn.saturating_sub(1));
            for place in &mut places.slots {
                if matches!(place, Place::Part(part) if *part < kept) {
                    *place = Place::Free;
                }
            }
            let first = places.next_part - places.live.len() as u64;
            let passed = kept.saturating_sub(first).min(places.live.len() as u64);
            places.live.drain(..passed as usize);
            places.pledges.retain(|(lsn, _)| *lsn >= checkpoint_lsn);
        }
        // Whoever prepares a slot may be about to take the last: the next release cuts then.
        if let Ok(_one) = self.preparing.try_lock() {
            self.cut();
        }
    }

    /// Cuts free slots off the end while more than a few are free.
    fn cut(&self) {
        let slots = {
            let mut places = self.places();
            let pledged = places.pledges.iter().map(|(_, slots)| *slots).max().unwrap_or(0);
            let slots = (places.slots_without(0) as u64).max(pledged);
            if slots >= places.slots.len() as u64 {
                return;
            }
            // Z5.
            places.durable_slots = places.durable_slots.min(slots);
            places.cutting_to = Some(slots);
            places.cuts += 1;
            slots
        };
        let is_cut = self.disk.set_len(self.geometry.slot_offset(slots)).is_ok();
        let mut places = self.places();
        places.cutting_to = None;
        places.cuts += 1;
        // A file that cannot be cut stays long, and is cut another time.
        if is_cut {
            places.slots.truncate(slots as usize);
        }
    }

    /// What lies in the file now.
    pub(super) fn laid_out(&self) -> LaidOut {
        let places = self.places();
        let slots = places.cutting_to.unwrap_or(places.slots.len() as u64);
        LaidOut { slots, cuts: places.cuts }
    }

    /// A sync that began after `laid_out` has returned.
    pub(super) fn synced(&self, laid_out: LaidOut) {
        let mut places = self.places();
        if laid_out.cuts == places.cuts {
            places.durable_slots = places.durable_slots.max(laid_out.slots);
        }
    }

    /// See [`super::Log::pledge`].
    pub(super) fn pledge(&self, checkpoint_lsn: u64) -> u64 {
        let mut places = self.places();
        let kept = self.geometry.part(checkpoint_lsn.saturating_sub(1));
        let slots = places.durable_slots.min(places.slots_without(kept) as u64);
        let pledge = (checkpoint_lsn, slots);
        places.pledges.retain(|other| *other != pledge);
        places.pledges.push(pledge);
        self.geometry.slot_offset(slots)
    }

    pub(super) fn failed(&self, op: &'static str, source: io::Error) -> Error {
        disk_error(op, &self.path, source)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // What is changed under the lock is whole between any two steps that can panic.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
