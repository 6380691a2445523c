//! One who works: draws transactions by the specification's mix, and runs each until it commits or is rolled back.
//!
//! A transaction that met a conflict is run again as it was drawn, on the state of then. Who was first has
//! committed by that time, so there is no pause at first; then it lets others run, and then it sleeps.

use super::access::{Buffers, Stop};
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::scale::{DISTRICTS, Scale};
use super::schema::{DistrictId, Tables};
use super::stock_level::StockLevel;
use crate::Fail;
use crate::engines::api::{Connection, Txn};
use fastrand::Rng;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// A warehouse that is not `w`, if there is another.
pub(crate) fn other_warehouse(rng: &mut Rng, scale: &Scale, w: u32) -> u32 {
    if scale.warehouses == 1 {
        return w;
    }
    let other = rng.u32(1..scale.warehouses);
    if other < w { other } else { other + 1 }
}

/// The types of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// All of them, each with its share of a hundred transactions (clause 5.2.3).
    pub(crate) const MIX: [(Kind, u8); 5] = [
        (Kind::NewOrder, 45),
        (Kind::Payment, 43),
        (Kind::OrderStatus, 4),
        (Kind::Delivery, 4),
        (Kind::StockLevel, 4),
    ];

    /// Draws one by its share.
    fn draw(rng: &mut Rng) -> Kind {
        let mut rest = rng.u8(0..100);
        for (kind, share) in Kind::MIX {
            match rest.checked_sub(share) {
                Some(left) => rest = left,
                None => return kind,
            }
        }
        Kind::NewOrder
    }

    /// Its name in the specification.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }
}

/// What a transaction is asked for.
enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

/// Whose transactions a worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Homes {
    /// Those of any warehouse.
    Any,
    /// Those of a share of the warehouses: each has its terminals, which are at one worker. If workers are more, they
    /// share a warehouse.
    Share {
        /// Which of the workers it is.
        at: usize,
        /// How many there are.
        of: usize,
    },
}

impl Homes {
    fn warehouses(self, scale: &Scale) -> Vec<u32> {
        let all = 1..=scale.warehouses;
        match self {
            Homes::Any => all.collect(),
            Homes::Share { at, of } if of <= scale.warehouses as usize => {
                all.skip(at).step_by(of).collect()
            }
            Homes::Share { at, .. } => vec![(at % scale.warehouses as usize) as u32 + 1],
        }
    }
}

/// A transaction that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) kind: Kind,
    /// False: it was rolled back, as it should be.
    pub(crate) is_committed: bool,
    /// How often somebody else was first.
    pub(crate) conflicts: u32,
    /// The order that a New-Order put in.
    pub(crate) order: Option<(DistrictId, u32)>,
}

/// Works on a database through a connection.
pub(crate) struct Worker<'c, C: Connection> {
    connection: &'c C,
    tables: Tables<C::Tree>,
    scale: Scale,
    homes: Vec<u32>,
    /// Names it in rows of history.
    number: u32,
    /// Rows of history that it has begun.
    written: u64,
    buffers: Buffers,
}

impl<'c, C: Connection> Worker<'c, C> {
    pub(super) fn new(
        connection: &'c C,
        scale: Scale,
        homes: Homes,
        number: u32,
    ) -> Result<Worker<'c, C>, Fail> {
        let (tables, homes) = (Tables::of(connection.trees())?, homes.warehouses(&scale));
        let buffers = Buffers::default();
        Ok(Worker { connection, tables, scale, homes, number, written: 0, buffers })
    }

    /// Draws a transaction by the mix and runs it to its end.
    ///
    /// # Errors
    /// Those of the engine but conflicts, and data that are not those of the workload.
    pub(crate) fn one(&mut self, rng: &mut Rng) -> Result<Done, Fail> {
        self.run(Kind::draw(rng), rng)
    }

    /// Runs a transaction of this type to its end.
    ///
    /// # Errors
    /// Those of [`one`](Self::one).
    pub(crate) fn run(&mut self, kind: Kind, rng: &mut Rng) -> Result<Done, Fail> {
        let w = self.homes[rng.usize(0..self.homes.len())];
        let at = DistrictId { w, d: rng.u8(1..=DISTRICTS) };
        let scale = &self.scale;
        let input = match kind {
            Kind::NewOrder => Input::NewOrder(NewOrder::draw(rng, scale, at)),
            Kind::Payment => Input::Payment(Payment::draw(rng, scale, at)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::draw(rng, scale, at)),
            Kind::Delivery => Input::Delivery(Delivery::draw(rng, w)),
            Kind::StockLevel => Input::StockLevel(StockLevel::draw(rng, at)),
        };
        let mut conflicts = 0;
        let (is_committed, order) = loop {
            match self.attempt(&input) {
                Ok(order) => break (true, order),
                Err(Stop::RolledBack) => break (false, None),
                Err(Stop::Failed(fail)) => return Err(fail),
                Err(Stop::Conflict) => conflicts += 1,
            }
            match conflicts {
                0..4 => {}
                4..16 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(rng.u64(50..500))),
            }
        };
        Ok(Done { kind, is_committed, conflicts, order: order.map(|o| (at, o)) })
    }

    /// Runs it once. Gives the order's number, if it is one.
    fn attempt(&mut self, input: &Input) -> Result<Option<u32>, Stop> {
        let Worker { connection, tables, buffers, .. } = self;
        let mut txn = connection.begin()?;
        let order = match input {
            Input::NewOrder(input) => Some(input.run(&mut txn, tables, buffers)?),
            Input::Payment(input) => {
                self.written += 1;
                input.run(&mut txn, tables, buffers, (self.number, self.written))?;
                None
            }
            Input::OrderStatus(input) => {
                input.run(&txn, tables, buffers)?;
                None
            }
            Input::Delivery(input) => {
                input.run(&mut txn, tables, buffers)?;
                None
            }
            Input::StockLevel(input) => {
                input.run(&txn, tables, buffers)?;
                None
            }
        };
        txn.commit()?;
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_adds_up_to_a_hundred_and_is_drawn_so() {
        assert_eq!(Kind::MIX.iter().map(|(_, share)| u32::from(*share)).sum::<u32>(), 100);
        let mut rng = Rng::with_seed(1);
        let mut counts = [0_u32; 5];
        for _ in 0..20_000 {
            counts[Kind::draw(&mut rng) as usize] += 1;
        }
        for ((_, share), count) in Kind::MIX.iter().zip(counts) {
            assert!(count.abs_diff(u32::from(*share) * 200) < 400, "{share} %: {count} of 20000");
        }
    }

    #[test]
    fn every_warehouse_is_at_one_worker_as_long_as_there_are_enough() {
        let scale = Scale::new(5, 0.0);
        let of_all = (0..2).map(|at| Homes::Share { at, of: 2 }.warehouses(&scale));
        let mut all: Vec<u32> = of_all.flatten().collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5]);
        assert_eq!(Homes::Share { at: 7, of: 8 }.warehouses(&scale), [3]);
        assert_eq!(Homes::Any.warehouses(&scale).len(), 5);
    }

    #[test]
    fn another_warehouse_is_never_the_own_one() {
        let mut rng = Rng::with_seed(1);
        let scale = Scale::new(3, 0.0);
        let drawn: Vec<u32> = (0..100).map(|_| other_warehouse(&mut rng, &scale, 2)).collect();
        assert!(drawn.iter().all(|w| [1, 3].contains(w)));
        assert!(drawn.contains(&1) && drawn.contains(&3));
        assert_eq!(other_warehouse(&mut rng, &Scale::new(1, 0.0), 1), 1);
    }
}
