//! `latchkv commit-until-killed`: a process that commits with many threads, and says on standard output what was
//! acknowledged. `demo` starts and kills it; so do the tests, and anybody who wants to pull a plug.
//!
//! ```text
//! keys     RUN.THREAD.COMMIT.PART     e.g. 0.3.00000017.1, in the tree `commits`
//! output   RUN THREAD COMMIT          a line for each commit, written after it was acknowledged
//! ```
//!
//! A commit has 1, 2 or 3 keys, and is then a call, a batch or a transaction. A thread begins its next commit when the
//! last is acknowledged. So after a kill, of each thread of a run, the commits 0 to some number are there, each with all
//! of its keys ([`Found`] checks that), no fewer than its last line says, and one more at most.

use crate::args::{CommitUntilKilled, Global};
use crate::exit::{Failure, Outcome};
use crate::keys::escaped;
use crate::open;
use latchkv::{Db, Durability, TransactionOptions, Tree, WriteBatch};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread;

/// The tree that commits go to.
pub(super) const COMMITS_TREE: &str = "commits";
/// Bytes of a value beyond its key.
const PADDING_BYTES: usize = 60;

/// Runs the command. Ends with an error, or when nobody reads the acknowledgements any more.
pub(crate) fn commit_until_killed(global: &Global, args: &CommitUntilKilled) -> Outcome {
    let durability = args.durability.level();
    let db = open::existing(global, &args.db, durability)?;
    let tree = db.tree(COMMITS_TREE)?;
    thread::scope(|scope| {
        let work = |thread| commit(&db, &tree, durability, (args.run, thread));
        let threads: Vec<_> =
            (0..args.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        // Those that still can go on do; the first failure is told when the last has ended.
        let ended: Vec<Outcome> = threads
            .into_iter()
            .map(|thread| thread.join().expect("threads do not panic"))
            .collect();
        ended.into_iter().collect()
    })
}

fn commit(db: &Db, tree: &Tree, durability: Durability, (run, thread): (u32, u32)) -> Outcome {
    let options = TransactionOptions::new().durability(durability);
    for number in 0.. {
        let record = |part| {
            let key = key(run, thread, number, part);
            let value = value_of(&key);
            (key, value)
        };
        match parts(number) {
            1 => {
                let (key, value) = record(0);
                tree.put(key, value)?;
            }
            2 => {
                let mut batch = WriteBatch::new();
                for (key, value) in [record(0), record(1)] {
                    batch.put(tree, key, value)?;
                }
                db.write_with(&batch, durability)?;
            }
            parts => {
                db.transact_with(&options, |transaction| {
                    for (key, value) in (0..parts).map(record) {
                        transaction.put(tree, key, value)?;
                    }
                    Ok(())
                })?;
            }
        }
        // In one write, so that a line is there whole or not at all.
        let line = format!("{run} {thread} {number}\n");
        io::stdout().lock().write_all(line.as_bytes()).map_err(Failure::output)?;
    }
    Ok(())
}

/// Number of keys of a commit.
fn parts(number: u64) -> u32 {
    1 + (number % 3) as u32
}

fn key(run: u32, thread: u32, number: u64, part: u32) -> String {
    format!("{run}.{thread}.{number:08}.{part}")
}

fn value_of(key: &str) -> String {
    format!("{key}={}", ".".repeat(PADDING_BYTES))
}

/// What a tree of commits holds: for each run and thread, the number of its commits.
#[derive(Debug, Default)]
pub(super) struct Found {
    commits: BTreeMap<(u32, u32), u64>,
}

impl Found {
    /// Reads the whole tree; fails where a commit is not whole, or one is missing before another.
    pub(super) fn read(tree: &Tree) -> Outcome<Found> {
        let mut keys: BTreeMap<(u32, u32), BTreeMap<u64, u32>> = BTreeMap::new();
        for entry in tree.iter() {
            let entry = entry?;
            let wrong = |what| Failure::Error(format!("key {} {what}", escaped(entry.key())));
            let text = std::str::from_utf8(entry.key()).map_err(|_| wrong("is of nobody"))?;
            if entry.value() != value_of(text).as_bytes() {
                return Err(wrong("has a foreign value"));
            }
            let numbers: Vec<u64> = text.split('.').filter_map(|word| word.parse().ok()).collect();
            let [run, thread, number, _part] = numbers[..] else {
                return Err(wrong("is of nobody"));
            };
            let of_thread = keys.entry((run as u32, thread as u32)).or_default();
            *of_thread.entry(number).or_default() += 1;
        }
        let mut found = Found::default();
        for ((run, thread), commits) in keys {
            let count = commits.len() as u64;
            for (expected, (number, keys)) in (0..).zip(commits) {
                if number != expected {
                    return Err(Failure::Error(format!(
                        "commit {expected} of thread {thread} of run {run} is lost, {number} is there"
                    )));
                }
                if keys != parts(number) {
                    let wanted = parts(number);
                    return Err(Failure::Error(format!(
                        "commit {number} of thread {thread} of run {run} is not whole: {keys} keys of {wanted}"
                    )));
                }
            }
            found.commits.insert((run, thread), count);
        }
        Ok(found)
    }

    /// Commits of a thread of a run.
    pub(super) fn commits_of(&self, run: u32, thread: u32) -> u64 {
        self.commits.get(&(run, thread)).copied().unwrap_or(0)
    }

    /// All commits.
    pub(super) fn count(&self) -> u64 {
        self.commits.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_of(keys: &[&str]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().expect("a folder");
        let options = latchkv::Options::new().cache_bytes(8 << 20).durability(Durability::None);
        let db = options.create(folder.path().join("db")).expect("room");
        let tree = db.tree(COMMITS_TREE).expect("room");
        for key in keys {
            tree.put(key, value_of(key)).expect("room");
        }
        (folder, tree)
    }

    #[test]
    fn whole_commits_without_gaps_are_counted() {
        let keys: Vec<String> = (0..3)
            .flat_map(|number| (0..parts(number)).map(move |part| key(7, 1, number, part)))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (_folder, tree) = tree_of(&keys);
        let found = Found::read(&tree).expect("sound");
        assert_eq!((found.count(), found.commits_of(7, 1), found.commits_of(7, 0)), (3, 3, 0));
    }

    #[test]
    fn half_a_commit_a_gap_and_foreign_keys_are_seen() {
        let none = "0.0.00000000.0";
        for (keys, part) in [
            (&[none, "0.0.00000001.0"][..], "is not whole: 1 keys of 2"),
            (&["0.0.00000003.0"], "commit 0 of thread 0 of run 0 is lost"),
            (&[none, "stranger"], "is of nobody"),
        ] {
            let (_folder, tree) = tree_of(keys);
            let failure = Found::read(&tree).expect_err("not sound");
            assert!(failure.to_string().contains(part), "{failure}");
        }
        let (_folder, tree) = tree_of(&[]);
        tree.put(none, "other").expect("room");
        let failure = Found::read(&tree).expect_err("not sound");
        assert!(failure.to_string().contains("foreign value"), "{failure}");
    }
}
