//! Overwriting all data again and again, as `churn` and `pinned` do: of a part of the data set, so that many passes take
//! no longer than other experiments.
//!
//! A pass is as many puts as there are records, uniformly at random, [`BATCH_RECORDS`] to a commit.

use crate::Fail;
use crate::data::Data;
use crate::engines::store::{BATCH_RECORDS, Store};

/// The data set over the live data.
const PART: u64 = 25;

/// The records that are overwritten.
pub(super) fn live(data: &Data) -> Data {
    Data { seed: data.seed, records: (data.records / PART).max(1) }
}

/// The numbers of the records that a pass overwrites.
pub(super) fn numbers(live: &Data, pass: u64) -> Result<Vec<u64>, Fail> {
    Ok(live.draw(pass, usize::try_from(live.records)?))
}

/// A pass, which leaves its number as the version of what it puts.
pub(super) fn overwrite(
    store: &dyn Store,
    live: &Data,
    numbers: &[u64],
    pass: u64,
) -> Result<(), Fail> {
    store.put_batches(&mut numbers.iter().map(|&at| live.record(at, pass)), BATCH_RECORDS)
}
