//! Reading and finding rows within a transaction, and why one stops before its end.

use super::random::{self, LastName};
use super::rows::{OrderLine, Row, WrongLength};
use super::scale::Scale;
use super::schema::{DistrictId, KeyBuffer, Tables, customer_of_name_key, key};
use crate::Fail;
use crate::engines::api::Txn;
use fastrand::Rng;
use latchkv::encode::DecodeError;

/// Why a transaction did not commit.
pub(crate) enum Stop {
    /// Somebody else was first: it is to be run again.
    Conflict,
    /// It is one of those that are to be rolled back.
    RolledBack,
    /// What the run ends with.
    Failed(Fail),
}

impl From<latchkv::Error> for Stop {
    fn from(error: latchkv::Error) -> Stop {
        match error {
            latchkv::Error::Conflict { .. } => Stop::Conflict,
            error => Stop::Failed(error.into()),
        }
    }
}

impl From<WrongLength> for Stop {
    fn from(error: WrongLength) -> Stop {
        Stop::Failed(error.into())
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Stop {
        Stop::Failed(format!("a key is none of its tree: {error}").into())
    }
}

/// Memory that a worker uses for one transaction after another.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) key: KeyBuffer,
    /// The other end of a range.
    pub(crate) end: KeyBuffer,
    /// Customers or items.
    pub(crate) numbers: Vec<u32>,
    /// Order lines with their numbers.
    pub(crate) lines: Vec<(u8, OrderLine)>,
}

/// What `f` takes of a row, if there is one.
#[inline]
pub(crate) fn find<T, X: Txn<T>, R: Row, V>(
    txn: &X,
    tree: &T,
    key: &[u8],
    f: impl FnOnce(&R) -> V,
) -> Result<Option<V>, Stop> {
    match txn.get_with(tree, key, |bytes| R::of(bytes).map(f))? {
        Some(found) => Ok(Some(found?)),
        None => Ok(None),
    }
}

/// What `f` takes of a row that must be there.
#[inline]
pub(crate) fn read<T, X: Txn<T>, R: Row, V>(
    txn: &X,
    tree: &T,
    key: &[u8],
    f: impl FnOnce(&R) -> V,
) -> Result<V, Stop> {
    find(txn, tree, key, f)?.ok_or_else(|| missing(R::TABLE, key))
}

/// A row that must be there is not.
#[cold]
fn missing(table: &str, key: &[u8]) -> Stop {
    let key = key.escape_ascii();
    Stop::Failed(format!("there is no row of {table} under {key}: load the database anew").into())
}

/// Of the customers of a last name, by first name, the one in the middle (clause 2.5.2.2).
pub(crate) fn customer_by_name<T, X: Txn<T>>(
    txn: &X,
    tables: &Tables<T>,
    buffers: &mut Buffers,
    at: DistrictId,
    last: &LastName,
) -> Result<u32, Stop> {
    let Buffers { key, end, numbers, .. } = buffers;
    let from = key.of(key::of_last_name(at, last));
    let to = end.of(key::behind_last_name(at, last));
    numbers.clear();
    for entry in txn.range(&tables.customer_by_name, from, to)? {
        numbers.push(customer_of_name_key(entry?.key())?);
    }
    let middle = numbers.len().saturating_sub(1) / 2;
    numbers.get(middle).copied().ok_or_else(|| missing("customer_by_name", from))
}

/// Which customer it is: by number or by last name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Number(u32),
    Name(LastName),
}

impl Who {
    /// Six in ten are looked for by name (clauses 2.5.1.2 and 2.6.1.2).
    pub(crate) fn draw(rng: &mut Rng, scale: &Scale) -> Who {
        if rng.u8(0..100) < 60 {
            Who::Name(random::last_name(random::last_name_to_find(rng, scale)))
        } else {
            Who::Number(random::customer(rng, scale))
        }
    }

    /// The customer's number.
    pub(crate) fn number<T, X: Txn<T>>(
        &self,
        txn: &X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
        at: DistrictId,
    ) -> Result<u32, Stop> {
        match self {
            Who::Number(c) => Ok(*c),
            Who::Name(last) => customer_by_name(txn, tables, buffers, at, last),
        }
    }
}
