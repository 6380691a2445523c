//! redb, with what it does by default: `Durability::Immediate` in one phase.

use super::{Durable, Records, Setup, time_begins};
use crate::Fail;
use crate::data::Key;
use hdrhistogram::Histogram;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;
use std::time::Instant;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bench");

/// An open database.
pub(super) struct Redb {
    db: Database,
}

impl Redb {
    pub(super) fn open(path: &Path, setup: Setup) -> Result<Redb, Fail> {
        let cache_bytes = usize::try_from(setup.cache_bytes)?;
        let db = Database::builder().set_cache_size(cache_bytes).create(path.join("bench.redb"))?;
        let store = Redb { db };
        // Readers find the table from the beginning.
        store.put_all(&mut std::iter::empty())?;
        Ok(store)
    }
}

impl Durable for Redb {
    fn how(&self) -> &'static str {
        "Durability::Immediate, one phase: fdatasync of pages and header together"
    }

    fn put_each(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        for record in records {
            self.put_all(&mut std::iter::once(record))?;
        }
        Ok(())
    }

    fn put_all(&self, records: &mut Records<'_>) -> Result<(), Fail> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in records {
                table.insert(&key[..], &value[..])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn remove_all(&self, keys: &mut dyn Iterator<Item = Key>) -> Result<(), Fail> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        {
            let mut table = txn.open_table(TABLE)?;
            for key in keys {
                table.remove(&key[..])?;
            }
        }
        Ok(txn.commit()?)
    }

    fn begins(&self, until: Instant) -> Result<Histogram<u64>, Fail> {
        time_begins(until, || Ok(self.db.begin_read()?))
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Fail> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(&key[..])?.map(|value| value.value().to_vec()))
    }

    fn close(self: Box<Self>) -> Result<(), Fail> {
        Ok(self.db.close()?)
    }
}
