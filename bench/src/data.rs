//! The records: random keys of 24 bytes, values of 150, each computed from its number. So nothing but the
//! numbers is kept, every run with the same seed has the same data, and what was read can be known to be
//! right.

/// A key.
pub(crate) type Key = [u8; 24];
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 150;
/// A value.
pub(crate) type Value = [u8; VALUE_BYTES];
/// A key and its value.
pub(crate) type Record = (Key, Value);
/// Bytes of a record without anything that an engine adds.
pub(crate) const RECORD_BYTES: u64 = 24 + VALUE_BYTES as u64;

/// A data set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    /// What the random numbers start from.
    pub(crate) seed: u64,
    /// Number of records.
    pub(crate) records: u64,
}

/// SplitMix64: a permutation of the 64-bit numbers that looks random.
pub(crate) fn mix(at: u64) -> u64 {
    let x = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Data {
    /// The key of record `at`; numbers from `records` on give keys that are not in the data set.
    pub(crate) fn key(&self, at: u64) -> Key {
        let first = mix(self.seed ^ at);
        let mut key = [0; 24];
        key[..8].copy_from_slice(&first.to_be_bytes());
        key[8..16].copy_from_slice(&mix(first ^ 1).to_be_bytes());
        key[16..].copy_from_slice(&mix(first ^ 2).to_be_bytes());
        key
    }

    /// The value of record `at` after `version` updates.
    pub(crate) fn value(&self, at: u64, version: u64) -> Value {
        let mut word = mix(self.seed ^ at ^ version << 48) | 1;
        let mut value = [0; VALUE_BYTES];
        for chunk in value.chunks_mut(8) {
            // Xorshift: three shifts a word, so that making a value costs little beside storing it.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        value
    }

    /// Record `at` after `version` updates.
    pub(crate) fn record(&self, at: u64, version: u64) -> Record {
        (self.key(at), self.value(at, version))
    }

    /// Keys in ascending order, with the numbers of their records.
    pub(crate) fn sorted(&self) -> Vec<(Key, u64)> {
        let mut keys: Vec<_> = (0..self.records).map(|at| (self.key(at), at)).collect();
        keys.sort_unstable();
        keys
    }

    /// `count` numbers of records, drawn anew for each `round`.
    pub(crate) fn draw(&self, round: u64, count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(mix(self.seed ^ round << 32 ^ 0x726f_756e_6473));
        (0..count).map(|_| random.u64(0..self.records)).collect()
    }

    /// The keys of [`draw`](Self::draw).
    pub(crate) fn probes(&self, round: u64, count: usize) -> Vec<Key> {
        self.draw(round, count).into_iter().map(|at| self.key(at)).collect()
    }

    /// Bytes of keys and values.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.records * RECORD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Data = Data { seed: 7, records: 5000 };

    #[test]
    fn keys_are_distinct_and_ascend_when_sorted() {
        let sorted = DATA.sorted();
        assert!(sorted.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(sorted.iter().all(|&(key, at)| DATA.key(at) == key));
    }

    #[test]
    fn an_update_changes_the_value_but_not_its_length() {
        assert_ne!(DATA.value(3, 0), DATA.value(3, 1));
        assert_ne!(DATA.value(3, 0), DATA.value(4, 0));
    }

    #[test]
    fn draws_repeat_by_round_and_stay_inside() {
        assert_eq!(DATA.draw(1, 100), DATA.draw(1, 100));
        assert_ne!(DATA.draw(1, 100), DATA.draw(2, 100));
        assert!(DATA.draw(1, 1000).iter().all(|&at| at < DATA.records));
    }
}
