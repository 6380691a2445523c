//! The table `sbtest` and its index.
//!
//! ```text
//! row        [ k : 4 ][ c : 120 ][ pad : 60 ]     CHAR columns, with one space behind 119 and 59 characters
//! index      [ k : 4 ][ id : 4 ]                  keys are big-endian
//! ```
//!
//! A [`Table`] belongs to one store: ids of new rows are counted by it.

use super::Micro;
use crate::Fail;
use crate::data::mix;
use crate::engines::api::Store;
use latchkv::Tree;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The trees of a table: its rows and its index.
pub(crate) const TREES: [&str; 2] = ["rows", "k"];
/// Place of the rows in [`TREES`].
pub(super) const ROWS: usize = 0;
/// Place of the index in [`TREES`].
pub(super) const INDEX: usize = 1;

/// Column k.
pub(super) const K: Range<usize> = 0..4;
/// Column c.
pub(super) const C: Range<usize> = 4..124;
/// Column pad.
const PAD: Range<usize> = 124..184;
/// Bytes of a row.
pub(super) const ROW_BYTES: usize = PAD.end;

/// A row without its id.
pub(super) type Row = [u8; ROW_BYTES];

/// Characters of a group of digits, with the dash behind it.
const GROUP: usize = 12;
/// Groups of the pool from which strings are taken.
const POOL_GROUPS: usize = 4096;

/// Key of a row.
pub(super) fn row_key(id: u32) -> [u8; 4] {
    id.to_be_bytes()
}

/// Key in the index.
pub(super) fn index_key(k: u32, id: u32) -> [u8; 8] {
    (u64::from(k) << 32 | u64::from(id)).to_be_bytes()
}

/// Column k of a row; 0 of what is too short to be one.
pub(super) fn k_of(row: &[u8]) -> u32 {
    row.first_chunk().map_or(0, |k| u32::from_le_bytes(*k))
}

/// Column c of a row; nothing of what is too short to be one.
pub(super) fn c_of(row: &[u8]) -> &[u8] {
    row.get(C).unwrap_or_default()
}

/// See the module head.
pub(crate) struct Table {
    seed: u64,
    /// Rows that it is loaded with: ids from 1 on.
    rows: u32,
    /// The next new id.
    next: AtomicU32,
    /// Groups of eleven random digits and a dash.
    pool: Vec<u8>,
}

impl Table {
    /// A table of `rows` rows as `micro` wants them, in place of what is in the trees of `store`.
    pub(crate) fn load(store: &Store, micro: Micro, rows: u32, seed: u64) -> Result<Table, Fail> {
        let rows = micro.rows(rows);
        let mut random = fastrand::Rng::with_seed(seed);
        let digits = (0..POOL_GROUPS * GROUP).map(|at| match at % GROUP {
            11 => b'-',
            _ => random.u8(b'0'..=b'9'),
        });
        let table = Table { seed, rows, next: AtomicU32::new(rows + 1), pool: digits.collect() };
        for tree in store.trees() {
            tree.clear()?;
        }
        let ids = 1..=rows;
        let loaded = ids.clone().map(|id| (row_key(id), table.loaded(id)));
        store.trees()[ROWS].bulk_load(loaded)?;
        let mut index: Vec<[u8; 8]> = ids.map(|id| index_key(table.loaded_k(id), id)).collect();
        index.sort_unstable();
        store.trees()[INDEX].bulk_load(index.into_iter().map(|key| (key, [0_u8; 0])))?;
        Ok(table)
    }

    /// Rows that it was loaded with.
    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    /// An id that nobody else gets.
    pub(super) fn new_id(&self) -> u32 {
        // Relaxed: the numbers only have to differ.
        self.next.fetch_add(1, Relaxed)
    }

    /// A value of column k, or an id.
    pub(super) fn any_id(&self, random: &mut fastrand::Rng) -> u32 {
        random.u32(1..=self.rows)
    }

    /// Fills a CHAR column with digits that `random` names.
    pub(super) fn text(&self, random: u64, column: &mut [u8]) {
        let chars = column.len() - 1;
        let from = random as usize % (POOL_GROUPS - column.len() / GROUP) * GROUP;
        column[..chars].copy_from_slice(&self.pool[from..from + chars]);
        column[chars] = b' ';
    }

    /// A row.
    pub(super) fn row(&self, k: u32, random: u64) -> Row {
        let mut row = [0; ROW_BYTES];
        row[K].copy_from_slice(&k.to_le_bytes());
        self.text(random, &mut row[C]);
        self.text(random >> 32, &mut row[PAD]);
        row
    }

    fn loaded_k(&self, id: u32) -> u32 {
        (mix(self.seed ^ u64::from(id)) % u64::from(self.rows)) as u32 + 1
    }

    /// The row that `id` was loaded with.
    fn loaded(&self, id: u32) -> Row {
        self.row(self.loaded_k(id), mix(self.seed ^ u64::from(id) << 32))
    }

    /// Puts back the rows that were deleted of those that it was loaded with. Gives their number.
    pub(crate) fn refill(&self, store: &Store) -> Result<u32, Fail> {
        let (rows, index) = (&store.trees()[ROWS], &store.trees()[INDEX]);
        let mut missing = Vec::new();
        let mut expected = 1..=self.rows;
        for entry in rows.range::<&[u8]>(..=&row_key(self.rows)[..]) {
            let entry = entry?;
            // Ids ascend, so what is passed over is missing.
            missing.extend(expected.by_ref().take_while(|&id| row_key(id) != entry.key()));
        }
        missing.extend(expected);
        for &id in &missing {
            rows.put(row_key(id), self.loaded(id))?;
            index.put(index_key(self.loaded_k(id), id), [])?;
        }
        Ok(missing.len() as u32)
    }

    /// Looks whether rows and index agree, and sums over both. Gives the number of rows and the sum.
    ///
    /// # Errors
    /// A row without its index entry, an entry without its row, a row of another length.
    pub(crate) fn check(&self, store: &Store) -> Result<(u64, u64), Fail> {
        let (rows, index) = (&store.trees()[ROWS], &store.trees()[INDEX]);
        let (mut count, mut sum) = (0, 0_u64);
        for entry in rows.iter() {
            let entry = entry?;
            let id = id_of(entry.key())?;
            if entry.value().len() != ROW_BYTES {
                return Err(format!("row {id} has {} bytes", entry.value().len()).into());
            }
            let k = k_of(entry.value());
            if !index.contains(index_key(k, id))? {
                return Err(format!("row {id} has k = {k}, and the index does not say so").into());
            }
            count += 1;
            sum = sum.wrapping_add(mix(u64::from(id) << 32 | u64::from(k)));
        }
        let entries = counted(index)?;
        if entries != count {
            return Err(format!("{count} rows, but {entries} entries of the index").into());
        }
        Ok((count, sum))
    }
}

fn id_of(key: &[u8]) -> Result<u32, Fail> {
    let id = key.try_into().map_err(|_| format!("a row's key has {} bytes", key.len()))?;
    Ok(u32::from_be_bytes(id))
}

fn counted(tree: &Tree) -> Result<u64, Fail> {
    let mut count = 0;
    for entry in tree.iter() {
        entry?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::super::event::tests::store;
    use super::*;
    use crate::engines::api::Api;

    #[test]
    fn refill_puts_back_what_is_missing_anywhere() {
        let (_dir, store) = store(Api::Plain);
        let table = Table::load(&store, Micro::Delete, 50, 1).expect("loads");
        let before = table.check(&store).expect("agrees");
        for id in [1, 2, 17, 49, 50] {
            store.trees()[ROWS].delete(row_key(id)).expect("deletes");
            store.trees()[INDEX].delete(index_key(table.loaded_k(id), id)).expect("deletes");
        }
        assert_eq!(table.check(&store).expect("agrees").0, 45);
        assert_eq!(table.refill(&store).expect("fills"), 5);
        assert_eq!(table.check(&store).expect("agrees"), before);
        assert_eq!(table.refill(&store).expect("fills"), 0);
    }

    #[test]
    fn a_row_without_its_index_entry_is_found_and_an_entry_without_its_row() {
        let (_dir, store) = store(Api::Plain);
        let table = Table::load(&store, Micro::Delete, 20, 1).expect("loads");
        store.trees()[INDEX].put(index_key(5, 4711), []).expect("puts");
        assert!(table.check(&store).is_err());
        let table = Table::load(&store, Micro::Delete, 20, 1).expect("loads");
        table.check(&store).expect("agrees");
        store.trees()[INDEX].delete(index_key(table.loaded_k(7), 7)).expect("deletes");
        assert!(table.check(&store).is_err());
    }

    #[test]
    fn strings_are_groups_of_digits_padded_by_a_space() {
        let (_dir, store) = store(Api::Plain);
        let table = Table::load(&store, Micro::Delete, 1, 1).expect("loads");
        for random in [0, 1, 4711, u64::MAX] {
            let row = table.row(1, random);
            for column in [&row[C], &row[PAD]] {
                let (space, text) = column.split_last().expect("columns are not empty");
                assert_eq!(*space, b' ');
                for (at, &byte) in text.iter().enumerate() {
                    assert!(if at % GROUP == 11 { byte == b'-' } else { byte.is_ascii_digit() });
                }
            }
        }
    }
}
