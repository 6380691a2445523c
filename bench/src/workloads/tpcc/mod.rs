//! TPC-C: a wholesale supplier with warehouses, whose five transactions are run by the specification's mix.
//!
//! Not an audited run: there are no terminals, so nobody keys in, thinks, or is kept waiting, and fewer rows may be
//! loaded than the specification wants. All else is as it says: nine tables, the five transactions with all their reads
//! and writes, NURand, 1 % of New-Orders rolled back, 1 % of order lines and 15 % of payments from another warehouse,
//! 60 % of customers found by last name, and the consistency conditions. References are to revision 5.11.
//!
//! ```text
//! Tpcc     load, open, check                                   scale, load, check
//!  └ Worker     one transaction after another, again on conflict    worker
//!     ├ NewOrder   45 %   reads 23 rows, writes 24 (ten lines)      new_order
//!     ├ Payment    43 %   reads 3, writes 4                         payment
//!     ├ OrderStatus 4 %   reads 13                                  order_status
//!     ├ Delivery    4 %   reads 130, writes 130 (ten districts)     delivery
//!     └ StockLevel  4 %   reads 400                                 stock_level
//! tables, keys, rows                                           schema, rows, random
//! ```
//!
//! Transactions are generic over the two APIs of latchkv (`engines/api.rs`). They run under snapshot isolation,
//! under which this mix is serializable: whoever reads what another writes also writes a row that the other does, or
//! only reads. Each is drawn before it begins, and a retry does the same once more.
//!
//! Nothing is allocated here but by ranges: keys are made in buffers that a [`Worker`] keeps, rows lie on the stack.
//!
//! Tested by `tests.rs` on the smallest scale: each transaction leaves what it should, rolling back leaves nothing, the
//! conditions hold after all and tell of each damage.

mod access;
mod check;
mod delivery;
mod load;
mod new_order;
mod order_status;
mod payment;
mod random;
mod rows;
mod scale;
mod schema;
mod stock_level;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use check::Checked;
pub(crate) use scale::Scale;
pub(crate) use schema::{DistrictId, NAMESPACE, TREES};
pub(crate) use worker::{Done, Homes, Kind, Worker};

use crate::Fail;
use crate::engines::api::{Connection, Store};
use latchkv::{Db, Tree};
use schema::{KeyBuffer, Tables, key, worker_of_history_key};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A database with the data of the workload.
pub(crate) struct Tpcc {
    scale: Scale,
    tables: Tables<Tree>,
    /// Number of the next worker. Relaxed: numbers only have to differ.
    next_worker: AtomicU32,
}

impl Tpcc {
    /// Loads the initial data into a new store of [`TREES`]. `on_tree` is told which tree is being filled.
    pub(crate) fn load(
        store: &Store,
        scale: Scale,
        seed: u64,
        on_tree: &mut dyn FnMut(&str),
    ) -> Result<Tpcc, Fail> {
        load::load(&Tables::of(store.trees())?, scale, seed, on_tree)?;
        Tpcc::open(store, scale)
    }

    /// The data that was loaded into this store, of the scale that it was loaded with.
    pub(crate) fn open(store: &Store, scale: Scale) -> Result<Tpcc, Fail> {
        let tables = Tables::of(store.trees())?;
        let last = match tables.history.last()? {
            Some(entry) => worker_of_history_key(entry.key())?,
            None => load::LOADER,
        };
        Ok(Tpcc { scale, tables, next_worker: AtomicU32::new(last + 1) })
    }

    /// One more who works on it.
    pub(crate) fn worker<'c, C: Connection>(
        &self,
        connection: &'c C,
        homes: Homes,
    ) -> Result<Worker<'c, C>, Fail> {
        Worker::new(connection, self.scale, homes, self.next_worker.fetch_add(1, Relaxed))
    }

    /// Checks consistency conditions 1 to 4 on the state that is visible now.
    ///
    /// # Errors
    /// A condition that does not hold, with warehouse, district and both values.
    pub(crate) fn check(&self, db: &Db) -> Result<Checked, Fail> {
        check::check(db, &self.tables, self.scale)
    }

    /// Whether an order is there.
    pub(crate) fn has_order(&self, (at, o): (DistrictId, u32)) -> Result<bool, Fail> {
        Ok(self.tables.orders.contains(KeyBuffer::default().of(key::order(at, o)))?)
    }
}
