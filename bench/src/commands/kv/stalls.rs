//! How long a durable put takes beside checkpoints: latchkv against itself, with checkpoints all the time and with
//! none.
//!
//! One thread puts records in random places; with checkpoints, one begins for each few MiB of log. The histogram is
//! of single calls. The greatest times of a busy machine are those in which the thread did not run, in both columns.

use super::Args;
use super::contest::Contest;
use crate::Fail;
use crate::data::Data;
use crate::given::mib;
use crate::latency::{self, histogram};
use crate::report::{Report, Table};
use hdrhistogram::Histogram;
use latchkv::{Durability, Options};
use std::path::Path;
use std::time::Instant;

/// Bytes of log for each checkpoint.
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;
/// Puts of an experiment over those of a round of single writes.
const PUTS_A_WRITE: usize = 50;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    _contest: &mut Contest,
) -> Result<(), Fail> {
    let live = Data { seed: data.seed, records: (data.records / 25).max(1) };
    let puts = args.writes * PUTS_A_WRITE;
    let head = ["durability", "checkpoints", "checkpoints made", "puts"];
    let columns = [&head[..], &latency::COLUMNS].concat();
    let title = "time of a put beside checkpoints, and without any";
    let mut table = Table::new(title, &columns).keyed_by(2).told(&["puts"]);
    for durability in [Durability::Sync, Durability::None] {
        for checkpoints in [true, false] {
            let path = dir.join(format!("{durability:?} {checkpoints}"));
            let (times, made) = measure(args, &live, &path, durability, checkpoints, puts)?;
            let when = if checkpoints { "all the time" } else { "none" };
            let head = [format!("{durability:?}").into(), when.into(), made.into(), puts.into()];
            table.push(head.into_iter().chain(latency::cells(&times)));
        }
    }
    report.table(&table)
}

fn measure(
    args: &Args,
    live: &Data,
    path: &Path,
    durability: Durability,
    checkpoints: bool,
    puts: usize,
) -> Result<(Histogram<u64>, u64), Fail> {
    let log_bytes = if checkpoints { CHECKPOINT_LOG_BYTES } else { u64::MAX };
    let db = Options::new()
        .cache_bytes(mib(args.cache_mib))
        .durability(durability)
        .checkpoint_bytes(u64::MAX)
        .checkpoint_log_bytes(log_bytes)
        .create(path)?;
    let tree = db.tree("bench")?;
    let mut sorted: Vec<_> = (0..live.records).map(|at| live.record(at, 0)).collect();
    sorted.sort_unstable_by_key(|record| record.0);
    tree.bulk_load(sorted)?;
    let before = db.stats().store.sequence;
    let mut times = histogram();
    for at in live.draw(1, puts) {
        let (key, value) = live.record(at, 1);
        let start = Instant::now();
        tree.put(key, value)?;
        times.saturating_record(start.elapsed().as_nanos() as u64);
    }
    let made = db.stats().store.sequence - before;
    db.close()?;
    Ok((times, made))
}
