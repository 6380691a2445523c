//! What a store has to do for YCSB, and latchkv doing it.

use super::record::{Shape, key};
use crate::Fail;
use crate::data::Key;
use crate::engines::api::{Connection, Txn};
use std::cell::RefCell;

/// The tree of the records.
pub(crate) const TREES: [&str; 1] = ["usertable"];

/// The operations of a store, for one thread.
pub(crate) trait Store {
    /// Hands the value of `key` to `f`. False: there is none.
    fn read(&self, key: &Key, f: &mut dyn FnMut(&[u8])) -> Result<bool, Fail>;

    /// Has `change` change the value of `key`, so that no other update is lost. False: there is none.
    fn update(&self, key: &Key, change: &mut dyn FnMut(&mut [u8])) -> Result<bool, Fail>;

    /// Puts a new record.
    fn insert(&self, key: &Key, value: &[u8]) -> Result<(), Fail>;

    /// Hands up to `take` records from `first` on to `f`.
    fn scan(&self, first: &Key, take: usize, f: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Fail>;
}

/// latchkv, by a connection to a store of [`TREES`].
pub(crate) struct Connected<'c, C: Connection> {
    connection: &'c C,
    /// The value of an update on its way.
    value: RefCell<Vec<u8>>,
}

impl<'c, C: Connection> Connected<'c, C> {
    pub(crate) fn new(connection: &'c C) -> Connected<'c, C> {
        Connected { connection, value: RefCell::default() }
    }

    fn tree(&self) -> &'c C::Tree {
        &self.connection.trees()[0]
    }
}

impl<C: Connection> Store for Connected<'_, C> {
    fn read(&self, key: &Key, f: &mut dyn FnMut(&[u8])) -> Result<bool, Fail> {
        Ok(self.connection.get_with(self.tree(), key, f)?.is_some())
    }

    fn update(&self, key: &Key, change: &mut dyn FnMut(&mut [u8])) -> Result<bool, Fail> {
        let mut copy = self.value.borrow_mut();
        let updated = self.connection.transact(|txn| {
            let found = txn.get_with(self.tree(), key, |value| {
                copy.clear();
                copy.extend_from_slice(value);
            })?;
            if found.is_some() {
                change(&mut copy);
                txn.put(self.tree(), key, &copy)?;
            }
            Ok(found.is_some())
        });
        Ok(updated?)
    }

    fn insert(&self, key: &Key, value: &[u8]) -> Result<(), Fail> {
        if self.connection.insert(self.tree(), key, value)? {
            return Ok(());
        }
        Err(format!("record {} is there already", key.escape_ascii()).into())
    }

    fn scan(&self, first: &Key, take: usize, f: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Fail> {
        Ok(self.connection.scan(self.tree(), first, take, f)?)
    }
}

/// Puts `records` records in place of what is in the tree.
pub(crate) fn load(
    store: &crate::engines::api::Store,
    records: u64,
    shape: Shape,
    seed: u64,
) -> Result<(), Fail> {
    let tree = &store.trees()[0];
    let mut keys: Vec<Key> = (0..records).map(key).collect();
    keys.sort_unstable();
    let mut random = fastrand::Rng::with_seed(seed);
    tree.clear()?;
    tree.bulk_load(keys.into_iter().map(|key| {
        let mut value = Vec::new();
        shape.fill(&mut value, &mut random);
        (key, value)
    }))?;
    Ok(())
}
