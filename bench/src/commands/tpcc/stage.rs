//! The database of a run: loaded, opened, with accounts if sessions are to work on it.

use super::{Api, Args, Durability, Switch};
use crate::report::{Table, file_bytes};
use crate::workloads::tpcc::{Checked, NAMESPACE, Tpcc};
use crate::{Fail, progress};
use latchkv::{Db, Options, PasswordCost, Session, SessionOptions, Sessions};
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROOT: &str = "root";
const CLERK: &str = "clerk";
const PASSWORD: &[u8] = b"for a benchmark";
/// Trees that are filled.
const TREES: u64 = 11;

/// An open database with its data.
pub(super) struct Stage {
    pub(super) tpcc: Tpcc,
    pub(super) db: Db,
    sessions: Option<Sessions>,
    path: PathBuf,
    load_seconds: f64,
}

impl Args {
    /// How the database is opened.
    pub(super) fn options(&self) -> Options {
        let options = Options::new()
            .cache_bytes(self.cache_mib << 20)
            .page_bytes(self.page_size)
            .page_hash_latches(self.hash.latches())
            .frame_hints(self.frame_hints == Switch::On)
            .durability(match self.durability {
                Durability::None => latchkv::Durability::None,
                Durability::Buffered => latchkv::Durability::Buffered,
                Durability::Sync => latchkv::Durability::Sync,
            });
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
        let db = args.options().create(path)?;
        let sessions = match args.api {
            Api::Plain => None,
            Api::Session => Some(with_clerk(&db)?),
        };
        let start = Instant::now();
        let bar = progress::bar(TREES, "loading");
        let tpcc = Tpcc::load(&db, args.rows(), args.seed, &mut |_| bar.step())?;
        drop(bar);
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Stage { tpcc, db, sessions, path: path.to_owned(), load_seconds })
    }

    /// What loading took.
    pub(super) fn loaded(&self) -> Result<Table, Fail> {
        let title = "load, one run";
        let mut table = Table::new(title, &["time [s]", "files [MiB]", "cache used [MiB]"])
            .told(&["files [MiB]", "cache used [MiB]"]);
        let stats = self.db.stats();
        let used = (stats.pool.frames - stats.pool.frames_free) * u64::from(stats.page_bytes);
        table.push([
            self.load_seconds.into(),
            (file_bytes(&self.path)? >> 20).into(),
            (used >> 20).into(),
        ]);
        Ok(table)
    }

    /// A session for each of `threads`; nothing for each, on the plain API.
    pub(super) fn logins(&self, threads: usize) -> Result<Vec<Option<Session>>, Fail> {
        let login = |sessions: &Sessions| sessions.login(CLERK, PASSWORD);
        let logins = (0..threads).map(|_| self.sessions.as_ref().map(login).transpose());
        Ok(logins.collect::<latchkv::Result<_>>()?)
    }

    /// Checks the consistency conditions.
    pub(super) fn check(&self) -> Result<Checked, Fail> {
        self.tpcc.check(&self.db)
    }

    /// Closes the database, with all that needs it open.
    pub(super) fn close(self) -> Result<(), Fail> {
        let Stage { tpcc, db, sessions, .. } = self;
        drop((tpcc, sessions));
        Ok(db.close()?)
    }
}

/// Makes an account that may read and write the tables, and no more.
fn with_clerk(db: &Db) -> Result<Sessions, Fail> {
    // How long a login takes is not what is measured.
    let cost = PasswordCost::least();
    let sessions = db.sessions_with(SessionOptions::new().password_cost(cost))?;
    sessions.create_administrator(ROOT, PASSWORD)?;
    let root = sessions.login(ROOT, PASSWORD)?;
    root.create_namespace(NAMESPACE)?;
    root.create_user(CLERK, PASSWORD)?;
    root.grant(CLERK, &format!("{NAMESPACE}/*").parse()?, "READ,WRITE".parse()?)?;
    Ok(sessions)
}
