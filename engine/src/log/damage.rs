//! Whether the log may end where it seems to: [`check_end`].
//!
//! A record that is not whole is the end of the log if it was on its way when the power went. It is damage if
//! it had been synced, which later records and headers tell: each says up to where all was synced when it was
//! written.
//!
//! ```text
//!   ... whole | whole | not whole ......... a whole record: "synced up to S" ...
//!                     ^ end                              S <= end: torn, the log ends
//!                                                        S  > end: damage
//! ```
//!
//! Nor may the log end where a file ends that somebody has cut short: within a record, or right behind one. Where
//! something is left that is no record, none followed that was acknowledged, however short the file is. What is known to
//! have been in the file, durable:
//!
//! | what | by what |
//! |---|---|
//! | as many bytes as the checkpoint says | the log's file is not cut below that before a later checkpoint is durable |
//! | all of the slot of the end, if something in it was synced | slots are whole when records come into them, and a sync covers the length |
//! | all of it, if it is a run's first, and there is a record in it | it is synced before the first record is written |
//!
//! A crash leaves none of this away. What cannot be told: the loss of whole slots that were added since the checkpoint,
//! if what is left ends as a crash could have left it; and of a slot's end with all that was synced in it but the first
//! group. Nothing older says that they were there.
//!
//! Looked at: the headers of the run; every place, at steps of 8 bytes, of the rest of the run's parts; and of
//! the slots without a valid header, which may hold a part of it too. A record counts if it is whole; so
//! neither what an earlier run left in a recycled slot, nor a value that looks like a record, does: they do
//! not have the salt. Also damage: a later run, as that says where this one ended, and it is not here.
//!
//! # Bounds
//!
//! One window of memory. Places that only look like a record with such a claim cost a checksum each; there
//! are none in an honest file, and after [`CHECKS_BYTES_MAX`] of them the answer is damage.
//!
//! Tested in `tests::recovery`.

use super::record::{HEADER_BYTES, Header};
use super::slots::{Geometry, Run};
use super::stream::{READ_BYTES, Slots, Window};
use crate::error::{Error, Result};

/// Bytes that may be checksummed in vain.
const CHECKS_BYTES_MAX: u64 = 256 << 20;
/// What is read at once beyond the places looked at: a header begins at each.
const OVERLAP_BYTES: usize = HEADER_BYTES;

/// What is known from before the end of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// All below this was synced.
    pub(super) synced: u64,
    /// The file was as long as this, durable.
    pub(super) file_bytes: u64,
}

/// Says nothing if the log of `run` may end at `end`.
///
/// # Errors
/// [`Error::Corrupt`] if something behind says that more was synced, or if the file was cut short; [`Error::Io`].
pub(super) fn check_end(
    slots: &Slots,
    window: &mut Window,
    run: Run,
    end: u64,
    known: Known,
) -> Result<()> {
    let Some(geometry) = slots.geometry else { return Ok(()) };
    check_length(slots, geometry, window, (run, end), known)?;
    let last_part = geometry.part(end);
    for header in slots.headers.iter().filter(|header| header.part >= last_part) {
        let offset = geometry.slot_offset(header.slot);
        if header.run.first_part > run.first_part && header.run != run {
            let what = "the log ends where no later run says it does";
            return Err(slots.corrupt(offset, what, header.run.previous_end, end));
        }
        if header.run == run && header.synced > end {
            return Err(synced_beyond(slots, end, header.synced));
        }
    }
    let mut search = Search { slots, run, end, checks_bytes: 0 };
    for header in slots.headers.iter().filter(|header| header.run == run) {
        let (start, stop) = (geometry.start(header.part), geometry.start(header.part + 1));
        if stop > end {
            search.part(window, (end + 8).max(start), stop)?;
        }
    }
    slots.unreadable.iter().try_for_each(|&slot| search.slot(slot))
}

/// The record at the end was not cut off with the end of the file.
fn check_length(
    slots: &Slots,
    geometry: Geometry,
    window: &mut Window,
    (run, end): (Run, u64),
    known: Known,
) -> Result<()> {
    let last = slots.file_bytes / geometry.slot_bytes();
    let part = geometry.part(end);
    let start = geometry.start(part);
    let was_synced = known.synced > start || part == run.first_part && end > start;
    let in_last = slots.header_of(part).filter(|header| header.slot == last && header.run == run);
    let last_was_whole = was_synced && in_last.is_some();
    let least = if last_was_whole { geometry.slot_offset(last + 1) } else { 0 };
    let least = least.max(known.file_bytes);
    let got = slots.file_bytes;
    if got >= least || window.holds_record_or_none(slots, run, end)? {
        return Ok(());
    }
    let what = "the log's file was cut short, and what was committed last may be lost: to go on without it, \
                lengthen the file by zeros";
    Err(slots.corrupt(got, what, format!("at least {least} bytes"), format!("{got} bytes")))
}

#[cold]
fn synced_beyond(slots: &Slots, end: u64, synced: u64) -> Error {
    let offset = slots.offset_of(end).unwrap_or(0);
    let what = "a record is damaged that was synced";
    slots.corrupt(offset, what, format!("whole records up to lsn {synced}"), format!("up to {end}"))
}

struct Search<'a> {
    slots: &'a Slots,
    run: Run,
    end: u64,
    checks_bytes: u64,
}

impl Search<'_> {
    /// Looks at the places of a part from `from` to `stop`.
    fn part(&mut self, window: &mut Window, from: u64, stop: u64) -> Result<()> {
        let mut at = from;
        // A window of its own for the checks, so that the walk goes forward.
        let mut aside = Window::default();
        while at < stop {
            let want = READ_BYTES.min((stop - at) as usize + OVERLAP_BYTES);
            let bytes = window.get(self.slots, self.run, at, want)?;
            let places = bytes.len().saturating_sub(OVERLAP_BYTES - 8) / 8;
            if places == 0 {
                return Ok(());
            }
            let claims: Vec<u64> = (0..places)
                .map(|place| at + 8 * place as u64)
                .filter(|&lsn| self.claims(&bytes[(lsn - at) as usize..], lsn))
                .collect();
            for lsn in claims {
                if let Some(header) = aside.whole(self.slots, self.run, lsn)? {
                    return Err(synced_beyond(self.slots, self.end, header.synced));
                }
                self.note_check(&mut aside, lsn)?;
            }
            at += 8 * places as u64;
        }
        Ok(())
    }

    /// Looks at the places of a slot that does not say which part it holds.
    fn slot(&mut self, slot: u64) -> Result<()> {
        let Some(geometry) = self.slots.geometry else { return Ok(()) };
        let start = geometry.offset(slot, 0);
        let stop = geometry.slot_offset(slot + 1).min(self.slots.file_bytes);
        let mut buf = vec![0; READ_BYTES];
        let mut offset = start;
        while offset < stop {
            let want = READ_BYTES.min((stop - offset) as usize);
            let bytes = self.slots.read_bytes(offset, &mut buf[..want])?;
            let places = bytes.saturating_sub(OVERLAP_BYTES - 8) / 8;
            if places == 0 {
                return Ok(());
            }
            for place in 0..places {
                let bytes = &buf[8 * place..bytes];
                let Some(head) = bytes.first_chunk() else { continue };
                let header = Header::decode(head);
                let lies_there =
                    header.lsn % geometry.data_bytes() == offset - start + 8 * place as u64;
                if lies_there && header.lsn > self.end && self.claims(bytes, header.lsn) {
                    self.check_raw(&header, offset + 8 * place as u64)?;
                }
            }
            offset += 8 * places as u64;
        }
        Ok(())
    }

    /// Whether a record at `lsn` says, or seems to, that more was synced.
    fn claims(&self, bytes: &[u8], lsn: u64) -> bool {
        let Some(head) = bytes.first_chunk() else { return false };
        let header = Header::decode(head);
        header.is_plausible(lsn) && header.synced > self.end
    }

    /// Checks a record that lies at an offset of the file, as far as it lies in one slot.
    fn check_raw(&mut self, header: &Header, offset: u64) -> Result<()> {
        let mut record = vec![0; header.bytes as usize];
        let bytes = self.slots.read_bytes(offset, &mut record)?;
        self.spend(header.bytes)?;
        if bytes == record.len() && header.is_right(&record[HEADER_BYTES..], self.run.salt) {
            return Err(synced_beyond(self.slots, self.end, header.synced));
        }
        Ok(())
    }

    fn note_check(&mut self, window: &mut Window, lsn: u64) -> Result<()> {
        let bytes = window.get(self.slots, self.run, lsn, HEADER_BYTES)?;
        let bytes = bytes.first_chunk().map_or(0, |head| Header::decode(head).bytes);
        self.spend(bytes)
    }

    fn spend(&mut self, bytes: u32) -> Result<()> {
        self.checks_bytes += u64::from(bytes);
        if self.checks_bytes > CHECKS_BYTES_MAX {
            return Err(synced_beyond(self.slots, self.end, self.end + 8));
        }
        Ok(())
    }
}
