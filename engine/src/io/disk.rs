//! The seam: [`Disk`] is the only way in which the engine reaches a file.
//!
//! ```text
//!      store                      offsets in blocks, aligned buffers
//!        | Disk::read / read_many / write / sync / set_len / allocate
//!   -----+---------------------------------------------------------
//!   uring   mmap   pread   SimDisk
//! ```
//!
//! This is not a file-system layer: it knows one open file, no names, no directories and no locks.
//!
//! # Rules
//!
//! - \[D1\] A write covers whole blocks: offset and length are multiples of [`BLOCK_BYTES`]. A backend
//!   refuses anything else with [`io::ErrorKind::InvalidInput`] and writes nothing of that call.
//! - \[D2\] The bytes of a write should lie at an address that is a multiple of [`BLOCK_BYTES`], as those of
//!   an [`AlignedBuf`](super::AlignedBuf) do. Where the backend needs that and it is not so, it copies first.
//! - \[D3\] A read may have any offset, length and address. It is exact: all of the buffer or an error. Past
//!   the end of the file that is [`io::ErrorKind::UnexpectedEof`].
//! - \[D4\] Short transfers and interrupted calls are completed in the backend and never seen outside.
//! - \[D5\] A write that failed may have left any part of itself in the blocks it names, and nothing
//!   elsewhere. A full disk stays visible as [`io::ErrorKind::StorageFull`] (or
//!   [`io::ErrorKind::QuotaExceeded`]).
//! - \[D6\] [`Disk::sync`] covers the writes, allocations and length changes that returned before it was called. **A
//!   failed sync is not retried**, here or by the caller: the kernel may have dropped the dirty pages and
//!   would report success.
//! - \[D7\] Calls may come from many threads at once. The caller sees to it that no block is written by two
//!   of them, or written while it is read; otherwise the bytes are unspecified, and memory safety still
//!   holds.
//! - \[D8\] What [`Disk::allocate`] was granted has its room: writing there meets no full disk, unless the file
//!   system writes elsewhere than it was told (copy on write) or cannot allocate. Who lengthens the file or
//!   allocates is alone with that.
//!
//! Tested by one shared function that every backend passes (`io::tests`).

use crate::id::BLOCK_BYTES;
use std::fmt::Debug;
use std::io;

/// One write of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Byte offset in the file, a multiple of [`BLOCK_BYTES`].
    pub offset: u64,
    /// What goes there: a multiple of [`BLOCK_BYTES`] long, at an address that is one too.
    pub bytes: &'a [u8],
}

/// One read of a batch.
#[derive(Debug)]
pub struct Read<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// What is to be filled from there on.
    pub buf: &'a mut [u8],
}

/// Which way to the file is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// io_uring where the kernel allows it, else pread.
    #[default]
    Auto,
    /// io_uring, with `O_DIRECT` where the file system takes it.
    Uring,
    /// Reads copy from a read-only mapping; writes by `pwrite`.
    Mmap,
    /// `pread` and `pwrite` through the page cache.
    Pread,
}

/// Which way to the file was taken, and why it is not the one asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackendReport {
    /// `"uring"`, `"mmap"`, `"pread"` or `"sim"`.
    pub name: &'static str,
    /// Whether transfers bypass the page cache.
    pub direct: bool,
    /// What the user should know: a fallback and its cause, a network file system. `None` if all is as asked.
    pub note: Option<String>,
}

/// One open file of blocks. See the module head for the rules (\[D1\] to \[D8\]).
pub trait Disk: Send + Sync + Debug {
    /// What this is, for the statistics.
    fn backend(&self) -> BackendReport;

    /// Fills `buf` from byte `offset` on (\[D3\]).
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the file ends before the buffer does; whatever the system
    /// reports.
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Fills all buffers, in any order, and gives the outcome of each, in the order of `reads`: one that fails
    /// leaves the others as they are. Buffers that lie as \[D1\] and \[D2\] want it of writes, of at most a
    /// mebibyte, are filled at the same time where the backend can do that. An empty batch does nothing.
    ///
    /// # Errors
    /// Of each read, those of [`Disk::read`].
    fn read_many(&self, reads: &mut [Read<'_>]) -> Vec<io::Result<()>> {
        reads.iter_mut().map(|read| self.read(read.offset, read.buf)).collect()
    }

    /// Writes the batch, in any order, and returns when all of it is written; nothing of it is durable before
    /// the next [`Disk::sync`]. A write past the end makes the file longer. An empty batch does nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] by \[D1\]; the first failure that was met otherwise (\[D5\]).
    fn write(&self, writes: &[Write<'_>]) -> io::Result<()>;

    /// Writes the batch and then makes it durable, with all that was written before: as [`Disk::write`] and,
    /// if that succeeded, [`Disk::sync`]. A backend may tell the system both at once.
    ///
    /// # Errors
    /// As of the two. After any error the durable state is unknown.
    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.write(writes)?;
        self.sync()
    }

    /// Makes durable what was written before (\[D6\]).
    ///
    /// # Errors
    /// Any error leaves the durable state unknown: it is not to be called again in the hope of success.
    fn sync(&self) -> io::Result<()>;

    /// Length of the file in bytes.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn len_bytes(&self) -> io::Result<u64>;

    /// Cuts the file, or lengthens it with zeros that take no space.
    ///
    /// # Errors
    /// Whatever the system reports.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Gets room for the `bytes` bytes from `offset` on (\[D8\]), and lengthens the file to hold them. What is there
    /// stays, what is new reads as zeros. Where the file system cannot allocate, the file is lengthened and no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] and whatever else the system reports; then the file may be longer than it
    /// was, with a part of the room.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;
}

/// Refuses a batch that breaks \[D1\], before anything of it is written.
pub(super) fn check_writes(writes: &[Write<'_>]) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    for write in writes {
        let len = write.bytes.len() as u64;
        let end = write.offset.checked_add(len);
        if !write.offset.is_multiple_of(block)
            || !len.is_multiple_of(block)
            || end.is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "write of {len} bytes at offset {} is not one of whole blocks",
                    write.offset
                ),
            ));
        }
    }
    Ok(())
}

/// No file reaches past `i64::MAX`: said before offsets are added up \[D3\].
pub(super) fn check_range(offset: u64, len: usize) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}
