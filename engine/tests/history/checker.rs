//! Finds what is wrong with a history from the values alone, without lsns: as Elle does for lists.
//!
//! ```text
//! reads of a list    [3]  [3 8]  [3 8 9 4]      the longest is the order of its versions
//! written by          A      B    C   C
//! edges              A -ww-> B -ww-> C          who found [3 8]: B -wr-> it -rw-> C
//! ```
//!
//! The versions of an owned key are in the order of its owner's commits. A read that finds nothing says which
//! version it saw only if the key was never deleted; else no edge follows from it (the replay knows).

use crate::digest::{Digest, Own, digests, values};
use crate::graph::{Graph, Why};
use crate::history::{Fault, History, Key, Kind, Value, Wrong};
use std::collections::{BTreeMap, HashMap};

/// Who wrote a value, and what became of it.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Committed(usize),
    Replaced(usize),
    Undone(usize),
    Aborted(usize),
}

/// The versions of one key.
#[derive(Default)]
struct Versions {
    /// Who wrote version 1, 2, ...; version 0 is the absent key.
    writers: Vec<usize>,
    /// The values that version 1, 2, ... added (a list) or is (an owned key, `None` if it was deleted).
    values: Vec<Option<Value>>,
}

/// Looks for everything that the level forbids; `serializable`: all transactions of the history are.
///
/// # Errors
/// The first thing found.
pub(crate) fn check(history: &History, serializable: bool) -> Result<(), Fault> {
    let digests = digests(history)?;
    let fates = fates(history, &digests)?;
    let versions = versions(history, &digests, &fates)?;
    // What came to nothing counts too: as if it had only read.
    let mut graph = Graph::new(&history.txns);
    for versions in versions.values() {
        for pair in versions.writers.windows(2) {
            graph.add(pair[0], pair[1], Why::Ww);
        }
    }
    let none = Versions::default();
    for (number, digest) in digests.iter().enumerate() {
        for (key, found) in &digest.reads {
            let versions = versions.get(key).unwrap_or(&none);
            let Some(version) = version_of(number, *key, found, versions, &fates)? else {
                continue;
            };
            if version > 0 {
                graph.add(versions.writers[version - 1], number, Why::Wr);
            }
            if let Some(next) = versions.writers.get(version) {
                graph.add(number, *next, Why::Rw);
            }
        }
    }
    match graph.forbidden(serializable) {
        None => Ok(()),
        Some((wrong, text)) => Err(Fault::new(wrong, text)),
    }
}

fn fates(history: &History, digests: &[Digest]) -> Result<HashMap<Value, Fate>, Fault> {
    let mut fates = HashMap::new();
    for (number, (txn, digest)) in history.txns.iter().zip(digests).enumerate() {
        let whole = if txn.committed { Fate::Committed(number) } else { Fate::Aborted(number) };
        let kept = values(&digest.writes).map(|value| (value, whole));
        let undone = digest.undone.iter().map(|value| (*value, Fate::Undone(number)));
        let replaced = digest.replaced.iter().map(|value| {
            (*value, if txn.committed { Fate::Replaced(number) } else { Fate::Aborted(number) })
        });
        for (value, fate) in undone.chain(replaced).chain(kept) {
            if fates.insert(value, fate).is_some() {
                return Err(Fault::new(Wrong::Garbage, format!("{value:x} was written twice")));
            }
        }
    }
    Ok(fates)
}

/// A value that was read can be one that was there only if a committed transaction left it.
fn writer_of(
    reader: usize,
    key: Key,
    value: Value,
    fates: &HashMap<Value, Fate>,
) -> Result<usize, Fault> {
    let (wrong, text) = match fates.get(&value) {
        Some(Fate::Committed(writer)) => return Ok(*writer),
        Some(Fate::Replaced(writer)) => (Wrong::IntermediateRead, format!("T{writer} replaced")),
        Some(Fate::Undone(writer)) => (Wrong::AbortedRead, format!("T{writer} took back")),
        Some(Fate::Aborted(writer)) => (Wrong::AbortedRead, format!("aborted T{writer} wrote")),
        None => (Wrong::Garbage, "nobody wrote".to_owned()),
    };
    Err(Fault::new(wrong, format!("T{reader} read in {key:?} {value:x}, which {text}")))
}

fn versions(
    history: &History,
    digests: &[Digest],
    fates: &HashMap<Value, Fate>,
) -> Result<BTreeMap<Key, Versions>, Fault> {
    let mut longest: BTreeMap<Key, (usize, &[Value])> = BTreeMap::new();
    for (number, digest) in digests.iter().enumerate() {
        for (key, found) in digest.reads.iter().filter(|(key, _)| key.kind == Kind::List) {
            let (other, long) = longest.entry(*key).or_insert((number, found));
            let (short, new) = if long.len() < found.len() {
                (std::mem::replace(long, found), true)
            } else {
                (found.as_slice(), false)
            };
            if !long.starts_with(short) {
                let text = format!("{key:?} is {long:x?} and {short:x?} to T{number} and T{other}");
                return Err(Fault::new(Wrong::Order, text));
            }
            if new {
                *other = number;
            }
        }
    }
    let mut all: BTreeMap<Key, Versions> = BTreeMap::new();
    for (key, (reader, list)) in longest {
        let versions = all.entry(key).or_default();
        for value in list {
            versions.writers.push(writer_of(reader, key, *value, fates)?);
            versions.values.push(Some(*value));
        }
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Fault::new(Wrong::Duplicate, format!("{key:?} is {list:x?}")));
        }
    }
    // Sessions run one transaction after the other, and the history has them in that order.
    for (number, (txn, digest)) in history.txns.iter().zip(digests).enumerate() {
        if !txn.committed {
            continue;
        }
        for (key, own) in &digest.writes {
            let versions = all.entry(*key).or_default();
            match own {
                Own::Set(value) => {
                    let before = versions.writers.last().map(|last| history.txns[*last].session);
                    assert!(
                        before.is_none_or(|owner| owner == txn.session),
                        "{key:?} has two owners"
                    );
                    versions.writers.push(number);
                    versions.values.push(*value);
                }
                Own::Appended(appended) => {
                    let lost =
                        appended.iter().find(|value| !versions.values.contains(&Some(**value)));
                    if let Some(value) = lost {
                        let text = format!("{value:x}, which T{number} appended to {key:?}");
                        return Err(Fault::new(Wrong::LostUpdate, text));
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The version that a read found. `None`: it may be one of several.
fn version_of(
    reader: usize,
    key: Key,
    found: &[Value],
    versions: &Versions,
    fates: &HashMap<Value, Fate>,
) -> Result<Option<usize>, Fault> {
    if key.kind == Kind::List {
        // A beginning of the longest, which was looked at above.
        let version = found.len();
        let last = version.checked_sub(1).map(|index| versions.writers[index]);
        if let (Some(last), Some(next)) = (last, versions.writers.get(version))
            && last == *next
            && last != reader
        {
            let text = format!("T{reader} read {key:?} in the middle of T{last}'s appends");
            return Err(Fault::new(Wrong::IntermediateRead, text));
        }
        return Ok(Some(version));
    }
    match found {
        [] if versions.values.contains(&None) => Ok(None),
        [] => Ok(Some(0)),
        [value] => {
            writer_of(reader, key, *value, fates)?;
            match versions.values.iter().position(|version| *version == Some(*value)) {
                Some(index) => Ok(Some(index + 1)),
                None => {
                    let text = format!("T{reader} read {value:x} in {key:?}, which is not its key");
                    Err(Fault::new(Wrong::Garbage, text))
                }
            }
        }
        several => {
            let text = format!("T{reader} read {several:x?} in {key:?}");
            Err(Fault::new(Wrong::Garbage, text))
        }
    }
}
