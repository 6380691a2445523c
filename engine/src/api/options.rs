//! How a database is opened.

use super::db::Db;
use super::shared::{Attached, Shared};
use super::slow::{ReaderLimits, Readers, SlowReader, SlowReaderCallback};
use crate::catalog::Catalog;
use crate::error::{Denied, Error, OpenError, Result, Usage};
use crate::io::{Backend, Disk};
use crate::log::{Anchor, Durability, Log, LogOptions};
use crate::name::NAME_BYTES_MAX;
use crate::node::key_bytes_max;
use crate::pool::{PageHashLatches, Pool, PoolOptions};
use crate::recovery::{self, RecoveryProgress};
use crate::store::{Directory, Mode, Opened, Store, VALUE_BYTES_MAX, check_page_bytes};
use crate::txn::Ledger;
use crate::versions::{VersionOptions, Versions};
use latchkv_latch::primitives::AtomicBool;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Page size of a new database, in bytes. `latchkv-bench page-size` compares it with the others.
const PAGE_BYTES_DEFAULT: u32 = 16 << 10;
/// Cache of a database opened without options, in bytes.
const CACHE_BYTES_DEFAULT: u64 = 256 << 20;
/// Bytes dirtied before a checkpoint begins by itself.
const CHECKPOINT_BYTES_DEFAULT: u64 = 512 << 20;
/// Bytes of log written before a checkpoint begins by itself.
const CHECKPOINT_LOG_BYTES_DEFAULT: u64 = 256 << 20;
/// Memory for the writes of one transaction before they go to runs, in bytes.
const WRITE_SET_BYTES_DEFAULT: usize = 64 << 20;
/// Memory for what a transaction cannot spill, in bytes.
const TRANSACTION_BYTES_MAX_DEFAULT: usize = 256 << 20;
/// Memory for old versions of records before they go to a file, in bytes.
const VERSION_BYTES_DEFAULT: u64 = 64 << 20;

/// The limits of a database; they follow from its page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Greatest key, in bytes: an eighth of a page.
    pub key_bytes_max: usize,
    /// Greatest value, in bytes: 1 GiB.
    pub value_bytes_max: usize,
    /// Greatest name of a tree, in bytes of UTF-8.
    pub name_bytes_max: usize,
}

impl Limits {
    pub(super) fn of(page_bytes: usize) -> Limits {
        Limits {
            key_bytes_max: key_bytes_max(page_bytes),
            value_bytes_max: VALUE_BYTES_MAX,
            name_bytes_max: NAME_BYTES_MAX,
        }
    }
}

/// Options of a database, and the ways to open one.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let db = latchkv::Options::new().cache_bytes(64 << 20).open(&path)?;
/// db.tree("fruit")?.put(b"apple", b"red")?;
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    page_bytes: u32,
    backend: Backend,
    checkpoint_bytes: u64,
    checkpoint_log_bytes: u64,
    durability: Durability,
    version_bytes: u64,
    write_set_bytes: usize,
    transaction_bytes_max: usize,
    readers: ReaderLimits,
    recovery: Option<RecoveryCallback>,
    without_log: bool,
    log: LogOptions,
    pool: PoolOptions,
}

/// Who is told how far recovery is.
#[derive(Clone)]
struct RecoveryCallback(Arc<dyn Fn(RecoveryProgress) + Send + Sync>);

impl fmt::Debug for RecoveryCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a callback")
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            page_bytes: PAGE_BYTES_DEFAULT,
            backend: Backend::Auto,
            checkpoint_bytes: CHECKPOINT_BYTES_DEFAULT,
            checkpoint_log_bytes: CHECKPOINT_LOG_BYTES_DEFAULT,
            durability: Durability::Sync,
            version_bytes: VERSION_BYTES_DEFAULT,
            write_set_bytes: WRITE_SET_BYTES_DEFAULT,
            transaction_bytes_max: TRANSACTION_BYTES_MAX_DEFAULT,
            readers: ReaderLimits::default(),
            recovery: None,
            without_log: false,
            log: LogOptions::default(),
            pool: PoolOptions {
                cache_bytes: CACHE_BYTES_DEFAULT,
                huge_pages: true,
                prefault: false,
                frame_hints: true,
                page_hash_latches: PageHashLatches::PerCell,
            },
        }
    }
}

impl Options {
    /// The defaults: 256 MiB of cache, 16 KiB pages, io_uring where it works, a checkpoint for every 512 MiB
    /// dirtied.
    pub fn new() -> Options {
        Options::default()
    }

    /// Memory for pages and all that belongs to them, in bytes: a hard budget, metadata and write buffers
    /// included. At least sixteen pages and their metadata, or opening fails with [`Usage::BadOption`] and
    /// says the minimum.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Options {
        self.pool.cache_bytes = bytes;
        self
    }

    /// Page size of a database that is created, in bytes: a power of two from 4096 to 65536. An existing
    /// database keeps its own.
    #[must_use]
    pub fn page_bytes(mut self, bytes: u32) -> Options {
        self.page_bytes = bytes;
        self
    }

    /// How the file is read and written. What is refused falls back to `Pread`, and [`Stats`](super::Stats)
    /// says so.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Options {
        self.backend = backend;
        self
    }

    /// Ask for huge pages for the cache. On by default; `Stats` says what was granted.
    #[must_use]
    pub fn huge_pages(mut self, on: bool) -> Options {
        self.pool.huge_pages = on;
        self
    }

    /// Touch the whole cache when opening, so that no operation meets a page fault later. Off by default.
    #[must_use]
    pub fn prefault(mut self, on: bool) -> Options {
        self.pool.prefault = on;
        self
    }

    /// Bytes of pages dirtied before a checkpoint begins by itself; `u64::MAX` = only on request and on
    /// close.
    #[must_use]
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Bytes of log written before a checkpoint begins by itself: what an opening after a crash has to apply at
    /// most, but for what is written while a checkpoint runs. 256 MiB by default. A log that is longer than the data,
    /// and than 8 MiB, brings a checkpoint about too, unless this is `u64::MAX`.
    #[must_use]
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_log_bytes = bytes;
        self
    }

    /// What commits wait for that do not say otherwise, calls outside of transactions among them.
    /// [`Durability::Sync`] by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Memory for commits that are not written yet, in bytes: from 64 KiB to 1 GiB, rounded up to a power of
    /// two; 8 MiB by default. A commit of more than a quarter of it goes to the log in parts.
    #[must_use]
    pub fn log_buffer_bytes(mut self, bytes: usize) -> Options {
        self.log.buffer_bytes = bytes;
        self
    }

    /// Bytes by which the log of a database that is created grows: a power of two from 64 KiB to 1 GiB; 4 MiB
    /// by default.
    #[must_use]
    pub fn log_slot_bytes(mut self, bytes: u64) -> Options {
        self.log.slot_bytes = bytes;
        self
    }

    /// Memory for what records were before, as long as a snapshot may ask; past it, they go to a temporary file.
    /// 64 MiB by default.
    #[must_use]
    pub fn version_bytes(mut self, bytes: u64) -> Options {
        self.version_bytes = bytes;
        self
    }

    /// Memory for what one transaction has written, in bytes; past it, its writes go to runs: pages in the
    /// cache and, when that is full, on disk. 64 MiB by default.
    #[must_use]
    pub fn write_set_bytes(mut self, bytes: usize) -> Options {
        self.write_set_bytes = bytes;
        self
    }

    /// Greatest memory, in bytes, for what one transaction or batch cannot move out of it: the changes of a
    /// [`WriteBatch`](crate::WriteBatch); what a serializable transaction has read; keys that were read for update;
    /// changes between many savepoints (see [`Transaction::savepoint`](crate::Transaction::savepoint)). Once it is used
    /// up, the call that would add to it fails with [`Usage::TransactionTooLarge`]; so one change more than fits is taken,
    /// however large. 256 MiB by default.
    #[must_use]
    pub fn transaction_bytes_max(mut self, bytes: usize) -> Options {
        self.transaction_bytes_max = bytes;
        self
    }

    /// Ends snapshots and transactions that are older than this: their next read fails with
    /// [`Error::SnapshotEnded`], and what was kept for them goes. No limit by default.
    #[must_use]
    pub fn snapshot_age_max(mut self, age: Duration) -> Options {
        self.readers.age_max = Some(age);
        self
    }

    /// Calls `callback` once for each snapshot or transaction that gets older than `after`, and when one is ended
    /// for its age. It is called by a thread of the database, which waits for it.
    #[must_use]
    pub fn on_slow_reader(
        mut self,
        after: Duration,
        callback: impl Fn(SlowReader) + Send + Sync + 'static,
    ) -> Options {
        self.readers.slow_after = Some((after, SlowReaderCallback(Arc::new(callback))));
        self
    }

    /// Calls `callback` now and then while opening applies the log.
    #[must_use]
    pub fn on_recovery(
        mut self,
        callback: impl Fn(RecoveryProgress) + Send + Sync + 'static,
    ) -> Options {
        self.recovery = Some(RecoveryCallback(Arc::new(callback)));
        self
    }

    /// For salvage: [`open_read_only`](Self::open_read_only) gives the state of the last checkpoint and does not look
    /// at the log, which may be damaged or gone. **Commits since that checkpoint are not in it.** Opening for writing
    /// is refused.
    #[must_use]
    pub fn without_log(mut self, on: bool) -> Options {
        self.without_log = on;
        self
    }

    /// For measurement: whether descents use the frame hints of child slots. Off, the page hash is the only
    /// way down.
    #[must_use]
    pub fn frame_hints(mut self, on: bool) -> Options {
        self.pool.frame_hints = on;
        self
    }

    /// For measurement: where the latches of the page hash lie. By default one in each cell.
    #[must_use]
    pub fn page_hash_latches(mut self, latches: PageHashLatches) -> Options {
        self.pool.page_hash_latches = latches;
        self
    }

    /// What opening for writing asks beside [`check`](Self::check).
    fn check_writable(&self) -> Result<()> {
        self.check()?;
        if self.without_log {
            return Err(Denied::ReadOnly { op: "open it without its log" }.into());
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        check_page_bytes(self.page_bytes)?;
        for (option, bytes) in [
            ("checkpoint_bytes", self.checkpoint_bytes),
            ("checkpoint_log_bytes", self.checkpoint_log_bytes),
        ] {
            if bytes == 0 {
                let (actual, allowed) = ("0".into(), "at least 1".into());
                return Err(Usage::BadOption { option, actual, allowed }.into());
            }
        }
        self.log.validate().map(drop)
    }

    /// Opens the database in directory `path`, creating it if nothing is there.
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and [`open_existing`](Self::open_existing), but for `AlreadyExists`
    /// and `NotFound`.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        match self.open_existing(path.as_ref()) {
            Err(Error::Open(OpenError::NotFound(_))) => match self.create(path.as_ref()) {
                // Somebody else made it meanwhile.
                Err(Error::Open(OpenError::AlreadyExists(_))) => self.open_existing(path.as_ref()),
                created => created,
            },
            opened => opened,
        }
    }

    /// Creates a database in directory `path`: it is there as a whole or not at all, whenever the process is
    /// killed.
    ///
    /// # Errors
    /// [`OpenError::AlreadyExists`], [`OpenError::NotADatabase`] if something else is there,
    /// [`Usage::BadOption`], [`Error::Full`], [`Error::Io`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.check_writable()?;
        Pool::check_options(self.page_bytes, &self.pool)?;
        self.start(Store::create_at(path.as_ref(), self.page_bytes, self.backend)?.into(), true)
    }

    /// Opens the database in directory `path`. If it was not closed, what its log has is applied first.
    ///
    /// # Errors
    /// [`OpenError::NotFound`], [`OpenError::NotADatabase`], [`OpenError::NewerVersion`],
    /// [`OpenError::Locked`] if this or another process has it open, [`OpenError::NotWritable`] if it lies on a
    /// read-only medium or its permissions forbid, [`Error::Corrupt`] if no superblock can be trusted or the log
    /// is damaged where it was durable, [`Usage::BadOption`], [`Error::Io`].
    pub fn open_existing(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.check_writable()?;
        self.start(Store::open_at(path.as_ref(), Mode::Write, self.backend)?.into(), false)
    }

    /// Opens the database in directory `path` for reading. Nothing at all is written, so a read-only medium
    /// will do. Any number of readers may have it open, as long as nobody has it open for writing.
    ///
    /// # Errors
    /// Those of [`open_existing`](Self::open_existing), but for `NotWritable`; [`OpenError::NeedsRecovery`] if it
    /// was not closed.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        self.start(Store::open_at(path.as_ref(), Mode::Read, self.backend)?.into(), false)
    }

    /// Opens the database on two disks, for `data` and for the log, creating it if that of `data` is empty: for
    /// disks of your own, and for those of a [`SimMachine`](crate::io::sim::SimMachine). Nothing keeps others
    /// from opening the same disks.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_disks(&self, data: Arc<dyn Disk>, log: Arc<dyn Disk>) -> Result<Db> {
        self.check_writable()?;
        let path = Path::new("data");
        let empty = data
            .len_bytes()
            .map_err(|error| crate::io::disk_error("look at the disk", path, error))?
            == 0;
        let store = if empty {
            Pool::check_options(self.page_bytes, &self.pool)?;
            Store::create(data, path, self.page_bytes)?
        } else {
            Store::open(data, path, false)?
        };
        self.start(Files { store, log: Some(log), log_path: "log".into(), directory: None }, empty)
    }

    /// From open files to an open database.
    pub(super) fn start(&self, files: Files, is_new: bool) -> Result<Db> {
        let Files { store, log, log_path, directory } = files;
        let read_only = store.read_only();
        let recovering = match log.filter(|_| !self.without_log) {
            None => None,
            Some(log) => {
                let anchor = anchor_of(&store);
                Some(Log::open(log, &log_path, store.uuid(), anchor, self.log)?)
            }
        };
        let pool = Pool::new(Arc::new(store), &self.pool)?;
        let catalog = Catalog::open(&pool)?;
        let mut commits = 0;
        let ledger = match recovering {
            Some(recovering) if read_only => {
                let database = log_path.parent().unwrap_or(&log_path);
                recovery::refuse(recovering, database)?;
                None
            }
            Some(recovering) => {
                let report = |progress| {
                    if let Some(callback) = &self.recovery {
                        (callback.0)(progress);
                    }
                };
                let recovered = recovery::run(&pool, &catalog, recovering, report)?;
                commits = recovered.commits;
                let beside_data = directory.as_ref().and(log_path.parent());
                let versions = Versions::new(VersionOptions {
                    memory_bytes: self.version_bytes,
                    spill_directory: beside_data.map(Path::to_owned),
                    ..VersionOptions::default()
                });
                Some(Ledger::new(recovered.log, versions, Arc::default()))
            }
            None => None,
        };
        let db = Db::start(Shared {
            pool,
            catalog,
            ledger,
            readers: Readers::new(self.readers.clone()),
            durability: self.durability,
            write_set_bytes: self.write_set_bytes,
            transaction_bytes_max: self.transaction_bytes_max,
            closed: AtomicBool::new(false),
            checkpoint_bytes: self.checkpoint_bytes,
            checkpoint_log_bytes: self.checkpoint_log_bytes,
            attached: Attached::default(),
            _directory: directory,
        })?;
        if is_new || commits > 0 {
            db.checkpoint()?;
        }
        if commits > 0 {
            // Whatever was to purge tombstones of before is forgotten.
            db.purge_all();
        }
        Ok(db)
    }
}

/// What the newest checkpoint says of the log.
pub(super) fn anchor_of(store: &Store) -> Anchor {
    Anchor { lsn: store.checkpoint_lsn(), file_bytes: store.log_bytes() }
}

/// The open files of a database.
pub(super) struct Files {
    pub(super) store: Store,
    pub(super) log: Option<Arc<dyn Disk>>,
    pub(super) log_path: PathBuf,
    pub(super) directory: Option<Directory>,
}

impl From<Opened> for Files {
    fn from(opened: Opened) -> Files {
        let Opened { store, log, log_path, directory } = opened;
        Files { store, log, log_path, directory: Some(directory) }
    }
}
