//! Traces of what cores do, and their replay on a [`Machine`].
//!
//! A trace is a list of operations; an operation is a list of touches of 64-byte units. A machine with lines of
//! 128 bytes takes two neighbours for one line: what is apart in one machine may be side by side in another.
//!
//! Caches have to fill before anything is counted. With a limit, the first half of each trace fills them and the
//! second half is counted: other operations of the same kind. Without a limit all of it fills them, and the same is
//! counted once more: so a read of what nobody writes is never counted, and what is left is coherence alone.
//!
//! | [`Schedule`] | one round: each core does its next operation | stands for |
//! |---|---|---|
//! | `turns` | whole, in the order of the cores | the least traffic |
//! | `shuffled` | whole, in an order drawn anew | the same without the regularity |
//! | `mixed` | access by access, the next core drawn each time | operations that all run at the same time |
//!
//! Nothing waits or fails here, so no access is repeated: with latches that are fought for, a real machine does
//! more than is counted.

use super::directory::{Core, Machine, Shape, Took};
use std::collections::HashMap;

/// Bytes of the units that traces are made of.
pub(crate) const UNIT_BYTES: usize = 64;

/// One access to a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// Address of the word.
    pub(crate) address: usize,
    /// Stores, or reads and modifies.
    pub(crate) writes: bool,
    /// Reads, modifies and writes.
    pub(crate) modifies: bool,
}

/// A place, and whether it is written, in one number: there are very many of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Touch<T>(T);

impl Touch<u64> {
    fn new(unit: usize, writes: bool) -> Touch<u64> {
        Touch((unit as u64) << 1 | u64::from(writes))
    }

    fn unit(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn writes(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Touch<u32> {
    fn new(line: u32, writes: bool) -> Touch<u32> {
        Touch(line << 1 | u32::from(writes))
    }

    fn line(self) -> u32 {
        self.0 >> 1
    }

    fn writes(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What one core does. See the module head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trace {
    /// Units.
    touches: Vec<Touch<u64>>,
    /// Where in `touches` each operation ends.
    ends: Vec<usize>,
    modifies: u64,
}

impl Trace {
    /// Adds an operation. A read of the unit that was touched just before is left out: it is a hit wherever
    /// that was one.
    pub(crate) fn push(&mut self, steps: impl IntoIterator<Item = Step>) {
        let begin = self.touches.len();
        for step in steps {
            let unit = step.address / UNIT_BYTES;
            self.modifies += u64::from(step.modifies);
            let before = self.touches[begin..].last();
            if step.writes || before.is_none_or(|before| before.unit() != unit) {
                self.touches.push(Touch::<u64>::new(unit, step.writes));
            }
        }
        self.ends.push(self.touches.len());
    }

    /// Read-modify-writes an operation.
    pub(crate) fn modifies_an_op(&self) -> f64 {
        self.modifies as f64 / self.ends.len() as f64
    }
}

/// How the operations of several cores come one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Schedule {
    /// Operation by operation, core after core
    Turns,
    /// Operation by operation, the order of the cores drawn in each round
    Shuffled,
    /// Access by access, the next core drawn each time
    Mixed,
}

/// What a replay took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) ops: u64,
    pub(crate) memory: u64,
    pub(crate) read_near: u64,
    pub(crate) read_far: u64,
    pub(crate) taken_near: u64,
    pub(crate) taken_far: u64,
    /// Transfers between caches of the line that has most of them: they go one after the other, so all cores
    /// together do no more operations in the time of one transfer than the inverse of this an operation.
    pub(crate) busiest: u64,
}

impl Tally {
    fn add(&mut self, took: Took) {
        match took {
            Took::Hit => {}
            Took::Memory => self.memory += 1,
            Took::Read { far: false } => self.read_near += 1,
            Took::Read { far: true } => self.read_far += 1,
            Took::Taken { far: false } => self.taken_near += 1,
            Took::Taken { far: true } => self.taken_far += 1,
        }
    }

    /// Transfers that end copies in other caches.
    pub(crate) fn taken(&self) -> u64 {
        self.taken_near + self.taken_far
    }

    /// Lines that came into a cache, or became its own, from wherever.
    pub(crate) fn all(&self) -> u64 {
        self.memory + self.read_near + self.read_far + self.taken()
    }

    /// `count`, an operation.
    pub(crate) fn an_op(&self, count: u64) -> f64 {
        count as f64 / self.ops as f64
    }
}

/// Traces, in lines of one size and with lines numbered without gaps.
#[derive(Debug)]
pub(crate) struct Lined<'t> {
    cores: Vec<(Vec<Touch<u32>>, &'t [usize])>,
    lines: usize,
}

impl<'t> Lined<'t> {
    /// In lines of `line_bytes`, a multiple of [`UNIT_BYTES`].
    pub(crate) fn new(traces: &'t [Trace], line_bytes: usize) -> Lined<'t> {
        let units = line_bytes / UNIT_BYTES;
        let mut numbers: HashMap<usize, u32> = HashMap::new();
        let mut number = |touch: &Touch<u64>| {
            let next = numbers.len() as u32;
            let line = *numbers.entry(touch.unit() / units).or_insert(next);
            Touch::<u32>::new(line, touch.writes())
        };
        let cores = traces
            .iter()
            .map(|trace| (trace.touches.iter().map(&mut number).collect(), &trace.ends[..]))
            .collect();
        Lined { cores, lines: numbers.len() }
    }

    /// Replays the first traces, one for each core of the machine. All have the same number of operations, and
    /// there are as many traces as cores at least.
    pub(crate) fn replay(&self, shape: Shape, schedule: Schedule, seed: u64) -> Tally {
        let mut run = Run {
            machine: Machine::new(shape, self.lines),
            cores: &self.cores[..shape.cores],
            transfers: vec![0; self.lines],
            tally: Tally::default(),
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let ops = self.cores.first().map_or(0, |(_, ends)| ends.len());
        let mut order: Vec<Core> = (0..shape.cores as Core).collect();
        let (filling, counted) = match shape.cache_lines {
            Some(_) => (0..ops / 2, ops / 2..ops),
            None => (0..ops, 0..ops),
        };
        let counts = counted.len();
        for ops in [filling, counted] {
            run.tally = Tally::default();
            run.transfers.fill(0);
            for op in ops {
                match schedule {
                    Schedule::Turns => order.iter().for_each(|&core| run.op(core, op)),
                    Schedule::Shuffled => {
                        random.shuffle(&mut order);
                        order.iter().for_each(|&core| run.op(core, op));
                    }
                    Schedule::Mixed => run.mixed(op, &mut random),
                }
            }
        }
        let ops = (counts * shape.cores) as u64;
        Tally { ops, busiest: u64::from(run.busiest()), ..run.tally }
    }
}

/// A replay under way.
struct Run<'t> {
    machine: Machine,
    cores: &'t [(Vec<Touch<u32>>, &'t [usize])],
    /// Transfers between caches of each line.
    transfers: Vec<u32>,
    tally: Tally,
}

impl Run<'_> {
    /// Touches of an operation.
    fn touches(&self, core: Core, op: usize) -> std::ops::Range<usize> {
        let ends = self.cores[usize::from(core)].1;
        let begin = if op == 0 { 0 } else { ends[op - 1] };
        begin..ends[op]
    }

    fn step(&mut self, core: Core, at: usize) {
        let touch = self.cores[usize::from(core)].0[at];
        let took = self.machine.access(core, touch.line(), touch.writes());
        self.tally.add(took);
        if matches!(took, Took::Read { .. } | Took::Taken { .. }) {
            self.transfers[touch.line() as usize] += 1;
        }
    }

    fn op(&mut self, core: Core, op: usize) {
        for at in self.touches(core, op) {
            self.step(core, at);
        }
    }

    /// The operation of every core, their accesses mixed.
    fn mixed(&mut self, op: usize, random: &mut fastrand::Rng) {
        let cores = 0..self.cores.len() as Core;
        let mut left: Vec<_> = cores.map(|core| (core, self.touches(core, op))).collect();
        while !left.is_empty() {
            let which = random.usize(0..left.len());
            let (core, touches) = &mut left[which];
            match touches.next() {
                Some(at) => {
                    let core = *core;
                    self.step(core, at);
                }
                None => {
                    left.swap_remove(which);
                }
            }
        }
    }

    fn busiest(&self) -> u32 {
        self.transfers.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    const SCHEDULES: [Schedule; 3] = [Schedule::Turns, Schedule::Shuffled, Schedule::Mixed];

    fn shape(cores: usize, cache_lines: usize) -> Shape {
        Shape { cores, socket_cores: 48, cache_lines: NonZeroUsize::new(cache_lines) }
    }

    fn read(address: usize) -> Step {
        Step { address, writes: false, modifies: false }
    }

    fn modify(address: usize) -> Step {
        Step { address, writes: true, modifies: true }
    }

    /// `ops` times the same operation.
    fn trace(ops: usize, steps: &[Step]) -> Trace {
        let mut trace = Trace::default();
        (0..ops).for_each(|_| trace.push(steps.iter().copied()));
        trace
    }

    fn replay(traces: &[Trace], line_bytes: usize, shape: Shape, schedule: Schedule) -> Tally {
        Lined::new(traces, line_bytes).replay(shape, schedule, 1)
    }

    #[test]
    fn reads_of_shared_lines_cost_nothing_once_they_are_warm() {
        let traces = vec![trace(10, &[read(0), read(64), read(128)]); 192];
        for schedule in SCHEDULES {
            for cores in [1, 2, 192] {
                let tally = replay(&traces, 64, shape(cores, 0), schedule);
                assert_eq!(tally, Tally { ops: 10 * cores as u64, ..Tally::default() });
            }
        }
    }

    #[test]
    fn a_word_that_cores_modify_in_turn_moves_once_a_modification() {
        let traces = vec![trace(10, &[modify(0)]); 96];
        for cores in [2, 3, 96] {
            let tally = replay(&traces, 64, shape(cores, 0), Schedule::Turns);
            assert_eq!((tally.taken(), tally.busiest), (tally.ops, tally.ops));
            assert_eq!(tally.all(), tally.ops);
            assert_eq!(tally.taken_far > 0, cores > 48);
        }
        assert_eq!(replay(&traces, 64, shape(1, 0), Schedule::Turns).all(), 0);
    }

    #[test]
    fn a_reader_count_costs_a_read_and_an_ownership_each_time_it_changes_hands() {
        // As a latch is taken shared and released: load, change, change.
        let traces = vec![trace(10, &[read(0), modify(0), modify(0)]); 2];
        let tally = replay(&traces, 64, shape(2, 0), Schedule::Turns);
        assert_eq!((tally.read_near, tally.taken_near, tally.memory), (20, 20, 0));
        assert_eq!(traces[0].modifies_an_op(), 2.0);
    }

    #[test]
    fn neighbours_disturb_each_other_in_lines_of_128_bytes_and_not_of_64() {
        let traces = [trace(10, &[modify(0)]), trace(10, &[modify(64)])];
        for schedule in [Schedule::Turns, Schedule::Mixed] {
            assert_eq!(replay(&traces, 64, shape(2, 0), schedule).all(), 0);
            assert!(replay(&traces, 128, shape(2, 0), schedule).taken() > 5);
        }
    }

    #[test]
    fn a_working_set_above_the_cache_is_read_anew_and_below_it_is_not() {
        let steps: Vec<Step> = (0..8).map(|line| read(line * 64)).collect();
        let traces = [trace(10, &steps)];
        assert_eq!(replay(&traces, 64, shape(1, 8), Schedule::Turns).all(), 0);
        assert_eq!(replay(&traces, 64, shape(1, 7), Schedule::Turns).memory, 5 * 8);
        assert_eq!(replay(&traces, 128, shape(1, 4), Schedule::Turns).all(), 0);
    }

    #[test]
    fn with_a_limit_the_first_half_is_not_counted_and_without_one_all_of_it_is() {
        let mut trace = trace(6, &[read(0)]);
        (0..4).for_each(|line| trace.push([read(64 + line * 64)]));
        let limited = replay(&[trace.clone()], 64, shape(1, 100), Schedule::Turns);
        assert_eq!((limited.ops, limited.memory), (5, 4));
        let unlimited = replay(&[trace], 64, shape(1, 0), Schedule::Turns);
        assert_eq!((unlimited.ops, unlimited.memory), (10, 0));
    }

    #[test]
    fn reads_of_what_was_just_touched_are_left_out_within_an_operation_only() {
        let mut trace = Trace::default();
        trace.push([read(0), read(8), modify(16), read(24), read(64), read(0)]);
        trace.push([read(0)]);
        let places: Vec<usize> = trace.touches.iter().map(|touch| touch.unit()).collect();
        assert_eq!(places, [0, 0, 1, 0, 0]);
        assert_eq!(trace.ends, [4, 5]);
    }

    #[test]
    fn a_replay_with_the_same_seed_gives_the_same_counts() {
        let traces: Vec<Trace> = (0..8)
            .map(|core| trace(20, &[read(core * 64), modify((core % 3) * 64), read(512)]))
            .collect();
        for schedule in SCHEDULES {
            let once = replay(&traces, 64, shape(8, 2), schedule);
            assert_eq!(once, replay(&traces, 64, shape(8, 2), schedule));
            assert!(once.taken() > 0);
        }
    }
}
