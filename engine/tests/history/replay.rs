//! Checks a history against its lsns: the state of each lsn is known exactly, deletions included, so each read
//! is right or wrong.
//!
//! ```text
//! lsn       10        20        30         commits, in the one order there is
//! T         reads_at 20 -------------> 40  sees 10, not 20; fails if 20 or 30 wrote what it writes (or read)
//! ```
//!
//! Keys that somebody wrote without being told the lsn are left to the checker.

use crate::digest::{Digest, Own, digests};
use crate::history::{Fault, History, Key, Value, Wrong};
use std::collections::{BTreeMap, BTreeSet};

/// What the commits did to each key, by lsn.
pub(crate) struct Replay<'a> {
    changes: BTreeMap<Key, Vec<(u64, &'a Own)>>,
}

impl<'a> Replay<'a> {
    /// Of committed transactions; those whose lsn nobody knows change keys that are not in it.
    pub(crate) fn new(history: &History, digests: &'a [Digest]) -> Replay<'a> {
        let mut changes: BTreeMap<Key, Vec<(u64, &Own)>> = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for (txn, digest) in history.txns.iter().zip(digests).filter(|(txn, _)| txn.committed) {
            for (key, own) in &digest.writes {
                match txn.lsn {
                    Some(lsn) => changes.entry(*key).or_default().push((lsn, own)),
                    None => _ = unknown.insert(*key),
                }
            }
        }
        changes.retain(|key, _| !unknown.contains(key));
        for changes in changes.values_mut() {
            changes.sort_unstable_by_key(|(lsn, _)| *lsn);
            // Deleting what is not there changes nothing.
            let mut absent = true;
            changes.retain(|(_, own)| {
                let was_absent = absent;
                absent = matches!(own, Own::Set(None));
                !(was_absent && absent)
            });
        }
        Replay { changes }
    }

    /// The keys whose states it knows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.changes.keys().copied()
    }

    /// What the commits with a smaller lsn left in a key. `None`: that is not known.
    pub(crate) fn state(&self, key: Key, lsn: u64) -> Option<Vec<Value>> {
        let mut state = Vec::new();
        for (_, own) in self.changes.get(&key)?.iter().take_while(|(at, _)| *at < lsn) {
            match own {
                Own::Appended(values) => state.extend_from_slice(values),
                Own::Set(value) => state = value.iter().copied().collect(),
            }
        }
        Some(state)
    }

    /// The first change of a key at `from` or later, before `to`.
    fn changed(&self, key: Key, from: u64, to: u64) -> Option<u64> {
        let changes = self.changes.get(&key)?;
        changes.iter().map(|(lsn, _)| *lsn).find(|lsn| (from..to).contains(lsn))
    }
}

/// Every read, and every commit, against the lsns.
///
/// # Errors
/// The first thing found.
pub(crate) fn check(history: &History) -> Result<(), Fault> {
    let digests = digests(history)?;
    let replay = Replay::new(history, &digests);
    check_order(history)?;
    for (number, (txn, digest)) in history.txns.iter().zip(&digests).enumerate() {
        let Some(since) = txn.reads_at else { continue };
        for (key, found) in &digest.reads {
            let state = replay.state(*key, since);
            if state.as_ref().is_some_and(|state| state != found) {
                let text = format!("T{number} at {since} found {key:?} {found:x?}, not {state:x?}");
                return Err(Fault::new(Wrong::NotThatState, text));
            }
        }
        let Some(lsn) = txn.lsn.filter(|_| txn.committed) else { continue };
        for key in digest.writes.keys().chain(&digest.guards) {
            if let Some(other) = replay.changed(*key, since, lsn) {
                let text = format!("T{number} from {since} to {lsn} wrote {key:?} as {other} did");
                return Err(Fault::new(Wrong::SecondCommitter, text));
            }
        }
        for key in digest.reads.keys().filter(|_| txn.serializable) {
            if let Some(other) = replay.changed(*key, since, lsn) {
                let text = format!("T{number} from {since} to {lsn} read {key:?}, wrote {other}");
                return Err(Fault::new(Wrong::ReadsChanged, text));
            }
        }
    }
    Ok(())
}

/// Lsns are in the order of time: of reading and committing, and of ends and later beginnings.
fn check_order(history: &History) -> Result<(), Fault> {
    let mut lsns = BTreeSet::new();
    // Ends with the greatest lsn up to each: what whoever begins later must know.
    let mut ends: Vec<(u64, u64)> = Vec::new();
    for (number, txn) in history.txns.iter().enumerate() {
        let lsn = txn.lsn.filter(|_| txn.committed);
        if let Some(lsn) = lsn {
            if !lsns.insert(lsn) {
                return Err(Fault::new(Wrong::Lsn, format!("T{number} commits at {lsn}, too")));
            }
            if txn.reads_at.is_some_and(|since| since > lsn) {
                return Err(Fault::new(Wrong::Lsn, format!("T{number} reads after {lsn}")));
            }
        }
        // Whoever begins after a reader knows the state that it read, which ends before `reads_at`.
        let knows = lsn.map(|lsn| lsn + 1).max(txn.reads_at);
        ends.extend(knows.map(|knows| (txn.ended, knows)));
    }
    ends.sort_unstable();
    for index in 1..ends.len() {
        ends[index].1 = ends[index].1.max(ends[index - 1].1);
    }
    for (number, txn) in history.txns.iter().enumerate().filter(|(_, txn)| !txn.stale) {
        let before = ends.partition_point(|(end, _)| *end < txn.began);
        let Some((_, known)) = before.checked_sub(1).map(|index| ends[index]) else { continue };
        if let Some(at) = txn.reads_at.or(txn.lsn).filter(|at| *at < known) {
            let text = format!("T{number} is of {at}, and what led to {known} had ended before");
            return Err(Fault::new(Wrong::Time, text));
        }
    }
    Ok(())
}
