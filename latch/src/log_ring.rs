//! The log's memory: a ring of words that many threads fill with records at once, and one flusher drains.
//!
//! What it is for: giving each commit its lsn with one read-modify-write, letting everybody copy and apply in
//! parallel, and knowing up to where all of it is copied, applied, and written. What it is not: a file, or a
//! format; of a record's bytes it knows only that the low 32 bits of the first word are its length.
//!
//! An *lsn* is a position in the stream of bytes that the log is, below 2^48 and a multiple of 8. The byte at
//! lsn `p` lies at `p % bytes` of the ring.
//!
//! ```text
//!          written, applied    |  copied, applied  | copied, applied or neither |   free
//!   -------------------------- retired ----------- visible ------------------- tail ------- limit
//!                              |<------------------------- at most `bytes` ----------------->|
//!
//!   record  [ .. : 32 | length : 32 ] more words      a multiple of 8 bytes, at least 32
//!   mark    [ lsn : 45 | state : 3 ]                  one for each 32 bytes of ring
//! ```
//!
//! A record's mark is the one of the 32 bytes it begins in: no two records begin in the same. It holds the
//! record's lsn, so that it says nothing about a record that was or will be at the same place of the ring, and
//! need not be cleared.
//!
//! | mark of the record at `p` | who goes on | to |
//! |---|---|---|
//! | anything else: reserved | its reserver, by [`LogRing::copied`] | `p`, 1 |
//! | `p`, 1: copied, the flusher may write it | its reserver, by [`LogRing::applied`] | `p`, 2 |
//! | `p`, 2: applied, `visible` may pass it | nobody | |
//!
//! A reservation that comes to nothing is copied as a record that says so, and marked applied.
//!
//! # Invariants
//!
//! * \[R1] `retired <= visible <= tail <= retired + bytes`, and none of them falls.
//! * \[R2] The words of `[lsn, lsn + len)` are stored to only by who reserved them, until it marks the record
//!   copied; after that by nobody until `retired` has passed it.
//! * \[R3] Two records that begin in the same 32 bytes of the ring are never both at or above `retired`: of 32
//!   bytes at least, the second ends beyond `retired + bytes` while the first is not retired.
//! * \[R4] When every record below `p` has been marked applied and each of these calls has returned, `visible`
//!   is at least `p`. Of the fences of those calls one comes last: behind it all of those marks are seen, and
//!   the walk from any earlier `visible` leads to `p`.
//! * \[R5] A walker that was left behind reads nonsense for a length, and then fails to move `visible`: that
//!   never has the same value twice.
//!
//! # Orderings
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[R-a] | `copied`: mark Release | `copied_end`: mark Acquire | the words come before their being read | garbage in the file |
//! | \[R-b] | `retire`: `retired` Release | `reserve`: `retired` Acquire | the flusher has read before others overwrite | garbage in the file |
//! | \[R-c] | `applied`: mark Release | `help`: mark Acquire | applied before visible | a snapshot misses a commit |
//! | \[R-d] | `help`: `visible` Release | `visible`, `help`: Acquire | applied before visible, handed on | the same |
//! | \[R-e] | `applied`: mark, `fence(SeqCst)` | `applied`: `fence(SeqCst)`, marks | \[R4] | `visible` stays behind |
//! | \[R-f] | `copied`: mark Release | `help`: mark Acquire, `visible` again | who meets the mark of a later record sees `visible` beyond the earlier one | \[R4]: a walk ends early |
//! | \[R-g] | `retire`, `set_limit`: under the bucket's lock | `wait_room`: under it | no wake-up is lost | a committer sleeps for ever |
//!
//! Words are stored and loaded with Relaxed. So is `tail`: it says who owns what, and nothing is read through
//! it. The step from `visible` to `retire` needs no row: the flusher's Acquire of `visible` is \[R-d].
//!
//! # Tests
//!
//! Threads in `log_ring_tests.rs`; loom models `log_ring::*` and `commit::*`.

use crate::backoff::Backoff;
use crate::primitives::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::primitives::{self, AtomicU64, Mutant, fence, mutant};
use std::fmt;

/// Least bytes of a record.
pub const RECORD_BYTES_MIN: u32 = 32;
/// Least bytes of a ring.
pub const RING_BYTES_MIN: usize = if cfg!(latchkv_loom) { 64 } else { 4096 };
/// Every lsn is below this.
pub const LSN_LIMIT: u64 = 1 << 48;

/// State of a mark: the record is whole.
const COPIED: u64 = 1;
/// State of a mark: the record is applied, or void.
const APPLIED: u64 = 2;
/// Times that a waiter yields before it naps.
const YIELDS: u32 = 64;

/// A word in a line, and a pair of lines, of its own.
#[repr(align(128))]
struct Own<T>(T);

/// Up to where there is room: two words that are stored rarely and read at each reservation.
struct Room {
    /// What is below is written and visible. Stored by the flusher.
    retired: AtomicU64,
    /// What may be reserved, as far as the disk goes. Stored by who adds disk space.
    allowed: AtomicU64,
}

/// See the module head. Neither loses nor orders anything by itself: who reserves must copy, mark copied, and
/// mark applied, in this order, or the log stands still behind the record.
pub struct LogRing {
    words: Box<[AtomicU64]>,
    marks: Box<[AtomicU64]>,
    tail: Own<AtomicU64>,
    visible: Own<AtomicU64>,
    room: Own<Room>,
}

impl LogRing {
    /// An empty ring of `bytes` bytes whose first record will have the lsn `start`. Nothing but the ring
    /// limits it until [`LogRing::set_limit`].
    ///
    /// # Panics
    ///
    /// If `bytes` is no power of two or below [`RING_BYTES_MIN`], or `start` no multiple of 8 or not below
    /// [`LSN_LIMIT`].
    pub fn new(bytes: usize, start: u64) -> LogRing {
        assert!(bytes.is_power_of_two() && bytes >= RING_BYTES_MIN, "a ring of {bytes} bytes");
        assert!(start.is_multiple_of(8) && start < LSN_LIMIT, "no lsn: {start}");
        let zeroes = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        LogRing {
            words: zeroes(bytes / 8),
            marks: zeroes(bytes / RECORD_BYTES_MIN as usize),
            tail: Own(AtomicU64::new(start)),
            visible: Own(AtomicU64::new(start)),
            room: Own(Room {
                retired: AtomicU64::new(start),
                allowed: AtomicU64::new(LSN_LIMIT - 1),
            }),
        }
    }

    /// Bytes of the ring. A record must not be longer.
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Takes the next `len` bytes of the log, and gives their lsn; none while there is no room for them, in
    /// the ring or below the limit. What is taken cannot be given back: the caller copies a record of just
    /// this length and marks it. Lock-free; one read-modify-write if nobody interferes.
    ///
    /// # Panics
    ///
    /// If `len` is no multiple of 8 or below [`RECORD_BYTES_MIN`].
    #[inline]
    pub fn reserve(&self, len: u32) -> Option<u64> {
        assert!(len.is_multiple_of(8) && len >= RECORD_BYTES_MIN, "a record of {len} bytes");
        // Relaxed: see below the table; a stale value makes the compare-exchange fail.
        let mut tail = self.tail.0.load(Relaxed);
        loop {
            if !self.has_room(tail, len) && !mutant(Mutant::ReserveIgnoresRoom) {
                return None;
            }
            let next = tail + u64::from(len);
            match self.tail.0.compare_exchange_weak(tail, next, Relaxed, Relaxed) {
                Ok(_) => return Some(tail),
                Err(now) => tail = now,
            }
        }
    }

    /// Whether a record of `len` bytes may begin at `tail`.
    #[inline(always)]
    fn has_room(&self, tail: u64, len: u32) -> bool {
        // R-b.
        let order = if mutant(Mutant::ReserveRelaxed) { Relaxed } else { Acquire };
        let retired = self.room.0.retired.load(order);
        // Relaxed: disk space below it is made before the flusher, who owns it, writes there.
        let allowed = self.room.0.allowed.load(Relaxed);
        tail + u64::from(len) <= allowed.min(retired + self.bytes() as u64)
    }

    /// Waits until there is room for `len` bytes, and says true; or says false once `give_up` does, which is
    /// asked again whenever [`LogRing::wake_waiters`] was called. Another thread may take the room before the
    /// caller does: it goes round [`LogRing::reserve`] again. Room comes from the flusher, so the caller must
    /// hold nothing that the flusher, or whoever it waits for, wants. `give_up` must neither panic nor wait.
    ///
    /// # Panics
    ///
    /// If `len` is more than the ring: that wait would not end.
    pub fn wait_room(&self, len: u32, give_up: impl Fn() -> bool) -> bool {
        assert!(len as usize <= self.bytes(), "a record of {len} bytes is longer than the ring");
        // Relaxed: as in `reserve`.
        let no_room = || !self.has_room(self.tail.0.load(Relaxed), len);
        let mut backoff = Backoff::new();
        while no_room() {
            if give_up() {
                return false;
            }
            if !backoff.wait() {
                // R-g.
                primitives::park(self.address(), || {
                    (no_room() && !give_up()) || mutant(Mutant::RoomParkWithoutRecheck)
                });
            }
        }
        true
    }

    /// Wakes all who wait for room, so that they look at their `give_up` again. What that reads was stored
    /// before this call.
    pub fn wake_waiters(&self) {
        primitives::wake_all(self.address(), || ());
    }

    /// Stores `words` at the byte `at` of the record `lsn`, which the caller has reserved and not yet marked.
    /// Words outside the record would be another's. Goes round the end of the ring.
    #[inline]
    pub fn copy(&self, lsn: u64, at: u32, words: &[u64]) {
        debug_assert!(at.is_multiple_of(8), "words begin at multiples of 8");
        let (end, start) = self.halves(lsn + u64::from(at), words.len());
        let (to_end, to_start) = words.split_at(end.len());
        for (place, &word) in end.iter().zip(to_end).chain(start.iter().zip(to_start)) {
            // Relaxed: R-a.
            place.store(word, Relaxed);
        }
    }

    /// The `count` words from `lsn` on: up to the end of the ring, and then from its start.
    #[inline(always)]
    fn halves(&self, lsn: u64, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
        debug_assert!(count <= self.words.len(), "longer than the ring");
        let place = self.word(lsn);
        let to_end = count.min(self.words.len() - place);
        (&self.words[place..place + to_end], &self.words[..count - to_end])
    }

    /// Index of the word at `lsn`.
    #[inline(always)]
    fn word(&self, lsn: u64) -> usize {
        (lsn / 8) as usize & (self.words.len() - 1)
    }

    /// The mark of a record at `lsn`.
    #[inline(always)]
    fn mark(&self, lsn: u64) -> &AtomicU64 {
        let granule = (lsn / u64::from(RECORD_BYTES_MIN)) as usize;
        &self.marks[granule & (self.marks.len() - 1)]
    }

    /// Length of the record at `lsn`, whose mark says that it is copied.
    #[inline(always)]
    fn length(&self, lsn: u64) -> u64 {
        // Relaxed: R-a or R-c, by its mark.
        self.words[self.word(lsn)].load(Relaxed) & u64::from(u32::MAX)
    }

    /// Says that the record `lsn` is whole, so the flusher may write it. By who reserved it, once.
    ///
    /// # Panics
    ///
    /// In a debug build, if the record does not say a length, or says one that was not reserved.
    #[inline]
    pub fn copied(&self, lsn: u64) {
        if cfg!(debug_assertions) {
            let len = self.length(lsn);
            let fits = len.is_multiple_of(8) && len >= u64::from(RECORD_BYTES_MIN);
            assert!(fits && lsn + len <= self.tail(), "the record {lsn} says it has {len} bytes");
        }
        // R-a, R-f.
        let order = if mutant(Mutant::CopiedRelaxed) { Relaxed } else { Release };
        self.mark(lsn).store(lsn | COPIED, order);
    }

    /// Says that the record `lsn`, marked copied before, is applied (or void), and moves `visible` on as far
    /// as it goes. By who reserved it, once.
    #[inline]
    pub fn applied(&self, lsn: u64) {
        // Relaxed: the caller's own store.
        debug_assert_eq!(self.mark(lsn).load(Relaxed), lsn | COPIED, "applied, but not copied");
        // R-c.
        let order = if mutant(Mutant::AppliedRelaxed) { Relaxed } else { Release };
        self.mark(lsn).store(lsn | APPLIED, order);
        if !mutant(Mutant::AppliedWithoutFence) {
            // R-e.
            fence(SeqCst);
        }
        self.help();
    }

    /// Moves `visible` over what is applied, and gives it.
    fn help(&self) -> u64 {
        // R-d.
        let mut visible = self.visible.0.load(Acquire);
        loop {
            // R-c, R-f.
            let order = if mutant(Mutant::HelpRelaxed) { Relaxed } else { Acquire };
            if self.mark(visible).load(order) != visible | APPLIED {
                // R-f. Unmoved: the record is not applied, and who applies it comes here behind its fence.
                let now = self.visible.0.load(Acquire);
                if now == visible || mutant(Mutant::HelpWithoutReload) {
                    return visible;
                }
                visible = now;
                continue;
            }
            let next = visible + self.length(visible);
            // R-d. Success acquires nothing: this value has been acquired. R5.
            let order = if mutant(Mutant::HelpPublishesRelaxed) { Relaxed } else { Release };
            match self.visible.0.compare_exchange(visible, next, order, Acquire) {
                Ok(_) => visible = next,
                Err(now) => visible = now,
            }
        }
    }

    /// Up to where all records are applied: what is below is seen by whoever calls this.
    #[inline]
    pub fn visible(&self) -> u64 {
        // R-d.
        let order = if mutant(Mutant::VisibleRelaxed) { Relaxed } else { Acquire };
        self.visible.0.load(order)
    }

    /// Where the next record will begin. Of use to who knows that nobody reserves, or as a moment's picture;
    /// never below a [`LogRing::visible`] that this thread has seen.
    #[inline]
    pub fn tail(&self) -> u64 {
        // Relaxed: see below the table.
        self.tail.0.load(Relaxed)
    }

    /// Waits until everything below `lsn` is applied; what it was is then seen. Never waits for a record at or
    /// above `lsn`. Moves `visible` on itself where its mover was interrupted. Spins, yields, then naps some
    /// tens of microseconds at a time, as moving `visible` wakes nobody.
    pub fn wait_visible(&self, lsn: u64) {
        let mut backoff = Backoff::new();
        let mut yields = 0;
        while self.visible() < lsn && self.help() < lsn {
            if backoff.wait() {
                continue;
            }
            if yields < YIELDS {
                yields += 1;
                primitives::yield_now();
            } else {
                primitives::nap();
            }
        }
    }

    /// End of the unbroken run of copied records that begins at `from`, which is where a record begins, at or
    /// above `retired`. Their words may then be read. One caller at a time with [`LogRing::retire`].
    pub fn copied_end(&self, from: u64) -> u64 {
        let mut end = from;
        loop {
            // R-a.
            let order = if mutant(Mutant::CopiedEndRelaxed) { Relaxed } else { Acquire };
            let mark = self.mark(end).load(order);
            if mark != end | COPIED && mark != end | APPLIED {
                return end;
            }
            end += self.length(end);
        }
    }

    /// Copies the words from `from` on out of the ring: any part of what [`LogRing::copied_end`] covered and
    /// that is not retired. Goes round the end of the ring.
    pub fn read(&self, from: u64, words: &mut [u64]) {
        let (end, start) = self.halves(from, words.len());
        let (of_end, of_start) = words.split_at_mut(end.len());
        for (place, word) in end.iter().zip(of_end).chain(start.iter().zip(of_start)) {
            // Relaxed: R-a, R-b.
            *word = place.load(Relaxed);
        }
    }

    /// Says how far the log may be reserved by what the disk has room for; what lies behind is refused until
    /// more is said. Wakes those who wait for room. Lowering it takes back nothing that was reserved. One
    /// caller at a time.
    pub fn set_limit(&self, lsn: u64) {
        let lsn = lsn.min(LSN_LIMIT - 1);
        // R-g. Relaxed: as in `has_room`.
        primitives::wake_all(self.address(), || self.room.0.allowed.store(lsn, Relaxed));
    }

    /// Gives the ring's room below `upto`, where a record begins, back: all of it has been written, and is
    /// visible. Wakes those who wait for room. One caller at a time with [`LogRing::copied_end`].
    ///
    /// # Panics
    ///
    /// If `upto` is below `retired` or above `visible`.
    pub fn retire(&self, upto: u64) {
        let retired = self.retired();
        assert!(retired <= upto && upto <= self.visible(), "retired {retired}, then {upto}");
        // R-b.
        let order = if mutant(Mutant::RetireRelaxed) { Relaxed } else { Release };
        let raise = || self.room.0.retired.store(upto, order);
        if mutant(Mutant::RetireForgetsWake) {
            return raise();
        }
        // R-g.
        primitives::wake_all(self.address(), raise);
    }

    /// Up to where the ring's room has been given back.
    #[inline]
    pub fn retired(&self) -> u64 {
        // Relaxed: the flusher's own; to others a picture of a moment.
        self.room.0.retired.load(Relaxed)
    }

    /// Where those park who wait for room.
    fn address(&self) -> usize {
        std::ptr::from_ref(&self.room).addr()
    }
}

impl fmt::Debug for LogRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogRing")
            .field("bytes", &self.bytes())
            .field("retired", &self.retired())
            .field("visible", &self.visible())
            .field("tail", &self.tail())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
#[path = "log_ring_tests.rs"]
mod tests;
