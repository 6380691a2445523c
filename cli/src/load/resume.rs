//! Where a load is, kept in the database by the load's own commits, so that another can go on from there.
//!
//! ```text
//! tree latchkv.load:  progress -> {"version":2, "input":.., "records":.., "bytes":.., "hash":.., "sort_memory":..,
//!                                  "finished":.., "written":.., "latest":{"tree":.., "key":..}}
//!                     tree NAME -> {"id":.., "first":key}      for each tree that it has written to
//!
//! input    | piece 1 | piece 2 | piece 3 | ...      pieces of one sort memory each, in the order of the input
//!                              | sorted: ####......  |
//!           finished: records of pieces 1 and 2       written: so many of piece 3, in order of tree and key
//! ```
//!
//! Invariants:
//! - \[R1\] A commit that writes records of the input moves the progress in the same commit; the one that writes the
//!   last takes it away. So whatever a kill leaves, the records that are in are those that the progress says.
//! - \[R2\] A load goes on only with the same records in the same order for the same trees: their fingerprint
//!   is taken anew, from the whole input, before anything is written. With them, pieces and their order follow.
//! - \[R3\] A folder's files that were only looked at are known by length and time of change.
//! - \[R4\] A load goes on only in the trees that it has written to, with what it has written: each has the id that it
//!   had, which a tree of the same name that is made anew has not, and the first key that was put into it; the tree of
//!   the last commit has that commit's last key too. A tree that was cleared has neither. Who deletes one of these keys
//!   stops the load as well: it cannot be told from clearing, and no record is to be lost.
//!
//! Tested in `tests/kill.rs` and `tests/resume.rs`, with kills.

use crate::exit::{Failure, Outcome};
use crate::input::{Place, Value};
use crate::keys::escaped;
use indicatif::HumanCount;
use latchkv::{Db, Tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use xxhash_rust::xxh3::Xxh3;

/// The tree that the progress is kept in; no names that begin with this can be loaded into.
pub(crate) const PROGRESS_TREE: &str = "latchkv.load";
/// Key of the progress in it.
pub(super) const PROGRESS_KEY: &[u8] = b"progress";
/// What the keys of the records about trees begin with.
const TREE_KEY: &str = "tree ";
/// Version of what is kept, and of the order in which a load writes.
const VERSION: u32 = 2;

/// A tree as the load first wrote to it (\[R4\]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bound {
    id: u32,
    first: Vec<u8>,
}

/// The record of a tree to which the load writes for the first time, `first` being the first key.
pub(super) fn bound(tree: &Tree, first: &[u8]) -> (String, Vec<u8>) {
    let bound = Bound { id: tree.id().0, first: first.to_vec() };
    let value = serde_json::to_vec(&bound).expect("numbers become JSON");
    (format!("{TREE_KEY}{}", tree.name()), value)
}

/// The last record of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Latest {
    tree: String,
    key: Vec<u8>,
}

/// What an input is known by.
#[derive(Default)]
pub(super) struct Fingerprint {
    hash: Xxh3,
    records: u64,
    bytes: u64,
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fingerprint").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Fingerprint {
    /// The records that follow are for this tree.
    pub(super) fn tree(&mut self, name: &str) {
        self.part(0, name.as_bytes());
    }

    /// The next record.
    pub(super) fn record(&mut self, place: Place<'_>, key: &[u8], value: Value<'_>) {
        self.records += 1;
        self.bytes += key.len() as u64;
        self.part(1, key);
        match value {
            Value::Bytes(bytes) => {
                self.bytes += bytes.len() as u64;
                self.part(2, bytes);
            }
            Value::Unread(length) => {
                self.bytes += length;
                self.part(3, &length.to_le_bytes());
                if let Place::Path(path) = place
                    && let Ok(metadata) = fs::symlink_metadata(path)
                {
                    self.part(4, &metadata.mtime().to_le_bytes());
                    self.part(5, &metadata.mtime_nsec().to_le_bytes());
                }
            }
        }
    }

    fn part(&mut self, kind: u8, bytes: &[u8]) {
        let mut head = [kind; 9];
        head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.hash.update(&head);
        self.hash.update(bytes);
    }
}

/// A load that is under way, or was when its process died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    version: u32,
    /// What the input was called.
    input: String,
    /// Records of the input.
    pub(super) records: u64,
    bytes: u64,
    hash: u64,
    /// Memory for sorting, in bytes: it decides what a piece is.
    pub(super) sort_memory: u64,
    /// Records of the pieces that are in.
    pub(super) finished: u64,
    /// Records of the piece after them that are in, by the order in which they are written.
    pub(super) written: u64,
    /// The last of those that are in.
    latest: Option<Latest>,
}

impl Progress {
    /// Nothing is written yet.
    pub(super) fn new(input: &str, of: &Fingerprint, sort_memory: u64) -> Progress {
        Progress {
            version: VERSION,
            input: input.to_owned(),
            records: of.records,
            bytes: of.bytes,
            hash: of.hash.digest(),
            sort_memory,
            finished: 0,
            written: 0,
            latest: None,
        }
    }

    /// The last record of the commit that is to come.
    pub(super) fn set_latest(&mut self, tree: &str, key: &[u8]) {
        self.latest = Some(Latest { tree: tree.to_owned(), key: key.to_vec() });
    }

    /// The progress of a load into this database that was interrupted.
    pub(super) fn find(db: &Db) -> Outcome<Option<Progress>> {
        let Some(tree) = db.open_tree(PROGRESS_TREE)? else { return Ok(None) };
        let Some(bytes) = tree.get(PROGRESS_KEY)? else {
            // It ended between its last commit and its end.
            db.drop_tree(PROGRESS_TREE)?;
            return Ok(None);
        };
        match serde_json::from_slice::<Progress>(&bytes) {
            Ok(progress) if progress.version == VERSION => Ok(Some(progress)),
            _ => Err(Failure::Error(
                "another version of this program was interrupted while it loaded into this database: load the same input \
                 with that version, or give --restart to load from its start"
                    .into(),
            )),
        }
    }

    /// Forgets a load that was interrupted.
    pub(super) fn forget(db: &Db) -> Outcome {
        db.drop_tree(PROGRESS_TREE)?;
        Ok(())
    }

    /// Fails unless `of` is the same input (\[R2\]).
    pub(super) fn check(&self, input: &str, of: &Fingerprint) -> Outcome {
        let now = Progress::new(input, of, 0);
        if (now.records, now.bytes, now.hash) == (self.records, self.bytes, self.hash) {
            return Ok(());
        }
        let what = match self.input == input {
            true => format!("{input} has changed since"),
            false => format!("{input} does not hold the same records for the same trees"),
        };
        Err(Failure::Error(format!(
            "{}, and {what}: load what was loaded then, to finish it, or give --restart to leave it as it is and load \
             {input} from its start",
            self.interrupted()
        )))
    }

    /// Fails unless the trees are those that were written to, with what was written (\[R4\]). Gives their names.
    pub(super) fn check_trees(&self, db: &Db) -> Outcome<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let Some(progress) = db.open_tree(PROGRESS_TREE)? else { return Ok(names) };
        for entry in progress.prefix(TREE_KEY) {
            let entry = entry?;
            let name = std::str::from_utf8(&entry.key()[TREE_KEY.len()..]).ok();
            let bound = serde_json::from_slice::<Bound>(entry.value()).ok();
            let (Some(name), Some(bound)) = (name, bound) else {
                return Err(
                    self.not_here(format!("what it noted in {PROGRESS_TREE:?} makes no sense"))
                );
            };
            let Some(tree) = db.open_tree(name)? else {
                return Err(self.not_here(format!("tree {name:?} was dropped or renamed since")));
            };
            if tree.id().0 != bound.id {
                return Err(self.not_here(format!("tree {name:?} is another one than then")));
            }
            let latest = self.latest.as_ref().filter(|latest| latest.tree == name);
            let witnesses = [Some(&bound.first), latest.map(|latest| &latest.key)];
            for key in witnesses.into_iter().flatten() {
                if !tree.contains(key)? {
                    return Err(self.not_here(format!(
                        "tree {name:?} was cleared since, or has lost the key \"{}\"",
                        escaped(key)
                    )));
                }
            }
            names.insert(name.to_owned());
        }
        Ok(names)
    }

    /// It cannot go on, for this reason.
    fn not_here(&self, why: String) -> Failure {
        Failure::Error(format!(
            "{}, but {why}: to go on would leave out what was in. Give --restart to load all of it from its start; what \
             there is stays",
            self.interrupted()
        ))
    }

    /// Where it was interrupted.
    fn interrupted(&self) -> String {
        format!(
            "a load of {} into this database was interrupted behind {} of {} records",
            self.input,
            HumanCount(self.done()),
            HumanCount(self.records)
        )
    }

    /// Records that need not be written again, those of equal keys counted once within a piece.
    pub(super) fn done(&self) -> u64 {
        self.finished + self.written
    }

    /// Whether everything is in.
    pub(super) fn is_complete(&self) -> bool {
        self.finished == self.records
    }

    /// What is kept in the database.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts become JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(records: &[(&str, &str, &str)]) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        for (tree, key, value) in records {
            fingerprint.tree(tree);
            let value = Value::Bytes(value.as_bytes());
            fingerprint.record(Place::Line(1), key.as_bytes(), value);
        }
        fingerprint
    }

    #[test]
    fn only_the_same_records_in_the_same_order_and_trees_are_the_same_input() {
        let input = [("t", "a", "1"), ("t", "b", "2")];
        let progress = Progress::new("in", &of(&input), 1);
        progress.check("elsewhere", &of(&input)).expect("the same records");
        for other in [
            &[("t", "a", "1")][..],
            &[("t", "a", "1"), ("t", "b", "3")],
            &[("t", "b", "2"), ("t", "a", "1")],
            &[("u", "a", "1"), ("u", "b", "2")],
            &[("t", "a1", ""), ("t", "b", "2")],
        ] {
            let refused = progress.check("in", &of(other)).expect_err("another input");
            assert!(refused.to_string().contains("in has changed since"), "{refused}");
            assert_eq!(refused.code(), 3);
        }
        let refused = progress.check("other", &of(&[])).expect_err("another input");
        assert!(refused.to_string().contains("--restart"), "{refused}");
    }

    #[test]
    fn progress_is_read_back_as_it_was_kept() {
        let mut progress = Progress::new("in \"x\"\n", &of(&[("t", "k", "v")]), u64::MAX);
        (progress.finished, progress.written) = (7, 9);
        progress.set_latest("t", b"\xff\0");
        let read: Progress = serde_json::from_slice(&progress.to_bytes()).expect("JSON");
        assert_eq!(read, progress);
    }
}
