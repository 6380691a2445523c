//! `dump`: the text of Berkeley DB's `db_dump` and LMDB's `mdb_dump`.
//!
//! ```text
//! VERSION=3
//! format=bytevalue            or print
//! database=NAME               a tree; without it, the database that has no name
//! type=btree                  or hash
//! mapsize=1048576             this and other name=value lines mean nothing here
//! HEADER=END
//!  6b6579                     space, key           bytevalue: hex digits
//!  76616c7565                 space, value         print: readable bytes, \\ and \HH
//! DATA=END                    then perhaps the next header
//! ```
//!
//! A bad header ends the reading whatever the sink says, since what follows it cannot be understood. A
//! bad record is one line of key and one of value. Both tools can hold several values for a key, which
//! a tree here cannot: the second of equal neighbouring keys is bad, so nothing is lost unseen.
//! `mdb_dump -p` before LMDB 0.9.25 wrote backslashes as they are; such lines are bad where it shows.

use super::lines::Lines;
use super::{Place, ReadError, Sink, Value};
use crate::exit::Failure;
use crate::keys::{hex_pair, unhex};
use std::io::Read;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    ByteValue,
    Print,
}

#[derive(Debug)]
struct Header {
    notation: Notation,
    database: Option<String>,
}

/// Gives every record of `reader` to `sink`.
pub(super) fn read(reader: impl Read, sink: &mut dyn Sink) -> Result<(), ReadError> {
    let mut lines = Lines::new(reader);
    let mut sections = 0;
    while let Some(header) = read_header(&mut lines, sink)? {
        sink.tree(header.database.as_deref())?;
        read_records(&mut lines, header.notation, sink)?;
        sections += 1;
    }
    if sections == 0 {
        return Err(fatal(1, "the file is empty: a dump begins with VERSION=3"));
    }
    Ok(())
}

/// Reads a header, or finds the end of the input.
fn read_header<R: Read>(
    lines: &mut Lines<R>,
    sink: &mut dyn Sink,
) -> Result<Option<Header>, ReadError> {
    let mut notation = None;
    let mut database = None;
    let mut first = true;
    while let Some((number, line, taken)) = lines.next()? {
        sink.bytes_read(taken);
        if first && line != b"VERSION=3" {
            return Err(fatal(
                number,
                "VERSION=3 was expected: this is no dump of db_dump or mdb_dump",
            ));
        }
        first = false;
        if line == b"HEADER=END" {
            let notation = notation.ok_or_else(|| fatal(number, "the header has no format="))?;
            return Ok(Some(Header { notation, database }));
        }
        let Some(at) = line.iter().position(|&b| b == b'=') else {
            return Err(fatal(
                number,
                "a header line is name=value, and HEADER=END ends the header",
            ));
        };
        match (&line[..at], &line[at + 1..]) {
            (b"format", b"bytevalue") => notation = Some(Notation::ByteValue),
            (b"format", b"print") => notation = Some(Notation::Print),
            (b"format", _) => return Err(fatal(number, "format is neither bytevalue nor print")),
            (b"type", b"btree" | b"hash") => {}
            (b"type", _) | (b"keys", b"0") => {
                return Err(fatal(
                    number,
                    "records without keys: only btree and hash can be loaded",
                ));
            }
            (b"database", name) => database = Some(name_of(number, name)?),
            _ => {}
        }
    }
    if first { Ok(None) } else { Err(fatal(lines.number(), "the file ends inside a header")) }
}

/// Reads up to and with DATA=END.
fn read_records<R: Read>(
    lines: &mut Lines<R>,
    notation: Notation,
    sink: &mut dyn Sink,
) -> Result<(), ReadError> {
    let mut key_before: Option<Vec<u8>> = None;
    loop {
        let Some((number, line, taken)) = lines.next()? else {
            sink.bad(Place::Line(lines.number() + 1), CUT_OFF.into())?;
            return Ok(());
        };
        sink.bytes_read(taken);
        if line == b"DATA=END" {
            return Ok(());
        }
        let place = Place::Line(number);
        if !line.starts_with(b" ") {
            sink.bad(place, NO_SPACE.into())?;
            continue;
        }
        let key = decode(&line[1..], notation);
        let Some((value_number, line, taken)) = lines.next()? else {
            sink.bad(Place::Line(number + 1), CUT_OFF.into())?;
            return Ok(());
        };
        sink.bytes_read(taken);
        if line == b"DATA=END" {
            sink.bad(place, "a key without a value".into())?;
            return Ok(());
        }
        let value = match line.strip_prefix(b" ") {
            Some(text) => decode(text, notation),
            None => Err(NO_SPACE.into()),
        };
        match (key, value) {
            (Err(why), _) => sink.bad(place, why)?,
            (_, Err(why)) => sink.bad(Place::Line(value_number), why)?,
            (Ok(key), Ok(_)) if key_before.as_ref() == Some(&key) => {
                sink.bad(place, SEVERAL_VALUES.into())?;
            }
            (Ok(key), Ok(value)) => {
                sink.record(place, &key, Value::Bytes(&value))?;
                key_before = Some(key);
            }
        }
    }
}

const CUT_OFF: &str = "the file ends before DATA=END: it was cut off";
const NO_SPACE: &str = "a line of data begins with a space";
const SEVERAL_VALUES: &str = "the key of the record before, again: a tree holds one value for a key (--keep-going takes the first)";

fn decode(text: &[u8], notation: Notation) -> Result<Vec<u8>, String> {
    match notation {
        Notation::ByteValue => unhex(text),
        Notation::Print => unprint(text),
    }
}

/// Reads the notation of `format=print`.
fn unprint(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
        } else if let Some(byte) = rest.get(..2).and_then(hex_pair) {
            bytes.push(byte);
            rest = &rest[2..];
        } else {
            return Err(
                "a backslash that is neither \\\\ nor \\HH: mdb_dump -p before LMDB 0.9.25 \
                        writes these; dump again without -p"
                    .into(),
            );
        }
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// Name of a database: db_dump escapes it, mdb_dump does not.
fn name_of(number: u64, text: &[u8]) -> Result<String, ReadError> {
    let bytes = unprint(text).unwrap_or_else(|_| text.to_vec());
    String::from_utf8(bytes).map_err(|_| fatal(number, "the name of the database is no UTF-8"))
}

fn fatal(number: u64, why: &str) -> ReadError {
    ReadError::Sink(Failure::Error(format!("line {number}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Notes, Seen};
    use super::*;

    fn notes(text: &str) -> Notes {
        let mut notes = Notes::default();
        read(text.as_bytes(), &mut notes).expect("the headers are good");
        assert_eq!(notes.bytes, text.len() as u64);
        notes
    }

    fn with_data(format: &str, data: &str) -> Notes {
        notes(&format!("VERSION=3\nformat={format}\ntype=btree\nHEADER=END\n{data}"))
    }

    fn error(text: &str) -> String {
        match read(text.as_bytes(), &mut Notes::default()) {
            Err(ReadError::Sink(failure)) => failure.to_string(),
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn several_databases_become_trees_in_either_notation() {
        let notes = notes(
            "VERSION=3\nformat=bytevalue\ndatabase=a\ntype=btree\nmapsize=1048576\nmaxreaders=126\n\
             db_pagesize=4096\nHEADER=END\n 6b\n 00FF\n \n \nDATA=END\n\
             VERSION=3\nformat=print\ntype=hash\nHEADER=END\n k\\5c\\\\\\0a x\n v\nDATA=END\n",
        );
        let want = [
            Seen::Tree(Some("a".into())),
            Seen::Record(b"k".to_vec(), vec![0, 255]),
            Seen::Record(vec![], vec![]),
            Seen::Tree(None),
            Seen::Record(b"k\\\\\n x".to_vec(), b"v".to_vec()),
        ];
        assert_eq!(notes.seen, want);
    }

    #[test]
    fn bad_records_carry_their_line_and_the_next_pair_is_read() {
        let notes =
            with_data("bytevalue", " 6g\n 00\n 61\n 0\n61\n 62\n 62\n 63\nx\n 64\n 65\nDATA=END\n");
        let places: Vec<&str> = notes.bad().iter().map(|bad| bad.0).collect();
        assert_eq!(places, ["line 5", "line 8", "line 9", "line 13"]);
        let want = [("b", "b"), ("d", "e")].map(|(k, v)| (k.to_string(), v.to_string()));
        assert_eq!(notes.records(), want);
    }

    #[test]
    fn a_dump_that_was_cut_off_is_bad() {
        let notes = with_data("bytevalue", " 61\n 62\n");
        assert_eq!(notes.bad(), [("line 7", CUT_OFF)]);
        assert_eq!(notes.records().len(), 1);
        assert_eq!(with_data("bytevalue", " 61\n").bad(), [("line 6", CUT_OFF)]);
        assert_eq!(with_data("bytevalue", " 61\nDATA=END\n").bad()[0].0, "line 5");
    }

    #[test]
    fn several_values_for_a_key_are_bad_and_the_first_is_kept() {
        let notes = with_data("bytevalue", " 61\n 31\n 61\n 32\n 62\n 33\nDATA=END\n");
        assert_eq!(notes.bad(), [("line 7", SEVERAL_VALUES)]);
        assert_eq!(notes.records()[0].1, "1");
        assert_eq!(notes.records().len(), 2);
    }

    #[test]
    fn lone_backslashes_of_old_mdb_dump_are_bad() {
        let notes = with_data("print", " a\\q\n v\n b\\\n v\nDATA=END\n");
        assert_eq!(notes.bad().len(), 2);
        assert!(notes.bad()[0].1.contains("without -p"));
    }

    #[test]
    fn a_bad_header_ends_the_reading_with_its_line() {
        assert!(error("").contains("empty"));
        assert!(error("VERSION=2\n").starts_with("line 1:"));
        assert!(error("key\tvalue\n").contains("no dump"));
        assert!(error("VERSION=3\nformat=xml\n").starts_with("line 2:"));
        assert!(error("VERSION=3\ntype=recno\n").contains("without keys"));
        assert!(error("VERSION=3\ntype=btree\nHEADER=END\n").contains("no format="));
        assert!(error("VERSION=3\nnonsense\n").contains("name=value"));
        assert!(error("VERSION=3\nformat=print\n").contains("inside a header"));
    }

    #[test]
    fn names_are_read_with_and_without_escapes() {
        let name = |text: &str| {
            let notes =
                notes(&format!("VERSION=3\nformat=print\ndatabase={text}\nHEADER=END\nDATA=END\n"));
            notes.seen[0].clone()
        };
        assert_eq!(name("a b=c"), Seen::Tree(Some("a b=c".into())));
        assert_eq!(name("a\\5cb"), Seen::Tree(Some("a\\b".into())));
        assert_eq!(name("a\\zz"), Seen::Tree(Some("a\\zz".into())));
    }
}
