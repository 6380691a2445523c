//! Histories of several threads.
//!
//! Each thread commits to trees that all share, by transactions and batches, which say their lsn; and changes a tree
//! of its own by single calls, which do not. What a crash may leave:
//!
//! - \[T1] Of the shared trees, the state after some prefix of the commits in the order of their lsns.
//! - \[T2] Of a thread's own tree, the state after some prefix of its single calls. Those that it made before its
//!   last surviving commit are there, those that it made after its first lost one are not.
//! - \[T3] What was acknowledged is in both, and nothing that had not begun.

use crate::disks::{Lies, open};
use crate::oracle::{Bytes, Content, State, read};
use crate::workload::{draw_durability, options};
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, MachineSnapshot, OpKind, Record as Recorded, SimMachine};
use latchkv::{Db, Durability, Error, Isolation, TransactionOptions, Tree, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARED: [&str; 2] = ["a", "b"];

/// A change of a shared tree.
type Change = (&'static str, Vec<u8>, Option<Bytes>);

/// When something happened, by the calls of the disks and by the order of all.
#[derive(Clone, Copy)]
struct Times {
    /// Calls of the disks before it.
    began: u64,
    /// Calls of the disks when it was acknowledged.
    done: u64,
    level: Durability,
    /// When it ended, by the clock of all threads.
    ended: u64,
}

struct Commit {
    lsn: u64,
    thread: usize,
    changes: Vec<Change>,
    times: Times,
}

/// A call for a thread's own tree.
struct Single {
    /// Commits of the thread before it.
    commits_before: usize,
    after: State,
    times: Times,
}

/// A call that acknowledges everything before it.
struct Covering {
    /// By the clock of all threads.
    began: u64,
    done: u64,
    level: Durability,
}

/// What happened.
pub(crate) struct Record {
    pub(crate) moments: Vec<MachineSnapshot>,
    /// Ascending by lsn.
    commits: Vec<Commit>,
    /// The shared trees after so many of them.
    shared: Vec<State>,
    /// By thread.
    singles: Vec<Vec<Single>>,
    covering: Vec<Covering>,
}

fn own_name(thread: usize) -> String {
    format!("own {thread}")
}

fn state_of(name: &str, content: Content) -> State {
    State { trees: [(name.into(), Arc::new(content))].into() }
}

/// What a thread needs.
struct Worker<'a> {
    db: &'a Db,
    machine: &'a SimMachine,
    clock: &'a AtomicU64,
    thread: usize,
    durability: Durability,
    rng: Rng,
}

/// What a thread did.
type Done = (Vec<Commit>, Vec<Single>);

impl Worker<'_> {
    fn times(&self, began: u64, level: Durability) -> Times {
        let done = self.machine.op_count(OpKind::Any);
        // Relaxed: read-modify-writes of one word have one order, and the rest is ordered by the calls.
        Times { began, done, level, ended: self.clock.fetch_add(1, Ordering::Relaxed) }
    }

    fn value(&mut self, number: usize) -> Bytes {
        let len = if self.rng.u8(0..30) == 0 { 12_000 } else { self.rng.usize(16..300) };
        let word = ((self.thread as u64) << 32 | number as u64).to_le_bytes();
        (0..len).map(|at| word[at % 8]).collect()
    }

    fn work(mut self, shared: &[Tree]) -> Result<Done, String> {
        let said = |error: Error| format!("a thread: {error}");
        let name = own_name(self.thread);
        let own = self.db.open_tree(&name).map_err(said)?.ok_or("a tree is gone")?;
        let mut content = Content::new();
        let (mut commits, mut singles) = (Vec::new(), Vec::new());
        for number in 0..self.rng.usize(4..14) {
            let began = self.machine.op_count(OpKind::Any);
            if self.rng.bool() {
                let key = [self.rng.u8(0..6)];
                if content.contains_key(&key[..]) && self.rng.u8(0..3) == 0 {
                    own.delete(key).map_err(said)?;
                    content.remove(&key[..]);
                } else {
                    let value = self.value(number);
                    own.put(key, &value).map_err(said)?;
                    content.insert(key[..].into(), value);
                }
                let times = self.times(began, self.durability);
                let after = state_of(&name, content.clone());
                singles.push(Single { commits_before: commits.len(), after, times });
                continue;
            }
            let mut changes: Vec<Change> = Vec::new();
            let count = if self.rng.u8(0..16) == 0 { 150 } else { self.rng.usize(1..5) };
            for _ in 0..count {
                let key = format!("key {}", self.rng.u8(0..if count > 5 { 200 } else { 24 }));
                let value =
                    (changes.is_empty() || self.rng.u8(0..4) > 0).then(|| self.value(number));
                let tree = SHARED[self.rng.usize(0..SHARED.len())];
                // Each key once: the first value stays, so that no two states are the same.
                if changes.iter().all(|change| (change.0, &change.1[..]) != (tree, key.as_bytes()))
                {
                    changes.push((tree, key.into_bytes(), value));
                }
            }
            let level = draw_durability(&mut self.rng);
            let committed = if self.rng.bool() {
                self.batch(shared, &changes, level)
            } else {
                self.transaction(shared, &mut changes, level)
            };
            match committed {
                Ok(lsn) => {
                    let times = self.times(began, level);
                    commits.push(Commit { lsn, thread: self.thread, changes, times });
                }
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(said(error)),
            }
        }
        Ok((commits, singles))
    }

    fn batch(
        &self,
        shared: &[Tree],
        changes: &[Change],
        level: Durability,
    ) -> latchkv::Result<u64> {
        let mut batch = WriteBatch::new();
        for (tree, key, value) in changes {
            let tree = &shared[usize::from(*tree == SHARED[1])];
            match value {
                Some(value) => batch.put(tree, key, value)?,
                None => batch.delete(tree, key)?,
            }
        }
        self.db.write_with(&batch, level).map(|lsn| lsn.0)
    }

    fn transaction(
        &mut self,
        shared: &[Tree],
        changes: &mut Vec<Change>,
        level: Durability,
    ) -> latchkv::Result<u64> {
        let isolation = [Isolation::Snapshot, Isolation::Serializable][self.rng.usize(0..2)];
        let terms = TransactionOptions::new().isolation(isolation).durability(level);
        let mut transaction = self.db.begin_with(&terms)?;
        let mut failed = None;
        changes.retain(|(tree, key, value)| {
            let tree = &shared[usize::from(*tree == SHARED[1])];
            let changed = match value {
                Some(value) => transaction.put(tree, key, value).map(|()| true),
                // What was not there is not written: somebody else may put it meanwhile.
                None => transaction.delete(tree, key),
            };
            changed.unwrap_or_else(|error| failed.replace(error).is_some())
        });
        if let Some(error) = failed {
            return Err(error);
        }
        transaction.commit().map(|lsn| lsn.0)
    }
}

/// Runs two to four threads, and checkpoints, syncs and flushes beside them.
pub(crate) fn run(lies: Lies, rng: &mut Rng) -> Result<Record, String> {
    let said = |error: Error| format!("beside threads: {error}");
    let durability = draw_durability(rng);
    let machine = SimMachine::new(rng.u64(..));
    let db = open(&machine, &options(rng).durability(durability), lies).map_err(said)?;
    let threads = rng.usize(2..5);
    let shared = SHARED.map(|name| db.tree(name));
    let shared = shared.into_iter().collect::<latchkv::Result<Vec<_>>>().map_err(said)?;
    for thread in 0..threads {
        db.tree(own_name(thread)).map_err(said)?;
    }
    db.checkpoint().map_err(said)?;
    machine.record_history(Recorded::Changes);
    let clock = AtomicU64::new(1);
    let mut covering = Vec::new();
    let results: Vec<Result<Done, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (db, machine, clock, rng) = (&db, &machine, &clock, rng.fork());
                let worker = Worker { db, machine, clock, thread, durability, rng };
                let shared = &shared;
                scope.spawn(move || worker.work(shared))
            })
            .collect();
        for _ in 0..rng.usize(0..5) {
            // Relaxed: see `Worker::times`.
            let began = clock.fetch_add(1, Ordering::Relaxed);
            let (level, called) = match rng.u8(0..3) {
                0 => (Durability::Sync, db.checkpoint().map(drop)),
                1 => (Durability::Sync, db.sync()),
                _ => (Durability::Buffered, db.flush()),
            };
            if called.is_ok() {
                covering.push(Covering { began, done: machine.op_count(OpKind::Any), level });
            }
            std::thread::yield_now();
        }
        let join = |running: std::thread::ScopedJoinHandle<'_, _>| {
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    });
    drop(shared);
    let last = read(&db)?;
    drop(db);
    let (mut commits, mut singles) = (Vec::new(), Vec::new());
    for done in results {
        let (by_thread, alone) = done?;
        commits.extend(by_thread);
        singles.push(alone);
    }
    commits.sort_by_key(|commit| commit.lsn);
    let mut state = State::default();
    state.trees.extend(SHARED.map(|name| (name.into(), Arc::default())));
    let mut shared = vec![state.clone()];
    for commit in &commits {
        for (tree, key, value) in &commit.changes {
            state.set(tree, key, value.as_ref());
        }
        shared.push(state.clone());
    }
    let mut moments = machine.history();
    moments.push(machine.snapshot());
    let record = Record { moments, commits, shared, singles, covering };
    record
        .judge_state(&last, u64::MAX, None)
        .map_err(|said| format!("before any crash: {said}"))?;
    Ok(record)
}

impl Record {
    /// Holds what a database has against what is allowed after a power cut when the disks had had `op` calls.
    pub(crate) fn judge(&self, db: &Db, op: u64, mode: CrashMode) -> Result<u64, String> {
        let found = read(db)?;
        self.judge_state(&found, op, Some(mode)).map(|()| found.digest())
    }

    /// As [`judge`](Record::judge); without a crash everything is required.
    fn judge_state(&self, found: &State, op: u64, mode: Option<CrashMode>) -> Result<(), String> {
        let level = match mode {
            None => Durability::None,
            Some(CrashMode::KeepAll) => Durability::Buffered,
            Some(_) => Durability::Sync,
        };
        let covered = self.covering.iter().filter(|call| call.done <= op && call.level >= level);
        let covered = covered.map(|call| call.began).max().unwrap_or(0);
        let required =
            |times: &Times| times.done <= op && times.level >= level || times.ended < covered;

        let mut mine = found.clone();
        mine.trees.retain(|name, _| SHARED.contains(&&**name));
        let Some(kept) = self.shared.iter().rposition(|state| *state == mine) else {
            let last = self.shared.last().expect("there is a first");
            return Err(format!("no prefix of the commits [T1]: {}", last.difference(&mine)));
        };
        let first_lost = &self.commits[kept..];
        if let Some(lost) = first_lost.iter().find(|commit| required(&commit.times)) {
            return Err(format!("{kept} commits are there, that of lsn {} is not [T3]", lost.lsn));
        }
        if self.commits[..kept].iter().any(|commit| commit.times.began >= op) {
            return Err("a commit is there that had not begun [T3]".into());
        }
        for (thread, singles) in self.singles.iter().enumerate() {
            let survived = self.commits[..kept].iter().filter(|commit| commit.thread == thread);
            let survived = survived.count();
            let must = singles
                .iter()
                .rposition(|single| single.commits_before < survived || required(&single.times));
            let may = singles
                .iter()
                .take_while(|single| single.commits_before <= survived && single.times.began < op);
            let (least, most) = (must.map_or(0, |last| last + 1), may.count());
            let name = own_name(thread);
            let content = found.trees.get(&*name).ok_or("a thread's tree is gone")?;
            let is_empty = least == 0 && content.is_empty();
            let mut counts = least..=most;
            let is_there = counts.any(|count| {
                count > 0 && singles[count - 1].after.trees.values().next() == Some(content)
            });
            if least > most || !is_empty && !is_there {
                return Err(format!(
                    "thread {thread}: not the state after {least} to {most} of its calls [T2]"
                ));
            }
        }
        Ok(())
    }
}
