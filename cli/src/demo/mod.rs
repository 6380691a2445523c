//! `latchkv demo`: the engine at work on real files, and the proof that nothing was lost.
//!
//! ```text
//! find -> take in -> build -> work at once -> close -> kill, recover -> reopen -> check -> compare
//!         8 threads   bulk     8 threads and   all     a process of          all pages   files with the disk,
//!         read+put    load     a checkpoint    durable its own, see `crash`  read        work with its models
//! ```
//!
//! It ends with OK and 0, or with FAILED, the reason and 3. Bounded: so many files, so many bytes, so
//! many seconds. Nothing outside a temporary folder is written, and that is removed unless `--keep`.

mod committer;
mod crash;
mod files;
mod work;

pub(crate) use committer::commit_until_killed;

use crate::args::{Demo, Global};
use crate::exit::{Failure, Outcome};
use crate::open;
use crate::words::counted;
use indicatif::{HumanBytes, HumanCount};
use latchkv::Db;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Threads that work at once.
const THREADS: usize = 8;
/// Cache unless `--cache` says otherwise, in bytes: small, so that pages are evicted and read again.
const CACHE_BYTES: u64 = 64 << 20;
/// Time after which the committing process is killed.
const KILL_AFTER: Duration = Duration::from_millis(1500);
/// Name of the tree of files.
const FILES_TREE: &str = "files";
/// Name of the tree that the threads work on.
const WORK_TREE: &str = "work";

/// Runs the command.
pub(crate) fn demo(global: &Global, args: &Demo) -> Outcome {
    if let Some(dir) = &args.dir
        && let Err(error) = fs::read_dir(dir)
    {
        return Err(Failure::Error(format!(
            "--dir {}: {error}: name a folder that exists and that you may read",
            dir.display()
        )));
    }
    let failed = |error| Failure::file("creating a folder in", &std::env::temp_dir(), error);
    let mut folder = tempfile::Builder::new().prefix("latchkv-demo-").tempdir().map_err(failed)?;
    folder.disable_cleanup(args.keep);
    let path = folder.path().join("db");
    let outcome = show(global, args, &path);
    if args.keep {
        say(&format!("the database is kept in {}", path.display()))?;
    }
    match &outcome {
        Ok(()) => say(
            "OK: every key was found where it should be, and every acknowledged commit after the kill",
        )?,
        Err(Failure::BrokenPipe) => {}
        Err(_) => say("FAILED")?,
    }
    outcome
}

fn show(global: &Global, args: &Demo, path: &Path) -> Outcome {
    let mut global = global.clone();
    global.cache.get_or_insert(CACHE_BYTES);
    let mut table = Table::default();

    let (found, time) = timed(|| Ok(files::find(args.dir.as_deref())))?;
    if found.files.is_empty() {
        return Err(Failure::Error(match &args.dir {
            None => "no readable files were found: name a folder with --dir".into(),
            Some(dir) => format!("no readable files in {}: name another folder", dir.display()),
        }));
    }
    let roots: Vec<String> = found.roots.iter().map(|root| root.display().to_string()).collect();
    say(&format!("files from {}", roots.join(", ")))?;
    table.row("find", time, counted(found.files.len() as u64, "file"))?;

    let db = open::options(&global).durability(args.durability.level()).create(path)?;
    let tree = db.tree(FILES_TREE)?;
    let key_bytes_max = db.limits().key_bytes_max;
    let (taken, time) = timed(|| files::take_in(&tree, &found.files, key_bytes_max))?;
    let bytes = taken.iter().map(|file| file.bytes).sum();
    let what = format!(
        "{}, {}: {}, {}",
        counted(taken.len() as u64, "file"),
        HumanBytes(bytes),
        per_second("files", taken.len() as u64, time),
        HumanBytes((bytes as f64 / seconds(time)) as u64),
    );
    table.row("take in", time, what + "/s")?;

    let (work, time) = timed(|| work::build(&db.tree(WORK_TREE)?))?;
    let rate = per_second("keys", work::PERMANENT_KEYS, time);
    table.row("build", time, format!("{} keys: {rate}", HumanCount(work::PERMANENT_KEYS)))?;

    let (done, time) = timed(|| work.run(&db, &tree, &taken, Duration::from_secs(args.seconds)))?;
    table.row(
        "work at once",
        time,
        format!("{THREADS} threads, {}", counted(done.scans, "scan")),
    )?;
    table.note(per_second("reads", done.reads, time))?;
    table.note(per_second("writes", done.writes, time))?;
    table.note(per_second("records scanned", done.scanned, time))?;
    let checkpoint_ms = done.checkpoint.as_secs_f64() * 1e3;
    table.note(format!("a checkpoint meanwhile took {checkpoint_ms:.0} ms"))?;
    let statistics = db.stats().to_string();

    drop(tree);
    let ((), time) = timed(|| Ok(db.close()?))?;
    let data_bytes = files::bytes_below(path);
    table.row("close", time, format!("{} on disk", HumanBytes(data_bytes)))?;

    let writer = crash::start(&global, path)?;
    let (killed, time) = timed(|| writer.kill_after(KILL_AFTER))?;
    let acknowledged = killed.acknowledged();
    let what = format!(
        "a process of its own, {} threads, {} acknowledged, killed",
        crash::THREADS,
        counted(acknowledged, "durable commit"),
    );
    table.row("commit", time, what)?;
    let (recovered, time) = timed(|| crash::recover(&global, path))?;
    let applied = counted(recovered, "commit");
    table.row(
        "recover",
        time,
        format!("{applied} of the log applied, one of which made the tree"),
    )?;
    let (text, time) = timed(|| killed.verify(&global, path))?;
    table.row("look for them", time, text)?;

    let (db, time) = timed(|| open::read_only(&global, path))?;
    table.row("reopen", time, String::new())?;
    let (text, time) = timed(|| check(&db))?;
    table.row("check", time, text)?;
    let (text, time) = timed(|| {
        let tree = open::tree(&db, FILES_TREE)?;
        let compared = files::compare(&tree, &taken)?;
        let kept = done.verify(&open::tree(&db, WORK_TREE)?)?;
        Ok(format!("{compared}; {} of the work are right", counted(kept, "key")))
    })?;
    table.row("compare", time, text)?;
    table.end()?;
    if !global.quiet {
        say(&format!("\nthe engine before closing:\n{}", statistics.trim_end()))?;
    }
    Ok(())
}

fn check(db: &Db) -> Outcome<String> {
    let report = db.check(|_| {})?;
    if let Some(problem) = report.problems.first() {
        let count = counted(report.problem_count, "problem");
        return Err(Failure::Error(format!("check found {count}, the first: {problem}")));
    }
    let (pages, records) = (counted(report.pages, "page"), counted(report.records, "record"));
    Ok(format!("{pages}, {records}, no problems"))
}

fn timed<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Duration)> {
    let started = Instant::now();
    let result = act()?;
    Ok((result, started.elapsed()))
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}

fn per_second(what: &str, count: u64, time: Duration) -> String {
    format!("{} {what}/s", HumanCount((count as f64 / seconds(time)) as u64))
}

fn say(line: &str) -> Outcome {
    writeln!(io::stdout(), "{line}").map_err(Failure::output)
}

/// Where the time went: printed row by row, with a sum at the end.
#[derive(Debug, Default)]
struct Table {
    sum: Duration,
}

impl Table {
    fn row(&mut self, phase: &str, time: Duration, what: String) -> Outcome {
        self.sum += time;
        let mut line = String::new();
        write!(line, "{phase:<14}{:>8.2} s  {what}", time.as_secs_f64())
            .expect("memory takes writes");
        say(line.trim_end())
    }

    fn note(&self, what: String) -> Outcome {
        say(&format!("{:<26}{what}", ""))
    }

    fn end(&mut self) -> Outcome {
        let sum = self.sum;
        self.row("in all", sum, String::new())
    }
}
