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
//! Mapped pages that were read count as resident memory of the process. After every 16 MiB copied, the
//! windows read since then are told `MADV_DONTNEED`, which drops them from the process and leaves them in the
//! page cache.
//!
//! # Invariants
//!
//! - \[P1\] A window maps bytes that the file had when it was mapped. They are touched only under the lock of
//!   `windows`, held shared, which `set_len` takes exclusively before it cuts the file.
//! - \[P2\] Nothing forms a reference into a mapping: `pwritev` may change the bytes meanwhile.
//!
//! # Orderings
//!
//! | what | order | why |
//! |---|---|---|
//! | `copied_bytes`, `was_read` | Relaxed | they only decide when memory is given back; no data hang on them |
//!
//! Tested by `io::tests`.

use super::disk::{BackendReport, Disk, Write};
use super::pread::write_buffered;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a window. A multiple of every page size of an operating system.
const WINDOW_BYTES: u64 = 256 << 20;

/// Bytes copied between two rounds of giving memory back.
const COPIED_BYTES_MAX: u64 = 16 << 20;

/// A mapped piece of the file.
#[derive(Debug)]
struct Window {
    map: Mmap,
    was_read: AtomicBool,
}

type Windows = Vec<Option<Window>>;

/// See the module head.
#[derive(Debug)]
pub(super) struct MmapDisk {
    file: File,
    windows: RwLock<Windows>,
    copied_bytes: AtomicU64,
}

impl MmapDisk {
    /// Takes over `file` if the system can map and populate; gives it back with the reason otherwise.
    pub(super) fn open(file: File) -> Result<MmapDisk, (File, io::Error)> {
        match populate_works() {
            Ok(()) => Ok(MmapDisk {
                file,
                windows: RwLock::new(Vec::new()),
                copied_bytes: AtomicU64::new(0),
            }),
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

    /// Copies a range that lies in one window and in the file.
    fn copy_out(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let index = (offset / WINDOW_BYTES) as usize;
        let start = (offset % WINDOW_BYTES) as usize;
        let end = start + out.len();
        loop {
            let windows = self.windows();
            if let Some(Some(window)) = windows.get(index)
                && window.map.len() >= end
            {
                // Relaxed: see the table of orderings.
                window.was_read.store(true, Ordering::Relaxed);
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
            drop(windows);
            self.map_window(index, end)?;
        }
    }

    /// Maps a window as far as the file goes, at least `end` bytes.
    fn map_window(&self, index: usize, end: usize) -> io::Result<()> {
        let mut windows = self.windows_mut();
        let start = index as u64 * WINDOW_BYTES;
        let len = self
            .file
            .metadata()?
            .len()
            .saturating_sub(start)
            .min(WINDOW_BYTES) as usize;
        if len < end {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        if windows.len() <= index {
            windows.resize_with(index + 1, || None);
        }
        // SAFETY: nothing forms a reference into the mapping [P2], so it does not matter that the bytes
        // change.
        let map = unsafe { MmapOptions::new().offset(start).len(len).map(&self.file) }?;
        windows[index] = Some(Window {
            map,
            was_read: AtomicBool::new(false),
        });
        Ok(())
    }

    /// Counts what was copied, and gives memory back now and then.
    fn note_copied(&self, bytes: usize) {
        let bytes = bytes as u64;
        // Relaxed: see the table of orderings.
        let before = self.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / COPIED_BYTES_MAX == before.wrapping_add(bytes) / COPIED_BYTES_MAX {
            return;
        }
        for window in self.windows().iter().flatten() {
            // Relaxed: see the table of orderings.
            if window.was_read.swap(false, Ordering::Relaxed) {
                give_back(&window.map);
            }
        }
    }
}

impl Disk for MmapDisk {
    fn backend(&self) -> BackendReport {
        BackendReport {
            name: "mmap",
            direct: false,
            note: None,
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        if offset
            .checked_add(buf.len() as u64)
            .is_none_or(|end| end > len)
        {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let mut at = offset;
        let mut rest = &mut *buf;
        while !rest.is_empty() {
            let here = (WINDOW_BYTES - at % WINDOW_BYTES).min(rest.len() as u64);
            let (piece, after) = rest.split_at_mut(here as usize);
            self.copy_out(at, piece)?;
            at += here;
            rest = after;
        }
        self.note_copied(buf.len());
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
}

/// Makes a range present, so that touching it cannot fail by a signal.
#[cfg(target_os = "linux")]
fn populate(map: &Mmap, start: usize, len: usize) -> io::Result<()> {
    map.advise_range(memmap2::Advice::PopulateRead, start, len)
}

/// Whether this kernel knows how to populate.
#[cfg(target_os = "linux")]
fn populate_works() -> io::Result<()> {
    MmapOptions::new()
        .len(1)
        .map_anon()?
        .advise(memmap2::Advice::PopulateRead)
}

/// Drops the pages of a window from the process.
#[cfg(target_os = "linux")]
fn give_back(map: &Mmap) {
    // SAFETY: the mapping is shared and read-only, so dropped pages come back from the file unchanged; and no
    // reference into it exists [P2].
    let given = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
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
fn give_back(_map: &Mmap) {}
