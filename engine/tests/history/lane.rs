//! One session: it opens transactions and snapshots, makes random steps in them, and writes down what it saw.
//!
//! Lists are read before they are appended to, as anybody would; what a session owns it puts and deletes without
//! looking. The seed decides the steps, not what they find.

use crate::digest::digests;
use crate::history::{History, Key, Kind, Step, Txn, Value};
use crate::workload::{Level, Run};
use fastrand::Rng;
use latchkv::{
    Durability, Entry, Error, Isolation, ReadAt, Result, Savepoint, Snapshot, Transaction,
    TransactionOptions, WriteBatch,
};

/// Owned keys of each session that are put and deleted again and again; others are put once.
const REGISTERS: u32 = 2;

/// What a lane has open.
enum Open<'a> {
    Transaction(Box<Transaction<'a>>, Option<Savepoint>),
    Snapshot(Snapshot<'a>),
}

/// A session.
pub(crate) struct Lane<'a> {
    run: &'a Run<'a>,
    session: u32,
    rng: Rng,
    open: Option<Open<'a>>,
    /// The open one.
    txn: Txn,
    steps_left: usize,
    begun: usize,
    values: u64,
    once: u32,
    txns: Vec<Txn>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(run: &'a Run<'a>, session: u32, seed: u64) -> Lane<'a> {
        Lane {
            run,
            session,
            rng: Rng::with_seed(seed ^ u64::from(session).wrapping_mul(0xd6e8_feb8_6659_fd93)),
            open: None,
            txn: Txn::new(session),
            steps_left: 0,
            begun: 0,
            values: 0,
            once: REGISTERS,
            txns: Vec::new(),
        }
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        u64::from(self.session + 1) << 32 | self.values
    }

    fn place(&mut self) -> u16 {
        self.rng.u16(0..self.run.plan.places)
    }

    fn register(&mut self, session: u32) -> Key {
        let number = session * 1_000_000 + self.rng.u32(0..REGISTERS);
        Key::owned(number as u16 % self.run.plan.places, number)
    }

    /// A key that nobody ever had.
    fn fresh(&mut self) -> Key {
        self.once += 1;
        Key::owned(self.place(), self.session * 1_000_000 + self.once)
    }

    /// Nothing is open, and nothing more is to be begun.
    pub(crate) fn is_done(&self) -> bool {
        self.open.is_none() && self.begun == self.run.plan.rounds
    }

    /// What it ran, in order.
    pub(crate) fn into_txns(self) -> Vec<Txn> {
        self.txns
    }

    /// A transaction that reads all there is.
    pub(crate) fn read_everything(&mut self) {
        self.begin_transaction();
        self.scan_between(Key::list(0), Key::list(u16::MAX), usize::MAX, Way::Forward);
        self.end(true);
    }

    /// Begins something, or goes on with it, or ends it.
    pub(crate) fn step(&mut self) {
        if self.open.is_none() {
            self.begun += 1;
            match self.rng.u8(0..100) {
                0..70 => self.begin_transaction(),
                70..84 => self.begin_snapshot(),
                84..92 => self.batch(),
                _ => self.put_alone(),
            }
        } else if self.steps_left > 0 {
            self.steps_left -= 1;
            self.open_step();
        } else {
            let commit = self.rng.u8(0..100) < 92;
            self.end(commit);
        }
    }

    fn durability(&mut self) -> Durability {
        let all = self.run.plan.durabilities;
        all[self.rng.usize(0..all.len())]
    }

    fn begin(&mut self) {
        self.txn = Txn::new(self.session);
        self.txn.durability = self.durability();
        self.txn.began = self.run.time();
        self.steps_left = self.rng.usize(1..9);
    }

    fn begin_transaction(&mut self) {
        self.begin();
        self.txn.serializable = match self.run.plan.level {
            Level::Snapshot => false,
            Level::Serializable => true,
            Level::Mixed => self.rng.bool(),
        };
        let isolation =
            if self.txn.serializable { Isolation::Serializable } else { Isolation::Snapshot };
        let options =
            TransactionOptions::new().isolation(isolation).durability(self.txn.durability);
        let transaction = self.run.db.begin_with(&options).expect("open");
        self.txn.reads_at = Some(transaction.lsn().0);
        self.open = Some(Open::Transaction(Box::new(transaction), None));
    }

    fn begin_snapshot(&mut self) {
        self.begin();
        self.txn.stale = self.rng.u8(0..4) == 0;
        let at = if self.txn.stale { ReadAt::Durable } else { ReadAt::Visible };
        let snapshot = self.run.db.snapshot_at(at, None).expect("open");
        self.txn.reads_at = Some(snapshot.lsn().0);
        self.open = Some(Open::Snapshot(snapshot));
    }

    /// Ends what is open, and writes it down.
    fn end(&mut self, commit: bool) {
        match self.open.take().expect("something is open") {
            Open::Snapshot(snapshot) => {
                drop(snapshot);
                self.txn.committed = true;
            }
            Open::Transaction(transaction, _) if !commit => transaction.rollback(),
            Open::Transaction(transaction, _) => match transaction.commit() {
                Ok(lsn) => {
                    self.txn.committed = true;
                    // Of one that wrote nothing, the lsn is not its own.
                    self.txn.lsn = self.wrote_something().then_some(lsn.0);
                }
                Err(Error::Conflict { .. }) => {}
                Err(error) => panic!("a commit of {:?}: {error}", self.txn),
            },
        }
        self.write_down();
    }

    fn wrote_something(&self) -> bool {
        let alone = History { txns: vec![self.txn.clone()] };
        // What contradicts itself is found later.
        digests(&alone).map_or(true, |digests| !digests[0].writes.is_empty())
    }

    fn write_down(&mut self) {
        self.txn.ended_at_call = (self.run.disk_calls)();
        self.txn.ended = self.run.time();
        self.txns.push(std::mem::replace(&mut self.txn, Txn::new(self.session)));
    }

    /// A batch of owned keys.
    fn batch(&mut self) {
        self.begin();
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.usize(1..5) {
            let step = self.owned_step();
            match &step {
                Step::Put { key, value } => {
                    batch.put(&self.run.tree, key.bytes(), key.encode(&[*value])).expect("small");
                }
                Step::Delete { key } => batch.delete(&self.run.tree, key.bytes()).expect("small"),
                other => unreachable!("{other:?}"),
            }
            self.txn.steps.push(step);
        }
        let lsn = self.run.db.write_with(&batch, self.txn.durability).expect("it never conflicts");
        self.txn.lsn = Some(lsn.0);
        self.txn.committed = true;
        self.write_down();
    }

    /// A put of a key that nobody had, outside of transactions: its lsn is not told.
    fn put_alone(&mut self) {
        self.begin();
        let (key, value) = (self.fresh(), self.value());
        self.txn.steps.push(Step::Put { key, value });
        self.run.tree.put(key.bytes(), key.encode(&[value])).expect("room");
        self.txn.committed = true;
        // As durable as the database says by itself, not as drawn.
        self.txn.durability = Durability::None;
        self.write_down();
    }

    /// A change of a key of its own.
    fn owned_step(&mut self) -> Step {
        match self.rng.u8(0..10) {
            0..3 => Step::Put { key: self.fresh(), value: self.value() },
            3..7 => Step::Put { key: self.register(self.session), value: self.value() },
            _ => Step::Delete { key: self.register(self.session) },
        }
    }

    /// One step of what is open.
    fn open_step(&mut self) {
        if let Some(Open::Snapshot(_)) = self.open {
            return if self.rng.bool() { self.scan() } else { self.read() };
        }
        match self.rng.u8(0..100) {
            0..40 => self.append(),
            40..58 => self.read(),
            58..68 => self.scan(),
            68..82 => {
                let step = self.owned_step();
                self.write(step);
            }
            82..90 => self.mark(),
            90..96 => self.undo(),
            96..98 => self.guard(),
            // More than goes into one record of a small log.
            _ => {
                for _ in 0..30 {
                    let step = Step::Put { key: self.fresh(), value: self.value() };
                    self.write(step);
                }
            }
        }
    }

    fn transaction(&mut self) -> (&mut Transaction<'a>, &mut Option<Savepoint>) {
        match &mut self.open {
            Some(Open::Transaction(transaction, mark)) => (transaction, mark),
            _ => unreachable!("only transactions write"),
        }
    }

    fn get(&mut self, key: Key, for_update: bool) -> Vec<Value> {
        let tree = &self.run.tree;
        let found = match self.open.as_mut().expect("something is open") {
            Open::Snapshot(snapshot) => snapshot.get(tree, key.bytes()),
            Open::Transaction(transaction, _) if for_update => {
                transaction.get_for_update(tree, key.bytes())
            }
            Open::Transaction(transaction, _) => transaction.get(tree, key.bytes()),
        };
        let found = found.expect("readable");
        let found = found.map_or_else(Vec::new, |bytes| decoded(key, &bytes));
        self.txn.steps.push(Step::Read { key, found: found.clone() });
        if for_update {
            self.txn.steps.push(Step::Guard { key });
        }
        found
    }

    fn read(&mut self) {
        let key = match self.rng.u8(0..3) {
            0 => {
                let sessions = self.run.plan.threads * self.run.plan.lanes;
                let session = self.rng.u32(0..sessions);
                self.register(session)
            }
            _ => Key::list(self.place()),
        };
        self.get(key, false);
    }

    fn guard(&mut self) {
        let key = Key::list(self.place());
        self.get(key, true);
    }

    fn append(&mut self) {
        let key = Key::list(self.place());
        let for_update = self.rng.u8(0..5) == 0;
        let mut list = self.get(key, for_update);
        let value = self.value();
        list.push(value);
        let tree = &self.run.tree;
        self.transaction().0.put(tree, key.bytes(), key.encode(&list)).expect("small");
        self.txn.steps.push(Step::Append { key, value });
    }

    fn write(&mut self, step: Step) {
        let tree = &self.run.tree;
        match &step {
            Step::Put { key, value } => {
                let value = key.encode(&[*value]);
                self.transaction().0.put(tree, key.bytes(), value).expect("small");
            }
            Step::Delete { key } => {
                // It reads whether the key is there.
                self.get(*key, false);
                if !self.transaction().0.delete(tree, key.bytes()).expect("readable") {
                    return;
                }
            }
            other => unreachable!("{other:?}"),
        }
        self.txn.steps.push(step);
    }

    fn mark(&mut self) {
        let (transaction, mark) = self.transaction();
        *mark = Some(transaction.savepoint());
        self.txn.steps.push(Step::Mark);
    }

    fn undo(&mut self) {
        let (transaction, mark) = self.transaction();
        let Some(mark) = *mark else { return };
        transaction.rollback_to(mark).expect("it is the last");
        self.txn.steps.push(Step::Undo);
    }

    fn scan(&mut self) {
        let (one, two) = (self.place(), self.place());
        let (from, to) = match self.rng.u8(0..4) {
            0 => (Key::list(0), Key::list(u16::MAX)),
            1 => (Key::list(one), Key::list(one + 1)),
            2 => (Key::owned(one, 0), Key::owned(one, u32::MAX)),
            _ => (Key::list(one.min(two)), Key::list(one.max(two))),
        };
        let count = if self.rng.bool() { usize::MAX } else { self.rng.usize(1..8) };
        let way = [Way::Forward, Way::Backward, Way::Both][self.rng.usize(0..3)];
        self.scan_between(from, to, count, way);
    }

    /// Reads up to `count` records of a range. Of a scan from both ends that does not come together, both parts
    /// are written down.
    fn scan_between(&mut self, from: Key, to: Key, count: usize, way: Way) {
        let tree = &self.run.tree;
        let (lower, upper) = (from.bytes(), to.bytes());
        let whole_place = to == Key::list(from.place + 1) && from.kind == Kind::List;
        let seen = match self.open.as_ref().expect("something is open") {
            Open::Snapshot(snapshot) if whole_place => {
                take(snapshot.prefix(tree, &lower[..2]), count, way)
            }
            Open::Snapshot(snapshot) => take(snapshot.range(tree, lower..upper), count, way),
            Open::Transaction(transaction, _) if whole_place => {
                take(transaction.prefix(tree, &lower[..2]), count, way)
            }
            Open::Transaction(transaction, _) => {
                take(transaction.range(tree, lower..upper), count, way)
            }
        };
        let Seen { front, mut back, whole } = seen;
        back.reverse();
        if whole {
            let found = front.into_iter().chain(back).collect();
            self.txn.steps.push(Step::Scan { from, to, found });
            return;
        }
        if let Some((last, _)) = front.last() {
            let to = last.after();
            self.txn.steps.push(Step::Scan { from, to, found: front });
        }
        if let Some((first, _)) = back.first() {
            self.txn.steps.push(Step::Scan { from: *first, to, found: back });
        }
    }
}

/// From which end a scan reads.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Forward,
    Backward,
    /// From one and the other in turn.
    Both,
}

/// What a scan saw from the front, what from the back, and whether that is all.
struct Seen {
    front: Vec<(Key, Vec<Value>)>,
    back: Vec<(Key, Vec<Value>)>,
    whole: bool,
}

fn take(mut range: impl DoubleEndedIterator<Item = Result<Entry>>, count: usize, way: Way) -> Seen {
    let mut seen = Seen { front: Vec::new(), back: Vec::new(), whole: false };
    for turn in 0..count {
        let front = way == Way::Forward || way == Way::Both && turn % 2 == 0;
        let entry = if front { range.next() } else { range.next_back() };
        let Some(entry) = entry else {
            seen.whole = true;
            break;
        };
        let entry = entry.expect("readable");
        let key = Key::from_bytes(entry.key())
            .unwrap_or_else(|| panic!("a key {:?} that nobody put", entry.key()));
        let values = decoded(key, entry.value());
        if front {
            seen.front.push((key, values))
        } else {
            seen.back.push((key, values))
        }
        if turn % 5 == 4 {
            std::thread::yield_now();
        }
    }
    seen
}

/// The values of a record.
#[track_caller]
pub(crate) fn decoded(key: Key, bytes: &[u8]) -> Vec<Value> {
    key.decode(bytes).unwrap_or_else(|| panic!("{key:?} has {} bytes of garbage", bytes.len()))
}
