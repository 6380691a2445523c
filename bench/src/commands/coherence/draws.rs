//! Which pages and records operations ask for.

use super::record::Number;
use crate::workloads::zipf::Zipf;

/// How often each is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draws {
    /// All of `0..n` alike.
    Uniform { n: u64 },
    /// The lower the number, the oftener. Pages and records are scattered by their numbers anyway.
    Zipf(Zipf),
}

impl Draws {
    fn draw(&self, random: &mut fastrand::Rng) -> Number {
        match self {
            Draws::Uniform { n } => random.u64(0..*n),
            Draws::Zipf(zipf) => zipf.draw(random),
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
    fn lists_differ_between_cores_and_repeat_with_the_seed() {
        for draws in [Draws::Uniform { n: 1 << 40 }, Draws::Zipf(Zipf::new(1 << 20, 0.99))] {
            let lists = draws.lists(3, 8, 7);
            assert_eq!(lists, draws.lists(3, 8, 7));
            assert!(lists[0] != lists[1] && lists[1] != lists[2]);
            assert_eq!(
                lists[1],
                draws.lists(2, 8, 7)[1],
                "more cores leave the others as they are"
            );
        }
    }
}
