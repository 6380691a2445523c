//! One writer or many readers for a directory: across processes by a file lock, within this process by a
//! registry.
//!
//! ```text
//!   registry: (device, inode) of the directory -> writer | number of readers      this process
//!   file lock on `lock`: exclusive for a writer, shared for readers              all processes
//! ```
//!
//! The registry goes by device and inode, so that a second way to the same directory (a link, another
//! spelling, a rename in between) is seen. The file lock alone would tell the same, but not who holds it.
//!
//! - [L1] Who holds a [`DirectoryLock`] is counted in the registry; dropping it first unlocks and closes the
//!   file, then leaves the registry. So a new lock can be had as soon as drop returns. Closing alone would not
//!   do: a process that another thread has just forked off holds the same open file until it runs its program.
//! - [L2] A reader opens `lock` read-only and writes nothing. Where there is no such file, or the file system
//!   knows no locks, it goes on without: nobody could write there in a way that would be seen.
//!
//! Not a guard against programs that do not take the lock, and not one across machines on file systems
//! without it.
//!
//! Tested in `dir`, and [L1] below.

use crate::error::{Error, OpenError, Result};
use crate::io::disk_error;
use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the lock file.
pub(super) const LOCK_NAME: &str = "lock";

type Identity = (u64, u64);

#[derive(Clone, Copy, Debug)]
enum Holders {
    Writer,
    Readers(usize),
}

static REGISTRY: Mutex<Option<HashMap<Identity, Holders>>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<HashMap<Identity, Holders>>> {
    // Each critical section leaves the map whole, whatever panics elsewhere.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Device and inode of a directory.
#[cfg(unix)]
fn identity(dir: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(dir)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A hash of the true path, where there are no inodes.
#[cfg(not(unix))]
fn identity(dir: &Path) -> io::Result<Identity> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    std::fs::canonicalize(dir)?.hash(&mut hasher);
    Ok((hasher.finish(), 0))
}

/// A place in the registry ([L1]).
#[derive(Debug)]
struct Registered(Identity);

impl Registered {
    fn enter(dir: &Path, identity: Identity, write: bool) -> Result<Registered> {
        let mut registry = registry();
        let map = registry.get_or_insert_default();
        let holders = match (map.get(&identity), write) {
            (None, true) => Holders::Writer,
            (None, false) => Holders::Readers(1),
            (Some(Holders::Readers(count)), false) => Holders::Readers(count + 1),
            _ => return Err(locked(dir, "this process")),
        };
        map.insert(identity, holders);
        Ok(Registered(identity))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut registry = registry();
        let map = registry.get_or_insert_default();
        match map.get_mut(&self.0) {
            Some(Holders::Readers(count)) if *count > 1 => *count -= 1,
            _ => {
                map.remove(&self.0);
            }
        }
    }
}

/// The open lock file ([L1]).
#[derive(Debug)]
struct Taken(File);

impl Drop for Taken {
    fn drop(&mut self) {
        // Closing follows, which does the same where nobody else has the file open.
        let _ = self.0.unlock();
    }
}

/// Keeps a directory. Fields are dropped in this order ([L1]).
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: Option<Taken>,
    _registered: Registered,
}

impl DirectoryLock {
    /// Takes the lock at once or fails. The directory exists.
    pub(super) fn acquire(dir: &Path, write: bool) -> Result<DirectoryLock> {
        let identity = identity(dir).map_err(|error| disk_error("examine", dir, error))?;
        let registered = Registered::enter(dir, identity, write)?;
        let path = dir.join(LOCK_NAME);
        let file =
            OpenOptions::new().read(true).write(write).create(write).truncate(false).open(&path);
        let file = match file {
            Ok(file) => file,
            Err(error) if !write && error.kind() == io::ErrorKind::NotFound => {
                return Ok(DirectoryLock {
                    _file: None, // [L2]
                    _registered: registered,
                });
            }
            Err(error) => return Err(disk_error("open", &path, error)),
        };
        let taken = match write {
            true => file.try_lock(),
            false => file.try_lock_shared(),
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(dir, "another process")),
            Err(TryLockError::Error(error))
                if !write && error.kind() == io::ErrorKind::Unsupported => {} // [L2]
            Err(TryLockError::Error(error)) => return Err(disk_error("lock", &path, error)),
        }
        Ok(DirectoryLock { _file: Some(Taken(file)), _registered: registered })
    }
}

fn locked(dir: &Path, by: &'static str) -> Error {
    OpenError::Locked { path: dir.to_owned(), by }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child process between fork and exec has all files of its parent open; the lock was free only when it
    /// had come to exec, and opening the database again failed now and then.
    #[test]
    fn a_dropped_lock_is_free_whoever_else_has_the_same_file_open() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for write in [true, false] {
            let lock = DirectoryLock::acquire(dir.path(), write).expect("free");
            let file = &lock._file.as_ref().expect("there is a file").0;
            // The same open file, as a forked process has it.
            let inherited = file.try_clone().expect("a file more");
            drop(lock);
            drop(DirectoryLock::acquire(dir.path(), true).expect("unlocked"));
            drop(inherited);
        }
    }
}
