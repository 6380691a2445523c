//! Calls that make, name, clear, fill and drop trees.

use super::{Live, NAMES, Said, TREES_MAX};
use crate::oracle::{Bytes, Content};
use fastrand::Rng;
use latchkv::Durability;
use std::sync::Arc;

impl Live {
    fn free_name(&self, rng: &mut Rng) -> Option<&'static str> {
        let free = NAMES.into_iter().filter(|name| !self.handles.contains_key(*name));
        let free = free.collect::<Vec<_>>();
        free.get(rng.usize(0..free.len().max(1))).copied()
    }

    pub(super) fn create(&mut self, rng: &mut Rng) -> Said {
        if self.handles.len() >= TREES_MAX {
            return self.put(rng);
        }
        let name = self.free_name(rng).expect("more names than trees");
        let mut after = self.oracle.state().clone();
        after.trees.insert(name.into(), Arc::default());
        let began = self.now();
        let made = self.db().tree(name);
        let called = made.map(|tree| drop(self.handles.insert(name.into(), tree)));
        if called.is_ok() {
            self.pristine.insert(name.into());
        }
        self.called("create", called, began, after, self.durability, true)
    }

    pub(super) fn drop_tree(&mut self, rng: &mut Rng) -> Said {
        let Some((name, _)) = self.draw_tree(rng) else { return Ok(()) };
        let mut after = self.oracle.state().clone();
        after.trees.remove(&name);
        let began = self.now();
        let called = self.db().drop_tree(&name).map(drop);
        if called.is_ok() {
            self.handles.remove(&name);
        }
        self.called("drop", called, began, after, self.durability, true)
    }

    pub(super) fn rename(&mut self, rng: &mut Rng) -> Said {
        let Some((from, _)) = self.draw_tree(rng) else { return Ok(()) };
        let Some(to) = self.free_name(rng) else { return Ok(()) };
        let mut after = self.oracle.state().clone();
        let content = after.trees.remove(&from).expect("the workload knows its trees");
        after.trees.insert(to.into(), content);
        let began = self.now();
        let called = self.db().rename_tree(&from, to);
        if called.is_ok() {
            let tree = self.handles.remove(&from).expect("the workload knows its trees");
            self.handles.insert(to.into(), tree);
            if self.pristine.remove(&from) {
                self.pristine.insert(to.into());
            }
        }
        self.called("rename", called, began, after, self.durability, true)
    }

    pub(super) fn clear(&mut self, rng: &mut Rng) -> Said {
        let Some((name, tree)) = self.draw_tree(rng) else { return Ok(()) };
        let mut after = self.oracle.state().clone();
        after.trees.insert(Arc::clone(&name), Arc::default());
        let began = self.now();
        let called = tree.clear();
        if called.is_ok() {
            self.pristine.insert(name);
        }
        self.called("clear", called, began, after, self.durability, true)
    }

    /// Into a tree that holds nothing, and never did, nor did since it was cleared.
    pub(super) fn bulk_load(&mut self, rng: &mut Rng) -> Said {
        if self.handles.len() < TREES_MAX {
            self.create(rng)?;
        } else {
            self.clear(rng)?;
        }
        let empty = self.oracle.state().trees.iter().filter(|(_, content)| content.is_empty());
        let empty = empty.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>();
        let (false, Some(name)) = (self.is_dead, empty.get(rng.usize(0..empty.len().max(1))))
        else {
            return Ok(());
        };
        let is_pristine = self.pristine.contains(name);
        if self.is_faulty && !is_pristine {
            return Ok(());
        }
        let records = (0..rng.u32(0..120)).map(|number| {
            let len = if self.scope.large && rng.u8(0..40) == 0 { 3_000 } else { 60 };
            (Bytes::from(number.to_be_bytes()), self.value(len))
        });
        let records = records.collect::<Content>();
        let tree = self.handles[name].clone();
        let began = self.now();
        // One that lost its records to deletes may be filled one by one.
        let mut partly = self.oracle.state().clone();
        let called = tree.bulk_load(&records);
        let mut after = partly.clone();
        after.trees.insert(Arc::clone(name), Arc::new(records.clone()));
        if called.is_ok() {
            let in_part = if is_pristine { 0 } else { records.len().saturating_sub(1) };
            for (key, value) in records.iter().take(in_part) {
                partly.set(name, key, Some(value));
                self.oracle.push("bulk load, in part", partly.clone(), began);
            }
        }
        self.called("bulk load", called.map(drop), began, after, Durability::Sync, true)
    }
}
