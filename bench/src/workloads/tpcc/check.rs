//! Consistency conditions 1 to 4 of the specification (clauses 3.3.2.1 to 3.3.2.4), on one state of the database.
//!
//! ```text
//! 1  W_YTD                        = sum of D_YTD                  each warehouse
//! 2  D_NEXT_O_ID - 1              = max O_ID = max NO_O_ID        each district; the latter if it has new orders
//! 3  max NO_O_ID - min NO_O_ID + 1 = number of new orders         each district that has some
//! 4  sum of O_OL_CNT              = number of order lines         each district
//! ```
//!
//! And what these cannot see, since nothing here deletes orders or customers:
//!
//! ```text
//! 5  number of orders             = D_NEXT_O_ID - 1 = entries of the index by customer     each district
//! 6  number of customers          = entries of the index by name                           each district
//! ```
//!
//! All rows that count are read by one snapshot, so this can be asked while others work.

use super::rows::{District, Order, Row, Warehouse};
use super::scale::{DISTRICTS, Scale};
use super::schema::{
    DISTRICT_BYTES, DistrictId, Tables, district_of_key, line_of_key, order_of_key,
    warehouse_of_key,
};
use crate::Fail;
use latchkv::{Db, Snapshot, Tree};
use std::fmt;

/// What was counted while the conditions held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Checked {
    pub(crate) orders: u64,
    pub(crate) new_orders: u64,
    pub(crate) order_lines: u64,
}

/// A condition that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    condition: u8,
    w: u32,
    /// `None`: it is about a warehouse.
    d: Option<u8>,
    what: [&'static str; 2],
    values: [i64; 2],
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { condition, w, what: [one, other], values: [value, expected], .. } = self;
        write!(f, "consistency condition {condition} is violated in warehouse {w}")?;
        if let Some(d) = self.d {
            write!(f, ", district {d}")?;
        }
        write!(f, ": {one} is {value}, but {other} is {expected}")
    }
}

/// What the rows of a district say.
#[derive(Clone, Copy, Default)]
struct Counted {
    ytd: i64,
    next_order: i64,
    last_order: i64,
    orders: i64,
    orders_by_customer: i64,
    customers: i64,
    customers_by_name: i64,
    lines_ordered: i64,
    lines: i64,
    new_orders: i64,
    first_new: i64,
    last_new: i64,
}

/// One of the numbers of a district.
type Number = fn(&mut Counted) -> &mut i64;

/// All that is counted, by warehouse and by district.
struct Count {
    scale: Scale,
    warehouse_ytd: Vec<i64>,
    districts: Vec<Counted>,
}

impl Count {
    fn district(&mut self, at: DistrictId) -> Result<&mut Counted, Fail> {
        let scale = self.scale;
        if !(1..=scale.warehouses).contains(&at.w) || !(1..=DISTRICTS).contains(&at.d) {
            return Err(format!("there is a row of {at:?}, which is none of this scale").into());
        }
        let index = (at.w - 1) as usize * usize::from(DISTRICTS) + usize::from(at.d - 1);
        Ok(&mut self.districts[index])
    }

    fn of(snapshot: &Snapshot<'_>, tables: &Tables<Tree>, scale: Scale) -> Result<Count, Fail> {
        let mut count = Count {
            scale,
            warehouse_ytd: vec![0; scale.warehouses as usize],
            districts: vec![Counted::default(); scale.warehouses as usize * usize::from(DISTRICTS)],
        };
        each(snapshot, &tables.warehouse, |key, value| {
            let w = warehouse_of_key(key)?;
            let ytd = count.warehouse_ytd.get_mut((w as usize).wrapping_sub(1));
            *ytd.ok_or("there is a warehouse that is none of this scale")? =
                Warehouse::of(value)?.ytd.get();
            Ok(())
        })?;
        each(snapshot, &tables.district, |key, value| {
            let row = District::of(value)?;
            let counted = count.district(district_of_key(key)?)?;
            counted.ytd = row.ytd.get();
            counted.next_order = row.next_order.get().into();
            Ok(())
        })?;
        each(snapshot, &tables.orders, |key, value| {
            let (at, o) = order_of_key(key)?;
            let counted = count.district(at)?;
            counted.last_order = counted.last_order.max(o.into());
            counted.orders += 1;
            counted.lines_ordered += i64::from(Order::of(value)?.lines);
            Ok(())
        })?;
        each(snapshot, &tables.new_order, |key, _| {
            let (at, o) = order_of_key(key)?;
            let counted = count.district(at)?;
            if counted.new_orders == 0 {
                counted.first_new = o.into();
            }
            counted.new_orders += 1;
            counted.last_new = o.into();
            Ok(())
        })?;
        each(snapshot, &tables.order_line, |key, _| {
            let (at, _) = line_of_key(key)?;
            count.district(at)?.lines += 1;
            Ok(())
        })?;
        let rows: [(_, Number); 3] = [
            (&tables.orders_by_customer, |counted| &mut counted.orders_by_customer),
            (&tables.customer, |counted| &mut counted.customers),
            (&tables.customer_by_name, |counted| &mut counted.customers_by_name),
        ];
        for (tree, number) in rows {
            each(snapshot, tree, |key, _| {
                let district = key.get(..DISTRICT_BYTES).unwrap_or(key);
                *number(count.district(district_of_key(district)?)?) += 1;
                Ok(())
            })?;
        }
        Ok(count)
    }

    /// The conditions that do not hold.
    fn violations(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut expect = |condition, w, d, what, values: [i64; 2]| {
            if values[0] != values[1] {
                violations.push(Violation { condition, w, d, what, values });
            }
        };
        let of_warehouses = self.districts.chunks(usize::from(DISTRICTS));
        for ((w, &ytd), districts) in (1..).zip(&self.warehouse_ytd).zip(of_warehouses) {
            let paid = districts.iter().map(|counted| counted.ytd).sum();
            expect(1, w, None, ["W_YTD", "the sum of D_YTD"], [ytd, paid]);
            for (d, counted) in (1..).zip(districts) {
                let d = Some(d);
                let last = counted.next_order - 1;
                let what = ["D_NEXT_O_ID - 1", "the greatest O_ID"];
                expect(2, w, d, what, [last, counted.last_order]);
                if counted.new_orders > 0 {
                    let what = ["D_NEXT_O_ID - 1", "the greatest NO_O_ID"];
                    expect(2, w, d, what, [last, counted.last_new]);
                    let span = counted.last_new - counted.first_new + 1;
                    let what = ["the span of NO_O_ID", "the number of new orders"];
                    expect(3, w, d, what, [span, counted.new_orders]);
                }
                let what = ["the sum of O_OL_CNT", "the number of order lines"];
                expect(4, w, d, what, [counted.lines_ordered, counted.lines]);
                let what = ["the number of orders", "D_NEXT_O_ID - 1"];
                expect(5, w, d, what, [counted.orders, last]);
                let what = ["the number of orders", "that of the index by customer"];
                expect(5, w, d, what, [counted.orders, counted.orders_by_customer]);
                let what = ["the number of customers", "that of the index by name"];
                expect(6, w, d, what, [counted.customers, counted.customers_by_name]);
            }
        }
        violations
    }
}

/// Hands all records of a tree to `f`.
fn each(
    snapshot: &Snapshot<'_>,
    tree: &Tree,
    mut f: impl FnMut(&[u8], &[u8]) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut range = snapshot.iter(tree);
    while let Some((key, value)) = range.next_borrowed().transpose()? {
        f(key, value)?;
    }
    Ok(())
}

/// Checks the conditions on the state that is visible now.
///
/// # Errors
/// A condition that does not hold; rows that are none of this scale; errors of the engine.
pub(super) fn check(db: &Db, tables: &Tables<Tree>, scale: Scale) -> Result<Checked, Fail> {
    let snapshot = db.snapshot()?;
    let count = Count::of(&snapshot, tables, scale)?;
    let violations = count.violations();
    if let Some(first) = violations.first() {
        let more = violations.len() - 1;
        return Err(match more {
            0 => first.to_string(),
            more => format!("{first}; and {more} more violations"),
        }
        .into());
    }
    let sum = |of: fn(&Counted) -> i64| count.districts.iter().map(of).sum::<i64>() as u64;
    Ok(Checked {
        orders: sum(|counted| counted.orders),
        new_orders: sum(|counted| counted.new_orders),
        order_lines: sum(|counted| counted.lines),
    })
}
