//! What this file and this system can do: `O_DIRECT`, and whether the file lies across a network.
//!
//! `O_DIRECT` is switched on the open file and not by opening it again by name: a name may lead to another
//! file by now. That it was accepted says little: a file system may refuse single transfers, or a device may
//! want more alignment than [`BLOCK_BYTES`]. So one block is read, and a caller that meets `EINVAL` later
//! switches it off.
//!
//! Tested by `io::tests`, on tmpfs and on a disk.

use super::aligned::AlignedBuf;
use crate::id::BLOCK_BYTES;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads until `buf` is full or the file ends; how much was read. `granule` is 1, or [`BLOCK_BYTES`] for a
/// file in direct mode, where all of offset, length and address are multiples of it: after a short transfer
/// it goes on at a whole granule.
pub(super) fn read_to_end(
    file: &File,
    offset: u64,
    buf: &mut [u8],
    granule: usize,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(moved) if moved < granule => return Ok(done + moved),
            Ok(moved) => done += moved / granule * granule,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Switches direct mode on and tries one read; leaves it off on failure.
pub(super) fn enable_direct(file: &File) -> io::Result<()> {
    set_direct(file, true)?;
    let mut block = AlignedBuf::new(BLOCK_BYTES);
    read_to_end(file, 0, &mut block, BLOCK_BYTES).map(drop).inspect_err(|_| {
        // If this fails too, the first transfer meets EINVAL and switches it off.
        let _ = set_direct(file, false);
    })
}

/// Switches direct mode of the open file.
#[cfg(target_os = "linux")]
pub(super) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    // SAFETY: F_GETFL takes no argument and touches no memory.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    // SAFETY: F_SETFL takes an integer and touches no memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Only Linux has this form of direct mode.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_direct(_file: &File, _direct: bool) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The kind of network file system the file lies on, if it does as far as the system tells.
#[cfg(target_os = "linux")]
pub(super) fn network_file_system(file: &File) -> Option<&'static str> {
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    let mut answer = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the pointer leads to a whole statfs, writable, for the time of the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), answer.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was zeroed, all its fields are integers, and the call filled it.
    let answer = unsafe { answer.assume_init() };
    // The type of the field differs between architectures; the magic numbers have 32 bits.
    match answer.f_type as u64 & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        0x00c3_6400 => Some("Ceph"),
        0x5346_414f => Some("AFS"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x4750_4653 => Some("GPFS"),
        _ => None,
    }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn network_file_system(_file: &File) -> Option<&'static str> {
    None
}
