//! Threads that contend, in slices of time by turns.
//!
//! ```text
//! round 0 (thrown away)   A B C      a slice each: the threads start together, and stop when the time is up
//! round 1                 C B A      and so on, as `rounds::turns` says
//! afterwards              A B C      a slice each with every operation timed: how long one may take
//! ```
//!
//! A fixed time rather than a fixed number of operations: with a number, a thread that is served first ends first,
//! and the rest contends less. A thread's rate is its operations over the time from the first thread's start until
//! it stopped, and the rates are added. Between two operations a thread does nothing, which is as much contention as
//! there can be. Each thread does one batch at least, however short the slice is for a busy machine.
//!
//! *Served*: operations of the thread that did the fewest over those of the one that did the most, the median of
//! the rounds. 1 is fair.
//!
//! *Waits*: from before an operation to its end, its own section included, and the clock, some tens of nanoseconds.
//! On a machine with fewer free cores than threads they hold time slices of the system, for every lock.

use super::places::{Contender, Op, Spread};
use super::section::Section;
use crate::rounds::{self, Series};
use crate::{Fail, interval, latency, team};
use hdrhistogram::Histogram;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Operations between two looks whether the time is up.
const BATCH: usize = 16;
/// Operations that a thread repeats.
const TABLE: usize = 4096;

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) rounds: usize,
    pub(super) slice: Duration,
}

/// Who contends, and for what.
pub(super) struct Scene<'a> {
    pub(super) contenders: &'a [Box<dyn Contender>],
    pub(super) spread: Spread,
    pub(super) threads: usize,
    /// Operations in a hundred that read.
    pub(super) readers: u32,
    pub(super) section: Section,
}

/// What came of it, a contender each.
pub(super) struct Outcome {
    pub(super) series: Series,
    /// Least over most served thread.
    pub(super) served: Vec<f64>,
    /// Nanoseconds of an operation.
    pub(super) waits: Vec<Histogram<u64>>,
    /// Operations done by all of them, each of them checked.
    pub(super) operations: u64,
}

/// What a thread did in a slice.
struct Share {
    operations: u64,
    undisturbed: u64,
    writes: u64,
    began: Instant,
    ended: Instant,
    waits: Option<Histogram<u64>>,
}

/// What the threads did together in a slice.
struct Slice {
    ns_per_op: f64,
    served: f64,
    waits: Option<Histogram<u64>>,
}

/// Runs the rounds and then the slices that time every operation.
///
/// # Errors
/// If a contender let two threads in each other's way, \[B2].
pub(super) fn run(scene: &Scene<'_>, pace: Pace) -> Result<Outcome, Fail> {
    let contenders = scene.contenders;
    let tables: Vec<Vec<Op>> = (0..scene.threads)
        .map(|thread| {
            let mut random = fastrand::Rng::with_seed(0x6c61_7463_6800 + thread as u64);
            scene.spread.draw(scene.readers, TABLE, &mut random)
        })
        .collect();
    let mut served = vec![Vec::new(); contenders.len()];
    let mut writes = vec![0; contenders.len()];
    let mut operations = 0;
    let mut one = |which: usize, timed: bool, length: Duration| -> Result<Slice, Fail> {
        let contender = &*contenders[which];
        contender.prepare();
        let shares = contend(contender, &tables, scene.section, length, timed)?;
        operations += shares.iter().map(|share| share.operations).sum::<u64>();
        writes[which] += shares.iter().map(|share| share.writes).sum::<u64>();
        sum_up(&contender.name(), shares)
    };
    let names = contenders.iter().map(|contender| contender.name()).collect();
    let series = rounds::by_turns(pace.rounds, names, |round, which| {
        let slice = one(which, false, pace.slice)?;
        if round > 0 {
            served[which].push(slice.served);
        }
        Ok(slice.ns_per_op)
    })?;
    let mut waits = Vec::new();
    for which in 0..contenders.len() {
        let slice = one(which, true, pace.slice * 4)?;
        waits.push(slice.waits.unwrap_or_else(latency::histogram));
    }
    for (contender, &writes) in contenders.iter().zip(&writes) {
        contender.check(writes)?;
    }
    let served = served.iter().map(|rounds| interval::median(rounds)).collect();
    Ok(Outcome { series, served, waits, operations })
}

/// Lets a thread a table at the contender for `length`. Gives what each did.
fn contend(
    contender: &dyn Contender,
    tables: &[Vec<Op>],
    section: Section,
    length: Duration,
    timed: bool,
) -> Result<Vec<Share>, Fail> {
    let stop = AtomicBool::new(false);
    let thread = |at: usize, member: &team::Member<'_>| {
        let waits = timed.then(latency::histogram);
        member.begin()?;
        Ok(work(contender, &tables[at], section, &stop, waits))
    };
    let until_time_is_up = || {
        std::thread::sleep(length);
        // Relaxed, here and where it is read: nothing is told by it but that time is up.
        stop.store(true, Relaxed);
    };
    Ok(team::run(tables.len(), thread, until_time_is_up)?.0)
}

/// What one thread does until it is to stop.
fn work(
    contender: &dyn Contender,
    ops: &[Op],
    section: Section,
    stop: &AtomicBool,
    mut waits: Option<Histogram<u64>>,
) -> Share {
    let began = Instant::now();
    let (mut operations, mut undisturbed, mut writes) = (0, 0, 0);
    for batch in ops.chunks(BATCH).cycle() {
        match &mut waits {
            None => undisturbed += contender.batch(batch, section),
            Some(waits) => {
                for op in batch.chunks(1) {
                    let start = Instant::now();
                    undisturbed += contender.batch(op, section);
                    waits.saturating_record(start.elapsed().as_nanos() as u64);
                }
            }
        }
        operations += batch.len() as u64;
        writes += batch.iter().filter(|op| op.write).count() as u64;
        if stop.load(Relaxed) {
            break;
        }
    }
    Share { operations, undisturbed, writes, began, ended: Instant::now(), waits }
}

fn sum_up(name: &str, shares: Vec<Share>) -> Result<Slice, Fail> {
    let start = shares.iter().map(|share| share.began).min().ok_or("there are no threads")?;
    let mut rate = 0.0;
    for share in &shares {
        if share.undisturbed != share.operations {
            let seen = share.operations - share.undisturbed;
            return Err(format!("{name}: {seen} operations saw half of a write").into());
        }
        rate += share.operations as f64 / (share.ended - start).as_secs_f64().max(1e-9);
    }
    let done = || shares.iter().map(|share| share.operations);
    let (least, most) = (done().min().unwrap_or(0), done().max().unwrap_or(0));
    let mut waits: Option<Histogram<u64>> = None;
    for histogram in shares.into_iter().filter_map(|share| share.waits) {
        match &mut waits {
            None => waits = Some(histogram),
            Some(waits) => waits.add(histogram)?,
        }
    }
    let served = least as f64 / most.max(1) as f64;
    Ok(Slice { ns_per_op: 1e9 / rate, served, waits })
}

#[cfg(test)]
mod tests {
    use super::super::places::Kind;
    use super::*;

    fn scene(contenders: &[Box<dyn Contender>]) -> Scene<'_> {
        let (spread, section) = (Spread::Hot, Section::EMPTY);
        Scene { contenders, spread, threads: 2, readers: 50, section }
    }

    const SHORT: Pace = Pace { rounds: 2, slice: Duration::from_millis(2) };

    #[test]
    fn every_contender_gets_figures_of_every_round() {
        let contenders = [Kind::Optimistic.places(1), Kind::Std.places(1)];
        let outcome = run(&scene(&contenders), SHORT).expect("measured");
        assert_eq!(outcome.series.names, ["latch, optimistic", "std RwLock"]);
        assert!(outcome.series.ns.iter().all(|ns| ns.len() == 2 && ns.iter().all(|&ns| ns > 0.0)));
        assert!(outcome.served.iter().all(|served| (0.0..=1.0).contains(served)));
        let timed: u64 = outcome.waits.iter().map(Histogram::len).sum();
        assert!(timed > 0 && timed < outcome.operations);
    }

    /// Lets everybody in.
    struct Open;

    impl Contender for Open {
        fn name(&self) -> String {
            "open".into()
        }

        fn batch(&self, ops: &[Op], _: Section) -> u64 {
            ops.len() as u64 - 1
        }

        fn check(&self, _: u64) -> Result<(), Fail> {
            Ok(())
        }
    }

    #[test]
    fn a_contender_that_does_not_exclude_is_an_error() {
        let contenders: [Box<dyn Contender>; 1] = [Box::new(Open)];
        let error = run(&scene(&contenders), SHORT).err().expect("an error");
        assert!(error.to_string().contains("half of a write"), "{error}");
    }
}
