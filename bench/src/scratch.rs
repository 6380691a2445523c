//! The directory of a command's databases: made empty, and gone in the end, however the command ends.
//!
//! | ends by | removed by |
//! |---|---|
//! | itself | dropping [`Scratch`] |
//! | SIGINT, SIGTERM | a thread that waits for them, and then ends the process with 130 or 143 |
//! | anything else | the next command whose databases lie beside: it removes what nobody holds the lock of |
//!
//! The lock is `flock` on the directory itself. It goes with the process that made the directory, so there is none that
//! somebody has to give back. Until the maker has it, another may take it and remove the directory; the maker sees that
//! and makes another one.
//!
//! Reports are no concern of this: they are whole at any time, and say whether they are complete.
//!
//! Tested below, and by signals in `tests/interrupted.rs`.

use crate::Fail;
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;

/// What the names of the directories begin with.
const PREFIX: &str = "latchkv-scratch-";
/// How often the directory is removed at a signal, while the engines may be making new files in it.
const TRIES: usize = 5;

/// See the module head.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: TempDir,
    /// Holds the lock.
    _lock: File,
}

impl Scratch {
    /// An empty directory in `within`, or in that for temporary files.
    pub(crate) fn new(within: Option<&Path>) -> Result<Scratch, Fail> {
        let temporary = std::env::temp_dir();
        let within = within.unwrap_or(&temporary);
        std::fs::create_dir_all(within)?;
        remove_left(within)?;
        loop {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(within)?;
            if let Some(lock) = locked(dir.path()) {
                return Ok(Scratch { dir, _lock: lock });
            }
        }
    }

    /// From now on the directory goes at SIGINT and SIGTERM too, and the process ends.
    pub(crate) fn gone_at_signals(self) -> Result<Scratch, Fail> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let path = self.dir.path().to_owned();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            for _ in 0..TRIES {
                if std::fs::remove_dir_all(&path).is_ok() {
                    break;
                }
            }
            eprintln!("latchkv-bench: interrupted");
            // At once: engines are at work, and nothing may be closed under them.
            low_level::exit(128 + signal);
        })?;
        Ok(self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// The lock of a directory, unless somebody else has it or the directory is gone.
fn locked(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (is, was) = (std::fs::symlink_metadata(path).ok()?, file.metadata().ok()?);
    (is.is_dir() && is.ino() == was.ino()).then_some(file)
}

/// Removes what commands have left in `within` that were killed. What cannot be removed stays.
fn remove_left(within: &Path) -> Result<(), Fail> {
    for entry in std::fs::read_dir(within)? {
        let Ok(entry) = entry else { continue };
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && let Some(_lock) = locked(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_when_it_is_dropped() {
        let within = tempfile::tempdir().expect("a directory");
        let scratch = Scratch::new(Some(&within.path().join("new"))).expect("made");
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "data").expect("written");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_was_left_goes_and_what_is_in_use_or_of_others_stays() {
        let within = tempfile::tempdir().expect("a directory");
        let [left, other] =
            [PREFIX, "other-"].map(|name| within.path().join(format!("{name}left")));
        for path in [&left, &other] {
            std::fs::create_dir(path).expect("made");
            std::fs::write(path.join("file"), "data").expect("written");
        }
        let one = Scratch::new(Some(within.path())).expect("made");
        assert!(!left.exists() && other.exists());
        let two = Scratch::new(Some(within.path())).expect("made");
        assert!(one.path().exists() && two.path().exists());
        assert_ne!(one.path(), two.path());
    }
}
