//! `tsv`: key, TAB, value; escapes as in [`crate::keys`], which is what `scan --values` prints.
//!
//! `hex:` means nothing here: foreign files may hold it as text. A line without a TAB, or with two, is
//! bad, and so is an unknown escape. A CR before the LF is part of the line end.

use super::lines::Lines;
use super::{Place, ReadError, Sink, Value};
use crate::keys::unescape;
use std::io::Read;

/// Gives every line of `reader` to `sink`.
pub(super) fn read(reader: impl Read, sink: &mut dyn Sink) -> Result<(), ReadError> {
    let mut lines = Lines::new(reader);
    while let Some((number, line, taken)) = lines.next()? {
        let place = Place::Line(number);
        match record(line) {
            Ok((key, value)) => sink.record(place, &key, Value::Bytes(&value))?,
            Err(why) => sink.bad(place, why)?,
        }
        sink.bytes_read(taken);
    }
    Ok(())
}

fn record(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut columns = line.split(|&b| b == b'\t');
    let key = columns.next().expect("split gives at least one part");
    let Some(value) = columns.next() else {
        return Err("no TAB: a line is key, TAB, value".into());
    };
    match columns.count() {
        0 => {}
        more => {
            return Err(format!(
                "{} columns: a line is key, TAB, value; a TAB inside is \\t",
                more + 2
            ));
        }
    }
    let key = unescape(key).map_err(|why| format!("key: {why}"))?;
    let value = unescape(value).map_err(|why| format!("value: {why}"))?;
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Notes;
    use super::*;

    fn notes(text: &[u8]) -> Notes {
        let mut notes = Notes::default();
        read(text, &mut notes).expect("memory can be read");
        notes
    }

    #[test]
    fn keys_and_values_are_unescaped_and_may_be_empty() {
        let notes = notes(b"a\\tb\t1\\n2\r\n\tempty key\nempty value\t\nhex:61\tx");
        let want = [("a\tb", "1\n2"), ("", "empty key"), ("empty value", ""), ("hex:61", "x")];
        assert_eq!(notes.records(), want.map(|(k, v)| (k.to_string(), v.to_string())));
        assert!(notes.bad().is_empty());
    }

    #[test]
    fn bad_lines_carry_their_number_and_reason() {
        let notes = notes(b"ok\t1\nno tab\n\na\tb\tc\nk\\q\tv\nk\tv\\\nok\t2\n");
        let bad = notes.bad();
        let lines: Vec<&str> = bad.iter().map(|(place, _)| *place).collect();
        assert_eq!(lines, ["line 2", "line 3", "line 4", "line 5", "line 6"]);
        assert!(bad[0].1.contains("no TAB"));
        assert!(bad[2].1.contains("3 columns"));
        assert!(bad[3].1.starts_with("key: unknown escape"));
        assert!(bad[4].1.starts_with("value: a lone backslash"));
        assert_eq!(notes.records().len(), 2);
    }

    #[test]
    fn a_strict_sink_stops_the_reading() {
        let mut notes = Notes { strict: true, ..Notes::default() };
        assert!(read(&b"bad\nok\t1\n"[..], &mut notes).is_err());
        assert!(notes.records().is_empty());
    }
}
