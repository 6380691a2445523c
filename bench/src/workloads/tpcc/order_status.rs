//! Order-Status: what became of a customer's last order (clause 2.6). It only reads.

use super::access::{Buffers, Stop, Who, read};
use super::rows::{Customer, Order, OrderLine, Row};
use super::scale::Scale;
use super::schema::{DistrictId, Tables, key, order_of_customer_key};
use crate::engines::api::Txn;
use fastrand::Rng;
use std::hint::black_box;

/// What the transaction is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderStatus {
    at: DistrictId,
    who: Who,
}

impl OrderStatus {
    /// Of a customer of the district.
    pub(crate) fn draw(rng: &mut Rng, scale: &Scale, at: DistrictId) -> OrderStatus {
        OrderStatus { at, who: Who::draw(rng, scale) }
    }

    /// Looks it up. Every customer has an order: the initial data give one to each.
    pub(crate) fn run<T, X: Txn<T>>(
        &self,
        txn: &X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
    ) -> Result<(), Stop> {
        let at = self.at;
        let c = self.who.number(txn, tables, buffers, at)?;
        let Buffers { key, end, .. } = buffers;
        let customer =
            read(txn, &tables.customer, key.of(key::customer(at, c)), |row: &Customer| {
                (row.balance, row.first, row.middle, row.last)
            })?;

        let (from, to) = (
            key.of(key::order_by_customer(at, c, u32::MAX)),
            end.of(key::order_by_customer(at, c, 0)),
        );
        let latest = txn.range(&tables.orders_by_customer, from, to)?.next().transpose()?;
        let Some(latest) = latest else {
            let what = format!("customer {c} of {at:?} has no order: load the database anew");
            return Err(Stop::Failed(what.into()));
        };
        let o = order_of_customer_key(latest.key())?;
        let order = read(txn, &tables.orders, key.of(key::order(at, o)), |row: &Order| *row)?;

        let (from, to) = (key.of(key::order_line(at, o, 0)), end.of(key::order_line(at, o + 1, 0)));
        for entry in txn.range(&tables.order_line, from, to)? {
            let entry = entry?;
            let row = OrderLine::of(entry.value())?;
            black_box((row.item, row.supplier, row.quantity, row.amount, row.delivered));
        }
        black_box((customer, order.entered, order.carrier));
        Ok(())
    }
}
