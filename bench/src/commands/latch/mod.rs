//! `latch`: what our latch and the page hash's cells cost beside other locks, alone and contended.
//!
//! ```text
//! uncontended   one thread, one lock: nanoseconds, cycles, and instructions by `--count`
//! contended     locks x threads x share of readers x length of critical section x one place or many
//! cells         the page hash at each stride, by each way to read
//! hints         what waiting threads hold back by
//!
//! locks         the locks, behind one trait        section   critical sections of a length
//! places        what they protect and how that is checked
//! ```
//!
//! What it is not: a test of locks under a real load; a critical section here touches one line. In emulation,
//! where times mean nothing, everything runs for a moment and is checked, and no time is told.

mod cells;
mod contended;
#[cfg(feature = "measure")]
mod hints;
mod locks;
mod places;
mod section;
mod uncontended;

use crate::report::{Cell, Output, Report, Table};
use crate::rounds::{Series, Timing};
use crate::{Fail, emulation, latency, machine};
use contended::{Outcome, Pace, Scene};
use places::{Contender, Kind, Spread};
use section::{Calibration, Section};
use serde_json::json;
use std::time::Duration;

/// Options of `latch`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: Output,
    /// Parts, by default all
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Locks, by default all; the others are compared with the first
    #[arg(long, value_enum, value_delimiter = ',')]
    locks: Vec<Kind>,
    /// Threads that contend, by default 1, 2, 4 .. up to twice the cores
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4095))]
    threads: Vec<u16>,
    /// Operations in a hundred that read
    #[arg(long, value_delimiter = ',', default_values_t = [100, 99, 90, 50],
          value_parser = clap::value_parser!(u32).range(0..=100))]
    readers: Vec<u32>,
    /// Lengths of the critical section, in nanoseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0, 100, 1000],
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    section_ns: Vec<u32>,
    /// What is contended for, by default each
    #[arg(long, value_enum, value_delimiter = ',')]
    places: Vec<Spread>,
    /// Length of a slice, in milliseconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
    /// Do `--ops` of this uncontended operation alone, untimed, for callgrind
    #[arg(long, value_name = "WHAT")]
    count: Option<String>,
}

/// A part of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Part {
    /// One thread
    Uncontended,
    /// Threads that want the same locks
    Contended,
    /// Look-ups in the page hash
    Cells,
    /// Ways to hold back while waiting
    Hints,
}

/// 1, 2, 4 .. up to twice `cores`, and both `cores` and that.
fn thread_counts(cores: u16) -> Vec<u16> {
    let most = cores.max(1).saturating_mul(2).min(4095);
    let doubled = std::iter::successors(Some(1_u16), |count| count.checked_mul(2));
    let mut counts: Vec<u16> =
        doubled.take_while(|&count| count < most).chain([cores.max(1), most]).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

impl Args {
    /// With everything that was left open filled in.
    fn settled(&self, emulated: bool) -> Args {
        let mut args = self.clone();
        if args.output.quick {
            args.timing.rounds = args.timing.rounds.min(5);
            args.slice_ms = args.slice_ms.min(4);
        }
        if emulated {
            (args.timing.rounds, args.timing.ops, args.slice_ms) = (1, 1000, 2);
        }
        if args.locks.is_empty() {
            args.locks = Kind::ALL.to_vec();
        }
        if args.places.is_empty() {
            args.places = vec![Spread::Hot, Spread::Zipf];
        }
        if args.threads.is_empty() {
            args.threads = thread_counts(u16::try_from(machine::cores()).unwrap_or(u16::MAX));
        }
        args
    }

    fn runs(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn pace(&self) -> Pace {
        Pace { rounds: self.timing.rounds, slice: Duration::from_millis(self.slice_ms) }
    }
}

/// Where figures go: into the report or, in emulation, nowhere, with a line on what ran.
struct Teller {
    report: Report,
    /// In emulation, what ran.
    ran: Option<Table>,
}

impl Teller {
    fn series(&mut self, title: &str, series: &Series, operations: u64) -> Result<(), Fail> {
        match &mut self.ran {
            None => self.report.series(title, series),
            Some(ran) => {
                println!("  ran: {title}");
                ran.push([title.into(), series.names.len().into(), operations.into()]);
                Ok(())
            }
        }
    }

    fn table(&mut self, table: &Table) -> Result<(), Fail> {
        if self.ran.is_some() { Ok(()) } else { self.report.table(table) }
    }

    fn finish(mut self) -> Result<(), Fail> {
        if let Some(ran) = &self.ran {
            self.report.table(ran)?;
        }
        self.report.finish()
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if let Some(what) = &args.count {
        return uncontended::count(what, args.timing.ops);
    }
    let emulated = emulation::emulated();
    let args = &args.settled(emulated.is_some());
    let locks: Vec<&str> = args.locks.iter().map(|kind| kind.name()).collect();
    let options = json!({
        "locks": locks, "threads": args.threads, "readers_percent": args.readers,
        "section_ns": args.section_ns, "slice_ms": args.slice_ms, "rounds": args.timing.rounds,
        "ops_a_round": args.timing.ops, "clock_uncontended": format!("{:?}", args.timing.clock),
    });
    let report = Report::start("latch", options, &args.output)?;
    let ran = emulated.map(|by| {
        println!("\ntimes are withheld: {by}");
        let columns = ["what", "contenders", "operations [checked]"];
        Table::new("ran in emulation", &columns)
            .note(format!("times are withheld: {by}"))
            .keyed_by(1)
            .all_told()
    });
    let mut teller = Teller { report, ran };
    let calibration = Calibration::measure();
    if args.runs(Part::Uncontended) {
        uncontended(args, &mut teller)?;
    }
    if args.runs(Part::Contended) {
        contended(args, calibration, &mut teller)?;
    }
    if args.runs(Part::Cells) {
        cells(args, &mut teller)?;
    }
    if args.runs(Part::Hints) {
        hints(args, calibration, &mut teller)?;
    }
    teller.finish()
}

/// Operations that a series of rounds of `ops` took, with the round that does not count.
fn done(timing: Timing, ops: usize, series: &Series) -> u64 {
    ((timing.rounds + 1) * ops * series.names.len()) as u64
}

fn uncontended(args: &Args, teller: &mut Teller) -> Result<(), Fail> {
    for set in uncontended::sets() {
        let timed = uncontended::run(&set, args.timing)?;
        let operations = done(args.timing, args.timing.ops, &timed.series);
        teller.series(set.title, &timed.series, operations)?;
        if let Some(table) = uncontended::cycles(set.title, &timed) {
            teller.table(&table)?;
        }
    }
    Ok(())
}

/// How long operations may take, and who is served, of many scenes.
struct Waits(Table);

impl Waits {
    fn new(title: &str) -> Waits {
        let mut columns =
            vec!["threads", "readers [%]", "section [ns]", "contender", "served, least/most"];
        columns.extend(latency::COLUMNS);
        let table = Table::new(format!("{title}: service and waits"), &columns).keyed_by(4);
        Waits(table.note(
            "served: operations of the least served thread over those of the most served, 1 is fair; \
             times are of one operation from asking to its end, its own section included",
        ))
    }

    fn push(&mut self, scene: &Scene<'_>, section_ns: u32, outcome: &Outcome) {
        let names = outcome.series.names.iter().zip(&outcome.served).zip(&outcome.waits);
        for ((name, &served), waits) in names {
            let first: [Cell; 5] = [
                scene.threads.into(),
                u64::from(scene.readers).into(),
                u64::from(section_ns).into(),
                name.as_str().into(),
                served.into(),
            ];
            self.0.push(first.into_iter().chain(latency::cells(waits)));
        }
    }
}

fn contended(args: &Args, calibration: Calibration, teller: &mut Teller) -> Result<(), Fail> {
    for &spread in &args.places {
        let mut waits = Waits::new(&format!("locks, {}", spread.name()));
        for &section_ns in &args.section_ns {
            for &threads in &args.threads {
                for &readers in &args.readers {
                    let contenders: Vec<Box<dyn Contender>> =
                        args.locks.iter().map(|kind| kind.places(spread.places())).collect();
                    let scene = Scene {
                        contenders: &contenders,
                        spread,
                        threads: threads.into(),
                        readers,
                        section: calibration.section(section_ns),
                    };
                    let outcome = contended::run(&scene, args.pace())?;
                    let title = format!(
                        "locks, {}: threads {threads}, {readers} % reads, sections of {section_ns} ns",
                        spread.name()
                    );
                    teller.series(&title, &outcome.series, outcome.operations)?;
                    waits.push(&scene, section_ns, &outcome);
                }
            }
        }
        teller.table(&waits.0)?;
    }
    Ok(())
}

fn cells(args: &Args, teller: &mut Teller) -> Result<(), Fail> {
    for &spread in &args.places {
        let mut waits = Waits::new(&format!("page hash, {}", spread.name()));
        for &threads in &args.threads {
            for &readers in &args.readers {
                let contenders = cells::contenders(spread);
                let scene = Scene {
                    contenders: &contenders,
                    spread,
                    threads: threads.into(),
                    readers,
                    section: Section::EMPTY,
                };
                let outcome = contended::run(&scene, args.pace())?;
                let name = spread.name();
                let title = format!("page hash, {name}: threads {threads}, {readers} % look-ups");
                teller.series(&title, &outcome.series, outcome.operations)?;
                waits.push(&scene, 0, &outcome);
            }
        }
        teller.table(&waits.0)?;
    }
    Ok(())
}

#[cfg(feature = "measure")]
fn hints(args: &Args, calibration: Calibration, teller: &mut Teller) -> Result<(), Fail> {
    let ops = hints::ops_alone(args.timing);
    let alone = hints::alone(args.timing)?;
    teller.series("one hint", &alone, done(args.timing, ops, &alone))?;
    let mut waits = Waits::new("exclusive latch by hint");
    for &section_ns in &args.section_ns {
        for &threads in args.threads.iter().filter(|&&threads| threads > 1) {
            let contenders = hints::contenders();
            let scene = Scene {
                contenders: &contenders,
                spread: Spread::Hot,
                threads: threads.into(),
                readers: 0,
                section: calibration.section(section_ns),
            };
            let outcome = contended::run(&scene, args.pace());
            hints::restore();
            let outcome = outcome?;
            let title =
                format!("exclusive latch by hint: threads {threads}, sections of {section_ns} ns");
            teller.series(&title, &outcome.series, outcome.operations)?;
            waits.push(&scene, section_ns, &outcome);
        }
    }
    teller.table(&waits.0)
}

#[cfg(not(feature = "measure"))]
fn hints(_: &Args, _: Calibration, _: &mut Teller) -> Result<(), Fail> {
    println!("\nhints are not measured: this program was built without the feature measure");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_twice_the_cores() {
        assert_eq!(thread_counts(1), [1, 2]);
        assert_eq!(thread_counts(2), [1, 2, 4]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6, 8, 12]);
        assert_eq!(thread_counts(0), [1, 2]);
    }
}
