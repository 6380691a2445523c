//! Byte strings and strings.
//!
//! ```text
//! "a\0b"   61  00 ff  62  00 00
//!          a   \0     b   end
//! ```
//!
//! A string that goes on where another ends has there a byte of 01 or more, or 00 ff for a zero byte: both
//! sort behind the end 00 00, and no encoding is a prefix of another (E1, E2).

use super::{DecodeError, DecodeFault, KeyDecode, KeyEncode};

const END: u8 = 0x00;
const ZERO: u8 = 0xff;

/// With each 00 as 00 ff, and 00 00 at the end.
impl KeyEncode for [u8] {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.reserve(self.len() + 2);
        let mut parts = self.split(|byte| *byte == 0);
        out.extend_from_slice(parts.next().expect("a split has a part at least"));
        for part in parts {
            out.extend_from_slice(&[0, ZERO]);
            out.extend_from_slice(part);
        }
        out.extend_from_slice(&[0, END]);
    }
}

/// As its bytes.
impl KeyEncode for Vec<u8> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        self.as_slice().encode_into(out);
    }
}

/// As its bytes, which sort as strings do.
impl KeyEncode for str {
    fn encode_into(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode_into(out);
    }
}

/// As its bytes.
impl KeyEncode for String {
    fn encode_into(&self, out: &mut Vec<u8>) {
        self.as_bytes().encode_into(out);
    }
}

/// Up to 00 00, with 00 ff as 00.
impl KeyDecode for Vec<u8> {
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let all = *input;
        let mut bytes = Vec::new();
        loop {
            let at = all.len() - input.len();
            let unterminated = || DecodeError::new(all.len(), DecodeFault::Unterminated);
            let zero = input.iter().position(|byte| *byte == 0).ok_or_else(unterminated)?;
            bytes.extend_from_slice(&input[..zero]);
            let next = *input.get(zero + 1).ok_or_else(unterminated)?;
            *input = &input[zero + 2..];
            match next {
                END => return Ok(bytes),
                ZERO => bytes.push(0),
                got => return Err(DecodeError::new(at + zero + 1, DecodeFault::Escape { got })),
            }
        }
    }
}

/// As its bytes, which must be UTF-8.
impl KeyDecode for String {
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let bytes = Vec::decode_from(input)?;
        String::from_utf8(bytes).map_err(|_| DecodeError::new(0, DecodeFault::Utf8))
    }
}
