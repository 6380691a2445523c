//! The trees whose cores are in memory, by name, read without a lock.
//!
//! Immutable maps behind epoch-protected pointers (crossbeam-epoch): readers pin, look, and clone the
//! `Arc`; a writer copies one map, swaps its pointer, and leaves the old map to be freed once every reader of
//! then has unpinned.
//!
//! * [R1] A pointer is never null and is replaced only by a thread that excludes all other writers (the
//!   catalog's `definitions`), so a copy is never based on an old map.

use crate::btree::TreeCore;
use crate::name::{Name, NameRef, Named, ReadyHash};
use crossbeam_epoch::{Atomic, Guard, Owned};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Map = HashMap<Name, Arc<TreeCore>, ReadyHash>;

/// Maps by the hash of the name, so that adding a tree copies one of so many parts.
const PARTS: usize = 1024;
/// The part is said by the high bits of a hash, since the map takes the low ones.
const PART_SHIFT: u32 = 64 - PARTS.ilog2();

#[derive(Debug)]
pub(super) struct Registry(Box<[Atomic<Map>]>);

impl Registry {
    pub(super) fn new() -> Registry {
        Registry((0..PARTS).map(|_| Atomic::new(Map::default())).collect())
    }

    fn part(&self, name: NameRef<'_>) -> &Atomic<Map> {
        &self.0[(name.hash_of_name() >> PART_SHIFT) as usize]
    }

    fn map<'g>(part: &Atomic<Map>, guard: &'g Guard) -> &'g Map {
        // Acquire: pairs with the Release of `replace`, so that the map's content is seen.
        let shared = part.load(Ordering::Acquire, guard);
        // SAFETY: [R1], never null; what a pinned guard loaded is not freed before it unpins.
        unsafe { shared.deref() }
    }

    /// The core of that name.
    pub(super) fn get(&self, name: NameRef<'_>) -> Option<Arc<TreeCore>> {
        Self::map(self.part(name), &crossbeam_epoch::pin()).get(&name as &dyn Named).cloned()
    }

    /// Calls `f` for each core.
    pub(super) fn each(&self, mut f: impl FnMut(&Arc<TreeCore>)) {
        let guard = crossbeam_epoch::pin();
        for part in &self.0 {
            Self::map(part, &guard).values().for_each(&mut f);
        }
    }

    /// Adds a core. The caller excludes all other writers.
    pub(super) fn insert(&self, name: NameRef<'_>, core: Arc<TreeCore>) {
        self.replace(name, |map| {
            map.insert(name.to_name(), core);
        });
    }

    /// Removes a core. The caller excludes all other writers.
    pub(super) fn remove(&self, name: NameRef<'_>) {
        self.replace(name, |map| {
            map.remove(&name as &dyn Named);
        });
    }

    fn replace(&self, name: NameRef<'_>, change: impl FnOnce(&mut Map)) {
        let part = self.part(name);
        let guard = crossbeam_epoch::pin();
        let mut map = Self::map(part, &guard).clone();
        change(&mut map);
        // Release: pairs with the Acquire of `map`.
        let old = part.swap(Owned::new(map), Ordering::Release, &guard);
        // SAFETY: the swap made `old` unreachable for whoever pins from now on, and by [R1] it is ours alone
        // to free.
        unsafe { guard.defer_destroy(old) };
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        for part in std::mem::take(&mut self.0) {
            // SAFETY: `&mut self`, so nobody else reads the pointer any more; [R1], it is not null.
            drop(unsafe { part.into_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PageId, TreeId};

    #[test]
    fn names_are_found_until_they_are_removed_beside_readers() {
        let registry = Registry::new();
        let core = |id| Arc::new(TreeCore::new(TreeId(id), PageId(7), 0));
        fn named(text: &str) -> NameRef<'_> {
            NameRef::new(text).expect("a name")
        }
        registry.insert(named("stays"), core(1));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    assert_eq!(registry.get(named("stays")).map(|core| core.id), Some(TreeId(1)));
                }
            });
            for id in 0..500 {
                let text = format!("t{id}");
                let name = named(&text);
                registry.insert(name, core(id));
                assert_eq!(registry.get(name).map(|core| core.id), Some(TreeId(id)));
                registry.remove(name);
                assert!(registry.get(name).is_none());
            }
        });
        let mut count = 0;
        registry.each(|_| count += 1);
        assert_eq!(count, 1);
    }
}
