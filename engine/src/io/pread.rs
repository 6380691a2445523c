//! The plain backend: `pread` and `pwritev` through the page cache. Works wherever there are files.
//!
//! Writes that touch each other in the file go out in one call, in the order of their offsets. Not for a file
//! opened with `O_DIRECT`: it passes addresses on as they are.
//!
//! Tested by `io::tests`.

use super::disk::{BackendReport, Disk, Write, check_range, check_writes};
use super::room;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Writes joined into one `pwritev`; well below the `IOV_MAX` of every system.
const JOINED_MAX: usize = 64;

/// See the module head.
#[derive(Debug)]
pub(super) struct PreadDisk {
    file: File,
    note: Option<String>,
}

impl PreadDisk {
    /// Takes over an open file. `note` goes into the report.
    pub(super) fn new(file: File, note: Option<String>) -> PreadDisk {
        PreadDisk { file, note }
    }
}

impl Disk for PreadDisk {
    fn backend(&self) -> BackendReport {
        BackendReport { name: "pread", direct: false, note: self.note.clone() }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        check_range(offset, buf.len())?;
        self.file.read_exact_at(buf, offset)
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
        self.file.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        room::allocate(&self.file, offset, bytes)
    }
}

/// Writes a batch through the page cache, joining neighbours.
pub(super) fn write_buffered(file: &File, writes: &[Write<'_>]) -> io::Result<()> {
    check_writes(writes)?;
    if let [one] = writes {
        return file.write_all_at(one.bytes, one.offset);
    }
    let mut order: Vec<&Write<'_>> =
        writes.iter().filter(|write| !write.bytes.is_empty()).collect();
    order.sort_by_key(|write| write.offset);
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let mut end = first.offset;
        let run = rest
            .iter()
            .take(JOINED_MAX)
            .take_while(|write| {
                let joins = write.offset == end;
                end = write.offset + write.bytes.len() as u64;
                joins
            })
            .count();
        let (joined, after) = rest.split_at(run);
        write_joined(file, joined)?;
        rest = after;
    }
    Ok(())
}

/// Writes buffers that follow each other in the file: one `pwritev`, and the rest one by one if it came out
/// short.
fn write_joined(file: &File, joined: &[&Write<'_>]) -> io::Result<()> {
    let mut done = match joined {
        [] => return Ok(()),
        [_] => 0,
        [first, ..] => writev_once(file, first.offset, joined)?,
    };
    for write in joined {
        let skip = done.min(write.bytes.len());
        done -= skip;
        file.write_all_at(&write.bytes[skip..], write.offset + skip as u64)?;
    }
    Ok(())
}

/// One `pwritev`; how many bytes it wrote. 0 when a signal came first.
#[cfg(target_os = "linux")]
fn writev_once(file: &File, offset: u64, joined: &[&Write<'_>]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;

    let vectors: Vec<libc::iovec> = joined
        .iter()
        .map(|write| libc::iovec {
            iov_base: write.bytes.as_ptr().cast_mut().cast(),
            iov_len: write.bytes.len(),
        })
        .collect();
    // SAFETY: each vector names the bytes of a slice borrowed for this call, and pwritev only reads them;
    // there are at most JOINED_MAX of them, which fits a c_int.
    let written = unsafe {
        libc::pwritev64(
            file.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len() as libc::c_int,
            offset as libc::off64_t,
        )
    };
    match usize::try_from(written) {
        Ok(written) => Ok(written),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        },
    }
}

/// Systems without a known `pwritev` write one by one.
#[cfg(not(target_os = "linux"))]
fn writev_once(_file: &File, _offset: u64, _joined: &[&Write<'_>]) -> io::Result<usize> {
    Ok(0)
}
