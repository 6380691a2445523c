//! A process killed in mid-commit, and the proof that nothing acknowledged is lost.
//!
//! ```text
//!   demo                                  the program again (`commit-until-killed`)
//!   start  ------------------------------> opens the database
//!   reads  <---- pipe: acknowledgements -- 8 threads: commit, sync, say so
//!   kill -9 -----------------------------> X
//!   reads what is left in the pipe, opens the database, looks for each commit
//! ```
//!
//! The kernel keeps what was written to the pipe before the kill, so the record of acknowledgements is complete. It is
//! outside of the database, and knows nothing of it.

use super::committer::{COMMITS_TREE, Found};
use crate::args::{BackendArg, Global};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::words::counted;
use clap::ValueEnum;
use indicatif::HumanCount;
use latchkv::{Durability, Error, OpenError};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Threads of the process that is killed.
pub(super) const THREADS: u32 = 8;
/// So many acknowledgements are waited for, and for so long at most, before the kill.
const ACKNOWLEDGED_MIN: u64 = 100;
const WAIT_MAX: Duration = Duration::from_secs(6);

/// The process while it lives.
#[derive(Debug)]
pub(super) struct Writer {
    child: Child,
    reader: JoinHandle<Acknowledged>,
    count: Arc<AtomicU64>,
}

/// For each thread, the number of its commits that were acknowledged.
type Acknowledged = BTreeMap<u32, u64>;

/// What is known of it when it is dead.
#[derive(Debug)]
pub(super) struct Killed {
    acknowledged: Acknowledged,
}

/// Starts the process.
pub(super) fn start(global: &Global, path: &Path) -> Outcome<Writer> {
    let failed = |error| Failure::Error(format!("starting this program once more failed: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("--quiet");
    if let Some(bytes) = global.cache {
        command.arg("--cache").arg(bytes.to_string());
    }
    if let Some(backend) = BackendArg::to_possible_value(&global.backend) {
        command.arg("--backend").arg(backend.get_name());
    }
    command.arg("commit-until-killed").arg(path);
    command.args(["--threads", &THREADS.to_string(), "--durability", "sync"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let output = child.stdout.take().expect("it was asked for");
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    let reader = thread::spawn(move || {
        let mut acknowledged = Acknowledged::new();
        // The pipe ends when the process does.
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            if let [_run, thread, number] = numbers[..] {
                acknowledged.insert(thread as u32, number + 1);
                // Relaxed: how many there are so far, and nothing else.
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
        acknowledged
    });
    Ok(Writer { child, reader, count })
}

impl Writer {
    /// Kills it after `time`, or when it has acknowledged enough, if that takes longer.
    pub(super) fn kill_after(mut self, time: Duration) -> Outcome<Killed> {
        let started = Instant::now();
        thread::sleep(time);
        // Relaxed: see above.
        while self.count.load(Ordering::Relaxed) < ACKNOWLEDGED_MIN && started.elapsed() < WAIT_MAX
        {
            thread::sleep(Duration::from_millis(10));
        }
        let failed =
            |error| Failure::Error(format!("killing the committing process failed: {error}"));
        let ended = self.child.try_wait().map_err(failed)?;
        // SIGKILL: nothing of it runs any more.
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        let acknowledged = self.reader.join().expect("the reader does not panic");
        match ended {
            Some(status) => Err(Failure::Error(format!(
                "the committing process ended by itself, with {status}, before it was killed"
            ))),
            None => Ok(Killed { acknowledged }),
        }
    }
}

/// Opens the database, which applies its log, and closes it. Gives the number of commits that were applied.
pub(super) fn recover(global: &Global, path: &Path) -> Outcome<u64> {
    let applied = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&applied);
    // Relaxed: read when the opening, on this thread, is over.
    let options = open::options(global)
        .durability(Durability::Sync)
        .on_recovery(move |at| seen.store(at.commits, Ordering::Relaxed));
    let started = Instant::now();
    loop {
        match options.open_existing(path) {
            // The kernel may finish what the dead process had under way, and only then give its lock up.
            Err(Error::Open(OpenError::Locked { .. })) if started.elapsed() < WAIT_MAX => {
                thread::sleep(Duration::from_millis(5));
            }
            opened => break opened?.close()?,
        }
    }
    Ok(applied.load(Ordering::Relaxed))
}

impl Killed {
    /// Number of acknowledged commits.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.values().sum()
    }

    /// Looks for every acknowledged commit, and says what was found.
    pub(super) fn verify(&self, global: &Global, path: &Path) -> Outcome<String> {
        let db = open::read_only(global, path)?;
        let acknowledged = self.acknowledged();
        if acknowledged == 0 {
            return Err(Failure::Error(format!(
                "the committing process acknowledged nothing within {WAIT_MAX:?}"
            )));
        }
        let found = Found::read(&open::tree(&db, COMMITS_TREE)?)?;
        for (&thread, &count) in &self.acknowledged {
            let there = found.commits_of(0, thread);
            if there < count {
                return Err(Failure::Error(format!(
                    "thread {thread} had {} acknowledged as durable, {} of them are there",
                    counted(count, "commit"),
                    HumanCount(there)
                )));
            }
        }
        let more = found.count() - acknowledged;
        Ok(format!(
            "all {} found, each whole; {} more, durable when the kill came before the word of it",
            counted(acknowledged, "acknowledged commit"),
            HumanCount(more)
        ))
    }
}
