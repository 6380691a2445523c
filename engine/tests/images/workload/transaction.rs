//! Transactions of both isolation levels: reads and scans that see their own writes, savepoints, and somebody who
//! comes between.

use super::{Live, Said, draw_durability};
use fastrand::Rng;
use latchkv::{Durability, Error, Isolation, TransactionOptions};
use std::collections::BTreeMap;

impl Live {
    pub(super) fn transaction(&mut self, rng: &mut Rng) -> Said {
        let level = draw_durability(rng);
        let isolation = if rng.bool() { Isolation::Snapshot } else { Isolation::Serializable };
        let terms = TransactionOptions::new().isolation(isolation).durability(level);
        let db = self.db().clone();
        let said = |error: Error| format!("in a transaction: {error}");
        let mut transaction = match db.begin_with(&terms) {
            Ok(transaction) => transaction,
            Err(error) => return self.failed("begin", &error, None, 0),
        };
        // What it sees, and what it changed.
        let mut seen = self.oracle.state().clone();
        let mut written = BTreeMap::new();
        let mut savepoint = None;
        let count = if self.scope.large && rng.u8(0..30) == 0 { 120 } else { rng.usize(1..9) };
        for _ in 0..count {
            let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
            let key = self.draw_known_key(&name, rng);
            match rng.u8(0..12) {
                0..5 => {
                    let value = self.draw_value(rng);
                    transaction.put(&tree, &key, &value).map_err(said)?;
                    seen.set(&name, &key, Some(&value));
                    written.insert((name, key), Some(value));
                }
                5..7 => match transaction.delete(&tree, &key) {
                    Ok(was) if was == seen.get(&name, &key).is_some() => {
                        if was {
                            seen.set(&name, &key, None);
                            written.insert((name, key), None);
                        }
                    }
                    Ok(was) => return Err(format!("a delete in a transaction said {was}")),
                    Err(error) => return self.failed("a read", &error, None, 0),
                },
                7..9 => match transaction.get_for_update(&tree, &key) {
                    Ok(found)
                        if found.as_deref() == seen.get(&name, &key).map(|value| &**value) => {}
                    Ok(_) => return Err("a read in a transaction gave another value".into()),
                    Err(error) => return self.failed("a read", &error, None, 0),
                },
                9 => {
                    let entries: latchkv::Result<Vec<_>> = transaction.iter(&tree).collect();
                    let entries = match entries {
                        Ok(entries) => entries,
                        Err(error) => return self.failed("a scan", &error, None, 0),
                    };
                    let expected = seen.trees[&name].iter();
                    let is_same = entries.len() == expected.len()
                        && entries.iter().zip(expected).all(|(entry, (key, value))| {
                            entry.key() == &**key && entry.value() == &**value
                        });
                    if !is_same {
                        return Err("a scan in a transaction gave something else".into());
                    }
                }
                10 => {
                    let place = transaction.savepoint();
                    savepoint = Some((place, seen.clone(), written.clone()));
                }
                _ => {
                    if let Some((place, state, writes)) = &savepoint {
                        transaction.rollback_to(*place).map_err(said)?;
                        (seen, written) = (state.clone(), writes.clone());
                    }
                }
            }
        }
        let mut is_disturbed = false;
        if rng.u8(0..6) == 0 {
            self.put(rng)?;
            is_disturbed = true;
            if self.is_dead {
                return Ok(());
            }
        }
        if rng.u8(0..12) == 0 {
            transaction.rollback();
            return Ok(());
        }
        // Upon what is there now, which somebody else may have changed.
        let mut after = self.oracle.state().clone();
        for ((name, key), value) in &written {
            after.set(name, key, value.as_ref());
        }
        let began = self.now();
        match transaction.commit().map(drop) {
            Err(Error::Conflict { .. }) if is_disturbed => Ok(()),
            committed => {
                let level = if written.is_empty() { Durability::None } else { level };
                self.called("transaction", committed, began, after, level, false)
            }
        }
    }
}
