//! The store: pages on disk, and checkpoints that never overwrite anything live.
//!
//! What it is: the file `data` and its directory; which blocks are free; where each page lies; making one
//! state durable. What it is not: it knows nothing of trees but their ids and lengths, nothing of frames,
//! nothing of what is inside a page, and of the log only that there is such a file and an lsn to read it from.
//!
//! ```text
//!   dir        the directory: creating it at once or not at all, finding it
//!   lock       one writer or many readers, across and within processes
//!   open       create and open: from the superblock to free space
//!   pages      reading and writing page images
//!   value      large values: pages of as many blocks as they need
//!   checkpoint freeze, publish, abort
//!   room       blocks for what is to be written, and a longer file if need be
//!   audit      map, blocks and free space against each other
//!   state      which map an image goes to: rules [I1] to [I9]
//!   page_map   page id -> placement
//!   blocks     free runs, and when a superseded one is free
//!   superblock, manifest, place      bytes
//! ```
//!
//! # The file
//!
//! Everything is little-endian and lies in blocks of 4096 bytes, whatever the memory page of the system is.
//!
//! ```text
//!  block  0             1 .. 15  16            17 .. 31  32 ..
//!         [superblock 0][ zeros ][superblock 1][ zeros  ][ pages, map pages, manifests, free runs, in any order ]
//!
//!  superblock -> manifest -> directory of map pages -> map pages -> pages
//! ```
//!
//! Byte rulers are in `superblock`, `manifest`, `place` and `page_map`. Each arrow is a placement: first
//! block, number of blocks and a seeded checksum of all their bytes. So the superblock vouches for every byte
//! that can be reached, and free space is what cannot be: it is written nowhere.
//!
//! # Invariants
//!
//! - \[S1] *Nothing live is overwritten.* A block named by the durable checkpoint, the frozen map or the
//!   current map is not written. The two superblock slots are the exception, one at a time.
//! - \[S2] All that a superblock reaches was synced before that superblock was written.
//! - \[S3] A slot is written first only if the other holds the newest durable checkpoint. Once it is synced,
//!   the other gets a copy without waiting; the sync of the next checkpoint covers it before its slot is
//!   touched. So at rest both slots say the same and either may be lost.
//! - \[S4] A block that only the older checkpoint reaches is given out after the newer superblock is synced,
//!   never before.
//! - \[S5] After a write or sync that failed in an unknown way nothing is written any more: the store is
//!   *poisoned*, keeps the first cause, and goes on reading. A sync is never tried again. A full disk is no
//!   such failure.
//! - \[S6] A read-only store writes nothing, not even to mend a slot.
//! - \[S7] Nothing read is used as a length, an index or an offset before it was checked against the length
//!   of the file.
//!
//! # Crash, case by case
//!
//! | crash | what opens |
//! |---|---|
//! | while a database is made | nothing, and it can be made anew: `data` appears by a rename after a sync (`dir`) |
//! | before a checkpoint's first sync | the older checkpoint: its blocks were not touched (\[S1]) |
//! | superblock torn or lost | the older one: the other slot holds it, synced (\[S3]), its blocks untouched (\[S4]) |
//! | superblock written, sync not returned | the newer or the older; both are whole (\[S2]) |
//! | superblock refused by a full disk, which has room later | the same, until another checkpoint is durable |
//! | after it, copy torn or lost | the newer one |
//! | file lengthened or cut, not synced | either length holds all that is reached: a cut removes free blocks only |
//!
//! If the newest slot is destroyed *after* a power cut that also lost its copy, the older one opens and names
//! blocks that may have been used anew. Checksums then show which pages are gone; nothing wrong is given as
//! right.
//!
//! # The medium
//!
//! Assumed: a sync that returned makes the writes before it durable; a torn write leaves each 512-byte sector
//! old or new or unreadable, and no other block changed. Not assumed: that a block is written whole, that
//! writes keep their order, that what is read is what was written there.
//!
//! # Orderings
//!
//! | word | written | read | ordering |
//! |---|---|---|---|
//! | `epoch` | `freeze`, all writers out of the gate | writers, in the gate | Relaxed: the gate orders them |
//! | `frozen_epoch` | `freeze` as above; `publish`, `abort` | writers, in the gate | Release, Acquire: a 0 shows all that the checkpoint did |
//!
//! All else lies under one reader-writer lock, taken on misses, writebacks and allocations, never held over a
//! transfer. Lock order: `publishing`, `cut`, `state`; `durable` is held for a copy only, so statistics never
//! wait for a sync.
//!
//! Tested by `store::tests`: random traffic against a model with the power cut at every sync, a full disk and
//! a failed call at every index, every sector of a database flipped, zeroed and cut off.

mod audit;
mod blocks;
mod checkpoint;
mod dir;
mod lock;
mod manifest;
mod open;
mod page_map;
mod pages;
mod place;
mod room;
mod state;
mod superblock;
#[cfg(test)]
pub(crate) mod tests;
mod value;

pub(crate) use dir::{Directory, Mode};
pub(crate) use open::check_page_bytes;
pub(crate) use pages::{Image, PageRead};
pub(crate) use place::Placement;
pub(crate) use value::VALUE_BYTES_MAX;

use crate::error::{Corruption, Denied, Error, Result};
use crate::id::{BLOCK_BYTES, Epoch, PageId, TreeId};
use crate::io::{Backend, Disk, disk_error, open_disk};
use latchkv_latch::primitives::{AtomicU64, Ordering};
use state::State;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use superblock::Superblock;

/// What the store holds, in its own units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreUsage {
    /// Length of `data` in bytes.
    pub file_bytes: u64,
    /// Blocks that hold something, the reserved ones and those that wait for a checkpoint included.
    pub used_blocks: u64,
    /// Blocks that can be given out.
    pub free_blocks: u64,
    /// Blocks superseded, but kept until no checkpoint needs them; part of `used_blocks`.
    pub pending_blocks: u64,
    /// Pages that have a place on disk, large values included.
    pub pages: u64,
    /// Bytes of memory of the page map.
    pub map_bytes: u64,
    /// Number of the newest durable checkpoint; 1 is the empty database.
    pub sequence: u64,
}

/// A database directory that was made or opened, and what is in it. Fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The store in `data`.
    pub(crate) store: Store,
    /// The file `log`, as yet unread; empty in a new database. `None` only where there is none and the database
    /// was opened for reading.
    pub(crate) log: Option<Arc<dyn Disk>>,
    /// Path of `log`, for messages.
    pub(crate) log_path: PathBuf,
    /// Keeps the directory locked.
    pub(crate) directory: Directory,
}

/// What the newest durable checkpoint says, and where.
#[derive(Debug)]
struct Durable {
    superblock: Superblock,
    /// The slot that surely holds it.
    slot: usize,
    lengths: Vec<(TreeId, u64)>,
    next_tree: TreeId,
}

/// The store of one open database. Shared between threads by reference.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    page_bytes: u32,
    read_only: bool,
    epoch: AtomicU64,
    frozen_epoch: AtomicU64,
    poison: OnceLock<Arc<Error>>,
    /// Held by the one thread that publishes.
    publishing: Mutex<()>,
    durable: Mutex<Durable>,
    /// Held shared while blocks are read, exclusively while the file is cut, so that nobody reads beyond its
    /// end.
    cut: RwLock<()>,
    state: RwLock<State>,
}

impl Store {
    /// Makes a database directory with an empty database in it; there at once or not at all. `page_bytes` is
    /// a power of two from 4096 to 65536.
    ///
    /// # Errors
    /// `OpenError::AlreadyExists`, `OpenError::NotADatabase` if something else is there, `OpenError::Locked`
    /// if another is just making it, [`Error::Full`], [`Error::Io`], [`Error::Usage`] for the page size.
    pub(crate) fn create_at(dir: &Path, page_bytes: u32, backend: Backend) -> Result<Opened> {
        check_page_bytes(page_bytes)?;
        let (directory, log, store) = Directory::create(dir, |file, temporary, data| {
            let disk = open_disk(file, temporary, backend, false)?;
            Store::create(Arc::from(disk), data, page_bytes)
        })?;
        let log_path = directory.log_path().to_owned();
        let log = open_disk(log, &log_path, backend, false)?;
        Ok(Opened { store, log: Some(Arc::from(log)), log_path, directory })
    }

    /// Opens a database directory at its newest checkpoint. Where there is no log, as in a database of format
    /// version 1, opening for writing makes an empty one.
    ///
    /// # Errors
    /// `OpenError::NotFound`, `OpenError::NotADatabase`, `OpenError::Locked`, `OpenError::NewerVersion`,
    /// [`Error::Corrupt`] with the place of the damage, or if a log has gone that there was, [`Error::Full`],
    /// [`Error::Io`].
    pub(crate) fn open_at(dir: &Path, mode: Mode, backend: Backend) -> Result<Opened> {
        let (directory, file) = Directory::open(dir, mode)?;
        let read_only = mode == Mode::Read;
        let disk = open_disk(file, directory.data_path(), backend, read_only)?;
        let store = Store::open(Arc::from(disk), directory.data_path(), read_only)?;
        let has_log = store.durable().superblock.has_log();
        let log_path = directory.log_path().to_owned();
        let log = match directory.open_log(mode, !has_log)? {
            Some(file) => Some(Arc::from(open_disk(file, &log_path, backend, read_only)?)),
            None => None,
        };
        Ok(Opened { store, log, log_path, directory })
    }

    /// Bytes of a tree page, a power of two from 4096 to 65536.
    pub(crate) fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Path of `data`, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The disk below.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Whether the store was opened for reading alone.
    pub(crate) fn read_only(&self) -> bool {
        self.read_only
    }

    /// Whether writing is still possible.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first cause, once a write or sync has failed in an unknown way (\[S5]).
    pub(crate) fn health(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// The current epoch. A writer inside the gate sees it stand still.
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Relaxed)) // Ordering: row `epoch` of the module head.
    }

    /// The epoch that is being made durable; 0 = no checkpoint is in progress.
    #[inline]
    pub(crate) fn frozen_epoch(&self) -> Epoch {
        Epoch(self.frozen_epoch.load(Ordering::Acquire)) // Ordering: row `frozen_epoch`.
    }

    /// Gives out the lowest free page id. In a store without pages that is [`PageId::CATALOG`]. The page has
    /// no place before its first [`Store::install`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Poisoned`]; [`Error::Full`] when all 2^40 ids are used.
    pub(crate) fn allocate_page(&self) -> Result<PageId> {
        self.allocate(false)
    }

    /// As [`Store::allocate_page`], but the page is *provisional*: checkpoints leave it out until
    /// [`Store::adopt`], so a crash before leaks nothing.
    ///
    /// # Errors
    /// As [`Store::allocate_page`].
    pub(crate) fn allocate_page_provisional(&self) -> Result<PageId> {
        self.allocate(true)
    }

    fn allocate(&self, provisional: bool) -> Result<PageId> {
        self.writable("allocate a page")?;
        let page = self.state_mut().map.allocate(provisional);
        page.ok_or_else(|| Error::Full {
            op: "allocate a page id",
            source: Arc::new(io::ErrorKind::StorageFull.into()),
        })
    }

    /// Gives back an id that was allocated and **never used**: no frame, no image, no child word names it. It
    /// is free at once, unlike after [`Store::free_page`]. Does nothing to an id that has a place.
    pub(crate) fn unallocate_page(&self, page: PageId) {
        self.state_mut().map.unallocate(page);
    }

    /// Makes provisional pages part of the next checkpoint. To be called inside the gate, together with the
    /// change that makes them reachable. Pages that are not provisional are skipped.
    pub(crate) fn adopt(&self, pages: &[PageId]) {
        let mut state = self.state_mut();
        for &page in pages {
            state.adopt(page);
        }
    }

    /// The page has left its tree: its place is given back as soon as no checkpoint needs it, its id with the
    /// publish that follows the next freeze. To be called inside the gate, together with the change that
    /// makes it unreachable, unless the page is provisional. Does nothing to an id that is not allocated.
    ///
    /// If a checkpoint is in progress and the page was dirty in the frozen epoch, its image of then is still
    /// to be installed.
    pub(crate) fn free_page(&self, page: PageId) {
        debug_assert!(!self.read_only, "read-only stores free nothing");
        self.state_mut().free(page);
    }

    /// The inverse of [`Store::adopt`], for a page of which the present state has no use but that is still to be
    /// read (a large value that only older snapshots see). Checkpoints from the next freeze on leave it out, so
    /// that a crash leaks nothing. It stays readable, and its blocks as they are, until [`Store::free_page`]. To
    /// be called inside the gate, together with the change that makes the page unreachable. Does nothing to a
    /// page that is provisional already, and to an id that is not allocated.
    pub(crate) fn condemn(&self, page: PageId) {
        debug_assert!(!self.read_only, "read-only stores condemn nothing");
        self.state_mut().condemn(page);
    }

    /// Whether the id is allocated, with a place on disk or without.
    pub(crate) fn knows(&self, page: PageId) -> bool {
        self.state().map.is_live(page)
    }

    /// Whether checkpoints leave the page out: it is provisional, of a build that is not reachable yet or will
    /// never be, or condemned.
    pub(crate) fn is_provisional(&self, page: PageId) -> bool {
        self.state().map.is_provisional(page)
    }

    /// Where the page lies by now, if it has a place.
    pub(crate) fn placement(&self, page: PageId) -> Option<Placement> {
        Some(self.state().map.get(page)).filter(Placement::is_mapped)
    }

    /// Up to `count_max` pages that have a place, ascending, from `from` on: tree pages and large values
    /// alike.
    pub(crate) fn pages_from(&self, from: PageId, count_max: usize) -> Vec<PageId> {
        let state = self.state();
        let (first, _) = page_map::place_of(from);
        let slots = state.map.slots().iter().enumerate().skip(first);
        slots
            .flat_map(|(index, slot)| {
                let entries = slot.entries.mapped();
                entries.map(move |(entry, _)| PageId((index * page_map::ENTRIES + entry) as u64))
            })
            .filter(|page| *page >= from)
            .take(count_max)
            .collect()
    }

    /// The length of each tree that the newest durable checkpoint has, ascending by tree.
    pub(crate) fn lengths(&self) -> Vec<(TreeId, u64)> {
        self.durable().lengths.clone()
    }

    /// The id for the next new tree, as of the newest durable checkpoint.
    pub(crate) fn next_tree(&self) -> TreeId {
        self.durable().next_tree
    }

    /// The lsn from which on the log is to be read after the newest durable checkpoint: it holds exactly the
    /// commits below. 0 in a database that never had a log.
    pub(crate) fn checkpoint_lsn(&self) -> u64 {
        self.durable().superblock.checkpoint_lsn
    }

    /// How long the file of the log is at least, in bytes, by the newest durable checkpoint; 0 = not said.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.durable().superblock.log_bytes
    }

    /// Drawn at random when the database was made, and its own for ever.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.durable().superblock.uuid
    }

    /// What the store holds now.
    pub(crate) fn usage(&self) -> StoreUsage {
        let sequence = self.durable().superblock.sequence;
        let state = self.state();
        StoreUsage {
            file_bytes: state.blocks.end() * BLOCK_BYTES as u64,
            used_blocks: state.blocks.end() - state.blocks.free_blocks(),
            free_blocks: state.blocks.free_blocks(),
            pending_blocks: state.blocks.pending_blocks(),
            pages: state.map.pages(),
            map_bytes: state.map.bytes(),
            sequence,
        }
    }

    /// An [`Error::Corrupt`] that names the file, the page and, while it has one, its place.
    pub(crate) fn corrupt(
        &self,
        page: PageId,
        what: &'static str,
        expected: String,
        got: String,
    ) -> Error {
        let placement = self.placement(page);
        Error::from(Corruption {
            file: self.path.clone(),
            offset: placement.map(|placement| placement.block.offset()),
            page: Some(page),
            tree: None,
            what,
            expected,
            got,
        })
    }

    /// Refuses what a read-only or poisoned store does not do.
    fn writable(&self, op: &'static str) -> Result<()> {
        if self.read_only {
            return Err(Denied::ReadOnly { op }.into());
        }
        self.health()
    }

    /// Notes the first failure that leaves the disk in an unknown state (\[S5]), and gives the error for the
    /// caller.
    pub(crate) fn poison(&self, error: Error) -> Error {
        let cause = match error {
            Error::Poisoned { cause } => cause,
            cause => Arc::new(cause),
        };
        let cause = self.poison.get_or_init(|| cause);
        Error::Poisoned { cause: cause.clone() }
    }

    fn disk_error(&self, op: &'static str, error: io::Error) -> Error {
        disk_error(op, &self.path, error)
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect(NO_PANIC)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect(NO_PANIC)
    }

    fn durable(&self) -> MutexGuard<'_, Durable> {
        self.durable.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "no thread panics while it holds this lock";
