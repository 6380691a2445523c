//! The directory of a database: made whole or not at all, and found again.
//!
//! ```text
//!   <database>/data       the store
//!             /data.tmp   a store that is just being made, or was when the machine stopped
//!             /log        the log, whose content is none of the store's affairs
//!             /lock       taken by whoever has the database open; empty
//! ```
//!
//! # Making one
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | 1 make the directory, sync its parent | an empty directory: usable |
//! | 2 make `lock` and take it | `lock`: usable |
//! | 3 make an empty `log`, sync it and the directory | `lock`, `log`: usable |
//! | 4 write `data.tmp` and sync it | `lock`, `log`, `data.tmp`: usable, begins anew |
//! | 5 rename it to `data`, sync the directory | a database |
//!
//! *Usable*: opening says that nothing is there, creating succeeds. A directory that holds anything else is
//! somebody else's, and is neither opened nor used; nor is a plain file. A `log` that is not empty counts as
//! such, where there is no `data`: no creation leaves one.
//!
//! - [C1] `data` is whole and synced before it has that name, and `log` is there durably before.
//! - [C2] What the directory holds is looked at again once the lock is held.
//! - [C3] A `log` is made for a database that is opened for writing only if it never had one: if it had, what was
//!   in it is missing, and an empty one would hide that.
//!
//! Tested below, and for the log in `store::tests`.

use super::lock::{DirectoryLock, LOCK_NAME};
use crate::error::{Corruption, Error, OpenError, Result};
use crate::io::disk_error;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

const DATA_NAME: &str = "data";
const TEMPORARY_NAME: &str = "data.tmp";
const LOG_NAME: &str = "log";

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Read and write; keeps everybody else out.
    Write,
    /// Read only: writes nothing at all; any number at once, none beside a writer.
    Read,
}

/// A database directory that is kept locked until this is dropped. To be dropped after the store in it.
#[derive(Debug)]
#[must_use = "dropping it unlocks the directory"]
pub(crate) struct Directory {
    data: PathBuf,
    log: PathBuf,
    _lock: DirectoryLock,
}

/// What is at a path.
enum Found {
    Nothing,
    /// A directory in which a database may be made.
    Usable,
    Database,
    Foreign(&'static str),
}

fn look(dir: &Path) -> Result<Found> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(Found::Foreign("it is no directory"));
        }
        Err(error) => return Err(disk_error("list", dir, error)),
    };
    let mut foreign = None;
    let mut database = false;
    for entry in entries {
        let entry = entry.map_err(|error| disk_error("list", dir, error))?;
        match entry.file_name().to_str() {
            Some(DATA_NAME) => database = true,
            Some(LOCK_NAME | TEMPORARY_NAME) => {}
            // One that cannot be examined has been taken away meanwhile.
            Some(LOG_NAME) if entry.metadata().map_or(0, |metadata| metadata.len()) == 0 => {}
            Some(LOG_NAME) => {
                foreign = Some("the directory holds a `log` with content and no `data`")
            }
            _ => foreign = foreign.or(Some("the directory holds other files and no `data`")),
        }
    }
    Ok(match (database, foreign) {
        (true, _) => Found::Database,
        (false, Some(why)) => Found::Foreign(why),
        (false, None) => Found::Usable,
    })
}

fn foreign(dir: &Path, why: &'static str) -> Error {
    OpenError::NotADatabase { path: dir.to_owned(), why }.into()
}

/// Opens the log for reading and writing; makes an empty one, durable, if there is none.
fn open_or_make_log(dir: &Path, log: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map_err(|error| disk_error("open", log, error)),
    }
    let file = options.create(true).truncate(false).open(log);
    let file = file.map_err(|error| disk_error("create", log, error))?;
    file.sync_all().map_err(|error| disk_error("sync", log, error))?;
    sync_directory(dir)?;
    Ok(file)
}

/// The typed form of a refusal to open a database for writing; other errors stay as they are.
fn not_writable(dir: &Path, error: Error) -> Error {
    match &error {
        Error::Io { source, .. } => match source.kind() {
            reason @ (io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) => {
                OpenError::NotWritable { path: dir.to_owned(), reason }.into()
            }
            _ => error,
        },
        _ => error,
    }
}

/// Makes the names in a directory durable.
fn sync_directory(dir: &Path) -> Result<()> {
    // Only unix lets a directory be opened and synced.
    if cfg!(unix) {
        let synced = File::open(dir).and_then(|directory| directory.sync_all());
        synced.map_err(|error| disk_error("sync", dir, error))?;
    }
    Ok(())
}

/// The directory that holds `dir`.
fn parent(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => dir,
    }
}

impl Directory {
    /// Makes a database directory. `write` is given an empty file open for reading and writing, the path it
    /// has and the path it will have; it writes the whole of `data` and syncs it. What it gives is passed on,
    /// behind the empty log, open for reading and writing.
    ///
    /// # Errors
    /// [`OpenError::AlreadyExists`], [`OpenError::NotADatabase`] (something else is there),
    /// [`OpenError::Locked`], [`Error::Io`], [`Error::Full`], and what `write` gives. After an error the
    /// directory is usable.
    pub(crate) fn create<T>(
        dir: &Path,
        write: impl FnOnce(File, &Path, &Path) -> Result<T>,
    ) -> Result<(Directory, File, T)> {
        let check = || match look(dir)? {
            Found::Database => Err(OpenError::AlreadyExists(dir.to_owned()).into()),
            Found::Foreign(why) => Err(foreign(dir, why)),
            found => Ok(found),
        };
        if matches!(check()?, Found::Nothing) {
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(disk_error("make the directory", dir, error));
                }
                _ => sync_directory(parent(dir))?,
            }
        }
        let lock = DirectoryLock::acquire(dir, true)?;
        check()?; // [C2]
        let temporary = dir.join(TEMPORARY_NAME);
        let data = dir.join(DATA_NAME);
        let log = dir.join(LOG_NAME);
        let log_file = open_or_make_log(dir, &log)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|error| disk_error("create", &temporary, error))?;
        let made = write(file, &temporary, &data).and_then(|made| {
            fs::rename(&temporary, &data).map_err(|error| disk_error("rename", &data, error))?; // [C1]
            sync_directory(dir)?;
            Ok(made)
        });
        match made {
            Ok(made) => Ok((Directory { data, log, _lock: lock }, log_file, made)),
            Err(error) => {
                // A leftover is harmless: it is truncated by the next attempt.
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    /// Locks a database directory and opens its `data`.
    ///
    /// # Errors
    /// [`OpenError::NotFound`], [`OpenError::NotADatabase`], [`OpenError::Locked`],
    /// [`OpenError::NotWritable`], [`Error::Io`].
    pub(crate) fn open(dir: &Path, mode: Mode) -> Result<(Directory, File)> {
        match look(dir)? {
            Found::Database => {}
            Found::Nothing | Found::Usable => {
                return Err(OpenError::NotFound(dir.to_owned()).into());
            }
            Found::Foreign(why) => return Err(foreign(dir, why)),
        }
        let write = mode == Mode::Write;
        let refused = |error| if write { not_writable(dir, error) } else { error };
        let lock = DirectoryLock::acquire(dir, write).map_err(refused)?;
        let data = dir.join(DATA_NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(&data)
            .map_err(|error| refused(disk_error("open", &data, error)))?;
        let metadata = file.metadata().map_err(|error| disk_error("examine", &data, error))?;
        if !metadata.is_file() {
            return Err(foreign(dir, "`data` is no plain file"));
        }
        Ok((Directory { data, log: dir.join(LOG_NAME), _lock: lock }, file))
    }

    /// Opens the `log` of a database. Where there is none, opening for writing makes one if it `may_be_missing`
    /// ([C3]), and opening for reading gives `None`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is missing and may not be, [`Error::Io`], [`Error::Full`].
    pub(crate) fn open_log(&self, mode: Mode, may_be_missing: bool) -> Result<Option<File>> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let log = &self.log;
        match (mode, OpenOptions::new().read(true).write(mode == Mode::Write).open(log)) {
            (_, Ok(file)) => Ok(Some(file)),
            (Mode::Read, Err(error)) if is_missing(&error) => Ok(None),
            (Mode::Write, Err(error)) if is_missing(&error) && may_be_missing => {
                open_or_make_log(parent(&self.data), log).map(Some)
            }
            (Mode::Write, Err(error)) if is_missing(&error) => Err(Error::from(Corruption {
                file: log.clone(),
                offset: None,
                page: None,
                tree: None,
                what: "the log is missing",
                expected: "the log that the last checkpoint goes on in".into(),
                got: "no such file".into(),
            })),
            (_, Err(error)) => Err(disk_error("open", log, error)),
        }
    }

    /// The path of `data` in it.
    pub(crate) fn data_path(&self) -> &Path {
        &self.data
    }

    /// The path of `log` in it.
    pub(crate) fn log_path(&self) -> &Path {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BLOCK_BYTES;
    use crate::io::{AlignedBuf, Backend, Write};
    use crate::store::{Opened, Store};

    fn temporary() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    fn create(dir: &Path) -> Result<Opened> {
        Store::create_at(dir, 4096, Backend::Pread)
    }

    fn open(dir: &Path, mode: Mode) -> Result<Opened> {
        Store::open_at(dir, mode, Backend::Pread)
    }

    fn open_error<T: std::fmt::Debug>(result: Result<T>) -> OpenError {
        match result {
            Err(Error::Open(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn created_databases_open_and_exclude_a_second_creation() {
        let temp = temporary();
        let dir = temp.path().join("db");
        drop(create(&dir).expect("nothing there"));
        assert!(matches!(open_error(create(&dir)), OpenError::AlreadyExists(_)));
        let opened = open(&dir, Mode::Write).expect("whole");
        assert_eq!(opened.store.page_bytes(), 4096);
        assert_eq!(opened.directory.data_path(), dir.join("data"));
        assert_eq!(opened.log_path, dir.join("log"));
    }

    #[test]
    fn a_creation_that_stopped_halfway_can_begin_anew() {
        for leftovers in [&[][..], &["lock"], &["lock", "log"], &["lock", "log", "data.tmp"]] {
            let temp = temporary();
            for name in leftovers {
                let bytes: &[u8] = if *name == "data.tmp" { b"torn" } else { b"" };
                fs::write(temp.path().join(name), bytes).expect("room");
            }
            assert!(matches!(open_error(open(temp.path(), Mode::Write)), OpenError::NotFound(_)));
            drop(create(temp.path()).expect("usable"));
            drop(open(temp.path(), Mode::Write).expect("whole"));
            assert!(!temp.path().join("data.tmp").exists());
        }
    }

    #[test]
    fn a_failed_creation_leaves_a_usable_directory() {
        let temp = temporary();
        let dir = temp.path().join("db");
        let failed = Directory::create(&dir, |_, _, _| -> Result<()> { Err(Error::Closed) });
        assert!(matches!(failed, Err(Error::Closed)));
        drop(create(&dir).expect("usable"));
    }

    #[test]
    fn foreign_directories_and_files_are_left_alone() {
        let temp = temporary();
        let file = temp.path().join("letter.txt");
        fs::write(&file, b"dear").expect("room");
        for path in [temp.path(), &file] {
            for error in [
                open_error(create(path)),
                open_error(open(path, Mode::Write)),
                open_error(open(path, Mode::Read)),
            ] {
                assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
            }
        }
        assert_eq!(fs::read_dir(temp.path()).expect("there").count(), 1);
        let missing = temp.path().join("missing");
        assert!(matches!(open_error(open(&missing, Mode::Write)), OpenError::NotFound(_)));
        assert!(!missing.exists());
    }

    #[test]
    fn a_second_opener_is_refused_by_whatever_way_it_comes() {
        let temp = temporary();
        let dir = temp.path().join("db");
        let held = create(&dir).expect("nothing there");
        let link = temp.path().join("link");
        #[cfg(unix)]
        std::os::unix::fs::symlink(&dir, &link).expect("links");
        let moved = temp.path().join("moved");
        let is_ours = |error| matches!(error, OpenError::Locked { by: "this process", .. });
        assert!(is_ours(open_error(open(&dir, Mode::Write))));
        assert!(is_ours(open_error(open(&dir, Mode::Read))));
        assert!(is_ours(open_error(open(&link, Mode::Write))));
        fs::rename(&dir, &moved).expect("same file system");
        assert!(is_ours(open_error(open(&moved, Mode::Write))));
        drop(held);
        drop(open(&moved, Mode::Write).expect("released"));
    }

    #[test]
    fn a_lock_held_elsewhere_is_told_from_our_own() {
        let temp = temporary();
        drop(create(temp.path()).expect("usable"));
        // A lock belongs to the open file, so this stands for another process.
        let other = File::open(temp.path().join("lock")).expect("there");
        other.lock().expect("free");
        let by = |error| match error {
            OpenError::Locked { by, .. } => by,
            other => panic!("{other}"),
        };
        assert_eq!(by(open_error(open(temp.path(), Mode::Write))), "another process");
        assert_eq!(by(open_error(open(temp.path(), Mode::Read))), "another process");
        drop(other);
        drop(open(temp.path(), Mode::Write).expect("released"));
    }

    #[test]
    fn many_readers_share_and_keep_writers_out() {
        let temp = temporary();
        drop(create(temp.path()).expect("usable"));
        let first = open(temp.path(), Mode::Read).expect("free");
        let second = open(temp.path(), Mode::Read).expect("shared");
        drop(first);
        assert!(matches!(open_error(open(temp.path(), Mode::Write)), OpenError::Locked { .. }));
        drop(second);
        drop(open(temp.path(), Mode::Write).expect("released"));
    }

    #[test]
    fn reading_writes_nothing_and_needs_no_lock_file() {
        let temp = temporary();
        drop(create(temp.path()).expect("usable"));
        fs::remove_file(temp.path().join("lock")).expect("there");
        let before = fs::read(temp.path().join("data")).expect("there");
        let Opened { store, log, directory, .. } = open(temp.path(), Mode::Read).expect("readable");
        let log = log.expect("made with the database");
        let block = AlignedBuf::new(BLOCK_BYTES);
        assert!(
            log.write(&[Write { offset: 0, bytes: &block }]).is_err() && log.set_len(1).is_err()
        );
        assert!(matches!(store.allocate_page(), Err(Error::Denied(_))));
        assert!(matches!(store.write_value(b"x"), Err(Error::Denied(_))));
        assert!(matches!(store.write_images(&[]), Err(Error::Denied(_))));
        drop((directory, store));
        let after = fs::read(temp.path().join("data")).expect("there");
        assert!(before == after);
        assert_eq!(fs::read_dir(temp.path()).expect("there").count(), 2);
    }

    #[test]
    fn opening_and_dropping_again_and_again_needs_no_pause() {
        let temp = temporary();
        drop(create(temp.path()).expect("usable"));
        for _ in 0..1000 {
            drop(open(temp.path(), Mode::Write).expect("released by drop"));
        }
    }
}
