use super::{DecodeError, DecodeFault, KeyDecode, KeyEncode, Reverse, decode, encode};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::fmt::Debug;

/// E1, E2 and E3 for two values whose order is `order`.
#[track_caller]
fn holds<T: KeyEncode + KeyDecode + Debug>(a: &T, b: &T, order: Ordering) {
    let (key_a, key_b) = (encode(a), encode(b));
    assert_eq!(key_a.cmp(&key_b), order, "order of {a:?} and {b:?}");
    if order.is_ne() {
        assert!(!key_b.starts_with(&key_a), "{a:?} is a prefix of {b:?}");
        assert!(!key_a.starts_with(&key_b), "{b:?} is a prefix of {a:?}");
    }
    for key in [key_a, key_b] {
        let back = decode::<T>(&key).expect("its own encoding");
        assert_eq!(encode(&back), key);
    }
}

fn holds_ord<T: KeyEncode + KeyDecode + Ord + Debug + Clone>(a: T, b: T) {
    holds(&a, &b, a.cmp(&b));
    assert_eq!(decode::<T>(&encode(&a)), Ok(a.clone()));
    let order = b.cmp(&a);
    holds(&Reverse(a), &Reverse(b), order);
}

/// Strings in which the bytes that are escaped, or look like it, are frequent.
fn byte_string() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => Just(0_u8), 2 => Just(0xff), 1 => Just(1), 1 => Just(0xfe), 2 => any::<u8>()
    ];
    vec(byte, 0..7)
}

fn text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('a'), Just('ÿ'), any::<char>()], 0..5)
        .prop_map(|chars| chars.into_iter().collect())
}

/// Numbers that are near each other, near zero, or far away.
fn signed_number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -300..300_i64, Just(i64::MIN), Just(i64::MAX)]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(f64::MIN_POSITIVE),
        -2.0..2.0_f64,
    ]
}

type Big = (
    u8,
    i16,
    Option<u32>,
    String,
    Reverse<Vec<u8>>,
    Option<Option<bool>>,
    (i128, Reverse<u64>),
    Vec<u8>,
);

fn big() -> impl Strategy<Value = Big> {
    (
        0..2_u8,
        -1..2_i16,
        option::of(0..2_u32),
        text(),
        byte_string().prop_map(Reverse),
        option::of(option::of(any::<bool>())),
        (-1..2_i128, (0..2_u64).prop_map(Reverse)),
        byte_string(),
    )
}

proptest! {
    #[test]
    fn integers_sort_as_their_encodings(a in signed_number(), b in signed_number()) {
        macro_rules! each {
            ($($number:ty)*) => {$( holds_ord(a as $number, b as $number); )*};
        }
        each!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
        holds_ord(u128::from(a as u64) << 64 | 7, u128::from(b as u64) << 64);
        holds_ord(i128::from(a) << 64 | 7, i128::from(b) << 64);
    }

    #[test]
    fn floats_sort_as_total_cmp_and_come_back_to_the_bit(a in float(), b in float()) {
        holds(&a, &b, a.total_cmp(&b));
        holds(&Reverse(a), &Reverse(b), b.total_cmp(&a));
        prop_assert_eq!(decode::<f64>(&encode(&a)).unwrap().to_bits(), a.to_bits());
        let (a, b) = (f32::from_bits(a.to_bits() as u32), f32::from_bits((b.to_bits() >> 32) as u32));
        holds(&a, &b, a.total_cmp(&b));
        prop_assert_eq!(decode::<f32>(&encode(&a)).unwrap().to_bits(), a.to_bits());
    }

    #[test]
    fn byte_strings_sort_as_their_encodings(a in byte_string(), b in byte_string(), tail in byte_string()) {
        holds_ord(a.clone(), b);
        let longer = [a.clone(), tail].concat();
        holds_ord(a, longer);
    }

    #[test]
    fn strings_sort_as_their_encodings(a in text(), b in text()) {
        prop_assert_eq!(encode(a.as_str()), encode(a.as_bytes()));
        holds_ord(a, b);
    }

    #[test]
    fn tuples_sort_as_their_encodings(a in big(), b in big()) {
        holds_ord(a, b);
    }

    #[test]
    fn a_first_part_that_is_a_string_decides_before_the_second(
        a in (byte_string(), byte_string()),
        b in (byte_string(), byte_string()),
    ) {
        holds_ord(a.clone(), b);
        holds_ord(a.clone(), (a.0.clone(), [a.1, vec![0]].concat()));
    }

    #[test]
    fn a_shorter_tuple_is_a_prefix(a in big()) {
        let (key, short) = (encode(&a), encode(&(a.0, a.1, a.2, &a.3)));
        prop_assert!(key.starts_with(&short));
    }

    #[test]
    fn any_bytes_decode_to_their_only_value_or_an_error_inside_them(
        bytes in prop_oneof![vec(any::<u8>(), 0..60), byte_string(), vec(0..2_u8, 0..60)]
    ) {
        decodes_or_not::<bool>(&bytes);
        decodes_or_not::<i64>(&bytes);
        decodes_or_not::<f64>(&bytes);
        decodes_or_not::<Vec<u8>>(&bytes);
        decodes_or_not::<String>(&bytes);
        decodes_or_not::<Option<Reverse<String>>>(&bytes);
        decodes_or_not::<(Vec<u8>, Reverse<(u8, Option<Vec<u8>>)>)>(&bytes);
        decodes_or_not::<Big>(&bytes);
    }

    #[test]
    fn an_altered_key_decodes_to_its_only_value_or_an_error_inside_it(
        a in big(), at in any::<prop::sample::Index>(), bits in 1..=255_u8, cut in any::<bool>()
    ) {
        let mut key = encode(&a);
        let at = at.index(key.len());
        key[at] ^= bits;
        if cut {
            key.truncate(at);
        }
        decodes_or_not::<Big>(&key);
    }
}

fn decodes_or_not<T: KeyDecode + KeyEncode>(bytes: &[u8]) {
    match decode::<T>(bytes) {
        Ok(value) => assert_eq!(encode(&value), bytes),
        Err(error) => assert!(error.offset <= bytes.len(), "{error}"),
    }
}

#[test]
fn the_bytes_are_those_of_the_table() {
    assert_eq!(encode(&1_u16), [0, 1]);
    assert_eq!(encode(&-1_i16), [0x7f, 0xff]);
    assert_eq!(encode(&-0.0_f32), [0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(encode(&0.0_f32), [0x80, 0, 0, 0]);
    assert_eq!(encode(&true), [1]);
    assert_eq!(encode("a\0"), [0x61, 0, 0xff, 0, 0]);
    assert_eq!(encode(&[b'a', 0][..]), [0x61, 0, 0xff, 0, 0]);
    assert_eq!(encode(""), [0, 0]);
    assert_eq!(encode(&None::<u8>), [0]);
    assert_eq!(encode(&Some(5_u8)), [1, 5]);
    assert_eq!(encode(&(1_u8, "b")), [1, 0x62, 0, 0]);
    assert_eq!(encode(&Reverse("b")), [0x9d, 0xff, 0xff]);
}

#[test]
fn an_error_says_where_and_what() {
    let at = |offset, fault| DecodeError::new(offset, fault);
    let short = DecodeFault::Short { needed: 4, left: 3 };
    assert_eq!(decode::<u32>(&[1, 2, 3]), Err(at(0, short.clone())));
    assert_eq!(decode::<(u8, Option<u32>)>(&[9, 1, 1, 2, 3]), Err(at(2, short)));
    assert_eq!(decode::<bool>(&[2]), Err(at(0, DecodeFault::Tag { got: 2 })));
    assert_eq!(decode::<u8>(&[1, 2, 3]), Err(at(1, DecodeFault::Trailing { bytes: 2 })));
    assert_eq!(decode::<Vec<u8>>(b"ab"), Err(at(2, DecodeFault::Unterminated)));
    assert_eq!(decode::<Vec<u8>>(b"ab\0"), Err(at(3, DecodeFault::Unterminated)));
    let escape = DecodeFault::Escape { got: 7 };
    assert_eq!(decode::<(u8, Vec<u8>)>(b"\x01a\0\xffb\0\x07\0\0"), Err(at(6, escape)));
    assert_eq!(decode::<(u8, String)>(b"\x01\xc3\0\0"), Err(at(1, DecodeFault::Utf8)));
    let inside_reverse = decode::<(u8, Reverse<(u8, bool)>)>(&[0, 0xff, 0x00]);
    assert_eq!(inside_reverse, Err(at(2, DecodeFault::Tag { got: 0xff })));
    let text = decode::<bool>(&[2]).unwrap_err().to_string();
    assert_eq!(text, "not such a key: 00 or 01 expected, 02 found at byte 0");
}
