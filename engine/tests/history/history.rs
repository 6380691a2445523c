//! What is written down of a run: transactions, and what each saw.
//!
//! ```text
//! key      place : 16 | kind : 8 | number : 32       big-endian, so that bytes sort as keys do
//! value    count : 32 | values : 64 each | filler    the filler follows from key and count
//! ```
//!
//! Two kinds of keys. A *list* is appended to by anybody. An *owned* key is put and deleted by one session, whose
//! order is thus that of its versions; many of them are put only once.

use latchkv::Durability;
use std::fmt;

/// A value; each is written by one step of one transaction.
pub(crate) type Value = u64;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Values that anybody appends to.
    List,
    /// At most one value, which one session puts and deletes.
    Owned,
}

/// A key. They sort as their bytes do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) place: u16,
    pub(crate) kind: Kind,
    pub(crate) number: u32,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::List => write!(f, "list{}", self.place),
            Kind::Owned => write!(f, "own{}.{}", self.place, self.number),
        }
    }
}

impl Key {
    /// The list of a place.
    pub(crate) const fn list(place: u16) -> Key {
        Key { place, kind: Kind::List, number: 0 }
    }

    /// An owned key.
    pub(crate) const fn owned(place: u16, number: u32) -> Key {
        Key { place, kind: Kind::Owned, number }
    }

    /// The least key that is greater: the end of a range that includes this one.
    pub(crate) fn after(self) -> Key {
        Key { number: self.number + 1, ..self }
    }

    /// As the database knows it.
    pub(crate) fn bytes(self) -> [u8; 7] {
        let mut bytes = [0; 7];
        bytes[..2].copy_from_slice(&self.place.to_be_bytes());
        bytes[2] = self.kind as u8;
        bytes[3..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The key with these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Key> {
        let bytes: &[u8; 7] = bytes.try_into().ok()?;
        let kind = [Kind::List, Kind::Owned].into_iter().find(|kind| *kind as u8 == bytes[2])?;
        let place = u16::from_be_bytes([bytes[0], bytes[1]]);
        let number = u32::from_be_bytes([bytes[3], bytes[4], bytes[5], bytes[6]]);
        Some(Key { place, kind, number })
    }

    /// Bytes of filler behind the values: some records are small, some hold a good part of a page.
    fn filler_bytes(self) -> usize {
        [0, 60, 400, 1400][usize::from(self.place) % 4]
    }

    /// The value bytes that hold `values`.
    pub(crate) fn encode(self, values: &[Value]) -> Vec<u8> {
        let mut bytes = (values.len() as u32).to_le_bytes().to_vec();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let filler = self.number as u8 ^ values.len() as u8;
        bytes.resize(bytes.len() + self.filler_bytes(), filler);
        bytes
    }

    /// The values in these bytes, if nobody damaged them.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<Vec<Value>> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let values = rest.get(..8 * u32::from_le_bytes(*count) as usize)?;
        let values: Vec<Value> =
            values.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
        (self.encode(&values) == bytes).then_some(values)
    }
}

/// What a transaction did, in order. An absent key is found as no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read one key.
    Read { key: Key, found: Vec<Value> },
    /// Read all that is there from `from` up to before `to`.
    Scan { from: Key, to: Key, found: Vec<(Key, Vec<Value>)> },
    /// Put a value behind those of a list.
    Append { key: Key, value: Value },
    /// Put a value.
    Put { key: Key, value: Value },
    /// Remove a key, whether it is there or not.
    Delete { key: Key },
    /// Asked that nobody may change the key.
    Guard { key: Key },
    /// Set a savepoint.
    Mark,
    /// Went back to the last savepoint, which stays.
    Undo,
}

/// A transaction, or what counts as one: a snapshot, a batch, a call outside of transactions.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    /// Who ran it; a session runs one after the other.
    pub(crate) session: u32,
    /// Whether its reads must hold up to its commit.
    pub(crate) serializable: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) committed: bool,
    /// It reads the commits with a smaller lsn. `None`: it read nothing.
    pub(crate) reads_at: Option<u64>,
    /// That of its commit, if it wrote something and was told.
    pub(crate) lsn: Option<u64>,
    /// A time of before it began: of what had ended before that, it must know.
    pub(crate) began: u64,
    /// A time of after its end.
    pub(crate) ended: u64,
    /// It asked for a state that may be older than its beginning.
    pub(crate) stale: bool,
    pub(crate) durability: Durability,
    /// How many calls of the disks there had been when its end was known.
    pub(crate) ended_at_call: u64,
}

impl Txn {
    /// One that did nothing yet.
    pub(crate) fn new(session: u32) -> Txn {
        Txn {
            session,
            serializable: false,
            steps: Vec::new(),
            committed: false,
            reads_at: None,
            lsn: None,
            began: 0,
            ended: u64::MAX,
            stale: false,
            durability: Durability::None,
            ended_at_call: 0,
        }
    }
}

/// All transactions of a run, those of one session in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) txns: Vec<Txn>,
}

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// A value that nobody wrote, or not there.
    Garbage,
    /// A transaction does not see what it wrote itself.
    OwnWrites,
    /// A transaction reads one key twice and finds different things.
    Unrepeatable,
    /// G1a: what was never committed was read.
    AbortedRead,
    /// G1b: what a transaction itself replaced before it committed was read.
    IntermediateRead,
    /// A value appears twice in a list.
    Duplicate,
    /// Two reads of one list of which neither is the beginning of the other.
    Order,
    /// P4: a committed append is not there in the end.
    LostUpdate,
    /// G0: a cycle of writes.
    G0,
    /// G1c: a cycle of writes, and reads of what was written.
    G1c,
    /// A cycle with one anti-dependency.
    GSingle,
    /// A cycle with several anti-dependencies, no two of which follow each other.
    GNonadjacent,
    /// A cycle with anti-dependencies.
    G2,
    /// A cycle with the order of time: what had ended before another began was not known to that.
    Time,
    /// Two commits have one lsn, or a commit has one before what it read.
    Lsn,
    /// A read does not find what the commits before its lsn left.
    NotThatState,
    /// Somebody else wrote, between its state and its commit, what a transaction wrote or guarded.
    SecondCommitter,
    /// Somebody wrote, between its state and its commit, what a serializable transaction read.
    ReadsChanged,
}

/// That, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) wrong: Wrong,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(wrong: Wrong, text: impl Into<String>) -> Fault {
        Fault { wrong, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.wrong, self.text)
    }
}
