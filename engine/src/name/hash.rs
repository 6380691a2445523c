//! The hash of a name: a word at a time.
//!
//! ```text
//! state = SEED ^ length
//! each 8 bytes, then what is left:   state = fold(state ^ word, ODD)
//! fold(a, b) = high ^ low half of the 128-bit product a * b
//! ```
//!
//! A fold carries every bit of the word into both ends of the state, so that tables may take any bits of the result;
//! a hash that goes byte by byte with shifts and additions leaves names that differ in their last letter in
//! neighbouring buckets, or the same one. The state is a local until the end: a state behind a pointer has to go
//! through memory with each byte, since a byte that is read may lie anywhere.
//!
//! Not for input that somebody may choose against it: names are made by who owns the database.
//!
//! After the folded multiplication of wyhash (Wang Yi, public domain). Tested below: the low bits of alike names.

/// Where each state begins. Digits of pi.
const SEED: u64 = 0x243f_6a88_85a3_08d3;
/// What words are multiplied by. Digits of the golden ratio, odd.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// What the last state is multiplied by. Digits of e, odd.
const LAST: u64 = 0xb7e1_5162_8aed_2a6b;

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of a part of a name.
#[inline]
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut state = SEED ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), ODD);
    }
    if !rest.is_empty() {
        state = fold(state ^ last_word(bytes), ODD);
    }
    fold(state, LAST)
}

/// The last eight bytes, some of which were taken already; of fewer, all, each at a place that the length decides.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
    byte(0) << 16 | byte(bytes.len() / 2) << 8 | byte(bytes.len().saturating_sub(1))
}

/// The hash of two parts, of their hashes.
#[inline]
pub(super) fn join(first: u64, second: u64) -> u64 {
    fold(first ^ second.rotate_left(32), LAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Records in the fullest of `buckets`, by the low bits, and by the high ones.
    fn fullest(names: &[String], buckets: usize) -> (usize, usize) {
        let shift = 64 - buckets.ilog2();
        let mut low = vec![0; buckets];
        let mut high = vec![0; buckets];
        for name in names {
            let hash = hash(name.as_bytes());
            low[hash as usize % buckets] += 1;
            high[(hash >> shift) as usize] += 1;
        }
        (low.into_iter().max().unwrap_or(0), high.into_iter().max().unwrap_or(0))
    }

    fn families() -> Vec<(&'static str, Vec<String>)> {
        vec![
            ("similar", (0..10).map(|i| format!("sbtest{i}")).collect()),
            ("numbers", (0..4096).map(|i| i.to_string()).collect()),
            ("padded numbers", (0..4096).map(|i| format!("{i:08}")).collect()),
            (
                "letters",
                ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("t_{a}{b}"))).collect(),
            ),
            (
                "paths",
                (0..4096)
                    .map(|i| format!("logs/{}/{:02}/part-{}", 2000 + i / 256, i / 16 % 16, i % 16))
                    .collect(),
            ),
        ]
    }

    #[test]
    fn alike_names_spread_over_buckets_by_low_and_by_high_bits() {
        for (family, names) in families() {
            // As many buckets as names: at random the fullest of n has about ln n / ln ln n, 7 of 4096.
            let buckets = names.len().next_power_of_two();
            let (low, high) = fullest(&names, buckets);
            let most = if names.len() > 16 { 10 } else { 4 };
            assert!(low <= most && high <= most, "{family}: {low} and {high} of {}", names.len());
        }
    }

    #[test]
    fn ten_similar_names_take_at_least_six_of_sixteen_buckets() {
        let names: Vec<String> = (0..10).map(|i| format!("sbtest{i}")).collect();
        let taken: HashSet<u64> = names.iter().map(|name| hash(name.as_bytes()) % 16).collect();
        assert!(taken.len() >= 6, "{taken:?}");
    }

    #[test]
    fn each_bit_of_a_name_moves_about_half_of_the_bits() {
        for len in [1, 7, 8, 9, 16, 31] {
            let name = vec![b'm'; len];
            let base = hash(&name);
            let mut moved = 0;
            for bit in 0..len * 8 {
                let mut other = name.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                let distance = (hash(&other) ^ base).count_ones();
                assert!(distance >= 8, "bit {bit} of {len} bytes moves {distance}");
                moved += distance;
            }
            let mean = f64::from(moved) / (len * 8) as f64;
            assert!((28.0..36.0).contains(&mean), "{mean} of 64 bits, {len} bytes");
        }
    }

    #[test]
    fn zeros_at_the_end_count() {
        let hashes: HashSet<u64> = (0..40).map(|len| hash(&vec![0; len])).collect();
        assert_eq!(hashes.len(), 40);
    }
}
