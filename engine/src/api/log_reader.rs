//! Reading the log of a database that nobody has open, to look at it.
//!
//! What it is for: showing what an opening would apply, before it does. What it is not: recovery, which
//! `recovery` does; or a way to follow commits, which [`Tree::watch`](crate::Tree::watch) is. Nothing is written.
//!
//! ```text
//!   checkpoint                                                     end
//!       | Commit | Part | Void | Part | Commit (of both parts) | ... | nothing, or the start of a record
//!       next_record: heads as they lie, operations with the record that commits them
//! ```
//!
//! * [J1] No more is held in memory than one operation, one record and one read of the log.
//! * [J2] Where a record is not whole, and something behind says that it had been synced, the reading ends with
//!   [`Error::Corrupt`] and not as if the log ended there.
//!
//! Tested below, and through the program in `cli/tests/log.rs`.

use super::options::anchor_of;
use super::snapshot::Lsn;
use crate::error::{Error, Result};
use crate::id::{BLOCK_BYTES, TreeId};
use crate::io::{AlignedBuf, Backend, Disk};
use crate::log::ops::{BadOps, Op, OpStream, Ops, PartHead, bad_ops, read_parts};
use crate::log::{Log, LogOptions, RecordKind, Recovering};
use crate::store::{Directory, Mode, Opened, Store};
use std::path::Path;
use std::sync::Arc;

/// What a record of the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoggedKind {
    /// A commit; its operations come with it, also those that lie in parts before.
    Commit,
    /// A part of the operations of a large commit, which follows unless a crash came first.
    Part,
    /// A place in the log that was reserved and came to nothing.
    Void,
}

/// A record of the log, but for its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LoggedRecord {
    /// Where it begins: for a commit, its time.
    pub lsn: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// What it is.
    pub kind: LoggedKind,
    /// All before this was synced when the record was made.
    pub synced: Lsn,
    /// Bytes of operations in the record itself.
    pub ops_bytes: u64,
    /// For a part, and for a commit in parts: the first part.
    pub first_part: Option<Lsn>,
}

/// One change that a commit made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LoggedOp<'a> {
    /// A key was given a value.
    Put {
        /// The tree.
        tree: TreeId,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A key was deleted.
    Delete {
        /// The tree.
        tree: TreeId,
        /// The key.
        key: &'a [u8],
    },
    /// A tree was made.
    Create {
        /// The tree.
        tree: TreeId,
        /// Its name, UTF-8.
        name: &'a [u8],
    },
    /// A tree was dropped.
    Drop {
        /// The tree.
        tree: TreeId,
    },
    /// A tree was given another name.
    Rename {
        /// The tree.
        tree: TreeId,
        /// Its new name, UTF-8.
        name: &'a [u8],
    },
    /// All records of a tree were removed.
    Clear {
        /// The tree.
        tree: TreeId,
    },
    /// A tree was filled with records that the log does not have: its checkpoint has them, or the commit came to
    /// nothing.
    Fill {
        /// The tree.
        tree: TreeId,
    },
}

/// How a log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LogEnd {
    /// Behind its last record is nothing.
    Clean,
    /// Behind its last record lies one that was not written whole, and never acknowledged as durable.
    Torn {
        /// Where it begins in the file, in bytes.
        offset: u64,
    },
}

/// The log of a database from its newest checkpoint on, read in order. See [`LogReader::open`].
///
/// ```
/// # fn main() -> latchkv::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("db");
/// latchkv::Db::open(&path)?.close()?;
/// let mut log = latchkv::LogReader::open(&path)?;
/// while let Some(record) = log.next_record(|_, op| println!("{op:?}"))? {
///     println!("{record:?}");
/// }
/// assert_eq!(log.end()?, latchkv::LogEnd::Clean);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogReader {
    checkpoint: u64,
    /// None where the database has no log yet.
    recovering: Option<Recovering>,
    log: Option<Arc<dyn Disk>>,
    _store: Store,
    /// Keeps writers out.
    _directory: Directory,
}

impl LogReader {
    /// Opens the log of the database in directory `path`, which need not have been closed. Nothing is written.
    /// As long as the reader lives nobody can open the database for writing.
    ///
    /// # Errors
    /// [`OpenError::NotFound`](crate::OpenError::NotFound),
    /// [`OpenError::NotADatabase`](crate::OpenError::NotADatabase),
    /// [`OpenError::NewerVersion`](crate::OpenError::NewerVersion);
    /// [`OpenError::Locked`](crate::OpenError::Locked) if somebody has it open for writing; [`Error::Corrupt`] if
    /// the newest checkpoint cannot be found, or the log does not hold its place; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<LogReader> {
        let opened = Store::open_at(path.as_ref(), Mode::Read, Backend::Pread)?;
        let Opened { store, log, log_path, directory } = opened;
        let anchor = anchor_of(&store);
        let open = |log: &Arc<dyn Disk>| {
            let options = LogOptions::default();
            Log::open(Arc::clone(log), &log_path, store.uuid(), anchor, options)
        };
        let recovering = log.as_ref().map(open).transpose()?;
        let checkpoint = anchor.lsn;
        Ok(LogReader { checkpoint, recovering, log, _store: store, _directory: directory })
    }

    /// The newest checkpoint: the database without its log is in the state of all commits before this.
    pub fn checkpoint(&self) -> Lsn {
        Lsn(self.checkpoint)
    }

    /// The next record; `None` at the end of the log, and then always. Before it returns, `each` is given the
    /// record's operations one by one, none but for commits.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a record that is known to have been synced is damaged, or a record holds what is
    /// no operation; [`Error::Io`].
    pub fn next_record(
        &mut self,
        mut each: impl FnMut(&LoggedRecord, LoggedOp<'_>),
    ) -> Result<Option<LoggedRecord>> {
        let Some(recovering) = &mut self.recovering else { return Ok(None) };
        let Some(record) = recovering.next()? else { return Ok(None) };
        let lsn = record.lsn;
        let mut logged = LoggedRecord {
            lsn: Lsn(lsn),
            end: Lsn(record.end),
            kind: match record.kind {
                RecordKind::Commit => LoggedKind::Commit,
                RecordKind::Part => LoggedKind::Part,
                RecordKind::Void => LoggedKind::Void,
            },
            synced: Lsn(record.synced),
            ops_bytes: record.ops.len() as u64,
            first_part: None,
        };
        match record.kind {
            RecordKind::Void => {}
            RecordKind::Part => {
                logged.first_part = PartHead::split(record.ops).map(|(head, _)| Lsn(head.first));
            }
            RecordKind::Commit => {
                let mut parts = None;
                let mut bad = None;
                for op in Ops::new(record.ops) {
                    match op {
                        Ok(Op::Parts { first, bytes }) => parts = Some((first, bytes)),
                        Ok(op) => _ = logged_op(op).map(|op| each(&logged, op)),
                        Err(what) => bad = Some(what),
                    }
                }
                if let Some(parts) = parts {
                    logged.first_part = Some(Lsn(parts.0));
                    bad = in_parts(recovering, &logged, parts, &mut each)?.or(bad);
                }
                if let Some(bad) = bad {
                    return Err(bad_ops(recovering, lsn, bad));
                }
            }
        }
        Ok(Some(logged))
    }

    /// How the log ends. To be asked after [`next_record`](Self::next_record) has given `None`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn end(&mut self) -> Result<LogEnd> {
        let (Some(recovering), Some(log)) = (&mut self.recovering, &self.log) else {
            return Ok(LogEnd::Clean);
        };
        let end = recovering.position();
        // There is no whole record, so this says where it would be; without a place there is no slot for one.
        let offset = match recovering.read_at(end) {
            Err(Error::Corrupt(corruption)) => corruption.offset.filter(|&offset| offset > 0),
            Err(error) => return Err(error),
            Ok(_) => None,
        };
        let Some(offset) = offset else { return Ok(LogEnd::Clean) };
        // Whole blocks, as disks that are read directly want it.
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        let at = (offset % BLOCK_BYTES as u64) as usize;
        if log.read(offset - at as u64, &mut block).is_err() {
            // The file ends within the block: nothing whole can be there.
            return Ok(LogEnd::Clean);
        }
        // A record names its own place; what an earlier use of the slot left names another.
        let lsn = block.get(at + 8..at + 16).and_then(|bytes| bytes.first_chunk());
        match lsn.map(|bytes| u64::from_le_bytes(*bytes)) {
            Some(lsn) if lsn == end && lsn > 0 => Ok(LogEnd::Torn { offset }),
            _ => Ok(LogEnd::Clean),
        }
    }
}

/// Hands on the operations of a commit that lie in parts. Gives bytes that are none.
fn in_parts(
    recovering: &mut Recovering,
    logged: &LoggedRecord,
    parts: (u64, u64),
    each: &mut impl FnMut(&LoggedRecord, LoggedOp<'_>),
) -> Result<Option<BadOps>> {
    let mut stream = OpStream::new();
    let mut bad = None;
    read_parts(recovering, parts, logged.lsn.0, |piece| {
        if bad.is_none() {
            let fed = stream.feed::<BadOps>(piece, |op| {
                _ = logged_op(op).map(|op| each(logged, op));
                Ok(())
            });
            bad = fed.err();
        }
        Ok(())
    })?;
    Ok(bad.or_else(|| stream.finish().err()))
}

/// The public form; none of what only says where operations are.
fn logged_op(op: Op<'_>) -> Option<LoggedOp<'_>> {
    Some(match op {
        Op::Put { tree, key, value } => LoggedOp::Put { tree, key, value },
        Op::Delete { tree, key } => LoggedOp::Delete { tree, key },
        Op::Create { tree, name } => LoggedOp::Create { tree, name },
        Op::Drop { tree } => LoggedOp::Drop { tree },
        Op::Rename { tree, name } => LoggedOp::Rename { tree, name },
        Op::Clear { tree } => LoggedOp::Clear { tree },
        Op::Fill { tree } => LoggedOp::Fill { tree },
        Op::Parts { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Durability, OpenError, Options, WriteBatch};
    use std::fs;

    /// A copy of the files of a database that is open, as a killed process leaves them.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir(to).expect("room");
        for name in ["data", "log", "lock"] {
            fs::copy(from.join(name), to.join(name)).expect("room");
        }
    }

    /// Records, and operations as text.
    fn read(path: &Path) -> Result<(Vec<LoggedRecord>, Vec<String>, LogEnd)> {
        let mut reader = LogReader::open(path)?;
        let (mut records, mut ops) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next_record(|_, op| {
            ops.push(match op {
                LoggedOp::Put { key, value, .. } => {
                    format!("put {} {}", key.escape_ascii(), value.len())
                }
                LoggedOp::Delete { key, .. } => format!("delete {}", key.escape_ascii()),
                LoggedOp::Create { name, .. } => format!("create {}", name.escape_ascii()),
                other => format!("{other:?}"),
            });
        })? {
            records.push(record);
        }
        let end = reader.end()?;
        Ok((records, ops, end))
    }

    #[test]
    fn commits_that_no_checkpoint_has_are_read_and_nothing_is_written() {
        let temp = tempfile::tempdir().expect("a folder");
        let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
        let db = Options::new().log_slot_bytes(64 << 10).create(&live).expect("room");
        let tree = db.tree("t").expect("created");
        tree.put("a", "12345").expect("room");
        tree.delete("a").expect("room");
        let mut batch = WriteBatch::new();
        for key in ["b", "c"] {
            batch.put(&tree, key, "").expect("small");
        }
        db.write_with(&batch, Durability::Sync).expect("room");
        assert!(matches!(LogReader::open(&live), Err(Error::Open(OpenError::Locked { .. }))));
        copy(&live, &dead);
        let before = fs::read(dead.join("log")).expect("there");
        let (records, ops, end) = read(&dead).expect("whole");
        assert_eq!(ops, ["create t", "put a 5", "delete a", "put b 0", "put c 0"]);
        assert_eq!(records.len(), 4);
        assert!(records.windows(2).all(|two| two[0].end <= two[1].lsn));
        assert_eq!(end, LogEnd::Clean);
        assert_eq!(before, fs::read(dead.join("log")).expect("there"));
        // Closed: the checkpoint has it all.
        db.close().expect("room");
        drop((tree, batch));
        drop(Db::open(&live).expect("whole"));
        assert_eq!(read(&live).expect("whole").0, []);
    }

    #[test]
    fn a_torn_record_ends_the_log_and_damage_before_a_synced_place_is_an_error() {
        let temp = tempfile::tempdir().expect("a folder");
        let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
        let db = Options::new().log_slot_bytes(64 << 10).create(&live).expect("room");
        let tree = db.tree("t").expect("created");
        // The slot ahead says up to where all was synced when it was made: not up to the last commits.
        while db.stats().log.expect("open for writing").file_bytes < 128 << 10 {
            std::thread::yield_now();
        }
        for number in 0..3 {
            tree.put(format!("key{number}"), "value").expect("room");
        }
        copy(&live, &dead);
        let log = fs::read(dead.join("log")).expect("there");
        let place = |key: &[u8]| log.windows(key.len()).position(|at| at == key).expect("logged");
        let flip = |at: usize| {
            let mut log = log.clone();
            log[at] ^= 1;
            fs::write(dead.join("log"), log).expect("room");
        };
        flip(place(b"key2"));
        let (_, ops, end) = read(&dead).expect("a torn end is no damage");
        assert_eq!(ops, ["create t", "put key0 5", "put key1 5"]);
        let LogEnd::Torn { offset } = end else { panic!("{end:?}") };
        assert!(offset < place(b"key2") as u64 && offset > place(b"key1") as u64);
        flip(place(b"key0"));
        assert!(matches!(read(&dead), Err(Error::Corrupt(_))));
    }

    #[test]
    fn a_commit_of_several_records_comes_as_one() {
        let temp = tempfile::tempdir().expect("a folder");
        let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
        let options = Options::new().log_slot_bytes(256 << 10).log_buffer_bytes(64 << 10);
        let db = options.create(&live).expect("room");
        let tree = db.tree("t").expect("created");
        let mut batch = WriteBatch::new();
        for number in 0..60 {
            batch.put(&tree, format!("{number:02}"), vec![7; 1_000]).expect("small");
        }
        db.write_with(&batch, Durability::Sync).expect("room");
        copy(&live, &dead);
        let (records, ops, _) = read(&dead).expect("whole");
        assert_eq!(ops.len(), 61);
        assert_eq!(ops[60], "put 59 1000");
        let parts = records.iter().filter(|record| record.kind == LoggedKind::Part);
        assert!(parts.clone().count() > 1);
        let last = records.last().expect("some");
        assert_eq!(last.kind, LoggedKind::Commit);
        assert!(parts.clone().all(|part| part.first_part == last.first_part));
    }
}
