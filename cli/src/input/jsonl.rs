//! `jsonl`: one JSON object a line.
//!
//! ```text
//! {"key": "text", "value": "text"}
//! {"key_hex": "00ff", "value_hex": ""}        bytes that are no text, in hex; may be mixed with text
//! ```
//!
//! Other fields, missing fields and values that are no strings are bad: nothing is dropped or guessed.
//! Lines of white space alone are passed over.

use super::lines::Lines;
use super::{Place, ReadError, Sink, Value};
use crate::keys::unhex;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::Read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key_hex: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value_hex: Option<Cow<'a, str>>,
}

/// Gives every line of `reader` to `sink`.
pub(super) fn read(reader: impl Read, sink: &mut dyn Sink) -> Result<(), ReadError> {
    let mut lines = Lines::new(reader);
    while let Some((number, line, taken)) = lines.next()? {
        let place = Place::Line(number);
        if !line.trim_ascii().is_empty() {
            match record(line) {
                Ok((key, value)) => sink.record(place, &key, Value::Bytes(&value))?,
                Err(why) => sink.bad(place, why)?,
            }
        }
        sink.bytes_read(taken);
    }
    Ok(())
}

fn record(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        // The parser counts lines within what it was given, which is one line.
        match text.split_once(" at line ") {
            Some((what, _)) => format!("{what} (column {})", error.column()),
            None => text,
        }
    })?;
    let key = one_of("key", line.key, line.key_hex)?;
    let value = one_of("value", line.value, line.value_hex)?;
    Ok((key, value))
}

fn one_of(
    name: &str,
    text: Option<Cow<'_, str>>,
    hex: Option<Cow<'_, str>>,
) -> Result<Vec<u8>, String> {
    match (text, hex) {
        (Some(text), None) => Ok(text.into_owned().into_bytes()),
        (None, Some(digits)) => {
            unhex(digits.as_bytes()).map_err(|why| format!("{name}_hex: {why}"))
        }
        (Some(_), Some(_)) => Err(format!("both \"{name}\" and \"{name}_hex\": leave one out")),
        (None, None) => Err(format!("neither \"{name}\" nor \"{name}_hex\": one is wanted")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Notes, Seen};
    use super::*;

    fn notes(text: &str) -> Notes {
        let mut notes = Notes::default();
        read(text.as_bytes(), &mut notes).expect("memory can be read");
        notes
    }

    #[test]
    fn text_and_hex_give_bytes() {
        let notes = notes(
            "{\"key\":\"a\\n\\u00e9\",\"value\":\"\"}\n\n{\"value_hex\":\"00fF\",\"key\":\"b\"}\r\n",
        );
        let want = [
            Seen::Record("a\né".as_bytes().to_vec(), vec![]),
            Seen::Record(b"b".to_vec(), vec![0, 255]),
        ];
        assert_eq!(notes.seen, want);
    }

    #[test]
    fn bad_lines_carry_their_number_and_reason() {
        let lines = [
            ("{\"key\":\"a\"}", "neither \"value\""),
            ("{\"key\":\"a\",\"value\":1}", "invalid type"),
            ("{\"key\":\"a\",\"value\":\"\",\"more\":1}", "unknown field"),
            ("{\"key\":\"a\",\"key\":\"b\",\"value\":\"\"}", "duplicate field"),
            ("{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"\"}", "leave one out"),
            ("{\"key_hex\":\"6\",\"value\":\"\"}", "key_hex"),
            ("{\"key\":\"a\",\"value\":\"\"} x", "trailing characters (column"),
            ("{\"key\":\"\\ud800\",\"value\":\"\"}", "column"),
            ("[1]", "column"),
            ("{\"key\":\"a\",\"val", "EOF"),
        ];
        let text: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
        let notes = notes(&text.join("\n"));
        let bad = notes.bad();
        assert_eq!(bad.len(), lines.len(), "{bad:?}");
        for (index, (_, why)) in lines.iter().enumerate() {
            assert_eq!(bad[index].0, format!("line {}", index + 1));
            assert!(bad[index].1.contains(why), "{:?} lacks {why}", bad[index]);
        }
    }
}
