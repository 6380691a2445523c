//! YCSB A to F on every engine, with latencies by operation.
//!
//! ```text
//! stores side by side, loaded ─> for each number of clients, for each workload: rounds by turns
//!   round   a client a thread draws its operations from a seed that is the same for all engines, and times each
//! ```
//!
//! What is asked for is that of `workloads/ycsb`; records have the size of those of the other experiments: ten fields
//! of 15 bytes. Workloads come in the order of YCSB's own advice, as D and E insert. A read or a scan begins a reader
//! of its own, since it has to see what was written just before: with LMDB and redb that is a transaction, begun and
//! ended. An update is [`Store::change`]; fjall and RocksDB have no transaction around it, so there one of two updates of a
//! record at the same time may be lost, but no record.
//!
//! As long as nobody but single clients has worked, all engines must read the same (\[B2]). In the end each must have as
//! many records as were put in.
//!
//! [`Store::change`]: crate::engines::store::Store::change

use super::Args;
use super::contest::{Contest, Costs, Stand, Unit};
use crate::Fail;
use crate::data::{Data, Key, Record, VALUE_BYTES, mix};
use crate::engines::kind::Kind;
use crate::engines::store::{Setup, Store};
use crate::latency::{self, histogram};
use crate::report::{Report, Table};
use crate::workloads::ycsb::{self, Client, Numbers, Operation, Shape, Workload};
use hdrhistogram::Histogram;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// Operations of `--ops` for each that is done here.
const PART: usize = 10;
/// Ten fields, together a value of the data set.
const SHAPE: Shape = Shape { fields: 10, field_bytes: VALUE_BYTES as u32 / 10 };
/// In the order in which they run.
const WORKLOADS: [Workload; 6] =
    [Workload::A, Workload::B, Workload::C, Workload::F, Workload::D, Workload::E];

/// A round, and the place in it of an operation.
type Probe = (u64, u64);

/// What one client did in a round: each operation, and the nanoseconds that it took.
struct Done {
    round: u64,
    operations: Vec<(Operation, u64)>,
}

/// What is kept of an engine beside its store.
struct Side {
    kind: Kind,
    numbers: Numbers,
    done: Mutex<Vec<Done>>,
}

impl Side {
    /// What was done since it was last asked.
    fn take(&self) -> Result<Vec<Done>, Fail> {
        Ok(std::mem::take(&mut *self.done.lock().map_err(|_| "a client panicked")?))
    }
}

/// An engine, as YCSB asks it.
struct Asked<'s>(&'s dyn Store);

impl ycsb::Store for Asked<'_> {
    fn read(&self, key: &Key, f: &mut dyn FnMut(&[u8])) -> Result<bool, Fail> {
        self.0.reader()?.see(key, f)
    }

    fn update(&self, key: &Key, change: &mut dyn FnMut(&mut [u8])) -> Result<bool, Fail> {
        self.0.change(key, &mut |value| change(value))
    }

    fn insert(&self, key: &Key, value: &[u8]) -> Result<(), Fail> {
        self.0.put(key, value)
    }

    fn scan(&self, first: &Key, take: usize, f: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Fail> {
        self.0.reader()?.scan(first, take, f)
    }
}

pub(super) fn run(
    args: &Args,
    data: &Data,
    dir: &Path,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let durable = args.ycsb_durable;
    let setup = Setup { durable, ..args.setup() };
    let mut stands = contest.filled(args, setup, dir, || records(data));
    let side = |stand: &Stand| Side {
        kind: stand.kind,
        numbers: Numbers::new(data.records),
        done: Mutex::default(),
    };
    let sides: Vec<Side> = stands.iter().map(side).collect();
    let (timing, unit, how) = if durable {
        (args.durable_timing(args.writes), Unit::DurableNs, "durable")
    } else {
        (args.by_the_wall(args.timing.ops / PART), Unit::Ns, "nosync")
    };
    let mut alike = true;
    for &threads in &args.ycsb_threads {
        let timing = timing.on(threads);
        alike &= threads == 1;
        for workload in WORKLOADS {
            let title = format!("YCSB {workload:?}, {threads} client(s), {how}");
            contest.row(
                report,
                &mut stands,
                &title,
                unit,
                (timing, threads),
                |round| (0..timing.ops as u64).map(|at| (round, at)).collect(),
                |stand, probes| {
                    let side = side_of(&sides, stand.kind)?;
                    let sum = work(stand, side, data, workload, probes)?;
                    // Which of two updates comes last differs, and with it what is read afterwards.
                    Ok(if alike { sum } else { 0 })
                },
            )?;
            latencies(&stands, &sides, &title, unit, report, contest)?;
        }
    }
    contest.on_each(&mut stands, "counting what was inserted", |stand| {
        let (records, known) = (stand.store.len()?, side_of(&sides, stand.kind)?.numbers.known());
        if records == known {
            return Ok(());
        }
        Err(format!("{records} records are there, and {known} were put in").into())
    });
    contest.close(stands);
    Ok(())
}

fn side_of(sides: &[Side], kind: Kind) -> Result<&Side, Fail> {
    let side = sides.iter().find(|side| side.kind == kind);
    side.ok_or_else(|| "an engine that was not loaded".into())
}

/// The records that are loaded.
fn records(data: &Data) -> impl Iterator<Item = Record> {
    let mut random = fastrand::Rng::with_seed(data.seed);
    let mut value = Vec::new();
    (0..data.records).map(move |number| {
        SHAPE.fill(&mut value, &mut random);
        let value = value.as_slice().try_into().expect("all fields together are a value");
        (ycsb::key(number), value)
    })
}

/// An operation for each probe, by one client, on the thread that calls. Gives the sum over what it read.
fn work(
    stand: &Stand,
    side: &Side,
    data: &Data,
    workload: Workload,
    probes: &[Probe],
) -> Result<u64, Fail> {
    let Some(&(round, first)) = probes.first() else { return Ok(0) };
    let seed = mix(data.seed ^ round << 40 ^ first);
    let mut client = Client::new(workload, SHAPE, data.records, &side.numbers, seed);
    let asked = Asked(&*stand.store);
    let mut operations = Vec::with_capacity(probes.len());
    let mut before = Instant::now();
    for _ in probes {
        let operation = client.step(&asked)?;
        let after = Instant::now();
        operations.push((operation, (after - before).as_nanos() as u64));
        before = after;
    }
    side.done.lock().map_err(|_| "a client panicked")?.push(Done { round, operations });
    Ok(client.sum())
}

/// The row of the 99.9th percentile of each round, and a table of all rounds by engine and operation.
fn latencies(
    stands: &[Stand],
    sides: &[Side],
    title: &str,
    unit: Unit,
    report: &mut Report,
    contest: &mut Contest,
) -> Result<(), Fail> {
    let mut costs = Costs::new(stands.iter().map(|stand| stand.kind));
    let columns = [&["engine", "operation", "operations"][..], &latency::COLUMNS].concat();
    let mut table = Table::new(format!("{title}: latencies, all rounds together"), &columns)
        .keyed_by(2)
        .told(&["operations"]);
    for side in sides {
        let done = side.take()?;
        if !stands.iter().any(|stand| stand.kind == side.kind) {
            continue;
        }
        // As everywhere, round 0 does not count.
        let last = done.iter().map(|done| done.round).max().unwrap_or(0);
        for round in 1..=last {
            let of_round = done.iter().filter(|done| done.round == round);
            let all = of_round.flat_map(|done| &done.operations).map(|&(_, ns)| ns);
            costs.push(side.kind, gathered(all).value_at_quantile(0.999) as f64);
        }
        for operation in Operation::ALL {
            let counted = done.iter().filter(|done| done.round > 0);
            let of_kind = counted
                .flat_map(|done| &done.operations)
                .filter(|(kind, _)| *kind == operation)
                .map(|&(_, ns)| ns);
            let times = gathered(of_kind);
            if !times.is_empty() {
                let head = [side.kind.name().into(), operation.name().into(), times.len().into()];
                table.push(head.into_iter().chain(latency::cells(&times)));
            }
        }
    }
    report.table(&table)?;
    contest.tell(report, &format!("{title}: p99.9 of a round"), unit, &costs)
}

fn gathered(ns: impl Iterator<Item = u64>) -> Histogram<u64> {
    let mut times = histogram();
    ns.for_each(|ns| times.saturating_record(ns));
    times
}
