//! Nine tables and two indexes, each a tree, and the keys of their records.
//!
//! ```text
//! tree                key                                            value
//! warehouse           w                                              Warehouse
//! district            w d                                            District
//! customer            w d c                                          Customer
//! customer_by_name    w d last-name first-name c                     nothing
//! history             worker number                                  History
//! new_order           w d o                                          nothing
//! orders              w d o                                          Order
//! orders_by_customer  w d c Reverse(o)                               nothing: the latest comes first
//! order_line          w d o number                                   OrderLine
//! item                i                                              Item
//! stock               w i                                            Stock
//! ```
//!
//! Keys are made by `latchkv::encode`, so they sort as these numbers and names do. The specification gives history no
//! key; ours says who wrote the row and which of his it is.

use super::random::{LastName, trimmed};
use crate::Fail;
use latchkv::encode::{DecodeError, KeyEncode, Reverse, decode};

/// A tree for each table and index; `T` is an open tree of one API or the other.
#[derive(Clone, Debug)]
pub(crate) struct Tables<T> {
    pub(crate) warehouse: T,
    pub(crate) district: T,
    pub(crate) customer: T,
    pub(crate) customer_by_name: T,
    pub(crate) history: T,
    pub(crate) new_order: T,
    pub(crate) orders: T,
    pub(crate) orders_by_customer: T,
    pub(crate) order_line: T,
    pub(crate) item: T,
    pub(crate) stock: T,
}

/// The namespace of the trees.
pub(crate) const NAMESPACE: &str = "tpcc";

/// The trees, in the order of [`Tables`].
pub(crate) const TREES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "customer_by_name",
    "history",
    "new_order",
    "orders",
    "orders_by_customer",
    "order_line",
    "item",
    "stock",
];

impl<T> Tables<T> {
    /// The trees of a store of [`TREES`].
    pub(crate) fn of(trees: &[T]) -> Result<Tables<T>, Fail>
    where
        T: Clone,
    {
        let [
            warehouse,
            district,
            customer,
            customer_by_name,
            history,
            new_order,
            orders,
            orders_by_customer,
            order_line,
            item,
            stock,
        ] = <[T; TREES.len()]>::try_from(trees.to_vec())
            .map_err(|_| "the store has other trees than those of the workload")?;
        Ok(Tables {
            warehouse,
            district,
            customer,
            customer_by_name,
            history,
            new_order,
            orders,
            orders_by_customer,
            order_line,
            item,
            stock,
        })
    }
}

/// A district.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DistrictId {
    /// Its warehouse, from 1.
    pub(crate) w: u32,
    /// Its number there, from 1.
    pub(crate) d: u8,
}

/// Memory that keys are made in, one after the other.
#[derive(Debug, Default)]
pub(crate) struct KeyBuffer(Vec<u8>);

impl KeyBuffer {
    /// The bytes of a key, until the next is made.
    #[inline]
    pub(crate) fn of(&mut self, key: impl KeyEncode) -> &[u8] {
        self.0.clear();
        key.encode_into(&mut self.0);
        &self.0
    }
}

/// The keys, by their trees.
pub(crate) mod key {
    use super::{DistrictId, KeyEncode, LastName, Reverse, trimmed};

    pub(crate) fn warehouse(w: u32) -> impl KeyEncode {
        (w,)
    }

    pub(crate) fn district(at: DistrictId) -> impl KeyEncode {
        (at.w, at.d)
    }

    pub(crate) fn customer(at: DistrictId, c: u32) -> impl KeyEncode {
        (at.w, at.d, c)
    }

    /// Where the customers of a last name begin; it is a prefix of their keys.
    pub(crate) fn of_last_name(at: DistrictId, last: &LastName) -> impl KeyEncode {
        (at.w, at.d, trimmed(last))
    }

    /// What comes behind all customers of a last name. The bytes of a name end with two zeros; this is what they
    /// would be if the second were one.
    pub(crate) fn behind_last_name(at: DistrictId, last: &LastName) -> impl KeyEncode {
        struct Behind<'a>(u32, u8, &'a [u8]);
        impl KeyEncode for Behind<'_> {
            fn encode_into(&self, out: &mut Vec<u8>) {
                (self.0, self.1, self.2).encode_into(out);
                if let Some(end) = out.last_mut() {
                    *end = 1;
                }
            }
        }
        Behind(at.w, at.d, trimmed(last))
    }

    pub(crate) fn customer_by_name<'a>(
        at: DistrictId,
        last: &'a LastName,
        first: &'a [u8; 16],
        c: u32,
    ) -> impl KeyEncode + use<'a> {
        (at.w, at.d, trimmed(last), trimmed(first), c)
    }

    pub(crate) fn history(worker: u32, number: u64) -> impl KeyEncode {
        (worker, number)
    }

    /// Of an order, also where it is new.
    pub(crate) fn order(at: DistrictId, o: u32) -> impl KeyEncode {
        (at.w, at.d, o)
    }

    pub(crate) fn order_by_customer(at: DistrictId, c: u32, o: u32) -> impl KeyEncode {
        (at.w, at.d, c, Reverse(o))
    }

    pub(crate) fn order_line(at: DistrictId, o: u32, number: u8) -> impl KeyEncode {
        (at.w, at.d, o, number)
    }

    pub(crate) fn item(i: u32) -> impl KeyEncode {
        (i,)
    }

    pub(crate) fn stock(w: u32, i: u32) -> impl KeyEncode {
        (w, i)
    }
}

/// The customer that a key of the index by name ends with.
pub(crate) fn customer_of_name_key(key: &[u8]) -> Result<u32, DecodeError> {
    let at = key.len().saturating_sub(4);
    decode::<u32>(&key[at..]).map_err(|error| error.after(at))
}

/// District and number of an order that a key of orders, or of new orders, stands for.
pub(crate) fn order_of_key(key: &[u8]) -> Result<(DistrictId, u32), DecodeError> {
    let (w, d, o) = decode(key)?;
    Ok((DistrictId { w, d }, o))
}

/// Number of the order that a key of the index by customer stands for.
pub(crate) fn order_of_customer_key(key: &[u8]) -> Result<u32, DecodeError> {
    let (_, _, _, Reverse(o)) = decode::<(u32, u8, u32, Reverse<u32>)>(key)?;
    Ok(o)
}

/// District of an order line, and its number in its order.
pub(crate) fn line_of_key(key: &[u8]) -> Result<(DistrictId, u8), DecodeError> {
    let (w, d, _, number) = decode::<(u32, u8, u32, u8)>(key)?;
    Ok((DistrictId { w, d }, number))
}

/// Who wrote a row of history.
pub(crate) fn worker_of_history_key(key: &[u8]) -> Result<u32, DecodeError> {
    let (worker, _) = decode::<(u32, u64)>(key)?;
    Ok(worker)
}

#[cfg(test)]
mod tests {
    use super::super::random::last_name;
    use super::*;

    const AT: DistrictId = DistrictId { w: 3, d: 7 };

    #[test]
    fn the_latest_order_of_a_customer_comes_first() {
        let mut buffer = KeyBuffer::default();
        let late = buffer.of(key::order_by_customer(AT, 5, 100)).to_vec();
        let early = buffer.of(key::order_by_customer(AT, 5, 99)).to_vec();
        assert!(late < early);
        assert!(&late[..] > buffer.of(key::order_by_customer(AT, 4, 1)));
        assert_eq!(order_of_customer_key(&late), Ok(100));
    }

    #[test]
    fn keys_by_name_begin_with_that_of_the_name_and_end_with_the_customer() {
        let mut buffer = KeyBuffer::default();
        let (last, longer) = (last_name(3), last_name(999));
        let name = buffer.of(key::of_last_name(AT, &last)).to_vec();
        let full = buffer.of(key::customer_by_name(AT, &last, b"firstfirstfirst1", 77)).to_vec();
        assert!(full.starts_with(&name));
        assert_eq!(customer_of_name_key(&full), Ok(77));
        let other = buffer.of(key::customer_by_name(AT, &longer, b"firstfirstfirst1", 77));
        assert!(!other.starts_with(&name));
        assert!(buffer.of(key::behind_last_name(AT, &last)) > &full[..]);
        // Customers of a name that only begins like it lie behind.
        let mut like = last;
        like[9] = b'A';
        let behind = buffer.of(key::behind_last_name(AT, &last)).to_vec();
        assert!(buffer.of(key::of_last_name(AT, &like)) > &behind[..]);
    }

    #[test]
    fn keys_of_orders_and_lines_give_back_their_numbers() {
        let mut buffer = KeyBuffer::default();
        assert_eq!(order_of_key(buffer.of(key::order(AT, 9))), Ok((AT, 9)));
        assert_eq!(line_of_key(buffer.of(key::order_line(AT, 9, 2))), Ok((AT, 2)));
        assert_eq!(worker_of_history_key(buffer.of(key::history(6, 1))), Ok(6));
        assert!(order_of_key(b"short").is_err());
    }
}
