//! Real files for the demo: found, taken in by many threads, compared with the disk at the end.

use super::THREADS;
use crate::exit::{Failure, Outcome};
use crate::words::counted;
use indicatif::HumanCount;
use latchkv::Tree;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// So many files are enough.
const FILES_MAX: usize = 20_000;
/// So many bytes are enough.
const BYTES_MAX: u64 = 256 << 20;
/// Larger files are passed over, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Looking for files ends after this.
const FIND_TIME_MAX: Duration = Duration::from_secs(3);
/// Taking files in ends after this.
const TAKE_IN_TIME_MAX: Duration = Duration::from_secs(8);
/// So many files are compared with the disk, and for no longer than this.
const COMPARED_MAX: usize = 2_000;
const COMPARE_TIME_MAX: Duration = Duration::from_secs(3);

/// Files to take in.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Their paths.
    pub(super) files: Vec<PathBuf>,
    /// Folders that they come from.
    pub(super) roots: Vec<PathBuf>,
}

/// A file that is in the database.
#[derive(Debug)]
pub(super) struct Taken {
    /// Its path, whose bytes are the key.
    pub(super) path: PathBuf,
    /// Length of the value.
    pub(super) bytes: u64,
    /// When it was read.
    read_at: SystemTime,
}

/// Looks for files below `dir`, or in places where this machine is likely to have many.
pub(super) fn find(dir: Option<&Path>) -> Found {
    let mut found = Found::default();
    let mut bytes = 0;
    let started = Instant::now();
    for root in dir.map_or_else(usual_roots, |dir| vec![dir.to_path_buf()]) {
        let before = found.files.len();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            if found.files.len() >= FILES_MAX
                || bytes >= BYTES_MAX
                || started.elapsed() > FIND_TIME_MAX
            {
                break;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                // Follows no links: a link is neither.
                let Ok(metadata) = entry.metadata() else {
                    continue;
                };
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if metadata.is_file() && metadata.len() <= FILE_BYTES_MAX {
                    bytes += metadata.len();
                    found.files.push(entry.path());
                }
            }
        }
        if found.files.len() > before {
            found.roots.push(root);
        }
    }
    found.files.truncate(FILES_MAX);
    found
}

/// Sources that cargo has fetched, then what every system has.
fn usual_roots() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cargo = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| home.join(".cargo")));
    let mut roots: Vec<PathBuf> = cargo.iter().map(|cargo| cargo.join("registry/src")).collect();
    roots.extend(["/usr/include", "/usr/share", "/etc"].map(PathBuf::from));
    roots
}

/// Puts files into `tree` with many threads. Files that cannot be read are passed over.
pub(super) fn take_in(tree: &Tree, files: &[PathBuf], key_bytes_max: usize) -> Outcome<Vec<Taken>> {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let worker = || -> Outcome<Vec<Taken>> {
        let mut taken = Vec::new();
        let mut value = Vec::new();
        while started.elapsed() < TAKE_IN_TIME_MAX {
            // Relaxed: a counter that hands out work and orders nothing else.
            let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let key = path.as_os_str().as_bytes();
            let read_at = SystemTime::now();
            if key.len() > key_bytes_max || read(path, &mut value).is_none() {
                continue;
            }
            tree.put(key, &value)?;
            taken.push(Taken { path: path.clone(), bytes: value.len() as u64, read_at });
        }
        Ok(taken)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().expect("workers do not panic")?);
        }
        Ok(all)
    })
}

/// Compares files chosen at random, byte by byte, and says how many.
pub(super) fn compare(tree: &Tree, taken: &[Taken]) -> Outcome<String> {
    let length = tree.len()?;
    if length != taken.len() as u64 {
        let put = taken.len();
        return Err(Failure::Error(format!("{put} files were put, the tree has {length} keys")));
    }
    let mut order: Vec<&Taken> = taken.iter().collect();
    fastrand::shuffle(&mut order);
    let started = Instant::now();
    let (mut same, mut changed) = (0, 0);
    let mut contents = Vec::new();
    for file in order.into_iter().take(COMPARED_MAX) {
        if started.elapsed() > COMPARE_TIME_MAX {
            break;
        }
        let wrong = |what| {
            let path = file.path.display();
            Failure::Error(format!("{path}: the database {what}"))
        };
        let value = tree.get(file.path.as_os_str().as_bytes())?;
        let value = value.ok_or_else(|| wrong("has lost it"))?;
        if value.len() as u64 != file.bytes {
            return Err(wrong("has a value of another length than was put"));
        }
        let readable = read(&file.path, &mut contents).is_some();
        if readable && contents == value {
            same += 1;
        } else if !readable || changed_since(file) {
            changed += 1;
        } else {
            return Err(wrong("has other bytes than the disk"));
        }
    }
    let changed = match changed {
        0 => String::new(),
        changed => format!(" ({} changed meanwhile)", HumanCount(changed)),
    };
    let equal = if same == 1 { "equals" } else { "equal" };
    Ok(format!("{} {equal} the disk's{changed}", counted(same, "file")))
}

/// Bytes of the files below a folder.
pub(super) fn bytes_below(folder: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}

/// Reads a file of bearable size.
fn read(path: &Path, value: &mut Vec<u8>) -> Option<()> {
    value.clear();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(value).ok()?;
    (value.len() as u64 <= FILE_BYTES_MAX).then_some(())
}

fn changed_since(file: &Taken) -> bool {
    let modified = fs::metadata(&file.path).and_then(|metadata| metadata.modified());
    // Clocks of file systems are coarse: a second is granted.
    modified.map_or(true, |modified| modified + Duration::from_secs(1) >= file.read_at)
}
