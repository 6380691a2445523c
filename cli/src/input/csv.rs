//! `csv`: two columns without a header, or two named columns of a file with one.
//!
//! Quoting is RFC 4180: a field in `"` may hold commas, line ends and `""`. Fields are bytes as they
//! stand; there are no escapes. The parser is the crate `csv`, which takes a quote that is never closed
//! for a field up to the end of the file; [`QuoteWatch`] looks at the bytes on their way and sees it.

use super::{Columns, Place, ReadError, Sink, Value};
use crate::exit::Failure;
use crate::keys::escaped;
use csv::{ByteRecord, ReaderBuilder};
use std::cell::Cell;
use std::io::{self, BufReader, Read};

/// Gives every row of `reader` to `sink`.
pub(super) fn read(
    reader: impl Read,
    columns: Option<&Columns>,
    sink: &mut dyn Sink,
) -> Result<(), ReadError> {
    let state = Cell::new(Quotes::FieldStart);
    let watch = QuoteWatch { reader: BufReader::with_capacity(1 << 18, reader), state: &state };
    let mut rows = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(watch);
    let mut row = ByteRecord::new();
    let mut next = ByteRecord::new();
    let mut wanted = (0, 1);
    let mut width = 2;
    let mut bytes_before = 0;
    if let Some(columns) = columns {
        if !rows.read_byte_record(&mut row).map_err(io_error)? {
            return Err(Failure::Error("the file is empty: a header was expected".into()).into());
        }
        wanted = (column(&row, &columns.key)?, column(&row, &columns.value)?);
        width = row.len();
    }
    let mut more = rows.read_byte_record(&mut row).map_err(io_error)?;
    while more {
        // One row ahead: only behind the last row is it known whether its quotes were closed.
        more = rows.read_byte_record(&mut next).map_err(io_error)?;
        let place = Place::Line(row.position().map_or(0, |position| position.line()));
        let bytes_done = if more { next.position() } else { Some(rows.position()) }
            .map_or(bytes_before, |position| position.byte());
        if !more && state.get() == Quotes::Quoted {
            sink.bad(place, "a quote is opened here or below and never closed".into())?;
        } else if row.len() != width {
            let have = row.len();
            let advice = if columns.is_some() { "as the header has" } else { "key and value" };
            sink.bad(place, format!("{have} columns, wanted {width}: {advice}"))?;
        } else {
            sink.record(place, &row[wanted.0], Value::Bytes(&row[wanted.1]))?;
        }
        sink.bytes_read(bytes_done.saturating_sub(bytes_before));
        bytes_before = bytes_done;
        std::mem::swap(&mut row, &mut next);
    }
    Ok(())
}

/// Index of the column of this name.
fn column(header: &ByteRecord, name: &str) -> Result<usize, Failure> {
    let mut found = header.iter().enumerate().filter(|(_, field)| *field == name.as_bytes());
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some(_), Some(_)) => {
            Err(Failure::Error(format!("line 1: several columns are named {name:?}: rename one")))
        }
        (None, _) => {
            let names: Vec<String> = header.iter().map(escaped).collect();
            let names = names.join(", ");
            Err(Failure::Error(format!("line 1: no column is named {name:?}; there are: {names}")))
        }
    }
}

fn io_error(error: csv::Error) -> ReadError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ReadError::Io(error),
        other => ReadError::Io(io::Error::other(format!("{other:?}"))),
    }
}

/// Where the bytes seen so far have left us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    /// A quote would open a field.
    FieldStart,
    /// In a field without quotes: a quote is a byte like others.
    Bare,
    /// Between quotes.
    Quoted,
    /// Behind a quote that closes the field, or is the first of two.
    Closing,
}

/// Passes bytes through and follows their quotes.
struct QuoteWatch<'a, R> {
    reader: R,
    state: &'a Cell<Quotes>,
}

impl<R: Read> Read for QuoteWatch<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        let mut state = self.state.get();
        for &byte in &buffer[..length] {
            state = match (state, byte) {
                (Quotes::FieldStart | Quotes::Closing, b'"') => Quotes::Quoted,
                (Quotes::Quoted, b'"') => Quotes::Closing,
                (Quotes::Quoted, _) => Quotes::Quoted,
                (_, b',' | b'\n' | b'\r') => Quotes::FieldStart,
                _ => Quotes::Bare,
            };
        }
        self.state.set(state);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Notes;
    use super::*;

    fn notes(text: &str, columns: Option<(&str, &str)>) -> Result<Notes, ReadError> {
        let columns = columns.map(|(key, value)| Columns { key: key.into(), value: value.into() });
        let mut notes = Notes::default();
        read(text.as_bytes(), columns.as_ref(), &mut notes)?;
        assert_eq!(notes.bytes, if columns.is_none() { text.len() as u64 } else { notes.bytes });
        Ok(notes)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn quoted_fields_hold_commas_quotes_and_line_ends() {
        let notes = notes("a,1\r\n\"b,\"\"c\"\"\",\"x\ny\"\n,\nd 5\" nail,2", None).expect("reads");
        let want = [("a", "1"), ("b,\"c\"", "x\ny"), ("", ""), ("d 5\" nail", "2")];
        assert_eq!(notes.records(), pairs(&want));
        assert!(notes.bad().is_empty());
    }

    #[test]
    fn rows_of_another_width_are_bad_with_their_line() {
        let notes = notes("a,1\n\"x\ny\",2\nb\nc,1,2\nd,4\n", None).expect("reads");
        let bad = notes.bad();
        assert_eq!(bad.iter().map(|b| b.0).collect::<Vec<_>>(), ["line 4", "line 5"]);
        assert!(bad[0].1.contains("1 columns, wanted 2"));
        assert_eq!(notes.records().len(), 3);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_bad() {
        let notes = notes("a,1\nb,\"open\nc,2\nd,3\n", None).expect("reads");
        assert_eq!(notes.records(), pairs(&[("a", "1")]));
        assert_eq!(notes.bad()[0].0, "line 2");
        assert!(notes.bad()[0].1.contains("never closed"));
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "id,name,size\n1,one,x\n2,two,y\n3,three\n";
        let notes = notes(text, Some(("name", "id"))).expect("reads");
        assert_eq!(notes.records(), pairs(&[("one", "1"), ("two", "2")]));
        assert_eq!(notes.bad()[0].0, "line 4");
    }

    #[test]
    fn a_missing_or_doubled_column_is_an_error_that_names_the_columns() {
        let message = |text, columns| match notes(text, Some(columns)) {
            Err(ReadError::Sink(failure)) => failure.to_string(),
            _ => panic!("{text} has no such columns"),
        };
        assert!(message("id,name\n", ("key", "id")).contains("there are: id, name"));
        assert!(message("id,id\n", ("id", "id")).contains("several columns"));
        assert!(message("", ("id", "id")).contains("empty"));
    }
}
