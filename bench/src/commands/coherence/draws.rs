//! Which pages and records operations ask for.

use super::record::Number;

/// How often each is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Draws {
    /// All of `0..n` alike.
    Uniform { n: u64 },
    /// Number k in proportion to `1 / (k + 1)^theta`: the sums of these, from the first on. Neighbours are as
    /// hot as each other, but pages and records are scattered by their numbers anyway.
    Zipf { sums: Vec<f64> },
}

impl Draws {
    pub(crate) fn zipf(n: u64, theta: f64) -> Draws {
        let mut sum = 0.0;
        let mut add = |k: u64| {
            sum += ((k + 1) as f64).powf(-theta);
            sum
        };
        Draws::Zipf { sums: (0..n).map(&mut add).collect() }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> Number {
        match self {
            Draws::Uniform { n } => random.u64(0..*n),
            Draws::Zipf { sums } => {
                let at = random.f64() * sums.last().copied().unwrap_or(0.0);
                sums.partition_point(|&sum| sum <= at).min(sums.len().saturating_sub(1)) as Number
            }
        }
    }

    /// A list of `ops` numbers for each core, other ones for each.
    pub(crate) fn lists(&self, cores: usize, ops: usize, seed: u64) -> Vec<Vec<Number>> {
        let list = |core| {
            let mut random = fastrand::Rng::with_seed(seed ^ (core as u64 + 1) << 32);
            (0..ops).map(|_| self.draw(&mut random)).collect()
        };
        (0..cores).map(list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_asks_for_each_number_in_proportion_to_its_rank() {
        let draws = Draws::zipf(1000, 1.0);
        let list = &draws.lists(1, 100_000, 1)[0];
        let count = |number| list.iter().filter(|&&drawn| drawn == number).count() as f64;
        // 1 / (1 + 1/2 + ... + 1/1000) = 0.1336 of all.
        assert!((count(0) / 13_360.0 - 1.0).abs() < 0.05, "{}", count(0));
        assert!((count(0) / count(9) / 10.0 - 1.0).abs() < 0.15, "{}", count(9));
        assert!(list.iter().all(|&number| number < 1000));
    }

    #[test]
    fn lists_differ_between_cores_and_repeat_with_the_seed() {
        let draws = Draws::Uniform { n: 1 << 40 };
        let lists = draws.lists(3, 4, 7);
        assert_eq!(lists, draws.lists(3, 4, 7));
        assert!(lists[0] != lists[1] && lists[1] != lists[2]);
        assert_eq!(lists[1], draws.lists(2, 4, 7)[1], "more cores leave the others as they are");
    }
}
