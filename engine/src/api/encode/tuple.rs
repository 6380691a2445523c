//! What is made of other keys: `Option`, `Reverse`, and tuples of up to eight parts.

use super::number::take_tag;
use super::{DecodeError, KeyDecode, KeyEncode, Reverse};

/// 00 for `None`, which comes first; 01 and the value for `Some`.
impl<T: KeyEncode> KeyEncode for Option<T> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_into(out);
        }
    }
}

/// 00 for `None`; 01 and the value for `Some`.
impl<T: KeyDecode> KeyDecode for Option<T> {
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
        if !take_tag(input)? {
            return Ok(None);
        }
        Ok(Some(T::decode_from(input).map_err(|error| error.after(1))?))
    }
}

/// The value with all bits flipped: descending. As no encoding is a prefix of another (E2), the first byte
/// that differs decides before and after.
impl<T: KeyEncode> KeyEncode for Reverse<T> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.0.encode_into(out);
        flip(&mut out[start..]);
    }
}

/// The value with all bits flipped. Decoding copies what is left of the key, since only the value knows its
/// length.
impl<T: KeyDecode> KeyDecode for Reverse<T> {
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut flipped = input.to_vec();
        flip(&mut flipped);
        let mut rest = flipped.as_slice();
        let value = T::decode_from(&mut rest)?;
        *input = &input[flipped.len() - rest.len()..];
        Ok(Reverse(value))
    }
}

fn flip(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

macro_rules! tuples {
    ($(($($part:ident $index:tt),+))+) => {$(
        /// The parts, one after the other. A shorter tuple of the same first parts is a prefix, for
        /// [`Tree::prefix`](crate::Tree::prefix).
        impl<$($part: KeyEncode),+> KeyEncode for ($($part,)+) {
            fn encode_into(&self, out: &mut Vec<u8>) {
                $(self.$index.encode_into(out);)+
            }
        }

        /// The parts, one after the other.
        impl<$($part: KeyDecode),+> KeyDecode for ($($part,)+) {
            fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let all_bytes = input.len();
                Ok(($({
                    let before_bytes = all_bytes - input.len();
                    $part::decode_from(input).map_err(|error| error.after(before_bytes))?
                },)+))
            }
        }
    )+};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}
