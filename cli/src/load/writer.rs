//! Writes sorted runs into trees, all or nothing where that can be had.
//!
//! ```text
//! tree absent or empty    staging tree <- bulk load, puts;  at the end: drop the empty one, rename
//! tree with records       puts in place
//! ```
//!
//! Invariants:
//! - \[W1\] A tree that had no records has either all of the input or none of it, whatever fails and
//!   whenever the process dies: its name appears only once everything is in.
//! - \[W2\] In a tree that had records, each record of the input is there whole or not at all, and after a
//!   failure the number of those that are there is known.
//! - \[W3\] Staging trees of a process that died are dropped by the next load.
//!
//! Tested in `tests/` through the program, with kills.

use super::run::{Records, Run};
use crate::exit::Outcome;
use crate::progress::{Progress, Unit};
use crate::words::counted;
use latchkv::{Db, Tree};

/// Names of staging trees begin with this; no tree can be loaded under such a name.
pub(super) const STAGING_PREFIX: &str = "latchkv.loading.";

/// Writes into the trees of one database.
pub(super) struct Writer<'d> {
    db: &'d Db,
    targets: Vec<Option<Target>>,
    progress: Progress,
}

struct Target {
    tree: Tree,
    /// Name of the staging tree; `None` for a tree that had records and for one that is complete.
    staging: Option<String>,
    /// Records put in place of a tree that had some.
    in_place: u64,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

impl<'d> Writer<'d> {
    /// A writer; `records` is the number that will be written, for the progress.
    pub(super) fn new(db: &'d Db, quiet: bool, records: u64) -> Writer<'d> {
        let progress = Progress::start(quiet, "writing", Unit::Records, Some(records));
        Writer { db, targets: Vec::new(), progress }
    }

    /// Writes a sorted run; its trees are indices into `names`.
    pub(super) fn write(&mut self, names: &[String], run: &Run) -> Outcome {
        for (index, records) in run.trees() {
            let index = index as usize;
            if self.targets.len() <= index {
                self.targets.resize_with(index + 1, || None);
            }
            if self.targets[index].is_none() {
                self.targets[index] = Some(prepare(self.db, index, &names[index])?);
            }
            let target = self.targets[index].as_mut().expect("prepared above");
            target.write(records, &mut self.progress)?;
        }
        Ok(())
    }

    /// Gives every tree its name. Trees of which no record came are created empty.
    pub(super) fn finish(&mut self, names: &[String]) -> Outcome {
        for (index, name) in names.iter().enumerate() {
            match self.targets.get_mut(index).and_then(Option::as_mut) {
                Some(Target { staging: Some(staging), .. }) => {
                    self.db.drop_tree(name)?;
                    self.db.rename_tree(staging, name)?;
                }
                Some(_) => {}
                None => drop(self.db.tree(name)?),
            }
            if let Some(target) = self.targets.get_mut(index).and_then(Option::as_mut) {
                target.staging = None;
            }
        }
        Ok(())
    }

    /// After a failure: drops what is not complete and says what remains.
    pub(super) fn undo(self, names: &[String]) -> String {
        let mut remains = Vec::new();
        for (target, name) in self.targets.into_iter().zip(names) {
            match target {
                Some(Target { staging: Some(staging), .. }) => {
                    // What cannot be dropped now is dropped by the next load [W3].
                    let _ = self.db.drop_tree(&staging);
                }
                Some(Target { in_place, .. }) if in_place > 0 => {
                    remains.push(format!(
                        "{} {} in tree {name:?}, which had others before",
                        counted(in_place, "record"),
                        if in_place == 1 { "is" } else { "are" }
                    ));
                }
                _ => {}
            }
        }
        if remains.is_empty() { "nothing was loaded".into() } else { remains.join("; ") }
    }
}

/// Drops what a killed load has left.
pub(super) fn drop_leftovers(db: &Db) -> Outcome {
    for name in db.trees()? {
        if name.starts_with(STAGING_PREFIX) {
            db.drop_tree(&name)?;
        }
    }
    Ok(())
}

fn prepare(db: &Db, index: usize, name: &str) -> Outcome<Target> {
    let existing = db.open_tree(name)?;
    if let Some(tree) = existing
        && !tree.is_empty()?
    {
        return Ok(Target { tree, staging: None, in_place: 0 });
    }
    let staging = format!("{STAGING_PREFIX}{index}");
    Ok(Target { tree: db.tree(&staging)?, staging: Some(staging), in_place: 0 })
}

impl Target {
    fn write(&mut self, records: Records<'_>, progress: &mut Progress) -> Outcome {
        if self.staging.is_some() && self.tree.is_empty()? {
            self.tree.bulk_load(records.iter().inspect(|_| progress.add(1)))?;
            return Ok(());
        }
        for (key, value) in records.iter() {
            self.tree.put(key, value)?;
            progress.add(1);
            self.in_place += u64::from(self.staging.is_none());
        }
        Ok(())
    }
}
