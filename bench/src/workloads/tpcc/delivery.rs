//! Delivery: the oldest new order of each district of a warehouse is delivered (clause 2.7), all ten in one
//! transaction. A district without new orders is left out.

use super::access::{Buffers, Stop, read};
use super::rows::{Customer, Order, OrderLine, Row};
use super::scale::DISTRICTS;
use super::schema::{DistrictId, Tables, key, line_of_key, order_of_key};
use super::worker::now_us;
use crate::engines::api::Txn;
use fastrand::Rng;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// What the transaction is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    w: u32,
    carrier: u8,
}

impl Delivery {
    /// Of a warehouse.
    pub(crate) fn draw(rng: &mut Rng, w: u32) -> Delivery {
        Delivery { w, carrier: rng.u8(1..=10) }
    }

    /// Delivers.
    pub(crate) fn run<T, X: Txn<T>>(
        &self,
        txn: &mut X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
    ) -> Result<(), Stop> {
        let date = U64::new(now_us());
        (1..=DISTRICTS).try_for_each(|d| {
            self.deliver_in(txn, tables, buffers, DistrictId { w: self.w, d }, date)
        })
    }

    fn deliver_in<T, X: Txn<T>>(
        &self,
        txn: &mut X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
        at: DistrictId,
        date: U64,
    ) -> Result<(), Stop> {
        let Buffers { key, end, lines, .. } = buffers;
        let (from, to) = (key.of(key::order(at, 0)), end.of(key::order(at, u32::MAX)));
        let oldest = txn.range(&tables.new_order, from, to)?.next().transpose()?;
        let Some(oldest) = oldest else { return Ok(()) };
        let (_, o) = order_of_key(oldest.key())?;
        txn.delete(&tables.new_order, oldest.key())?;

        let order_key = key.of(key::order(at, o));
        let mut order = read(txn, &tables.orders, order_key, |row: &Order| *row)?;
        order.carrier = self.carrier;
        txn.put(&tables.orders, order_key, order.as_bytes())?;

        // A range borrows the transaction, so nothing can be put while it lives.
        lines.clear();
        let (from, to) = (key.of(key::order_line(at, o, 0)), end.of(key::order_line(at, o + 1, 0)));
        for entry in txn.range(&tables.order_line, from, to)? {
            let entry = entry?;
            let (_, number) = line_of_key(entry.key())?;
            lines.push((number, *OrderLine::of(entry.value())?));
        }
        let mut amount = 0;
        for (number, line) in lines {
            amount += line.amount.get();
            line.delivered = date;
            let line_key = key.of(key::order_line(at, o, *number));
            txn.put(&tables.order_line, line_key, line.as_bytes())?;
        }

        let customer_key = key.of(key::customer(at, order.customer.get()));
        let mut customer = read(txn, &tables.customer, customer_key, |row: &Customer| *row)?;
        customer.balance += amount;
        customer.deliveries += 1;
        txn.put(&tables.customer, customer_key, customer.as_bytes())?;
        Ok(())
    }
}
