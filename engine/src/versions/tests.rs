//! Old versions against a model of all versions, in memory, in files and without room for files, and with threads.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

/// A small budget: 4 shards with segments of 4 KiB.
fn options(memory_bytes: u64) -> VersionOptions {
    VersionOptions { memory_bytes, spill_directory: None, shards: 4 }
}

/// Options whose files cannot be made.
fn options_without_disk(memory_bytes: u64) -> VersionOptions {
    VersionOptions {
        spill_directory: Some("/nonexistent/directory".into()),
        ..options(memory_bytes)
    }
}

/// What a key was, with the bytes of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Tombstone,
    Inline(Vec<u8>),
    Extent(PageId, u64),
}

impl Value {
    fn as_old(&self) -> Old<'_> {
        match self {
            Value::Tombstone => Old::Tombstone,
            Value::Inline(bytes) => Old::Inline(bytes),
            Value::Extent(page, len) => Old::Extent { page: *page, len: *len },
        }
    }

    fn of(seen: &Seen, out: &[u8]) -> Value {
        match seen.kind.clone() {
            SeenKind::Tombstone => Value::Tombstone,
            SeenKind::Inline(range) => Value::Inline(out[range].to_vec()),
            SeenKind::Extent { page, len } => Value::Extent(page, len),
        }
    }
}

type Key = (TreeId, Vec<u8>);

/// One version of a key, in the model.
#[derive(Clone, Debug)]
struct Kept {
    lsn: u64,
    superseded: u64,
    value: Value,
}

/// All versions ever pushed, and what is on the pages.
struct Model {
    versions: Versions,
    hash_mask: u64,
    pages: BTreeMap<Key, (u64, Value)>,
    all: BTreeMap<Key, Vec<Kept>>,
    lsn: u64,
    horizon: u64,
    next_page: u64,
    out_pages: BTreeMap<PageId, u64>,
    freed: Vec<PageId>,
}

impl Model {
    fn new(options: VersionOptions, hash_mask: u64) -> Model {
        Model {
            versions: Versions::new(options),
            hash_mask,
            pages: BTreeMap::new(),
            all: BTreeMap::new(),
            lsn: 1,
            horizon: 0,
            next_page: 1,
            out_pages: BTreeMap::new(),
            freed: Vec::new(),
        }
    }

    fn hash(&self, key: &Key) -> u64 {
        key_hash(key.0, &key.1) & self.hash_mask
    }

    /// A commit that changes `key`, as the engine does it: an insert pushes nothing.
    fn commit(&mut self, key: Key, rng: &mut fastrand::Rng) {
        self.lsn += rng.u64(1..4);
        let value = match rng.u8(0..10) {
            0..2 => Value::Tombstone,
            2..4 => {
                let page = PageId(self.next_page);
                self.next_page += 1;
                Value::Extent(page, rng.u64(..))
            }
            4 => Value::Inline(vec![rng.u8(..); rng.usize(0..6000)]),
            _ => Value::Inline(vec![rng.u8(..); rng.usize(0..100)]),
        };
        let before = self.pages.insert(key.clone(), (self.lsn, value));
        if let Some((lsn, value)) = before {
            let superseded = self.lsn;
            self.versions.push(key.0, &key.1, self.hash(&key), lsn, value.as_old(), superseded);
            if let Value::Extent(page, _) = value {
                self.out_pages.insert(page, superseded);
            }
            self.all.entry(key).or_default().push(Kept { lsn, superseded, value });
        }
    }

    /// Raises the horizon and purges the tombstones below it.
    fn reclaim(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
        let horizon = self.horizon;
        self.pages.retain(|_, (lsn, value)| *value != Value::Tombstone || *lsn >= horizon);
        let already = self.freed.len();
        self.versions.reclaim(horizon, &mut self.freed);
        for page in &self.freed[already..] {
            let superseded = self.out_pages.remove(page).expect("an old extent, freed once");
            assert!(superseded < horizon, "freed too early");
        }
    }

    fn check(&self, key: &Key, snapshot: u64) {
        let mut out = b"before".to_vec();
        let seen = self.versions.find(key.0, &key.1, self.hash(key), snapshot, &mut out);
        assert!(out.starts_with(b"before"));
        let found = seen.map(|seen| (seen.lsn, Value::of(&seen, &out)));
        let kept = self.all.get(key).into_iter().flatten();
        let expected = kept
            .filter(|kept| kept.lsn < snapshot && snapshot <= kept.superseded)
            .map(|kept| (kept.lsn, kept.value.clone()))
            .next();
        if snapshot >= self.horizon {
            assert_eq!(found, expected, "snapshot {snapshot} of {key:?}");
        } else if found.is_some() {
            assert_eq!(found, expected, "a version that is not dropped yet");
        }
    }

    /// Random commits, reclaims and finds; all versions at the end.
    fn run(mut self, seed: u64, steps: usize) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let keys: Vec<Key> = (0..12u32)
            .map(|number| (TreeId(number % 2), vec![b'k'; number as usize / 2]))
            .chain([(TreeId(7), vec![9; 5000])])
            .collect();
        for _ in 0..steps {
            // One key is hotter than the others.
            let key = if rng.bool() { &keys[0] } else { rng.choice(&keys).expect("keys") };
            self.commit(key.clone(), &mut rng);
            let key = rng.choice(&keys).expect("keys");
            self.check(key, self.horizon + rng.u64(0..self.lsn + 2 - self.horizon));
            self.check(key, rng.u64(0..self.lsn + 2));
            if rng.u8(0..30) == 0 {
                let far = rng.bool();
                let back = rng.u64(0..if far { 2000 } else { 100 });
                self.reclaim(self.lsn.saturating_sub(back));
            }
        }
        for key in &keys {
            (self.horizon..self.lsn + 2).for_each(|snapshot| self.check(key, snapshot));
        }
        let usage = self.versions.usage();
        assert!(usage.oldest_superseded.is_none_or(|oldest| oldest <= self.lsn));
        self.reclaim(self.lsn + 1);
        assert!(self.out_pages.is_empty(), "all old extents were freed");
        let usage = self.versions.usage();
        assert_eq!((usage.versions, usage.segments, usage.oldest_superseded), (0, 0, None));
        assert_eq!(usage.over_budget_bytes, 0);
    }
}

#[test]
fn each_snapshot_finds_what_it_sees() {
    for seed in 0..4 {
        Model::new(options(64 << 20), u64::MAX).run(seed, 1500);
    }
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    Model::new(options(64 << 20), 0).run(10, 1500);
    Model::new(options(64 << 20), 3).run(11, 1500);
}

#[test]
fn each_snapshot_finds_what_it_sees_in_files() {
    Model::new(options(0), u64::MAX).run(20, 1500);
    Model::new(options(64 << 10), u64::MAX).run(21, 1500);
}

#[test]
fn each_snapshot_finds_what_it_sees_when_no_file_can_be_had() {
    Model::new(options_without_disk(0), u64::MAX).run(30, 1500);
    Model::new(options_without_disk(64 << 10), u64::MAX).run(31, 1500);
}

/// Pushes versions of 1000 keys in turn, each replaced by the next round.
fn push_rounds(versions: &Versions, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for key in 0..1000u64 {
            let (key, lsn) = (key.to_be_bytes(), round * 1000 + key);
            let hash = key_hash(TreeId(1), &key);
            versions.push(TreeId(1), &key, hash, lsn, Old::Inline(&[round as u8; 100]), lsn + 1000);
        }
    }
}

fn check_rounds(versions: &Versions, rounds: std::ops::Range<u64>) {
    let mut out = Vec::new();
    for round in rounds {
        for key in 0..1000u64 {
            let (key, lsn) = (key.to_be_bytes(), round * 1000 + key);
            out.clear();
            let seen = versions.find(TreeId(1), &key, key_hash(TreeId(1), &key), lsn + 1, &mut out);
            assert_eq!(seen, Some(Seen { lsn, kind: SeenKind::Inline(0..100) }));
            assert_eq!(out, [round as u8; 100]);
        }
    }
}

#[test]
fn memory_stays_in_the_budget_and_the_rest_goes_to_files() {
    let budget = 512 << 10;
    let versions = Versions::new(options(budget));
    push_rounds(&versions, 0..2);
    let usage = versions.usage();
    assert_eq!((usage.spilled_bytes, usage.over_budget_bytes), (0, 0), "not before it must");
    push_rounds(&versions, 2..20);
    let usage = versions.usage();
    assert!(usage.memory_bytes <= budget, "{usage:?}");
    assert!(usage.spilled_bytes > 0 && usage.over_budget_bytes == 0, "{usage:?}");
    assert_eq!((usage.versions, usage.oldest_superseded), (20_000, Some(1000)));
    check_rounds(&versions, 0..20);
    versions.reclaim(22_000, &mut Vec::new());
    let usage = versions.usage();
    assert_eq!(usage.versions, 0);
    assert!(usage.spilled_bytes <= SPILL_FILE_BYTES as u64, "one file at most is kept");
}

#[test]
fn a_disk_without_room_costs_memory_and_is_counted() {
    let budget = 256 << 10;
    let versions = Versions::new(options_without_disk(budget));
    push_rounds(&versions, 0..10);
    let usage = versions.usage();
    assert_eq!(usage.spilled_bytes, 0);
    assert!(usage.over_budget_bytes > 0);
    assert!(usage.memory_bytes <= budget + usage.over_budget_bytes, "{usage:?}");
    check_rounds(&versions, 0..10);
    versions.reclaim(20_000, &mut Vec::new());
    let usage = versions.usage();
    assert_eq!(usage.over_budget_bytes, 0, "what was over the budget is given back");
    assert!(usage.memory_bytes <= budget);
}

#[test]
fn in_steady_state_nothing_more_is_taken_from_the_system() {
    for memory_bytes in [16 << 20, 256 << 10] {
        let versions = Versions::new(options(memory_bytes));
        let mut most = (0, 0);
        for round in 0..60 {
            push_rounds(&versions, round..round + 1);
            versions.reclaim((round * 1000).saturating_sub(2000), &mut Vec::new());
            let usage = versions.usage();
            assert!(usage.versions <= 8000, "dropped as the horizon moves: {usage:?}");
            if round < 20 {
                most = most.max((usage.memory_bytes, usage.spilled_bytes));
            } else {
                // How full the segments are varies from round to round.
                let now = (usage.memory_bytes, usage.spilled_bytes);
                let slack = versions.source.segment_bytes() as u64;
                assert!(now <= (most.0 + slack, most.1), "round {round}: {usage:?}, {most:?}");
            }
        }
        assert_eq!(most.1 > 0, memory_bytes < 1 << 20, "the smaller budget spills");
    }
}

#[test]
fn sizes_beyond_a_segment_and_odd_options_are_kept() {
    for (memory_bytes, shards) in [(0, 0), (1, 3), (u64::MAX, 1), (1 << 20, 1)] {
        let versions =
            Versions::new(VersionOptions { memory_bytes, spill_directory: None, shards });
        let (key, value) = (vec![1; 70_000], vec![2; 300_000]);
        let hash = key_hash(TreeId(1), &key);
        versions.push(TreeId(1), &key, hash, 1, Old::Inline(&value), 2);
        let mut out = Vec::new();
        let seen = versions.find(TreeId(1), &key, hash, 2, &mut out).expect("kept");
        assert_eq!((seen.lsn, &out), (1, &value));
        versions.reclaim(3, &mut Vec::new());
        assert_eq!(versions.usage().versions, 0);
    }
}

#[test]
fn an_extent_is_handed_out_when_no_snapshot_sees_it_and_not_before() {
    let versions = Versions::new(options(1 << 20));
    let hash = key_hash(TreeId(1), b"k");
    let extent = |page| Old::Extent { page: PageId(page), len: 9 };
    versions.push(TreeId(1), b"k", hash, 10, extent(100), 20);
    versions.push(TreeId(1), b"k", hash, 20, extent(200), 30);
    let mut freed = Vec::new();
    versions.reclaim(20, &mut freed);
    assert_eq!(freed, [], "snapshot 20 sees the first");
    versions.reclaim(21, &mut freed);
    assert_eq!(freed, [PageId(100)], "though its segment is still there");
    let seen = versions.find(TreeId(1), b"k", hash, 20, &mut Vec::new());
    assert!(seen.is_none_or(|seen| seen.lsn == 10));
    let seen = versions.find(TreeId(1), b"k", hash, 21, &mut Vec::new()).expect("kept");
    assert_eq!(seen.kind, SeenKind::Extent { page: PageId(200), len: 9 });
    versions.reclaim(31, &mut freed);
    versions.reclaim(u64::MAX, &mut freed);
    assert_eq!(freed, [PageId(100), PageId(200)]);
}

#[test]
fn trees_have_hashes_of_their_own() {
    let hashes: BTreeSet<u64> = (0..100).map(|tree| key_hash(TreeId(tree), b"key")).collect();
    assert_eq!(hashes.len(), 100);
}

// With threads: writers own keys; a reader takes a snapshot while no commit is under way.

const WRITERS: u64 = 2;
const KEYS_EACH: u64 = 8;

/// What writers, readers and the reclaimer share.
struct Shared {
    versions: Versions,
    /// Read by who commits, written by who takes a snapshot or a horizon.
    commits: RwLock<()>,
    next_lsn: AtomicU64,
    /// The lsn on the page of each key.
    pages: Vec<AtomicU64>,
    /// The snapshots of the readers; `u64::MAX` if there is none.
    snapshots: [AtomicU64; 2],
    freed: Mutex<BTreeSet<PageId>>,
}

impl Shared {
    fn key(number: usize) -> ([u8; 8], u64) {
        let key = (number as u64).to_be_bytes();
        (key, key_hash(TreeId(2), &key))
    }

    /// The value of a key that was put at `lsn`: every third is large.
    fn value(number: usize, lsn: u64) -> Value {
        match lsn % 3 {
            0 => Value::Extent(PageId(lsn), number as u64),
            _ => Value::Inline(vec![lsn as u8 ^ number as u8; 1 + lsn as usize % 200]),
        }
    }

    fn commit(&self, number: usize) {
        let _commits = self.commits.read().unwrap_or_else(PoisonError::into_inner);
        // Relaxed throughout: the lock orders commits and snapshots, and a key has one writer.
        let lsn = self.next_lsn.fetch_add(1, Relaxed);
        let before = self.pages[number].load(Relaxed);
        let (key, hash) = Shared::key(number);
        let old = Shared::value(number, before);
        self.versions.push(TreeId(2), &key, hash, before, old.as_old(), lsn);
        self.pages[number].store(lsn, Relaxed);
    }

    fn read(&self, reader: usize, rng: &mut fastrand::Rng) {
        let (snapshot, expected): (u64, Vec<u64>) = {
            let _alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
            let snapshot = self.next_lsn.load(Relaxed);
            self.snapshots[reader].store(snapshot, Relaxed);
            (snapshot, self.pages.iter().map(|page| page.load(Relaxed)).collect())
        };
        let mut out = Vec::new();
        for _ in 0..200 {
            let number = rng.usize(..expected.len());
            let (key, hash) = Shared::key(number);
            out.clear();
            // Under the lock, so that the push of a commit that is seen here comes before the find.
            let superseded = {
                let _alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
                self.pages[number].load(Relaxed) != expected[number]
            };
            let seen = self.versions.find(TreeId(2), &key, hash, snapshot, &mut out);
            assert!(seen.is_some() || !superseded, "a version that {snapshot} sees is missing");
            if let Some(seen) = seen {
                assert_eq!(seen.lsn, expected[number]);
                let value = Value::of(&seen, &out);
                assert_eq!(value, Shared::value(number, seen.lsn));
                if let Value::Extent(page, _) = value {
                    let freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
                    assert!(!freed.contains(&page), "freed under a snapshot that sees it");
                }
            }
        }
        self.snapshots[reader].store(u64::MAX, Relaxed);
    }

    fn reclaim(&self) {
        let horizon = {
            let _alone = self.commits.write().unwrap_or_else(PoisonError::into_inner);
            let snapshots = self.snapshots.iter().map(|snapshot| snapshot.load(Relaxed));
            snapshots.fold(self.next_lsn.load(Relaxed), u64::min)
        };
        let mut pages = Vec::new();
        self.versions.reclaim(horizon, &mut pages);
        let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        for page in pages {
            assert!(freed.insert(page), "freed twice");
            assert!(page.0 < horizon);
        }
    }
}

fn threads_agree(options: VersionOptions) {
    let keys = WRITERS * KEYS_EACH;
    let shared = Shared {
        versions: Versions::new(options),
        commits: RwLock::new(()),
        next_lsn: AtomicU64::new(keys),
        pages: (0..keys).map(AtomicU64::new).collect(),
        snapshots: [const { AtomicU64::new(u64::MAX) }; 2],
        freed: Mutex::new(BTreeSet::new()),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(writer);
                for _ in 0..4000 {
                    let number = writer * KEYS_EACH + rng.u64(0..KEYS_EACH);
                    shared.commit(number as usize);
                }
            });
        }
        for reader in 0..2 {
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(100 + reader as u64);
                (0..25).for_each(|_| shared.read(reader, &mut rng));
            });
        }
        scope.spawn(move || (0..200).for_each(|_| shared.reclaim()));
    });
    shared.reclaim();
    assert_eq!(shared.versions.usage().versions, 0);
    let end = shared.next_lsn.load(Relaxed);
    let on_pages = shared.pages.iter().map(|page| page.load(Relaxed));
    let on_pages = on_pages.filter(|lsn| lsn % 3 == 0).count();
    let freed = shared.freed.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert_eq!(freed + on_pages, (0..end).filter(|lsn| lsn % 3 == 0).count());
}

#[test]
fn threads_find_what_their_snapshots_see() {
    threads_agree(options(64 << 20));
}

#[test]
fn threads_find_what_their_snapshots_see_in_files() {
    threads_agree(options(0));
}

#[test]
fn threads_find_what_their_snapshots_see_when_no_file_can_be_had() {
    threads_agree(VersionOptions { shards: 1, ..options_without_disk(16 << 10) });
}
