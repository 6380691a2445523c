//! Opening a database the way a command needs it.
//!
//! Commands that only read open read-only and write nothing, not even a lock file's contents. A
//! database that a failed command has created is taken away again, so that a mistake leaves no trace.

use crate::args::{BackendArg, Global};
use crate::exit::{Failure, Outcome};
use crate::progress::{Progress, Unit};
use crate::words::counted;
use latchkv::{Backend, Db, Durability, Options, Tree};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// For reading only.
pub(crate) fn read_only(global: &Global, path: &Path) -> Outcome<Db> {
    check_page_size(global, path)?;
    Ok(options(global).open_read_only(path)?)
}

/// For reading what can be read. If the log cannot be used, the state of the last checkpoint, and why.
pub(crate) fn for_salvage(global: &Global, path: &Path) -> Outcome<(Db, Option<latchkv::Error>)> {
    check_page_size(global, path)?;
    match options(global).open_read_only(path) {
        Ok(db) => Ok((db, None)),
        Err(error) => match options(global).without_log(true).open_read_only(path) {
            Ok(db) => Ok((db, Some(error))),
            // It is not the log.
            Err(_) => Err(error.into()),
        },
    }
}

/// For writing; something must be there. If it was not closed, its log is applied first.
pub(crate) fn existing(global: &Global, path: &Path, durability: Durability) -> Outcome<Db> {
    check_page_size(global, path)?;
    let db = recovering(global, path).durability(durability).open_existing(path)?;
    compare_page_size(global, path, &db)?;
    Ok(db)
}

/// For writing; created if nothing is there.
pub(crate) fn or_create(global: &Global, path: &Path, durability: Durability) -> Outcome<Opened> {
    check_page_size(global, path)?;
    let created = !path.exists();
    let db = recovering(global, path).durability(durability).open(path)?;
    compare_page_size(global, path, &db)?;
    Ok(Opened { db, created: created.then(|| path.to_path_buf()) })
}

/// Options that show how far the log is applied, and say so at the end.
fn recovering(global: &Global, path: &Path) -> Options {
    if global.quiet {
        return options(global);
    }
    let path = path.to_owned();
    let shown = Mutex::new(None);
    options(global).on_recovery(move |at| {
        // A thread that panicked here has left nothing half done that matters.
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = shown.get_or_insert_with(|| {
            Progress::start(false, "applying the log", Unit::Bytes, Some(at.bytes_total))
        });
        progress.set(at.bytes_done);
        if at.bytes_done >= at.bytes_total {
            *shown = None;
            let commits = counted(at.commits, "commit");
            eprintln!("{} was not closed: {commits} of its log applied", path.display());
        }
    })
}

/// Refuses `--page-size` for a database that has another, before anything is written.
fn check_page_size(global: &Global, path: &Path) -> Outcome {
    if global.page_size.is_none() {
        return Ok(());
    }
    // Where this fails, the opening that follows says why.
    let Ok(db) = options(global).open_read_only(path) else { return Ok(()) };
    compare_page_size(global, path, &db)
}

/// The same for one that is open.
fn compare_page_size(global: &Global, path: &Path, db: &Db) -> Outcome {
    let Some(bytes) = global.page_size else { return Ok(()) };
    let has_bytes = db.stats().page_bytes;
    if has_bytes == bytes {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--page-size is {}K, but {} was created with pages of {}K and keeps them: leave --page-size out, or load into a \
         new database",
        bytes >> 10,
        path.display(),
        has_bytes >> 10
    )))
}

/// A database that may have come into being just now.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The database.
    pub(crate) db: Db,
    created: Option<PathBuf>,
}

impl Opened {
    /// One that was there before.
    pub(crate) fn existing(db: Db) -> Opened {
        Opened { db, created: None }
    }

    /// Makes everything durable and closes.
    pub(crate) fn close(self) -> Outcome {
        Ok(self.db.close()?)
    }

    /// Closes after a failure and, if nothing was there before, leaves nothing.
    pub(crate) fn abandon(self) {
        // The first failure is the one to report; this one would only repeat or hide it.
        let _ = self.db.close();
        if let Some(path) = self.created {
            let _ = fs::remove_dir_all(path);
        }
    }

    /// From now on there is something worth keeping: a failure takes nothing away.
    pub(crate) fn keep(&mut self) {
        self.created = None;
    }
}

/// The tree `name`, which must exist.
pub(crate) fn tree(db: &Db, name: &str) -> Outcome<Tree> {
    if let Some(tree) = db.open_tree(name)? {
        return Ok(tree);
    }
    Err(no_such_tree(name, &db.trees()?))
}

/// There is no tree `name`, only these.
pub(crate) fn no_such_tree(name: &str, names: &[String]) -> Failure {
    let advice = match names.len() {
        0 => "there are no trees".to_string(),
        1..=10 => format!("there are: {}", names.join(", ")),
        more => format!("there are {more}: `latchkv trees` prints them"),
    };
    Failure::NotFound(format!("no tree is named {name:?}; {advice}"))
}

/// What the global options say.
pub(crate) fn options(global: &Global) -> Options {
    let mut options = Options::new().backend(match global.backend {
        BackendArg::Auto => Backend::Auto,
        BackendArg::Uring => Backend::Uring,
        BackendArg::Mmap => Backend::Mmap,
        BackendArg::Pread => Backend::Pread,
    });
    if let Some(bytes) = global.cache {
        options = options.cache_bytes(bytes);
    }
    if let Some(bytes) = global.page_size {
        options = options.page_bytes(bytes);
    }
    options
}
