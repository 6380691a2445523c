//! Draws in which few items are frequent: the item of rank r, from 1 on, has a weight of 1 / r^exponent.
//!
//! The ranks come from `rand_distr`, by rejection: exact for every number of items, without the sum over all of them that
//! the generator of Gray et al. ("Quickly generating billion-record synthetic databases", 1994) needs, which YCSB and
//! sysbench use. So a set that grows costs nothing.
//!
//! [`Zipf`] leaves the frequent items beside each other, which makes them share pages. [`Scrambled`] spreads them, as
//! YCSB does: it draws from ten thousand million ranks, whatever the number of items is, and hashes the rank into the
//! items. So the most frequent item has about 4 % of all draws, and some items get the draws of several ranks.
//!
//! Tested below: the shares of the first ranks are those of the formula.

use crate::data::mix;
use rand::TryRng;
use rand_distr::Distribution;
use std::convert::Infallible;

/// Ranks that [`Scrambled`] draws from, as in YCSB.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;

/// Ranks from 0, the most frequent, to below `items`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    items: u64,
    distribution: rand_distr::Zipf<f64>,
}

impl Zipf {
    /// Of at least one item; an exponent from 0 (all alike) on, not infinite.
    pub(crate) fn new(items: u64, exponent: f64) -> Zipf {
        let items = items.max(1);
        let distribution = rand_distr::Zipf::new(items as f64, exponent)
            .expect("there is an item, and exponents are constants of this program");
        Zipf { items, distribution }
    }

    /// A rank.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let rank = self.distribution.sample(&mut Source(random)) as u64;
        rank.clamp(1, self.items) - 1
    }
}

/// Items from 0 to below `items`, the frequent ones anywhere among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrambled {
    items: u64,
    ranks: Zipf,
}

impl Scrambled {
    /// As [`Zipf::new`].
    pub(crate) fn new(items: u64, exponent: f64) -> Scrambled {
        Scrambled { items: items.max(1), ranks: Zipf::new(SCRAMBLED_RANKS, exponent) }
    }

    /// An item.
    pub(crate) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        // From 1 on, as the mix leaves 0 where it is.
        mix(self.ranks.draw(random) + 1) % self.items
    }
}

/// The random numbers of this program, as `rand` wants them.
struct Source<'a>(&'a mut fastrand::Rng);

impl TryRng for Source<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.u32(..))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.u64(..))
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill(to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Draws of each of the first items.
    fn counted<const N: usize>(mut draw: impl FnMut(&mut fastrand::Rng) -> u64) -> [usize; N] {
        let mut random = fastrand::Rng::with_seed(7);
        let mut counts = [0; N];
        for _ in 0..DRAWS {
            if let Some(count) = counts.get_mut(draw(&mut random) as usize) {
                *count += 1;
            }
        }
        counts
    }

    #[test]
    fn the_first_ranks_have_the_shares_of_the_formula() {
        for exponent in [0.8, 0.99] {
            let items = 1000;
            let zipf = Zipf::new(items, exponent);
            let sum: f64 = (1..=items).map(|rank| (rank as f64).powf(-exponent)).sum();
            let counts: [usize; 8] = counted(|random| zipf.draw(random));
            for (at, &count) in counts.iter().enumerate() {
                let share = ((at + 1) as f64).powf(-exponent) / sum;
                let expected = share * DRAWS as f64;
                // Five standard deviations of a binomial.
                let off = (count as f64 - expected).abs();
                assert!(off < 5.0 * expected.sqrt(), "rank {at}: {count}, not {expected}");
            }
        }
    }

    #[test]
    fn every_draw_is_an_item_and_one_item_is_drawn_always() {
        let zipf = Zipf::new(3, 0.99);
        assert_eq!(counted::<3>(|random| zipf.draw(random)).iter().sum::<usize>(), DRAWS);
        let scrambled = Scrambled::new(3, 0.99);
        assert_eq!(counted::<3>(|random| scrambled.draw(random)).iter().sum::<usize>(), DRAWS);
        assert_eq!(counted::<1>(|random| Zipf::new(1, 0.8).draw(random)), [DRAWS]);
    }

    #[test]
    fn the_most_frequent_scrambled_item_is_not_the_first_and_has_four_percent() {
        let scrambled = Scrambled::new(1000, 0.99);
        let counts: [usize; 1000] = counted(|random| scrambled.draw(random));
        let most = (0..1000).max_by_key(|&at| counts[at]).expect("there are items");
        assert_eq!(most as u64, mix(1) % 1000);
        assert_ne!(most, 0);
        let share = counts[most] as f64 / DRAWS as f64;
        assert!((0.036..0.043).contains(&share), "{share}");
    }
}
