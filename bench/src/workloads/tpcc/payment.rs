//! Payment: a customer pays, which district and warehouse count (clause 2.5). Fifteen in a hundred are of customers
//! of another warehouse.

use super::access::{Buffers, Stop, Who, read};
use super::rows::{Customer, District, History, Warehouse};
use super::scale::{DISTRICTS, Scale};
use super::schema::{DistrictId, Tables, key};
use super::worker::{now_us, other_warehouse};
use crate::engines::api::Txn;
use fastrand::Rng;
use std::hint::black_box;
use std::io::Write;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{I64, U32, U64};

/// What the transaction is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    /// Where it is paid.
    at: DistrictId,
    /// Whose customer it is.
    of: DistrictId,
    who: Who,
    /// In cents.
    amount: i64,
}

impl Payment {
    /// One that is paid in a district.
    pub(crate) fn draw(rng: &mut Rng, scale: &Scale, at: DistrictId) -> Payment {
        let of = if rng.u8(0..100) < 85 {
            at
        } else {
            DistrictId { w: other_warehouse(rng, scale, at.w), d: rng.u8(1..=DISTRICTS) }
        };
        Payment { at, of, who: Who::draw(rng, scale), amount: rng.i64(100..=500_000) }
    }

    /// Pays. The row of history gets the key of `worker` and `number`, which nobody else has.
    pub(crate) fn run<T, X: Txn<T>>(
        &self,
        txn: &mut X,
        tables: &Tables<T>,
        buffers: &mut Buffers,
        (worker, number): (u32, u64),
    ) -> Result<(), Stop> {
        let Payment { at, of, amount, .. } = *self;
        let warehouse_key = buffers.key.of(key::warehouse(at.w));
        let mut warehouse = read(txn, &tables.warehouse, warehouse_key, |row: &Warehouse| *row)?;
        warehouse.ytd += amount;
        txn.put(&tables.warehouse, warehouse_key, warehouse.as_bytes())?;

        let district_key = buffers.key.of(key::district(at));
        let mut district = read(txn, &tables.district, district_key, |row: &District| *row)?;
        district.ytd += amount;
        txn.put(&tables.district, district_key, district.as_bytes())?;

        let c = self.who.number(txn, tables, buffers, of)?;
        let customer_key = buffers.key.of(key::customer(of, c));
        let mut customer = read(txn, &tables.customer, customer_key, |row: &Customer| *row)?;
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payments += 1;
        if customer.credit == Customer::BAD_CREDIT {
            self.note(&mut customer.data, c);
        }
        txn.put(&tables.customer, customer_key, customer.as_bytes())?;

        let mut data = [b' '; 24];
        data[..10].copy_from_slice(&warehouse.name);
        data[14..].copy_from_slice(&district.name);
        let history = History {
            customer: U32::new(c),
            customer_warehouse: U32::new(of.w),
            customer_district: of.d,
            district: at.d,
            warehouse: U32::new(at.w),
            date: U64::new(now_us()),
            amount: I64::new(amount),
            data,
        };
        let history_key = buffers.key.of(key::history(worker, number));
        txn.put(&tables.history, history_key, history.as_bytes())?;
        black_box((warehouse.address, district.address, customer));
        Ok(())
    }

    /// Writes the payment in front of the data of a customer of bad credit, whose end goes.
    fn note(&self, data: &mut [u8; 500], c: u32) {
        let Payment { at, of, amount, .. } = self;
        let mut note = [0_u8; 80];
        let room = note.len();
        let mut rest = &mut note[..];
        // Six numbers of at most 10, 3, 10, 3, 10 and 7 digits with blanks, which fit.
        let written = write!(rest, "{c} {} {} {} {} {amount} ", of.d, of.w, at.d, at.w);
        debug_assert!(written.is_ok());
        let len = room - rest.len();
        data.copy_within(..500 - len, len);
        data[..len].copy_from_slice(&note[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_the_largest_numbers_fits_and_shifts_what_was_there() {
        let far = DistrictId { w: u32::MAX, d: 255 };
        let payment = Payment { at: far, of: far, who: Who::Number(1), amount: 500_000 };
        let mut data = [b'x'; 500];
        payment.note(&mut data, u32::MAX);
        let note = b"4294967295 255 4294967295 255 4294967295 500000 ";
        assert!(data.starts_with(note));
        assert!(data[note.len()..].iter().all(|&byte| byte == b'x'));
    }
}
