//! Latencies, to the last ten thousandth.
//!
//! A quantile beyond which there are few operations says what these few met, and of fewer than one it is the greatest time
//! itself under another name. So one with fewer than [`BEYOND_MIN`] operations beyond it has no figure.

use crate::report::Cell;
use hdrhistogram::Histogram;

/// Names of the columns that [`cells`] fills.
pub(crate) const COLUMNS: [&str; 5] =
    ["p50 [us]", "p99 [us]", "p99.9 [us]", "p99.99 [us]", "max [us]"];

/// A histogram of nanoseconds up to a minute, in steps of a thousandth.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds and digits are in range")
}

/// Operations beyond a quantile, at least.
const BEYOND_MIN: f64 = 10.0;

/// The cells of a histogram of nanoseconds, in microseconds.
pub(crate) fn cells(histogram: &Histogram<u64>) -> [Cell; 5] {
    let at = |quantile: f64| {
        // Parts of ten thousand are whole numbers, 1 - 0.999 is not.
        let beyond_parts = ((1.0 - quantile) * 1e4).round();
        let is_known = histogram.len() as f64 * beyond_parts >= BEYOND_MIN * 1e4;
        Cell::from(is_known.then(|| histogram.value_at_quantile(quantile) as f64 / 1e3))
    };
    if histogram.is_empty() {
        return [const { Cell::None }; 5];
    }
    [at(0.5), at(0.99), at(0.999), at(0.9999), (histogram.max() as f64 / 1e3).into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_with_few_operations_beyond_it_has_no_figure() {
        let known = |operations: u64| {
            let mut all = histogram();
            all.record_n(5000, operations).expect("in range");
            cells(&all).map(|cell| cell != Cell::None)
        };
        assert_eq!(known(0), [false; 5]);
        assert_eq!(known(19), [false, false, false, false, true]);
        assert_eq!(known(20), [true, false, false, false, true]);
        assert_eq!(known(10_000), [true, true, true, false, true]);
        assert_eq!(known(100_000), [true; 5]);
    }
}
