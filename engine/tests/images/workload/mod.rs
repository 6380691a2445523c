//! What one thread does between two openings of a database, and what an oracle has to know of it.
//!
//! A [`Live`] database is driven by a seed. It knows after each call what the database holds, so each live read can be
//! compared at once, and each crash image with the steps of its [`Oracle`].
//!
//! When a call fails because a disk was made to fail, then by what its error promises: `Full` and `Io` with a healthy
//! database changed nothing (definitions and what they free apart); after anything else the commit is possible and not
//! required, and the work ends there.

mod changes;
mod definitions;
mod reads;
mod transaction;

use crate::disks::{Lies, open};
use crate::image::{draw_fault, is_of_disk, is_traced};
use crate::oracle::{Bytes, Content, Oracle, State, read};
use fastrand::Rng;
use latchkv::io::Disk;
use latchkv::io::sim::{OpKind, SimMachine};
use latchkv::{Db, Durability, Error, Options, Snapshot, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names that trees may have.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Trees at a time.
const TREES_MAX: usize = 3;

/// Options for a small database; what may differ from one opening to the next differs.
pub(crate) fn options(rng: &mut Rng) -> Options {
    let options = Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .log_slot_bytes(64 << 10)
        .log_buffer_bytes(64 << 10)
        .durability(draw_durability(rng))
        .checkpoint_log_bytes([32 << 10, 256 << 10, u64::MAX][rng.usize(0..3)]);
    // A greater budget takes longer to set up than all the rest.
    let options = options.version_bytes(if rng.u8(0..16) == 0 { 8 << 20 } else { 64 << 10 });
    options.cache_bytes(if rng.u8(0..8) == 0 { least_cache_bytes() } else { 256 << 10 })
}

fn least_cache_bytes() -> u64 {
    static BYTES: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *BYTES.get_or_init(|| crate::common::least_cache_bytes(4096))
}

/// Any of the levels.
pub(crate) fn draw_durability(rng: &mut Rng) -> Durability {
    [Durability::None, Durability::Buffered, Durability::Sync, Durability::Sync][rng.usize(0..4)]
}

/// A snapshot that is held, and what it has to give.
struct Held {
    snapshot: Snapshot<'static>,
    trees: Vec<(Tree, Arc<Content>)>,
}

/// What a run of the workload may do.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Greatest length of an ordinary value.
    pub(crate) value_bytes_max: usize,
    /// Keys of each tree.
    pub(crate) keys: u32,
    /// Whether there are values and commits larger than a record of the log.
    pub(crate) large: bool,
}

impl Scope {
    /// As the dice say.
    pub(crate) fn draw(rng: &mut Rng) -> Scope {
        Scope {
            value_bytes_max: [24, 120, 120, 900, 2500][rng.usize(0..5)],
            keys: [6, 30, 80][rng.usize(0..3)],
            large: rng.u8(0..3) > 0,
        }
    }
}

/// See the module head.
pub(crate) struct Live {
    pub(crate) machine: SimMachine,
    lies: Lies,
    scope: Scope,
    db: Option<Db>,
    handles: BTreeMap<Arc<str>, Tree>,
    held: Vec<Held>,
    durability: Durability,
    pub(crate) oracle: Oracle,
    generation: u64,
    /// Trees that held nothing since they were made or cleared.
    pristine: BTreeSet<Arc<str>>,
    /// A disk was told to fail.
    pub(crate) is_faulty: bool,
    /// The database takes no more writes.
    is_dead: bool,
    trace: bool,
}

type Said<T = ()> = Result<T, String>;

impl Live {
    /// Opens the database on the disks of `machine`. The first time there is nothing; later it holds one of `before`.
    pub(crate) fn open(
        machine: SimMachine,
        lies: Lies,
        scope: Scope,
        before: Option<&[State]>,
        rng: &mut Rng,
    ) -> Said<Live> {
        let durability = draw_durability(rng);
        let options = options(rng).durability(durability);
        let db = open(&machine, &options, lies).map_err(|error| format!("opening: {error}"))?;
        let state = read(&db)?;
        let digests: Vec<u64> = before.unwrap_or_default().iter().map(State::digest).collect();
        if before.is_some() && !digests.contains(&state.digest()) {
            let nearest = before.and_then(<[State]>::last).expect("at least one is allowed");
            return Err(format!("opened with another state: {}", nearest.difference(&state)));
        }
        let mut live = Live {
            oracle: Oracle::new(state, machine.op_count(OpKind::Any), digests),
            machine,
            lies,
            scope,
            db: Some(db),
            handles: BTreeMap::new(),
            held: Vec::new(),
            durability,
            generation: rng.u64(..) >> 8,
            pristine: BTreeSet::new(),
            is_faulty: false,
            is_dead: false,
            trace: is_traced(),
        };
        live.take_handles()?;
        Ok(live)
    }

    fn take_handles(&mut self) -> Said {
        self.handles.clear();
        for name in self.oracle.state().trees.keys() {
            let tree = self.db().open_tree(name).map_err(|error| format!("a tree: {error}"))?;
            self.handles.insert(Arc::clone(name), tree.ok_or("a tree is gone")?);
        }
        Ok(())
    }

    /// Makes a disk fail some time.
    pub(crate) fn plan_fault(&mut self, rng: &mut Rng) {
        self.is_faulty = true;
        let (fault, kind) = draw_fault(rng);
        match rng.u8(0..4) {
            0 => {
                let lens = [self.machine.data().len_bytes(), self.machine.log().len_bytes()];
                let bytes: u64 = lens.into_iter().flatten().sum();
                self.machine.set_capacity(Some(bytes + rng.u64(0..200) * 1024));
            }
            1 => self.machine.fail_from(rng.u64(0..80), fault, kind),
            _ => self.machine.fail_at(rng.u64(0..80), fault, kind),
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open until the end")
    }

    fn now(&self) -> u64 {
        self.machine.op_count(OpKind::Any)
    }

    /// Ends the work: by closing the database, or by dropping it, which closes too and tells nobody whether it
    /// succeeded. False: a disk that was made to fail kept it from being closed.
    pub(crate) fn end(&mut self, closes: bool) -> Said<bool> {
        self.look_at_snapshots()?;
        self.held.clear();
        self.handles.clear();
        let Some(db) = self.db.take() else { return Ok(false) };
        if !closes {
            drop(db);
            return Ok(true);
        }
        let closed = db.close();
        let at = self.now();
        if self.trace {
            println!("close, calls to {at}, failing: {}: {closed:?}", self.is_faulty);
        }
        match closed {
            Ok(()) => {
                self.oracle.acknowledge(Durability::Sync, at);
                Ok(true)
            }
            Err(error) if self.is_faulty && is_of_disk(&error) => Ok(false),
            Err(error) => Err(format!("closing: {error}")),
        }
    }

    /// Closes and opens again, as another program would.
    fn reopen(&mut self, rng: &mut Rng) -> Said {
        if !self.end(true)? {
            self.is_dead = true;
            return Ok(());
        }
        self.machine.clear_faults();
        self.machine.set_capacity(None);
        self.durability = draw_durability(rng);
        let options = options(rng).durability(self.durability);
        let db = open(&self.machine, &options, self.lies);
        let db = db.map_err(|error| format!("opening again: {error}"))?;
        let found = read(&db)?;
        if found != *self.oracle.state() {
            let difference = self.oracle.state().difference(&found);
            return Err(format!("closed and opened again, it holds something else: {difference}"));
        }
        self.db = Some(db);
        let at = self.now();
        self.oracle.acknowledge(Durability::Sync, at);
        self.take_handles()
    }

    /// A call that commits: `after` is what the database holds then.
    fn commit(
        &mut self,
        what: &'static str,
        after: State,
        level: Durability,
        call: impl FnOnce(&Live) -> latchkv::Result<()>,
    ) -> Said {
        let began = self.now();
        let called = call(self);
        self.called(what, called, began, after, level, false)
    }

    fn called(
        &mut self,
        what: &'static str,
        called: latchkv::Result<()>,
        began: u64,
        after: State,
        level: Durability,
        is_definition: bool,
    ) -> Said {
        let at = self.now();
        if self.trace {
            let step = self.oracle.steps().len();
            println!("step {step} {what} {level:?}, calls {began} to {at}: {called:?}");
        }
        match called {
            Ok(()) => {
                self.oracle.push(what, after, began);
                self.oracle.acknowledge(level, at);
                let trees = &self.oracle.state().trees;
                let is_empty =
                    |name: &Arc<str>| trees.get(name).is_some_and(|tree| tree.is_empty());
                self.pristine.retain(is_empty);
                Ok(())
            }
            Err(error) => self.failed(what, &error, Some((after, is_definition)), began),
        }
    }

    fn failed(
        &mut self,
        what: &'static str,
        error: &Error,
        after: Option<(State, bool)>,
        began: u64,
    ) -> Said {
        if !self.is_faulty || !is_of_disk(error) {
            return Err(format!("{what}: {error}"));
        }
        // Room again, and a disk that works.
        self.machine.clear_faults();
        self.machine.set_capacity(None);
        if self.db().health().is_err() {
            self.is_dead = true;
            if let Some((after, _)) = after {
                self.oracle.push(what, after, began);
            }
            return Ok(());
        }
        let Some((after, is_definition)) = after else { return Ok(()) };
        let found = read(self.db())?;
        if found == *self.oracle.state() {
            return Ok(());
        }
        if is_definition && found == after {
            self.oracle.push(what, after, began);
            return self.take_handles();
        }
        let difference = self.oracle.state().difference(&found);
        Err(format!("{what} failed ({error}) and yet changed something: {difference}"))
    }

    /// A call that changes nothing and acknowledges what was before it.
    fn acknowledge(
        &mut self,
        what: &'static str,
        level: Durability,
        call: impl FnOnce(&Db) -> latchkv::Result<()>,
    ) -> Said {
        let called = call(self.db());
        let at = self.now();
        if self.trace {
            println!("{what}, calls to {at}: {called:?}");
        }
        match called {
            Ok(()) => {
                self.oracle.acknowledge(level, at);
                Ok(())
            }
            Err(error) => self.failed(what, &error, None, at),
        }
    }

    fn draw_key(&self, rng: &mut Rng) -> Vec<u8> {
        match rng.u32(0..self.scope.keys) {
            0 => Vec::new(),
            1 => vec![b'k'; 200],
            number => format!("key {number:04}").into_bytes(),
        }
    }

    fn draw_value(&mut self, rng: &mut Rng) -> Bytes {
        let len = match rng.u8(0..40) {
            0 if self.scope.large => rng.usize(2_000..40_000),
            1 => 0,
            _ => rng.usize(0..=self.scope.value_bytes_max),
        };
        self.value(len)
    }

    /// A value that no other is like, if it has room for that.
    fn value(&mut self, len: usize) -> Bytes {
        self.generation += 1;
        let word = self.generation.to_le_bytes();
        (0..len).map(|at| word[at % 8] ^ (at / 512) as u8).collect()
    }

    fn draw_tree(&self, rng: &mut Rng) -> Option<(Arc<str>, Tree)> {
        let count = self.handles.len();
        let (name, tree) = self.handles.iter().nth(rng.usize(0..count.max(1)))?;
        Some((Arc::clone(name), tree.clone()))
    }

    /// A key of the tree, most often one that has a value.
    fn draw_known_key(&self, name: &str, rng: &mut Rng) -> Vec<u8> {
        let content = &self.oracle.state().trees[name];
        if content.is_empty() || rng.u8(0..5) == 0 {
            return self.draw_key(rng);
        }
        content.keys().nth(rng.usize(0..content.len())).expect("below the count").to_vec()
    }

    /// One call, or a few.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Said {
        if self.handles.is_empty() {
            return self.create(rng);
        }
        match rng.u8(0..100) {
            0..20 => self.put(rng),
            20..26 => self.insert(rng),
            26..35 => self.delete(rng),
            35..41 => self.swap(rng),
            41..54 => self.batch(rng),
            54..72 => self.transaction(rng),
            72..75 => self.large_batch(rng),
            75..78 => self.create(rng),
            78 => self.drop_tree(rng),
            79..81 => self.rename(rng),
            81 => self.clear(rng),
            82..85 => self.bulk_load(rng),
            85..88 => {
                self.acknowledge("checkpoint", Durability::Sync, |db| db.checkpoint().map(drop))
            }
            88..90 => self.acknowledge("flush", Durability::Buffered, Db::flush),
            90..92 => self.acknowledge("sync", Durability::Sync, Db::sync),
            92..95 => self.hold_snapshot(),
            95..97 => self.look_at_durable(),
            97 => self.look_at_snapshots().map(|()| self.held.clear()),
            98 => self.look(),
            _ => self.reopen(rng),
        }
    }
}
