//! Medians, the intervals that hold them, and what may be said of a ratio, \[B1].
//!
//! The interval of a median is that of order statistics, from the sign test: of n sorted rounds it goes from the k-th least to
//! the k-th greatest, and holds the true median unless fewer than k rounds fell on one side of it. Each round does
//! so with probability 1/2, whatever the times are distributed like, so the interval is wrong with probability
//! 2 P(B < k), B binomial of n and 1/2 (W. R. Thompson, "On confidence ranges for the median", Annals of Mathematical
//! Statistics 7, 1936; H. A. David and H. N. Nagaraja, "Order Statistics", 7.1). k is the greatest for which that is
//! at most 5 %:
//!
//! | rounds | interval | holds the median with |
//! |---|---|---|
//! | 1 to 5 | least to greatest, k = 1 | 0, 50, 75, 87.5, 93.8 %: no verdict |
//! | 6 | least to greatest | 96.9 % |
//! | 7 | least to greatest | 98.4 % |
//! | 11 | second least to second greatest | 98.8 % |
//! | 21 | sixth least to sixth greatest | 97.3 % |
//!
//! A percentile bootstrap of the median, which is often used instead, draws from the same few values and is too narrow at these
//! numbers of rounds: it names a winner among equals in 6 to 11 % of runs of 5 to 21 rounds.
//!
//! What it assumes: rounds are independent of each other. Weather that lasts for several rounds makes them less so,
//! which is why rounds are short, paired, and in an order that changes.
//!
//! Tested by equal variants, of which a winner may come out in one run of twenty.

/// How often an interval may miss.
const MISS: f64 = 0.05;
/// How often each of two independent intervals may miss, so that both hold with 95 %: 1 - sqrt(0.95).
const MISS_OF_TWO: f64 = 0.025_320_565;

/// A figure, mostly a ratio, with the interval of its median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether the interval holds the median with 95 %. If not, it is from the least to the greatest, and says no more.
    pub(crate) is_sure: bool,
}

impl Ratio {
    /// What may be said: `above` if the figure is above 1, `below` if it is below, or that neither is known.
    pub(crate) fn verdict<'a>(self, above: &'a str, below: &'a str) -> &'a str {
        if !self.is_sure {
            "too few rounds for a verdict"
        } else if self.low > 1.0 {
            above
        } else if self.high < 1.0 {
            below
        } else {
            "no winner: within the noise"
        }
    }

    /// What the interval is.
    pub(crate) fn interval(self) -> &'static str {
        if self.is_sure { "95 %" } else { "least to greatest" }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3}", self.median, self.low, self.high)?;
        f.write_str(if self.is_sure { ")" } else { ", least to greatest)" })
    }
}

/// The median. 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    middle(&sorted(values))
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

/// The k of the module's head: the greatest for which an interval of `rounds` misses with probability `miss` at most. `None` if
/// even that from the least to the greatest misses more often.
fn rank(rounds: usize, miss: f64) -> Option<usize> {
    // P(B = 0); below that of the least float nothing is worth counting, and the sum stays 0.
    let mut term = (-(rounds as f64) * std::f64::consts::LN_2).exp();
    let mut sum = 0.0;
    for below in 0..rounds {
        sum += term;
        if 2.0 * sum > miss {
            return (below > 0).then_some(below);
        }
        term *= (rounds - below) as f64 / (below + 1) as f64;
    }
    None
}

/// Median of `values` with its interval.
pub(crate) fn of_median(values: &[f64]) -> Ratio {
    missing(values, MISS)
}

fn missing(values: &[f64], miss: f64) -> Ratio {
    let sorted = sorted(values);
    let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
        return Ratio { median: 0.0, low: 0.0, high: f64::INFINITY, is_sure: false };
    };
    let median = middle(&sorted);
    match rank(sorted.len(), miss) {
        Some(k) => {
            Ratio { median, low: sorted[k - 1], high: sorted[sorted.len() - k], is_sure: true }
        }
        None => Ratio { median, low: least, high: greatest, is_sure: false },
    }
}

/// How many times the median of `first` that of `second` is, if their rounds are no pairs: the extremes of two intervals
/// that hold together with 95 %.
pub(crate) fn unpaired(first: &[f64], second: &[f64]) -> Ratio {
    let (first, second) = (missing(first, MISS_OF_TWO), missing(second, MISS_OF_TWO));
    Ratio {
        median: second.median / first.median,
        low: second.low / first.high,
        high: second.high / first.low,
        is_sure: first.is_sure && second.is_sure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn ranks_are_those_of_published_tables() {
        let expected = [(5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (11, Some(2))];
        for (rounds, k) in expected.into_iter().chain([(21, Some(6)), (100, Some(40))]) {
            assert_eq!(rank(rounds, MISS), k, "{rounds} rounds");
        }
        assert_eq!(rank(0, MISS), None);
    }

    /// Rounds of two variants that cost the same, with noise whose tail is long to one side, as that of times is.
    fn equals(random: &mut fastrand::Rng, rounds: usize) -> Vec<f64> {
        let mut time = || 100.0 + random.f64() + 3.0 * random.f64().powi(8);
        (0..rounds).map(|_| time() / time()).collect()
    }

    #[test]
    fn equal_variants_have_a_winner_in_five_percent_of_runs_at_most() {
        let mut random = fastrand::Rng::with_seed(42);
        let runs = 20_000;
        for rounds in [6, 7, 11, 21] {
            let has_winner = |_: &u32| {
                let verdict = of_median(&equals(&mut random, rounds)).verdict("above", "below");
                !verdict.starts_with("no winner")
            };
            let winners = (0..runs).filter(has_winner).count();
            let share = winners as f64 / f64::from(runs);
            // Three standard deviations of such a share are half a percent.
            assert!(share < 0.055, "{rounds} rounds: {share}");
            assert!(winners > 0, "{rounds} rounds: such an interval would find nothing");
        }
    }

    #[test]
    fn fewer_than_six_rounds_have_no_verdict_however_clear_they_are() {
        for rounds in 0..6 {
            let ratio = of_median(&vec![2.0; rounds]);
            assert_eq!(ratio.verdict("above", "below"), "too few rounds for a verdict");
            assert_eq!(ratio.interval(), "least to greatest");
        }
        assert_eq!(of_median(&[2.0; 6]).verdict("above", "below"), "above");
        assert_eq!(of_median(&[0.5; 6]).verdict("above", "below"), "below");
    }

    #[test]
    fn no_winner_is_named_if_the_interval_holds_one() {
        let noisy: Vec<f64> = (0..20).map(|at| 0.9 + 0.01 * f64::from(at)).collect();
        assert_eq!(of_median(&noisy).verdict("above", "below"), "no winner: within the noise");
    }

    #[test]
    fn one_round_far_off_moves_no_interval_of_eleven() {
        let mut rounds = [2.0; 11];
        rounds[3] = 1000.0;
        let ratio = of_median(&rounds);
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn a_text_says_when_an_interval_is_none() {
        assert_eq!(of_median(&[2.0; 6]).to_string(), "2.000 (2.000 to 2.000)");
        assert_eq!(of_median(&[1.0, 3.0]).to_string(), "2.000 (1.000 to 3.000, least to greatest)");
    }

    #[test]
    fn an_unpaired_ratio_of_equal_rounds_has_no_winner_and_needs_seven() {
        let rounds: Vec<f64> = (0..21).map(|at| 10.0 + f64::from(at % 5)).collect();
        let ratio = unpaired(&rounds, &rounds);
        assert!(ratio.median == 1.0 && ratio.low < 1.0 && ratio.high > 1.0, "{ratio:?}");
        assert!(!unpaired(&rounds[..6], &rounds[..6]).is_sure);
        assert!(unpaired(&rounds[..7], &rounds[..7]).is_sure);
    }
}
