//! The registry of live snapshots: each holds the *horizon* down, below which old versions may be dropped.
//!
//! What it is for: readers that begin often and for a plain store or two, and a reclaimer that asks rarely for
//! the oldest of them. What it is not: protection of memory by itself; it says only what a reader may yet ask
//! for.
//!
//! ```text
//!   thread 0   [ slot | slot | .. seven | next ] -> [ .. ]      a line of 128 bytes; more if it holds many
//!   thread 1   [ slot | slot | .. seven | next ]
//!
//!   slot       [ word : 64 ][ since : 64 ]
//!   word       [ generation : 14 | state : 2 | lsn : 48 ]
//!
//!   register:  word = PENDING;  fence(SeqCst);  s = read();  word = LIVE | s
//!   horizon:   u = upper();  fence(SeqCst);  least of u and all slots; for a PENDING one no more than before
//! ```
//!
//! | state | who goes on | to |
//! |---|---|---|
//! | FREE (all-zero is FREE) | the owner of the line, `register`: plain store, next generation | PENDING |
//! | PENDING | the owner of the line, still in `register`: plain store | LIVE |
//! | LIVE | who has the snapshot, `release`: plain store | FREE |
//! | | anybody, `end`: compare-exchange | ENDED |
//! | ENDED | who has the snapshot, `release`: plain store | FREE |
//!
//! # Invariants
//!
//! * \[N1] A slot leaves FREE by its line's thread alone ([`mod@crate::thread_index`]), and FREE is stored by
//!   who has the snapshot alone, wherever that was moved; so plain stores do.
//! * \[N2] `end` changes the very word it has seen, so it ends no later snapshot of the same slot, unless one
//!   with the same lsn comes a multiple of 2^14 snapshots later, between two steps of one call. Even that
//!   would be an early end, never a wrong read.
//! * \[N3] No horizon is above a snapshot that is live or begins later.
//!
//! *Why \[N3] holds.* Let a snapshot read `s`, and a scan give `h`; the snapshot is not released or ended when
//! the scan comes to its slot. If the snapshot's fence comes before the scan's, the scan finds its slot: LIVE
//! gives `h <= s`; PENDING gives `h <=` the horizon before, which this argument covers in turn, or which is a
//! place from before all snapshots. If the scan's fence comes first, `read` returns no less than `upper`, which
//! was loaded before that fence: `s >= u >= h`. That needs `read` to load what `upper` loads, or something
//! never below it.
//!
//! A slot may for a moment hold an lsn below a horizon of before: of one who registers an older lsn, sees that it
//! comes too late, and gives up. Horizons never fall for it.
//!
//! *Ended readers.* Once `end` has succeeded the slot holds nothing, and what the reader may be reading can go
//! away. So it believes nothing it has read until [`Snapshots::is_ended`] has denied, after reading; as with an
//! optimistic latch, it reads words that may be overwritten, not memory that may be unmapped.
//!
//! # Orderings
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[N-a] | `register`: PENDING Relaxed, `fence(SeqCst)` | `horizon`: `fence(SeqCst)`, word | \[N3] | a version is dropped that a reader will ask for |
//! | \[N-b] | whoever moves what `upper` loads | `register`: `fence(SeqCst)`, `read` | \[N3] | the same |
//! | \[N-c] | `release`: FREE Release | `horizon`: word Acquire | the reader has read before the version is dropped | a reader reads what was dropped |
//! | \[N-d] | `horizon`: finds ENDED, `fence(Release)`, then the caller drops | `is_ended`: `fence(Acquire)`, word | whoever has read what a drop left finds ENDED too | an ended reader believes it |
//! | \[N-e] | `register`: PENDING, `fence(SeqCst)`, `since` Relaxed, LIVE Release | `each`: word Acquire, `since`, `fence(Acquire)`, word | lsn and `since` are of one snapshot | a young reader looks old |
//!
//! # Tests
//!
//! Threads in `snapshots_tests.rs`; loom models `snapshots::*`.

use crate::per_thread::PerThread;
use crate::primitives::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::primitives::{AtomicU64, Mutant, fence, mutant};
use crate::thread_index::thread_index;
use std::fmt;
use std::sync::OnceLock;

/// Slots of a line.
const SLOTS: usize = if cfg!(latchkv_loom) { 1 } else { 7 };

/// Bits of a word that are the lsn.
const LSN: u64 = (1 << 48) - 1;
/// The state of a word.
const STATE: u64 = 0b11 << 48;
/// No snapshot.
const FREE: u64 = 0;
/// A snapshot that is about to have an lsn.
const PENDING: u64 = 1 << 48;
/// A snapshot that holds the horizon.
const LIVE: u64 = 2 << 48;
/// A snapshot that was ended from outside and not yet released.
const ENDED: u64 = 3 << 48;
/// One generation; they wrap.
const GENERATION: u64 = 1 << 50;
/// The generation of a word.
const GENERATIONS: u64 = !(STATE | LSN);

/// A place for one snapshot of the line's thread.
#[derive(Default)]
struct Slot {
    word: AtomicU64,
    since: AtomicU64,
}

/// Slots of one thread, and the way to more.
#[repr(align(128))]
#[derive(Default)]
struct Line {
    slots: [Slot; SLOTS],
    /// Made by the thread when all slots before it are in use. Stays.
    next: OnceLock<Box<Line>>,
}

#[cfg(not(latchkv_loom))]
const _: () = assert!(size_of::<Line>() == 128);

impl Drop for Line {
    /// One line after the other: a long chain would recurse deeply.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut line) = next {
            next = line.next.take();
        }
    }
}

/// All snapshots of one database. See the module head.
pub struct Snapshots {
    lines: PerThread<Line>,
}

/// A registered snapshot: the key to its slot, to be given to [`Snapshots::release`] once. May go to another
/// thread. Copies serve to look and to end; the one who registered it releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotSlot {
    thread: u32,
    /// Counts slots along the lines of the thread.
    place: u32,
    /// In place, other bits 0.
    generation: u64,
}

impl Snapshots {
    /// No snapshots.
    pub fn new() -> Snapshots {
        Snapshots { lines: PerThread::new() }
    }

    /// Registers a snapshot at the lsn that `read` gives, which is below 2^48; `since` is any number, given
    /// back by [`Snapshots::each`]. `read` is called once, and loads, with Acquire, what the `upper` of
    /// [`Snapshots::horizon`] loads, or something never below it; it must not panic.
    ///
    /// An lsn from elsewhere may be registered too, but holds nothing until the caller has seen, in one order
    /// with all scans (a lock around each), that no horizon is above it; otherwise it releases the slot.
    ///
    /// Wait-free, and no read-modify-write, unless the thread holds more snapshots at once than ever before.
    /// Looks at as many slots as the thread holds snapshots.
    #[inline]
    pub fn register(&self, since: u64, read: impl FnOnce() -> u64) -> SnapshotSlot {
        self.register_in(thread_index(), since, read)
    }

    /// Registers as the owner of a line: loom's threads share one thread of the operating system, so a model
    /// names them.
    #[cfg(latchkv_loom)]
    pub fn register_as(
        &self,
        index: usize,
        since: u64,
        read: impl FnOnce() -> u64,
    ) -> SnapshotSlot {
        self.register_in(index, since, read)
    }

    #[inline]
    fn register_in(&self, index: usize, since: u64, read: impl FnOnce() -> u64) -> SnapshotSlot {
        let (place, slot, generation) = self.free_slot(index);
        // Relaxed: N-a, the fence follows.
        slot.word.store(generation | PENDING, Relaxed);
        if !mutant(Mutant::RegisterWithoutFence) {
            // N-a, N-b, N-e.
            fence(SeqCst);
        }
        // Relaxed: N-e.
        slot.since.store(since, Relaxed);
        let lsn = read();
        debug_assert!(lsn <= LSN, "no lsn: {lsn}");
        // N-e.
        slot.word.store(generation | LIVE | lsn & LSN, Release);
        SnapshotSlot { thread: index as u32, place: place as u32, generation }
    }

    /// The first free slot of the thread `index`, which is the caller, and its next generation.
    #[inline]
    fn free_slot(&self, index: usize) -> (usize, &Slot, u64) {
        let mut line = self.lines.get(index);
        let mut place = 0;
        loop {
            for slot in &line.slots {
                // Relaxed: N1; nothing is read through a free slot.
                let word = slot.word.load(Relaxed);
                if word & STATE == FREE {
                    return (place, slot, (word & GENERATIONS).wrapping_add(GENERATION));
                }
                place += 1;
            }
            line = line.next.get_or_init(Box::default);
        }
    }

    /// The slot of a snapshot. Its line has been made.
    #[inline]
    fn slot(&self, snapshot: SnapshotSlot) -> &Slot {
        let mut line = self.lines.get(snapshot.thread as usize);
        let mut place = snapshot.place as usize;
        while place >= SLOTS {
            line = line.next.get_or_init(Box::default);
            place -= SLOTS;
        }
        &line.slots[place]
    }

    /// The lsn at which the snapshot was registered. It must not be released yet; ended it may be.
    #[inline]
    pub fn lsn(&self, snapshot: SnapshotSlot) -> u64 {
        // Relaxed: stored by who registered the snapshot, and a number that stands for itself.
        let word = self.slot(snapshot).word.load(Relaxed);
        debug_assert_eq!(word & GENERATIONS, snapshot.generation, "released");
        word & LSN
    }

    /// Gives the slot up: the snapshot holds nothing from here on. To be called once, by any thread, when all
    /// reads of the snapshot are done. A plain store.
    #[inline]
    pub fn release(&self, snapshot: SnapshotSlot) {
        let slot = self.slot(snapshot);
        // Relaxed: no one else releases it, so the generation stays.
        debug_assert_eq!(slot.word.load(Relaxed) & GENERATIONS, snapshot.generation, "released");
        // N-c. May overwrite ENDED: the reader is done in either case.
        let order = if mutant(Mutant::SnapshotReleaseRelaxed) { Relaxed } else { Release };
        slot.word.store(snapshot.generation | FREE, order);
    }

    /// Ends a snapshot from outside: it no longer holds the horizon, and whoever reads through it is told so
    /// by [`Snapshots::is_ended`]. `lsn` is the one that [`Snapshots::each`] gave with it. Says whether it was
    /// live until now; one that was released meanwhile is left alone, and so is who has its slot now.
    pub fn end(&self, snapshot: SnapshotSlot, lsn: u64) -> bool {
        let slot = self.slot(snapshot);
        let ended = snapshot.generation | ENDED | lsn;
        if mutant(Mutant::EndIgnoresGeneration) {
            slot.word.store(ended, Relaxed);
            return true;
        }
        // N2. Relaxed: who finds ENDED reads nothing through it, and hands it on by N-d.
        let live = snapshot.generation | LIVE | lsn;
        slot.word.compare_exchange(live, ended, Relaxed, Relaxed).is_ok()
    }

    /// Whether the snapshot, not yet released, was ended from outside. If not, all that was read before this
    /// call was read while the snapshot still held it.
    #[inline]
    pub fn is_ended(&self, snapshot: SnapshotSlot) -> bool {
        if !mutant(Mutant::IsEndedWithoutFence) {
            // N-d.
            fence(Acquire);
        }
        // Relaxed: the fence before it is what counts; nothing is read through an ended slot.
        self.slot(snapshot).word.load(Relaxed) & STATE == ENDED
    }

    /// A place that no snapshot is below, neither one that is live nor one that begins later: the least of
    /// `upper`, which is loaded first, and all live snapshots. What only snapshots below it can ask for may be
    /// dropped.
    ///
    /// `upper` loads what the `read` of all who register loads, or something never above it. `before` is the
    /// result of an earlier call, or a place from before the first snapshot; the result is not below it.
    pub fn horizon(&self, upper: impl FnOnce() -> u64, before: u64) -> u64 {
        let mut horizon = upper();
        if !mutant(Mutant::HorizonWithoutFence) {
            // N-a, N-b. Lines that are made after this fence (PT2) are of threads that will see `upper`.
            fence(SeqCst);
        }
        self.walk(|_, slot| {
            // N-c.
            let order = if mutant(Mutant::HorizonRelaxed) { Relaxed } else { Acquire };
            let word = slot.word.load(order);
            match word & STATE {
                LIVE => horizon = horizon.min(word & LSN),
                PENDING if !mutant(Mutant::HorizonIgnoresPending) => horizon = horizon.min(before),
                _ => {}
            }
        });
        if !mutant(Mutant::HorizonWithoutReleaseFence) {
            // N-d.
            fence(Release);
        }
        // Below it is only what comes too late.
        horizon.max(before)
    }

    /// Calls `f` for each snapshot that is live, with its lsn and `since`. One that comes or goes meanwhile
    /// may be given or not; lsn and `since` always belong together.
    pub fn each(&self, mut f: impl FnMut(SnapshotSlot, u64, u64)) {
        self.walk(|snapshot, slot| {
            // N-e.
            let word = slot.word.load(Acquire);
            if word & STATE != LIVE {
                return;
            }
            // Relaxed: N-e, the fence follows.
            let since = slot.since.load(Relaxed);
            if !mutant(Mutant::EachWithoutFence) {
                // N-e.
                fence(Acquire);
            }
            // Relaxed: N-e, behind the fence.
            if slot.word.load(Relaxed) == word {
                let snapshot = SnapshotSlot { generation: word & GENERATIONS, ..snapshot };
                f(snapshot, word & LSN, since);
            }
        });
    }

    /// Calls `f` for each slot made so far, with its key but for the generation.
    fn walk(&self, mut f: impl FnMut(SnapshotSlot, &Slot)) {
        for (thread, line) in self.lines.iter() {
            let lines =
                std::iter::successors(Some(line), |line| line.next.get().map(|next| &**next));
            for (place, slot) in lines.flat_map(|line| &line.slots).enumerate() {
                f(SnapshotSlot { thread: thread as u32, place: place as u32, generation: 0 }, slot);
            }
        }
    }
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots::new()
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut live = 0;
        self.each(|_, _, _| live += 1);
        f.debug_struct("Snapshots").field("live", &live).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
#[path = "snapshots_tests.rs"]
mod tests;
