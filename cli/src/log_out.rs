//! `latchkv log`: what the log has that no checkpoint has yet, in order, and how it ends.
//!
//! ```text
//! checkpoint <TAB> 33554480
//! 33554480 <TAB> commit <TAB> 24 bytes
//!          <TAB> create <TAB> tree 3 <TAB> users
//! 33554536 <TAB> commit <TAB> 21 bytes
//!          <TAB> put    <TAB> tree 3 <TAB> ada <TAB> 8 bytes
//! end      <TAB> 33554592 <TAB> clean
//! ```
//!
//! A line that begins with a number is a record: its lsn, its kind, the bytes of its operations. What it did stands
//! below, in lines that begin with a TAB: operation, tree by its id, key or name as the command line takes it,
//! length of the value or with `--values` the value itself. The database need not have been closed, and nothing is written. Damage ends the
//! output with an error behind everything that is before it.

use crate::args::Log;
use crate::exit::{Failure, Outcome};
use crate::keys;
use latchkv::{LogEnd, LogReader, LoggedKind, LoggedOp, LoggedRecord};
use std::io::{self, BufWriter, Write};

/// Runs the command.
pub(crate) fn log(args: &Log) -> Outcome {
    let mut reader = LogReader::open(&args.db)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    writeln!(out, "checkpoint\t{}", reader.checkpoint().0).map_err(Failure::output)?;
    let mut end = reader.checkpoint();
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut line = Vec::new();
    while left > 0 {
        let mut printed = Ok(());
        let mut has_head = false;
        let next = reader.next_record(|record, op| {
            if record.lsn.0 < args.from || printed.is_err() {
                return;
            }
            line.clear();
            if !has_head {
                head(&mut line, record);
                has_head = true;
            }
            operation(&mut line, op, args.values);
            printed = out.write_all(&line);
        });
        printed.map_err(Failure::output)?;
        let record = match next {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                // What stands before the damage is worth having.
                out.flush().map_err(Failure::output)?;
                return Err(Failure::Error(format!(
                    "{error}\nkeep a copy of the folder and restore a backup: commits from here on were durable and cannot \
                     be read"
                )));
            }
        };
        end = record.end;
        if record.lsn.0 < args.from {
            continue;
        }
        left -= 1;
        if !has_head {
            line.clear();
            head(&mut line, &record);
            out.write_all(&line).map_err(Failure::output)?;
        }
    }
    if left > 0 {
        let how = match reader.end()? {
            LogEnd::Torn { offset } => format!(
                "torn: the record at offset {offset} of the file was not written whole, and never acknowledged as durable"
            ),
            _ => "clean".to_owned(),
        };
        writeln!(out, "end\t{}\t{how}", end.0).map_err(Failure::output)?;
    }
    out.flush().map_err(Failure::output)
}

fn head(line: &mut Vec<u8>, record: &LoggedRecord) {
    let kind = match record.kind {
        LoggedKind::Commit => "commit",
        LoggedKind::Part => "part",
        LoggedKind::Void => "void",
        _ => "other",
    };
    let mut text = format!("{}\t{kind}\t{} bytes", record.lsn.0, record.ops_bytes);
    if let Some(first) = record.first_part {
        text += &format!("\tfirst part {}", first.0);
    }
    line.extend_from_slice(text.as_bytes());
    line.push(b'\n');
}

fn operation(line: &mut Vec<u8>, op: LoggedOp<'_>, values: bool) {
    let (word, tree, bytes) = match op {
        LoggedOp::Put { tree, key, .. } => ("put", tree, Some(key)),
        LoggedOp::Delete { tree, key } => ("delete", tree, Some(key)),
        LoggedOp::Create { tree, name } => ("create", tree, Some(name)),
        LoggedOp::Rename { tree, name } => ("rename", tree, Some(name)),
        LoggedOp::Drop { tree } => ("drop", tree, None),
        LoggedOp::Clear { tree } => ("clear", tree, None),
        LoggedOp::Fill { tree } => ("fill", tree, None),
        _ => return line.extend_from_slice(b"\tan operation that this program does not know\n"),
    };
    line.extend_from_slice(format!("\t{word}\ttree {tree}").as_bytes());
    if let Some(bytes) = bytes {
        line.push(b'\t');
        keys::escape_into(line, bytes);
    }
    if let LoggedOp::Put { value, .. } = op {
        line.push(b'\t');
        match values {
            true => keys::escape_into(line, value),
            false => line.extend_from_slice(format!("{} bytes", value.len()).as_bytes()),
        }
    }
    line.push(b'\n');
}
