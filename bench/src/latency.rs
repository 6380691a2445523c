//! Latencies, to the last ten thousandth.

use crate::report::Cell;
use hdrhistogram::Histogram;

/// Names of the columns that [`cells`] fills.
pub(crate) const COLUMNS: [&str; 5] =
    ["p50 [us]", "p99 [us]", "p99.9 [us]", "p99.99 [us]", "max [us]"];

/// A histogram of nanoseconds up to a minute, in steps of a thousandth.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds and digits are in range")
}

/// The cells of a histogram of nanoseconds, in microseconds.
pub(crate) fn cells(histogram: &Histogram<u64>) -> [Cell; 5] {
    let at = |quantile| Cell::from(histogram.value_at_quantile(quantile) as f64 / 1e3);
    if histogram.is_empty() {
        return [const { Cell::None }; 5];
    }
    [at(0.5), at(0.99), at(0.999), at(0.9999), at(1.0)]
}
