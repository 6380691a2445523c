//! Stock-Level: of how many items of a district's last twenty orders the stock is low (clause 2.8). It only reads.

use super::access::{Buffers, Stop, read};
use super::rows::{District, OrderLine, Row, Stock};
use super::schema::{DistrictId, Tables, key};
use crate::engines::api::Txn;
use fastrand::Rng;
use std::hint::black_box;

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// What the transaction is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StockLevel {
    at: DistrictId,
    threshold: i16,
}

impl StockLevel {
    /// Of a district.
    pub(crate) fn draw(rng: &mut Rng, at: DistrictId) -> StockLevel {
        StockLevel { at, threshold: rng.i16(10..=20) }
    }

    /// Counts the items.
    pub(crate) fn run<T, X: Txn<T>>(
        &self,
        txn: &X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
    ) -> Result<(), Stop> {
        let at = self.at;
        let Buffers { key, end, numbers, .. } = buffers;
        let next = read(txn, &tables.district, key.of(key::district(at)), |row: &District| {
            row.next_order.get()
        })?;
        let (from, to) = (
            key.of(key::order_line(at, next.saturating_sub(ORDERS), 0)),
            end.of(key::order_line(at, next, 0)),
        );
        numbers.clear();
        for entry in txn.range(&tables.order_line, from, to)? {
            numbers.push(OrderLine::of(entry?.value())?.item.get());
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut low = 0;
        for &i in &*numbers {
            let quantity = read(txn, &tables.stock, key.of(key::stock(at.w, i)), |row: &Stock| {
                row.quantity.get()
            })?;
            low += u32::from(quantity < self.threshold);
        }
        black_box(low);
        Ok(())
    }
}
