//! The buffer pool: which page is in which frame, how a page gets there and how it leaves.
//!
//! It knows pages by their ids and as images; what is in them is the concern of `node` and `btree`, where
//! they lie on disk that of `store`.
//!
//! ```text
//!                     child word: page + hint
//!                        |
//!    reach_hinted ------ hit: no read-modify-write -----------------+
//!        | miss                                                     |
//!    reach -- page hash -- hit: no read-modify-write ---------------+--> frame, version
//!        | miss                                                     |
//!    load: take_frame (free list, else clock hand, else writeback) -+
//! ```
//!
//! In order of descent:
//!
//! | module | for |
//! |---|---|
//! | `fix` | from a page id to a frame: hint, page hash, load; repair of hints |
//! | `ahead` | pages that will be needed soon, read as one batch |
//! | `latched` | a frame under X, and what must happen before its page changes |
//! | `reserve` | new pages for structure modifications; pages that leave their tree |
//! | `evict` | a free frame, from wherever |
//! | `clock` | which page should leave |
//! | `writeback` | images of dirty pages to disk, in batches |
//! | `checkpoint` | one consistent state to disk |
//! | `side` | images put aside for a checkpoint in progress |
//! | `frames`, `budget`, `buffers` | the memory |
//! | `stats` | the numbers |
//!
//! # Rules
//!
//! * [P1] A frame whose ident is not 0 has its page's entry in the hash, and the other way round, except
//!   while its X latch is held. At most one frame holds a page.
//! * [P2] Content, ident and dirty epoch of a frame are written under its X latch only.
//! * [P3] A frame is in exactly one place: on the free list, in a reservation, in the hands of one loader or
//!   evictor, or in the hash. Only frames in the hash are found by the clock hand, so nothing else is
//!   evicted.
//! * [P4] Nobody waits for a free frame, a permit or a ticket while holding a latch. Those who hold frames
//!   that are neither free nor in the hash are loaders (one frame each, for as long as one read takes), those
//!   who read ahead (a sixteenth of the frames, see `ahead`) and reservations (at most half of the frames, see
//!   `reserve`). So while somebody waits for a frame, some
//!   frame either can be evicted now or will be in finite time.
//! * [P5] Dirty epochs: 0 is clean; `e` means first changed in epoch `e` since the image in the map. Inside
//!   the gate a page is changed only after [`Pool::touch`], so a frame with `0 < dirty_epoch <= frozen epoch`
//!   holds the page exactly as of the freeze.
//! * [P6] An image reaches the page map only while the frame's X latch is held and the frame still holds that
//!   image's content. The exceptions are images put aside: they are older than the frame's content, which is
//!   dirty, and the store keeps them out of the current map if that has moved on.
//!
//! # Orderings
//!
//! | word | write | read | why |
//! |---|---|---|---|
//! | ident, dirty_epoch | under X, Relaxed | under X or S, Relaxed | the latch carries the edge |
//! | ident, dirty_epoch | under X, Release | hand, scan of a checkpoint, Acquire | a guess, checked again under the latch; a zero read by the last scan of a checkpoint must come with the installation before it |
//! | clock | anyone, Relaxed | anyone, Relaxed | steers replacement only; a lost update costs at most one wrong victim |
//! | epoch | `Store::freeze`, gate closed | `touch`, gate entered | the gate carries the edge, the load may be Relaxed |
//! | counters | Relaxed | Relaxed | numbers for people |
//!
//! # How it is tested
//!
//! `tests/`: sixteen frames under eight threads and two hundred pages, with a watchdog; eviction and
//! writeback round trips; power cuts around checkpoints whose writers stamp pages; faults of the disk at
//! every call. The protocols between frame, cell and hint are model-checked with the latches they are made
//! of, in `loom-tests`.

mod ahead;
mod budget;
mod buffers;
mod checkpoint;
mod clock;
mod evict;
mod fix;
mod frames;
mod latched;
mod reserve;
mod side;
mod stats;
#[cfg(test)]
mod tests;
mod writeback;

pub use checkpoint::CheckpointReport;
pub(crate) use latched::FrameX;
pub(crate) use reserve::Reservation;
pub use stats::PoolStats;

use crate::error::{Result, Usage};
use crate::id::{BLOCK_BYTES, FrameId};
use crate::node::{ChildWord, Page};
use crate::store::Store;
use budget::{Budget, FRAMES_MIN};
use buffers::Buffers;
use checkpoint::Checkpointer;
use clock::Hand;
use crossbeam_queue::ArrayQueue;
use frames::Frames;
use latchkv_latch::{Gate, Latch};
use reserve::Permits;
use side::SideImages;
use stats::Counters;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use writeback::{Batch, WritebackFailure};

/// What a record takes in a leaf beside key and value, at most: slot, lsn, lengths, alignment.
const RECORD_EXTRA_BYTES: usize = 40;

/// Where the latches of the page hash lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PageHashLatches {
    /// One in each cell. A lookup that hits writes nothing.
    #[default]
    PerCell,
    /// In an array apart, shared by cells; every lookup takes one of them in shared mode. For measurements.
    Outside {
        /// How many, at least 1.
        count: usize,
    },
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub(crate) struct PoolOptions {
    /// Bytes of memory, frames and everything beside them included. Never exceeded.
    pub(crate) cache_bytes: u64,
    /// Ask the operating system for huge pages.
    pub(crate) huge_pages: bool,
    /// Touch all of the memory at once, so that later use meets no page fault.
    pub(crate) prefault: bool,
    /// Go down by the hints of child words; otherwise always by the page hash.
    pub(crate) frame_hints: bool,
    /// Where the latches of the page hash lie.
    pub(crate) page_hash_latches: PageHashLatches,
}

/// The buffer pool over one store.
#[derive(Debug)]
pub(crate) struct Pool {
    store: Arc<Store>,
    frame_hints: bool,
    frames: Frames,
    budget: Budget,
    gate: Gate,
    free: ArrayQueue<FrameId>,
    hand: Hand,
    /// Batches of the evictors.
    batches: Box<[Mutex<Batch>]>,
    read_buffers: Buffers,
    side: SideImages,
    permits: Permits,
    ticket: Mutex<()>,
    writeback_failure: WritebackFailure,
    checkpointer: Mutex<Checkpointer>,
    counters: Counters,
}

/// The turn of an operation that was restarted too often. While it is held, nobody else has it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket<'p> {
    _turn: MutexGuard<'p, ()>,
}

impl Pool {
    /// A pool over `store`, all of its frames free.
    ///
    /// # Errors
    /// [`Usage::BadOption`] if `cache_bytes` does not hold sixteen frames with what belongs to them, or if
    /// there are no latches outside; [`Error::Io`](crate::error::Error::Io) if the operating system gives no
    /// memory.
    pub(crate) fn new(store: Arc<Store>, options: &PoolOptions) -> Result<Pool> {
        let budget = Pool::budget(store.page_bytes(), options)?;
        let frames = Frames::new(&budget, options.prefault)?;
        let free = ArrayQueue::new(budget.frames);
        for frame in 0..budget.frames as u32 {
            free.push(FrameId(frame)).expect("the free list has room for every frame");
        }
        let batches = (0..budget.evict_batches).map(|_| Mutex::new(Batch::new(&budget))).collect();
        Ok(Pool {
            store,
            frame_hints: options.frame_hints,
            frames,
            gate: Gate::new(),
            free,
            hand: Hand::default(),
            batches,
            read_buffers: Buffers::new(budget.read_buffers, budget.page_bytes),
            side: SideImages::new(budget.side_images, budget.page_bytes),
            permits: Permits::new(budget.frames),
            ticket: Mutex::new(()),
            writeback_failure: WritebackFailure::default(),
            checkpointer: Mutex::new(Checkpointer::new(&budget)),
            counters: Counters::default(),
            budget,
        })
    }

    /// How a pool with these options is divided.
    fn budget(page_bytes: u32, options: &PoolOptions) -> Result<Budget> {
        if options.page_hash_latches == (PageHashLatches::Outside { count: 0 }) {
            return Err(bad_option("page_hash_latches", 0, "at least 1".into()));
        }
        let budget = Budget::fitting(
            options.cache_bytes,
            page_bytes as usize,
            options.page_hash_latches,
            options.huge_pages,
        );
        let Some(budget) = budget else {
            // What is outside lies beside everything else, so it only adds.
            let outside = budget::outside_bytes(options.page_hash_latches) as u64;
            let least = Pool::cache_bytes_min(page_bytes).saturating_add(outside);
            let allowed = format!("at least {least} with pages of {page_bytes} bytes");
            return Err(bad_option("cache_bytes", options.cache_bytes, allowed));
        };
        Ok(budget)
    }

    /// Refuses options that [`Pool::new`] would refuse, before anything is made for them.
    pub(crate) fn check_options(page_bytes: u32, options: &PoolOptions) -> Result<()> {
        Pool::budget(page_bytes, options).map(drop)
    }

    /// Fewest bytes of cache that a pool with pages of `page_bytes` bytes can be made of.
    pub(crate) fn cache_bytes_min(page_bytes: u32) -> u64 {
        Budget::of_frames(FRAMES_MIN, page_bytes as usize, PageHashLatches::PerCell, false)
            .bytes_total() as u64
    }

    /// The store below.
    #[inline(always)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The gate that a checkpoint closes. Writers are inside from their first change to their last.
    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Number of frames.
    #[inline(always)]
    pub(crate) fn frame_count(&self) -> usize {
        self.frames.count()
    }

    /// The words of a frame, whatever it holds.
    ///
    /// # Panics
    /// If the pool never gave out that frame id.
    #[inline(always)]
    pub(crate) fn page(&self, frame: FrameId) -> Page<'_> {
        self.frames.page(frame)
    }

    /// The latch of a frame.
    ///
    /// # Panics
    /// If the pool never gave out that frame id.
    #[inline(always)]
    pub(crate) fn latch(&self, frame: FrameId) -> &Latch {
        self.frames.latch(frame)
    }

    /// Asks the processor for what a visit of the child reads first: its header and its first lines by the
    /// hint, or its cell of the page hash if there are no hints.
    #[inline(always)]
    pub(crate) fn prefetch(&self, child: ChildWord, lines: usize) {
        if self.frame_hints {
            self.frames.prefetch(child.hint(), lines);
        } else {
            self.frames.hash().prefetch(child.page().0);
        }
    }

    /// Pages that `changes` changes dirty at most, by an estimate: `bytes` are those of keys and of the values that go
    /// into leaves.
    pub(crate) fn pages_changed(&self, changes: usize, bytes: usize) -> u64 {
        // Each dirties a leaf that is there, or one that it and its like fill, and seldom an inner page above.
        let there = self.store.usage().pages + self.counters.dirty.get();
        let changed = (changes + changes / 16) as u64;
        let filled = (bytes + changes * RECORD_EXTRA_BYTES) / self.budget.page_bytes;
        there.min(changed) + 3 * filled as u64 + 4
    }

    /// Before a commit of `changes` changes of so many `bytes` (see [`Pool::pages_changed`]): that no write of a page
    /// can fail for want of room while they are applied, if nobody else takes it meanwhile. The caller is outside the
    /// gate.
    ///
    /// # Errors
    /// Those of writing pages back, and `Full`.
    pub(crate) fn ready_for(&self, changes: usize, bytes: usize) -> Result<()> {
        let (frames, dirty) = (self.frame_count() as u64, self.counters.dirty.get());
        if dirty + 2 * changes as u64 <= frames / 2 {
            return Ok(());
        }
        let pages = self.pages_changed(changes, bytes);
        if dirty + pages <= frames / 2 {
            return Ok(());
        }
        self.leave_some_clean()?;
        // All of them may have to leave their frames, and what is dirty now too. An image that takes the place of
        // another is written before that is given back, a batch at a time.
        let on_the_way = (self.budget.batch_images * (self.budget.evict_batches + 1)) as u64;
        self.store.ensure_room(pages + dirty + on_the_way, self.page_blocks())
    }

    /// Blocks that the image of a page takes at most.
    pub(crate) fn page_blocks(&self) -> u64 {
        (self.budget.page_bytes / BLOCK_BYTES) as u64
    }

    /// Waits for the turn of an operation that was restarted too often: threads that steal each other's
    /// frames go one after the other. The caller holds no latch, no reservation and is outside the gate.
    pub(crate) fn ticket(&self) -> Ticket<'_> {
        // A holder that panicked left nothing half done behind this lock.
        Ticket { _turn: self.ticket.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

fn bad_option(option: &'static str, actual: u64, allowed: String) -> crate::error::Error {
    Usage::BadOption { option, actual: actual.to_string(), allowed }.into()
}
