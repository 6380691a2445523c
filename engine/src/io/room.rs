//! Room on the medium before it is written to: [`allocate`].
//!
//! `fallocate` where kernel and file system know it. Elsewhere the file becomes longer and no more, so that a write
//! into it may find the disk full as ever: what calls this makes a full disk seen early, and must bear one seen
//! late.
//!
//! Tested by `io::tests`.

use super::disk::check_range;
use std::fs::File;
use std::io;

/// See [`Disk::allocate`](super::Disk::allocate).
pub(super) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    check_range(offset, len).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if bytes == 0 || fallocate(file, offset, bytes)? {
        return Ok(());
    }
    let end = offset + bytes;
    if file.metadata()?.len() < end { file.set_len(end) } else { Ok(()) }
}

/// Whether the file system did it; false: it cannot.
#[cfg(target_os = "linux")]
fn fallocate(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    loop {
        let (offset, bytes) = (offset as libc::off64_t, bytes as libc::off64_t);
        // SAFETY: no memory is passed, and the descriptor is that of a file borrowed for the call.
        let done = unsafe { libc::fallocate64(file.as_raw_fd(), 0, offset, bytes) };
        if done == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Systems without a known `fallocate` lengthen the file.
#[cfg(not(target_os = "linux"))]
fn fallocate(_file: &File, _offset: u64, _bytes: u64) -> io::Result<bool> {
    Ok(false)
}
