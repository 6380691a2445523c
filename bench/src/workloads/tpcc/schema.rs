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
//! Keys are made by `latchkv::encode`, so they sort as these numbers and names do. Each number takes the fewest bytes
//! that hold what the specification asks for (clause 1.3): a warehouse two, a district one, a customer, an item and an
//! order three. The specification gives history no key; ours says who wrote the row and which of his it is.

use super::random::{LastName, trimmed};
use crate::Fail;
use latchkv::encode::{DecodeError, KeyDecode, KeyEncode, Reverse, decode};

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

/// The greatest number of a warehouse.
pub(crate) const WAREHOUSES_MAX: u32 = u16::MAX as u32;
/// The greatest number of a customer, an item or an order in a key; no row has it.
pub(crate) const NUMBER_MAX: u32 = (1 << 24) - 1;

/// A number of three bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Three(u32);

impl KeyEncode for Three {
    fn encode_into(&self, out: &mut Vec<u8>) {
        let [_, bytes @ ..] = self.0.min(NUMBER_MAX).to_be_bytes();
        out.extend_from_slice(&bytes);
    }
}

impl KeyDecode for Three {
    fn decode_from(input: &mut &[u8]) -> Result<Three, DecodeError> {
        let (high, low) = <(u8, u16)>::decode_from(input)?;
        Ok(Three(u32::from(high) << 16 | u32::from(low)))
    }
}

/// A warehouse in a key.
fn two(w: u32) -> u16 {
    debug_assert!(w <= WAREHOUSES_MAX, "`tpcc` takes no more warehouses");
    w as u16
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
    use super::{DistrictId, KeyEncode, LastName, Reverse, Three, trimmed, two};

    pub(crate) fn warehouse(w: u32) -> impl KeyEncode {
        two(w)
    }

    pub(crate) fn district(at: DistrictId) -> impl KeyEncode {
        (two(at.w), at.d)
    }

    pub(crate) fn customer(at: DistrictId, c: u32) -> impl KeyEncode {
        (two(at.w), at.d, Three(c))
    }

    /// Where the customers of a last name begin; it is a prefix of their keys.
    pub(crate) fn of_last_name(at: DistrictId, last: &LastName) -> impl KeyEncode {
        (two(at.w), at.d, trimmed(last))
    }

    /// What comes behind all customers of a last name. The bytes of a name end with two zeros; this is what they
    /// would be if the second were one.
    pub(crate) fn behind_last_name(at: DistrictId, last: &LastName) -> impl KeyEncode {
        struct Behind<'a>(u16, u8, &'a [u8]);
        impl KeyEncode for Behind<'_> {
            fn encode_into(&self, out: &mut Vec<u8>) {
                (self.0, self.1, self.2).encode_into(out);
                if let Some(end) = out.last_mut() {
                    *end = 1;
                }
            }
        }
        Behind(two(at.w), at.d, trimmed(last))
    }

    pub(crate) fn customer_by_name<'a>(
        at: DistrictId,
        last: &'a LastName,
        first: &'a [u8; 16],
        c: u32,
    ) -> impl KeyEncode + use<'a> {
        (two(at.w), at.d, trimmed(last), trimmed(first), Three(c))
    }

    pub(crate) fn history(worker: u32, number: u64) -> impl KeyEncode {
        (worker, number)
    }

    /// Of an order, also where it is new.
    pub(crate) fn order(at: DistrictId, o: u32) -> impl KeyEncode {
        (two(at.w), at.d, Three(o))
    }

    pub(crate) fn order_by_customer(at: DistrictId, c: u32, o: u32) -> impl KeyEncode {
        (two(at.w), at.d, Three(c), Reverse(Three(o)))
    }

    pub(crate) fn order_line(at: DistrictId, o: u32, number: u8) -> impl KeyEncode {
        (two(at.w), at.d, Three(o), number)
    }

    pub(crate) fn item(i: u32) -> impl KeyEncode {
        Three(i)
    }

    pub(crate) fn stock(w: u32, i: u32) -> impl KeyEncode {
        (two(w), Three(i))
    }
}

/// The warehouse that a key stands for.
pub(crate) fn warehouse_of_key(key: &[u8]) -> Result<u32, DecodeError> {
    decode::<u16>(key).map(u32::from)
}

/// Bytes of a key of a district, with which those of its rows begin.
pub(crate) const DISTRICT_BYTES: usize = 3;

/// The district that a key stands for.
pub(crate) fn district_of_key(key: &[u8]) -> Result<DistrictId, DecodeError> {
    let (w, d) = decode::<(u16, u8)>(key)?;
    Ok(DistrictId { w: w.into(), d })
}

/// The customer that a key of the index by name ends with.
pub(crate) fn customer_of_name_key(key: &[u8]) -> Result<u32, DecodeError> {
    let at = key.len().saturating_sub(3);
    let Three(c) = decode(&key[at..]).map_err(|error| error.after(at))?;
    Ok(c)
}

/// District and number of an order that a key of orders, or of new orders, stands for.
pub(crate) fn order_of_key(key: &[u8]) -> Result<(DistrictId, u32), DecodeError> {
    let (w, d, Three(o)) = decode::<(u16, u8, Three)>(key)?;
    Ok((DistrictId { w: w.into(), d }, o))
}

/// Number of the order that a key of the index by customer stands for.
pub(crate) fn order_of_customer_key(key: &[u8]) -> Result<u32, DecodeError> {
    let (_, _, _, Reverse(Three(o))) = decode::<(u16, u8, Three, Reverse<Three>)>(key)?;
    Ok(o)
}

/// District of an order line, and its number in its order.
pub(crate) fn line_of_key(key: &[u8]) -> Result<(DistrictId, u8), DecodeError> {
    let (w, d, _, number) = decode::<(u16, u8, Three, u8)>(key)?;
    Ok((DistrictId { w: w.into(), d }, number))
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
        assert_eq!(warehouse_of_key(buffer.of(key::warehouse(3))), Ok(3));
        assert_eq!(district_of_key(buffer.of(key::district(AT))), Ok(AT));
    }

    #[test]
    fn numbers_of_three_bytes_sort_and_come_back() {
        let numbers = [0, 1, 0xff, 0x100, 0xffff, 0x1_0000, NUMBER_MAX];
        let keys: Vec<_> = numbers.iter().map(|&n| latchkv::encode::encode(&Three(n))).collect();
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == 3));
        for (&number, key) in numbers.iter().zip(&keys) {
            assert_eq!(decode(key), Ok(Three(number)));
        }
        assert!(decode::<Three>(&[1, 2]).is_err());
    }
}
