//! The database handle.

use super::batch::WriteBatch;
use super::options::{Limits, Options};
use super::reader::{ReadAt, Reader};
use super::salvage::Salvage;
use super::shared::{Attachment, Handle, Shared};
use super::snapshot::{Lsn, Snapshot};
use super::stats::Stats;
use super::transaction::{Transaction, TransactionOptions};
use crate::check::{self, CheckProgress, CheckReport};
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::txn::Terms;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::pool::CheckpointReport;

/// The first pause of [`Db::transact`] after a conflict, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(10);

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// An open database. Cloning gives another handle of the same one; the database is closed, with a last
/// checkpoint, when the last `Db` and the last [`Tree`](crate::Tree) are dropped, or by [`close`](Self::close), which
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
    pub(super) handle: Arc<Handle>,
}

impl Db {
    /// The handle of a database that is ready.
    pub(super) fn start(shared: Shared) -> Result<Db> {
        Ok(Db { handle: Arc::new(Handle::start(shared)?) })
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// What a layer above keeps for this database: made by the first who asks.
    pub(crate) fn attached<T: Attachment>(&self, make: impl FnOnce() -> T) -> &T {
        self.shared().attached.get_or_make(make)
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

    /// A transaction under snapshot isolation, with the durability of the database and no time limit.
    ///
    /// # Errors
    /// [`Denied::ReadOnly`](crate::Denied::ReadOnly), [`Error::Closed`].
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
        self.retrying(options, |mut transaction| {
            let result = f(&mut transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Begins a transaction and has `run` end it, again and again as long as that is a conflict.
    pub(crate) fn retrying<'db, R>(
        &'db self,
        options: &TransactionOptions,
        mut run: impl FnMut(Transaction<'db>) -> Result<R>,
    ) -> Result<R> {
        let deadline = deadline(options.timeout);
        let mut pause = PAUSE_MIN;
        loop {
            let transaction = Transaction::new(&self.handle, options, deadline)?;
            let lsn = transaction.lsn();
            match run(transaction) {
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
    /// Those of [`Tree::put`](crate::Tree::put); [`Usage::OtherDatabase`](crate::error::Usage::OtherDatabase). Nothing
    /// of it was made then.
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
    /// [`Denied::ReadOnly`](crate::Denied::ReadOnly), [`Error::Closed`], [`Error::Poisoned`].
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
    /// sync. [`Denied::ReadOnly`](crate::Denied::ReadOnly).
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
