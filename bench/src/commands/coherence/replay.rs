//! Traces of what cores do, and their replay on a [`Machine`].
//!
//! A trace is a list of operations; an operation is a list of touches of 64-byte units. A machine with lines of
//! 128 bytes takes two neighbours for one line: what is apart in one machine may be side by side in another.
//!
//! Each core goes through its own trace twice, as fast as all others: once for the caches to fill, and once for
//! the count. So in caches without a limit a read of what nobody writes is never counted: what is left there is
//! coherence alone.
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

/// A number with a bit for whether it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Touch<T> {
    place: T,
    writes: bool,
}

/// What one core does. See the module head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Trace {
    /// Units.
    touches: Vec<Touch<usize>>,
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
            let touch = Touch { place: step.address / UNIT_BYTES, writes: step.writes };
            self.modifies += u64::from(step.modifies);
            let before = self.touches[begin..].last();
            if touch.writes || before.is_none_or(|before| before.place != touch.place) {
                self.touches.push(touch);
            }
        }
        self.ends.push(self.touches.len());
    }

    /// Read-modify-writes of all operations.
    pub(crate) fn modifies(&self) -> u64 {
        self.modifies
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
        let mut number = |touch: &Touch<usize>| {
            let next = numbers.len() as u32;
            let place = *numbers.entry(touch.place / units).or_insert(next);
            Touch { place, writes: touch.writes }
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
        for pass in 0..2 {
            run.tally = Tally::default();
            run.transfers.fill(0);
            for op in 0..ops {
                match schedule {
                    Schedule::Turns => order.iter().for_each(|&core| run.op(core, op)),
                    Schedule::Shuffled => {
                        random.shuffle(&mut order);
                        order.iter().for_each(|&core| run.op(core, op));
                    }
                    Schedule::Mixed => run.mixed(op, &mut random),
                }
            }
            debug_assert!(pass == 0 || run.tally.all() >= u64::from(run.busiest()));
        }
        let ops = (ops * shape.cores) as u64;
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
        let Touch { place, writes } = self.cores[usize::from(core)].0[at];
        let took = self.machine.access(core, place, writes);
        self.tally.add(took);
        if matches!(took, Took::Read { .. } | Took::Taken { .. }) {
            self.transfers[place as usize] += 1;
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
        assert_eq!(traces[0].modifies(), 20);
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
        let traces = [trace(5, &steps)];
        assert_eq!(replay(&traces, 64, shape(1, 8), Schedule::Turns).all(), 0);
        assert_eq!(replay(&traces, 64, shape(1, 7), Schedule::Turns).memory, 40);
        assert_eq!(replay(&traces, 128, shape(1, 4), Schedule::Turns).all(), 0);
    }

    #[test]
    fn reads_of_what_was_just_touched_are_left_out_within_an_operation_only() {
        let mut trace = Trace::default();
        trace.push([read(0), read(8), modify(16), read(24), read(64), read(0)]);
        trace.push([read(0)]);
        let places: Vec<usize> = trace.touches.iter().map(|touch| touch.place).collect();
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
