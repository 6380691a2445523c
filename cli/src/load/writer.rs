//! Writes sorted runs into trees, in commits that each know how far the load is.
//!
//! ```text
//! all of the input, tree empty     bulk load: one step
//! else                             batch of records + progress, batch + progress, .., batch - progress
//! ```
//!
//! Invariants:
//! - \[W1\] A tree that held no records, loaded from input that fits into the sort memory, has either all of its
//!   records or none, whatever fails and whenever the process dies.
//! - \[W2\] All else goes in by batches, each whole or not at all, in one order, and the progress says up to where
//!   (\[R1\] of [`super::resume`]). So what is loaded after an interruption is what is missing.
//!
//! A load that is one bulk load, or one batch, keeps no progress: there is nothing to go on with.
//!
//! Tested in `tests/` through the program, with kills.

use super::intake::PieceWriter;
use super::resume::{self, PROGRESS_KEY, PROGRESS_TREE, Progress};
use super::run::Run;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupts;
use crate::progress::{Progress as Shown, Unit};
use latchkv::{Db, Durability, Tree, WriteBatch};
use std::collections::BTreeSet;

/// Bytes of a batch, after which it is committed whatever its rows: well within one record of the log.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// How records are committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Records of a commit at most.
    pub(super) rows_max: u64,
    /// What a commit waits for.
    pub(super) durability: Durability,
}

/// Writes into the trees of one database.
pub(super) struct Writer<'d> {
    db: &'d Db,
    pace: Pace,
    trees: Vec<Option<Tree>>,
    progress: Progress,
    progress_tree: Option<Tree>,
    /// Trees that have a record of their own beside the progress, or get one by the next commit (\[R4\]).
    bound: BTreeSet<String>,
    /// Such records that the next commit has to write.
    to_bind: Vec<(String, Vec<u8>)>,
    batch: WriteBatch,
    batch_rows: u64,
    /// Records that this process has brought in.
    rows_written: u64,
    interrupts: Interrupts,
    shown: Shown,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("progress", &self.progress).finish_non_exhaustive()
    }
}

impl<'d> Writer<'d> {
    /// A writer that goes on where `progress` is.
    pub(super) fn new(
        db: &'d Db,
        pace: Pace,
        progress: Progress,
        interrupts: Interrupts,
        quiet: bool,
    ) -> Writer<'d> {
        let mut shown = Shown::start(quiet, "writing", Unit::Records, Some(progress.records));
        shown.set(progress.done());
        let batch = WriteBatch::new();
        Writer {
            db,
            pace,
            trees: Vec::new(),
            progress,
            progress_tree: None,
            bound: BTreeSet::new(),
            to_bind: Vec::new(),
            batch,
            batch_rows: 0,
            rows_written: 0,
            interrupts,
            shown,
        }
    }

    /// Writes a sorted run that is the whole input; its trees are indices into `names`.
    pub(super) fn write_all(&mut self, names: &[String], run: &Run) -> Outcome {
        self.write(names, run, true)
    }

    fn write(&mut self, names: &[String], run: &Run, is_all: bool) -> Outcome {
        let mut pass_over = self.progress.written;
        // Tree and key of the record that was written last.
        let mut latest: Option<(&str, &[u8])> = None;
        for (index, records) in run.trees() {
            let skipped = pass_over.min(records.len());
            pass_over -= skipped;
            let records = records.skip(skipped);
            let (Some(first), Some(last)) = (records.first_key(), records.last_key()) else {
                continue;
            };
            let name = &names[index as usize];
            let tree = self.tree(names, index as usize)?;
            if is_all && skipped == 0 && tree.is_empty()? {
                if self.batch_rows > 0 {
                    self.commit(latest)?;
                }
                tree.bulk_load(records.iter().inspect(|_| self.shown.add(1)))?;
                self.bind(&tree, first);
                latest = Some((name, last));
                self.rows_written += records.len();
                self.progress.written += records.len();
                let is_last = index as usize + 1 >= names.len();
                if !is_last {
                    self.commit(latest)?;
                }
                continue;
            }
            self.bind(&tree, first);
            for (key, value) in records.iter() {
                // By what it will be, so that no batch is over the limit for more than one record.
                let bytes = self.batch.bytes() + key.len() + value.len();
                let is_full = self.batch_rows >= self.pace.rows_max || bytes > BATCH_BYTES_MAX;
                if is_full && self.batch_rows > 0 {
                    self.commit(latest)?;
                }
                self.batch.put(&tree, key, value)?;
                self.batch_rows += 1;
                latest = Some((name, key));
            }
        }
        self.end_piece(run.arrived(), latest)
    }

    /// Has the progress know the tree from the commit on that has this record.
    fn bind(&mut self, tree: &Tree, first: &[u8]) {
        if self.bound.insert(tree.name().to_owned()) {
            self.to_bind.push(resume::bound(tree, first));
        }
    }

    /// The rest of a piece, and the step to the next.
    fn end_piece(&mut self, arrived: u64, latest: Option<(&str, &[u8])>) -> Outcome {
        let rows = std::mem::take(&mut self.batch_rows);
        let before = (self.progress.finished, self.progress.written);
        (self.progress.finished, self.progress.written) = (before.0 + arrived, 0);
        let done = self.commit_batch(latest);
        match done {
            Ok(()) => {
                self.rows_written += rows;
                self.shown.set(self.progress.done());
            }
            Err(_) => (self.progress.finished, self.progress.written) = before,
        }
        done
    }

    /// Commits the batch and its progress, within a piece. After that is the time to end, if the user wants it.
    fn commit(&mut self, latest: Option<(&str, &[u8])>) -> Outcome {
        let rows = std::mem::take(&mut self.batch_rows);
        self.progress.written += rows;
        if let Err(failure) = self.commit_batch(latest) {
            self.progress.written -= rows;
            return Err(failure);
        }
        self.rows_written += rows;
        self.shown.add(rows);
        self.interrupts.check()
    }

    fn commit_batch(&mut self, latest: Option<(&str, &[u8])>) -> Outcome {
        let mut batch = std::mem::take(&mut self.batch);
        let to_bind = std::mem::take(&mut self.to_bind);
        if let Some((tree, key)) = latest {
            self.progress.set_latest(tree, key);
        }
        let is_last = self.progress.is_complete();
        match (&self.progress_tree, is_last) {
            (None, true) => {}
            (Some(tree), true) => batch.delete(tree, PROGRESS_KEY)?,
            (_, false) => {
                let tree = self.progress_tree()?;
                for (key, value) in to_bind {
                    batch.put(&tree, key, value)?;
                }
                batch.put(&tree, PROGRESS_KEY, self.progress.to_bytes())?;
            }
        }
        if !batch.is_empty() {
            self.db.write_with(&batch, self.pace.durability)?;
        }
        Ok(())
    }

    fn progress_tree(&mut self) -> Outcome<Tree> {
        if self.progress_tree.is_none() {
            self.progress_tree = Some(self.db.tree(PROGRESS_TREE)?);
        }
        Ok(self.progress_tree.clone().expect("made above"))
    }

    fn tree(&mut self, names: &[String], index: usize) -> Outcome<Tree> {
        if self.trees.len() <= index {
            self.trees.resize_with(index + 1, || None);
        }
        if self.trees[index].is_none() {
            self.trees[index] = Some(self.db.tree(&names[index])?);
        }
        Ok(self.trees[index].clone().expect("opened above"))
    }

    /// Creates the trees of which no record came, forgets the progress, and makes everything durable.
    pub(super) fn finish(&mut self, names: &[String]) -> Outcome {
        if !self.progress.is_complete() {
            return Err(Failure::Error(
                "the input changed while it was read: it had other records the second time".into(),
            ));
        }
        for index in 0..names.len() {
            self.tree(names, index)?;
        }
        if self.progress_tree.take().is_some() {
            Progress::forget(self.db)?;
        }
        Ok(self.db.sync()?)
    }

    /// Goes on with the progress that was found in the database, which knows these trees.
    pub(super) fn adopt_progress_tree(&mut self, bound: BTreeSet<String>) -> Outcome {
        self.bound = bound;
        self.progress_tree().map(drop)
    }

    /// Records that this process has brought in.
    pub(super) fn rows_written(&self) -> u64 {
        self.rows_written
    }

    /// How far the load is.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl PieceWriter for Writer<'_> {
    fn write_piece(&mut self, names: &[String], run: &Run) -> Outcome {
        self.write(names, run, false)
    }
}
