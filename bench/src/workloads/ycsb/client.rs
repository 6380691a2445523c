//! A client: draws operations and does them.
//!
//! Records have numbers; those from 0 on were loaded, later ones are inserted. [`Numbers`] hands out the numbers of new
//! records to all clients of a run, and knows up to which all are there: only those are asked for, so no operation but a
//! scan ever finds nothing.
//!
//! Tested below.

use super::record::{Shape, key};
use super::store::Store;
use crate::Fail;
use crate::workloads::zipf::{Scrambled, Zipf};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How skewed the draws are, as in YCSB.
const EXPONENT: f64 = 0.99;
/// Records of the longest scan.
const SCAN_RECORDS_MAX: usize = 100;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Operation {
    /// All, in the order of their places.
    pub(crate) const ALL: [Operation; 5] = [
        Operation::Read,
        Operation::Update,
        Operation::Insert,
        Operation::Scan,
        Operation::ReadModifyWrite,
    ];

    /// What it is called in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
            Operation::ReadModifyWrite => "read-modify-write",
        }
    }
}

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Workload {
    /// Half reads, half updates
    A,
    /// Reads, and 5 % updates
    B,
    /// Reads
    C,
    /// Reads of the latest, and 5 % inserts
    D,
    /// Scans, and 5 % inserts
    E,
    /// Half reads, half read-modify-writes
    F,
}

impl Workload {
    /// The common operation, the other one, and how many of a hundred are that.
    fn mix(self) -> (Operation, Operation, u32) {
        match self {
            Workload::A => (Operation::Read, Operation::Update, 50),
            Workload::B => (Operation::Read, Operation::Update, 5),
            Workload::C => (Operation::Read, Operation::Read, 0),
            Workload::D => (Operation::Read, Operation::Insert, 5),
            Workload::E => (Operation::Scan, Operation::Insert, 5),
            Workload::F => (Operation::Read, Operation::ReadModifyWrite, 50),
        }
    }
}

/// Numbers of records, shared by the clients of a run.
pub(crate) struct Numbers {
    next: AtomicU64,
    /// All below it are there.
    known: AtomicU64,
    /// Those that are there beyond.
    beyond: Mutex<BTreeSet<u64>>,
}

impl Numbers {
    /// Of a store with that many records.
    pub(crate) fn new(loaded: u64) -> Numbers {
        let (next, known) = (AtomicU64::new(loaded), AtomicU64::new(loaded));
        Numbers { next, known, beyond: Mutex::default() }
    }

    /// Records that are there for sure, from the first on.
    pub(crate) fn known(&self) -> u64 {
        // Relaxed: a record is read from the store, which orders that by itself, once its insert has returned.
        self.known.load(Relaxed)
    }

    fn claim(&self) -> u64 {
        // Relaxed: the numbers only have to differ.
        self.next.fetch_add(1, Relaxed)
    }

    fn is_there(&self, number: u64) -> Result<(), Fail> {
        let mut beyond = self.beyond.lock().map_err(|_| "a client panicked")?;
        beyond.insert(number);
        let mut known = self.known();
        while beyond.remove(&known) {
            known += 1;
        }
        // Relaxed: under the lock, which alone changes it.
        self.known.store(known, Relaxed);
        Ok(())
    }
}

/// See the module head.
pub(crate) struct Client<'n> {
    workload: Workload,
    shape: Shape,
    numbers: &'n Numbers,
    random: Rng,
    scrambled: Scrambled,
    /// Ages, for so many records.
    ages: (u64, Zipf),
    value: Vec<u8>,
    sum: u64,
}

impl<'n> Client<'n> {
    /// A client of a store with `loaded` records, at least one. Each of a run needs another seed.
    pub(crate) fn new(
        workload: Workload,
        shape: Shape,
        loaded: u64,
        numbers: &'n Numbers,
        seed: u64,
    ) -> Client<'n> {
        Client {
            workload,
            shape,
            numbers,
            random: Rng::with_seed(seed),
            scrambled: Scrambled::new(loaded, EXPONENT),
            ages: (loaded, Zipf::new(loaded, EXPONENT)),
            value: Vec::new(),
            sum: 0,
        }
    }

    /// A sum over the lengths and first bytes of what was read, so that reading cannot be left out.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The number of the record to ask for.
    fn choose(&mut self) -> u64 {
        if self.workload != Workload::D {
            return self.scrambled.draw(&mut self.random);
        }
        let known = self.numbers.known();
        if self.ages.0 != known {
            self.ages = (known, Zipf::new(known, EXPONENT));
        }
        known - 1 - self.ages.1.draw(&mut self.random)
    }

    /// Draws an operation and does it.
    ///
    /// # Errors
    /// Those of the store, and a record that should be there and is not.
    pub(crate) fn step(&mut self, store: &impl Store) -> Result<Operation, Fail> {
        let (common, other, percent) = self.workload.mix();
        let operation = if self.random.u32(0..100) < percent { other } else { common };
        match operation {
            Operation::Insert => self.insert(store)?,
            Operation::Scan => self.scan(store)?,
            Operation::Read => {
                let number = self.choose();
                self.read(store, number)?;
            }
            Operation::Update => {
                let number = self.choose();
                self.update(store, number)?;
            }
            Operation::ReadModifyWrite => {
                let number = self.choose();
                self.read(store, number)?;
                self.update(store, number)?;
            }
        }
        Ok(operation)
    }

    fn read(&mut self, store: &impl Store, number: u64) -> Result<(), Fail> {
        let sum = &mut self.sum;
        found(number, store.read(&key(number), &mut |value| *sum = added(*sum, value))?)
    }

    fn update(&mut self, store: &impl Store, number: u64) -> Result<(), Fail> {
        let Client { shape, random, .. } = self;
        found(number, store.update(&key(number), &mut |value| shape.change(value, random))?)
    }

    fn scan(&mut self, store: &impl Store) -> Result<(), Fail> {
        let first = key(self.choose());
        let take = self.random.usize(1..=SCAN_RECORDS_MAX);
        let sum = &mut self.sum;
        store.scan(&first, take, &mut |_, value| *sum = added(*sum, value))
    }

    fn insert(&mut self, store: &impl Store) -> Result<(), Fail> {
        let number = self.numbers.claim();
        self.shape.fill(&mut self.value, &mut self.random);
        store.insert(&key(number), &self.value)?;
        self.numbers.is_there(number)
    }
}

fn added(sum: u64, value: &[u8]) -> u64 {
    let first = value.first().copied().unwrap_or_default();
    sum.wrapping_add(value.len() as u64).wrapping_add(u64::from(first))
}

fn found(number: u64, found: bool) -> Result<(), Fail> {
    if found { Ok(()) } else { Err(format!("record {number} is not there").into()) }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Connected, TREES, load};
    use super::*;
    use crate::data::Key;
    use crate::engines::api::{Access, Api, Connection, Job, Store as Database};
    use std::cell::RefCell;
    use std::collections::{BTreeMap, HashMap};

    const SHAPE: Shape = Shape { fields: 3, field_bytes: 5 };
    const LOADED: u64 = 200;

    /// A map that remembers what was asked for.
    #[derive(Default)]
    struct Model {
        records: RefCell<BTreeMap<Key, Vec<u8>>>,
        reads: RefCell<Vec<Key>>,
        scans: RefCell<Vec<usize>>,
    }

    impl Model {
        fn loaded() -> Model {
            let model = Model::default();
            let records = (0..LOADED).map(|number| (key(number), vec![0; SHAPE.value_bytes()]));
            model.records.borrow_mut().extend(records);
            model
        }
    }

    impl Store for Model {
        fn read(&self, key: &Key, f: &mut dyn FnMut(&[u8])) -> Result<bool, Fail> {
            self.reads.borrow_mut().push(*key);
            Ok(self.records.borrow().get(key).map(|value| f(value)).is_some())
        }

        fn update(&self, key: &Key, change: &mut dyn FnMut(&mut [u8])) -> Result<bool, Fail> {
            Ok(self.records.borrow_mut().get_mut(key).map(|value| change(value)).is_some())
        }

        fn insert(&self, key: &Key, value: &[u8]) -> Result<(), Fail> {
            self.records.borrow_mut().insert(*key, value.to_vec());
            Ok(())
        }

        fn scan(
            &self,
            first: &Key,
            take: usize,
            f: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Result<(), Fail> {
            self.scans.borrow_mut().push(take);
            let records = self.records.borrow();
            records.range(*first..).take(take).for_each(|(key, value)| f(key, value));
            Ok(())
        }
    }

    fn counts(
        workload: Workload,
        steps: usize,
        store: &impl Store,
    ) -> HashMap<&'static str, usize> {
        let numbers = Numbers::new(LOADED);
        let mut client = Client::new(workload, SHAPE, LOADED, &numbers, 1);
        let mut counts = HashMap::new();
        for _ in 0..steps {
            *counts.entry(client.step(store).expect("a step").name()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn the_shares_of_the_operations_are_those_of_the_paper() {
        let expected = [
            (Workload::A, [("read", 50), ("update", 50)].as_slice()),
            (Workload::B, &[("read", 95), ("update", 5)]),
            (Workload::C, &[("read", 100)]),
            (Workload::D, &[("read", 95), ("insert", 5)]),
            (Workload::E, &[("scan", 95), ("insert", 5)]),
            (Workload::F, &[("read", 50), ("read-modify-write", 50)]),
        ];
        for (workload, shares) in expected {
            let counts = counts(workload, 20_000, &Model::loaded());
            assert_eq!(counts.len(), shares.len(), "{workload:?}");
            for &(name, percent) in shares {
                // Five standard deviations of 20,000 draws are below 1.8 %.
                let off = counts[name].abs_diff(20_000 * percent / 100);
                assert!(off < 360, "{workload:?}: {} times {name}", counts[name]);
            }
        }
    }

    #[test]
    fn the_latest_records_are_read_most_and_new_ones_are_among_them() {
        let model = Model::loaded();
        counts(Workload::D, 5000, &model);
        let inserted = model.records.borrow().len() as u64 - LOADED;
        let reads = model.reads.borrow();
        let old: std::collections::HashSet<Key> = (0..LOADED).map(key).collect();
        let of_old = reads.iter().filter(|key| old.contains(*key)).count();
        assert!(inserted > 150, "{inserted}");
        assert!(
            of_old < reads.len() / 2,
            "{of_old} of {} reads are of what was loaded",
            reads.len()
        );
    }

    #[test]
    fn scans_have_all_lengths_from_one_to_a_hundred() {
        let model = Model::loaded();
        counts(Workload::E, 5000, &model);
        let lengths: BTreeSet<usize> = model.scans.borrow().iter().copied().collect();
        assert_eq!(lengths, (1..=SCAN_RECORDS_MAX).collect());
    }

    #[test]
    fn a_number_is_known_when_all_before_it_are_there() {
        let numbers = Numbers::new(10);
        let [first, second, third] = [(); 3].map(|()| numbers.claim());
        assert_eq!((first, second, third), (10, 11, 12));
        for (there, known) in [(second, 10), (first, 12), (third, 13)] {
            numbers.is_there(there).expect("no panic");
            assert_eq!(numbers.known(), known);
        }
    }

    /// Steps of one client.
    struct Steps<'n>(Workload, u64, &'n Numbers);

    impl Job for Steps<'_> {
        type Output = u64;

        fn run<C: Connection>(self, connection: &C) -> Result<u64, Fail> {
            let Steps(workload, seed, numbers) = self;
            let store = Connected::new(connection);
            let mut client = Client::new(workload, SHAPE, LOADED, numbers, seed);
            for _ in 0..300 {
                client.step(&store)?;
            }
            Ok(client.sum())
        }
    }

    fn database(api: Api) -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = latchkv::Options::new()
            .cache_bytes(16 << 20)
            .huge_pages(false)
            .durability(latchkv::Durability::None);
        let access = Access { roles: 1, ..Access::new(api, 2) };
        let store = Database::create(&dir.path().join("db"), &options, access, "ycsb", &TREES);
        (dir, store.expect("a store"))
    }

    #[test]
    fn both_apis_do_each_workload_alike_and_keep_all_records() {
        let (_plain_dir, plain) = database(Api::Plain);
        let (_session_dir, session) = database(Api::Session);
        for workload in <Workload as clap::ValueEnum>::value_variants() {
            let [by_plain, by_session] = [&plain, &session].map(|store| {
                load(store, LOADED, SHAPE, 1).expect("loads");
                let numbers = Numbers::new(LOADED);
                let sum = store.run(Steps(*workload, 1, &numbers)).expect("runs");
                assert_eq!(store.trees()[0].len().expect("counts"), numbers.known());
                for entry in store.trees()[0].iter() {
                    assert_eq!(entry.expect("reads").value().len(), SHAPE.value_bytes());
                }
                (sum, numbers.known())
            });
            assert_eq!(by_plain, by_session, "{workload:?}");
        }
    }

    #[test]
    fn two_clients_at_once_lose_no_insert() {
        let (_dir, store) = database(Api::Session);
        for workload in [Workload::A, Workload::D, Workload::F] {
            load(&store, LOADED, SHAPE, 1).expect("loads");
            let numbers = Numbers::new(LOADED);
            std::thread::scope(|scope| {
                let (store, numbers) = (&store, &numbers);
                let clients = [1, 2]
                    .map(|seed| scope.spawn(move || store.run(Steps(workload, seed, numbers))));
                for client in clients {
                    client.join().expect("no panic").expect("runs");
                }
            });
            assert_eq!(store.trees()[0].len().expect("counts"), numbers.known());
            let claimed = numbers.next.load(Relaxed);
            assert_eq!(numbers.known(), claimed);
        }
    }
}
