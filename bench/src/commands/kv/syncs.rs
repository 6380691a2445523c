//! System calls that sync, a commit: counted by `strace -f -c` in a child process.
//!
//! What opening costs is taken off by a second child that commits nothing. Not seen are writes by descriptors with
//! `O_DSYNC` (LMDB writes its meta page so) and syncs that io_uring does, so latchkv uses pread and pwrite here.

use super::Args;
use super::child::{Job, Work};
use super::contest::Contest;
use crate::Fail;
use crate::data::Data;
use crate::engines::kind::Kind;
use crate::report::{Report, Table};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is counted.
const CALLS: &str = "fsync,fdatasync,sync_file_range,msync";

/// Calls by their names.
type Counts = BTreeMap<String, u64>;

pub(super) fn run(
    args: &Args,
    _data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let mut table = Table::new(
        "system calls that sync, a commit, counted by strace",
        &["engine", "writers", "commits", "calls", "what that says"],
    )
    .keyed_by(2)
    .all_told();
    if !is_there() {
        let missing =
            "strace is not installed (Debian: apt-get install strace): syncs are not counted";
        if args.only.contains(&super::Experiment::Syncs) {
            return Err(missing.into());
        }
        return report.table(&table.note(missing));
    }
    let mut writers = vec![1, args.writers.iter().copied().max().unwrap_or(1)];
    writers.dedup();
    for &kind in &args.engines {
        for &threads in &writers {
            let count = args.writes.max(threads) as u64;
            match a_commit(args, kind, dir, count, threads as u64) {
                Ok(calls) => {
                    let words: Vec<String> =
                        calls.iter().map(|(name, calls)| format!("{name} {calls:.3}")).collect();
                    table.push([
                        kind.name().into(),
                        threads.into(),
                        count.into(),
                        words.join(", ").into(),
                        says(kind, threads, &calls).into(),
                    ]);
                }
                Err(error) => contest.fail(kind, "counting syncs", &error),
            }
        }
    }
    report.table(&table)
}

/// Calls by their names, a commit.
type CallsACommit = BTreeMap<String, f64>;

/// What follows from the calls.
fn says(kind: Kind, threads: usize, calls: &CallsACommit) -> &'static str {
    let medium: f64 = ["fsync", "fdatasync"].iter().filter_map(|name| calls.get(*name)).sum();
    if !kind.ways().to_medium {
        "does not reach the medium: durable rows are not compared with it"
    } else if threads == 1 && medium < 0.99 {
        "TOO FEW: a commit of one writer has to sync"
    } else if medium < 0.99 {
        "writers share syncs"
    } else {
        "each commit syncs"
    }
}

fn is_there() -> bool {
    let asked =
        Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// What `count` commits of `threads` writers call, less what opening a store does.
fn a_commit(
    args: &Args,
    kind: Kind,
    dir: &Path,
    count: u64,
    threads: u64,
) -> Result<CallsACommit, Fail> {
    let none = counted(args, kind, dir, 0, 1)?;
    let calls = counted(args, kind, dir, count, threads)?;
    Ok(calls
        .into_iter()
        .map(|(name, calls)| {
            let less = none.get(&name).copied().unwrap_or(0);
            (name, calls.saturating_sub(less) as f64 / count as f64)
        })
        .collect())
}

/// Calls of a child that makes `count` commits in a new store.
fn counted(args: &Args, kind: Kind, dir: &Path, count: u64, threads: u64) -> Result<Counts, Fail> {
    let dir = tempfile::tempdir_in(dir)?;
    let (path, table) = (dir.path().join("store"), dir.path().join("table"));
    let cache_mib = args.cache_mib;
    let job = Job { work: Work::Each, kind, path: &path, seed: 1, count, threads, cache_mib };
    let status = Command::new("strace")
        .args(["-f", "-c", "-e"])
        .arg(format!("trace={CALLS}"))
        .arg("-o")
        .arg(&table)
        .arg(std::env::current_exe()?)
        .args(job.args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("strace does not start: {error}"))?;
    if !status.success() {
        return Err(format!("{}: the child under strace failed: {status}", kind.name()).into());
    }
    Ok(counts(&std::fs::read_to_string(&table)?))
}

/// Reads the table that `strace -c` writes.
///
/// ```text
/// % time     seconds  usecs/call     calls    errors syscall
/// ------ ----------- ----------- --------- --------- ----------------
///  99.00    0.012000          12      1000         2 fdatasync
///   1.00    0.000120          12        10           fsync
/// ------ ----------- ----------- --------- --------- ----------------
/// 100.00    0.012120                  1010         2 total
/// ```
fn counts(table: &str) -> Counts {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (calls, name) = (words.get(3)?, words.last()?);
        CALLS.split(',').find(|call| call == name)?;
        Some(((*name).to_owned(), calls.parse().ok()?))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors_and_the_total_is_none() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 99.00    0.012000          12      1000         2 fdatasync
  1.00    0.000120          12        10           fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.012120                  1010         2 total
";
        let expected = [("fdatasync".to_owned(), 1000), ("fsync".to_owned(), 10)];
        assert_eq!(counts(table), Counts::from(expected));
        assert_eq!(counts(""), Counts::new());
    }
}
