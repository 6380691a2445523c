//! Timing by turns, \[B1].
//!
//! ```text
//! round 0 (thrown away)   A B C
//! round 1                 C B A        each variant gets the round's probes, split over the threads
//! round 2                 B A C
//! round 3                 C A B
//! ```
//!
//! A shared machine slows down and speeds up from one second to the next; variants of one round meet about
//! the same weather, so their ratio is steadier than either of their times. The order is drawn anew for every other round,
//! and the one between is the same order backwards ([`turns`]): so nobody always follows the same one, onto the caches and
//! the write-back that it left, and what drifts meets all alike. The figure is the median of the ratios of each round, with
//! the interval of `interval`, which says how it is computed and why from six rounds on.
//!
//! With several threads each notes when it begins and ends, and the time is from the first to the last, since the thread that
//! sets them going may have to wait for a processor itself.
//!
//! On a machine that others use at the same time the wall clock mostly times *them*. [`Clock::Cpu`] counts
//! only what the threads of the work ran, their page faults included, but not what waits or is done by others
//! for them: right for work that neither sleeps nor hands anything on, such as reads of what is in memory.
//!
//! * \[C1] `clock_gettime` writes one timespec, to where it is told.

use crate::data::mix;
use crate::given::{OPS_MAX, ROUNDS_MAX, up_to};
use crate::interval;
use crate::interval::{Ratio, median};
use crate::team::{self, Span};
use crate::{Fail, progress};
use serde_json::{Value, json};
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
    #[arg(long, default_value_t = 21, value_parser = up_to::<usize>(ROUNDS_MAX))]
    pub(crate) rounds: usize,
    /// Operations of a round
    #[arg(long, default_value_t = 100_000, value_parser = up_to::<usize>(OPS_MAX))]
    pub(crate) ops: usize,
    /// What is measured; `cpu` if others use the machine
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    pub(crate) clock: Clock,
}

/// Operations of a round on several threads, for each of them at least: fewer end before the last thread has begun.
const OPS_A_THREAD_MIN: usize = 32;

impl Timing {
    /// The same with enough operations for so many threads.
    pub(crate) fn on(self, threads: usize) -> Timing {
        let least = if threads > 1 { threads * OPS_A_THREAD_MIN } else { 1 };
        Timing { ops: self.ops.max(least), ..self }
    }
}

/// Nanoseconds an operation of each variant in each round. With several threads: of the whole, so that it
/// falls as threads are added.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) names: Vec<String>,
    pub(crate) ns: Vec<Vec<f64>>,
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

/// [`run`], but a variant that fails has no more turns, and the others go on. Which sum is right more than half of the
/// variants that last decide; where they do not, all have failed.
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
        for which in turns(round, variants.len()) {
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
        let lasting: Vec<usize> = (0..variants.len()).filter(|&at| outcomes[at].is_ok()).collect();
        if lasting.is_empty() {
            break;
        }
        let right = majority(lasting.iter().map(|&at| sums[at]));
        for at in lasting {
            if right == Some(sums[at]) {
                continue;
            }
            let name = &variants[at].name;
            outcomes[at] = Err(match right {
                Some(_) => format!("{name} read other bytes than most did, in round {round}"),
                None => format!("{name} and others read different bytes in round {round}"),
            }
            .into());
        }
    }
    outcomes
}

/// What more than half of `sums` are.
fn majority(sums: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let count = |sum: u64| sums.clone().filter(|&other| other == sum).count();
    let all = sums.clone().count();
    sums.clone().find(|&sum| count(sum) * 2 > all)
}

/// The order in which `count` variants have their turns in a round.
pub(crate) fn turns(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    // Each round and the next one share what they are drawn from.
    fastrand::Rng::with_seed(mix(round as u64 / 2)).shuffle(&mut order);
    if round % 2 == 1 {
        order.reverse();
    }
    order
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
        for which in turns(round, names.len()) {
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

/// What one thread did.
struct Part {
    span: Span,
    cpu_ns: f64,
    sum: u64,
}

/// Does the work on this thread.
fn ran<P>(variant: &Variant<'_, P>, probes: &[P]) -> Result<Part, Fail> {
    let (start, cpu_start_ns) = (Instant::now(), thread_cpu_ns());
    let sum = (variant.work)(probes)?;
    let cpu_ns = thread_cpu_ns() - cpu_start_ns;
    Ok(Part { span: Span { start, end: Instant::now() }, cpu_ns, sum })
}

/// Nanoseconds by the clock for all of the probes, and the sum.
fn timed<P: Sync>(
    variant: &Variant<'_, P>,
    threads: usize,
    clock: Clock,
    probes: &[P],
) -> Result<(f64, u64), Fail> {
    let parts = if threads <= 1 {
        vec![ran(variant, probes)?]
    } else {
        let work = |at: usize, member: &team::Member<'_>| {
            let mine = &probes[share(at, threads, probes.len())];
            member.begin()?;
            ran(variant, mine)
        };
        team::run(threads, work, || ())?.0
    };
    let elapsed_ns = match clock {
        Clock::Wall => Span::of_all(parts.iter().map(|part| part.span)).as_nanos() as f64,
        Clock::Cpu => parts.iter().map(|part| part.cpu_ns).sum::<f64>() / parts.len() as f64,
    };
    Ok((elapsed_ns, parts.iter().fold(0, |sum, part| sum.wrapping_add(part.sum))))
}

/// Which of `len` probes thread `at` of `threads` gets: shares that differ by one at most.
fn share(at: usize, threads: usize, len: usize) -> std::ops::Range<usize> {
    let from = |at: usize| (at as u128 * len as u128 / threads as u128) as usize;
    from(at)..from(at + 1)
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
        interval::of_median(&ratios)
    }

    /// What may be said of a variant beside the first; nothing of the first itself.
    fn verdict(&self, which: usize) -> String {
        let first = &self.names[0];
        let (slower, faster) = (format!("slower than {first}"), format!("faster than {first}"));
        match which {
            0 => String::new(),
            _ => self.ratio(which, 0).verdict(&slower, &faster).to_owned(),
        }
    }

    /// Prints one line a variant, compared with the first.
    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}");
        let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(26);
        for (which, name) in self.names.iter().enumerate() {
            let ns = self.median(which);
            print!("  {name:<width$}{ns:>9.1} ns/op {:>12.0} op/s", 1e9 / ns);
            if which > 0 {
                print!("   time x{}  {}", self.ratio(which, 0), self.verdict(which));
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
                    "time_ratio_low": ratio.low,
                    "time_ratio_high": ratio.high,
                    "interval": ratio.interval(),
                    "verdict": self.verdict(which),
                    "ns_per_op_rounds": self.ns[which],
                })
            })
            .collect();
        json!({ "title": title, "rounds": self.ns.first().map_or(0, Vec::len), "variants": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn who_reads_otherwise_than_most_has_failed_whoever_comes_first() {
        let variant = |sum| Variant::new(format!("reads {sum}"), move |_: &[u64]| Ok(sum));
        let timing = Timing { rounds: 2, ops: 1, clock: Clock::Wall };
        let variants = [variant(1), variant(2), variant(2)];
        let outcomes = attempt(timing, 1, &variants, |_| vec![0_u64]);
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
        let torn = attempt(timing, 1, &variants[..2], |_| vec![0_u64]);
        assert!(torn.iter().all(Result::is_err));
    }

    #[test]
    fn each_variant_begins_and_ends_as_often_and_neighbours_change() {
        let (count, rounds) = (6, 2000);
        let mut follows = vec![vec![0; count]; count];
        let (mut begins, mut ends) = (vec![0; count], vec![0; count]);
        for round in 0..rounds {
            let order = turns(round, count);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            begins[order[0]] += 1;
            ends[order[count - 1]] += 1;
            order.windows(2).for_each(|pair| follows[pair[0]][pair[1]] += 1);
        }
        assert_eq!(begins, ends);
        // Of 2000 rounds each begins 333; each of 30 ordered pairs is neighbours in 333.
        let pairs = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
        let counts = pairs.filter(|(one, other)| one != other).map(|(a, b)| follows[a][b]);
        assert!(begins.into_iter().chain(counts).all(|count| (240..430).contains(&count)));
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

    #[test]
    fn no_thread_goes_without_probes_if_there_are_enough() {
        let shares: Vec<usize> = (0..4).map(|at| share(at, 4, 5).len()).collect();
        assert_eq!(shares, [1, 1, 1, 2]);
        assert_eq!(share(usize::MAX - 1, usize::MAX, usize::MAX).end, usize::MAX);
    }

    #[test]
    fn the_time_of_several_threads_is_that_of_the_slowest() {
        let slow = |probes: &[u64]| {
            std::thread::sleep(std::time::Duration::from_millis(probes[0]));
            Ok(0)
        };
        let (ns, _) = timed(&Variant::new("a", slow), 2, Clock::Wall, &[1, 30]).expect("a time");
        assert!(ns >= 30e6, "{ns}");
    }
}
