//! redb, with what it does by default: `Durability::Immediate` in one phase. Opened without durability, its commits
//! are `Durability::None`.

use super::store::{Keep, Keys, Reader, Records, Setup, Source, Store, Ways, time_begins};
use crate::Fail;
use hdrhistogram::Histogram;
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    Table, TableDefinition, WriteTransaction,
};
use std::path::Path;
use std::time::Instant;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// How redb does what is asked.
pub(super) const WAYS: Ways = Ways {
    durable: "Durability::Immediate, one phase: fdatasync of pages and header together",
    to_medium: true,
    load: "inserts in one transaction",
    retain: "Table::retain",
    compact: Some("Database::compact"),
    len: "kept by the engine",
    cache: "its own",
};

/// An open database.
pub(super) struct Redb {
    db: Database,
    durability: Durability,
}

impl Redb {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Redb, Fail> {
        let cache_bytes = usize::try_from(setup.cache_bytes)?;
        let db = Database::builder().set_cache_size(cache_bytes).create(path.join("bench.redb"))?;
        let durability = if setup.durable { Durability::Immediate } else { Durability::None };
        let store = Redb { db, durability };
        // Readers find the table from the beginning.
        store.commit(store.durability, |_| Ok(()))?;
        Ok(store)
    }

    /// Does `work` on the table, in one transaction.
    fn commit<R>(
        &self,
        durability: Durability,
        work: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let mut txn: WriteTransaction = self.db.begin_write()?;
        txn.set_durability(durability)?;
        let done = work(&mut txn.open_table(TABLE)?)?;
        txn.commit()?;
        Ok(done)
    }

    fn table(&self) -> Result<At, Fail> {
        Ok(At { table: self.db.begin_read()?.open_table(TABLE)? })
    }
}

/// The table as a read transaction sees it.
struct At {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Source for At {
    fn get_with<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Fail> {
        Ok(self.table.get(key)?.map(|value| see(value.value())))
    }

    fn scan_with(
        &self,
        start: &[u8],
        take: usize,
        mut see: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Fail> {
        for pair in self.table.range::<&[u8]>(start..)?.take(take) {
            let (key, value) = pair?;
            see(key.value(), value.value());
        }
        Ok(())
    }
}

impl Store for Redb {
    fn load_sorted(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.commit(Durability::Immediate, |table| {
            for (key, value) in records {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Fail> {
        self.commit(self.durability, |table| {
            table.insert(key, value)?;
            Ok(())
        })
    }

    fn change(&self, key: &[u8], change: &mut dyn FnMut(&mut Vec<u8>)) -> Result<bool, Fail> {
        self.commit(self.durability, |table| {
            let Some(mut value) = table.get(key)?.map(|value| value.value().to_vec()) else {
                return Ok(false);
            };
            change(&mut value);
            table.insert(key, &value[..])?;
            Ok(true)
        })
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        self.commit(self.durability, |table| {
            for (key, value) in records {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })
    }

    fn remove_all(&self, keys: &mut Keys<'_>) -> Result<(), Fail> {
        self.commit(self.durability, |table| {
            for key in keys {
                table.remove(&key[..])?;
            }
            Ok(())
        })
    }

    fn retain(&self, keep: &Keep<'_>) -> Result<(), Fail> {
        self.commit(self.durability, |table| Ok(table.retain(|key, _| keep(key))?))
    }

    fn len(&self) -> Result<u64, Fail> {
        Ok(self.table()?.table.len()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        Ok(Box::new(self.table()?))
    }

    fn pin(&self) -> Result<Box<dyn Reader + '_>, Fail> {
        self.reader()
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.begin_read()?))
    }

    fn compact(mut self: Box<Self>) -> Result<(), Fail> {
        self.db.compact()?;
        self.close()
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        Ok(self.db.close()?)
    }
}
