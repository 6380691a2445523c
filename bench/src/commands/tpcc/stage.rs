//! The database of a run: loaded, opened, and reached by one API or the other.

use super::{Args, Switch};
use crate::engines::api::{Access, Store};
use crate::given::mib;
use crate::report::{Table, file_bytes};
use crate::workloads::tpcc::{Checked, NAMESPACE, TREES, Tpcc};
use crate::{Fail, progress};
use latchkv::Options;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// An open database with its data.
pub(super) struct Stage {
    pub(super) tpcc: Tpcc,
    pub(super) store: Store,
    path: PathBuf,
    load_seconds: f64,
}

impl Args {
    /// How the database is opened.
    pub(super) fn options(&self) -> Options {
        let options = Options::new()
            .cache_bytes(mib(self.cache_mib))
            .page_bytes(self.page_size)
            .page_hash_latches(self.hash.latches())
            .frame_hints(self.frame_hints == Switch::On)
            .durability(self.durability.into());
        if self.no_checkpoints {
            options.checkpoint_bytes(u64::MAX).checkpoint_log_bytes(u64::MAX)
        } else {
            options
        }
    }
}

impl Stage {
    /// Makes a database and loads it.
    pub(super) fn load(args: &Args, path: &Path) -> Result<Stage, Fail> {
        let most = args.threads.iter().copied().max().unwrap_or(1);
        let access = Access { roles: 0, ..Access::new(args.api, most) };
        let store = Store::create(path, &args.options(), access, NAMESPACE, &TREES)?;
        let start = Instant::now();
        let bar = progress::bar(TREES.len() as u64, "loading");
        let tpcc = Tpcc::load(&store, args.rows(), args.seed, &mut |_| bar.step())?;
        drop(bar);
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Stage { tpcc, store, path: path.to_owned(), load_seconds })
    }

    /// What loading took.
    pub(super) fn loaded(&self) -> Result<Table, Fail> {
        let title = "load, one run";
        let mut table = Table::new(title, &["time [s]", "files [MiB]", "cache used [MiB]"])
            .told(&["files [MiB]", "cache used [MiB]"]);
        let stats = self.store.db().stats();
        let used = (stats.pool.frames - stats.pool.frames_free) * u64::from(stats.page_bytes);
        table.push([
            self.load_seconds.into(),
            (file_bytes(&self.path)? >> 20).into(),
            (used >> 20).into(),
        ]);
        Ok(table)
    }

    /// Checks the consistency conditions.
    pub(super) fn check(&self) -> Result<Checked, Fail> {
        self.tpcc.check(self.store.db())
    }

    /// Closes the database, with all that needs it open.
    pub(super) fn close(self) -> Result<(), Fail> {
        let Stage { tpcc, store, .. } = self;
        drop(tpcc);
        store.close()
    }
}
