//! Calls that change records: one, or several in a batch.

use super::{Live, Said, draw_durability};
use crate::oracle::Bytes;
use fastrand::Rng;
use latchkv::{CompareAndSwap, Durability, Error, WriteBatch};
use std::sync::Arc;

impl Live {
    pub(super) fn put(&mut self, rng: &mut Rng) -> Said {
        let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
        let (key, value) = (self.draw_key(rng), self.draw_value(rng));
        let mut after = self.oracle.state().clone();
        after.set(&name, &key, Some(&value));
        self.commit("put", after, self.durability, |_| tree.put(&key, &value))
    }

    pub(super) fn insert(&mut self, rng: &mut Rng) -> Said {
        let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
        let (key, value) = (self.draw_key(rng), self.draw_value(rng));
        let mut after = self.oracle.state().clone();
        let is_new = after.get(&name, &key).is_none();
        if is_new {
            after.set(&name, &key, Some(&value));
        }
        let mut inserted = is_new;
        let began = self.now();
        let called = tree.insert(&key, &value).map(|done| inserted = done);
        if inserted != is_new {
            return Err(format!("insert said {inserted} of a key that is there: {}", !is_new));
        }
        self.called("insert", called, began, after, self.level_if(is_new), false)
    }

    /// Who changed nothing was promised nothing.
    fn level_if(&self, changed: bool) -> Durability {
        if changed { self.durability } else { Durability::None }
    }

    pub(super) fn delete(&mut self, rng: &mut Rng) -> Said {
        let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
        let key = self.draw_known_key(&name, rng);
        let mut after = self.oracle.state().clone();
        let was = after.get(&name, &key).is_some();
        after.set(&name, &key, None);
        let mut deleted = was;
        let began = self.now();
        let called = tree.delete(&key).map(|done| deleted = done);
        if deleted != was {
            return Err(format!("delete said {deleted} of a key that was there: {was}"));
        }
        self.called("delete", called, began, after, self.level_if(was), false)
    }

    pub(super) fn swap(&mut self, rng: &mut Rng) -> Said {
        let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
        let key = self.draw_known_key(&name, rng);
        let current = self.oracle.state().get(&name, &key).cloned();
        let new = if rng.u8(0..4) == 0 { None } else { Some(self.draw_value(rng)) };
        let is_right = rng.u8(0..5) > 0;
        let wrong: Bytes = Arc::from(&b"what is not there"[..]);
        let expected = if is_right { current.clone() } else { Some(wrong) };
        let mut after = self.oracle.state().clone();
        if is_right {
            after.set(&name, &key, new.as_ref());
        }
        let began = self.now();
        let called = tree.compare_and_swap(&key, expected.as_deref(), new.as_deref());
        let swapped = match &called {
            Ok(CompareAndSwap::Swapped) => true,
            Ok(CompareAndSwap::Mismatch { current: found }) => {
                if found.as_deref() != current.as_deref() {
                    return Err("a swap found another value than the last".into());
                }
                false
            }
            Err(_) => is_right,
        };
        if swapped != is_right {
            return Err(format!("a swap that should say {is_right} said {swapped}"));
        }
        let is_change = is_right && (current.is_some() || new.is_some());
        self.called("swap", called.map(drop), began, after, self.level_if(is_change), false)
    }

    pub(super) fn batch(&mut self, rng: &mut Rng) -> Said {
        let count = rng.usize(1..8);
        self.write_batch("batch", count, None, rng)
    }

    /// A commit that needs several records.
    pub(super) fn large_batch(&mut self, rng: &mut Rng) -> Said {
        if !self.scope.large {
            return self.batch(rng);
        }
        let (count, len) = if rng.bool() { (rng.usize(60..150), 500) } else { (3, 30_000) };
        self.write_batch("large batch", count, Some(len), rng)
    }

    fn write_batch(
        &mut self,
        what: &'static str,
        count: usize,
        len: Option<usize>,
        rng: &mut Rng,
    ) -> Said {
        let mut batch = WriteBatch::new();
        let mut after = self.oracle.state().clone();
        for number in 0..count {
            let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
            let said = |error: Error| format!("a batch: {error}");
            if len.is_none() && rng.u8(0..4) == 0 {
                let key = self.draw_known_key(&name, rng);
                batch.delete(&tree, &key).map_err(said)?;
                after.set(&name, &key, None);
                continue;
            }
            let key = match len {
                Some(_) => format!("large {number:03}").into_bytes(),
                None => self.draw_key(rng),
            };
            let value = match len {
                Some(len) => self.value(len),
                None => self.draw_value(rng),
            };
            batch.put(&tree, &key, &value).map_err(said)?;
            after.set(&name, &key, Some(&value));
        }
        let level = draw_durability(rng);
        self.commit(what, after, level, |live| live.db().write_with(&batch, level).map(drop))
    }
}
