//! A transaction seen from outside: what it read of others, and what it left.

use crate::history::{Fault, History, Key, Kind, Step, Txn, Value, Wrong};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction itself wrote to a key so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Behind what the list held.
    Appended(Vec<Value>),
    /// In place of what was there; `None` for a deletion.
    Set(Option<Value>),
}

/// A transaction from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    /// What it found, without its own writes. Each key once.
    pub(crate) reads: BTreeMap<Key, Vec<Value>>,
    /// What it wrote in the end.
    pub(crate) writes: BTreeMap<Key, Own>,
    /// What it asked to be left alone.
    pub(crate) guards: BTreeSet<Key>,
    /// What it wrote and took back.
    pub(crate) undone: Vec<Value>,
    /// What it wrote and replaced.
    pub(crate) replaced: Vec<Value>,
}

impl Digest {
    fn read(&mut self, key: Key, found: &[Value]) -> Result<(), Fault> {
        let base = match self.writes.get(&key) {
            None => found,
            Some(Own::Appended(own)) => found.strip_suffix(own.as_slice()).ok_or_else(|| {
                Fault::new(Wrong::OwnWrites, format!("{key:?} is {found:?}, appended {own:?}"))
            })?,
            Some(Own::Set(own)) if own.as_slice() == found => return Ok(()),
            Some(Own::Set(own)) => {
                let text = format!("{key:?} is {found:?}, written {own:?}");
                return Err(Fault::new(Wrong::OwnWrites, text));
            }
        };
        let first = self.reads.entry(key).or_insert_with(|| base.to_vec());
        if first != base {
            let text = format!("{key:?} is {first:?}, then {base:?}");
            return Err(Fault::new(Wrong::Unrepeatable, text));
        }
        Ok(())
    }

    fn set(&mut self, key: Key, value: Option<Value>) {
        if let Some(Own::Set(Some(before))) = self.writes.insert(key, Own::Set(value)) {
            self.replaced.push(before);
        }
    }
}

/// All keys that any transaction wrote, or read.
pub(crate) fn universe(history: &History) -> BTreeSet<Key> {
    let steps = history.txns.iter().flat_map(|txn| &txn.steps);
    let keys = steps.flat_map(|step| match step {
        Step::Read { key, .. }
        | Step::Append { key, .. }
        | Step::Put { key, .. }
        | Step::Delete { key }
        | Step::Guard { key } => vec![*key],
        Step::Scan { found, .. } => found.iter().map(|(key, _)| *key).collect(),
        Step::Mark | Step::Undo => vec![],
    });
    keys.collect()
}

/// The values that `writes` hold.
pub(crate) fn values(writes: &BTreeMap<Key, Own>) -> impl Iterator<Item = Value> {
    writes
        .values()
        .flat_map(|own| match own {
            Own::Appended(values) => values.as_slice(),
            Own::Set(value) => value.as_slice(),
        })
        .copied()
}

/// The transaction from outside; `universe` are the keys that a scan may have found absent.
///
/// # Errors
/// Its own writes are not seen, or its reads contradict each other.
pub(crate) fn digest(txn: &Txn, universe: &BTreeSet<Key>) -> Result<Digest, Fault> {
    let mut digest = Digest::default();
    let mut mark = None;
    for step in &txn.steps {
        match step {
            Step::Read { key, found } => digest.read(*key, found)?,
            Step::Scan { from, to, found } => {
                if !found.is_sorted_by(|a, b| a.0 < b.0) {
                    return Err(Fault::new(Wrong::Garbage, format!("unsorted: {found:?}")));
                }
                let mut there = found.iter().peekable();
                for key in universe.range(*from..*to) {
                    let values = there.next_if(|(found, _)| found == key);
                    digest.read(*key, values.map_or(&[], |(_, values)| values.as_slice()))?;
                }
                if let Some(left) = there.next() {
                    let text = format!("{left:?} in a scan from {from:?} to {to:?}");
                    return Err(Fault::new(Wrong::Garbage, text));
                }
            }
            Step::Append { key, value } => {
                let own = digest.writes.entry(*key).or_insert_with(|| Own::Appended(Vec::new()));
                match own {
                    Own::Appended(values) => values.push(*value),
                    Own::Set(_) => unreachable!("{key:?} is a list"),
                }
            }
            Step::Put { key, value } => digest.set(*key, Some(*value)),
            Step::Delete { key } => digest.set(*key, None),
            Step::Guard { key } => {
                digest.guards.insert(*key);
            }
            Step::Mark => mark = Some((digest.writes.clone(), digest.guards.clone())),
            Step::Undo => {
                let (writes, guards) = mark.clone().expect("a savepoint before the rollback");
                let kept: BTreeSet<Value> = values(&writes).collect();
                let undone = values(&digest.writes).filter(|value| !kept.contains(value));
                digest.undone.extend(undone.collect::<Vec<_>>());
                // What was replaced since then is undone too, or stands again.
                digest.replaced.retain(|value| !kept.contains(value));
                (digest.writes, digest.guards) = (writes, guards);
            }
        }
    }
    debug_assert!(
        digest
            .writes
            .iter()
            .all(|(key, own)| { matches!(own, Own::Appended(_)) == (key.kind == Kind::List) })
    );
    Ok(digest)
}

/// All transactions from outside.
///
/// # Errors
/// Those of [`digest`], with the number of the transaction.
pub(crate) fn digests(history: &History) -> Result<Vec<Digest>, Fault> {
    let universe = universe(history);
    let all = history.txns.iter().enumerate().map(|(number, txn)| {
        digest(txn, &universe).map_err(|fault| {
            let text = format!("T{number} ({txn:?}): {}", fault.text);
            Fault::new(fault.wrong, text)
        })
    });
    all.collect()
}
