//! The mmap backend: reads copy out of read-only mappings, writes go by `pwritev`.
//!
//! ```text
//!   file     |  window 0: 256 MiB  |  window 1: 256 MiB  |  window 2: up to the end |
//!   mapped         read-only            not yet               mapped again when it grew
//! ```
//!
//! Useful where the data are in the page cache: a read is a copy. Pages are never used in place, so frames,
//! checksums and eviction are the same as with every other backend.
//!
//! # Signals
//!
//! A mapping turns an unreadable sector, a file cut by somebody else or an unbacked hole into `SIGBUS`. So
//! each range is made present by `MADV_POPULATE_READ` (Linux 5.14) before it is touched, which gives an error
//! instead; then `pread` is asked, which says what is wrong. A kernel without it is refused at open.
//!
//! # Memory
//!
//! Mapped pages count as resident memory of the process, and one touch may map far more than was asked for: the
//! kernel maps the neighbours that are in the page cache (64 KiB) or the whole folio (2 MiB). So memory is counted
//! in *units* of 2 MiB of the file, however little of one is read:
//!
//! ```text
//!   window     | unit 0 | unit 1 | ...                                  | unit 127 |
//!   touched         1        0     one bit each, all counted in `units`
//!   dropped   |<- 64 KiB, unit, 64 KiB ->|
//! ```
//!
//! Who needs a unit beyond the bound waits until nobody reads and tells all touched units `MADV_DONTNEED`, which
//! drops them from the process and leaves them in the page cache.
//!
//! The bound is exact for kernels with pages of 4 KiB. Those with larger pages may have folios larger than a unit,
//! where the file system makes such.
//!
//! # Invariants
//!
//! - \[P1\] A window maps bytes that the file had when it was mapped. They are touched only under the lock of
//!   `windows`, held shared, which `set_len` takes exclusively before it cuts the file.
//! - \[P2\] Nothing forms a reference into a mapping: `pwritev` may change the bytes meanwhile.
//! - \[P3\] A unit is populated and touched only while its bit is set, under the shared lock. Bits are cleared only
//!   under the exclusive lock, with the memory given back. `units` is at least the number of bits set, and at most
//!   `UNITS_MAX`.
//!
//! # Orderings
//!
//! | what | order | why |
//! |---|---|---|
//! | `touched`, `units` | Relaxed | they only count; clearing is ordered by the lock of `windows`, and no data hang on them |
//!
//! Tested by `io::tests`; the bound on memory below.

use super::disk::{BackendReport, Disk, Write};
use super::pread::write_buffered;
use super::room;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a window. A multiple of every page size of an operating system.
const WINDOW_BYTES: u64 = 256 << 20;

/// The grain in which resident memory is counted: the largest folio of a kernel with pages of 4 KiB.
const UNIT_BYTES: usize = 2 << 20;

/// Units of a window.
const WINDOW_UNITS: usize = WINDOW_BYTES as usize / UNIT_BYTES;

/// Units that may be resident at a time: 24 MiB.
const UNITS_MAX: usize = 12;

/// How far beside a unit a touch may map, where the mapping does not lie at a multiple of this.
const FAULT_AROUND_BYTES: usize = 64 << 10;

/// A mapped piece of the file.
#[derive(Debug)]
struct Window {
    map: Mmap,
    /// One bit for each unit that may be resident.
    touched: [AtomicU64; WINDOW_UNITS / 64],
}

impl Window {
    /// The word and the bit of a unit.
    fn bit(&self, unit: usize) -> (&AtomicU64, u64) {
        (&self.touched[unit / 64], 1 << (unit % 64))
    }

    /// The units whose bit was set; clears the bits.
    fn take_touched(&mut self) -> impl Iterator<Item = usize> + use<> {
        let words = self.touched.each_mut().map(|word| std::mem::take(word.get_mut()));
        (0..WINDOW_UNITS).filter(move |unit| words[unit / 64] >> (unit % 64) & 1 != 0)
    }
}

type Windows = Vec<Option<Window>>;

/// See the module head.
#[derive(Debug)]
pub(super) struct MmapDisk {
    file: File,
    windows: RwLock<Windows>,
    /// Counts the units that are touched \[P3\].
    units: AtomicUsize,
}

impl MmapDisk {
    /// Takes over `file` if the system can map and populate; gives it back with the reason otherwise.
    pub(super) fn open(file: File) -> Result<MmapDisk, (File, io::Error)> {
        match populate_works() {
            Ok(()) => {
                Ok(MmapDisk { file, windows: RwLock::new(Vec::new()), units: AtomicUsize::new(0) })
            }
            Err(error) => Err((file, error)),
        }
    }

    fn windows(&self) -> RwLockReadGuard<'_, Windows> {
        // Nothing panics while it holds the lock; and the windows would be whole all the same.
        self.windows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn windows_mut(&self) -> RwLockWriteGuard<'_, Windows> {
        self.windows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies a range that lies in one unit and in the file.
    fn copy_out(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let index = (offset / WINDOW_BYTES) as usize;
        let start = (offset % WINDOW_BYTES) as usize;
        let end = start + out.len();
        loop {
            let windows = self.windows();
            let Some(Some(window)) = windows.get(index).filter(|window| {
                let mapped = window.as_ref().map_or(0, |window| window.map.len());
                mapped >= end
            }) else {
                drop(windows);
                self.map_window(index, end)?;
                continue;
            };
            if !self.count_unit(window, start / UNIT_BYTES) {
                drop(windows);
                self.give_back();
                continue;
            }
            if populate(&window.map, start, out.len()).is_err() {
                return self.file.read_exact_at(out, offset);
            }
            // SAFETY: start < end <= the length of the mapping, which [P1] makes memory of ours.
            let from = unsafe { window.map.as_ptr().add(start) };
            // SAFETY: the source is mapped and within the file [P1], the target is a unique borrow, and
            // they cannot overlap. No reference to the source is formed [P2].
            unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
            return Ok(());
        }
    }

    /// Whether a unit of a window of ours may be touched; counts it \[P3\]. False when too many are.
    fn count_unit(&self, window: &Window, unit: usize) -> bool {
        let (word, bit) = window.bit(unit);
        // Relaxed, here and below: see the table of orderings.
        if word.load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        let one_more = |units: usize| (units < UNITS_MAX).then_some(units + 1);
        let counted = self.units.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        if counted.is_err() {
            return false;
        }
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            // Another thread was first, and has counted it.
            self.units.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Drops all touched units from the process, if that is still wanted.
    fn give_back(&self) {
        // Exclusive, so that nobody is between populating and copying [P3].
        let mut windows = self.windows_mut();
        // Relaxed, here and below: see the table of orderings.
        if self.units.load(Ordering::Relaxed) < UNITS_MAX {
            return;
        }
        for window in windows.iter_mut().flatten() {
            for unit in window.take_touched() {
                give_back(&window.map, unit * UNIT_BYTES);
            }
        }
        self.units.store(0, Ordering::Relaxed);
    }

    /// Maps a window as far as the file goes, at least `end` bytes.
    fn map_window(&self, index: usize, end: usize) -> io::Result<()> {
        let mut windows = self.windows_mut();
        let start = index as u64 * WINDOW_BYTES;
        let len = self.file.metadata()?.len().saturating_sub(start).min(WINDOW_BYTES) as usize;
        if len < end {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if windows.len() <= index {
            windows.resize_with(index + 1, || None);
        }
        // SAFETY: nothing forms a reference into the mapping [P2], so it does not matter that the bytes
        // change.
        let map = unsafe { MmapOptions::new().offset(start).len(len).map(&self.file) }?;
        // What a shorter window before it had touched is still counted, which errs on the safe side [P3].
        windows[index] = Some(Window { map, touched: Default::default() });
        Ok(())
    }
}

impl Disk for MmapDisk {
    fn backend(&self) -> BackendReport {
        BackendReport { name: "mmap", direct: false, note: None }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > len) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut at = offset;
        let mut rest = &mut *buf;
        while !rest.is_empty() {
            let unit_left = UNIT_BYTES - (at % UNIT_BYTES as u64) as usize;
            let (piece, after) = rest.split_at_mut(unit_left.min(rest.len()));
            at += piece.len() as u64;
            self.copy_out(at - piece.len() as u64, piece)?;
            rest = after;
        }
        Ok(())
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        write_buffered(&self.file, writes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        // Exclusive, so that nobody touches what is cut off [P1]; windows come back as they are asked for.
        let mut windows = self.windows_mut();
        windows.truncate((bytes / WINDOW_BYTES) as usize);
        self.file.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        // Nothing is cut: windows stay good.
        room::allocate(&self.file, offset, bytes)
    }
}

/// Makes a range present, so that touching it cannot fail by a signal.
#[cfg(target_os = "linux")]
fn populate(map: &Mmap, start: usize, len: usize) -> io::Result<()> {
    map.advise_range(memmap2::Advice::PopulateRead, start, len)
}

/// Whether this kernel knows how to populate.
#[cfg(target_os = "linux")]
fn populate_works() -> io::Result<()> {
    MmapOptions::new().len(1).map_anon()?.advise(memmap2::Advice::PopulateRead)
}

/// Drops the pages of the unit at `start`, and of what lies close to it, from the process.
#[cfg(target_os = "linux")]
fn give_back(map: &Mmap, start: usize) {
    let end = (start + UNIT_BYTES + FAULT_AROUND_BYTES).min(map.len());
    let start = start.saturating_sub(FAULT_AROUND_BYTES);
    let advice = memmap2::UncheckedAdvice::DontNeed;
    // SAFETY: the mapping is shared and read-only, so dropped pages come back from the file unchanged; and no
    // reference into it exists [P2].
    let given = unsafe { map.unchecked_advise_range(advice, start, end.saturating_sub(start)) };
    // Advice only: without it more memory stays resident.
    let _ = given;
}

#[cfg(not(target_os = "linux"))]
fn populate(_map: &Mmap, _start: usize, _len: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
fn populate_works() -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
fn give_back(_map: &Mmap, _start: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn no_more_units_are_mapped_than_the_bound_whatever_is_read() {
        const READS: u64 = 3 * UNITS_MAX as u64;
        let file = tempfile::tempfile().expect("a temporary file");
        let Ok(disk) = MmapDisk::open(file) else {
            return; // A kernel that cannot populate.
        };
        let at = |number: u64| number * UNIT_BYTES as u64 + 100;
        disk.set_len(at(READS)).expect("lengthen");
        for number in 0..READS {
            let written = disk.file.write_all_at(&number.to_le_bytes(), at(number) - 50);
            written.expect("write");
        }
        thread::scope(|scope| {
            for thread in 0..3 {
                let disk = &disk;
                scope.spawn(move || {
                    for number in (0..READS).map(|read| (read * 7 + thread) % READS) {
                        let mut found = [0; 8];
                        disk.read(at(number) - 50, &mut found).expect("read");
                        assert_eq!(u64::from_le_bytes(found), number);
                    }
                });
            }
        });
        let mut windows = disk.windows_mut();
        let touched = windows.iter_mut().flatten().flat_map(Window::take_touched);
        let touched = touched.count();
        assert!((1..=UNITS_MAX).contains(&touched));
        assert_eq!(disk.units.load(Ordering::Relaxed), touched);
    }
}
