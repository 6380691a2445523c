//! The events of the microbenchmarks.
//!
//! An event is drawn from a seed, so several variants can do the same ones; a transaction that conflicts draws the same
//! again. What an event gives is the number of rows that its statements found or changed. That does not depend on how
//! threads interleave, but for `delete`, where it holds for the sum over all threads: of those who delete an id, one
//! finds it.
//!
//! Tested below.

use super::Micro;
use super::results::{Memory, Results};
use super::table::{C, INDEX, K, ROWS, Row, Table, c_of, index_key, k_of, row_key};
use crate::Fail;
use crate::engines::api::{Connection, Job, Txn};
use crate::workloads::zipf::Zipf;
use fastrand::Rng;
use std::marker::PhantomData;

/// Point selects of `read-only` and `read-write`.
const POINT_SELECTS: usize = 10;
/// Ids of `update-inlist`.
const INLIST_IDS: usize = 10;
/// Exponent of `update-zipf`, the default of sysbench.
const ZIPF_EXPONENT: f64 = 0.8;

/// Does events through a connection.
pub(crate) struct Worker<'a, C: Connection, M: Memory> {
    table: &'a Table,
    connection: &'a C,
    zipf: Zipf,
    results: Results<M>,
    tries: u64,
}

impl<'a, C: Connection, M: Memory> Worker<'a, C, M> {
    /// A worker on the table that the store of `connection` holds.
    pub(crate) fn new(table: &'a Table, connection: &'a C) -> Worker<'a, C, M> {
        let zipf = Zipf::new(u64::from(table.rows()), ZIPF_EXPONENT);
        Worker { table, connection, zipf, results: Results::default(), tries: 0 }
    }

    /// Transactions begun: more than were committed, if there were conflicts.
    pub(crate) fn tries(&self) -> u64 {
        self.tries
    }

    /// A sum over all rows that selects have sent. Other threads' changes show in it.
    pub(crate) fn sum(&self) -> u64 {
        self.results.sum()
    }

    /// Does the event of a seed. Gives the rows that it found or changed.
    pub(crate) fn event(&mut self, micro: Micro, seed: u64) -> latchkv::Result<u64> {
        let mut random = Rng::with_seed(seed);
        let table = self.table;
        match micro {
            Micro::PointSelect => self.point_select(table.any_id(&mut random)),
            Micro::Insert => {
                let id = table.new_id();
                self.transact(random, |run| run.insert(id))
            }
            Micro::Delete => self.transact(random, |run| {
                let id = run.any_id();
                run.delete(id)
            }),
            Micro::UpdateIndex => self.transact(random, |run| run.update_index()),
            Micro::UpdateNonindex | Micro::UpdateOne => {
                self.transact(random, |run| run.update_nonindex())
            }
            Micro::UpdateZipf => {
                let id = self.zipf.draw(&mut random) as u32 + 1;
                self.transact(random, |run| run.update_text(id))
            }
            Micro::UpdateInlist => self.transact(random, |run| {
                (0..INLIST_IDS).try_fold(0, |sum, _| Ok(sum + run.update_nonindex()?))
            }),
            Micro::WriteOnly => self.transact(random, |run| run.changes()),
            Micro::ReadOnly => self.transact(random, |run| run.selects(100)),
            Micro::ReadWrite100 => {
                self.transact(random, |run| Ok(run.selects(100)? + run.changes()?))
            }
            Micro::ReadWrite10 => {
                self.transact(random, |run| Ok(run.selects(10)? + run.changes()?))
            }
        }
    }

    fn point_select(&mut self, id: u32) -> latchkv::Result<u64> {
        let Worker { connection, results, .. } = self;
        connection
            .get_with(&connection.trees()[ROWS], &row_key(id), |row| results.add(c_of(row)))?;
        Ok(results.end())
    }

    fn transact(
        &mut self,
        random: Rng,
        mut f: impl FnMut(&mut Statements<'_, C::Tree, C::Txn<'_>, M>) -> latchkv::Result<u64>,
    ) -> latchkv::Result<u64> {
        let Worker { table, connection, results, tries, .. } = self;
        connection.transact(|txn| {
            *tries += 1;
            let (trees, random) = (connection.trees(), random.clone());
            f(&mut Statements { table, trees, txn, results, random })
        })
    }
}

/// Events of some seeds, on a connection of the thread that runs it.
pub(crate) struct Events<'a, M> {
    table: &'a Table,
    micro: Micro,
    seeds: &'a [u64],
    memory: PhantomData<M>,
}

impl<'a, M: Memory> Events<'a, M> {
    pub(crate) fn new(table: &'a Table, micro: Micro, seeds: &'a [u64]) -> Events<'a, M> {
        Events { table, micro, seeds, memory: PhantomData }
    }
}

/// What came of some events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Rows that they found or changed.
    pub(crate) rows: u64,
    /// See [`Worker::sum`].
    pub(crate) sum: u64,
}

impl<M: Memory> Job for Events<'_, M> {
    type Output = Done;

    fn run<C: Connection>(self, connection: &C) -> Result<Done, Fail> {
        let mut worker = Worker::<C, M>::new(self.table, connection);
        let mut rows = 0;
        for &seed in self.seeds {
            rows += worker.event(self.micro, seed)?;
        }
        Ok(Done { rows, sum: worker.sum() })
    }
}

/// The statements of one transaction. Each gives the rows that it found or changed.
struct Statements<'a, T, X, M: Memory> {
    table: &'a Table,
    trees: &'a [T],
    txn: &'a mut X,
    results: &'a mut Results<M>,
    random: Rng,
}

impl<T, X: Txn<T>, M: Memory> Statements<'_, T, X, M> {
    fn any_id(&mut self) -> u32 {
        self.table.any_id(&mut self.random)
    }

    /// A row as the transaction sees it. One of another length is damaged and counts as none; [`Table::check`] names it.
    fn row(&self, id: u32) -> latchkv::Result<Option<Row>> {
        let row = self.txn.get_with(&self.trees[ROWS], &row_key(id), |row| Row::try_from(row).ok());
        Ok(row?.flatten())
    }

    /// `SELECT c`, ten times, and the four selects of ranges.
    fn selects(&mut self, range: u32) -> latchkv::Result<u64> {
        let mut rows = 0;
        for _ in 0..POINT_SELECTS {
            let key = row_key(self.any_id());
            let Statements { txn, trees, results, .. } = self;
            txn.get_with(&trees[ROWS], &key, |row| results.add(c_of(row)))?;
            rows += self.results.end();
        }
        self.select_range(range)?;
        rows += self.results.end();
        rows += self.select_sum(range)?;
        self.select_range(range)?;
        self.results.sort(false);
        rows += self.results.end();
        self.select_range(range)?;
        // Which rows are alike depends on what other threads have written, their number does not.
        std::hint::black_box(self.results.sort(true));
        rows += self.results.end();
        Ok(rows)
    }

    /// Keys of the first of `ids` ids, and of the one behind them.
    fn range(&mut self, ids: u32) -> ([u8; 4], [u8; 4]) {
        let first = self.any_id();
        (row_key(first), row_key(first.saturating_add(ids)))
    }

    /// `SELECT c WHERE id BETWEEN ..`; the rows stay in `results`.
    fn select_range(&mut self, ids: u32) -> latchkv::Result<()> {
        let (first, end) = self.range(ids);
        let Statements { txn, trees, results, .. } = self;
        for row in txn.range(&trees[ROWS], &first, &end)? {
            results.add(c_of(row?.value()));
        }
        Ok(())
    }

    /// `SELECT SUM(k) WHERE id BETWEEN ..`
    fn select_sum(&mut self, ids: u32) -> latchkv::Result<u64> {
        let (first, end) = self.range(ids);
        let (mut rows, mut sum) = (0, 0);
        for row in self.txn.range(&self.trees[ROWS], &first, &end)? {
            rows += 1;
            sum += u64::from(k_of(row?.value()));
        }
        std::hint::black_box(sum);
        Ok(rows)
    }

    /// `SET k = k + 1`
    fn update_index(&mut self) -> latchkv::Result<u64> {
        let id = self.any_id();
        let Some(mut row) = self.row(id)? else { return Ok(0) };
        let k = k_of(&row);
        let next = k.wrapping_add(1);
        row[K].copy_from_slice(&next.to_le_bytes());
        self.txn.put(&self.trees[ROWS], &row_key(id), &row)?;
        self.txn.delete(&self.trees[INDEX], &index_key(k, id))?;
        self.txn.put(&self.trees[INDEX], &index_key(next, id), &[])?;
        Ok(1)
    }

    /// `SET c = ?`
    fn update_nonindex(&mut self) -> latchkv::Result<u64> {
        let id = self.any_id();
        self.update_text(id)
    }

    fn update_text(&mut self, id: u32) -> latchkv::Result<u64> {
        let Some(mut row) = self.row(id)? else { return Ok(0) };
        self.table.text(self.random.u64(..), &mut row[C]);
        self.txn.put(&self.trees[ROWS], &row_key(id), &row)?;
        Ok(1)
    }

    /// `DELETE WHERE id = ?`
    fn delete(&mut self, id: u32) -> latchkv::Result<u64> {
        let Some(row) = self.row(id)? else { return Ok(0) };
        self.txn.delete(&self.trees[ROWS], &row_key(id))?;
        self.txn.delete(&self.trees[INDEX], &index_key(k_of(&row), id))?;
        Ok(1)
    }

    /// `INSERT` of an id that is not there.
    fn insert(&mut self, id: u32) -> latchkv::Result<u64> {
        let k = self.any_id();
        let row = self.table.row(k, self.random.u64(..));
        if !self.txn.insert(&self.trees[ROWS], &row_key(id), &row)? {
            return Ok(0);
        }
        self.txn.put(&self.trees[INDEX], &index_key(k, id), &[])?;
        Ok(1)
    }

    /// What `write-only` does.
    fn changes(&mut self) -> latchkv::Result<u64> {
        let updated = self.update_index()? + self.update_nonindex()?;
        let id = self.any_id();
        Ok(updated + self.delete(id)? + self.insert(id)?)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::results::{Arena, Hidden, Known, Referenced};
    use super::super::table::TREES;
    use super::*;
    use crate::engines::api::{Access, Api, Store};
    use clap::ValueEnum;

    /// An empty store, and where it lies.
    pub(in super::super) fn store(api: Api) -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = latchkv::Options::new()
            .cache_bytes(16 << 20)
            .huge_pages(false)
            .durability(latchkv::Durability::None);
        let access = Access { roles: 2, ..Access::new(api, 2) };
        let store = Store::create(&dir.path().join("db"), &options, access, "sbtest", &TREES);
        (dir, store.expect("a store"))
    }

    /// Rows, and the sum of what was sent.
    fn events<M: Memory>(
        store: &Store,
        table: &Table,
        micro: Micro,
        seeds: std::ops::Range<u64>,
    ) -> (u64, u64) {
        let seeds: Vec<u64> = seeds.collect();
        let done = store.run(Events::<M>::new(table, micro, &seeds)).expect("runs");
        (done.rows, done.sum)
    }

    #[test]
    fn rows_and_index_agree_after_each_microbenchmark_and_both_apis_do_the_same() {
        let (_plain_dir, plain) = store(Api::Plain);
        let (_session_dir, session) = store(Api::Session);
        for &micro in Micro::value_variants() {
            let [by_plain, by_session] = [&plain, &session].map(|store| {
                let table = Table::load(store, micro, 300, 1).expect("loads");
                let before = table.check(store).expect("agrees");
                let done = events::<Arena>(store, &table, micro, 0..60);
                let after = table.check(store).expect("agrees");
                (before, done, after)
            });
            assert_eq!(by_plain, by_session, "{micro:?}");
            let (before, (rows, ..), after) = by_plain;
            let (expected_rows, expected_len) = match micro {
                Micro::Delete => (before.0 - after.0, after.0),
                Micro::Insert => (60, before.0 + 60),
                Micro::UpdateInlist => (600, before.0),
                Micro::WriteOnly => (240, before.0),
                Micro::ReadOnly | Micro::ReadWrite100 | Micro::ReadWrite10 => (rows, before.0),
                _ => (60, before.0),
            };
            assert_eq!((rows, after.0), (expected_rows, expected_len), "{micro:?}");
            assert_eq!(
                before.1 == after.1,
                matches!(
                    micro,
                    Micro::ReadOnly
                        | Micro::PointSelect
                        | Micro::UpdateNonindex
                        | Micro::UpdateInlist
                        | Micro::UpdateOne
                        | Micro::UpdateZipf
                ),
                "{micro:?} changes k, or who is there, and nothing else does"
            );
        }
    }

    #[test]
    fn a_read_only_event_finds_ten_rows_and_four_ranges() {
        let (_dir, store) = store(Api::Plain);
        let table = Table::load(&store, Micro::ReadOnly, 5000, 1).expect("loads");
        let (rows, _) = events::<Arena>(&store, &table, Micro::ReadOnly, 0..20);
        // Only a range that begins at the end of the table is shorter.
        assert!((20 * 390..=20 * 410).contains(&rows), "{rows}");
    }

    #[test]
    fn every_memory_sees_the_same_rows() {
        let (_dir, store) = store(Api::Plain);
        let sums = |micro| {
            let load = || Table::load(&store, micro, 300, 1).expect("loads");
            let others = [
                events::<Known>(&store, &load(), micro, 0..20),
                events::<Hidden>(&store, &load(), micro, 0..20),
                events::<Referenced>(&store, &load(), micro, 0..20),
            ];
            (events::<Arena>(&store, &load(), micro, 0..20), others)
        };
        for micro in [Micro::PointSelect, Micro::ReadOnly, Micro::ReadWrite100] {
            let (arena, others) = sums(micro);
            assert_eq!(others, [arena; 3], "{micro:?}");
        }
    }

    #[test]
    fn threads_that_delete_the_same_ids_find_each_once_and_leave_rows_and_index_agreeing() {
        for api in [Api::Plain, Api::Session] {
            let (_dir, store) = store(api);
            let table = Table::load(&store, Micro::Delete, 200, 1).expect("loads");
            let deleted: u64 = std::thread::scope(|scope| {
                let run = || events::<Arena>(&store, &table, Micro::Delete, 0..150);
                let both = [scope.spawn(run), scope.spawn(run)];
                both.map(|thread| thread.join().expect("no panic").0).iter().sum()
            });
            assert_eq!(table.check(&store).expect("agrees").0, 200 - deleted);
            assert_eq!(u64::from(table.refill(&store).expect("fills")), deleted);
        }
    }

    #[test]
    fn threads_that_update_one_row_begin_again_until_all_is_done() {
        let (_dir, store) = store(Api::Session);
        let table = Table::load(&store, Micro::UpdateOne, 200, 1).expect("loads");
        std::thread::scope(|scope| {
            let run = || events::<Arena>(&store, &table, Micro::UpdateOne, 0..100);
            for thread in [scope.spawn(run), scope.spawn(run)] {
                assert_eq!(thread.join().expect("no panic").0, 100);
            }
        });
        assert_eq!(table.check(&store).expect("agrees").0, 1);
    }
}
