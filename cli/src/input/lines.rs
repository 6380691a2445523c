//! Lines with their numbers, and nothing about what they mean.
//!
//! A line ends in LF or CR LF or at the end of the input; the end is not part of it. A line is held in
//! memory whole.

use std::io::{self, BufRead, BufReader, Read};

/// Reads lines of bytes.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// Lines of `reader`.
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader: BufReader::with_capacity(1 << 18, reader), line: Vec::new(), number: 0 }
    }

    /// The next line with its number from 1, and the bytes it took.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8], u64)>> {
        self.line.clear();
        let taken = self.reader.read_until(b'\n', &mut self.line)?;
        if taken == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut line = self.line.as_slice();
        if let Some(rest) = line.strip_suffix(b"\n") {
            line = rest.strip_suffix(b"\r").unwrap_or(rest);
        }
        Ok(Some((self.number, line, taken as u64)))
    }

    /// Number of the line read last, 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_taken_off_and_the_last_line_needs_none() {
        let mut lines = Lines::new(&b"a\nb\r\n\nlast\r"[..]);
        let mut seen = Vec::new();
        while let Some((number, line, taken)) = lines.next().expect("memory can be read") {
            seen.push((number, line.to_vec(), taken));
        }
        let want = [(1, &b"a"[..], 2), (2, b"b", 3), (3, b"", 1), (4, b"last\r", 5)];
        assert_eq!(seen, want.map(|(number, line, taken)| (number, line.to_vec(), taken)));
    }
}
