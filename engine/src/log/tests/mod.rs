//! The log as a whole, on simulated and on real disks.
//!
//! | file | what it would show to be wrong |
//! |---|---|
//! | `records` | bytes of records, cut and flipped ones, reservations that come to nothing |
//! | `recovery` | damage taken for an end, an end taken for damage, stale bytes taken for records, hostile files |
//! | `space` | growth, recycling, a full disk |
//! | `faults` | a failure at any call: what was acknowledged, what is refused afterwards |
//! | `threads` | group commit, marks, holding, consumers, crash images of concurrent histories |

mod faults;
mod records;
mod recovery;
mod space;
mod threads;

use super::*;
use crate::io::SimDisk;
use crate::io::sim::CrashMode;

const UUID: [u8; 16] = [3; 16];
const SMALL: LogOptions = LogOptions { slot_bytes: 64 << 10, buffer_bytes: 64 << 10 };

/// What a record says, to keep.
type Kept = (u64, RecordKind, Vec<u8>);

fn path() -> &'static Path {
    Path::new("log")
}

fn open(disk: &Arc<SimDisk>, checkpoint: u64) -> Result<Recovering> {
    let anchor = Anchor { lsn: checkpoint, file_bytes: 0 };
    Log::open(Arc::clone(disk) as Arc<dyn Disk>, path(), UUID, anchor, SMALL)
}

/// A log in a file that holds none.
fn try_create(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Log> {
    let mut recovering = Log::open(disk, path(), UUID, Anchor::default(), options)?;
    assert!(recovering.next()?.is_none());
    recovering.finish()
}

fn create(disk: &Arc<SimDisk>) -> Log {
    try_create(Arc::clone(disk) as Arc<dyn Disk>, SMALL).expect("a healthy disk")
}

/// All records from the checkpoint on, and where the log ends.
fn read_all(recovering: &mut Recovering) -> Result<Vec<Kept>> {
    let mut all = Vec::new();
    while let Some(record) = recovering.next()? {
        all.push((record.lsn, record.kind, record.ops.to_vec()));
    }
    Ok(all)
}

fn contents(disk: &Arc<SimDisk>, checkpoint: u64) -> Result<Vec<Kept>> {
    read_all(&mut open(disk, checkpoint)?)
}

/// Reads to the end and goes on.
fn recover(disk: &Arc<SimDisk>, checkpoint: u64) -> Result<(Vec<Kept>, Log)> {
    let mut recovering = open(disk, checkpoint)?;
    let all = read_all(&mut recovering)?;
    Ok((all, recovering.finish()?))
}

/// A commit that is copied and applied; gives its end.
fn commit(log: &Log, ops: &[u8]) -> Result<u64> {
    let reserved = log.reserve(ops.len() as u32)?;
    Ok(reserved.copy(RecordKind::Commit, &[ops]).applied())
}

fn commit_durably(log: &Log, ops: &[u8]) -> Result<u64> {
    let end = commit(log, ops)?;
    log.wait(end, Durability::Sync)?;
    Ok(end)
}

/// Bytes that no other number and length gives.
fn body(number: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend((8..len).map(|_| rng.u8(..)));
    bytes.truncate(len);
    bytes
}

/// The disk as a process finds it that starts after this one was killed.
fn after_kill(disk: &SimDisk) -> Arc<SimDisk> {
    Arc::new(disk.crash(1, CrashMode::KeepAll))
}

fn bytes_of(disk: &SimDisk) -> Vec<u8> {
    let mut bytes = vec![0; disk.len_bytes().expect("a healthy disk") as usize];
    disk.read(0, &mut bytes).expect("a healthy disk");
    bytes
}
