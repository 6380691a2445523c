//! What a database may hold after a crash.
//!
//! ```text
//!   steps    0 ---- 1 ---- 2 ---- 3 ---- 4 ---- 5         the state after each commit, in the order of the log
//!   calls         ..|......|......|......|......|..       of the disks, counted when a commit began and was acknowledged
//!                          ^ required           ^ possible
//!
//!   crash at call c, allowed:   required(c) ..= possible(c)
//! ```
//!
//! - \[O1] *Required* is the last step that was acknowledged, at the level that the crash cannot take back, by a
//!   call count that is not above that of the moment. A checkpoint, a sync and a close acknowledge all before.
//! - \[O2] *Possible* is the last step that had begun: one whose count at the beginning is below that of the moment.
//! - \[O3] States are compared whole, so half a commit is none of them.

use latchkv::io::sim::CrashMode;
use latchkv::{Db, Durability};
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A key or a value.
pub(crate) type Bytes = Arc<[u8]>;
/// What a tree holds.
pub(crate) type Content = BTreeMap<Bytes, Bytes>;

/// What a database holds. Copies share what they have in common.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Every tree by its name.
    pub(crate) trees: BTreeMap<Arc<str>, Arc<Content>>,
}

/// The hash of a state, fed in order.
#[derive(Default)]
struct Digest(Xxh3);

impl Digest {
    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u32).to_le_bytes());
        self.0.update(bytes);
    }

    fn tree(&mut self, name: &str) {
        self.0.update(b"t");
        self.part(name.as_bytes());
    }

    fn record(&mut self, key: &[u8], value: &[u8]) {
        self.0.update(b"r");
        self.part(key);
        self.part(value);
    }
}

impl State {
    /// Equal for equal states.
    pub(crate) fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for (name, content) in &self.trees {
            digest.tree(name);
            content.iter().for_each(|(key, value)| digest.record(key, value));
        }
        digest.0.digest()
    }

    /// Puts a value, or removes the key. The tree is there.
    pub(crate) fn set(&mut self, tree: &str, key: &[u8], value: Option<&Bytes>) {
        let content = self.trees.get_mut(tree).expect("the workload knows its trees");
        let content = Arc::make_mut(content);
        match value {
            Some(value) => content.insert(key.into(), Arc::clone(value)),
            None => content.remove(key),
        };
    }

    /// What a tree has for a key.
    pub(crate) fn get(&self, tree: &str, key: &[u8]) -> Option<&Bytes> {
        self.trees.get(tree)?.get(key)
    }

    /// How `other` differs, in few words.
    pub(crate) fn difference(&self, other: &State) -> String {
        let mut said = String::new();
        let names = |state: &State| state.trees.keys().cloned().collect::<Vec<_>>();
        if names(self) != names(other) {
            said += &format!("trees {:?} against {:?}; ", names(self), names(other));
        }
        for (name, mine) in &self.trees {
            let Some(theirs) = other.trees.get(name) else { continue };
            let keys = mine.keys().chain(theirs.keys()).collect::<std::collections::BTreeSet<_>>();
            let differing = keys.into_iter().filter(|key| mine.get(*key) != theirs.get(*key));
            let differing = differing.map(|key| {
                let head = |content: &Content| match content.get(key) {
                    Some(value) => {
                        format!("{} bytes {:02x?}", value.len(), &value[..value.len().min(8)])
                    }
                    None => "nothing".to_owned(),
                };
                format!("{}: {} against {}", key.escape_ascii(), head(mine), head(theirs))
            });
            let differing = differing.collect::<Vec<_>>();
            if !differing.is_empty() {
                let count = differing.len();
                said += &format!("{name}, {count} keys: {:?}; ", &differing[..count.min(4)]);
            }
        }
        said
    }
}

/// All of a database.
pub(crate) fn read(db: &Db) -> Result<State, String> {
    let mut state = State::default();
    let said = |error: latchkv::Error| format!("reading: {error}");
    for name in db.trees().map_err(said)? {
        let tree = db.open_tree(&name).map_err(said)?.ok_or("a tree without a name")?;
        let mut content = Content::new();
        for entry in tree.iter() {
            let entry = entry.map_err(said)?;
            content.insert(entry.key().into(), entry.value().into());
        }
        let len = tree.len().map_err(said)?;
        if len != content.len() as u64 {
            return Err(format!("tree {name}: counted {len} records, has {}", content.len()));
        }
        state.trees.insert(name.into(), Arc::new(content));
    }
    Ok(state)
}

/// [`State::digest`] of what [`read`] would give, without keeping it.
pub(crate) fn digest_of(db: &Db) -> Result<u64, String> {
    let mut digest = Digest::default();
    let said = |error: latchkv::Error| format!("reading: {error}");
    for name in db.trees().map_err(said)? {
        let tree = db.open_tree(&name).map_err(said)?.ok_or("a tree without a name")?;
        digest.tree(&name);
        let mut count = 0;
        let mut records = tree.iter();
        while let Some((key, value)) = records.next_borrowed().transpose().map_err(said)? {
            digest.record(key, value);
            count += 1;
        }
        let len = tree.len().map_err(said)?;
        if len != count {
            return Err(format!("tree {name}: counted {len} records, has {count}"));
        }
    }
    Ok(digest.0.digest())
}

/// A commit.
pub(crate) struct Step {
    /// What was done.
    pub(crate) what: &'static str,
    /// What the database holds after it.
    pub(crate) state: State,
    pub(crate) digest: u64,
    /// Calls of the disks when it began.
    began: u64,
}

/// Something that was acknowledged.
struct Acknowledged {
    /// Calls of the disks when it was.
    at: u64,
    /// The last step that it covers.
    step: usize,
    level: Durability,
}

/// The commits of one thread, from one opening of the database to its end. See the module head.
pub(crate) struct Oracle {
    steps: Vec<Step>,
    acknowledged: Vec<Acknowledged>,
    /// What a moment before the database was open may hold, by digest.
    before: Vec<u64>,
    /// Calls of the disks when the database was open.
    open_at: u64,
}

/// Which states a crash may leave.
pub(crate) enum Allowed<'a> {
    /// One of these, by digest.
    Digests(&'a [u64]),
    /// The state of one of these steps.
    Steps(&'a [Step]),
}

impl Oracle {
    /// For a database that holds `state`, durable, when the disks have had `open_at` calls. Before that it may hold
    /// one of `before`.
    pub(crate) fn new(state: State, open_at: u64, before: Vec<u64>) -> Oracle {
        let digest = state.digest();
        let first = Step { what: "open", state, digest, began: open_at };
        let acknowledged = vec![Acknowledged { at: open_at, step: 0, level: Durability::Sync }];
        Oracle { steps: vec![first], acknowledged, before, open_at }
    }

    /// What the database holds now.
    pub(crate) fn state(&self) -> &State {
        &self.steps.last().expect("there is a first").state
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A commit was made, whose call began at `began` calls of the disks.
    pub(crate) fn push(&mut self, what: &'static str, state: State, began: u64) {
        let digest = state.digest();
        self.steps.push(Step { what, state, digest, began });
    }

    /// Everything so far was acknowledged, at `at` calls of the disks.
    pub(crate) fn acknowledge(&mut self, level: Durability, at: u64) {
        self.acknowledge_up_to(self.steps.len() - 1, level, at);
    }

    /// As [`acknowledge`](Oracle::acknowledge), of the steps up to one.
    pub(crate) fn acknowledge_up_to(&mut self, step: usize, level: Durability, at: u64) {
        if level != Durability::None {
            self.acknowledged.push(Acknowledged { at, step, level });
        }
    }

    /// What a reader of durable commits sees is `state`, at `at` calls of the disks. If the trees themselves may have
    /// changed since what is known to be durable, that says nothing: definitions are not versioned.
    pub(crate) fn saw_durable(&mut self, state: &State, at: u64) -> bool {
        let synced = self.acknowledged.iter().filter(|ack| ack.level == Durability::Sync);
        let first = synced.map(|ack| ack.step).max().unwrap_or(0);
        let steps = &self.steps[first..];
        let definitions = ["create", "drop", "rename", "clear", "bulk load", "bulk load, in part"];
        if steps.iter().skip(1).any(|step| definitions.contains(&step.what)) {
            return true;
        }
        let found = steps.iter().position(|step| step.state == *state);
        if let Some(index) = found {
            self.acknowledge_up_to(first + index, Durability::Sync, at);
        }
        found.is_some()
    }

    /// What may be found after a crash when the disks had had `op` calls.
    pub(crate) fn allowed(&self, op: u64, mode: CrashMode, is_faulty: bool) -> Allowed<'_> {
        if op < self.open_at {
            return Allowed::Digests(&self.before);
        }
        // What the operating system had is lost with a sync that failed.
        let level = match mode {
            CrashMode::KeepAll if !is_faulty => Durability::Buffered,
            _ => Durability::Sync,
        };
        let counts = self.acknowledged.iter().filter(|ack| ack.at <= op && ack.level >= level);
        let required = counts.map(|ack| ack.step).max().unwrap_or(0);
        let possible = self.steps.iter().rposition(|step| step.began < op).unwrap_or(0);
        Allowed::Steps(&self.steps[required..=possible.max(required)])
    }
}

impl Allowed<'_> {
    /// The digest of what the database holds, if that is allowed.
    pub(crate) fn judge(&self, db: &Db) -> Result<u64, String> {
        let digest = digest_of(db)?;
        let is_allowed = match self {
            Allowed::Digests(digests) => digests.contains(&digest),
            Allowed::Steps(steps) => steps.iter().any(|step| step.digest == digest),
        };
        if is_allowed {
            return Ok(digest);
        }
        let found = read(db)?;
        match self {
            Allowed::Digests(digests) => Err(format!(
                "a state that is none of the {} of before: {} trees",
                digests.len(),
                found.trees.len()
            )),
            Allowed::Steps(steps) => {
                let (first, last) = (&steps[0], &steps[steps.len() - 1]);
                Err(format!(
                    "no state of the {} from {:?} to {:?}; first against found: {}; last against found: {}",
                    steps.len(),
                    first.what,
                    last.what,
                    first.state.difference(&found),
                    last.state.difference(&found)
                ))
            }
        }
    }
}
