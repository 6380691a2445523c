//! From a seed to its images.

use crate::disks::Lies;
use crate::image::{Depth, draw_mode, verify};
use crate::oracle::{Allowed, Oracle, State};
use crate::threads;
use crate::workload::{Live, Scope};
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, MachineSnapshot, Record, SimMachine};
use std::fmt;

/// What to replay.
#[derive(Clone, Copy)]
enum Replay {
    /// All of a history.
    History(u64),
    Image(u64, u64),
    /// By `LATCHKV_TEST_SEED` alone.
    Moments,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replay::History(seed) => write!(f, "LATCHKV_IMAGE={seed}"),
            Replay::Image(seed, image) => write!(f, "LATCHKV_IMAGE={seed}:{image}"),
            Replay::Moments => f.write_str("the same LATCHKV_TEST_SEED"),
        }
    }
}

/// What went wrong, and how to see it again.
pub(crate) struct Failure {
    replay: Replay,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.replay, self.what)
    }
}

/// What a panic in the engine leaves on stderr, so that it can be seen again.
struct Note(Replay);

impl Drop for Note {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// The moments of one opening of the database, and what may be found after a power cut at each.
struct Span {
    moments: Vec<MachineSnapshot>,
    oracle: Oracle,
    is_faulty: bool,
}

enum Kind {
    Single(Vec<Span>),
    Threads(threads::Record),
}

/// A history, done; its images are still to be looked at.
pub(crate) struct History {
    seed: u64,
    kind: Kind,
}

impl History {
    /// Does what the seed says.
    pub(crate) fn of(seed: u64, lies: Lies) -> Result<History, Failure> {
        let _note = Note(Replay::History(seed));
        let mut rng = Rng::with_seed(seed);
        let kind = if rng.u8(0..8) == 0 {
            threads::run(lies, &mut rng).map(Kind::Threads)
        } else {
            single(lies, &mut rng).map(Kind::Single)
        };
        match kind {
            Ok(kind) => Ok(History { seed, kind }),
            Err(what) => Err(Failure { replay: Replay::History(seed), what }),
        }
    }

    /// Looks at one of its images.
    pub(crate) fn verify(&self, image: u64) -> Result<(), Failure> {
        let replay = Replay::Image(self.seed, image);
        let _note = Note(replay);
        let mut rng = Rng::with_seed(self.seed ^ (image + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mode = draw_mode(&mut rng);
        let (at, verified) = match &self.kind {
            Kind::Single(spans) => {
                let span = &spans[rng.usize(0..spans.len())];
                let moment = &span.moments[rng.usize(0..span.moments.len())];
                let allowed = span.oracle.allowed(moment.op(), mode, span.is_faulty);
                let judge = |db: &latchkv::Db| allowed.judge(db);
                (moment.op(), verify(moment, mode, &judge, Depth::Drawn, &mut rng))
            }
            Kind::Threads(record) => {
                let moment = &record.moments[rng.usize(0..record.moments.len())];
                let judge = |db: &latchkv::Db| record.judge(db, moment.op(), mode);
                (moment.op(), verify(moment, mode, &judge, Depth::Drawn, &mut rng))
            }
        };
        verified.map_err(|what| {
            let what = format!("{mode:?} after {at} calls: {what}");
            Failure { replay, what }
        })
    }
}

/// The history of one thread: one to three spans, with power cuts between them.
fn single(lies: Lies, rng: &mut Rng) -> Result<Vec<Span>, String> {
    let scope = Scope::draw(rng);
    let mut live = Live::open(SimMachine::new(rng.u64(..)), lies, scope, None, rng)?;
    // From the first complete database on.
    live.machine.record_history(Record::Changes);
    let mut spans = Vec::new();
    loop {
        let first = live.machine.snapshot();
        if lies == Lies::None && rng.u8(0..4) == 0 {
            live.plan_fault(rng);
        }
        for _ in 0..rng.usize(5..36) {
            live.step(rng)?;
            if live.is_dead() {
                break;
            }
        }
        let closes = rng.bool();
        live.end(closes)?;
        let Live { machine, oracle, is_faulty, .. } = live;
        let mut moments = machine.history();
        if moments.is_empty() {
            moments.push(first);
        }
        let span = Span { moments, oracle, is_faulty };
        let goes_on = spans.len() < 2 && rng.u8(0..3) == 0;
        if !goes_on {
            spans.push(span);
            return Ok(spans);
        }
        let (moment, mode) = (&span.moments[rng.usize(0..span.moments.len())], draw_mode(rng));
        let before: Vec<State> = match span.oracle.allowed(moment.op(), mode, span.is_faulty) {
            Allowed::Steps(steps) => steps.iter().map(|step| step.state.clone()).collect(),
            // Before it was open: that is for the images.
            Allowed::Digests(_) => {
                spans.push(span);
                return Ok(spans);
            }
        };
        let left = moment.crash(rng.u64(..), mode);
        spans.push(span);
        left.record_history(Record::Changes);
        live = Live::open(left, lies, scope, Some(&before), rng)?;
    }
}

/// Every moment of a short history, each in every mode: before and after every call that changes a disk.
pub(crate) fn verify_every_moment(seed: u64) -> Result<usize, Failure> {
    let _note = Note(Replay::Moments);
    let failed = |what| Failure { replay: Replay::Moments, what };
    let mut rng = Rng::with_seed(seed);
    let scope = Scope { value_bytes_max: 120, keys: 12, large: true };
    let machine = SimMachine::new(rng.u64(..));
    let mut live = Live::open(machine, Lies::None, scope, None, &mut rng).map_err(failed)?;
    live.machine.record_history(Record::Changes);
    for _ in 0..10 {
        live.step(&mut rng).map_err(failed)?;
    }
    live.end(true).map_err(failed)?;
    let moments = live.machine.history();
    let mut count = 0;
    for (number, moment) in moments.iter().enumerate() {
        for mode in
            [CrashMode::LoseAll, CrashMode::KeepAll].into_iter().chain([CrashMode::Random; 3])
        {
            let allowed = live.oracle.allowed(moment.op(), mode, false);
            let verified = verify(moment, mode, &|db| allowed.judge(db), Depth::Plain, &mut rng);
            verified.map_err(|what| {
                failed(format!("moment {number}, {mode:?} after {} calls: {what}", moment.op()))
            })?;
            count += 1;
        }
    }
    println!("{count} images of {} moments", moments.len());
    Ok(count)
}
