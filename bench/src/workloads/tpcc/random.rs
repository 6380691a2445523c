//! Random numbers and texts as the specification has them (clauses 2.1.6, 4.3.2 and 4.3.3).
//!
//! What belongs to one row of the initial data comes from a generator of its own ([`of_row`]), seeded by what
//! names the row. So two trees that hold the same fact, such as the name of a customer and the index by that name,
//! are each filled in the order of their keys, and nothing but a number is kept meanwhile.

use super::scale::Scale;
use fastrand::Rng;
use std::ops::RangeInclusive;

/// The syllables of last names.
const SYLLABLES: [&[u8]; 10] =
    [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];

/// The constants C of NURand. Those of last names differ by 66 between load and run, as clause 2.1.6.1 wants.
const C_LAST_LOAD: u32 = 157;
const C_LAST_RUN: u32 = 223;
const C_CUSTOMER: u32 = 42;
const C_ITEM: u32 = 42;

/// A text of fixed room, padded with zeros.
pub(crate) type LastName = [u8; 16];

/// A number of `range` by NURand: some are drawn more often than others. `a` is the specification's for a range of
/// `full` numbers; for a shorter one it shrinks.
fn nurand(rng: &mut Rng, range: RangeInclusive<u32>, full: u32, a: u32, c: u32) -> u32 {
    let (first, last) = (*range.start(), *range.end());
    let count = last - first + 1;
    let a =
        ((u64::from(a) + 1) * u64::from(count) / u64::from(full)).next_power_of_two() as u32 - 1;
    ((rng.u32(0..=a) | rng.u32(range)) + (c & a)) % count + first
}

/// A customer of a district.
pub(crate) fn customer(rng: &mut Rng, scale: &Scale) -> u32 {
    nurand(rng, 1..=scale.customers, 3000, 1023, C_CUSTOMER)
}

/// An item.
pub(crate) fn item(rng: &mut Rng, scale: &Scale) -> u32 {
    nurand(rng, 1..=scale.items, 100_000, 8191, C_ITEM)
}

/// The number of a last name to look for.
pub(crate) fn last_name_to_find(rng: &mut Rng, scale: &Scale) -> u32 {
    nurand(rng, 0..=scale.last_names() - 1, 1000, 255, C_LAST_RUN)
}

/// The number of the last name that customer `c` gets: the first ones get all names, by turns.
pub(crate) fn last_name_to_load(rng: &mut Rng, scale: &Scale, c: u32) -> u32 {
    if c <= scale.last_names() {
        c - 1
    } else {
        nurand(rng, 0..=scale.last_names() - 1, 1000, 255, C_LAST_LOAD)
    }
}

/// The last name of a number below 1000: a syllable for each of its digits.
pub(crate) fn last_name(number: u32) -> LastName {
    let mut name = [0; 16];
    let mut len = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize % 10];
        name[len..len + syllable.len()].copy_from_slice(syllable);
        len += syllable.len();
    }
    name
}

/// `text` without the zeros that pad it.
pub(crate) fn trimmed(text: &[u8]) -> &[u8] {
    let len = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..len]
}

/// The generator of what belongs to a row of a table in the initial data.
pub(crate) fn of_row(seed: u64, table: u8, row: u64) -> Rng {
    // Fastrand steps by a constant, so that near seeds are near in time: spread them first.
    let at = (seed ^ u64::from(table) << 56).wrapping_add(row.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let at = (at ^ at >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let at = (at ^ at >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    Rng::with_seed(at ^ at >> 31)
}

/// Letters and digits, as many as `len` says, and zeros behind them.
pub(crate) fn text<const N: usize>(rng: &mut Rng, len: RangeInclusive<usize>) -> [u8; N] {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ab";
    let len = rng.usize(len);
    let mut text = [0; N];
    for chunk in text[..len].chunks_mut(10) {
        let mut bits = rng.u64(..);
        for byte in chunk {
            *byte = LETTERS[(bits % 64) as usize];
            bits >>= 6;
        }
    }
    text
}

/// Digits.
pub(crate) fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.u8(b'0'..=b'9'))
}

/// A zip code: four random digits and 11111.
pub(crate) fn zip(rng: &mut Rng) -> [u8; 9] {
    let mut zip = *b"000011111";
    zip[..4].copy_from_slice(&digits::<4>(rng));
    zip
}

/// What [`data`] puts into one of ten texts.
const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// A text of 26 to 50 letters; one in ten has "ORIGINAL" in it.
pub(crate) fn data(rng: &mut Rng) -> [u8; 50] {
    let mut data = text::<50>(rng, 26..=50);
    if rng.u8(0..10) == 0 {
        let at = rng.usize(0..=trimmed(&data).len() - ORIGINAL.len());
        data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// Whether "ORIGINAL" is in it.
pub(crate) fn is_original(data: &[u8; 50]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_of_the_syllables_of_their_digits() {
        assert_eq!(trimmed(&last_name(0)), b"BARBARBAR");
        assert_eq!(trimmed(&last_name(371)), b"PRICALLYOUGHT");
        assert_eq!(trimmed(&last_name(999)), b"EINGEINGEING");
    }

    #[test]
    fn draws_stay_in_their_ranges_at_every_scale() {
        let mut rng = Rng::with_seed(1);
        for factor in [0.0, 0.013, 0.5, 1.0] {
            let scale = Scale::new(1, factor);
            for _ in 0..2000 {
                assert!((1..=scale.customers).contains(&customer(&mut rng, &scale)));
                assert!((1..=scale.items).contains(&item(&mut rng, &scale)));
                assert!(last_name_to_find(&mut rng, &scale) < scale.last_names());
                let c = rng.u32(1..=scale.customers);
                assert!(last_name_to_load(&mut rng, &scale, c) < scale.last_names());
            }
        }
    }

    #[test]
    fn nurand_prefers_some_numbers() {
        let mut rng = Rng::with_seed(1);
        let scale = Scale::new(1, 1.0);
        let mut counts = vec![0_u32; 1001];
        for _ in 0..100_000 {
            counts[(customer(&mut rng, &scale) - 1) as usize / 3] += 1;
        }
        let (least, most) = (counts[..1000].iter().min(), counts.iter().max());
        assert!(most > least.map(|least| least * 3).as_ref(), "{least:?} {most:?}");
    }

    #[test]
    fn texts_have_the_lengths_asked_for() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..200 {
            assert!((8..=16).contains(&trimmed(&text::<16>(&mut rng, 8..=16)).len()));
            assert!((26..=50).contains(&trimmed(&data(&mut rng)).len()));
        }
        let original = (0..2000).filter(|_| is_original(&data(&mut rng))).count();
        assert!((100..400).contains(&original), "{original} of 2000");
    }

    #[test]
    fn a_row_has_the_same_generator_each_time_and_another_than_its_neighbour() {
        let draw = |table, row| of_row(7, table, row).u64(..);
        assert_eq!(draw(1, 5), draw(1, 5));
        assert_ne!(draw(1, 5), draw(1, 6));
        assert_ne!(draw(1, 5), draw(2, 5));
    }
}
