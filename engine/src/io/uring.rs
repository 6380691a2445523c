//! The io_uring backend: batches of transfers in flight at once, past the page cache where that is possible.
//!
//! ```text
//!   write(batch) -> neighbours joined, cut into parts of <= 1 MiB -> a ring, 64 in flight -> all completions checked
//!   read(one)    -> a free ring, or plain pread when all rings are busy
//!   read_many    -> a ring, 64 in flight; one by one if a read of the batch is odd or fails
//!   sync         -> fdatasync
//!   write_and_sync(few) -> one transfer, and the sync linked to it; else the two above
//! ```
//!
//! Several rings, so that threads do not queue for one: a thread takes the first that is free, starting from
//! its own index. Who reads one range never waits for a ring; a batch does, since it has more to gain.
//!
//! # Direct mode
//!
//! With `O_DIRECT` every transfer has offset, length and address in multiples of [`BLOCK_BYTES`]. Reads that
//! do not are widened and copied; writes always have the first two \[D1\], and are copied if only the address
//! is odd \[D2\]. A transfer that is refused with `EINVAL` (a device with larger sectors, a file system that
//! changed its mind) switches the file to buffered mode for good and is done again; the report says so.
//!
//! # Orderings
//!
//! | what | order | why |
//! |---|---|---|
//! | `direct` | Relaxed | a hint: whoever sees an old value meets `EINVAL` and looks again, or aligns for nothing |
//!
//! Tested by `io::tests`; the emulation of other architectures refuses io_uring and tests the way around it.

use super::aligned::AlignedBuf;
use super::disk::{BackendReport, Disk, Read, Write, check_range, check_writes};
use super::pread::write_buffered;
use super::probe;
use super::ring::{Direction, Linked, Part, Ring};
use super::room;
use crate::id::BLOCK_BYTES;
use latchkv_latch::thread_index;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rings of one disk, as far as the system grants them.
const RINGS_MAX: usize = 4;

/// Greatest single transfer: larger ones are cut, so that their pieces overlap in time.
const PART_BYTES_MAX: usize = 1 << 20;

/// Pieces of one transfer at most; well below the `IOV_MAX` of every system.
const PART_PIECES_MAX: usize = 256;

/// See the module head.
#[derive(Debug)]
pub(super) struct UringDisk {
    // Before `file`: the rings refer to it.
    rings: Vec<Mutex<Ring>>,
    file: File,
    direct: AtomicBool,
    note: Mutex<Option<String>>,
}

impl UringDisk {
    /// Takes over `file` if the system grants at least one ring; gives it back with the reason otherwise.
    pub(super) fn open(file: File) -> Result<UringDisk, (File, io::Error)> {
        let mut rings = Vec::new();
        while rings.len() < RINGS_MAX {
            match Ring::open(&file) {
                Ok(ring) => rings.push(Mutex::new(ring)),
                Err(error) if rings.is_empty() => return Err((file, error)),
                Err(_) => break,
            }
        }
        let (direct, note) = match probe::enable_direct(&file) {
            Ok(()) => (true, None),
            Err(error) => (false, Some(buffered_note(&error))),
        };
        Ok(UringDisk { rings, file, direct: AtomicBool::new(direct), note: Mutex::new(note) })
    }

    /// A ring that is free now.
    fn free_ring(&self) -> Option<MutexGuard<'_, Ring>> {
        let first = thread_index();
        (0..self.rings.len()).find_map(|step| {
            let ring = self.rings[(first + step) % self.rings.len()].try_lock().ok()?;
            (!ring.is_broken()).then_some(ring)
        })
    }

    /// A ring, waiting for one if need be; `None` when it is out of order.
    fn ring(&self) -> Option<MutexGuard<'_, Ring>> {
        self.free_ring().or_else(|| {
            // A poisoned ring was left in the middle of a batch: not to be used again.
            let ring = self.rings[thread_index() % self.rings.len()].lock().ok()?;
            (!ring.is_broken()).then_some(ring)
        })
    }

    fn is_direct(&self) -> bool {
        // Relaxed: see the table of orderings.
        self.direct.load(Ordering::Relaxed)
    }

    /// Whether a failure in direct mode is one that buffered mode would not have; then that is the mode now.
    pub(super) fn leaves_direct(&self, was_direct: bool, error: &io::Error) -> bool {
        let leaves = was_direct
            && error.raw_os_error() == Some(libc::EINVAL)
            && probe::set_direct(&self.file, false).is_ok();
        if leaves {
            // Relaxed: see the table of orderings.
            self.direct.store(false, Ordering::Relaxed);
            *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(buffered_note(error));
        }
        leaves
    }

    /// Reads until `buf` is full or the file ends. In direct mode all is aligned.
    fn read_to_end(&self, offset: u64, buf: &mut [u8], granule: usize) -> io::Result<usize> {
        let Some(mut ring) = self.free_ring() else {
            return probe::read_to_end(&self.file, offset, buf, granule);
        };
        let pieces: Vec<libc::iovec> = buf.chunks_mut(PART_BYTES_MAX).map(piece_mut).collect();
        let mut parts: Vec<Part<'_>> = pieces
            .chunks(1)
            .zip((offset..).step_by(PART_BYTES_MAX))
            .map(|(piece, offset)| Part::new(offset, piece))
            .collect();
        // SAFETY: the parts are disjoint pieces of `buf`, borrowed uniquely for longer than the call.
        unsafe { ring.run(Direction::Read, &mut parts, granule as u32) }?;
        let whole = parts.iter().take_while(|part| part.short().is_none()).count();
        let rest = parts.get(whole).and_then(Part::short).unwrap_or(0);
        Ok((whole * PART_BYTES_MAX + rest).min(buf.len()))
    }

    fn read_direct(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if is_aligned(offset, buf) {
            return self.read_to_end(offset, buf, BLOCK_BYTES);
        }
        let block = BLOCK_BYTES as u64;
        let skip = (offset % block) as usize;
        let wide_bytes = skip
            .checked_add(buf.len())
            .and_then(|bytes| bytes.checked_next_multiple_of(BLOCK_BYTES));
        let mut wide = wide_bytes
            .and_then(|bytes| AlignedBuf::try_new(bytes).ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let read = self.read_to_end(offset - skip as u64, &mut wide, BLOCK_BYTES)?;
        let wanted = read.saturating_sub(skip).min(buf.len());
        buf[..wanted].copy_from_slice(&wide[skip..skip + wanted]);
        Ok(wanted)
    }

    /// Reads a batch by a ring: of each read, whether it met the end of the file. `None`: not all of them can go
    /// together, or one of them failed, and nothing is known of any.
    fn read_together(&self, reads: &mut [Read<'_>]) -> Option<Vec<bool>> {
        let direct = self.is_direct();
        let fits = |read: &Read<'_>| {
            check_range(read.offset, read.buf.len()).is_ok()
                && (1..=PART_BYTES_MAX).contains(&read.buf.len())
                && (!direct || is_aligned(read.offset, read.buf))
        };
        if reads.len() < 2 || !reads.iter().all(fits) {
            return None;
        }
        let mut ring = self.ring()?;
        let pieces: Vec<libc::iovec> =
            reads.iter_mut().map(|read| piece_mut(&mut *read.buf)).collect();
        let mut parts: Vec<Part<'_>> = pieces
            .chunks(1)
            .zip(reads.iter())
            .map(|(piece, read)| Part::new(read.offset, piece))
            .collect();
        let granule = if direct { BLOCK_BYTES as u32 } else { 1 };
        // SAFETY: the parts are the buffers of `reads`, each borrowed uniquely for longer than the call, and so
        // disjoint.
        unsafe { ring.run(Direction::Read, &mut parts, granule) }.ok()?;
        Some(parts.iter().map(|part| part.short().is_some()).collect())
    }

    /// Writes by a ring; all is aligned as the mode wants it.
    fn write_parts(&self, writes: &[Write<'_>], granule: usize) -> io::Result<()> {
        let Some(mut ring) = self.ring() else {
            return write_buffered(&self.file, writes);
        };
        let cut = Cut::new(writes);
        let mut parts: Vec<Part<'_>> = cut.parts().collect();
        // SAFETY: the parts are pieces of slices borrowed for longer than the call, and are only read.
        unsafe { ring.run(Direction::Write, &mut parts, granule as u32) }
    }

    /// Writes a batch that is one transfer, with the sync linked to it. False if that was not done, or not to
    /// its end: then nothing counts as written or synced.
    fn write_linked(&self, writes: &[Write<'_>]) -> io::Result<bool> {
        let direct = self.is_direct();
        if direct && !writes.iter().all(|write| is_aligned(write.offset, write.bytes)) {
            return Ok(false);
        }
        let cut = Cut::new(writes);
        let mut parts = cut.parts();
        let (Some(mut part), None) = (parts.next(), parts.next()) else { return Ok(false) };
        let Some(mut ring) = self.ring().filter(|ring| ring.can_sync()) else { return Ok(false) };
        let granule = if direct { BLOCK_BYTES as u32 } else { 1 };
        // SAFETY: the part is of slices borrowed for longer than the call, and is only read.
        let linked = unsafe { ring.write_then_sync(&mut part, granule) };
        match linked {
            Err(error) if self.leaves_direct(direct, &error) => Ok(false),
            linked => Ok(linked? == Linked::Synced),
        }
    }

    fn write_direct(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let is_odd = |write: &Write<'_>| !is_aligned(write.offset, write.bytes);
        if !writes.iter().any(is_odd) {
            return self.write_parts(writes, BLOCK_BYTES);
        }
        let mut copies = Vec::new();
        for write in writes.iter().filter(|write| is_odd(write)) {
            let mut copy =
                AlignedBuf::try_new(write.bytes.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
            copy.copy_from_slice(write.bytes);
            copies.push(copy);
        }
        let mut copies = copies.iter();
        let aligned: Cow<'_, [Write<'_>]> = writes
            .iter()
            .map(|write| match is_odd(write).then(|| copies.next()).flatten() {
                Some(copy) => Write { offset: write.offset, bytes: copy },
                None => *write,
            })
            .collect();
        self.write_parts(&aligned, BLOCK_BYTES)
    }
}

/// A batch of writes in the order of its offsets, cut into pieces, and which of them go out together.
#[derive(Debug)]
struct Cut {
    pieces: Vec<libc::iovec>,
    /// Offset of each transfer, and the number of its pieces.
    joined: Vec<(u64, usize)>,
}

impl Cut {
    fn new(writes: &[Write<'_>]) -> Cut {
        let mut order: Vec<&Write<'_>> = writes.iter().collect();
        order.sort_by_key(|write| write.offset);
        let mut cut = Cut { pieces: Vec::with_capacity(order.len()), joined: Vec::new() };
        let (mut end, mut bytes) = (0, 0);
        for write in order {
            let offsets = (write.offset..).step_by(PART_BYTES_MAX);
            for (piece, offset) in write.bytes.chunks(PART_BYTES_MAX).zip(offsets) {
                match cut.joined.last_mut() {
                    Some((_, count))
                        if offset == end
                            && *count < PART_PIECES_MAX
                            && bytes + piece.len() <= PART_BYTES_MAX =>
                    {
                        *count += 1;
                        bytes += piece.len();
                    }
                    _ => {
                        cut.joined.push((offset, 1));
                        bytes = piece.len();
                    }
                }
                end = offset + piece.len() as u64;
                cut.pieces.push(libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                });
            }
        }
        cut
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut rest = self.pieces.as_slice();
        self.joined.iter().map(move |&(offset, count)| {
            let (pieces, after) = rest.split_at(count);
            rest = after;
            Part::new(offset, pieces)
        })
    }
}

fn piece_mut(piece: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() }
}

impl Disk for UringDisk {
    fn backend(&self) -> BackendReport {
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        BackendReport { name: "uring", direct: self.is_direct(), note }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        check_range(offset, buf.len())?;
        let direct = self.is_direct();
        let read =
            if direct { self.read_direct(offset, buf) } else { self.read_to_end(offset, buf, 1) };
        let read = match read {
            Err(error) if self.leaves_direct(direct, &error) => self.read_to_end(offset, buf, 1),
            read => read,
        };
        if read? < buf.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(())
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Vec<io::Result<()>> {
        let Some(short) = self.read_together(reads) else {
            return reads.iter_mut().map(|read| self.read(read.offset, read.buf)).collect();
        };
        let outcome = |short| if short { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) };
        short.into_iter().map(outcome).collect()
    }

    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        check_writes(writes)?;
        let direct = self.is_direct();
        let written = if direct { self.write_direct(writes) } else { self.write_parts(writes, 1) };
        match written {
            Err(error) if self.leaves_direct(direct, &error) => self.write_parts(writes, 1),
            written => written,
        }
    }

    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        check_writes(writes)?;
        if self.write_linked(writes)? {
            return Ok(());
        }
        self.write(writes)?;
        self.sync()
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

/// Whether direct mode can take it as it is.
fn is_aligned(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(BLOCK_BYTES as u64)
        && bytes.len().is_multiple_of(BLOCK_BYTES)
        && bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

fn buffered_note(error: &io::Error) -> String {
    format!("through the page cache, since O_DIRECT was refused: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transfers of a batch of (block, blocks), as (block, pieces).
    fn cut(batch: &[(u64, usize)]) -> Vec<(u64, usize)> {
        let longest = batch.iter().map(|&(_, blocks)| blocks).max().unwrap_or(0);
        let bytes = AlignedBuf::new(longest * BLOCK_BYTES);
        let writes: Vec<Write<'_>> = batch
            .iter()
            .map(|&(block, blocks)| Write {
                offset: block * BLOCK_BYTES as u64,
                bytes: &bytes[..blocks * BLOCK_BYTES],
            })
            .collect();
        let cut = Cut::new(&writes);
        let parts = cut.joined.iter().map(|&(offset, count)| (offset / BLOCK_BYTES as u64, count));
        assert_eq!(cut.parts().count(), cut.joined.len());
        parts.collect()
    }

    #[test]
    fn a_write_with_its_sync_linked_is_there_and_several_are_done_one_after_the_other() {
        let file = tempfile::NamedTempFile::new().expect("a place that is writable");
        let Ok(disk) = UringDisk::open(file.reopen().expect("just created")) else {
            return; // io_uring is refused here
        };
        let mut bytes = AlignedBuf::new(3 * BLOCK_BYTES);
        bytes.fill(7);
        let write = |block: u64, blocks: usize| Write {
            offset: block * BLOCK_BYTES as u64,
            bytes: &bytes[..blocks * BLOCK_BYTES],
        };
        // Where the kernel's ring cannot sync, that is said, and nothing is done.
        let linked = disk.write_linked(&[write(0, 1), write(1, 2)]).expect("a healthy disk");
        assert!(linked || disk.free_ring().is_none_or(|ring| !ring.can_sync()));
        disk.write_and_sync(&[write(3, 1), write(9, 3)]).expect("a healthy disk");
        disk.write_and_sync(&[]).expect("nothing to write");
        let odd = Write { offset: 20 << 12, bytes: &bytes[8..8 + BLOCK_BYTES] };
        disk.write_and_sync(&[odd]).expect("copied to where it can be written from");
        for (block, blocks) in [(0, if linked { 3 } else { 0 }), (3, 1), (9, 3), (20, 1)] {
            let mut found = AlignedBuf::new(blocks * BLOCK_BYTES);
            disk.read(block << 12, &mut found).expect("inside");
            assert!(found.iter().all(|&byte| byte == 7), "block {block}");
        }
        assert!(disk.write_and_sync(&[Write { offset: 5, bytes: &[] }]).is_err());
    }

    #[test]
    fn neighbours_go_out_in_one_transfer_whatever_their_order() {
        assert_eq!(cut(&[(9, 2), (1, 3), (4, 1), (11, 1), (20, 0)]), [(1, 2), (9, 2)]);
        assert_eq!(cut(&[]), []);
    }

    #[test]
    fn no_transfer_has_too_many_bytes_or_pieces() {
        let small: Vec<(u64, usize)> = (0..600).map(|block| (block, 1)).collect();
        assert_eq!(cut(&small), [(0, 256), (256, 256), (512, 88)]);
        assert_eq!(
            cut(&[(0, 200), (200, 100), (300, 600)]),
            [(0, 1), (200, 1), (300, 1), (556, 1), (812, 1)]
        );
    }
}
