//! The commands about one record, and those about the database as a whole.

use crate::access::{Access, only_one_standard_input};
use crate::args::{Del, Get, Global, OnDb, Put, Recover, Stat};
use crate::exit::{Failure, Outcome};
use crate::load::not_a_reserved_name;
use crate::progress::{Progress, Unit};
use crate::scan::{key_argument, notate};
use crate::words::counted;
use crate::{keys, open, stat_json};
use indicatif::HumanCount;
use latchkv::{Denied, Durability, Error};
use std::fs;
use std::io::{self, Read, Write};

/// Runs `latchkv get`.
pub(crate) fn get(global: &Global, args: &Get) -> Outcome {
    let key = key_argument("KEY", &args.at.key, args.hex)?;
    let on = &args.at.on;
    let access = Access::read_only(global, &on.db, &on.who)?;
    let tree = access.tree(&on.tree)?;
    let Some(value) = tree.get(&key)? else {
        return Err(no_such_key(&key, &on.tree));
    };
    let mut out = Vec::new();
    if args.raw {
        out = value;
    } else {
        notate(&mut out, &value, args.hex);
        out.push(b'\n');
    }
    print(&out)
}

/// Runs `latchkv put`.
pub(crate) fn put(global: &Global, args: &Put) -> Outcome {
    let key = key_argument("KEY", &args.at.key, args.hex)?;
    let given = match &args.value {
        Some(value) => Some(key_argument("VALUE", value, args.hex)?),
        None => None,
    };
    let on = &args.at.on;
    not_a_reserved_name(&on.tree)?;
    only_one_standard_input(&on.who, given.is_none().then_some("the value"))?;
    let access = Access::or_create(global, &on.db, &on.who, args.durability.level())?;
    let write = || -> Outcome {
        let value = match given {
            Some(value) => value,
            None => standard_input(access.db().limits().value_bytes_max as u64, args.hex)?,
        };
        Ok(access.tree_to_fill(&on.tree)?.put(&key, &value)?)
    };
    match write() {
        Ok(()) => access.close(),
        Err(failure) => {
            access.abandon();
            Err(failure)
        }
    }
}

/// Runs `latchkv del`.
pub(crate) fn del(global: &Global, args: &Del) -> Outcome {
    let key = key_argument("KEY", &args.at.key, args.hex)?;
    let on = &args.at.on;
    let access = Access::existing(global, &on.db, &on.who, args.durability.level())?;
    let found = access.tree(&on.tree)?.delete(&key)?;
    access.close()?;
    if found { Ok(()) } else { Err(no_such_key(&key, &on.tree)) }
}

/// Runs `latchkv trees`.
pub(crate) fn trees(global: &Global, args: &OnDb) -> Outcome {
    let access = Access::read_only(global, &args.db, &args.who)?;
    let mut out = Vec::new();
    for name in access.trees()? {
        keys::escape_into(&mut out, name.as_bytes());
        out.push(b'\n');
    }
    print(&out)
}

/// Runs `latchkv stat`.
pub(crate) fn stat(global: &Global, args: &Stat) -> Outcome {
    let access = Access::read_only(global, &args.db, &args.who)?;
    let stats = access.stats()?;
    let mut trees = Vec::new();
    for name in access.trees()? {
        match access.tree(&name)?.len() {
            Ok(records) => trees.push((name, records)),
            // What may not be read is not counted either.
            Err(Error::Denied(Denied::NeedsRights { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A database that is open for reading has no log in use, but it has the file.
    let log_bytes = fs::metadata(args.db.join("log")).map_or(0, |metadata| metadata.len());
    let mut out = String::new();
    if args.json {
        out = stat_json::object(&stats, log_bytes, &trees).to_string();
    } else {
        out += &stats.to_string();
        if stats.log.is_none() {
            out += &format!("{:<24}{} bytes, 0 live\n", "log", HumanCount(log_bytes));
        }
        for (name, records) in &trees {
            let name = keys::escaped(name.as_bytes());
            out += &format!("tree {name:<18} {}\n", counted(*records, "record"));
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    print(out.as_bytes())
}

/// Runs `latchkv recover`.
pub(crate) fn recover(global: &Global, args: &Recover) -> Outcome {
    match open::read_only(global, &args.db) {
        Err(Failure::NotClosed(_)) => {}
        Err(failure) => return Err(failure),
        Ok(_) => {
            if !global.quiet {
                eprintln!("{} was closed: there is nothing to apply", args.db.display());
            }
            return Ok(());
        }
    }
    Ok(open::existing(global, &args.db, Durability::Sync)?.close()?)
}

/// Runs `latchkv check`.
pub(crate) fn check(global: &Global, args: &OnDb) -> Outcome {
    let access = Access::read_only(global, &args.db, &args.who)?;
    let mut progress = Progress::start(global.quiet, "checking", Unit::Pages, None);
    let report = access.check(|at| {
        progress.set_total(at.pages_total);
        progress.set(at.pages_done);
    })?;
    drop(progress);
    let mut out = Vec::new();
    for problem in &report.problems {
        writeln!(out, "{problem}").expect("memory takes writes");
    }
    for warning in &report.warnings {
        let note = "the other is whole and the next checkpoint writes this one anew; if it was the newer, what only it \
                    held is lost";
        writeln!(out, "warning: {warning}: {note}").expect("memory takes writes");
    }
    let problems = report.problem_count;
    if problems == 0 && !global.quiet {
        let (pages, records) = (counted(report.pages, "page"), counted(report.records, "record"));
        writeln!(out, "no problems in {pages} and {records}").expect("memory takes writes");
    }
    print(&out)?;
    if problems > 0 {
        return Err(Failure::Error(format!(
            "{}: keep a copy of the folder and restore a backup; without one, `latchkv dump {} --keep-going -o FILE.dump` \
             writes everything that can be read, and `latchkv load NEW FILE.dump` takes it in",
            counted(problems, "problem"),
            args.db.display()
        )));
    }
    Ok(())
}

fn no_such_key(key: &[u8], tree: &str) -> Failure {
    Failure::NotFound(format!("tree {tree:?} has no key {}", keys::escaped(key)))
}

/// Writes to standard output.
pub(crate) fn print(bytes: &[u8]) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::output)
}

/// The value on standard input: bytes as they are, or hex digits.
fn standard_input(bytes_max: u64, hex: bool) -> Outcome<Vec<u8>> {
    let failed =
        |error| Failure::Error(format!("reading the value from standard input failed: {error}"));
    // Two digits a byte, a line end, and one more to see that there is too much.
    let limit = if hex { 2 * bytes_max + 3 } else { bytes_max + 1 };
    let mut bytes = Vec::new();
    io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if hex {
        bytes = keys::unhex(bytes.trim_ascii())
            .map_err(|why| Failure::Usage(format!("value on standard input: {why}")))?;
    }
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::Usage(format!(
            "the value on standard input is over the limit of {bytes_max} bytes"
        )));
    }
    Ok(bytes)
}
