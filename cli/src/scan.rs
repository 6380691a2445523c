//! `latchkv scan` and `latchkv count`: a part of a tree in order.
//!
//! `--from` is included, `--to` is not, and bounds need not be keys of the tree. With `--values` a line
//! is key, TAB, value, which `load --format tsv` reads back.

use crate::access::{Access, Handle, Records};
use crate::args::{Count, Global, Part, Scan};
use crate::exit::{Failure, Outcome};
use crate::keys;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::ops::Bound;

/// Runs `latchkv scan`.
pub(crate) fn scan(global: &Global, args: &Scan) -> Outcome {
    let access = Access::read_only(global, &args.on.db, &args.on.who)?;
    let tree = access.tree(&args.on.tree)?;
    let Some(mut range) = range(&tree, &args.part)? else {
        return Ok(());
    };
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        let next = if args.reverse { range.next_back() } else { range.next() };
        let entry = match next {
            None => break,
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                // What was found before the damage is worth having.
                out.flush().map_err(Failure::output)?;
                return Err(error.into());
            }
        };
        line.clear();
        notate(&mut line, entry.key(), args.part.hex);
        if args.values {
            line.push(b'\t');
            notate(&mut line, entry.value(), args.part.hex);
        }
        line.push(b'\n');
        out.write_all(&line).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)
}

/// Runs `latchkv count`.
pub(crate) fn count(global: &Global, args: &Count) -> Outcome {
    let access = Access::read_only(global, &args.on.db, &args.on.who)?;
    let tree = access.tree(&args.on.tree)?;
    let part = &args.part;
    let count = if part.from.is_none() && part.to.is_none() && part.prefix.is_none() {
        tree.len()?
    } else {
        let mut count = 0;
        if let Some(range) = range(&tree, part)? {
            for entry in range {
                entry?;
                count += 1;
            }
        }
        count
    };
    writeln!(io::stdout(), "{count}").map_err(Failure::output)
}

/// Appends bytes as the user wants to see them.
pub(crate) fn notate(out: &mut Vec<u8>, bytes: &[u8], hex: bool) {
    if hex {
        keys::hex_into(out, bytes);
    } else {
        keys::escape_into(out, bytes);
    }
}

/// Reads a key of the command line.
pub(crate) fn key_argument(name: &str, argument: &OsStr, hex: bool) -> Outcome<Vec<u8>> {
    keys::parse(argument, hex).map_err(|why| Failure::Usage(format!("{name}: {why}")))
}

/// The part of the tree that is meant; `None` where bounds exclude everything.
fn range<'a>(tree: &Handle<'a>, part: &Part) -> Outcome<Option<Records<'a>>> {
    if let Some(prefix) = &part.prefix {
        return Ok(Some(tree.prefix(&key_argument("--prefix", prefix, part.hex)?)));
    }
    let bound = |name, argument: &Option<OsString>| match argument {
        Some(argument) => key_argument(name, argument, part.hex).map(Some),
        None => Ok(None),
    };
    let (from, to) = (bound("--from", &part.from)?, bound("--to", &part.to)?);
    if let (Some(from), Some(to)) = (&from, &to)
        && from >= to
    {
        return Ok(None);
    }
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    Ok(Some(tree.range((from, to))))
}
