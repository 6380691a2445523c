//! Keys and values of records.
//!
//! ```text
//! key      "user" [ 20 digits ]
//! value    [ field 0 ][ field 1 ] ..      all of the same length
//! ```
//!
//! Tested below.

use crate::data::{Key, mix};

/// How many fields a record has, and how long they are.
#[derive(clap::Args, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Fields of a record
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) fields: u32,
    /// Bytes of a field
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub(crate) field_bytes: u32,
}

/// The key of record `number`.
pub(crate) fn key(number: u64) -> Key {
    let mut key = *b"user00000000000000000000";
    let mut hash = mix(number);
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (hash % 10) as u8;
        hash /= 10;
    }
    key
}

impl Shape {
    /// Bytes of a value.
    pub(crate) fn value_bytes(self) -> usize {
        self.fields as usize * self.field_bytes as usize
    }

    /// Makes `value` that of a new record.
    pub(crate) fn fill(self, value: &mut Vec<u8>, random: &mut fastrand::Rng) {
        value.resize(self.value_bytes(), 0);
        random.fill(value);
    }

    /// Writes one field of `value` anew; leaves a value of another length as it is.
    pub(crate) fn change(self, value: &mut [u8], random: &mut fastrand::Rng) {
        let field = random.u32(0..self.fields) as usize * self.field_bytes as usize;
        if let Some(field) = value.get_mut(field..field + self.field_bytes as usize) {
            random.fill(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_digits() {
        let keys: HashSet<Key> = (0..5000).map(key).collect();
        assert_eq!(keys.len(), 5000);
        assert!(keys.iter().all(|key| key.starts_with(b"user")));
        assert!(keys.iter().all(|key| key[4..].iter().all(u8::is_ascii_digit)));
    }

    #[test]
    fn a_change_is_within_one_field() {
        let shape = Shape { fields: 7, field_bytes: 9 };
        let mut random = fastrand::Rng::with_seed(1);
        let mut value = Vec::new();
        shape.fill(&mut value, &mut random);
        assert_eq!(value.len(), 63);
        for _ in 0..50 {
            let before = value.clone();
            shape.change(&mut value, &mut random);
            let changed: HashSet<usize> =
                (0..63).filter(|&at| value[at] != before[at]).map(|at| at / 9).collect();
            assert_eq!(changed.len(), 1);
        }
    }
}
