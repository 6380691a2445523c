//! Every call of the API, at random, against a `BTreeMap`: at every page size, over every backend, with a
//! cache of sixteen frames and with one that holds more than the data.
//!
//! One thread; `concurrent` has the others. The seed of a failure is printed.

mod common;

use common::matrix::{Case, over_every_backend};
use common::{
    Model, assert_same, assert_whole, place, scaled, seed, simulated, tiny, value_of, watchdog,
};
use fastrand::Rng;
use latchkv::{Backend, CompareAndSwap, Db, Error, Options, Tree, Usage};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::PathBuf;

/// A database and what it should hold.
struct World {
    rng: Rng,
    options: Options,
    path: PathBuf,
    page_bytes: usize,
    db: Db,
    trees: BTreeMap<String, (Tree, Model)>,
    generation: u64,
    /// Large values put so far; they are few, since each costs megabytes of I/O.
    huge: usize,
}

impl World {
    fn new(options: Options, path: PathBuf, page_bytes: usize, rng: Rng) -> World {
        let db = options.create(&path).expect("nothing there");
        World { rng, options, path, page_bytes, db, trees: BTreeMap::new(), generation: 0, huge: 0 }
    }

    /// Mostly keys that were used before or are near them; some short, some of greatest size, some of 255
    /// only.
    fn key(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        match rng.u32(0..100) {
            0 => Vec::new(),
            1..4 => vec![0xff; rng.usize(1..6)],
            4..7 => {
                let mut key = vec![0xff; rng.usize(1..4)];
                key.extend([rng.u8(..), rng.u8(0xfe..)]);
                key
            }
            7..12 => vec![rng.u8(..); rng.usize(0..4)],
            12..16 => {
                let mut key = vec![b'k'; self.page_bytes / 8];
                let at = rng.usize(0..key.len());
                key[at] = rng.u8(b'i'..b'm');
                key
            }
            16..60 => format!("user/{:05}", rng.u32(0..3000)).into_bytes(),
            _ => rng.u64(0..2500).to_be_bytes().to_vec(),
        }
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let inline_max = self.page_bytes / 4 - 8 - key.len();
        let len = match self.rng.u32(0..1000) {
            0..80 => 0,
            80..700 => self.rng.usize(0..120),
            700..900 => self.rng.usize(0..inline_max),
            900..960 => inline_max - 4 + self.rng.usize(0..10),
            960..997 => self.rng.usize(inline_max..3 * self.page_bytes),
            _ if self.huge < 3 => {
                self.huge += 1;
                self.rng.usize(1 << 20..3 << 20)
            }
            _ => self.page_bytes,
        };
        self.generation += 1;
        value_of(key, self.generation, len)
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.rng.u32(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    /// A tree, made if need be.
    fn name(&mut self) -> String {
        let name = ["alpha", "beta", "gamma/δ", "z"][self.rng.usize(0..4)].to_owned();
        if !self.trees.contains_key(&name) {
            assert!(self.db.open_tree(&name).expect("readable").is_none(), "{name:?} is back");
            let tree = self.db.tree(&name).expect("room");
            self.trees.insert(name.clone(), (tree, Model::new()));
        }
        name
    }

    fn step(&mut self) {
        let name = self.name();
        let (key, other) = (self.key(), self.key());
        let value = self.value(&key);
        let draw = self.rng.u32(0..1000);
        let (tree, model) = self.trees.get_mut(&name).expect("made above");
        match draw {
            0..330 => {
                tree.put(&key, &value).expect("room");
                model.insert(key, value);
            }
            330..400 => {
                let inserted = tree.insert(&key, &value).expect("room");
                assert_eq!(inserted, !model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            400..620 => assert_eq!(tree.delete(&key).expect("room"), model.remove(&key).is_some()),
            620..700 => {
                let found = tree.get(&key).expect("readable");
                assert!(found.as_ref() == model.get(&key), "{key:?}");
                let len = tree.get_with(&other, <[u8]>::len).expect("readable");
                assert_eq!(len, model.get(&other).map(Vec::len));
                assert_eq!(tree.contains(&other).expect("readable"), model.contains_key(&other));
            }
            700..800 => self.compare_and_swap(&name, key, value),
            800..960 => self.ranges(&name, key),
            960..965 => {
                tree.clear().expect("room");
                model.clear();
            }
            965..972 => self.bulk_load(&name),
            972..977 => self.rename(&name),
            977..981 => {
                assert!(self.db.drop_tree(&name).expect("room"));
                assert!(matches!(tree.get(&key), Err(Error::Usage(Usage::TreeDropped(_)))));
                assert!(matches!(tree.put(&key, b""), Err(Error::Usage(Usage::TreeDropped(_)))));
                self.trees.remove(&name);
                assert!(!self.db.drop_tree(&name).expect("room"));
            }
            981..990 => {
                self.db.checkpoint().expect("room");
            }
            990..995 => self.reopen(),
            _ => self.compare(),
        }
    }

    fn compare_and_swap(&mut self, name: &str, key: Vec<u8>, value: Vec<u8>) {
        let (tree, model) = self.trees.get_mut(name).expect("made by the caller");
        let current = model.get(&key).cloned();
        let expected = if self.rng.u32(0..3) > 0 { current.clone() } else { Some(vec![1, 2, 3]) };
        let new = if self.rng.u32(0..4) > 0 { Some(value) } else { None };
        let swapped =
            tree.compare_and_swap(&key, expected.as_deref(), new.as_deref()).expect("room");
        if expected != current {
            assert_eq!(swapped, CompareAndSwap::Mismatch { current });
            return;
        }
        assert_eq!(swapped, CompareAndSwap::Swapped);
        match new {
            Some(new) => drop(model.insert(key, new)),
            None => drop(model.remove(&key)),
        }
    }

    fn ranges(&mut self, name: &str, key: Vec<u8>) {
        let bounds = (self.bound(), self.bound());
        let cut = self.rng.usize(0..=key.len());
        let front_share = self.rng.u32(0..=10);
        let (tree, model) = &self.trees[name];
        let pair = |entry: latchkv::Entry| entry.into_pair();
        let first = tree.first().expect("readable").map(pair);
        assert!(first == model.iter().next().map(|(k, v)| (k.clone(), v.clone())), "first");
        let last = tree.last().expect("readable").map(pair);
        assert!(last == model.iter().next_back().map(|(k, v)| (k.clone(), v.clone())), "last");
        assert_eq!(tree.is_empty().expect("open"), model.is_empty());
        assert_eq!(tree.len().expect("open"), model.len() as u64);
        // Filtered, not `BTreeMap::range`: that one panics at bounds that are above each other.
        let inside = |key: &[u8]| {
            let above = match &bounds.0 {
                Bound::Unbounded => true,
                Bound::Included(lower) => key >= &lower[..],
                Bound::Excluded(lower) => key > &lower[..],
            };
            let below = match &bounds.1 {
                Bound::Unbounded => true,
                Bound::Included(upper) => key <= &upper[..],
                Bound::Excluded(upper) => key < &upper[..],
            };
            above && below
        };
        let prefix = &key[..cut];
        let by_range = model.iter().filter(|(key, _)| inside(key)).collect();
        let by_prefix = model.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
        check_range(&mut self.rng, tree.range::<Vec<u8>>(bounds.clone()), by_range, front_share);
        check_range(&mut self.rng, tree.prefix(prefix), by_prefix, front_share);
    }

    fn bulk_load(&mut self, name: &str) {
        let count = self.rng.usize(0..400);
        let mut records = Model::new();
        for _ in 0..count {
            let key = self.key();
            let value = self.value(&key);
            records.insert(key, value);
        }
        let (tree, model) = self.trees.get_mut(name).expect("made by the caller");
        if self.rng.bool() {
            tree.clear().expect("room");
            model.clear();
        }
        if self.rng.u32(0..4) == 0 && records.len() > 2 && model.is_empty() {
            // The second key again at the end: nothing is to be loaded.
            let position = records.len() as u64;
            let again = records.iter().nth(1).map(|(key, value)| (key.clone(), value.clone()));
            let unsorted = records.clone().into_iter().chain(again);
            let error = tree.bulk_load(unsorted).expect_err("not ascending");
            assert!(
                matches!(error, Error::Usage(Usage::Unsorted { position: at }) if at == position),
                "{error:?}"
            );
            assert_same(tree, model);
        }
        assert_eq!(tree.bulk_load(records.iter()).expect("room"), records.len() as u64);
        model.extend(records);
    }

    fn rename(&mut self, name: &str) {
        let to = ["alpha", "beta", "moved"][self.rng.usize(0..3)];
        let renamed = self.db.rename_tree(name, to);
        if to == name {
            renamed.expect("to itself");
        } else if self.trees.contains_key(to) {
            assert!(matches!(renamed, Err(Error::Usage(Usage::TreeExists(_)))));
        } else {
            renamed.expect("room");
            let moved = self.trees.remove(name).expect("made by the caller");
            self.trees.insert(to.to_owned(), moved);
            let again = self.db.rename_tree(name, to);
            assert!(matches!(again, Err(Error::Usage(Usage::NoSuchTree(_)))), "{again:?}");
        }
    }

    fn reopen(&mut self) {
        let models: Vec<_> = std::mem::take(&mut self.trees)
            .into_iter()
            .map(|(name, (_, model))| (name, model))
            .collect();
        self.db.clone().close().expect("room");
        // Everything else that holds it is gone with the trees and this handle.
        self.db = simulated(&tiny(4096));
        self.db = self.options.open_existing(&self.path).expect("closed in order");
        assert!(self.db.trees().expect("readable").iter().eq(models.iter().map(|(name, _)| name)));
        for (name, model) in models {
            let tree = self.db.open_tree(&name).expect("readable").expect("was there");
            self.trees.insert(name, (tree, model));
        }
    }

    fn compare(&mut self) {
        assert!(self.db.trees().expect("readable").iter().eq(self.trees.keys()));
        for (tree, model) in self.trees.values() {
            assert_same(tree, model);
        }
        assert_whole(&self.db);
    }
}

/// Reads a range from both ends by turns.
fn check_range(
    rng: &mut Rng,
    mut range: latchkv::Range,
    mut expected: VecDeque<(&Vec<u8>, &Vec<u8>)>,
    front_share: u32,
) {
    // A part of the wide ones is enough.
    for _ in 0..300 {
        let front = rng.u32(0..10) < front_share;
        let want = if front { expected.pop_front() } else { expected.pop_back() };
        let got = match (front, rng.bool()) {
            (true, true) => range.next_borrowed().map(|lent| {
                let (key, value) = lent.expect("readable");
                (key.to_vec(), value.to_vec())
            }),
            (true, false) => range.next().map(|entry| entry.expect("readable").into_pair()),
            (false, _) => range.next_back().map(|entry| entry.expect("readable").into_pair()),
        };
        let same = got.as_ref().map(|(key, value)| (key, value)) == want;
        assert!(
            same,
            "front {front}: {:?}, not {:?}",
            got.map(|pair| pair.0),
            want.map(|pair| pair.0)
        );
        if want.is_none() {
            break;
        }
    }
}

fn run(case: Case) {
    for (round, tiny_cache) in [(0, true), (1, false)] {
        let place = place();
        let mut options = case.options();
        if !tiny_cache {
            options = options.cache_bytes(32 << 20).checkpoint_bytes(4 << 20);
        }
        let rng = Rng::with_seed(case.seed(round));
        let mut world = World::new(options, place.path.clone(), case.page_bytes as usize, rng);
        case.assert_used_by(&world.db);
        let frames = world.db.stats().pool.frames;
        assert_eq!(frames == 16, tiny_cache, "{frames} frames");
        for _ in 0..scaled(1500, 60) {
            world.step();
        }
        world.compare();
        world.reopen();
        world.compare();
    }
}

over_every_backend! {
    every_call_agrees_with_a_btree_map => super::run;
}

#[test]
fn without_hints_the_page_hash_alone_agrees_with_a_btree_map() {
    for (salt, latches) in [
        (100, latchkv::PageHashLatches::PerCell),
        (101, latchkv::PageHashLatches::Outside { count: 4 }),
    ] {
        let place = place();
        let options = tiny(4096).backend(Backend::Pread).cache_bytes(2 << 20);
        let options = options.frame_hints(false).page_hash_latches(latches);
        let rng = Rng::with_seed(seed(salt));
        let mut world = World::new(options, place.path.clone(), 4096, rng);
        for _ in 0..scaled(1500, 60) {
            world.step();
        }
        world.compare();
    }
}

/// A leaf full of an ascending run was cut behind its last record although the new upper fence had no room
/// beside the records; the put failed and took the leaf with it.
#[test]
fn ascending_runs_split_however_long_their_fences_are() {
    for page_bytes in [4096usize, 16384] {
        for key_len in [4, 60, page_bytes / 8] {
            for step in [1, 3] {
                let db = simulated(&tiny(page_bytes as u32));
                let tree = db.tree("t").expect("made");
                let mut model = Model::new();
                let mut rng = Rng::with_seed(seed((page_bytes + key_len + step) as u64));
                for round in 0..step as u32 {
                    // In the gaps of the round before: a run with greater keys behind it.
                    for i in 0..scaled(400, 100) as u32 {
                        let mut key = vec![b'p'; key_len - 4];
                        key.extend((i * step as u32 + round).to_be_bytes());
                        let value = vec![1; rng.usize(0..page_bytes / 24)];
                        tree.put(&key, &value).expect("room");
                        model.insert(key, value);
                    }
                }
                assert_same(&tree, &model);
                assert_whole(&db);
            }
        }
    }
}

#[test]
fn values_around_the_inline_limit_keep_their_bytes_and_give_their_pages_back() {
    let _watchdog = watchdog("deleted large values give their pages back");
    for page_bytes in [4096usize, 16384, 65536] {
        let place = place();
        let db = tiny(page_bytes as u32).create(&place.path).expect("nothing there");
        let tree = db.tree("t").expect("made");
        let mut model = Model::new();
        for key_len in [0, 1, 4, 5, page_bytes / 8] {
            let key = vec![b'q'; key_len];
            let limit = page_bytes / 4 - 8 - key_len;
            for len in [0, limit - 1, limit, limit + 1, limit + 8, 5, limit + 7, 0, 2 * page_bytes]
            {
                let value = value_of(&key, len as u64, len);
                tree.put(&key, &value).expect("room");
                assert!(
                    tree.get(&key).expect("readable") == Some(value.clone()),
                    "{key_len}, {len}"
                );
                model.insert(key.clone(), value);
            }
        }
        assert_same(&tree, &model);
        db.checkpoint().expect("room");
        assert_whole(&db);
        let before = db.stats().store.pages;
        for key in model.keys() {
            assert!(tree.delete(key).expect("room"));
        }
        // Once the database's own thread has seen that no snapshot needs them.
        while db.stats().store.pages > before - 5 {
            std::thread::yield_now();
        }
        db.checkpoint().expect("room");
        assert_whole(&db);
    }
}
