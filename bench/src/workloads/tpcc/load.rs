//! The initial data (clause 4.3.3.1), each tree in the order of its keys, so that it is built packed.
//!
//! Nothing is kept but a district's permutation of customers or its names: what two trees have to agree on is drawn
//! twice from the same generator.

use super::random::{self, LastName, digits, of_row, text, zip};
use super::rows::{
    Address, Customer, District, History, Item, Order, OrderLine, Row, Stock, Warehouse,
};
use super::scale::{DISTRICTS, LINES, Scale};
use super::schema::{DistrictId, Tables, key};
use super::worker::now_us;
use fastrand::Rng;
use latchkv::encode::{KeyEncode, encode};
use latchkv::{Result, Tree};
use zerocopy::little_endian::{I16, I64, U32, U64};

/// What generators are of, beside the number of a row.
#[derive(Clone, Copy)]
enum Draw {
    Warehouse,
    District,
    Name,
    Customer,
    History,
    Permutation,
    Order,
    Line,
    Item,
    Stock,
}

/// Worker number of the rows of history in the initial data.
pub(super) const LOADER: u32 = 0;

/// A row whose bytes can be put.
struct Value<R>(R);

impl<R: Row> AsRef<[u8]> for Value<R> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The initial data of one seed.
#[derive(Clone, Copy)]
struct Source {
    scale: Scale,
    seed: u64,
    now: u64,
}

/// Fills the trees, which are empty. `on_tree` is told the name of each tree before it is filled.
pub(super) fn load(
    tables: &Tables<Tree>,
    scale: Scale,
    seed: u64,
    on_tree: &mut dyn FnMut(&str),
) -> Result<()> {
    let source = Source { scale, seed, now: now_us() };
    let mut fill = |tree: &Tree| {
        on_tree(tree.name());
        tree.clone()
    };
    let rows = (1..=scale.items).map(|i| (encode(&key::item(i)), Value(source.item(i))));
    fill(&tables.item).bulk_load(rows)?;
    let rows =
        source.warehouses().map(|w| (encode(&key::warehouse(w)), Value(source.warehouse(w))));
    fill(&tables.warehouse).bulk_load(rows)?;
    let rows = source.warehouses().flat_map(|w| {
        (1..=scale.items).map(move |i| (encode(&key::stock(w, i)), Value(source.stock(w, i))))
    });
    fill(&tables.stock).bulk_load(rows)?;
    let rows =
        source.districts().map(|at| (encode(&key::district(at)), Value(source.district(at))));
    fill(&tables.district).bulk_load(rows)?;
    let rows = source.of_customers(|at, c| (key::customer(at, c), source.customer(at, c)));
    fill(&tables.customer).bulk_load(rows)?;
    fill(&tables.customer_by_name)
        .bulk_load(source.districts().flat_map(|at| source.names(at)).map(|key| (key, "")))?;
    let rows = source
        .of_customers(|at, c| (key::history(LOADER, source.row(at, c)), source.history(at, c)));
    fill(&tables.history).bulk_load(rows)?;
    let rows = source.districts().flat_map(|at| {
        (scale.first_undelivered()..=scale.customers).map(move |o| (encode(&key::order(at, o)), ""))
    });
    fill(&tables.new_order).bulk_load(rows)?;
    let rows = source.districts().flat_map(|at| {
        (1..)
            .zip(source.who_ordered(at))
            .map(move |(o, c)| (encode(&key::order(at, o)), Value(source.order(at, o, c))))
    });
    fill(&tables.orders).bulk_load(rows)?;
    let rows = source.districts().flat_map(|at| {
        let orders = (1..).zip(source.who_ordered(at));
        let mut orders: Vec<(u32, u32)> = orders.map(|(o, c)| (c, o)).collect();
        orders.sort_unstable();
        orders.into_iter().map(move |(c, o)| (encode(&key::order_by_customer(at, c, o)), ""))
    });
    fill(&tables.orders_by_customer).bulk_load(rows)?;
    let rows = source.districts().flat_map(|at| {
        (1..=scale.customers).flat_map(move |o| {
            let lines = 1..=source.lines(at, o);
            lines.map(move |number| {
                let key = encode(&key::order_line(at, o, number));
                (key, Value(source.order_line(at, o, number)))
            })
        })
    });
    fill(&tables.order_line).bulk_load(rows)?;
    Ok(())
}

impl Source {
    fn warehouses(self) -> impl Iterator<Item = u32> {
        1..=self.scale.warehouses
    }

    fn districts(self) -> impl Iterator<Item = DistrictId> {
        self.warehouses().flat_map(|w| (1..=DISTRICTS).map(move |d| DistrictId { w, d }))
    }

    /// A record for each customer.
    fn of_customers<K: KeyEncode, R: Row>(
        self,
        record: impl Fn(DistrictId, u32) -> (K, R),
    ) -> impl Iterator<Item = (Vec<u8>, Value<R>)> {
        let customers =
            self.districts().flat_map(move |at| (1..=self.scale.customers).map(move |c| (at, c)));
        customers.map(move |(at, c)| {
            let (key, row) = record(at, c);
            (encode(&key), Value(row))
        })
    }

    /// A number that no other row of a district has, in the order of the keys.
    fn row(self, at: DistrictId, number: u32) -> u64 {
        let district = u64::from(at.w) * u64::from(DISTRICTS) + u64::from(at.d);
        district << 32 | u64::from(number)
    }

    fn draw(self, what: Draw, row: u64) -> Rng {
        of_row(self.seed, what as u8, row)
    }

    fn warehouse(self, w: u32) -> Warehouse {
        let mut rng = self.draw(Draw::Warehouse, u64::from(w));
        Warehouse {
            tax: U32::new(rng.u32(0..=2000)),
            ytd: I64::new(30_000_000),
            name: text(&mut rng, 6..=10),
            address: address(&mut rng),
        }
    }

    fn district(self, at: DistrictId) -> District {
        let mut rng = self.draw(Draw::District, self.row(at, 0));
        District {
            tax: U32::new(rng.u32(0..=2000)),
            ytd: I64::new(3_000_000),
            next_order: U32::new(self.scale.customers + 1),
            name: text(&mut rng, 6..=10),
            address: address(&mut rng),
        }
    }

    /// Last and first name of a customer.
    fn name(self, at: DistrictId, c: u32) -> (LastName, [u8; 16]) {
        let mut rng = self.draw(Draw::Name, self.row(at, c));
        let number = random::last_name_to_load(&mut rng, &self.scale, c);
        (random::last_name(number), text(&mut rng, 8..=16))
    }

    /// The keys of a district in the index of customers by name.
    fn names(self, at: DistrictId) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = (1..=self.scale.customers)
            .map(|c| {
                let (last, first) = self.name(at, c);
                encode(&key::customer_by_name(at, &last, &first, c))
            })
            .collect();
        keys.sort_unstable();
        keys
    }

    fn customer(self, at: DistrictId, c: u32) -> Customer {
        let (last, first) = self.name(at, c);
        let mut rng = self.draw(Draw::Customer, self.row(at, c));
        let is_bad = rng.u8(0..10) == 0;
        Customer {
            balance: I64::new(-1000),
            ytd_payment: I64::new(1000),
            payments: U32::new(1),
            deliveries: U32::ZERO,
            discount: U32::new(rng.u32(0..=5000)),
            credit_limit: I64::new(5_000_000),
            since: U64::new(self.now),
            credit: if is_bad { Customer::BAD_CREDIT } else { Customer::GOOD_CREDIT },
            first,
            middle: *b"OE",
            last,
            address: address(&mut rng),
            phone: digits(&mut rng),
            data: text(&mut rng, 300..=500),
        }
    }

    fn history(self, at: DistrictId, c: u32) -> History {
        let mut rng = self.draw(Draw::History, self.row(at, c));
        History {
            customer: U32::new(c),
            customer_warehouse: U32::new(at.w),
            customer_district: at.d,
            district: at.d,
            warehouse: U32::new(at.w),
            date: U64::new(self.now),
            amount: I64::new(1000),
            data: text(&mut rng, 12..=24),
        }
    }

    /// The customers of a district in the order of their first orders.
    fn who_ordered(self, at: DistrictId) -> Vec<u32> {
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        self.draw(Draw::Permutation, self.row(at, 0)).shuffle(&mut customers);
        customers
    }

    fn order(self, at: DistrictId, o: u32, c: u32) -> Order {
        let mut rng = self.draw(Draw::Order, self.row(at, o));
        let lines = rng.u8(LINES);
        Order {
            customer: U32::new(c),
            entered: U64::new(self.now),
            carrier: if o < self.scale.first_undelivered() { rng.u8(1..=10) } else { 0 },
            lines,
            all_local: 1,
        }
    }

    /// Number of lines of an order: the first that [`order`](Self::order) draws.
    fn lines(self, at: DistrictId, o: u32) -> u8 {
        self.draw(Draw::Order, self.row(at, o)).u8(LINES)
    }

    fn order_line(self, at: DistrictId, o: u32, number: u8) -> OrderLine {
        let row = self.row(at, o).wrapping_mul(16).wrapping_add(u64::from(number));
        let mut rng = self.draw(Draw::Line, row);
        let is_delivered = o < self.scale.first_undelivered();
        OrderLine {
            item: U32::new(rng.u32(1..=self.scale.items)),
            supplier: U32::new(at.w),
            delivered: U64::new(if is_delivered { self.now } else { 0 }),
            amount: I64::new(if is_delivered { 0 } else { rng.i64(1..=999_999) }),
            quantity: 5,
            district_info: text(&mut rng, 24..=24),
        }
    }

    fn item(self, i: u32) -> Item {
        let mut rng = self.draw(Draw::Item, u64::from(i));
        Item {
            image: U32::new(rng.u32(1..=10_000)),
            price: U32::new(rng.u32(100..=10_000)),
            name: text(&mut rng, 14..=24),
            data: random::data(&mut rng),
        }
    }

    fn stock(self, w: u32, i: u32) -> Stock {
        let mut rng = self.draw(Draw::Stock, u64::from(w) << 32 | u64::from(i));
        Stock {
            quantity: I16::new(rng.i16(10..=100)),
            ytd: U32::ZERO,
            orders: U32::ZERO,
            remote_orders: U32::ZERO,
            districts: std::array::from_fn(|_| text(&mut rng, 24..=24)),
            data: random::data(&mut rng),
        }
    }
}

fn address(rng: &mut Rng) -> Address {
    Address {
        streets: std::array::from_fn(|_| text(rng, 10..=20)),
        city: text(rng, 10..=20),
        state: text(rng, 2..=2),
        zip: zip(rng),
    }
}
