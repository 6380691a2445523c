//! Data several times the cache: random reads and random updates.
//!
//! Engines with a cache of their own get the raw bytes over `--cold-times` for it. LMDB has none: the page cache of
//! the system serves it, which nobody limits here, and which also lies below the caches of the engines that read
//! and write through it. latchkv reads and writes past it where it can (`O_DIRECT`), so it is the one that waits
//! for the disk, and all is timed by the wall clock, or its waits would not count. On a machine whose memory holds the files, this experiment says what an engine makes of *its*
//! cache, and no more.

use super::contest::{Contest, Unit};
use super::{Args, expect};
use crate::Fail;
use crate::data::{Data, Key};
use crate::engines::Touch;
use crate::engines::store::{BATCH_RECORDS, Setup};
use crate::report::Report;
use std::path::Path;

/// Operations of `--ops` for each that is done here.
const PART: usize = 10;
/// Threads that read.
const THREADS: [usize; 2] = [1, 4];
/// The least cache, which every engine can work with.
const CACHE_BYTES_MIN: u64 = 8 << 20;
/// Records looked at afterwards.
const LOOKED_AT: u64 = 1000;

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let times = args.cold_times;
    let cache_bytes = (data.raw_bytes() / times).max(CACHE_BYTES_MIN);
    let mut stands =
        contest.loaded(args, Setup { cache_bytes, ..args.setup() }, data, data.records, dir);
    let ops = (args.timing.ops / PART).max(1);
    for threads in THREADS {
        let timing = args.by_the_wall(ops).on(threads);
        contest.row(
            report,
            &mut stands,
            &format!("random reads, {threads} thread(s), data {times} times the cache"),
            Unit::Ns,
            (timing, threads),
            |round| data.probes(round, timing.ops),
            |stand, keys: &[Key]| stand.store.reader()?.reads(keys, Touch::Ends),
        )?;
    }
    let mut versions = vec![0; usize::try_from(data.records)?];
    contest.row(
        report,
        &mut stands,
        &format!("random updates durable by {BATCH_RECORDS}, data {times} times the cache"),
        Unit::DurableNs,
        (args.durable_timing(ops), 1),
        |round| {
            let version = round + 1;
            let numbers = data.draw(round, ops);
            numbers.iter().for_each(|&at| versions[at as usize] = version);
            numbers.into_iter().map(|at| (at, version)).collect()
        },
        |stand, updates: &[(u64, u64)]| {
            let mut records = updates.iter().map(|&(at, version)| data.record(at, version));
            stand.store.put_batches(&mut records, BATCH_RECORDS)?;
            Ok(0)
        },
    )?;
    contest.on_each(&mut stands, "looking at what was updated", |stand| {
        let looked_at = 0..data.records.min(LOOKED_AT);
        expect(&*stand.store, data, looked_at.map(|at| (at, Some(versions[at as usize]))))
    });
    contest.close(stands);
    Ok(())
}
