//! Bytes as text, on the command line, in `tsv` files and in what is printed.
//!
//! Two notations:
//!
//! ```text
//! escaped   a\tb\x00\\        \\ \n \t \r \0 \xHH; every other byte stands for itself
//! hex       610962005c        two digits a byte, either case
//! ```
//!
//! A key or value on the command line is escaped text, or hex after `hex:` or with `--hex`. What is
//! printed can be given back: valid UTF-8 stays readable, but control characters, backslashes,
//! characters that reorder a terminal line and bytes that are no UTF-8 are escaped, and so is the first
//! letter of a text that begins with `hex:`.
//!
//! Invariants: \[K1\] `unescape(escape(b)) == b`; \[K2\] `parse(escape(b), false) == b`; \[K3\] what is
//! printed holds no control character, hence no TAB and no end of line. Tested below over all bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Prefix of a hex argument.
const HEX_PREFIX: &[u8] = b"hex:";

/// Reads a key or value of the command line.
pub(crate) fn parse(argument: &OsStr, hex: bool) -> Result<Vec<u8>, String> {
    let bytes = argument.as_bytes();
    if hex {
        return unhex(bytes.strip_prefix(HEX_PREFIX).unwrap_or(bytes));
    }
    match bytes.strip_prefix(HEX_PREFIX) {
        Some(digits) => unhex(digits),
        None => unescape(bytes),
    }
}

/// Reads escaped text.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let (byte, taken) = match rest.first() {
            Some(b'\\') => (b'\\', 1),
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'r') => (b'\r', 1),
            Some(b'0') => (0, 1),
            Some(b'x') => match rest.get(1..3).and_then(hex_pair) {
                Some(byte) => (byte, 3),
                None => return Err("\\x wants two hex digits, as in \\x0a".into()),
            },
            Some(&other) => {
                return Err(format!(
                    "unknown escape \\{}: write \\\\ for a backslash; known are \\n \\t \\r \\0 \\\\ \\xHH",
                    other.escape_ascii()
                ));
            }
            None => return Err("a lone backslash at the end: write \\\\ for a backslash".into()),
        };
        bytes.push(byte);
        rest = &rest[taken..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// Appends `bytes` as escaped text.
pub(crate) fn escape_into(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\0' => out.extend_from_slice(b"\\0"),
                c if c.is_control() || reorders(c) => {
                    for &byte in c.encode_utf8(&mut buffer).as_bytes() {
                        escape_byte(out, byte);
                    }
                }
                c => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
            }
        }
        for &byte in chunk.invalid() {
            escape_byte(out, byte);
        }
    }
    if out[start..].starts_with(HEX_PREFIX) {
        out.splice(start..start + 1, *b"\\x68");
    }
}

/// Escaped text as a string, for messages.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    escape_into(&mut out, bytes);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends `bytes` as hex digits.
pub(crate) fn hex_into(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        push_hex(out, byte);
    }
}

/// Reads hex digits.
pub(crate) fn unhex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hex digits: a byte has two", digits.len()));
    }
    let pairs = digits.chunks_exact(2);
    pairs.map(|pair| hex_pair(pair).ok_or_else(|| not_hex(pair))).collect()
}

/// The byte of two hex digits.
pub(crate) fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    match *pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    }
}

/// Appends two lower-case hex digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn not_hex(pair: &[u8]) -> String {
    format!("\"{}\" is no pair of hex digits", pair.escape_ascii())
}

fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(b"\\x");
    push_hex(out, byte);
}

/// Characters that change the order or the lines of the text around them on a terminal.
fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape_into(&mut out, bytes);
        assert!(!out.iter().any(u8::is_ascii_control), "{out:?}");
        assert_eq!(unescape(&out).as_deref(), Ok(bytes));
        parse(OsStr::from_bytes(&out), false).expect("printed text can be given back")
    }

    #[test]
    fn every_byte_and_every_pair_with_a_backslash_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(back(&all), all);
        for byte in 0..=255u8 {
            for text in [vec![byte], vec![b'\\', byte], vec![byte, b'x'], vec![0xe2, 0x80, byte]] {
                assert_eq!(back(&text), text);
            }
        }
    }

    #[test]
    fn text_that_begins_with_the_hex_prefix_comes_back() {
        assert_eq!(back(b"hex:61"), b"hex:61");
        assert_eq!(escaped(b"hex:61"), "\\x68ex:61");
        assert_eq!(escaped(b"a hex:61"), "a hex:61");
    }

    #[test]
    fn readable_text_stays_readable() {
        assert_eq!(escaped("größe 日本".as_bytes()), "größe 日本");
        assert_eq!(escaped("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        assert_eq!(escaped(b"\x7f\xff\t"), "\\x7f\\xff\\t");
    }

    #[test]
    fn hex_is_read_by_prefix_and_by_flag() {
        assert_eq!(parse(OsStr::new("hex:0aFf"), false).as_deref(), Ok(&[10, 255][..]));
        assert_eq!(parse(OsStr::new("0aFf"), true).as_deref(), Ok(&[10, 255][..]));
        assert_eq!(parse(OsStr::new(""), true).as_deref(), Ok(&[][..]));
        assert!(parse(OsStr::new("0a0"), true).is_err());
        assert!(parse(OsStr::new("hex:0g"), false).is_err());
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for text in ["\\", "a\\q", "\\x", "\\x1", "\\xg0", "end\\"] {
            assert!(unescape(text.as_bytes()).is_err(), "{text}");
        }
    }
}
