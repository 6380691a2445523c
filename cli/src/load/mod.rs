//! `latchkv load`: a folder or a file becomes a tree.
//!
//! ```text
//! input --first pass--> everything parsed and within limits? --no--> exit 3, nothing written
//!                        |
//!           fits into the sort memory?  --yes--> sort, write
//!                        | no
//!                        +--second pass--> sort and write piece by piece
//! then name the trees, checkpoint, close
//! ```
//!
//! [`intake`] decides about records, [`run`] sorts them, [`writer`] makes trees of them; what each of
//! them promises stands there.

mod intake;
mod run;
mod writer;

use crate::args::{DEFAULT_TREE, Global, Load};
use crate::exit::{Failure, Outcome};
use crate::input::{Columns, Input};
use crate::open;
use crate::progress::{Progress, Unit};
use crate::words::plural;
use indicatif::{HumanBytes, HumanCount};
use intake::{Intake, Mode, Rules, Tally};
use latchkv::Db;
use run::Run;
use std::path::Path;
use std::time::Instant;
use writer::{STAGING_PREFIX, Writer};

/// Refuses the names of trees that are being loaded: the next load drops what it finds under them.
pub(crate) fn not_a_staging_name(name: &str) -> Outcome {
    if name.starts_with(STAGING_PREFIX) {
        return Err(Failure::Usage(format!(
            "tree {name:?}: names that begin with {STAGING_PREFIX} are taken: choose another"
        )));
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn load(global: &Global, args: Load) -> Outcome {
    let started = Instant::now();
    if let Some(name) = &args.tree {
        not_a_staging_name(name)?;
    }
    let columns = args.key_column.zip(args.value_column);
    let columns = columns.map(|(key, value)| Columns { key, value });
    let input = Input::open(&args.input, args.format, columns, &args.db)?;
    let tree = match (args.tree, input.names_trees()) {
        (None, false) => Some(DEFAULT_TREE.to_string()),
        (tree, _) => tree,
    };
    let opened = open::or_create(global, &args.db)?;
    let mut rules = Rules {
        key_bytes_max: 0,
        value_bytes_max: 0,
        keep_going: args.keep_going,
        sort_bytes_max: args.sort_memory,
        tree,
        tree_default: DEFAULT_TREE.to_string(),
        input: if args.input == Path::new("-") {
            "standard input".into()
        } else {
            args.input.display().to_string()
        },
    };
    rules.set_limits(&opened.db.limits());
    let (tally, lengths) = match fill(global, &opened.db, &input, &rules) {
        Ok(done) => done,
        Err(failure) => {
            opened.abandon();
            return Err(failure);
        }
    };
    let is_new = opened.is_new();
    opened.close().map_err(|failure| lost(failure, is_new))?;
    report(global, &tally, &lengths, started);
    Ok(())
}

/// Reads and writes; on failure says what is in the database.
fn fill(
    global: &Global,
    db: &Db,
    input: &Input,
    rules: &Rules,
) -> Outcome<(Tally, Vec<(String, u64)>)> {
    writer::drop_leftovers(db)?;
    let reading = || Progress::start(global.quiet, "reading", Unit::Bytes, input.bytes());
    let mut first = Intake::new(rules, Mode::Gather(Run::default()), reading());
    input.read(&mut first).map_err(|failure| with_note(failure, "nothing was loaded"))?;
    let Intake { mode, tally, trees, .. } = first;

    let mut writer = Writer::new(db, global.quiet, tally.records);
    let (written, tally) = match mode {
        Mode::Gather(mut run) => {
            run.sort();
            (writer.write(&trees, &run), tally)
        }
        _ => {
            let quiet = Progress::start(true, "", Unit::Bytes, None);
            let mode = Mode::Write { run: Run::default(), writer: &mut writer };
            let mut second = Intake::new(rules, mode, quiet);
            let read = input.read(&mut second);
            (read.and_then(|()| second.finish()), second.tally)
        }
    };
    match written.and_then(|()| writer.finish(&trees)) {
        Ok(()) => drop(writer),
        Err(failure) => {
            let remains = writer.undo(&trees);
            return Err(with_note(failure, &remains));
        }
    }
    let mut lengths = Vec::new();
    for name in trees {
        let length = db.tree(&name)?.len()?;
        lengths.push((name, length));
    }
    Ok((tally, lengths))
}

/// Says what a failure has left behind. Loading again is always right: the same keys get the same values.
fn with_note(failure: Failure, note: &str) -> Failure {
    match failure {
        Failure::Error(message) => {
            Failure::Error(format!("{message}\n{note}; once this is mended, load again"))
        }
        other => other,
    }
}

/// Everything was written, but the last checkpoint failed.
fn lost(failure: Failure, is_new: bool) -> Failure {
    let state = if is_new { "it is empty or as far as" } else { "it is as it was, or as far as" };
    Failure::Error(format!(
        "{failure}\nwhat was loaded could not be made durable: {state} an earlier checkpoint took it; \
         once this is mended, load again"
    ))
}

fn report(global: &Global, tally: &Tally, lengths: &[(String, u64)], started: Instant) {
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
    let (records, bytes) = (HumanCount(tally.records), HumanBytes(tally.bytes));
    let noun = plural(tally.records, "record");
    eprintln!("loaded {records} {noun}, {bytes}, in {seconds:.1} s");
    for (name, length) in lengths {
        eprintln!("tree {name:?} has {} {}", HumanCount(*length), plural(*length, "record"));
    }
}
