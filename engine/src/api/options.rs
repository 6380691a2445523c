//! How a database is opened.

use super::db::Db;
use crate::catalog::NAME_BYTES_MAX;
use crate::error::{Error, OpenError, Result, Usage};
use crate::io::{Backend, Disk};
use crate::node::key_bytes_max;
use crate::pool::{PageHashLatches, Pool, PoolOptions};
use crate::store::{Mode, Store, VALUE_BYTES_MAX, check_page_bytes};
use std::path::Path;
use std::sync::Arc;

/// Page size of a new database, in bytes. `latchkv-bench page-size` compares it with the others.
const PAGE_BYTES_DEFAULT: u32 = 16 << 10;
/// Cache of a database opened without options, in bytes.
const CACHE_BYTES_DEFAULT: u64 = 256 << 20;
/// Bytes dirtied before a checkpoint begins by itself.
const CHECKPOINT_BYTES_DEFAULT: u64 = 512 << 20;

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
    pool: PoolOptions,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            page_bytes: PAGE_BYTES_DEFAULT,
            backend: Backend::Auto,
            checkpoint_bytes: CHECKPOINT_BYTES_DEFAULT,
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

    fn check(&self) -> Result<()> {
        check_page_bytes(self.page_bytes)?;
        if self.checkpoint_bytes == 0 {
            return Err(Usage::BadOption {
                option: "checkpoint_bytes",
                actual: "0".into(),
                allowed: "at least 1".into(),
            }
            .into());
        }
        Ok(())
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
        self.check()?;
        Pool::check_options(self.page_bytes, &self.pool)?;
        let (directory, store) = Store::create_at(path.as_ref(), self.page_bytes, self.backend)?;
        let db = Db::start(Arc::new(store), Some(directory), &self.pool, self.checkpoint_bytes)?;
        db.checkpoint()?;
        Ok(db)
    }

    /// Opens the database in directory `path` at its last checkpoint.
    ///
    /// # Errors
    /// [`OpenError::NotFound`], [`OpenError::NotADatabase`], [`OpenError::NewerVersion`],
    /// [`OpenError::Locked`] if this or another process has it open, [`OpenError::NotWritable`] if it lies on a
    /// read-only medium or its permissions forbid, [`Error::Corrupt`] if no superblock can be trusted,
    /// [`Usage::BadOption`], [`Error::Io`].
    pub fn open_existing(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        let (directory, store) = Store::open_at(path.as_ref(), Mode::Write, self.backend)?;
        Db::start(Arc::new(store), Some(directory), &self.pool, self.checkpoint_bytes)
    }

    /// Opens the database in directory `path` for reading. Nothing at all is written, so a read-only medium
    /// will do. Any number of readers may have it open, as long as nobody has it open for writing.
    ///
    /// # Errors
    /// Those of [`open_existing`](Self::open_existing), but for `NotWritable`.
    pub fn open_read_only(&self, path: impl AsRef<Path>) -> Result<Db> {
        self.check()?;
        let (directory, store) = Store::open_at(path.as_ref(), Mode::Read, self.backend)?;
        Db::start(Arc::new(store), Some(directory), &self.pool, self.checkpoint_bytes)
    }

    /// Opens the database on `disk`, creating it if the disk is empty: for disks of your own, and for
    /// [`SimDisk`](crate::io::SimDisk). Nothing keeps others from opening the same disk.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_disk(&self, disk: Arc<dyn Disk>) -> Result<Db> {
        self.check()?;
        let path = Path::new("data");
        let empty = disk
            .len_bytes()
            .map_err(|error| crate::io::disk_error("look at the disk", path, error))?
            == 0;
        let store = if empty {
            Pool::check_options(self.page_bytes, &self.pool)?;
            Store::create(disk, path, self.page_bytes)?
        } else {
            Store::open(disk, path, false)?
        };
        let db = Db::start(Arc::new(store), None, &self.pool, self.checkpoint_bytes)?;
        if empty {
            db.checkpoint()?;
        }
        Ok(db)
    }
}
