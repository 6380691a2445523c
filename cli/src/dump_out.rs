//! `latchkv dump`: trees as text that `mdb_load`, `db_load` and `latchkv load` read.
//!
//! ```text
//! VERSION=3
//! format=bytevalue            with --print: print
//! database=NAME               unless --unnamed
//! type=btree
//! mapsize=BYTES               with --lmdb
//! HEADER=END
//!  hex of key                 with --print: readable bytes, all others and the backslash as \HH
//!  hex of value
//! DATA=END
//! ```
//!
//! `mdb_load` needs `mapsize` for more than about a megabyte, and `db_load` refuses to read it: hence the
//! option. A backslash is written `\5c` and not `\\`, which `mdb_load` before 0.9.25 reads wrongly.
//!
//! A file is written beside its place and then moved there, so that it is complete or absent. With
//! `--keep-going` (see `dump_salvage`) complete means: all that can be read; with `--user`: all that the account may
//! read, and what it may not is told on standard error, also with `-q`, since a backup without it is none.
//!
//! Accounts and namespaces are trees of the system, and in the dump of everything too, with the hashes of passwords. Such
//! a file is for its owner alone.

use crate::access::{Access, Handle, is_system};
use crate::args::{Dump, Global};
use crate::dump_salvage::{self, Losses};
use crate::exit::{Failure, Outcome};
use crate::keys;
use crate::load::PROGRESS_TREE;
use crate::open;
use crate::progress::{Progress, Unit};
use crate::words::{counted, plain};
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Least `mapsize`, in bytes. A map takes address space, not memory or disk.
const MAP_BYTES_MIN: u64 = 64 << 20;

/// Symbolic links that are followed one after the other, as by the kernel.
const LINKS_MAX: usize = 40;

/// Runs the command.
pub(crate) fn dump(global: &Global, args: &Dump) -> Outcome {
    let map_bytes = args.lmdb.then(|| map_bytes(&args.db));
    let style = Style { print: args.print, unnamed: args.unnamed, map_bytes };
    if args.keep_going {
        return salvage(global, args, style);
    }
    let access = Access::read_only(global, &args.db, &args.who)?;
    let trees = trees_to_dump(&access, args.tree.as_deref())?;
    let is_secret = trees.iter().any(|(name, _)| is_system(name));
    write_out(args.output.as_deref(), is_secret, |out| write_trees(global, &trees, style, out))?;
    if is_secret && !global.quiet {
        eprintln!(
            "accounts are in the dump, with hashes of their passwords: keep it as you keep the database"
        );
    }
    Ok(())
}

/// Runs the command on a damaged database.
fn salvage(global: &Global, args: &Dump, style: Style) -> Outcome {
    let (db, why) = open::for_salvage(global, &args.db)?;
    if let Some(why) = why {
        // A loss, not a remark: said with -q too.
        eprintln!("the log is left out, and with it all commits since the last checkpoint: {why}");
    }
    let only = args.tree.as_deref();
    let mut losses = Losses::default();
    // If it cannot be told, as with an error here, there may be.
    let has_accounts = db.system_trees().map_or(true, |names| !names.is_empty());
    let is_secret = only.map_or(has_accounts, is_system);
    write_out(args.output.as_deref(), is_secret, |out| {
        dump_salvage::write(global, &db, only, style, &mut losses, out)
    })?;
    losses.outcome()
}

/// Writes to a file, or to standard output.
fn write_out(
    output: Option<&Path>,
    is_secret: bool,
    write: impl FnOnce(&mut dyn Write) -> Outcome<io::Result<()>>,
) -> Outcome {
    match output {
        Some(path) => write_file(path, is_secret, write),
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
            write(&mut out)?.map_err(Failure::output)
        }
    }
}

/// Where a file lies that is to be written: a symbolic link is followed, also one that names nothing so far, so that it
/// stays a link.
fn followed(path: &Path) -> Outcome<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&at) else { return Ok(at) };
        at = at.parent().map_or(target.clone(), |folder| folder.join(&target));
    }
    Err(Failure::Error(format!(
        "writing {} failed: it is a symbolic link that leads nowhere: choose another place",
        path.display()
    )))
}

/// Writes a file, complete or not at all; or into a pipe or a device.
fn write_file(
    path: &Path,
    is_secret: bool,
    write: impl FnOnce(&mut dyn Write) -> Outcome<io::Result<()>>,
) -> Outcome {
    let failed = |error| Failure::file("writing", path, error);
    if path.exists() && !path.is_file() {
        // A pipe or a device: nothing can be moved into its place.
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        return write(&mut out)?.map_err(failed);
    }
    let path = &*followed(path)?;
    let failed = |error| Failure::file("writing", path, error);
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Failure::Error(format!(
            "writing {} failed: {} is no folder: make it first, or choose another place",
            path.display(),
            folder.display()
        )));
    }
    // The process's mask applies to these, as to any file that a program creates.
    let mode = Permissions::from_mode(if is_secret { 0o600 } else { 0o666 });
    let temporary = tempfile::Builder::new().permissions(mode).tempfile_in(folder);
    let temporary = temporary.map_err(|error| {
        Failure::Error(format!(
            "writing {} failed: no temporary file can be made in {}: {}",
            path.display(),
            folder.display(),
            plain(&error)
        ))
    })?;
    let mut out = BufWriter::with_capacity(1 << 16, temporary);
    write(&mut out)?.map_err(failed)?;
    let temporary = out.into_inner().map_err(|error| failed(error.into_error()))?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What the text looks like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    print: bool,
    unnamed: bool,
    map_bytes: Option<u64>,
}

/// The outer result is about the database, the inner about the output.
fn write_trees(
    global: &Global,
    trees: &[(String, Handle<'_>)],
    style: Style,
    out: &mut dyn Write,
) -> Outcome<io::Result<()>> {
    let mut total = 0;
    for (_, tree) in trees {
        total += tree.len()?;
    }
    let mut progress = Progress::start(global.quiet, "dumping", Unit::Records, Some(total));
    for (name, tree) in trees {
        if let Err(error) = write_tree(name, tree, style, &mut progress, out)? {
            return Ok(Err(error));
        }
    }
    Ok(out.flush())
}

/// The tree that is asked for, or all that may be read. What may not be is said on standard error.
fn trees_to_dump<'a>(access: &'a Access, only: Option<&str>) -> Outcome<Vec<(String, Handle<'a>)>> {
    if let Some(name) = only {
        return Ok(vec![(name.to_owned(), access.tree(name)?)]);
    }
    // Of a load that was interrupted: elsewhere it would mean nothing.
    let is_wanted = |name: &String| name != PROGRESS_TREE;
    let mut names: Vec<String> = access.trees()?.into_iter().filter(is_wanted).collect();
    let hidden = access.db().trees()?.iter().filter(|name| is_wanted(name)).count() - names.len();
    names.extend(access.db().system_trees()?);
    let mut trees = Vec::new();
    let mut left_out = Vec::new();
    for name in names {
        let tree = access.tree(&name).and_then(|tree| {
            tree.len()?;
            Ok(tree)
        });
        match tree {
            Ok(tree) => trees.push((name, tree)),
            Err(Failure::Denied(_)) => left_out.push(name),
            Err(failure) => return Err(failure),
        }
    }
    tell_left_out(access, &left_out, hidden);
    Ok(trees)
}

/// Trees that the account sees and may not read are named, of those that it does not see only the number.
fn tell_left_out(access: &Access, seen: &[String], hidden: usize) {
    let Some(session) = access.session() else { return };
    let account = session.account();
    for name in seen.iter().filter(|name| !is_system(name)) {
        eprintln!("left out: tree {name:?}, which {account:?} may not read");
    }
    if hidden > 0 {
        eprintln!("left out: {} on which {account:?} has no right", counted(hidden as u64, "tree"));
    }
    if seen.iter().any(|name| is_system(name)) {
        eprintln!("left out: accounts and namespaces, which only SUPER may read");
    }
}

fn write_tree(
    name: &str,
    tree: &Handle<'_>,
    style: Style,
    progress: &mut Progress,
    out: &mut dyn Write,
) -> Outcome<io::Result<()>> {
    if let Err(error) = out.write_all(&header(name, style)) {
        return Ok(Err(error));
    }
    let mut lines = Vec::new();
    for entry in tree.iter() {
        let entry = entry?;
        lines.clear();
        record_into(&mut lines, entry.key(), entry.value(), style);
        if let Err(error) = out.write_all(&lines) {
            return Ok(Err(error));
        }
        progress.add(1);
    }
    Ok(out.write_all(FOOTER))
}

/// Ends a tree.
pub(crate) const FOOTER: &[u8] = b"DATA=END\n";

/// Appends the two lines of a record.
pub(crate) fn record_into(lines: &mut Vec<u8>, key: &[u8], value: &[u8], style: Style) {
    for bytes in [key, value] {
        lines.push(b' ');
        if style.print {
            print_into(lines, bytes)
        } else {
            keys::hex_into(lines, bytes)
        }
        lines.push(b'\n');
    }
}

/// The lines before the records of a tree.
pub(crate) fn header(name: &str, style: Style) -> Vec<u8> {
    let format = if style.print { "print" } else { "bytevalue" };
    let mut header = format!("VERSION=3\nformat={format}\n");
    if !style.unnamed {
        header += &format!("database={}\n", name.replace('\\', "\\5c"));
    }
    header += "type=btree\n";
    if let Some(bytes) = style.map_bytes {
        header += &format!("mapsize={bytes}\n");
    }
    header += "HEADER=END\n";
    header.into_bytes()
}

/// Appends bytes in the notation of `format=print`.
fn print_into(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if matches!(byte, b' '..=b'~') && byte != b'\\' {
            out.push(byte);
        } else {
            out.push(b'\\');
            keys::push_hex(out, byte);
        }
    }
}

/// Room for the data in LMDB's layout, which is less dense than ours: four times our file.
fn map_bytes(db: &Path) -> u64 {
    let data_bytes = fs::metadata(db.join("data")).map_or(0, |metadata| metadata.len());
    data_bytes.saturating_mul(4).max(MAP_BYTES_MIN).next_multiple_of(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_keeps_readable_bytes_and_escapes_the_others() {
        let mut out = Vec::new();
        print_into(&mut out, b"a b\\~\x7f\n\xff");
        assert_eq!(out, b"a b\\5c~\\7f\\0a\\ff");
    }

    #[test]
    fn a_header_says_what_the_options_say() {
        let plain = Style { print: false, unnamed: false, map_bytes: None };
        let want = "VERSION=3\nformat=bytevalue\ndatabase=a\\5cb\ntype=btree\nHEADER=END\n";
        assert_eq!(header("a\\b", plain), want.as_bytes());
        let other = Style { print: true, unnamed: true, map_bytes: Some(1048576) };
        let want = "VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n";
        assert_eq!(header("a", other), want.as_bytes());
    }
}
