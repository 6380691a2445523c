//! The way to the disk: one trait, four backends, and the buffers they transfer.
//!
//! What this is not: it knows no pages, no checksums and no file names but the one it was given.
//!
//! ```text
//!   disk.rs      trait Disk and its rules [D1] to [D8]
//!   aligned.rs   AlignedBuf: memory that every backend can transfer
//!   probe.rs     what this file and this system can do
//!   room.rs      room on the medium before it is written to
//!   uring.rs     io_uring, O_DIRECT where possible; ring.rs is one ring
//!   mmap.rs      reads from a read-only mapping
//!   pread.rs     pread and pwritev
//!   sim/         a simulated disk with power cuts and faults
//! ```
//!
//! # Choosing
//!
//! [`open_disk`] never refuses a file because a backend is missing: containers refuse io_uring (`EPERM`,
//! `ENOSYS`), some file systems refuse `O_DIRECT` (`EINVAL`). It takes the next one and says so once, in
//! [`BackendReport::note`]. Alignment: \[D1\] and \[D2\]; failures: \[D5\] and \[D6\], in [`disk`].

mod aligned;
pub mod disk;
mod mmap;
mod pread;
mod probe;
#[cfg(target_os = "linux")]
mod ring;
mod room;
pub mod sim;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
mod uring;

pub use aligned::AlignedBuf;
pub use disk::{Backend, BackendReport, Disk, Read, Write};
pub use sim::{SimDisk, SimMachine};

use crate::error::Error;
use pread::PreadDisk;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens the best disk over `file`, a regular file opened at `path` (only named in errors). Nothing is
/// written, not even to probe, so a file opened for reading alone will do.
///
/// # Errors
/// [`Error::Io`] if the file cannot be examined or is not a regular one. A backend that is refused is not an
/// error: see the module head.
pub fn open_disk(
    file: File,
    path: &Path,
    backend: Backend,
    read_only: bool,
) -> Result<Box<dyn Disk>, Error> {
    let metadata =
        file.metadata().map_err(|source| disk_error("examining the file", path, source))?;
    if !metadata.is_file() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(disk_error("examining the file", path, source));
    }
    let network = probe::network_file_system(&file).map(|kind| {
        format!(
            "the file lies on a network file system ({kind}): locks and syncs may not hold there"
        )
    });
    let disk: Box<dyn Disk> = match backend {
        Backend::Auto | Backend::Uring => match open_uring(file) {
            Ok(disk) => disk,
            Err((file, error)) => {
                fall_back(file, format!("pread, since io_uring was refused: {error}"))
            }
        },
        Backend::Mmap => match mmap::MmapDisk::open(file) {
            Ok(disk) => Box::new(disk),
            Err((file, error)) => fall_back(
                file,
                format!("pread, since mapping with MADV_POPULATE_READ was refused: {error}"),
            ),
        },
        Backend::Pread => Box::new(PreadDisk::new(file, None)),
    };
    Ok(match (network, read_only) {
        (None, false) => disk,
        (note, read_only) => Box::new(Guarded { disk, note, read_only }),
    })
}

fn fall_back(file: File, note: String) -> Box<dyn Disk> {
    Box::new(PreadDisk::new(file, Some(note)))
}

#[cfg(target_os = "linux")]
fn open_uring(file: File) -> Result<Box<dyn Disk>, (File, io::Error)> {
    let disk = uring::UringDisk::open(file)?;
    Ok(Box::new(disk))
}

#[cfg(not(target_os = "linux"))]
fn open_uring(file: File) -> Result<Box<dyn Disk>, (File, io::Error)> {
    Err((file, io::Error::from(io::ErrorKind::Unsupported)))
}

/// The typed form of a failed [`Disk`] call: [`Error::Full`] where room would help, [`Error::Io`] otherwise.
pub fn disk_error(op: &'static str, path: &Path, source: io::Error) -> Error {
    let source = Arc::new(source);
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { op, source },
        _ => Error::Io { op, path: path.to_owned(), source },
    }
}

/// A disk with something to add to its report, or with writing barred whatever the file would allow.
#[derive(Debug)]
struct Guarded {
    disk: Box<dyn Disk>,
    note: Option<String>,
    read_only: bool,
}

impl Guarded {
    fn writable(&self) -> io::Result<()> {
        if self.read_only {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(())
    }
}

impl Disk for Guarded {
    fn backend(&self) -> BackendReport {
        let mut report = self.disk.backend();
        let notes = [report.note.take(), self.note.clone()];
        report.note =
            notes.into_iter().flatten().reduce(|first, second| format!("{first}; {second}"));
        report
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Vec<io::Result<()>> {
        self.disk.read_many(reads)
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.writable()?;
        self.disk.write(writes)
    }

    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.writable()?;
        self.disk.write_and_sync(writes)
    }

    fn sync(&self) -> io::Result<()> {
        self.writable()?;
        self.disk.sync()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.disk.len_bytes()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.writable()?;
        self.disk.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.writable()?;
        self.disk.allocate(offset, bytes)
    }
}
