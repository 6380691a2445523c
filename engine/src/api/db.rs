//! The database handle.

use super::background::Background;
use super::batch::WriteBatch;
use super::options::{Limits, Options};
use super::reader::{ReadAt, Reader};
use super::salvage::Salvage;
use super::slow::Readers;
use super::snapshot::{Lsn, Snapshot};
use super::stats::Stats;
use super::transaction::{Transaction, TransactionOptions};
use super::tree::Tree;
use crate::btree::TreeCore;
use crate::catalog::Catalog;
use crate::check::{self, CheckProgress, CheckReport};
use crate::error::{Denied, Error, Result};
use crate::id::BLOCK_BYTES;
use crate::log::Durability;
use crate::pool::Pool;
use crate::store::Directory;
use crate::txn::{Ledger, Terms};
use latchkv_latch::primitives::{AtomicBool, Ordering};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::pool::CheckpointReport;

/// The first pause of [`Db::transact`] after a conflict, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// A log of fewer bytes is never too long for the data.
const LOG_BYTES_MIN: u64 = 32 << 20;

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// What every handle and the background thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) catalog: Catalog,
    /// None in a database that was opened for reading.
    pub(super) ledger: Option<Ledger>,
    pub(super) readers: Readers,
    pub(super) durability: Durability,
    /// Memory for the writes of a transaction.
    pub(super) write_set_bytes: usize,
    /// Set once, by `close`. Relaxed: an operation that runs at the same time may still go through.
    pub(super) closed: AtomicBool,
    pub(super) checkpoint_bytes: u64,
    pub(super) checkpoint_log_bytes: u64,
    /// Locks the directory for as long as anybody can touch the files.
    pub(super) _directory: Option<Directory>,
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

    /// What a write needs.
    pub(super) fn ledger(&self, op: &'static str) -> Result<&Ledger> {
        self.ledger.as_ref().ok_or_else(|| Denied::ReadOnly { op }.into())
    }

    pub(super) fn checkpoint(&self) -> Result<CheckpointReport> {
        let ledger = self.ledger("checkpoint")?;
        // It could not be made durable up to here.
        ledger.log.health()?;
        let mut lsn = 0;
        let report = self.pool.checkpoint(
            || {
                let (lengths, next_tree) = self.catalog.lengths_for_checkpoint();
                // Nobody is inside the gate: all that was reserved is applied.
                lsn = ledger.log.tail();
                (lengths, next_tree, lsn)
            },
            |lsn| ledger.log.harden(lsn),
        )?;
        ledger.log.release(lsn);
        Ok(report)
    }

    /// The log is longer than what an opening after a crash is to read: as said by the options, and no more than the
    /// data themselves.
    pub(super) fn is_log_long(&self) -> bool {
        let Some(ledger) = &self.ledger else { return false };
        let store = self.pool.store();
        let bytes = ledger.log.tail().saturating_sub(store.checkpoint_lsn());
        if self.checkpoint_log_bytes == u64::MAX
            || bytes < LOG_BYTES_MIN.min(self.checkpoint_log_bytes)
        {
            return false;
        }
        let data_bytes = store.usage().used_blocks * BLOCK_BYTES as u64;
        bytes >= self.checkpoint_log_bytes.min(data_bytes.max(LOG_BYTES_MIN))
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
        let Some(ledger) = &shared.ledger else { return Ok(()) };
        ledger.watchers.close();
        // Nobody begins any more: what tombstones there are, nobody needs, unless a snapshot is still read.
        ledger.sweep(&shared.pool);
        // What keeps tombstones from going keeps the checkpoint from being made, and is told there.
        while ledger.purge(&shared.pool).unwrap_or(false) {}
        shared.checkpoint().map(drop).inspect_err(|_| {
            // The log can still have what no checkpoint will.
            let _ = ledger.log.sync();
        })
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
/// What a crash of the process or the machine leaves follows from the [`Durability`] of each commit.
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// let db = latchkv::Db::open(&path)?;
/// let users = db.tree("users")?;
/// users.put(b"ada", b"countess")?; // durable from here on
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"countess"[..]));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    handle: Arc<Handle>,
}

impl Db {
    /// The handle of a database that is ready.
    pub(super) fn start(shared: Shared) -> Result<Db> {
        let shared = Arc::new(shared);
        let background =
            if shared.ledger.is_none() { None } else { Some(Background::start(&shared)?) };
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

    /// Looks for tombstones in all trees that can be reached, later.
    pub(super) fn purge_all(&self) {
        let Some(ledger) = &self.shared().ledger else { return };
        // What a damaged catalog hides keeps its tombstones, which do no harm.
        for name in self.trees().unwrap_or_default() {
            if let Ok(Some(tree)) = self.open_tree(&name) {
                ledger.purge_all_of(tree.target().clone());
            }
        }
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
        let Some(ledger) = &shared.ledger else {
            let core = shared.catalog.get(&shared.pool, name)?;
            let core = core.ok_or(Denied::ReadOnly { op: "create a tree" })?;
            return Ok(self.handle_of(core, name));
        };
        let log = ledger.defining();
        let core = shared.catalog.get_or_create(&shared.pool, name, &log)?;
        ledger.log.wait(log.end(), shared.durability)?;
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
        let shared = self.shared();
        shared.check_writable("drop a tree")?;
        let ledger = shared.ledger("drop a tree")?;
        let log = ledger.defining();
        let dropped = shared.catalog.drop_tree(&shared.pool, name, &log)?;
        ledger.log.wait(log.end(), shared.durability)?;
        Ok(dropped)
    }

    /// Gives a tree another name. Handles of it stay good.
    ///
    /// # Errors
    /// [`Usage::NoSuchTree`](crate::error::Usage::NoSuchTree),
    /// [`Usage::TreeExists`](crate::error::Usage::TreeExists),
    /// [`Usage::BadName`](crate::error::Usage::BadName), [`Denied::ReadOnly`], [`Error::Full`],
    /// [`Error::Io`], [`Error::Poisoned`].
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        let shared = self.shared();
        shared.check_writable("rename a tree")?;
        let ledger = shared.ledger("rename a tree")?;
        let log = ledger.defining();
        shared.catalog.rename(&shared.pool, from, to, &log)?;
        ledger.log.wait(log.end(), shared.durability)
    }

    /// A transaction under snapshot isolation, with the durability of the database and no time limit.
    ///
    /// # Errors
    /// [`Denied::ReadOnly`], [`Error::Closed`].
    pub fn begin(&self) -> Result<Transaction<'_>> {
        self.begin_with(&TransactionOptions::new())
    }

    /// A transaction.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction<'_>> {
        Transaction::new(&self.handle, options, deadline(options.timeout))
    }

    /// Runs `f` in a transaction and commits it; runs it again, after a pause, as often as somebody else was
    /// first. So `f` may be run many times, each time on the state of then.
    ///
    /// ```
    /// # fn main() -> latchkv::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = latchkv::Db::open(dir.path().join("db"))?;
    /// let tree = db.tree("counters")?;
    /// db.transact(|transaction| {
    ///     let count = transaction.get_with(&tree, "hits", |value| value.len())?.unwrap_or(0);
    ///     transaction.put(&tree, "hits", vec![b'x'; count + 1])
    /// })?;
    /// assert_eq!(tree.get("hits")?.as_deref(), Some(&b"x"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Whatever `f` gives but [`Error::Conflict`], and what [`Transaction::commit`] gives but that.
    pub fn transact<R>(&self, f: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        self.transact_with(&TransactionOptions::new(), f)
    }

    /// As [`transact`](Self::transact), with options.
    ///
    /// # Errors
    /// As there; [`Error::Timeout`] when all tries together take too long.
    pub fn transact_with<R>(
        &self,
        options: &TransactionOptions,
        mut f: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let deadline = deadline(options.timeout);
        let mut pause = PAUSE_MIN;
        loop {
            let mut transaction = Transaction::new(&self.handle, options, deadline)?;
            let result = f(&mut transaction);
            let lsn = transaction.lsn();
            let result = result.and_then(|result| transaction.commit().map(|_| result));
            match result {
                Err(Error::Conflict { .. }) => {}
                result => return result,
            }
            // Not all of those who met at one moment come again at one moment.
            let spread = lsn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % 256;
            std::thread::sleep(pause.mul_f64(0.5 + spread as f64 / 256.0));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Makes all changes of the batch at once, with the durability of the database. Gives the lsn of the commit;
    /// that of what is visible now, if the batch is empty.
    ///
    /// # Errors
    /// Those of [`Tree::put`]; [`Usage::OtherDatabase`](crate::error::Usage::OtherDatabase). Nothing of it was
    /// made then.
    pub fn write(&self, batch: &WriteBatch) -> Result<Lsn> {
        self.write_with(batch, self.shared().durability)
    }

    /// As [`write`](Self::write), with a durability.
    ///
    /// # Errors
    /// As there.
    pub fn write_with(&self, batch: &WriteBatch, durability: Durability) -> Result<Lsn> {
        let shared = self.shared();
        shared.check_writable("write a batch")?;
        let ledger = shared.ledger("write a batch")?;
        let Some(first) = &batch.first else { return Ok(Lsn(ledger.log.visible())) };
        if !first.is_of(&self.handle) {
            let name = first.name().to_owned();
            return Err(crate::error::Usage::OtherDatabase(name).into());
        }
        let terms = Terms { durability, since: None, reader: None, reads: None };
        ledger.commit(&shared.pool, &batch.writes.writes(), terms).map(Lsn)
    }

    /// A state of the database for reading: of all commits that are visible now.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        self.snapshot_at(ReadAt::Visible, None)
    }

    /// A state of the database for reading; `name` is for [`Options::on_slow_reader`].
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Poisoned`] if it had to wait for a sync that failed.
    pub fn snapshot_at(&self, at: ReadAt, name: Option<&str>) -> Result<Snapshot<'_>> {
        Ok(Snapshot::new(Reader::new(&self.handle, at, name)?))
    }

    /// Gives the operating system all commits that are visible now.
    ///
    /// # Errors
    /// [`Denied::ReadOnly`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn flush(&self) -> Result<()> {
        self.shared().check_writable("flush the log")?;
        self.shared().ledger("flush the log")?.log.flush()
    }

    /// Makes all commits that are visible now durable, by the log.
    ///
    /// # Errors
    /// Those of [`flush`](Self::flush).
    pub fn sync(&self) -> Result<()> {
        self.shared().check_writable("sync the log")?;
        self.shared().ledger("sync the log")?.log.sync()
    }

    /// Writes all pages that were changed before this call, so that opening after a crash need not apply the log
    /// before it. Durability does not depend on it. Writers are kept out only for the moment
    /// in which the state is marked (see [`CheckpointReport::gate_closed`]).
    ///
    /// # Errors
    /// [`Error::Full`]: nothing was lost, call again once there is room. [`Error::Poisoned`] after a failed write or
    /// sync. [`Denied::ReadOnly`].
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
        if let Some(ledger) = &self.shared().ledger {
            ledger.log.health()?;
        }
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
