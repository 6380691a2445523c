//! Integers, floats and `bool`: fixed sizes, so no encoding is a prefix of another (E2).

use super::{DecodeError, DecodeFault, KeyDecode, KeyEncode};

/// Takes `N` bytes from the front of `input`.
pub(super) fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let short = DecodeFault::Short { needed: N, left: input.len() };
    let (bytes, rest) = input.split_first_chunk().ok_or(DecodeError::new(0, short))?;
    *input = rest;
    Ok(*bytes)
}

/// Takes the byte that tells two cases apart.
pub(super) fn take_tag(input: &mut &[u8]) -> Result<bool, DecodeError> {
    match take(input)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [got] => Err(DecodeError::new(0, DecodeFault::Tag { got })),
    }
}

macro_rules! unsigned {
    ($($number:ty)*) => {$(
        /// Big-endian.
        impl KeyEncode for $number {
            fn encode_into(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }

        /// Big-endian.
        impl KeyDecode for $number {
            fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(Self::from_be_bytes(take(input)?))
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 u128);

macro_rules! signed {
    ($($number:ty as $bits:ty)*) => {$(
        /// Big-endian with the sign bit flipped, so that negative numbers come first.
        impl KeyEncode for $number {
            fn encode_into(&self, out: &mut Vec<u8>) {
                (self ^ Self::MIN).cast_unsigned().encode_into(out);
            }
        }

        /// Big-endian with the sign bit flipped.
        impl KeyDecode for $number {
            fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(<$bits>::decode_from(input)?.cast_signed() ^ Self::MIN)
            }
        }
    )*};
}

signed!(i8 as u8 i16 as u16 i32 as u32 i64 as u64 i128 as u128);

macro_rules! float {
    ($($number:ty as $bits:ty)*) => {$(
        /// In the order of `total_cmp`: the bits of positive numbers grow with them, those of negative ones
        /// shrink.
        impl KeyEncode for $number {
            fn encode_into(&self, out: &mut Vec<u8>) {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                let sorted = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
                sorted.encode_into(out);
            }
        }

        /// In the order of `total_cmp`. Every bit comes back, those of NaNs too.
        impl KeyDecode for $number {
            fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let sorted = <$bits>::decode_from(input)?;
                let bits = if sorted & SIGN == 0 { !sorted } else { sorted ^ SIGN };
                Ok(Self::from_bits(bits))
            }
        }
    )*};
}

float!(f32 as u32 f64 as u64);

/// 00 for false, 01 for true.
impl KeyEncode for bool {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

/// 00 for false, 01 for true.
impl KeyDecode for bool {
    fn decode_from(input: &mut &[u8]) -> Result<Self, DecodeError> {
        take_tag(input)
    }
}
