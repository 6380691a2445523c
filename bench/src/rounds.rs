//! Timing by turns, \[B1].
//!
//! ```text
//! round 0 (thrown away)   A B C
//! round 1                 B C A        each variant gets the round's probes, split over the threads
//! round 2                 C A B
//! ```
//!
//! A shared machine slows down and speeds up from one second to the next; variants of one round meet about
//! the same weather, so their ratio is steadier than either of their times. The interval is that of the
//! median ratio, by 4000 resamplings of the rounds (percentile bootstrap).
//!
//! On a machine that others use at the same time the wall clock mostly times *them*. [`Clock::Cpu`] counts
//! only what the threads of the work ran, their page faults included, but not what waits or is done by others
//! for them: right for work that neither sleeps nor hands anything on, such as reads of what is in memory.
//!
//! * \[C1] `clock_gettime` writes one timespec, to where it is told.

use crate::{Fail, progress};
use serde_json::{Value, json};
use std::sync::Barrier;
use std::time::Instant;

/// One thing to be timed: does the work of some probes and gives a sum over what it saw.
pub(crate) type Work<'a, P> = dyn Fn(&[P]) -> Result<u64, Fail> + Sync + 'a;

/// A variant and its name.
pub(crate) struct Variant<'a, P> {
    pub(crate) name: String,
    pub(crate) work: Box<Work<'a, P>>,
}

impl<'a, P> Variant<'a, P> {
    pub(crate) fn new(
        name: impl Into<String>,
        work: impl Fn(&[P]) -> Result<u64, Fail> + Sync + 'a,
    ) -> Variant<'a, P> {
        Variant { name: name.into(), work: Box::new(work) }
    }
}

/// What an operation's time is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Clock {
    /// Time that passed
    Wall,
    /// Time for which the threads of the work ran, divided by their number
    Cpu,
}

/// How much and by what is timed.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Rounds that count
    #[arg(long, default_value_t = 21)]
    pub(crate) rounds: usize,
    /// Operations of a round
    #[arg(long, default_value_t = 100_000)]
    pub(crate) ops: usize,
    /// What is measured; `cpu` if others use the machine
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    pub(crate) clock: Clock,
}

/// Nanoseconds an operation of each variant in each round. With several threads: of the whole, so that it
/// falls as threads are added.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) names: Vec<String>,
    pub(crate) ns: Vec<Vec<f64>>,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// What became of the variants of [`attempt`], in their order: the nanoseconds an operation of each round, or why
/// it did not last.
pub(crate) type Outcomes = Vec<Result<Vec<f64>, Fail>>;

/// Runs the rounds, after one that does not count. `probes` makes those of a round.
///
/// # Errors
/// Those of the work, and a sum that differs between variants, \[B2].
pub(crate) fn run<P: Sync>(
    timing: Timing,
    threads: usize,
    variants: &[Variant<'_, P>],
    probes: impl FnMut(u64) -> Vec<P>,
) -> Result<Series, Fail> {
    let ns = attempt(timing, threads, variants, probes).into_iter().collect::<Result<_, _>>()?;
    Ok(Series { names: variants.iter().map(|variant| variant.name.clone()).collect(), ns })
}

/// [`run`], but a variant that fails has no more turns, and the others go on. One whose sum differs from that of the
/// first variant that lasts has failed.
pub(crate) fn attempt<P: Sync>(
    timing: Timing,
    threads: usize,
    variants: &[Variant<'_, P>],
    mut probes: impl FnMut(u64) -> Vec<P>,
) -> Outcomes {
    let Timing { rounds, clock, .. } = timing;
    let mut outcomes: Outcomes = variants.iter().map(|_| Ok(Vec::with_capacity(rounds))).collect();
    let bar = progress::bar((rounds as u64 + 1) * variants.len() as u64, "rounds");
    for round in 0..=rounds {
        let probes = probes(round as u64);
        let mut sums = vec![0; variants.len()];
        for turn in 0..variants.len() {
            let which = (turn + round) % variants.len();
            bar.step();
            let Ok(ns) = &mut outcomes[which] else { continue };
            match timed(&variants[which], threads, clock, &probes) {
                Ok((elapsed_ns, sum)) => {
                    sums[which] = sum;
                    if round > 0 {
                        ns.push(elapsed_ns / probes.len() as f64);
                    }
                }
                Err(error) => outcomes[which] = Err(error),
            }
        }
        let Some(first) = outcomes.iter().position(Result::is_ok) else { break };
        for which in first..variants.len() {
            if outcomes[which].is_ok() && sums[which] != sums[first] {
                let (one, other) = (&variants[first].name, &variants[which].name);
                let message = format!("{one} and {other} read different bytes in round {round}");
                outcomes[which] = Err(message.into());
            }
        }
    }
    outcomes
}

/// Fills a series by turns, after a round 0 that does not count: `one` gives the nanoseconds an operation of a
/// round and a variant.
pub(crate) fn by_turns(
    rounds: usize,
    names: Vec<String>,
    mut one: impl FnMut(usize, usize) -> Result<f64, Fail>,
) -> Result<Series, Fail> {
    let mut ns = vec![Vec::with_capacity(rounds); names.len()];
    let bar = progress::bar((rounds as u64 + 1) * names.len() as u64, "rounds");
    for round in 0..=rounds {
        for turn in 0..names.len() {
            let which = (turn + round) % names.len();
            let figure = one(round, which)?;
            bar.step();
            if round > 0 {
                ns[which].push(figure);
            }
        }
    }
    Ok(Series { names, ns })
}

fn clock_ns(clock: libc::clockid_t) -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: [C1], `now` is a timespec of ours.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(failed, 0, "the clocks of this process are always there");
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Nanoseconds for which the calling thread has run.
fn thread_cpu_ns() -> f64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds for which all threads of this process have run, those of io_uring among them.
pub(crate) fn process_cpu_ns() -> f64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Does the work on this thread, and gives what it ran for and its sum.
fn ran<P>(variant: &Variant<'_, P>, probes: &[P]) -> Result<(f64, u64), Fail> {
    let start = thread_cpu_ns();
    let sum = (variant.work)(probes)?;
    Ok((thread_cpu_ns() - start, sum))
}

/// Nanoseconds by the clock for all of the probes, and the sum.
fn timed<P: Sync>(
    variant: &Variant<'_, P>,
    threads: usize,
    clock: Clock,
    probes: &[P],
) -> Result<(f64, u64), Fail> {
    let by_clock = |start: Instant, cpu_ns: f64| match clock {
        Clock::Wall => start.elapsed().as_nanos() as f64,
        Clock::Cpu => cpu_ns,
    };
    if threads <= 1 {
        let start = Instant::now();
        let (cpu_ns, sum) = ran(variant, probes)?;
        return Ok((by_clock(start, cpu_ns), sum));
    }
    let ready = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let share = probes.len().div_ceil(threads).max(1);
        let mut workers = Vec::new();
        for thread in 0..threads {
            let from = (thread * share).min(probes.len());
            let mine = &probes[from..(from + share).min(probes.len())];
            let ready = &ready;
            workers.push(scope.spawn(move || {
                ready.wait();
                ran(variant, mine)
            }));
        }
        ready.wait();
        let start = Instant::now();
        let (mut cpu_ns, mut sum) = (0.0, 0_u64);
        for worker in workers {
            let part = worker.join().map_err(|_| "a thread of the benchmark panicked")??;
            cpu_ns += part.0 / threads as f64;
            sum = sum.wrapping_add(part.1);
        }
        Ok((by_clock(start, cpu_ns), sum))
    })
}

/// The median. 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    middle(&mut values.to_vec())
}

/// The median of values that may change places.
fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

/// Medians of 4000 resamplings of `values`, sorted.
pub(crate) fn medians(values: &[f64]) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(0x626f_6f74);
    let mut drawn = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..4000)
        .map(|_| {
            drawn.fill_with(|| values[random.usize(0..values.len())]);
            middle(&mut drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    medians
}

/// `median` with the interval that holds 95 % of the 4000 resampled figures, which are sorted.
pub(crate) fn interval(median: f64, resampled: &[f64]) -> Ratio {
    Ratio { median, low: resampled[100], high: resampled[3899] }
}

/// Median of `values` with the 95 % interval of that median.
pub(crate) fn bootstrap(values: &[f64]) -> Ratio {
    if values.is_empty() {
        return Ratio { median: 0.0, low: 0.0, high: f64::INFINITY };
    }
    interval(median(values), &medians(values))
}

impl Series {
    /// Median nanoseconds of a variant.
    pub(crate) fn median(&self, which: usize) -> f64 {
        median(&self.ns[which])
    }

    /// How many times the time of `base` the variant takes, over paired rounds: above 1, it is the slower
    /// one.
    pub(crate) fn ratio(&self, which: usize, base: usize) -> Ratio {
        let pairs = self.ns[which].iter().zip(&self.ns[base]);
        let ratios: Vec<f64> = pairs.map(|(which, base)| which / base).collect();
        bootstrap(&ratios)
    }

    /// Prints one line a variant, compared with the first.
    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}");
        let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(26);
        for (which, name) in self.names.iter().enumerate() {
            let ns = self.median(which);
            print!("  {name:<width$}{ns:>9.1} ns/op {:>12.0} op/s", 1e9 / ns);
            if which > 0 {
                let ratio = self.ratio(which, 0);
                print!("   time x{:.3} ({:.3} to {:.3})  ", ratio.median, ratio.low, ratio.high);
                print!("{}", ratio.verdict(&self.names[0]));
            }
            println!();
        }
    }

    /// Everything that was measured.
    pub(crate) fn to_json(&self, title: &str) -> Value {
        let rows: Vec<Value> = (0..self.names.len())
            .map(|which| {
                let ratio = self.ratio(which, 0);
                json!({
                    "name": self.names[which],
                    "ns_per_op_median": self.median(which),
                    "time_ratio_to_first": ratio.median,
                    "time_ratio_low_95": ratio.low,
                    "time_ratio_high_95": ratio.high,
                    "verdict": if which == 0 { String::new() } else { ratio.verdict(&self.names[0]) },
                    "ns_per_op_rounds": self.ns[which],
                })
            })
            .collect();
        json!({ "title": title, "rounds": self.ns.first().map_or(0, Vec::len), "variants": rows })
    }
}

impl Ratio {
    /// What may be said of a variant that takes this many times the time of `base`.
    pub(crate) fn verdict(self, base: &str) -> String {
        if self.low > 1.0 {
            format!("slower than {base}")
        } else if self.high < 1.0 {
            format!("faster than {base}")
        } else {
            "no winner: within the noise".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn no_winner_is_named_if_the_interval_holds_one() {
        let noisy: Vec<f64> = (0..20).map(|at| 0.9 + 0.01 * f64::from(at)).collect();
        assert_eq!(bootstrap(&noisy).verdict("a"), "no winner: within the noise");
        let clear: Vec<f64> = (0..20).map(|at| 1.1 + 0.001 * f64::from(at)).collect();
        assert_eq!(bootstrap(&clear).verdict("a"), "slower than a");
    }

    #[test]
    fn variants_that_read_different_bytes_are_an_error() {
        let variants = [Variant::new("a", |_: &[u64]| Ok(1)), Variant::new("b", |_: &[u64]| Ok(2))];
        let timing = Timing { rounds: 2, ops: 1, clock: Clock::Wall };
        assert!(run(timing, 1, &variants, |_| vec![0_u64]).is_err());
        assert!(run(timing, 1, &variants[..1], |_| vec![0_u64]).is_ok());
    }

    #[test]
    fn a_variant_that_fails_has_no_more_turns_and_the_others_go_on() {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let fails = |_: &[u64]| -> Result<u64, Fail> {
            calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Err("out of order".into())
        };
        let variants = [Variant::new("a", |_: &[u64]| Ok(1)), Variant::new("b", fails)];
        let timing = Timing { rounds: 3, ops: 1, clock: Clock::Wall };
        let outcomes = attempt(timing, 1, &variants, |_| vec![0_u64]);
        assert_eq!(outcomes[0].as_ref().expect("it lasts").len(), 3);
        assert_eq!(outcomes[1].as_ref().expect_err("it fails").to_string(), "out of order");
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[test]
    fn threads_share_the_probes_without_gap_or_overlap() {
        let sum = |probes: &[u64]| Ok(probes.iter().sum());
        let variant = &Variant::new("a", sum);
        for threads in 1..5 {
            let probes: Vec<u64> = (0..7).collect();
            let (_, sum) = timed(variant, threads, Clock::Cpu, &probes).expect("a sum");
            assert_eq!(sum, 21);
        }
    }
}
