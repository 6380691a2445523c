//! The engines under one trait, a round of work at a time, so that no call through the trait is timed with an
//! operation.

pub(crate) mod durable;
#[cfg(feature = "peers")]
pub(crate) mod lmdb;
pub(crate) mod ours;

use crate::Fail;
use crate::data::Key;

/// What is done with bytes that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Touch {
    /// Length, first and last byte
    Ends,
    /// Every byte
    All,
}

impl Touch {
    /// A sum over `bytes` that touches as much of them as asked.
    #[inline(always)]
    pub(crate) fn sum(self, bytes: &[u8]) -> u64 {
        let ends = match bytes {
            [first, .., last] => u64::from(*first) << 8 | u64::from(*last),
            _ => 0,
        };
        let length = bytes.len() as u64;
        match self {
            Touch::Ends => length << 16 ^ ends,
            Touch::All => {
                let (words, rest) = bytes.as_chunks::<8>();
                let sum = words
                    .iter()
                    .fold(length, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
                rest.iter().fold(sum, |sum, &byte| sum.wrapping_add(u64::from(byte)))
            }
        }
    }
}

/// An engine that holds the data set. Rounds may run on several threads at once.
pub(crate) trait Engine: Sync {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// Reads the values of `keys` and sums over them. A key that is absent is an error.
    fn reads(&self, keys: &[Key], touch: Touch) -> Result<u64, Fail>;

    /// From each of `starts` on reads up to `take` records and sums over keys and values.
    fn ranges(&self, starts: &[Key], take: usize, touch: Touch) -> Result<u64, Fail>;

    /// Puts `value` under each of `keys`. Need not be durable afterwards.
    fn puts(&self, keys: &[Key], value: &[u8]) -> Result<u64, Fail>;
}

/// How a database was filled, and what came of it.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// What was loaded, in words.
    pub(crate) how: String,
    /// From the first record to a durable, closed file, in seconds; sorting, where it is done, included.
    pub(crate) seconds: f64,
    /// Bytes of the whole directory afterwards.
    pub(crate) file_bytes: u64,
}

impl Loaded {
    /// Prints a line and gives the same as JSON.
    pub(crate) fn report(&self, data: &crate::data::Data) -> serde_json::Value {
        let Loaded { how, seconds, file_bytes } = self;
        let over = *file_bytes as f64 / data.raw_bytes() as f64;
        let rate = data.records as f64 / seconds;
        println!(
            "  {how:<34}{seconds:>8.2} s {rate:>10.0} records/s {file_bytes:>12} bytes, x{over:.3} of the raw data"
        );
        serde_json::json!({
            "load": how, "seconds": seconds, "records_per_second": rate,
            "file_bytes": file_bytes, "file_over_raw": over,
        })
    }
}
