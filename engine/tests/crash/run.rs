//! One thread that does random calls, and what a power cut may leave of them.

use crate::common::matrix::Case;
use crate::common::{Model, assert_whole, open_on, value_of};
use crate::state::{Edit, State};
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, OpKind, SimMachine};
use latchkv::{Db, Durability, Error, Options, Tree, WriteBatch};

const LEVELS: [Durability; 3] = [Durability::None, Durability::Buffered, Durability::Sync];

/// The state that a commit leaves.
struct Commit {
    sum: u128,
    /// Calls of the disks before it began.
    begun_at: u64,
}

/// A call that returned success and said by that which commits last.
struct Promise {
    /// This one and all before it.
    commit: usize,
    /// Calls of the disks when it returned.
    made_at: u64,
    /// [`Durability::Sync`] = they survive everything, [`Durability::Buffered`] = the end of the process.
    level: Durability,
    by: &'static str,
}

pub(crate) struct Run {
    pub(crate) case: Case,
    pub(crate) machine: SimMachine,
    pub(crate) db: Db,
    /// What the database is to hold.
    pub(crate) state: State,
    /// The sum of the state before a commit that ended in [`Error::Poisoned`]: it holds that, or `state`.
    uncertain: Option<u128>,
    /// Oldest first; the first is the database as it was opened.
    commits: Vec<Commit>,
    promises: Vec<Promise>,
    level: Durability,
    /// Whether sorted records are loaded at once into trees that are empty.
    pub(crate) loads: bool,
    rng: Rng,
    generation: u64,
}

impl Run {
    /// A new database whose calls wait as `level` says, but for some batches.
    pub(crate) fn new(case: Case, options: &Options, level: Durability, seed: u64) -> Run {
        let machine = SimMachine::new(seed);
        let db = open_on(&machine, &options.clone().durability(level)).expect("empty disks");
        Run::of(case, machine, db, State::default(), level, Rng::with_seed(seed))
    }

    /// A database that was just opened and holds `state`.
    fn of(
        case: Case,
        machine: SimMachine,
        db: Db,
        state: State,
        level: Durability,
        rng: Rng,
    ) -> Run {
        let made_at = machine.op_count(OpKind::Any);
        let commits = vec![Commit { sum: state.sum, begun_at: 0 }];
        let promises = vec![Promise { commit: 0, made_at, level: Durability::Sync, by: "opening" }];
        let generation = rng.clone().u64(..) << 20;
        Run {
            case,
            machine,
            db,
            state,
            uncertain: None,
            commits,
            promises,
            level,
            loads: true,
            rng,
            generation,
        }
    }

    /// Goes on with what is found after a power cut now.
    pub(crate) fn after_a_cut(mut self, options: &Options, mode: CrashMode) -> Run {
        let op = self.machine.op_count(OpKind::Any);
        let machine = self.machine.crash(self.rng.u64(..), mode);
        let options = options.clone().durability(self.level);
        let db = open_on(&machine, &options).unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        let state = State::read(&db).expect("readable");
        assert_whole(&db);
        self.assert_allowed(&state, op, mode, "going on");
        Run::of(self.case, machine, db, state, self.level, self.rng)
    }

    fn promise(&mut self, level: Durability, by: &'static str) {
        let made_at = self.machine.op_count(OpKind::Any);
        self.promises.push(Promise { commit: self.commits.len() - 1, made_at, level, by });
    }

    pub(crate) fn checkpoint(&mut self) -> Result<(), Error> {
        self.db.checkpoint()?;
        self.promise(Durability::Sync, "a checkpoint");
        Ok(())
    }

    /// A sync failed: what the operating system had, and the disk had not, may be gone.
    pub(crate) fn forget_what_was_buffered(&mut self) {
        self.promises.retain(|promise| promise.level == Durability::Sync);
    }

    /// Makes the changes of one commit by `act`. After an error nothing of it may have happened, unless
    /// `is_done` says that it has; after [`Error::Poisoned`] all or nothing.
    fn commit(
        &mut self,
        (level, by): (Durability, &'static str),
        edits: Vec<Edit>,
        act: impl FnOnce(&Db) -> Result<(), Error>,
        is_done: impl FnOnce(&Db) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let before = self.state.sum;
        let begun_at = self.machine.op_count(OpKind::Any);
        let mut back: Vec<_> = edits.into_iter().map(|edit| self.state.apply(edit)).collect();
        self.commits.push(Commit { sum: self.state.sum, begun_at });
        match act(&self.db) {
            Ok(()) => {
                self.promise(level, by);
                Ok(())
            }
            Err(error @ Error::Poisoned { .. }) => {
                self.uncertain = Some(before);
                Err(error)
            }
            Err(error) if is_done(&self.db)? => Err(error),
            Err(error) => {
                while let Some(edit) = back.pop() {
                    self.state.apply(edit);
                }
                self.commits.pop();
                Err(error)
            }
        }
    }

    fn clear(&mut self, name: &str, tree: &Tree) -> Result<(), Error> {
        let edit = Edit::tree(name, Some(Model::new()));
        // It may have been done without giving its pages back.
        self.commit((self.level, "clear"), vec![edit], |_| tree.clear(), |_| tree.is_empty())
    }

    /// A tree of that name, made if need be.
    fn tree(&mut self, name: &str) -> Result<Tree, Error> {
        if !self.state.trees.contains_key(name) {
            let edit = Edit::tree(name, Some(Model::new()));
            let make = |db: &Db| db.tree(name).map(drop);
            self.commit((self.level, "create"), vec![edit], make, |_| Ok(false))?;
        }
        Ok(self.db.open_tree(name)?.expect("it is there"))
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => vec![b'l'; 500 * self.case.units()],
            _ => self.rng.u32(0..300).to_be_bytes().to_vec(),
        }
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        self.generation += 1;
        let len = match self.rng.u32(0..30) {
            0 => self.rng.usize(1000..30_000 + 2 * self.case.page_bytes as usize),
            1 => 0,
            _ => self.rng.usize(0..400 * self.case.units()),
        };
        value_of(key, self.generation, len)
    }

    /// One random call, or two commits if a tree has to be made first.
    pub(crate) fn step(&mut self) -> Result<(), Error> {
        let name = ["a", "b", "c"][self.rng.usize(0..3)];
        let key = self.key();
        let draw = self.rng.u32(0..1000);
        match draw {
            990.. => return self.checkpoint(),
            988..990 => {
                self.db.sync()?;
                self.promise(Durability::Sync, "Db::sync");
                return Ok(());
            }
            986..988 => {
                self.db.flush()?;
                self.promise(Durability::Buffered, "Db::flush");
                return Ok(());
            }
            _ => {}
        }
        let tree = self.tree(name)?;
        match draw {
            0..500 => {
                let value = self.value(&key);
                let edit = Edit::put(name, &key, &value);
                self.commit(
                    (self.level, "put"),
                    vec![edit],
                    |_| tree.put(&key, &value),
                    |_| Ok(false),
                )
            }
            500..580 => self.several(name, draw < 540),
            580..880 if self.state.trees[name].contains_key(&key) => {
                let delete = |_: &Db| tree.delete(&key).map(|was| assert!(was, "{key:?}"));
                let edit = Edit::delete(name, &key);
                self.commit((self.level, "delete"), vec![edit], delete, |_| Ok(false))
            }
            580..880 => tree.delete(&key).map(|was| assert!(!was, "{key:?} of {name:?}")),
            880..884 if self.loads => {
                // Nothing changes, whatever becomes of it; and it brings all before it to last.
                match tree.rebuild() {
                    Ok(()) => self.promise(Durability::Sync, "rebuild"),
                    Err(error) => return Err(error),
                }
                Ok(())
            }
            880..960 => {
                let expected = self.state.trees[name].get(&key);
                assert!(tree.get(&key)?.as_ref() == expected, "{key:?} of {name:?}");
                Ok(())
            }
            960..970 => self.clear(name, &tree),
            970..974 => {
                let dropping = |db: &Db| db.drop_tree(name).map(|was| assert!(was, "{name:?}"));
                let is_gone = |db: &Db| db.open_tree(name).map(|tree| tree.is_none());
                self.commit((self.level, "drop"), vec![Edit::tree(name, None)], dropping, is_gone)
            }
            974..978 => {
                let to = format!("{name}{name}");
                if self.state.trees.contains_key(&to) {
                    return Ok(());
                }
                let records = self.state.trees[name].clone();
                let edits = vec![Edit::tree(name, None), Edit::tree(&to, Some(records))];
                self.commit(
                    (self.level, "rename"),
                    edits,
                    |db| db.rename_tree(name, &to),
                    |_| Ok(false),
                )
            }
            _ => {
                self.clear(name, &tree)?;
                if !self.loads {
                    return Ok(());
                }
                let len = 150 * self.case.units();
                let records = (0..self.rng.u32(0..400))
                    .map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; len]));
                let records: Model = records.collect();
                let edit = Edit::tree(name, Some(records.clone()));
                let load = |_: &Db| tree.bulk_load(records.iter()).map(drop);
                // Whatever the level is, it returns when a checkpoint has it.
                self.commit((Durability::Sync, "load"), vec![edit], load, |_| Ok(false))
            }
        }
    }

    /// A commit of several changes, in several trees, that waits as it likes.
    fn several(&mut self, name: &str, in_transaction: bool) -> Result<(), Error> {
        let level = LEVELS[self.rng.usize(0..3)];
        let others: Vec<String> = self.state.trees.keys().cloned().collect();
        let mut trees = Vec::new();
        for name in others {
            trees.push((name.clone(), self.db.open_tree(&name)?.expect("it is there")));
        }
        let mut changes = std::collections::BTreeMap::new();
        for _ in 0..self.rng.usize(2..8) {
            let at = self.rng.usize(0..trees.len());
            let key = self.key();
            let value = if self.rng.u32(0..4) == 0 { None } else { Some(self.value(&key)) };
            changes.insert((at, key), value);
        }
        let edits = changes.iter().map(|((at, key), value)| match value {
            Some(value) => Edit::put(&trees[*at].0, key, value),
            None => Edit::delete(&trees[*at].0, key),
        });
        let edits = edits.collect();
        let write = |db: &Db| {
            if in_transaction {
                let options = latchkv::TransactionOptions::new().durability(level).name(name);
                let mut transaction = db.begin_with(&options)?;
                for ((at, key), value) in &changes {
                    match value {
                        Some(value) => transaction.put(&trees[*at].1, key, value)?,
                        None => drop(transaction.delete(&trees[*at].1, key)?),
                    }
                }
                return transaction.commit().map(drop);
            }
            let mut batch = WriteBatch::new();
            for ((at, key), value) in &changes {
                match value {
                    Some(value) => batch.put(&trees[*at].1, key, value)?,
                    None => batch.delete(&trees[*at].1, key)?,
                }
            }
            db.write_with(&batch, level).map(drop)
        };
        let is_nothing = changes.iter().all(|((at, key), value)| {
            value.is_none() && !self.state.trees[&trees[*at].0].contains_key(key)
        });
        let (level, by) = match in_transaction {
            // Without a write there is nothing to make durable.
            true if is_nothing => (Durability::None, "a transaction without a write"),
            true => (level, "a transaction"),
            false => (level, "a batch"),
        };
        self.commit((level, by), edits, write, |_| Ok(false))
    }

    /// The database holds what it is to.
    #[track_caller]
    pub(crate) fn assert_holds(&self, found: &State, what: &str) {
        let allowed = found.sum == self.state.sum || self.uncertain == Some(found.sum);
        assert!(allowed, "{what}: {:?} instead of {:?}", found.sizes(), self.state.sizes());
    }

    /// A power cut after `op` calls may leave this state; gives the number of its commit.
    #[track_caller]
    pub(crate) fn assert_allowed(
        &self,
        found: &State,
        op: u64,
        mode: CrashMode,
        what: &str,
    ) -> usize {
        let kept = self.promises.iter().rfind(|promise| {
            let survives = match promise.level {
                Durability::Sync => true,
                Durability::Buffered => mode == CrashMode::KeepAll,
                Durability::None => false,
            };
            survives && promise.made_at <= op
        });
        let kept = kept.expect("what it began with is durable");
        let first = kept.commit;
        let last = self.commits.iter().rposition(|commit| commit.begun_at <= op);
        let last = last.expect("the first begins before everything");
        let holds = |commit: &Commit| commit.sum == found.sum;
        self.commits[first..=last].iter().rposition(holds).map_or_else(
            || {
                let elsewhere = self.commits.iter().rposition(holds);
                let found = found.sizes();
                panic!(
                    "{what}: {mode:?} after {op} calls left commit {elsewhere:?}, {found:?}, allowed {first}, promised \
                     as {:?} by {}, to {last}",
                    kept.level, kept.by
                )
            },
            |index| first + index,
        )
    }
}

/// What the disks hold opens and is whole; gives it.
#[track_caller]
pub(crate) fn recovered(options: &Options, machine: &SimMachine, what: &str) -> State {
    let db = open_on(machine, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = State::read(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_whole(&db);
    found
}
