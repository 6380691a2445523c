//! The rows: fixed layouts without padding, numbers little-endian at any address, texts in fixed room with zeros
//! behind. So a field is read where it lies, and a row is changed by copying its bytes and storing into a few.
//!
//! Money is in cents, taxes and discounts in ten-thousandths: sums are exact, so conditions compare to the cent. Times
//! are microseconds since 1970; 0 means never.

use std::fmt;
use zerocopy::little_endian::{I16, I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A row of a table.
pub(crate) trait Row:
    FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned + Copy
{
    /// Its table.
    const TABLE: &'static str;

    /// The row that these bytes are.
    fn of(bytes: &[u8]) -> Result<&Self, WrongLength> {
        Self::ref_from_bytes(bytes).map_err(|_| WrongLength {
            table: Self::TABLE,
            bytes: bytes.len(),
            expected: size_of::<Self>(),
        })
    }
}

/// A value is no row of its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrongLength {
    table: &'static str,
    bytes: usize,
    expected: usize,
}

impl fmt::Display for WrongLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongLength { table, bytes, expected } = self;
        write!(f, "a row of {table} has {bytes} bytes, not {expected}: load the database anew")
    }
}

impl std::error::Error for WrongLength {}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident in $table:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name { $($(#[$field_doc])* pub(crate) $field: $type,)* }

        impl Row for $name {
            const TABLE: &'static str = $table;
        }
    )*};
}

/// An address.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Address {
    pub(crate) streets: [[u8; 20]; 2],
    pub(crate) city: [u8; 20],
    pub(crate) state: [u8; 2],
    pub(crate) zip: [u8; 9],
}

rows! {
    /// A warehouse.
    Warehouse in "warehouse" {
        tax: U32,
        /// Payments to it so far.
        ytd: I64,
        name: [u8; 10],
        address: Address,
    }

    /// A district.
    District in "district" {
        tax: U32,
        /// Payments to it so far.
        ytd: I64,
        /// Number of the next order.
        next_order: U32,
        name: [u8; 10],
        address: Address,
    }

    /// A customer.
    Customer in "customer" {
        balance: I64,
        ytd_payment: I64,
        payments: U32,
        deliveries: U32,
        discount: U32,
        credit_limit: I64,
        since: U64,
        /// "GC" or "BC".
        credit: [u8; 2],
        first: [u8; 16],
        middle: [u8; 2],
        last: [u8; 16],
        address: Address,
        phone: [u8; 16],
        data: [u8; 500],
    }

    /// A payment.
    History in "history" {
        customer: U32,
        customer_warehouse: U32,
        customer_district: u8,
        district: u8,
        warehouse: U32,
        date: U64,
        amount: I64,
        data: [u8; 24],
    }

    /// An order.
    Order in "orders" {
        customer: U32,
        entered: U64,
        /// 0 until it is delivered.
        carrier: u8,
        lines: u8,
        all_local: u8,
    }

    /// A line of an order.
    OrderLine in "order_line" {
        item: U32,
        supplier: U32,
        delivered: U64,
        amount: I64,
        quantity: u8,
        district_info: [u8; 24],
    }

    /// An item.
    Item in "item" {
        image: U32,
        price: U32,
        name: [u8; 24],
        data: [u8; 50],
    }

    /// An item in a warehouse.
    Stock in "stock" {
        quantity: I16,
        ytd: U32,
        orders: U32,
        remote_orders: U32,
        districts: [[u8; 24]; 10],
        data: [u8; 50],
    }
}

impl Customer {
    /// Credit of those whose payments are noted in their data.
    pub(crate) const BAD_CREDIT: [u8; 2] = *b"BC";
    /// Credit of the others.
    pub(crate) const GOOD_CREDIT: [u8; 2] = *b"GC";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_no_padding_and_about_the_bytes_of_the_specification() {
        let sizes = [
            (size_of::<Warehouse>(), 89),
            (size_of::<District>(), 95),
            (size_of::<Customer>(), 655),
            (size_of::<History>(), 46),
            (size_of::<Order>(), 24),
            (size_of::<OrderLine>(), 54),
            (size_of::<Item>(), 82),
            (size_of::<Stock>(), 306),
        ];
        for (ours, specified) in sizes {
            // Keys are no part of these, and numbers take what they need.
            assert!(ours.abs_diff(specified) <= 20, "{ours} bytes, specified are {specified}");
        }
    }

    #[test]
    fn bytes_of_another_length_are_no_row() {
        assert!(Order::of(&[0; size_of::<Order>()]).is_ok());
        let error = Order::of(&[0; 3]).err().expect("an error");
        assert!(error.to_string().contains("orders has 3 bytes, not 15"), "{error}");
    }
}
