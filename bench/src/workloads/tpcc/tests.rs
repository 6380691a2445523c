//! The workload on the smallest scale: what each transaction leaves, that a rolled back one leaves nothing, and that the
//! conditions tell of damage.

use super::rows::{Customer, District, History, Order, OrderLine, Row, Stock, Warehouse};
use super::*;
use crate::engines::api::{Access, Api, Job, Plain};
use fastrand::Rng;
use latchkv::{Durability, Options};
use schema::{DistrictId, key};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

struct Stage {
    tpcc: Tpcc,
    store: Store,
    _dir: tempfile::TempDir,
}

impl Stage {
    fn new(warehouses: u32) -> Stage {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().cache_bytes(32 << 20).durability(Durability::None);
        let access = Access { roles: 0, ..Access::new(Api::Session, 2) };
        let store = Store::create(&dir.path().join("db"), &options, access, NAMESPACE, &TREES);
        let store = store.expect("a store");
        let scale = Scale::new(warehouses, 0.0);
        let tpcc = Tpcc::load(&store, scale, 7, &mut |_| ()).expect("the data");
        Stage { tpcc, store, _dir: dir }
    }

    /// What transactions run on, but for the test that has sessions too.
    fn plain(&self) -> Plain<'_> {
        self.store.plain()
    }

    fn check(&self) -> Checked {
        self.tpcc.check(self.store.db()).expect("the conditions hold")
    }

    /// What the check says of damage.
    fn violation(&self) -> String {
        self.tpcc.check(self.store.db()).expect_err("a violation").to_string()
    }

    /// All records of all trees.
    fn dump(&self) -> Vec<(String, Vec<u8>, Vec<u8>)> {
        let mut records = Vec::new();
        for tree in self.store.trees() {
            for entry in tree.iter() {
                let (key, value) = entry.expect("a record").into_pair();
                records.push((tree.name().to_owned(), key, value));
            }
        }
        records
    }
}

fn rows<R: Row>(tree: &Tree) -> Vec<R> {
    tree.iter().map(|entry| *R::of(entry.expect("a record").value()).unwrap()).collect()
}

fn change<R: Row>(tree: &Tree, key: impl latchkv::encode::KeyEncode, f: impl FnOnce(&mut R)) {
    let key = latchkv::encode::encode(&key);
    let mut row = *R::of(&tree.get(&key).expect("a read").expect("a row")).unwrap();
    f(&mut row);
    tree.put(&key, row.as_bytes()).expect("put");
}

/// A worker who does those of any warehouse.
fn worker<'c>(tpcc: &Tpcc, plain: &'c Plain<'_>) -> Worker<'c, Plain<'c>> {
    tpcc.worker(plain, Homes::Any).expect("a worker")
}

/// Runs one of a type that commits.
fn commit(worker: &mut Worker<'_, Plain<'_>>, kind: Kind, rng: &mut Rng) -> Done {
    loop {
        let done = worker.run(kind, rng).expect("it ends");
        if done.is_committed {
            return done;
        }
    }
}

#[test]
fn the_initial_data_have_the_rows_of_the_scale_and_keep_the_conditions() {
    let stage = Stage::new(2);
    let checked = stage.check();
    assert_eq!((checked.orders, checked.new_orders), (2 * 10 * 30, 2 * 10 * 9));
    let tables = &stage.tpcc.tables;
    let len = |tree: &Tree| tree.len().expect("a length");
    assert_eq!(len(&tables.order_line), checked.order_lines);
    assert_eq!((len(&tables.item), len(&tables.stock)), (100, 200));
    for tree in [&tables.customer, &tables.customer_by_name, &tables.history, &tables.orders] {
        assert_eq!(len(tree), 600);
    }
    assert_eq!(len(&tables.orders_by_customer), 600);
    let names: Vec<_> = rows::<Customer>(&tables.customer).iter().map(|row| row.last).collect();
    assert!(names[..10].iter().enumerate().all(|(at, name)| names[..at].iter().all(|n| n != name)));
}

#[test]
fn the_same_seed_loads_the_same_data_but_for_the_time() {
    let stages = [Stage::new(1), Stage::new(1)];
    let stocks = stages.each_ref().map(|stage| {
        let rows = rows::<Stock>(&stage.tpcc.tables.stock);
        rows.iter().map(|row| row.as_bytes().to_vec()).collect::<Vec<_>>()
    });
    assert_eq!(stocks[0], stocks[1]);
}

#[test]
fn a_new_order_takes_from_stock_what_its_lines_say() {
    let stage = Stage::new(2);
    let (tables, before) = (&stage.tpcc.tables, stage.check());
    let mut rng = Rng::with_seed(1);
    let plain = stage.plain();
    let mut worker = worker(&stage.tpcc, &plain);
    let (at, o) = commit(&mut worker, Kind::NewOrder, &mut rng).order.expect("an order");
    assert!(stage.tpcc.has_order((at, o)).expect("a read"));
    assert!(!stage.tpcc.has_order((at, o + 1)).expect("a read"));
    let after = stage.check();
    assert_eq!(after.orders, before.orders + 1);
    assert_eq!(after.new_orders, before.new_orders + 1);
    let lines: Vec<OrderLine> = tables
        .order_line
        .prefix(latchkv::encode::encode(&key::order(at, o)))
        .map(|entry| *OrderLine::of(entry.expect("a record").value()).unwrap())
        .collect();
    assert_eq!(after.order_lines, before.order_lines + lines.len() as u64);
    let ordered: u64 = lines.iter().map(|line| u64::from(line.quantity)).sum();
    let stock = rows::<Stock>(&tables.stock);
    assert_eq!(stock.iter().map(|row| u64::from(row.ytd.get())).sum::<u64>(), ordered);
    assert_eq!(stock.iter().map(|row| row.orders.get() as usize).sum::<usize>(), lines.len());
    assert!(stock.iter().all(|row| row.quantity.get() >= 0));
    let order = latchkv::encode::encode(&key::order(at, o));
    let order = *Order::of(&tables.orders.get(order).expect("a read").expect("a row")).unwrap();
    assert_eq!((usize::from(order.lines), order.carrier), (lines.len(), 0));
    let latest = latchkv::encode::encode(&(at.w, at.d, order.customer.get()));
    let latest = tables.orders_by_customer.prefix(latest).next().expect("one").expect("a record");
    assert_eq!(schema::order_of_customer_key(latest.key()), Ok(o));
}

#[test]
fn a_payment_is_counted_by_warehouse_district_customer_and_history() {
    let stage = Stage::new(2);
    let tables = &stage.tpcc.tables;
    let sums = || {
        let warehouses: i64 =
            rows::<Warehouse>(&tables.warehouse).iter().map(|row| row.ytd.get()).sum();
        let districts: i64 =
            rows::<District>(&tables.district).iter().map(|row| row.ytd.get()).sum();
        let balances: i64 =
            rows::<Customer>(&tables.customer).iter().map(|row| row.balance.get()).sum();
        let history: i64 =
            rows::<History>(&tables.history).iter().map(|row| row.amount.get()).sum();
        [warehouses, districts, -balances, history]
    };
    let before = sums();
    let plain = stage.plain();
    let mut worker = worker(&stage.tpcc, &plain);
    let mut rng = Rng::with_seed(2);
    for _ in 0..50 {
        commit(&mut worker, Kind::Payment, &mut rng);
    }
    let paid: Vec<i64> = sums().iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(paid[0] > 0 && paid.iter().all(|&sum| sum == paid[0]), "{paid:?}");
    assert_eq!(tables.history.len().expect("a length"), 600 + 50);
    // Somebody of bad credit was among them, whose data now tell of it.
    let noted = rows::<Customer>(&tables.customer)
        .into_iter()
        .filter(|row| row.credit == Customer::BAD_CREDIT && row.data.contains(&b' '));
    assert!(noted.count() > 0);
    stage.check();
}

#[test]
fn a_delivery_takes_the_oldest_new_order_of_each_district() {
    let stage = Stage::new(1);
    let tables = &stage.tpcc.tables;
    let owed: i64 = rows::<OrderLine>(&tables.order_line)
        .iter()
        .filter(|line| line.delivered.get() == 0)
        .map(|line| line.amount.get())
        .sum();
    let before = stage.check();
    let plain = stage.plain();
    let mut worker = worker(&stage.tpcc, &plain);
    let mut rng = Rng::with_seed(3);
    commit(&mut worker, Kind::Delivery, &mut rng);
    assert_eq!(stage.check().new_orders, before.new_orders - 10);
    for d in 1..=10 {
        let at = DistrictId { w: 1, d };
        let oldest = tables.new_order.range(latchkv::encode::encode(&key::order(at, 0))..).next();
        let oldest = oldest.expect("one").expect("a record");
        assert_eq!(schema::order_of_key(oldest.key()), Ok((at, 23)));
    }
    // Nothing is left after all nine, and one more finds nothing to do.
    for _ in 0..9 {
        commit(&mut worker, Kind::Delivery, &mut rng);
    }
    assert_eq!(stage.check().new_orders, 0);
    assert!(rows::<Order>(&tables.orders).iter().all(|order| (1..=10).contains(&order.carrier)));
    assert!(rows::<OrderLine>(&tables.order_line).iter().all(|line| line.delivered.get() > 0));
    let customers = rows::<Customer>(&tables.customer);
    let balances: i64 = customers.iter().map(|row| row.balance.get() + 1000).sum();
    assert_eq!(balances, owed);
    assert_eq!(customers.iter().map(|row| row.deliveries.get()).sum::<u32>(), 90);
}

#[test]
fn order_status_and_stock_level_change_nothing() {
    let stage = Stage::new(1);
    let before = stage.dump();
    let plain = stage.plain();
    let mut worker = worker(&stage.tpcc, &plain);
    let mut rng = Rng::with_seed(4);
    for kind in [Kind::OrderStatus, Kind::StockLevel] {
        for _ in 0..20 {
            commit(&mut worker, kind, &mut rng);
        }
    }
    assert_eq!(stage.dump(), before);
}

#[test]
fn a_new_order_that_is_rolled_back_leaves_no_trace() {
    let (stage, other) = (Stage::new(1), Stage::new(1));
    let plain = stage.plain();
    let mut worker = worker(&stage.tpcc, &plain);
    let mut rng = Rng::with_seed(5);
    // What is drawn follows from the generator alone: the one that was rolled back can be had again.
    let wrong = loop {
        let before = rng.clone();
        if !worker.run(Kind::NewOrder, &mut rng).expect("it ends").is_committed {
            break before;
        }
    };
    let before = other.dump();
    let plain = other.plain();
    let done = self::worker(&other.tpcc, &plain).run(Kind::NewOrder, &mut wrong.clone());
    let done = done.expect("it ends");
    assert!(!done.is_committed && done.order.is_none());
    assert_eq!(other.dump(), before);
}

#[test]
fn the_conditions_hold_when_threads_of_both_apis_get_in_each_others_way() {
    let stage = Stage::new(1);
    let before = stage.check();
    let committed = std::thread::scope(|scope| {
        let Stage { tpcc, store, .. } = &stage;
        let mut workers = Vec::new();
        for seed in 0..2 {
            workers.push(scope.spawn(move || store.run(Many(tpcc, seed))));
            workers.push(scope.spawn(move || Many(tpcc, seed + 10).run(&store.plain())));
        }
        let orders = workers.into_iter().map(|worker| worker.join().expect("a worker"));
        orders.map(|orders| orders.expect("all end")).sum::<u64>()
    });
    assert_eq!(stage.check().orders, before.orders + committed);
}

/// Runs the mix for a while, drawn from a seed, and gives the number of orders that were put in.
struct Many<'t>(&'t Tpcc, u64);

impl Job for Many<'_> {
    type Output = u64;

    fn run<C: Connection>(self, connection: &C) -> Result<u64, Fail> {
        let Many(tpcc, seed) = self;
        let mut worker = tpcc.worker(connection, Homes::Any)?;
        let mut rng = Rng::with_seed(seed);
        let mut orders = 0;
        for _ in 0..150 {
            orders += u64::from(worker.one(&mut rng)?.order.is_some());
        }
        Ok(orders)
    }
}

#[test]
fn workers_of_a_database_that_was_opened_again_write_history_of_their_own() {
    let stage = Stage::new(1);
    let mut rng = Rng::with_seed(6);
    let plain = stage.plain();
    commit(&mut worker(&stage.tpcc, &plain), Kind::Payment, &mut rng);
    let again = Tpcc::open(&stage.store, Scale::new(1, 0.0)).expect("the data");
    commit(&mut worker(&again, &plain), Kind::Payment, &mut rng);
    assert_eq!(again.tables.history.len().expect("a length"), 300 + 2);
}

#[test]
fn a_warehouse_that_counts_other_payments_than_its_districts_violates_condition_1() {
    let stage = Stage::new(2);
    change(&stage.tpcc.tables.warehouse, key::warehouse(2), |row: &mut Warehouse| row.ytd += 1);
    let error = stage.violation();
    assert_eq!(
        error,
        "consistency condition 1 is violated in warehouse 2: W_YTD is 30000001, but the sum of D_YTD is 30000000"
    );
}

#[test]
fn a_district_whose_next_order_is_wrong_violates_condition_2() {
    let stage = Stage::new(1);
    let at = DistrictId { w: 1, d: 4 };
    change(&stage.tpcc.tables.district, key::district(at), |row: &mut District| {
        row.next_order = U32::new(33);
    });
    let error = stage.violation();
    let expected = "condition 2 is violated in warehouse 1, district 4: D_NEXT_O_ID - 1 is 32, but the greatest O_ID is 30";
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("and 1 more"), "{error}");
}

#[test]
fn a_gap_in_the_new_orders_violates_condition_3() {
    let stage = Stage::new(1);
    let at = DistrictId { w: 1, d: 9 };
    stage
        .tpcc
        .tables
        .new_order
        .delete(latchkv::encode::encode(&key::order(at, 25)))
        .expect("a delete");
    let error = stage.violation();
    let expected = "condition 3 is violated in warehouse 1, district 9: the span of NO_O_ID is 9, but the number of new orders is 8";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_line_that_is_lost_violates_condition_4() {
    let stage = Stage::new(1);
    let at = DistrictId { w: 1, d: 1 };
    let line = latchkv::encode::encode(&key::order_line(at, 12, 3));
    assert!(stage.tpcc.tables.order_line.delete(line).expect("a delete"));
    let error = stage.violation();
    assert!(error.contains("condition 4 is violated in warehouse 1, district 1"), "{error}");
}

#[test]
fn a_row_of_another_layout_is_an_error_that_says_what_to_do() {
    let stage = Stage::new(1);
    let warehouse = latchkv::encode::encode(&key::warehouse(1));
    stage.tpcc.tables.warehouse.put(warehouse, b"short").expect("put");
    let error = stage.violation();
    assert!(error.contains("warehouse has 5 bytes") && error.contains("load"), "{error}");
}
