//! Encoders whose bytes sort as their values do.
//!
//! A tree orders its keys as bytes. These encoders turn numbers, strings, options and tuples into bytes that
//! come in the order of the values, so that a range of values is a range of keys. They are not a general
//! format for values: there is no versioning and no self-description, and a key says nothing of the type that
//! it was made from.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let db = latchkv::Db::open(dir.path().join("db"))?;
//! use latchkv::encode::{Reverse, decode, encode};
//!
//! // Newest post of a user first: user ascending, time descending.
//! let posts = db.tree("posts")?;
//! posts.put(encode(&("ann", Reverse(1_000_u64))), "first")?;
//! posts.put(encode(&("ann", Reverse(2_000_u64))), "second")?;
//! posts.put(encode(&("anna", Reverse(1_500_u64))), "another user")?;
//!
//! let mut times = Vec::new();
//! for entry in posts.prefix(encode(&("ann",))) {
//!     let (_, Reverse(time)) = decode::<(String, Reverse<u64>)>(entry?.key())?;
//!     times.push(time);
//! }
//! assert_eq!(times, [2_000, 1_000]);
//!
//! // A range of numbers is a range of keys.
//! let marks = db.tree("marks")?;
//! for mark in [-300_i32, -2, 0, 7, 70_000] {
//!     marks.put(encode(&mark), "")?;
//! }
//! assert_eq!(marks.range(encode(&-2)..encode(&70_000)).count(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # The bytes
//!
//! ```text
//! u8 .. u128     big-endian                                    1_u16        00 01
//! i8 .. i128     big-endian, sign bit flipped                  -1_i16       7f ff
//! f32, f64       positive: sign bit flipped; negative: all     -0.0_f32     7f ff ff ff
//! bool           00, 01                                        true         01
//! str, [u8]      00 becomes 00 ff, then 00 00 ends it          "a\0"        61 00 ff 00 00
//! Option         00 for None; 01 and the value                 Some(5_u8)   01 05
//! tuple          one after the other                           (1_u8, "b")  01 62 00 00
//! Reverse        all bits flipped                              Reverse("b") 9d ff ff
//! ```
//!
//! Floats are in the order of `total_cmp`, of IEEE 754: negative NaNs, -∞, …, -0.0, 0.0, …, ∞, NaNs. So -0.0
//! and 0.0 are two keys though they are equal as numbers, and so are two NaNs with different bits. `usize`
//! and `isize` have no encoder, as files move between machines. Neither have arrays of bytes, since `b"ab"`
//! and `b"abc"` would then be of two types with two encodings: `&b"ab"[..]` is a byte string,
//! `u128::from_be_bytes` takes a UUID.
//!
//! A tree whose keys are single strings needs no encoder: the bytes of a string sort as they are.
//!
//! # What holds
//!
//! For values `a` and `b` of one type:
//!
//! - \[E1\] `encode(a)` and `encode(b)` compare as `a` and `b` do (floats: as `total_cmp` does).
//! - \[E2\] `encode(a)` is no proper prefix of `encode(b)`. So encodings can be set one after the other, the
//!   first difference decides, and flipping all bits turns the order round.
//! - \[E3\] `decode(encode(a))` is `a`, to the bit; other bytes than these are an error. So a value has one
//!   key.
//! - \[E4\] No bytes make decoding panic, and it allocates no more than a few times their length.
//!
//! A type of one's own that implements [`KeyEncode`] keeps E1 and E2 to be usable in tuples; encoding its
//! fields in the order in which they are compared does that.
//!
//! Tested by comparing random and almost equal values with their encodings, by round trips, by random and
//! altered bytes (E4, and E3 for those that decode), and by the table above byte for byte.

mod number;
mod text;
mod tuple;

#[cfg(test)]
mod tests;

pub use std::cmp::Reverse;

/// A value that can be a key, or a part of one.
pub trait KeyEncode {
    /// Appends the encoding to `out`, and changes nothing before it.
    fn encode_into(&self, out: &mut Vec<u8>);
}

/// A value that can be had back from the key that it became.
pub trait KeyDecode: Sized {
    /// Takes one value from the front of `input` and moves `input` behind it.
    ///
    /// # Errors
    /// If `input` does not start with an encoding of this type. The offset of the error counts from the start
    /// of `input`, which is then anywhere.
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError>;
}

/// The key that stands for `value`.
///
/// ```
/// use latchkv::encode::encode;
/// assert!(encode(&(-1_i64, "b")) < encode(&(0_i64, "a")));
/// assert_eq!(encode(&(1_u8, "b")), [1, b'b', 0, 0]);
/// ```
pub fn encode<T: KeyEncode + ?Sized>(value: &T) -> Vec<u8> {
    let mut key = Vec::new();
    value.encode_into(&mut key);
    key
}

/// The value that `key` stands for.
///
/// ```
/// use latchkv::encode::{DecodeFault, decode, encode};
/// let key = encode(&(7_u32, "seven"));
/// assert_eq!(decode::<(u32, String)>(&key)?, (7, "seven".to_owned()));
///
/// let error = decode::<(u32, bool)>(&key).unwrap_err();
/// assert_eq!((error.offset, error.fault), (4, DecodeFault::Tag { got: b's' }));
/// # Ok::<(), latchkv::encode::DecodeError>(())
/// ```
///
/// # Errors
/// If `key` is not the encoding of a `T`, whole.
pub fn decode<T: KeyDecode>(key: &[u8]) -> Result<T, DecodeError> {
    let mut input = key;
    let value = T::decode_from(&mut input)?;
    match input.len() {
        0 => Ok(value),
        bytes => {
            let offset = key.len() - bytes;
            Err(DecodeError::new(offset, DecodeFault::Trailing { bytes }))
        }
    }
}

/// Bytes are not a key of the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not such a key: {fault} at byte {offset}")]
pub struct DecodeError {
    /// Where the fault is, in bytes from the start of what was given to decode.
    pub offset: usize,
    /// What is wrong there.
    pub fault: DecodeFault,
}

impl DecodeError {
    /// A fault at `offset`, in bytes from the start of what was given to decode.
    pub fn new(offset: usize, fault: DecodeFault) -> DecodeError {
        DecodeError { offset, fault }
    }

    /// The same error, seen by a decoder that had taken `bytes` bytes before it called the one that failed.
    #[must_use]
    pub fn after(self, bytes: usize) -> DecodeError {
        DecodeError::new(self.offset + bytes, self.fault)
    }
}

/// What is wrong with the bytes of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// A value of fixed size is cut short.
    #[error("{needed} bytes expected, {left} left")]
    Short {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that there are.
        left: usize,
    },
    /// A string has no end.
    #[error("string without an end")]
    Unterminated,
    /// A zero byte in a string is followed neither by 00 nor by ff.
    #[error("00 followed by {got:02x} in a string")]
    Escape {
        /// The byte behind the zero byte.
        got: u8,
    },
    /// A string is no UTF-8. The offset is that of the string's start.
    #[error("string that is no UTF-8")]
    Utf8,
    /// A `bool` or `Option` starts neither with 00 nor with 01.
    #[error("00 or 01 expected, {got:02x} found")]
    Tag {
        /// The byte.
        got: u8,
    },
    /// There is something behind the value.
    #[error("{bytes} bytes too many")]
    Trailing {
        /// Their number.
        bytes: usize,
    },
    /// A fault that a decoder of another crate found.
    #[error("{0}")]
    Other(&'static str),
}

/// A reference is encoded as what it refers to.
impl<T: KeyEncode + ?Sized> KeyEncode for &T {
    fn encode_into(&self, out: &mut Vec<u8>) {
        (**self).encode_into(out);
    }
}
