//! Workers on threads, and the clock.
//!
//! ```text
//! warm up (a tenth)   wait for all   run, each transaction timed   stop, by time or by count
//! ```
//!
//! One look at the clock a transaction ends it and begins the next. A thread that fails stops the others.

use super::stage::Stage;
use super::{Args, Home};
use crate::Fail;
use crate::engines::api::{Connection, Job};
use crate::latency::histogram;
use crate::rounds::process_cpu_ns;
use crate::team::{self, Member};
use crate::workloads::tpcc::{Done, Homes, Kind, Tpcc, Worker};
use fastrand::Rng;
use hdrhistogram::Histogram;
use latchkv::Db;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What the interval of a rate is over.
const SLICE: Duration = Duration::from_millis(500);

/// When a run is over.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Seconds(f64),
    /// Of all threads together.
    Transactions(u64),
}

impl Bound {
    /// The share of one of several threads, and of a part of the run.
    fn share(self, at: usize, threads: usize, part: f64) -> Limit {
        match self {
            Bound::Seconds(seconds) => Limit::Time(Duration::from_secs_f64(seconds * part)),
            Bound::Transactions(count) => {
                let (count, threads) = ((count as f64 * part) as u64, threads as u64);
                Limit::Count(count / threads + u64::from((at as u64) < count % threads))
            }
        }
    }
}

/// When a thread is done.
#[derive(Clone, Copy)]
enum Limit {
    Time(Duration),
    Count(u64),
}

/// Transactions of one type.
pub(super) struct OfKind {
    pub(super) committed: u64,
    pub(super) conflicts: u64,
    /// Of all that have ended, rolled back or not, in nanoseconds.
    pub(super) latency: Histogram<u64>,
}

/// What the engine did meanwhile, and what the process took.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    /// Of all threads, those of the engine among them.
    pub(super) cpu_ns: f64,
    pub(super) log_bytes: u64,
    pub(super) loads: u64,
    pub(super) evictions: u64,
    pub(super) checkpoints: u64,
}

impl Used {
    fn so_far(db: &Db) -> Used {
        let stats = db.stats();
        Used {
            cpu_ns: process_cpu_ns(),
            log_bytes: stats.log.map_or(0, |log| log.tail),
            loads: stats.pool.loads,
            evictions: stats.pool.evictions,
            checkpoints: stats.store.sequence,
        }
    }

    fn since(self, before: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            log_bytes: self.log_bytes - before.log_bytes,
            loads: self.loads - before.loads,
            evictions: self.evictions - before.evictions,
            checkpoints: self.checkpoints - before.checkpoints,
        }
    }
}

/// A run.
pub(super) struct Measured {
    pub(super) seconds: f64,
    /// In the order of the mix.
    pub(super) kinds: Vec<OfKind>,
    /// Transactions a second in each whole slice.
    pub(super) slices: Vec<f64>,
    pub(super) used: Used,
}

/// What one thread did.
struct Part {
    start: Instant,
    end: Instant,
    kinds: Vec<OfKind>,
    /// Transactions that ended in each slice.
    slices: Vec<u64>,
}

impl Part {
    fn new() -> Part {
        let kind = |_| OfKind { committed: 0, conflicts: 0, latency: histogram() };
        let now = Instant::now();
        Part {
            start: now,
            end: now,
            kinds: Kind::MIX.into_iter().map(kind).collect(),
            slices: Vec::new(),
        }
    }

    fn note(&mut self, done: &Done, began: Instant, now: Instant) {
        let kind = &mut self.kinds[done.kind as usize];
        kind.committed += u64::from(done.is_committed);
        kind.conflicts += u64::from(done.conflicts);
        kind.latency.saturating_record((now - began).as_nanos() as u64);
        let slice = ((now - self.start).as_nanos() / SLICE.as_nanos()) as usize;
        if slice >= self.slices.len() {
            self.slices.resize(slice + 1, 0);
        }
        self.slices[slice] += 1;
    }
}

/// What threads of a run share.
struct Shared {
    /// Relaxed: nothing is read by whoever sees it but this.
    has_failed: AtomicBool,
}

/// Runs `threads` workers.
pub(super) fn run(stage: &Stage, threads: usize, args: &Args) -> Result<Measured, Fail> {
    let shared = Shared { has_failed: AtomicBool::new(false) };
    let work = |at: usize, member: &Member<'_>| thread(stage, (at, threads), args, member, &shared);
    let (parts, before) = team::run(threads, work, || Used::so_far(stage.store.db()))?;
    let used = Used::so_far(stage.store.db()).since(before);
    merge(parts, used)
}

/// What a thread of a run does.
fn thread(
    stage: &Stage,
    (at, of): (usize, usize),
    args: &Args,
    member: &Member<'_>,
    shared: &Shared,
) -> Result<Part, Fail> {
    let homes = homes(args, at, of);
    let limits = [0.1, 1.0].map(|part| args.bound().share(at, of, part));
    let rng = Rng::with_seed(args.seed.wrapping_add((at as u64 + 1) << 32 | of as u64));
    let part = stage.store.run(Work { tpcc: &stage.tpcc, homes, rng, limits, member, shared });
    if part.is_err() {
        shared.has_failed.store(true, Relaxed);
    }
    part
}

/// The warehouses of a thread.
pub(super) fn homes(args: &Args, at: usize, of: usize) -> Homes {
    match args.home {
        Home::Own => Homes::Share { at, of },
        Home::Any => Homes::Any,
    }
}

/// Warms up, waits for the others, and works.
struct Work<'a, 'b> {
    tpcc: &'a Tpcc,
    homes: Homes,
    rng: Rng,
    limits: [Limit; 2],
    shared: &'a Shared,
    member: &'a Member<'b>,
}

impl Job for Work<'_, '_> {
    type Output = Part;

    fn run<C: Connection>(self, connection: &C) -> Result<Part, Fail> {
        let Work { tpcc, homes, mut rng, limits: [warm, limit], member, shared } = self;
        let mut worker = tpcc.worker(connection, homes)?;
        work_until(&mut worker, &mut rng, warm, shared)?;
        member.begin()?;
        work_until(&mut worker, &mut rng, limit, shared)
    }
}

fn work_until<C: Connection>(
    worker: &mut Worker<'_, C>,
    rng: &mut Rng,
    limit: Limit,
    shared: &Shared,
) -> Result<Part, Fail> {
    let mut part = Part::new();
    let mut done_count = 0;
    while !shared.has_failed.load(Relaxed) {
        let is_over = match limit {
            Limit::Time(time) => part.end - part.start >= time,
            Limit::Count(count) => done_count == count,
        };
        if is_over {
            break;
        }
        let done = worker.one(rng)?;
        done_count += 1;
        let now = Instant::now();
        let began = std::mem::replace(&mut part.end, now);
        part.note(&done, began, now);
    }
    Ok(part)
}

fn merge(parts: Vec<Part>, used: Used) -> Result<Measured, Fail> {
    let mut whole = Part::new();
    whole.start = parts.iter().map(|part| part.start).min().unwrap_or(whole.start);
    whole.end = parts.iter().map(|part| part.end).max().unwrap_or(whole.end);
    // Threads that have a count may end in different slices.
    let shortest = parts.iter().map(|part| part.end - part.start).min().unwrap_or_default();
    let slices = (shortest.as_nanos() / SLICE.as_nanos()) as usize;
    whole.slices = vec![0; slices];
    for part in parts {
        for (sum, kind) in whole.kinds.iter_mut().zip(part.kinds) {
            sum.committed += kind.committed;
            sum.conflicts += kind.conflicts;
            sum.latency.add(kind.latency)?;
        }
        for (sum, count) in whole.slices.iter_mut().zip(part.slices) {
            *sum += count;
        }
    }
    Ok(Measured {
        seconds: (whole.end - whole.start).as_secs_f64(),
        kinds: whole.kinds,
        slices: whole.slices.iter().map(|&count| count as f64 / SLICE.as_secs_f64()).collect(),
        used,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_count_without_rest() {
        let counts = (0..3).map(|at| match Bound::Transactions(100).share(at, 3, 1.0) {
            Limit::Count(count) => count,
            Limit::Time(_) => 0,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [34, 33, 33]);
    }

    #[test]
    fn only_slices_in_which_all_worked_make_the_interval() {
        let part = |millis, slices: &[u64]| {
            let mut part = Part::new();
            part.end = part.start + Duration::from_millis(millis);
            part.slices = slices.to_vec();
            part
        };
        let parts = vec![part(1200, &[10, 20, 5]), part(1700, &[30, 40, 50, 5])];
        let measured = merge(parts, Used::default()).expect("histograms of one kind");
        assert_eq!(measured.slices, [80.0, 120.0]);
    }
}
