//! The trees whose cores are in memory, by name, read without a lock.
//!
//! An immutable map behind an epoch-protected pointer (crossbeam-epoch): readers pin, look, and clone the
//! `Arc`; a writer copies the map, swaps the pointer, and leaves the old map to be freed once every reader of
//! then has unpinned.
//!
//! * [R1] The pointer is never null and is replaced only by a thread that excludes all other writers (the
//!   catalog's `definitions`), so a copy is never based on an old map.

use crate::btree::TreeCore;
use crossbeam_epoch::{Atomic, Guard, Owned};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Map = HashMap<String, Arc<TreeCore>>;

#[derive(Debug)]
pub(super) struct Registry(Atomic<Map>);

impl Registry {
    pub(super) fn new() -> Registry {
        Registry(Atomic::new(Map::new()))
    }

    fn map<'g>(&self, guard: &'g Guard) -> &'g Map {
        // Acquire: pairs with the Release of `replace`, so that the map's content is seen.
        let shared = self.0.load(Ordering::Acquire, guard);
        // SAFETY: [R1], never null; what a pinned guard loaded is not freed before it unpins.
        unsafe { shared.deref() }
    }

    /// The core of that name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<TreeCore>> {
        self.map(&crossbeam_epoch::pin()).get(name).cloned()
    }

    /// Calls `f` for each core.
    pub(super) fn each(&self, f: impl FnMut(&Arc<TreeCore>)) {
        self.map(&crossbeam_epoch::pin()).values().for_each(f);
    }

    /// Adds a core. The caller excludes all other writers.
    pub(super) fn insert(&self, name: &str, core: Arc<TreeCore>) {
        self.replace(|map| {
            map.insert(name.to_owned(), core);
        });
    }

    /// Removes a core. The caller excludes all other writers.
    pub(super) fn remove(&self, name: &str) {
        self.replace(|map| {
            map.remove(name);
        });
    }

    fn replace(&self, change: impl FnOnce(&mut Map)) {
        let guard = crossbeam_epoch::pin();
        let mut map = self.map(&guard).clone();
        change(&mut map);
        // Release: pairs with the Acquire of `map`.
        let old = self.0.swap(Owned::new(map), Ordering::Release, &guard);
        // SAFETY: the swap made `old` unreachable for whoever pins from now on, and by [R1] it is ours alone
        // to free.
        unsafe { guard.defer_destroy(old) };
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let map = std::mem::replace(&mut self.0, Atomic::null());
        // SAFETY: `&mut self`, so nobody else reads the pointer any more; [R1], it is not null.
        drop(unsafe { map.into_owned() });
    }
}
