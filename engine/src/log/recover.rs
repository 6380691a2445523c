//! [`Recovering`]: a log that was found, read from the checkpoint to its end.
//!
//! ```text
//!   run 1   [ part 1 ][ part 2 ][ part 3 .. E1   ][ prepared ]
//!   run 2             "the run before me ended at E1"  [ part 5 .. E2  ]
//!   run 3                               "the run before me ended at E2"   [ part 6 ... ]
//!
//!   reading:  checkpoint ---> E1, go to part 5 ---> E2, go to part 6 ---> first record that is not whole: the end
//! ```
//!
//! Where a run was found to end once, the next run says so, and what lies behind is never looked at again: a
//! recovery that is interrupted and begins anew sees the same commits, and more if there were more.
//!
//! Nothing is written before [`Recovering::finish`]; to read a log alone, leave that away. `finish`, in order:
//!
//! 1. lengthens the file to whole slots, and syncs, so that what was read is durable (a killed process may have left
//!    it to the operating system);
//! 2. prepares a slot for a new run, in a part numbered above every header found, and syncs that.
//!
//! A crash before the end of 2 leaves all as it was, perhaps with an empty run more.
//!
//! Tested in `tests::recovery`, and with failures and crashes at every call in `tests::faults`.

use super::damage::Known;
use super::record::{Header, Record, RecordKind};
use super::slots::{Geometry, Run};
use super::space::{Place, Space};
use super::stream::{Slots, Window};
use super::{Anchor, Log, LogOptions};
use crate::error::{Error, Result};
use crate::io::Disk;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// See the module head.
#[derive(Debug)]
pub(crate) struct Recovering {
    pub(super) slots: Slots,
    uuid: [u8; 16],
    options: LogOptions,
    anchor: Anchor,
    /// All below this was synced, by what was read so far.
    synced: u64,
    /// The run that is read; `None` if there is none.
    run: Option<Run>,
    /// The runs after it.
    later: Vec<Run>,
    /// End of the record that was given last.
    at: u64,
    is_ended: bool,
    window: Window,
    /// For what is read out of order.
    aside: Window,
}

impl Recovering {
    /// See [`Log::open`].
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        uuid: [u8; 16],
        anchor: Anchor,
        options: LogOptions,
    ) -> Result<Recovering> {
        let slots = Slots::read(disk, path, uuid)?;
        let mut recovering = Recovering {
            slots,
            uuid,
            options,
            anchor,
            synced: anchor.lsn,
            run: None,
            later: Vec::new(),
            at: anchor.lsn,
            is_ended: false,
            window: Window::default(),
            aside: Window::default(),
        };
        recovering.find_start()?;
        Ok(recovering)
    }

    /// Finds the run that the checkpoint lies in, or the first if there was no checkpoint.
    fn find_start(&mut self) -> Result<()> {
        let Some(geometry) = self.slots.geometry else {
            self.is_ended = true;
            if self.anchor.lsn > 0 || !self.slots.is_blank()? {
                return Err(self.slots.corrupt(0, "no header of the log is whole", "one", "none"));
            }
            return Ok(());
        };
        let wanted = match self.anchor.lsn {
            0 => match self.slots.headers.first() {
                Some(first) => {
                    self.at = geometry.start(first.run.first_part);
                    first.run.first_part
                }
                None => 0,
            },
            lsn => geometry.part(lsn),
        };
        let mut found = self.slots.header_of(wanted);
        if found.is_none() && self.anchor.lsn > 0 && self.at == geometry.start(wanted) {
            // The checkpoint ends with a part, and the next was not begun.
            found = self.slots.header_of(wanted.wrapping_sub(1));
        }
        let run = found.map(|header| header.run);
        let is_first = run.is_some_and(|run| run.previous_end == 0);
        if run.is_none() || !self.at.is_multiple_of(8) || self.anchor.lsn == 0 && !is_first {
            let what = "the log does not hold the place of the checkpoint";
            let parts = self.slots.headers.iter().map(|header| header.part);
            let got = format!("parts {:?}", parts.take(8).collect::<Vec<_>>());
            return Err(self.slots.corrupt(0, what, format!("part {wanted}"), got));
        }
        self.go_to(run);
        Ok(())
    }

    /// Reads that run from now on.
    fn go_to(&mut self, run: Option<Run>) {
        self.run = run;
        let runs = self.slots.headers.iter().map(|header| header.run);
        self.later =
            runs.filter(|later| run.is_some_and(|run| later.first_part > run.first_part)).collect();
        self.later.dedup();
    }

    /// The next whole record, from the checkpoint on, in order; `None` at the end of the log, and then always.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the first record that is not whole lies below a place that a later record or
    /// header says was synced: acknowledged commits are damaged, and the log must not be cut there. The same
    /// error comes again when called again. [`Error::Io`].
    #[allow(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>> {
        let Some(header) = self.advance()? else { return Ok(None) };
        let kind = self.kind_of(&header)?;
        self.at = header.end();
        self.synced = self.synced.max(header.synced);
        let ops = self.window.ops(&header);
        Ok(Some(Record { lsn: header.lsn, end: header.end(), kind, synced: header.synced, ops }))
    }

    fn advance(&mut self) -> Result<Option<Header>> {
        while let (false, Some(run), Some(geometry)) =
            (self.is_ended, self.run, self.slots.geometry)
        {
            // The last that says that this one ended here.
            let next = self.later.iter().rfind(|later| later.previous_end == self.at).copied();
            if let Some(next) = next {
                self.at = geometry.start(next.first_part);
                self.go_to(Some(next));
                continue;
            }
            if let Some(header) = self.window.whole(&self.slots, run, self.at)? {
                return Ok(Some(header));
            }
            let known = Known { synced: self.synced, file_bytes: self.anchor.file_bytes };
            super::damage::check_end(&self.slots, &mut self.aside, run, self.at, known)?;
            self.is_ended = true;
        }
        Ok(None)
    }

    /// A record that is whole is one that somebody wrote, so its kind is known, or the program is too old.
    fn kind_of(&self, header: &Header) -> Result<RecordKind> {
        RecordKind::from_code(header.kind).ok_or_else(|| {
            let offset = self.slots.offset_of(header.lsn).unwrap_or(0);
            self.slots.corrupt(offset, "a record of an unknown kind", "1 to 3", header.kind)
        })
    }

    /// Reads the whole record at `lsn` again, anywhere in the runs that are in the file. Where
    /// [`Recovering::next`] goes on is not changed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is no whole record; [`Error::Io`].
    pub(crate) fn read_at(&mut self, lsn: u64) -> Result<Record<'_>> {
        let part = self.slots.geometry.map(|geometry| geometry.part(lsn));
        let run = part.and_then(|part| self.slots.header_of(part)).map(|header| header.run);
        let header = match run {
            Some(run) => self.aside.whole(&self.slots, run, lsn)?,
            None => None,
        };
        let Some(header) = header else {
            let what = "a record that a later one names is not whole";
            return Err(self.corrupt(lsn, what, "a record", "none"));
        };
        let kind = self.kind_of(&header)?;
        let ops = self.aside.ops(&header);
        Ok(Record { lsn, end: header.end(), kind, synced: header.synced, ops })
    }

    /// Where the record that comes next would begin: the end of the one given last.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Bytes from the checkpoint to the position, for progress.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.at.saturating_sub(self.anchor.lsn).min(self.total_bytes())
    }

    /// Bytes from the checkpoint to where the log ends at the latest.
    pub(crate) fn total_bytes(&self) -> u64 {
        match (self.slots.geometry, self.slots.headers.last()) {
            (Some(geometry), Some(last)) => {
                geometry.start(last.part + 1).saturating_sub(self.anchor.lsn)
            }
            _ => 0,
        }
    }

    /// Decides that the log ends before the record at `lsn`, which was given last: nothing behind it was
    /// acknowledged, and nothing of it will be read again.
    pub(crate) fn end_before(&mut self, lsn: u64) {
        debug_assert!(lsn <= self.at, "a record that was not read");
        self.at = self.at.min(lsn);
        self.is_ended = true;
    }

    /// Damage at an lsn.
    pub(super) fn corrupt(
        &self,
        lsn: u64,
        what: &'static str,
        expected: impl ToString,
        got: impl ToString,
    ) -> Error {
        self.slots.corrupt(self.slots.offset_of(lsn).unwrap_or(0), what, expected, got)
    }

    /// Ends the log at the position and opens it for writing, in a new run. Slots of before stay as they are
    /// until [`Log::release`] has passed them.
    ///
    /// To be called when [`Recovering::next`] has given `None`, or after [`Recovering::end_before`].
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`]: nothing is lost, and opening may be tried again. [`Error::Corrupt`]
    /// when the rest of the log, which was not read, is damaged.
    pub(crate) fn finish(mut self) -> Result<Log> {
        while !self.is_ended {
            if self.next()?.is_some() {
                debug_assert!(false, "finished before the end of the log");
            }
        }
        let geometry = match self.slots.geometry {
            Some(geometry) => geometry,
            None => Geometry::new(self.options.slot_bytes),
        };
        let slots = &self.slots;
        let disk = Arc::clone(&slots.disk);
        let sync = || {
            let failed = |source| crate::io::disk_error("syncing the log", &slots.path, source);
            disk.sync().map_err(failed)
        };
        if slots.geometry.is_some() {
            self.complete_last(geometry)?;
            sync()?;
        }
        let found = slots.headers.last().map_or(0, |header| header.part);
        let first_part = found.max(geometry.part(self.at)) + 1;
        let run = Run { first_part, salt: self.draw_salt(first_part), previous_end: self.at };
        let places = self.places(geometry, first_part);
        let space = Space::new(
            Arc::clone(&disk),
            slots.path.clone(),
            self.uuid,
            geometry,
            run,
            places,
            self.anchor,
        );
        let start = geometry.start(first_part);
        space.prepare(start + 1, start, |_| ())?;
        let laid_out = space.laid_out();
        sync()?;
        space.synced(laid_out);
        Ok(Log::start(space, start, run.salt, self.options.buffer_bytes))
    }

    /// A crash while a slot was added may have left a part of it: every slot that is used is whole.
    fn complete_last(&self, geometry: Geometry) -> Result<()> {
        let slots = &self.slots;
        let whole = slots.file_bytes.next_multiple_of(geometry.slot_bytes());
        if whole == slots.file_bytes {
            return Ok(());
        }
        let allocated = slots.disk.allocate(slots.file_bytes, whole - slots.file_bytes);
        // Opening must not need room: what has none is met when it is written.
        let lengthened = allocated.or_else(|_| slots.disk.set_len(whole));
        lengthened.map_err(|source| crate::io::disk_error("adding to the log", &slots.path, source))
    }

    /// What each slot holds, for a new run: what the checkpoint is past is free; a slot that says nothing is
    /// kept until the next checkpoint, like the last part of the run before.
    fn places(&self, geometry: Geometry, first_part: u64) -> Vec<Place> {
        if self.slots.geometry.is_none() {
            return Vec::new();
        }
        let count = self.slots.file_bytes.div_ceil(geometry.slot_bytes());
        let mut places = vec![Place::Part(first_part - 1); count as usize];
        // Z3 of `space`.
        let kept = geometry.part(self.anchor.lsn.saturating_sub(1));
        for header in &self.slots.headers {
            let is_whole = geometry.slot_offset(header.slot + 1) <= self.slots.file_bytes;
            if let Some(place) = places.get_mut(header.slot as usize) {
                let is_free = header.part < kept && is_whole;
                *place = if is_free { Place::Free } else { Place::Part(header.part) };
            }
        }
        places
    }

    /// A number that no run of this database had before: at random, and different for different places.
    fn draw_salt(&self, first_part: u64) -> u64 {
        let random = RandomState::new().hash_one((first_part, self.at));
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.uuid);
        bytes[16..24].copy_from_slice(&first_part.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.at.to_le_bytes());
        bytes[32..].copy_from_slice(&random.to_le_bytes());
        xxh3_64(&bytes)
    }
}
