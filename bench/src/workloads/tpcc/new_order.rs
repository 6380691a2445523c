//! New-Order: a customer orders five to fifteen items (clause 2.4). One in a hundred names an item that is not there
//! and is rolled back.

use super::access::{Buffers, Stop, find, read};
use super::random;
use super::rows::{Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use super::scale::{LINES, Scale};
use super::schema::{DistrictId, Tables, key};
use super::worker::{now_us, other_warehouse};
use crate::engines::api::Txn;
use fastrand::Rng;
use std::hint::black_box;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I64, U32, U64};

/// What is ordered.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    item: u32,
    supplier: u32,
    quantity: u8,
}

/// What the transaction is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewOrder {
    at: DistrictId,
    customer: u32,
    lines: u8,
    wanted: [Wanted; *LINES.end() as usize],
    /// The last item is not there.
    is_wrong: bool,
}

impl NewOrder {
    /// Of a customer of warehouse `w`.
    pub(crate) fn draw(rng: &mut Rng, scale: &Scale, at: DistrictId) -> NewOrder {
        let customer = random::customer(rng, scale);
        let lines = rng.u8(LINES);
        let mut wanted = [Wanted::default(); *LINES.end() as usize];
        for wanted in &mut wanted[..usize::from(lines)] {
            let is_remote = rng.u8(0..100) == 0;
            *wanted = Wanted {
                item: random::item(rng, scale),
                supplier: if is_remote { other_warehouse(rng, scale, at.w) } else { at.w },
                quantity: rng.u8(1..=10),
            };
        }
        let is_wrong = rng.u8(0..100) == 0;
        if is_wrong {
            wanted[usize::from(lines) - 1].item = scale.items + 1;
        }
        NewOrder { at, customer, lines, wanted, is_wrong }
    }

    /// Puts the order in, and gives its number.
    pub(crate) fn run<T, X: Txn<T>>(
        &self,
        txn: &mut X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
    ) -> Result<u32, Stop> {
        let (at, entered) = (self.at, now_us());
        let key = &mut buffers.key;
        let warehouse_tax =
            read(txn, &tables.warehouse, key.of(key::warehouse(at.w)), |row: &Warehouse| {
                row.tax.get()
            })?;
        let district_key = key.of(key::district(at));
        let mut district = read(txn, &tables.district, district_key, |row: &District| *row)?;
        let o = district.next_order.get();
        district.next_order = U32::new(o + 1);
        txn.put(&tables.district, district_key, district.as_bytes())?;
        let customer_key = key.of(key::customer(at, self.customer));
        let (discount, last, credit) =
            read(txn, &tables.customer, customer_key, |row: &Customer| {
                (row.discount.get(), row.last, row.credit)
            })?;

        let wanted = &self.wanted[..usize::from(self.lines)];
        let order = Order {
            customer: U32::new(self.customer),
            entered: U64::new(entered),
            carrier: 0,
            lines: self.lines,
            all_local: u8::from(wanted.iter().all(|wanted| wanted.supplier == at.w)),
        };
        txn.put(&tables.orders, key.of(key::order(at, o)), order.as_bytes())?;
        txn.put(&tables.new_order, key.of(key::order(at, o)), &[])?;
        let by_customer = key.of(key::order_by_customer(at, self.customer, o));
        txn.put(&tables.orders_by_customer, by_customer, &[])?;

        let mut total = 0;
        for (number, wanted) in (1..).zip(wanted) {
            let line = self.take(txn, tables, buffers, wanted)?;
            total += line.amount.get();
            let line_key = buffers.key.of(key::order_line(at, o, number));
            txn.put(&tables.order_line, line_key, line.as_bytes())?;
        }
        // In cents times ten-thousandths, twice.
        let taxed = 10_000 + i64::from(warehouse_tax) + i64::from(district.tax.get());
        let total = total * (10_000 - i64::from(discount)) / 10_000 * taxed / 10_000;
        black_box((total, last, credit));
        Ok(o)
    }

    /// Takes an item from stock.
    fn take<T, X: Txn<T>>(
        &self,
        txn: &mut X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
        wanted: &Wanted,
    ) -> Result<OrderLine, Stop> {
        let item_key = buffers.key.of(key::item(wanted.item));
        let item = find(txn, &tables.item, item_key, |row: &Item| {
            (row.price.get(), row.name, random::is_original(&row.data))
        })?;
        let Some((price, name, is_original)) = item else {
            let what = format!("item {} is not there: load the database anew", wanted.item);
            return Err(if self.is_wrong { Stop::RolledBack } else { Stop::Failed(what.into()) });
        };
        let stock_key = buffers.key.of(key::stock(wanted.supplier, wanted.item));
        let mut stock = read(txn, &tables.stock, stock_key, |row: &Stock| *row)?;
        let (had, takes) = (stock.quantity.get(), i16::from(wanted.quantity));
        let left = if had >= takes + 10 { had - takes } else { had - takes + 91 };
        stock.quantity.set(left);
        stock.ytd += u32::from(wanted.quantity);
        stock.orders += 1;
        if wanted.supplier != self.at.w {
            stock.remote_orders += 1;
        }
        txn.put(&tables.stock, stock_key, stock.as_bytes())?;
        let brand = if is_original && random::is_original(&stock.data) { b'B' } else { b'G' };
        black_box((name, brand, left));
        Ok(OrderLine {
            item: U32::new(wanted.item),
            supplier: U32::new(wanted.supplier),
            delivered: U64::ZERO,
            amount: I64::new(i64::from(price) * i64::from(wanted.quantity)),
            quantity: wanted.quantity,
            district_info: stock.districts[usize::from(self.at.d - 1)],
        })
    }
}
