//! `latchkv load`: a folder or a file becomes a tree.
//!
//! ```text
//! was a load into this database interrupted?  --yes--> its progress
//! input --first pass--> everything parsed and within limits? --no--> exit 3, nothing written
//!                        |  the same input as that of the progress? --no--> exit 3, nothing written
//!           fits into the sort memory?  --yes--> sort, write what is missing
//!                        | no
//!                        +--second pass--> sort and write what is missing, piece by piece
//! then sync, checkpoint, close
//! ```
//!
//! Accounts of a dump go in first ([`restore`]), before any record.
//!
//! [`intake`] decides about records, [`run`] sorts them, [`writer`] commits them, [`resume`] knows how far the
//! load is; what each of them promises stands there. With `--user` all of it is one transaction of the account
//! ([`single`]), which has no progress to keep: an account needs rights on the trees that it loads and on no other.

mod intake;
mod restore;
mod resume;
mod run;
mod single;
mod writer;

pub(crate) use resume::PROGRESS_TREE;

use crate::access::{Access, only_one_standard_input};
use crate::args::{DEFAULT_TREE, Global, Load};
use crate::exit::{Failure, Outcome};
use crate::input::{Columns, Input};
use crate::interrupt::Interrupts;
use crate::progress::{Progress, Unit};
use crate::words::counted;
use indicatif::{HumanBytes, HumanCount};
use intake::{Intake, Mode, Rules, Tally};
use latchkv::Db;
use restore::OfAccounts;
use resume::Progress as LoadProgress;
use run::Run;
use std::path::Path;
use std::time::Instant;
use writer::{Pace, Writer};

/// Refuses the names of trees in which loads keep their progress.
pub(crate) fn not_a_reserved_name(name: &str) -> Outcome {
    if name.starts_with(PROGRESS_TREE) {
        return Err(Failure::Usage(format!(
            "tree {name:?}: names that begin with {PROGRESS_TREE} are taken: choose another"
        )));
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn load(global: &Global, args: Load) -> Outcome {
    let started = Instant::now();
    if let Some(name) = &args.tree {
        not_a_reserved_name(name)?;
    }
    let is_piped = args.input == Path::new("-");
    only_one_standard_input(&args.who, is_piped.then_some("the input"))?;
    let columns = args.key_column.zip(args.value_column);
    let columns = columns.map(|(key, value)| Columns { key, value });
    let input = Input::open(&args.input, args.format, columns, &args.db)?;
    let tree = match (args.tree, input.names_trees()) {
        (None, false) => Some(DEFAULT_TREE.to_string()),
        (tree, _) => tree,
    };
    let pace = Pace { rows_max: args.batch, durability: args.durability.level() };
    let interrupts = Interrupts::default();
    // Not while a password may be asked for, which Ctrl-C ends.
    if args.who.user.is_none() {
        interrupts.watch()?;
    }
    let mut access = Access::or_create(global, &args.db, &args.who, pace.durability)?;
    if args.who.user.is_some() {
        interrupts.watch()?;
    }
    let mut rules = Rules {
        key_bytes_max: 0,
        value_bytes_max: 0,
        keep_going: args.keep_going,
        sort_bytes_max: args.sort_memory,
        tree,
        tree_default: DEFAULT_TREE.to_string(),
        accounts: match args.who.user {
            _ if args.without_accounts => OfAccounts::LeaveOut,
            Some(_) => OfAccounts::Refuse,
            None => OfAccounts::Restore,
        },
        input: if is_piped { "standard input".into() } else { args.input.display().to_string() },
        interrupts,
    };
    rules.set_limits(&access.db().limits());
    let mut is_begun = false;
    let filled = match access.session() {
        Some(session) => single::fill(global, session, &input, &rules, pace.durability),
        None => fill(global, access.db(), &input, &mut rules, pace, args.restart, &mut is_begun),
    };
    let filled = match filled {
        Ok(filled) => filled,
        Err(failure) => {
            if is_begun {
                access.keep();
            }
            access.abandon();
            return Err(failure);
        }
    };
    access.close().map_err(not_closed)?;
    report(global, &filled, started);
    Ok(())
}

/// What a load has done.
#[derive(Debug)]
struct Filled {
    tally: Tally,
    /// Records that an earlier load, which was interrupted, had brought in.
    before: u64,
    /// Each tree with the number of its records.
    lengths: Vec<(String, u64)>,
}

/// Reads and writes; on failure says what is in the database. `is_begun` is set if something is.
fn fill(
    global: &Global,
    db: &Db,
    input: &Input,
    rules: &mut Rules,
    pace: Pace,
    restart: bool,
    is_begun: &mut bool,
) -> Outcome<Filled> {
    let unfinished = if restart { None } else { LoadProgress::find(db)? };
    if let Some(unfinished) = &unfinished {
        rules.sort_bytes_max = unfinished.sort_memory;
    }
    let rules = &*rules;
    let reading = || Progress::start(global.quiet, "reading", Unit::Bytes, input.bytes());
    let mut first = Intake::new(rules, Mode::Gather(Run::default()), reading());
    let goes_on = unfinished.is_some();
    let mut nothing = if goes_on { "nothing more was loaded" } else { "nothing was loaded" };
    input.read(&mut first).map_err(|failure| with_note(failure, nothing, goes_on))?;
    let Intake { mode, tally, trees, fingerprint, accounts, .. } = first;

    if restart {
        LoadProgress::forget(db)?;
    }
    let mut bound = None;
    let progress = match unfinished {
        None => LoadProgress::new(&rules.input, &fingerprint, rules.sort_bytes_max),
        Some(unfinished) => {
            unfinished.check(&rules.input, &fingerprint)?;
            bound = Some(unfinished.check_trees(db)?);
            if !global.quiet {
                let (done, all) = (HumanCount(unfinished.done()), HumanCount(unfinished.records));
                eprintln!(
                    "a load of this input was interrupted: going on behind {done} of {all} records"
                );
            }
            unfinished
        }
    };
    if restore::restore(db, &accounts, &rules.input)
        .map_err(|failure| with_note(failure, nothing, goes_on))?
    {
        *is_begun = true;
        nothing = "only the accounts are in";
        if !global.quiet {
            eprintln!(
                "accounts and namespaces restored: {}",
                counted(accounts.len() as u64, "record")
            );
        }
    }
    let (pass_over, before, all) = (progress.finished, progress.done(), progress.records);
    let mut writer = Writer::new(db, pace, progress, rules.interrupts.clone(), global.quiet);
    if let Some(bound) = bound {
        writer.adopt_progress_tree(bound)?;
    }
    let (written, tally) = match mode {
        Mode::Gather(mut run) => {
            run.sort();
            let written = if run.is_empty() { Ok(()) } else { writer.write_all(&trees, &run) };
            (written, tally)
        }
        _ => {
            let quiet = Progress::start(true, "", Unit::Bytes, None);
            let mode = Mode::Write { run: Run::default(), writer: &mut writer, pass_over };
            let mut second = Intake::new(rules, mode, quiet);
            let read = input.read(&mut second);
            (read.and_then(|()| second.finish()), second.tally)
        }
    };
    let finished = written.and_then(|()| writer.finish(&trees));
    let (rows, done) = (writer.rows_written(), writer.progress().done());
    *is_begun |= rows > 0;
    drop(writer);
    finished.map_err(|failure| match rows {
        0 => with_note(failure, nothing, goes_on),
        _ => {
            let is_in = format!("{} of {} are in", HumanCount(done), counted(all, "record"));
            with_note(failure, &is_in, true)
        }
    })?;
    let mut lengths = Vec::new();
    for name in trees {
        let length = db.tree(&name)?.len()?;
        lengths.push((name, length));
    }
    Ok(Filled { tally, before, lengths })
}

/// Says what a failure has left behind, and what the next load does.
fn with_note(failure: Failure, is_in: &str, goes_on: bool) -> Failure {
    match failure {
        Failure::Error(message) => {
            let there = if goes_on { ": it goes on behind what is in" } else { "" };
            let next = format!("once this is mended, load again{there}");
            Failure::Error(format!("{message}\n{is_in}; {next}"))
        }
        Failure::Interrupted(message) => {
            let next = if goes_on { "goes on behind what is in" } else { "loads all of it" };
            Failure::Interrupted(format!("{message}: {is_in}; the same command again {next}"))
        }
        other => other,
    }
}

/// Everything is in the log, but the last checkpoint failed.
fn not_closed(failure: Failure) -> Failure {
    Failure::Error(format!(
        "{failure}\neverything is loaded and durable in the log, but could not be written to its place: once this is \
         mended, the next opening for writing does it"
    ))
}

fn report(global: &Global, filled: &Filled, started: Instant) {
    let Filled { tally, before, lengths } = filled;
    for line in &tally.bad_shown {
        eprintln!("left out: {line}");
    }
    if tally.bad > 0 {
        let more = tally.bad - tally.bad_shown.len() as u64;
        let shown = if more > 0 { format!(" ({more} of them not shown)") } else { String::new() };
        let were = if tally.bad == 1 { "record or file was" } else { "records or files were" };
        eprintln!("{} bad {were} left out{shown}", HumanCount(tally.bad));
    }
    if global.quiet {
        return;
    }
    for (what, count) in &tally.skipped {
        eprintln!("not loaded: {}", what.told(*count));
    }
    let seconds = started.elapsed().as_secs_f64();
    let (all, bytes) = (counted(tally.records, "record"), HumanBytes(tally.bytes));
    match tally.records.saturating_sub(*before) {
        more if *before > 0 => {
            eprintln!(
                "loaded {} more, {all} ({bytes}) in all, in {seconds:.1} s",
                HumanCount(more)
            );
        }
        _ => eprintln!("loaded {all}, {bytes}, in {seconds:.1} s"),
    }
    for (name, length) in lengths {
        eprintln!("tree {name:?} has {}", counted(*length, "record"));
    }
}
