//! Numbers that users give: bounded where they are read, so that nothing later wraps, divides by nothing, or asks for more
//! memory than there is on any machine. The bounds are far beyond what anybody measures.
//!
//! Tested below, and by `commands` on command lines.

use clap::builder::RangedU64ValueParser;

/// Records of a data set. Their bytes, times engines and what these leave behind, stay in 64 bits.
pub(crate) const RECORDS_MAX: u64 = 1 << 40;
/// A size in MiB.
pub(crate) const MIB_MAX: u64 = 1 << 30;
/// Operations of a round.
pub(crate) const OPS_MAX: u64 = 1 << 30;
/// Rounds, and how often anything else is done.
pub(crate) const ROUNDS_MAX: u64 = 1 << 16;
/// Threads. A latch can count as many readers.
pub(crate) const THREADS_MAX: u64 = 4095;

/// Takes whole numbers from 1 to `most`.
pub(crate) fn up_to<T>(most: u64) -> RangedU64ValueParser<T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    RangedU64ValueParser::new().range(1..=most)
}

/// Bytes of so many MiB.
pub(crate) fn mib(mib: u64) -> u64 {
    mib.saturating_mul(1 << 20)
}

/// A factor to how much there is.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1e6 => Ok(number),
        _ => Err("a number above 0, such as 0.01".into()),
    }
}

/// A time.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e6 => Ok(number),
        _ => Err("a number of seconds above 0".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_times_are_finite_and_above_nothing() {
        for text in ["0", "-1", "nan", "inf", "", "x"] {
            assert!(factor(text).is_err() && seconds(text).is_err(), "{text}");
        }
        assert_eq!((factor("0.01"), seconds("2.5")), (Ok(0.01), Ok(2.5)));
    }

    #[test]
    fn sizes_do_not_wrap() {
        assert_eq!(mib(64), 64 << 20);
        assert_eq!(mib(1 << 44), u64::MAX);
        assert!(RECORDS_MAX.checked_mul(crate::data::RECORD_BYTES * 1024).is_some());
    }
}
