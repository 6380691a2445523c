//! The database handle.

use super::background::Background;
use super::options::{Limits, Options};
use super::salvage::Salvage;
use super::stats::Stats;
use super::tree::Tree;
use crate::btree::TreeCore;
use crate::catalog::Catalog;
use crate::check::{self, CheckProgress, CheckReport};
use crate::error::{Denied, Error, Result};
use crate::pool::{Pool, PoolOptions};
use crate::store::{Directory, Store};
use latchkv_latch::primitives::{AtomicBool, Ordering};
use std::path::Path;
use std::sync::Arc;

pub use crate::pool::CheckpointReport;

/// What every handle and the background thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) catalog: Catalog,
    /// Set once, by `close`. Relaxed: an operation that runs at the same time may still go through.
    closed: AtomicBool,
    pub(super) checkpoint_bytes: u64,
    /// Locks the directory for as long as anybody can touch the file.
    _directory: Option<Directory>,
}

impl Shared {
    #[inline(always)]
    pub(super) fn check_open(&self) -> Result<()> {
        // Relaxed: see the field.
        if self.closed.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    #[inline(always)]
    pub(super) fn check_writable(&self, op: &'static str) -> Result<()> {
        self.check_open()?;
        let store = self.pool.store();
        if store.read_only() {
            return Err(Denied::ReadOnly { op }.into());
        }
        store.health()
    }

    pub(super) fn checkpoint(&self) -> Result<CheckpointReport> {
        self.pool.checkpoint(|| self.catalog.lengths_for_checkpoint())
    }
}

/// The last handle of a database. Stops the background thread and makes what was done durable.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
    background: Option<Background>,
}

impl Handle {
    /// Stops the background thread and makes a last checkpoint. Only the first call does something.
    fn shut(&self) -> Result<()> {
        let shared = &self.shared;
        // Relaxed: the swap decides who shuts, nothing else hangs on it.
        if shared.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(background) = &self.background {
            background.stop();
        }
        if shared.pool.store().read_only() {
            return Ok(());
        }
        shared.checkpoint().map(drop)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // `Db::close` reports what cannot be reported here; the last checkpoint stays whole in any case.
        let _ = self.shut();
    }
}

/// An open database. Cloning gives another handle of the same one; the database is closed, with a last
/// checkpoint, when the last `Db` and the last [`Tree`] are dropped, or by [`close`](Self::close), which
/// reports errors.
///
/// What was written since the last checkpoint is lost if the process is killed; the state of the last
/// checkpoint is not.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let db = latchkv::Db::open(&path)?;
/// let users = db.tree("users")?;
/// users.put(b"ada", b"countess")?;
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"countess"[..]));
/// db.checkpoint()?; // durable from here on
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    handle: Arc<Handle>,
}

impl Db {
    pub(super) fn start(
        store: Arc<Store>,
        directory: Option<Directory>,
        pool: &PoolOptions,
        checkpoint_bytes: u64,
    ) -> Result<Db> {
        let read_only = store.read_only();
        let pool = Pool::new(store, pool)?;
        let catalog = Catalog::open(&pool)?;
        let shared = Arc::new(Shared {
            pool,
            catalog,
            closed: AtomicBool::new(false),
            checkpoint_bytes,
            _directory: directory,
        });
        let background = if read_only { None } else { Some(Background::start(&shared)?) };
        Ok(Db { handle: Arc::new(Handle { shared, background }) })
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Opens the database in directory `path` with the default [`Options`], creating it if nothing is there.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(path)
    }

    /// Creates a database in directory `path` with the default [`Options`].
    ///
    /// # Errors
    /// See [`Options::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().create(path)
    }

    /// Opens the database in directory `path`, which must exist, with the default [`Options`].
    ///
    /// # Errors
    /// See [`Options::open_existing`].
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open_existing(path)
    }

    /// Opens the database in directory `path` for reading, with the default [`Options`].
    ///
    /// # Errors
    /// See [`Options::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Db> {
        Options::new().open_read_only(path)
    }

    fn handle_of(&self, core: Arc<TreeCore>, name: &str) -> Tree {
        Tree::new(Arc::clone(&self.handle), core, name)
    }

    /// The tree of that name, created if there is none.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName); [`Denied::ReadOnly`] if it would have to be created
    /// and cannot be; [`Error::Corrupt`], [`Error::Io`], and [`Error::Full`] or [`Error::Poisoned`] when
    /// creating it.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        let shared = self.shared();
        shared.check_open()?;
        if shared.pool.store().read_only() {
            let core = shared.catalog.get(&shared.pool, name)?;
            let core = core.ok_or(Denied::ReadOnly { op: "create a tree" })?;
            return Ok(self.handle_of(core, name));
        }
        let core = shared.catalog.get_or_create(&shared.pool, name)?;
        Ok(self.handle_of(core, name))
    }

    /// The tree of that name, if there is one.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Error::Corrupt`], [`Error::Io`].
    pub fn open_tree(&self, name: &str) -> Result<Option<Tree>> {
        let shared = self.shared();
        shared.check_open()?;
        let core = shared.catalog.get(&shared.pool, name)?;
        Ok(core.map(|core| self.handle_of(core, name)))
    }

    /// The names of all trees, ascending by their bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn trees(&self) -> Result<Vec<String>> {
        self.shared().check_open()?;
        self.shared().catalog.names(&self.shared().pool)
    }

    /// Drops a tree and gives its pages back. False: there is none of that name. Handles of it fail with
    /// [`Usage::TreeDropped`](crate::error::Usage::TreeDropped) from then on.
    ///
    /// # Errors
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Denied::ReadOnly`], [`Error::Full`],
    /// [`Error::Io`], [`Error::Poisoned`]. If the tree is gone but freeing its pages failed, opening the
    /// database goes on with that.
    pub fn drop_tree(&self, name: &str) -> Result<bool> {
        self.shared().check_writable("drop a tree")?;
        self.shared().catalog.drop_tree(&self.shared().pool, name)
    }

    /// Gives a tree another name. Handles of it stay good.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`](crate::error::Usage::NoSuchTree),
    /// [`Usage::TreeExists`](crate::error::Usage::TreeExists),
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Denied::ReadOnly`], [`Error::Full`],
    /// [`Error::Io`], [`Error::Poisoned`].
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        self.shared().check_writable("rename a tree")?;
        self.shared().catalog.rename(&self.shared().pool, from, to)
    }

    /// Makes everything that was written before this call durable. Writers are kept out only for the moment
    /// in which the state is marked (see [`CheckpointReport::gate_closed`]).
    ///
    /// # Errors
    /// [`Error::Full`]: nothing was lost, call again once there is room. But where a disk can be full for
    /// a write in place too, as with a copy-on-write file system, one that fails at the superblock poisons the
    /// database like any other failure there. [`Error::Poisoned`] after a failed
    /// write or sync. [`Denied::ReadOnly`].
    pub fn checkpoint(&self) -> Result<CheckpointReport> {
        self.shared().check_writable("checkpoint")?;
        self.shared().checkpoint()
    }

    /// Numbers about this database, read one after the other.
    pub fn stats(&self) -> Stats {
        Stats::of(self.shared())
    }

    /// Whether writing is still possible.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first cause, [`Error::Closed`].
    pub fn health(&self) -> Result<()> {
        self.shared().check_open()?;
        self.shared().pool.store().health()
    }

    /// Limits of keys, values and names.
    pub fn limits(&self) -> Limits {
        Limits::of(self.shared().pool.store().page_bytes() as usize)
    }

    /// Reads every page and every tree and says what is wrong. Writers and checkpoints wait until it is done;
    /// readers go on. So `progress`, which is called in between, must not write: it would wait for itself.
    ///
    /// # Errors
    /// What keeps it from looking at all; what it finds is in the report.
    pub fn check(&self, progress: impl FnMut(CheckProgress)) -> Result<CheckReport> {
        self.shared().check_open()?;
        check::run(&self.shared().pool, &self.shared().catalog, progress)
    }

    /// Finds the trees of a database that may be damaged, also those whose names cannot be read, so that
    /// everything readable can be read. Looks at every page on disk if a part of the catalog is damaged, else
    /// only at the catalog. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Full`] or [`Error::Poisoned`] if the cache has no room for pages. Damage is
    /// in the result.
    pub fn salvage(&self) -> Result<Salvage> {
        let shared = self.shared();
        shared.check_open()?;
        let found = shared.catalog.salvage(&shared.pool)?;
        Ok(Salvage::new(found, |core, name| self.handle_of(core, name)))
    }

    /// Makes a last checkpoint and closes the database for all of its handles, which fail with
    /// [`Error::Closed`] from then on. The directory is unlocked when the last of them is dropped.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Self::checkpoint). The state of the last checkpoint that succeeded opens in
    /// any case.
    pub fn close(self) -> Result<()> {
        self.handle.shut()
    }
}
