//! From the last checkpoint and the log to the last commit.
//!
//! The pages hold exactly the commits below the checkpoint's lsn, so each commit from there on is applied once,
//! with its lsn, and there is nothing to undo. Changes of keys are gathered and applied sorted (`pending`). Nothing
//! durable changes before the checkpoint that follows: a crash in between begins the same again.
//!
//! * [Y1] A commit to a tree that is not there was inside the gate together with the drop of that tree, and
//!   reserved after it: it is skipped.
//! * [Y2] A commit with a Fill ends the log: what it brought was to come with a checkpoint, and neither it nor
//!   anything behind it was acknowledged before that. Fills are the first operations of a commit, so nothing of
//!   it is applied.
//!
//! Tested by `engine/tests/crash`: power cuts at every sync and between, also within recovery.

mod pending;

use crate::btree::TreeCore;
use crate::catalog::{Catalog, Replayed};
use crate::error::{Error, OpenError, Result};
use crate::id::TreeId;
use crate::log::ops::{BadOps, Op, OpStream, Ops, bad_ops, read_parts};
use crate::log::{Log, RecordKind, Recovering};
use crate::name::NameRef;
use crate::pool::Pool;
use pending::Pending;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// How far the reading of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Bytes of the log read.
    pub bytes_done: u64,
    /// Bytes to read at most.
    pub bytes_total: u64,
    /// Commits read. Their changes are applied a few megabytes at a time.
    pub commits: u64,
}

/// What was found in the log.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The log, ready for new commits.
    pub(crate) log: Log,
    /// Commits applied.
    pub(crate) commits: u64,
}

/// Bytes of log between two reports of progress.
const REPORT_BYTES: u64 = 1 << 20;

/// Applies what the log has behind the checkpoint, and starts it anew.
pub(crate) fn run(
    pool: &Pool,
    catalog: &Catalog,
    mut recovering: Recovering,
    mut progress: impl FnMut(RecoveryProgress),
) -> Result<Recovered> {
    let bytes_total = recovering.total_bytes();
    let pending = Pending::of_log(bytes_total);
    let mut replay = Replay { pool, catalog, trees: HashMap::new(), pending };
    let mut commits = 0;
    let mut reported = 0;
    while let Some(record) = recovering.next()? {
        if record.kind == RecordKind::Commit {
            let lsn = record.lsn;
            let outcome = replay.commit(lsn, record.ops);
            match outcome {
                Ok(Outcome::Applied) => {}
                Ok(Outcome::Filled) => recovering.end_before(lsn),
                Ok(Outcome::InParts { first, bytes }) => {
                    if replay.parts(&mut recovering, lsn, (first, bytes))? {
                        recovering.end_before(lsn);
                    }
                }
                Err(Failure::Bad(bad)) => return Err(bad_ops(&recovering, lsn, bad)),
                Err(Failure::Other(error)) => return Err(error),
            }
            commits += 1;
        }
        let bytes_done = recovering.read_bytes();
        if bytes_done >= reported + REPORT_BYTES {
            reported = bytes_done;
            progress(RecoveryProgress { bytes_done, bytes_total, commits });
        }
    }
    replay.apply_pending()?;
    if commits > 0 {
        progress(RecoveryProgress { bytes_done: bytes_total, bytes_total, commits });
    }
    Ok(Recovered { log: recovering.finish()?, commits })
}

/// Refuses a log that has commits behind the checkpoint: they would have to be written.
pub(crate) fn refuse(mut recovering: Recovering, path: &Path) -> Result<()> {
    while let Some(record) = recovering.next()? {
        if record.kind == RecordKind::Commit {
            return Err(OpenError::NeedsRecovery(path.to_owned()).into());
        }
    }
    Ok(())
}

/// What became of a commit.
enum Outcome {
    Applied,
    /// It filled a tree with what the log does not have.
    Filled,
    /// Its operations are in other records.
    InParts {
        first: u64,
        bytes: u64,
    },
}

enum Failure {
    Bad(BadOps),
    Other(Error),
}

impl From<BadOps> for Failure {
    fn from(bad: BadOps) -> Failure {
        Failure::Bad(bad)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

struct Replay<'a> {
    pool: &'a Pool,
    catalog: &'a Catalog,
    /// Trees by id; none = dropped, or never made.
    trees: HashMap<TreeId, Option<Arc<TreeCore>>>,
    pending: Pending,
}

impl Replay<'_> {
    fn commit(&mut self, lsn: u64, ops: &[u8]) -> Result<Outcome, Failure> {
        for op in Ops::new(ops) {
            match op? {
                Op::Parts { first, bytes } => return Ok(Outcome::InParts { first, bytes }),
                Op::Fill { .. } => return Ok(Outcome::Filled),
                op => self.apply(lsn, op)?,
            }
        }
        Ok(Outcome::Applied)
    }

    /// A commit whose operations lie in several records. True: it filled a tree, and nothing was applied.
    fn parts(
        &mut self,
        recovering: &mut Recovering,
        lsn: u64,
        (first, bytes): (u64, u64),
    ) -> Result<bool> {
        let mut stream = OpStream::new();
        let mut bad = None;
        let mut filled = false;
        read_parts(recovering, (first, bytes), lsn, |piece| {
            if bad.is_some() {
                return Ok(());
            }
            let fed = stream.feed::<Failure>(piece, |op| {
                filled |= matches!(op, Op::Fill { .. });
                if filled { Ok(()) } else { Ok(self.apply(lsn, op)?) }
            });
            match fed {
                Ok(()) => Ok(()),
                Err(Failure::Other(error)) => Err(error),
                Err(Failure::Bad(what)) => {
                    bad = Some(what);
                    Ok(())
                }
            }
        })?;
        match bad.map_or_else(|| stream.finish().map(drop), Err) {
            Ok(()) => Ok(filled),
            Err(what) => Err(bad_ops(recovering, lsn, what)),
        }
    }

    fn apply_pending(&mut self) -> Result<()> {
        let Replay { pool, catalog, trees, pending } = self;
        pending.apply(pool, |tree| {
            if let Some(known) = trees.get(&tree) {
                return Ok(known.clone());
            }
            let found = catalog.by_id(pool, tree)?.map(|(_, core)| core);
            trees.insert(tree, found.clone());
            Ok(found)
        })
    }

    fn apply(&mut self, lsn: u64, op: Op<'_>) -> Result<()> {
        match op {
            Op::Put { tree, key, value } => self.pending.push(lsn, tree, key, Some(value)),
            Op::Delete { tree, key } => self.pending.push(lsn, tree, key, None),
            op => {
                self.apply_pending()?;
                return self.define(lsn, op);
            }
        }
        if self.pending.is_full() { self.apply_pending() } else { Ok(()) }
    }

    /// Applies what is said of a tree as a whole.
    fn define(&mut self, lsn: u64, op: Op<'_>) -> Result<()> {
        match op {
            Op::Create { tree, name } => {
                let name = String::from_utf8_lossy(name);
                let name = NameRef::stored(&name)?;
                let core = self.catalog.create_again(self.pool, tree, name, Replayed(lsn))?;
                self.trees.insert(tree, Some(core));
            }
            Op::Drop { tree } => {
                if let Some((name, _)) = self.catalog.by_id(self.pool, tree)? {
                    let name = NameRef::stored(&name)?;
                    self.catalog.drop_tree(self.pool, name, &Replayed(lsn))?;
                }
                self.trees.insert(tree, None);
            }
            Op::Rename { tree, name } => {
                let name = String::from_utf8_lossy(name);
                if let Some((from, _)) = self.catalog.by_id(self.pool, tree)? {
                    let (from, to) = (NameRef::stored(&from)?, NameRef::stored(&name)?);
                    self.catalog.rename(self.pool, from, to, &Replayed(lsn))?;
                }
            }
            Op::Clear { tree } => {
                if let Some((_, core)) = self.catalog.by_id(self.pool, tree)? {
                    self.catalog.clear(self.pool, &core, &Replayed(lsn))?;
                }
            }
            // Gathered, or seen before, [Y2].
            Op::Put { .. } | Op::Delete { .. } | Op::Fill { .. } | Op::Parts { .. } => {}
        }
        Ok(())
    }
}
