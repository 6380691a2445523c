//! [`Ring`]: one io_uring, used by one thread at a time, that carries a batch of transfers to its end.
//!
//! ```text
//!   parts  [ done ][ done ][ in flight ][ in flight ][ again ][ not yet pushed ] ...
//!                           at most DEPTH of these
//! ```
//!
//! Pieces of memory that follow each other in the file are one transfer; after a short one, the rest goes
//! piece by piece. One write can take a sync along that begins when it has ended ([`Ring::write_then_sync`]).
//!
//! The file is registered with the ring, which saves its look-up in every transfer. The memory is the
//! caller's own: no buffers are registered, and the kernel pins the pages of each transfer while it lasts.
//!
//! # Invariants
//!
//! - \[U1\] When `run` returns, the kernel has no transfer in flight and will start none of those that were
//!   pushed: so the memory of the parts is used during the call only. Nothing between the first push and the
//!   return can panic or return early.
//! - \[U2\] A ring that could not be entered is `broken`: the entries left in its queue are never submitted,
//!   because `run` refuses it from then on.
//! - \[U3\] At most `DEPTH` transfers are pushed and not completed, so neither queue overflows.
//!
//! Tested by `io::tests` through the disk above it.

use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// Transfers in flight in one ring.
pub(super) const DEPTH: usize = 64;

/// Index of the file in the ring's table.
const FILE: types::Fixed = types::Fixed(0);

/// Tag of the sync that follows a write.
const SYNC_TAG: u64 = u64::MAX;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// From the file into memory.
    Read,
    /// From memory into the file.
    Write,
}

/// One transfer of a batch: a range of the file, and the pieces of memory that follow each other there.
/// `done < len` after a successful read says that the file ended there.
#[derive(Debug)]
pub(super) struct Part<'a> {
    offset: u64,
    pieces: &'a [libc::iovec],
    len: u32,
    done: u32,
}

/// What became of a write that took a sync along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Linked {
    /// All is written and synced.
    Synced,
    /// The write was cut short, or not begun: the sync covers nothing yet.
    Unfinished,
}

/// See the module head.
pub(super) struct Ring {
    uring: IoUring,
    broken: bool,
    /// Whether it can sync.
    syncs: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("broken", &self.broken).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for `file`, if the system allows one that can read and write.
    pub(super) fn open(file: &File) -> io::Result<Ring> {
        let uring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring can neither read nor write",
            ));
        }
        uring.submitter().register_files(&[file.as_raw_fd()])?;
        let syncs = probe.is_supported(opcode::Fsync::CODE);
        Ok(Ring { uring, broken: false, syncs })
    }

    /// Whether it can still be used \[U2\].
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Carries out all parts, short transfers completed, and gives the first failure. `granule` is as in
    /// [`super::probe::read_to_end`].
    ///
    /// # Safety
    ///
    /// For the time of the call, the memory of each piece is readable for [`Direction::Write`]; for
    /// [`Direction::Read`] it is writable, and no other piece and no reference covers it.
    pub(super) unsafe fn run(
        &mut self,
        direction: Direction,
        parts: &mut [Part<'_>],
        granule: u32,
    ) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("the ring is out of order"));
        }
        let mut failure = None;
        let mut next = 0;
        let mut again = Vec::new();
        let mut in_flight = 0;
        loop {
            while failure.is_none() && in_flight < DEPTH {
                let index = match again.pop() {
                    Some(index) => index,
                    None if next < parts.len() => {
                        next += 1;
                        next - 1
                    }
                    None => break,
                };
                let Some(part) = parts.get(index) else { break };
                // SAFETY: the caller vouches for the memory during the call, and [U1] it is used no longer.
                if unsafe { self.push(direction, part, index as u64) } {
                    in_flight += 1;
                } else {
                    failure = Some(io::Error::other("the ring has no room"));
                }
            }
            if in_flight == 0 {
                return failure.map_or(Ok(()), Err);
            }
            let more = failure.is_none() && (next < parts.len() || !again.is_empty());
            let wanted = if more { in_flight.div_ceil(2) } else { in_flight };
            if let Err(error) = self.enter(wanted) {
                failure.get_or_insert(error);
                in_flight = in_flight.saturating_sub(self.uring.submission().len());
            }
            for completion in self.uring.completion() {
                in_flight = in_flight.saturating_sub(1);
                let index = completion.user_data() as usize;
                let Some(part) = parts.get_mut(index) else {
                    continue;
                };
                match part.complete(direction, completion.result(), granule) {
                    Ok(true) => {}
                    Ok(false) => again.push(index),
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
    }

    /// Whether [`Ring::write_then_sync`] can be used.
    pub(super) fn can_sync(&self) -> bool {
        self.syncs && !self.broken
    }

    /// Writes a part and then syncs the data of the file, told to the system in one call. `granule` is as in
    /// [`Ring::run`]. A failed sync is an error, and never tried again.
    ///
    /// # Safety
    ///
    /// For the time of the call, the memory of each piece is readable.
    pub(super) unsafe fn write_then_sync(
        &mut self,
        part: &mut Part<'_>,
        granule: u32,
    ) -> io::Result<Linked> {
        let write = part.entry(Direction::Write).flags(squeue::Flags::IO_LINK).user_data(0);
        let sync = opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build();
        let entries = [write, sync.user_data(SYNC_TAG)];
        // SAFETY: the caller keeps the memory valid during the call, the part borrows its pieces for longer,
        // and [U1] they are used no longer.
        let pushed = unsafe { self.uring.submission().push_multiple(&entries) };
        if self.broken || pushed.is_err() {
            return Err(io::Error::other("the ring has no room"));
        }
        let (mut written, mut synced, mut failure) = (None, None, None);
        let mut in_flight = entries.len();
        while in_flight > 0 {
            if let Err(error) = self.enter(in_flight) {
                failure.get_or_insert(error);
                in_flight = in_flight.saturating_sub(self.uring.submission().len());
            }
            for completion in self.uring.completion() {
                in_flight = in_flight.saturating_sub(1);
                match completion.user_data() {
                    SYNC_TAG => synced = Some(completion.result()),
                    _ => written = Some(completion.result()),
                }
            }
        }
        match (failure, written, synced) {
            (Some(error), ..) => Err(error),
            (None, Some(written), Some(synced)) => part.settle(written, synced, granule),
            // Each entry that was submitted completes.
            _ => Err(io::Error::other("the ring lost a completion")),
        }
    }

    /// Queues a part: all of its pieces at first, what is left of one piece after a short transfer. False when
    /// the queue is full, which \[U3\] excludes.
    ///
    /// # Safety
    ///
    /// As `run`, until the transfer completes.
    unsafe fn push(&mut self, direction: Direction, part: &Part<'_>, tag: u64) -> bool {
        let entry = part.entry(direction).user_data(tag);
        // SAFETY: the caller keeps the memory valid until the transfer completes, and the part borrows its
        // pieces for longer, [U1].
        unsafe { self.uring.submission().push(&entry) }.is_ok()
    }

    /// Submits what is queued and waits for completions. An error says that what is still queued never will
    /// be submitted \[U2\]; it is given once, and later calls only wait.
    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        if self.broken {
            const GETEVENTS: u32 = 1;
            // SAFETY: submits nothing and passes no argument: it only waits for one completion.
            let waited =
                unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
            if waited.is_err() {
                // Completions are posted on any return from the kernel, so a nap gathers them as well. This
                // ends when the device does, as a plain read would.
                thread::sleep(Duration::from_millis(1));
            }
            return Ok(());
        }
        match self.uring.submit_and_wait(wanted) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // A signal, or the kernel is short of something for now: completions make room.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {
                    thread::yield_now();
                    Ok(())
                }
                _ => {
                    self.broken = true;
                    Err(error)
                }
            },
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The system tears a ring down some time after it is closed; the file is let go now.
        let _ = self.uring.submitter().unregister_files();
    }
}

impl<'a> Part<'a> {
    /// Nothing of it is done. The pieces together are shorter than 4 GiB.
    pub(super) fn new(offset: u64, pieces: &'a [libc::iovec]) -> Part<'a> {
        let bytes: usize = pieces.iter().map(|piece| piece.iov_len).sum();
        debug_assert!(u32::try_from(bytes).is_ok(), "a part is cut by the caller");
        Part { offset, pieces, len: bytes as u32, done: 0 }
    }

    /// Bytes that were moved, if that is less than all.
    pub(super) fn short(&self) -> Option<usize> {
        (self.done < self.len).then_some(self.done as usize)
    }

    /// What is to be submitted next: all pieces at first, what is left of one after a short transfer.
    fn entry(&self, direction: Direction) -> squeue::Entry {
        let offset = self.offset + u64::from(self.done);
        let (start, len) = self.next_piece();
        let vectors = self.pieces.as_ptr();
        let count = self.pieces.len() as u32;
        let joined = count > 1 && self.done == 0;
        match (direction, joined) {
            (Direction::Read, false) => opcode::Read::new(FILE, start, len).offset(offset).build(),
            (Direction::Write, false) => {
                opcode::Write::new(FILE, start, len).offset(offset).build()
            }
            (Direction::Read, true) => {
                opcode::Readv::new(FILE, vectors, count).offset(offset).build()
            }
            (Direction::Write, true) => {
                opcode::Writev::new(FILE, vectors, count).offset(offset).build()
            }
        }
    }

    /// What the completions of a write and the sync linked to it say together.
    fn settle(&mut self, written: i32, synced: i32, granule: u32) -> io::Result<Linked> {
        // A sync that was called off with its write has not failed.
        let has_failed = synced < 0 && synced != -libc::ECANCELED;
        let is_whole = self.complete(Direction::Write, written, granule)?;
        match (has_failed, is_whole && synced >= 0) {
            (true, _) => Err(io::Error::from_raw_os_error(-synced)),
            (false, true) => Ok(Linked::Synced),
            (false, false) => Ok(Linked::Unfinished),
        }
    }

    /// What is left of the first piece that is not done.
    fn next_piece(&self) -> (*mut u8, u32) {
        let mut skip = self.done as usize;
        for piece in self.pieces {
            if skip < piece.iov_len {
                let start = piece.iov_base.cast::<u8>().wrapping_add(skip);
                return (start, (piece.iov_len - skip) as u32);
            }
            skip -= piece.iov_len;
        }
        (std::ptr::null_mut(), 0)
    }

    /// Takes note of a completion; true when nothing of the part is left to do.
    fn complete(&mut self, direction: Direction, result: i32, granule: u32) -> io::Result<bool> {
        let Ok(moved) = u32::try_from(result) else {
            return match -result {
                libc::EINTR | libc::EAGAIN => Ok(false),
                code => Err(io::Error::from_raw_os_error(code)),
            };
        };
        let left = self.len - self.done;
        if moved >= left {
            self.done = self.len;
            return Ok(true);
        }
        if moved < granule {
            return match direction {
                Direction::Read => {
                    self.done += moved;
                    Ok(true)
                }
                Direction::Write => Err(io::Error::from(io::ErrorKind::WriteZero)),
            };
        }
        self.done += moved / granule * granule;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(len: u32) -> Part<'static> {
        Part { offset: 0, pieces: &[], len, done: 0 }
    }

    #[test]
    fn after_a_short_transfer_pieces_go_on_one_by_one() {
        let mut memory = [0_u8; 12];
        let base = memory.as_mut_ptr();
        let pieces = [(0, 4), (4, 6), (10, 2)].map(|(start, iov_len)| libc::iovec {
            iov_base: base.wrapping_add(start).cast(),
            iov_len,
        });
        let mut one = Part::new(0, &pieces);
        assert_eq!(one.short(), Some(0));
        for (moved, next) in [(5, (5, 5)), (5, (10, 2))] {
            let done = one.complete(Direction::Write, moved, 1).expect("short");
            assert!(!done);
            assert_eq!(one.next_piece(), (base.wrapping_add(next.0), next.1));
        }
        assert!(one.complete(Direction::Write, 2, 1).expect("the rest"));
        assert_eq!(one.short(), None);
    }

    #[test]
    fn a_short_transfer_goes_on_at_a_whole_granule() {
        let mut one = part(12288);
        assert!(!one.complete(Direction::Write, 5000, 4096).expect("short, not failed"));
        assert_eq!(one.done, 4096);
        assert!(one.complete(Direction::Write, 8192, 4096).expect("the rest"));
        assert_eq!(one.done, 12288);
    }

    #[test]
    fn the_end_of_the_file_ends_a_read_and_fails_a_write() {
        let mut one = part(8192);
        assert!(!one.complete(Direction::Read, 5000, 4096).expect("short, not failed"));
        assert!(one.complete(Direction::Read, 904, 4096).expect("the end"));
        assert_eq!(one.done, 5000);
        assert!(part(8192).complete(Direction::Read, 0, 1).expect("the end"));
        assert!(part(8192).complete(Direction::Write, 0, 1).is_err());
    }

    #[test]
    fn a_linked_sync_counts_only_if_the_write_before_it_was_whole() {
        let settled = |written, synced| part(8192).settle(written, synced, 4096);
        assert_eq!(settled(8192, 0).expect("both done"), Linked::Synced);
        for unfinished in [
            (4096, -libc::ECANCELED),
            (4096, 0),
            (-libc::EINTR, -libc::ECANCELED),
            (8192, -libc::ECANCELED),
        ] {
            let linked = settled(unfinished.0, unfinished.1).expect("to be gone on with");
            assert_eq!(linked, Linked::Unfinished, "{unfinished:?}");
        }
        for (written, synced) in
            [(8192, -libc::EIO), (4096, -libc::EIO), (-libc::EIO, -libc::ECANCELED), (0, 0)]
        {
            assert!(settled(written, synced).is_err(), "{written} {synced}");
        }
    }

    #[test]
    fn an_interrupted_transfer_is_done_again_and_a_full_disk_is_seen() {
        assert!(!part(1).complete(Direction::Write, -libc::EINTR, 1).expect("again"));
        let full = part(1).complete(Direction::Write, -libc::ENOSPC, 1).expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
