//! A damaged file: whatever its bytes, the answer is right or an error that names the place. No panic, no hang, no memory
//! beyond a small bound, and `check` reports what a reader would meet.
//!
//! First damage as media do it: sectors of 512 bytes flipped, zeroed, cut off, exchanged. Then damage as media cannot do
//! it, with all checksums made right again, which reaches the code behind them.

mod common;

use common::{Model, Watchdog, data_file, place, scaled, seed, tiny, value_of, watchdog};
use fastrand::Rng;
use latchkv::io::SimDisk;
use latchkv::{BLOCK_BYTES, Db, Error, OpenError, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Counts bytes in use. A request beyond `REQUEST_BYTES_MAX` fails, so that an absurd one ends the test.
struct Counting;

/// More than any test here has a use for.
const REQUEST_BYTES_MAX: usize = 64 << 20;
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all memory comes from `System` and goes back to it with the layout it was asked for; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > REQUEST_BYTES_MAX {
            return std::ptr::null_mut();
        }
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `System` by `alloc` above, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SECTOR: usize = 512;
/// How much more memory than before a look at a damaged file may take.
const LOOK_BYTES_MAX: usize = 48 << 20;

type Trees = BTreeMap<String, Model>;

/// A database of some hundred kilobytes: two levels, three trees, large values. Gives what it holds.
fn fill(db: &Db) -> Trees {
    let mut trees = Trees::new();
    for (name, records, len) in [("many", 600u32, 60), ("few", 3, 10), ("large", 4, 9000)] {
        let tree = db.tree(name).expect("room");
        let mut model = Model::new();
        for i in 0..records {
            let key = format!("{name}/{:06}", i.wrapping_mul(7919) % 10_007).into_bytes();
            let value = value_of(&key, 1, len);
            tree.put(&key, &value).expect("room");
            model.insert(key, value);
        }
        trees.insert(name.to_owned(), model);
    }
    db.checkpoint().expect("room");
    trees
}

/// An error that a damaged file may cause: it names the place.
#[track_caller]
fn assert_names_the_place(error: &Error, what: &str) {
    match error {
        Error::Corrupt(corruption) => {
            let placed = corruption.offset.is_some() || corruption.page.is_some();
            assert!(placed, "{what}: no place in {error}");
            assert!(
                !corruption.file.as_os_str().is_empty(),
                "{what}: no file in {error}"
            );
            assert!(!corruption.what.is_empty(), "{what}: {error:?}");
        }
        Error::Open(OpenError::NotADatabase { .. } | OpenError::NewerVersion { .. }) => {}
        // The end of a file that was cut.
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::UnexpectedEof => {}
        other => panic!("{what}: {other:?}"),
    }
}

/// Looks at everything. Gives the number of errors met; what is no error must be right.
fn look(opened: Result<Db, Error>, trees: &Trees, what: &str) -> usize {
    let db = match opened {
        Ok(db) => db,
        Err(error) => {
            assert_names_the_place(&error, what);
            return 1;
        }
    };
    let mut errors = 0;
    let mut met = |error: &Error| {
        assert_names_the_place(error, what);
        errors += 1;
    };
    match db.trees() {
        Ok(names) => assert!(names.iter().eq(trees.keys()), "{what}: {names:?}"),
        Err(error) => met(&error),
    }
    for (name, model) in trees {
        let tree = match db.open_tree(name) {
            Ok(tree) => tree.unwrap_or_else(|| panic!("{what}: {name:?} vanished")),
            Err(error) => {
                met(&error);
                continue;
            }
        };
        let mut forward = model.iter();
        let mut ended = false;
        // An end to the loop, should the iterator have none.
        for entry in tree.iter().take(model.len() + 1) {
            match entry {
                Ok(entry) => {
                    let expected = forward.next();
                    let same = expected
                        .is_some_and(|(key, value)| entry.key() == key && entry.value() == value);
                    assert!(
                        same,
                        "{what}: wrong record {:?} in {name:?}",
                        entry.key().escape_ascii().to_string()
                    );
                }
                Err(error) => {
                    met(&error);
                    ended = true;
                    break;
                }
            }
        }
        assert!(
            ended || forward.next().is_none(),
            "{what}: the scan of {name:?} simply ended"
        );
        let mut backward = model.iter().rev();
        ended = false;
        for entry in tree.iter().rev().take(model.len() + 1) {
            match entry {
                Ok(entry) => {
                    let expected = backward.next();
                    let same = expected
                        .is_some_and(|(key, value)| entry.key() == key && entry.value() == value);
                    assert!(same, "{what}: wrong record backward in {name:?}");
                }
                Err(error) => {
                    met(&error);
                    ended = true;
                    break;
                }
            }
        }
        assert!(
            ended || backward.next().is_none(),
            "{what}: the reverse scan of {name:?} simply ended"
        );
        for (key, value) in model.iter().step_by(37) {
            match tree.get(key) {
                Ok(found) => assert!(found.as_ref() == Some(value), "{what}: wrong value"),
                Err(error) => met(&error),
            }
        }
        match tree.get(b"no such key") {
            Ok(found) => assert_eq!(found, None, "{what}"),
            Err(error) => met(&error),
        }
    }
    match db.check(|_| {}) {
        Ok(report) => {
            report
                .problems
                .iter()
                .for_each(|problem| assert_names_the_place(problem, what));
            assert!(
                errors == 0 || !report.is_ok(),
                "{what}: readers met errors, `check` found nothing"
            );
            errors += report.problems.len();
        }
        Err(error) => met(&error),
    }
    errors
}

/// Memory of one look, bounded.
fn bounded(what: &str, look: impl FnOnce() -> usize) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let errors = look();
    let peak = PEAK.load(Ordering::Relaxed);
    assert!(
        peak <= before + LOOK_BYTES_MAX,
        "{what}: {} bytes of memory",
        peak - before
    );
    errors
}

/// A database on disk, opened for reading by turns with being damaged.
struct Patient {
    _watchdog: Watchdog,
    _place: common::Place,
    path: std::path::PathBuf,
    options: Options,
    trees: Trees,
    bytes: Vec<u8>,
    /// Blocks that hold something, the superblocks not included.
    used_blocks: usize,
    file: File,
}

impl Patient {
    fn new(test: &'static str) -> Patient {
        let place = place();
        let options = tiny(4096).backend(latchkv::Backend::Pread);
        let db = options.create(&place.path).expect("nothing there");
        let trees = fill(&db);
        db.close().expect("room");
        let db = options
            .open_read_only(&place.path)
            .expect("closed in order");
        assert_eq!(look(Ok(db.clone()), &trees, "undamaged"), 0);
        let used_blocks = db.stats().store.used_blocks as usize - 32;
        drop(db);
        let path = data_file(&place.path);
        let bytes = std::fs::read(&path).expect("there");
        let file = File::options().write(true).open(&path).expect("there");
        let path = place.path.clone();
        Patient {
            _watchdog: watchdog(test),
            _place: place,
            path,
            options,
            trees,
            bytes,
            used_blocks,
            file,
        }
    }

    fn look(&self, what: &str) -> usize {
        bounded(what, || {
            look(self.options.open_read_only(&self.path), &self.trees, what)
        })
    }

    /// Puts other bytes at an offset, looks, and puts the old ones back.
    fn look_with(&self, changes: &[(usize, &[u8])], what: &str) -> usize {
        for (at, bytes) in changes {
            self.file.write_all_at(bytes, *at as u64).expect("room");
        }
        let errors = self.look(what);
        for (at, bytes) in changes {
            self.file
                .write_all_at(&self.bytes[*at..*at + bytes.len()], *at as u64)
                .expect("room");
        }
        errors
    }

    fn sectors(&self) -> impl Iterator<Item = usize> {
        let step = if scaled(100, 0) < 100 { 7 } else { 1 };
        (0..self.bytes.len()).step_by(SECTOR * step)
    }

    /// Damage of each sector by `damage`, which may leave a sector as it was. Every used block must be reported for some of them.
    fn each_sector(&self, kind: &str, damage: impl Fn(&[u8], usize) -> Vec<u8>) {
        let mut blocks_reported = std::collections::BTreeSet::new();
        for at in self.sectors() {
            let old = &self.bytes[at..at + SECTOR];
            let new = damage(old, at);
            let what = format!("{kind} at {at}");
            if new != old && self.look_with(&[(at, &new)], &what) > 0 {
                blocks_reported.insert(at / BLOCK_BYTES);
            }
        }
        if scaled(100, 0) >= 100 {
            let (reported, used) = (blocks_reported.len(), self.used_blocks);
            assert!(
                reported >= used,
                "{kind}: reported in {reported} of {used} used blocks"
            );
        }
    }
}

#[test]
fn a_flipped_bit_in_any_sector_is_reported_or_harmless() {
    let patient = Patient::new("flip");
    patient.each_sector("flip", |old, at| {
        let mut new = old.to_vec();
        new[at / SECTOR * 131 % SECTOR] ^= 1 << (at / SECTOR % 8);
        new
    });
}

#[test]
fn a_sector_of_noise_is_reported_or_harmless() {
    let patient = Patient::new("noise");
    let seed = seed(1);
    patient.each_sector("noise", |old, at| {
        let mut new = old.to_vec();
        Rng::with_seed(seed ^ at as u64).fill(&mut new);
        new
    });
}

#[test]
fn a_zeroed_sector_is_reported_or_harmless() {
    let patient = Patient::new("zero");
    let mut reported = 0;
    for at in patient.sectors() {
        reported +=
            usize::from(patient.look_with(&[(at, &[0; SECTOR])], &format!("zero at {at}")) > 0);
    }
    assert!(
        reported * 8 >= patient.used_blocks || scaled(100, 0) < 100,
        "{reported} sectors reported"
    );
}

#[test]
fn a_file_cut_at_any_sector_is_reported() {
    let patient = Patient::new("cut");
    let mut first_whole = None;
    for at in patient.sectors() {
        patient.file.set_len(at as u64).expect("it shrinks");
        let errors = patient.look(&format!("cut at {at}"));
        patient
            .file
            .write_all_at(&patient.bytes[at..], at as u64)
            .expect("room");
        match first_whole {
            None if errors == 0 => first_whole = Some(at),
            None => {}
            // Free blocks at the end may be missing; once nothing is, a longer file is no worse.
            Some(whole) => assert_eq!(errors, 0, "cut at {at} is worse than at {whole}"),
        }
    }
    let least = (32 + patient.used_blocks) * BLOCK_BYTES;
    assert!(
        first_whole.is_none_or(|at| at + BLOCK_BYTES > least),
        "{first_whole:?} < {least}"
    );
}

#[test]
fn two_exchanged_sectors_are_reported_or_harmless() {
    let patient = Patient::new("exchange sectors");
    let mut rng = Rng::with_seed(seed(2));
    let sectors = patient.bytes.len() / SECTOR;
    for at in patient.sectors() {
        let other = rng.usize(0..sectors) * SECTOR;
        let (a, b) = (
            &patient.bytes[at..at + SECTOR],
            &patient.bytes[other..other + SECTOR],
        );
        if a != b {
            patient.look_with(
                &[(at, b), (other, a)],
                &format!("sectors at {at} and {other} exchanged"),
            );
        }
    }
}

#[test]
fn two_exchanged_blocks_are_reported_or_harmless() {
    let patient = Patient::new("exchange blocks");
    let mut rng = Rng::with_seed(seed(3));
    let blocks = patient.bytes.len() / BLOCK_BYTES;
    let mut reported = 0;
    for block in 32..blocks {
        for _ in 0..3 {
            let (at, other) = (block * BLOCK_BYTES, rng.usize(0..blocks) * BLOCK_BYTES);
            let (a, b) = (
                &patient.bytes[at..at + BLOCK_BYTES],
                &patient.bytes[other..other + BLOCK_BYTES],
            );
            let what = format!("blocks at {at} and {other} exchanged");
            reported += usize::from(a != b && patient.look_with(&[(at, b), (other, a)], &what) > 0);
        }
    }
    assert!(
        reported >= patient.used_blocks,
        "{reported} exchanges reported"
    );
}

#[test]
fn a_lost_write_of_any_block_is_reported_or_harmless() {
    // The older bytes of a block, whole in themselves: what a disk leaves that acknowledged a write and lost it.
    let patient = Patient::new("lost write");
    let older = {
        let db = patient.options.open_existing(&patient.path).expect("whole");
        let old = std::fs::read(data_file(&patient.path)).expect("there");
        for name in patient.trees.keys() {
            let tree = db.tree(name).expect("there");
            for (key, value) in &patient.trees[name] {
                tree.put(key, value).expect("room");
            }
        }
        db.close().expect("room");
        old
    };
    let bytes = std::fs::read(data_file(&patient.path)).expect("there");
    let blocks = bytes.len().min(older.len()) / BLOCK_BYTES;
    let patient = Patient { bytes, ..patient };
    for block in (0..blocks).step_by(if scaled(100, 0) < 100 { 5 } else { 1 }) {
        let at = block * BLOCK_BYTES;
        if older[at..at + BLOCK_BYTES] != patient.bytes[at..at + BLOCK_BYTES] {
            patient.look_with(
                &[(at, &older[at..at + BLOCK_BYTES])],
                &format!("lost write of block {block}"),
            );
        }
    }
}

#[test]
fn every_backend_reports_damage() {
    for backend in [latchkv::Backend::Uring, latchkv::Backend::Mmap] {
        let mut patient = Patient::new("every backend");
        patient.options = patient.options.backend(backend);
        for at in patient.sectors().step_by(23) {
            let what = format!("{backend:?}: noise at {at}");
            patient.look_with(&[(at, &[0xa5; SECTOR])], &what);
        }
        for blocks in [0, 1, 17, 32, 33, 40, patient.used_blocks] {
            patient
                .file
                .set_len((blocks * BLOCK_BYTES) as u64)
                .expect("it shrinks");
            assert!(patient.look(&format!("{backend:?}: cut to {blocks} blocks")) > 0);
            patient.file.write_all_at(&patient.bytes, 0).expect("room");
        }
    }
}

#[test]
fn a_file_that_shrinks_under_an_open_database_gives_errors() {
    for backend in [
        latchkv::Backend::Uring,
        latchkv::Backend::Mmap,
        latchkv::Backend::Pread,
    ] {
        let patient = Patient::new("shrinks while open");
        let db = patient
            .options
            .clone()
            .backend(backend)
            .open_read_only(&patient.path)
            .expect("whole");
        patient
            .file
            .set_len(34 * BLOCK_BYTES as u64)
            .expect("it shrinks");
        let what = format!("shrinks under {backend:?}");
        assert!(bounded(&what, || look(Ok(db), &patient.trees, &what)) > 0);
    }
}

/// Reaching into a file by the format, to change it and make all checksums right again.
struct Forger {
    bytes: Vec<u8>,
    slot: usize,
}

const SLOTS: [usize; 2] = [0, 16 * BLOCK_BYTES];

impl Forger {
    fn new(bytes: &[u8]) -> Forger {
        let sequence = |slot: usize| u64_at(bytes, SLOTS[slot] + 32);
        let slot = usize::from(sequence(1) > sequence(0));
        Forger {
            bytes: bytes.to_vec(),
            slot,
        }
    }

    /// Block and length of the manifest.
    fn manifest(&self) -> std::ops::Range<usize> {
        let slot = SLOTS[self.slot];
        run_of(
            u64_at(&self.bytes, slot + 56),
            u64::from(u32_at(&self.bytes, slot + 64)),
        )
    }

    fn map_pages(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        let manifest = &self.bytes[self.manifest()];
        let (trees, count) = (u32_at(manifest, 20) as usize, u32_at(manifest, 24) as usize);
        let entries = (0..count).map(|index| (index, u64_at(manifest, 64 + 16 * (trees + index))));
        entries
            .filter(|(_, word)| *word != 0)
            .map(|(index, word)| (index, run_of(word & ((1 << 40) - 1), word >> 40)))
            .collect()
    }

    /// Page id and place of each page.
    fn pages(&self) -> Vec<(u64, std::ops::Range<usize>)> {
        let mut pages = Vec::new();
        for (index, map_page) in self.map_pages() {
            for (entry, bytes) in self.bytes[map_page].chunks_exact(16).enumerate() {
                let word = u64_at(bytes, 0);
                if word != 0 {
                    pages.push((
                        (index * 1024 + entry) as u64,
                        run_of(word & ((1 << 40) - 1), word >> 40),
                    ));
                }
            }
        }
        pages
    }

    /// Makes every checksum right, from the pages up to both superblocks.
    fn seal(&mut self) {
        for (page, run) in self.pages() {
            let checksum = xxh3_64_with_seed(&self.bytes[run], page);
            let (index, entry) = (page as usize / 1024, page as usize % 1024);
            let map_page = self
                .map_pages()
                .into_iter()
                .find(|(number, _)| *number == index);
            let at = map_page.expect("it names the page").1.start + entry * 16 + 8;
            self.bytes[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        }
        self.seal_map();
    }

    fn seal_map(&mut self) {
        let manifest = self.manifest();
        let trees = u32_at(&self.bytes, manifest.start + 20) as usize;
        for (index, run) in self.map_pages() {
            let checksum = xxh3_64_with_seed(&self.bytes[run], (1 << 63) + index as u64);
            let at = manifest.start + 64 + 16 * (trees + index) + 8;
            self.bytes[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        }
        self.seal_manifest();
    }

    fn seal_manifest(&mut self) {
        let slot = SLOTS[self.slot];
        let sequence = u64_at(&self.bytes, slot + 32);
        let checksum = xxh3_64_with_seed(&self.bytes[self.manifest()], (1 << 62) + sequence);
        self.bytes[slot + 80..slot + 88].copy_from_slice(&checksum.to_le_bytes());
        self.seal_superblock();
    }

    /// The newer superblock made right and copied over the other.
    fn seal_superblock(&mut self) {
        let slot = SLOTS[self.slot];
        let checksum = xxh3_64(&self.bytes[slot..slot + BLOCK_BYTES - 8]);
        self.bytes[slot + BLOCK_BYTES - 8..slot + BLOCK_BYTES]
            .copy_from_slice(&checksum.to_le_bytes());
        let superblock = self.bytes[slot..slot + BLOCK_BYTES].to_vec();
        let other = SLOTS[1 - self.slot];
        self.bytes[other..other + BLOCK_BYTES].copy_from_slice(&superblock);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn run_of(block: u64, blocks: u64) -> std::ops::Range<usize> {
    let start = block as usize * BLOCK_BYTES;
    start..start + blocks as usize * BLOCK_BYTES
}

/// Uses a forged file in every way, for writing too. Anything but a panic, a hang and a lot of memory will do.
fn use_anyhow(bytes: &[u8], trees: &Trees, what: &str) {
    bounded(what, || {
        let disk = Arc::new(SimDisk::new(1));
        disk.damage(0, bytes);
        let db = match tiny(4096).open_disk(disk) {
            Ok(db) => db,
            Err(error) => {
                // A page size that asks for a greater cache is told as such.
                if !matches!(error, Error::Usage(_)) {
                    assert_names_the_place(&error, what);
                }
                return 1;
            }
        };
        let _ = db.trees();
        for (name, model) in trees {
            let Ok(Some(tree)) = db.open_tree(name) else {
                continue;
            };
            // Twice as many as there are: records may be forged, but they end.
            let most = 2 * model.len() + 1000;
            assert!(
                tree.iter().take(most).filter(Result::is_ok).count() < most,
                "{what}: a scan without end"
            );
            assert!(
                tree.iter().rev().take(most).filter(Result::is_ok).count() < most,
                "{what}: a scan without end"
            );
            for (key, value) in model.iter().step_by(11) {
                let _ = tree.get(key);
                let _ = tree.put(key, &value[..value.len() / 2]);
                let _ = tree.delete(key);
                let _ = tree.put(key, value);
            }
            let _ = tree.clear();
            let _ = tree.bulk_load(model.iter().take(50));
        }
        let _ = db.check(|_| {});
        let _ = db.drop_tree("many");
        let _ = db.checkpoint();
        let _ = db.check(|_| {});
        let _ = db.close();
        1
    });
}

/// The bytes of the sample database, whole.
fn sample() -> (Vec<u8>, Trees) {
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let trees = fill(&db);
    db.close().expect("room");
    (
        std::fs::read(data_file(Path::new(&place.path))).expect("there"),
        trees,
    )
}

#[test]
fn the_forger_knows_the_format() {
    let (bytes, trees) = sample();
    let mut forger = Forger::new(&bytes);
    forger.seal();
    assert!(
        forger.bytes == bytes,
        "sealing a whole file changes nothing"
    );
    assert!(forger.pages().len() > 20);
    use_anyhow(&bytes, &trees, "undamaged");
}

const ABSURD: [u64; 9] = [
    0,
    1,
    31,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 39,
    (1 << 40) - 1,
    1 << 63,
    u64::MAX,
];

#[test]
fn absurd_superblocks_with_right_checksums_are_refused() {
    let _watchdog = watchdog("absurd superblocks");
    let (bytes, trees) = sample();
    for at in (12..104).step_by(4) {
        for absurd in ABSURD {
            let mut forger = Forger::new(&bytes);
            let slot = SLOTS[forger.slot];
            forger.bytes[slot + at..slot + at + 8].copy_from_slice(&absurd.to_le_bytes());
            forger.seal_superblock();
            use_anyhow(
                &forger.bytes,
                &trees,
                &format!("superblock byte {at} = {absurd:#x}"),
            );
        }
    }
}

#[test]
fn absurd_manifests_and_map_pages_with_right_checksums_are_refused() {
    let _watchdog = watchdog("absurd manifests");
    let (bytes, trees) = sample();
    let mut rng = Rng::with_seed(seed(5));
    for round in 0..scaled(600, 60) {
        let mut forger = Forger::new(&bytes);
        let runs: Vec<_> = std::iter::once(forger.manifest())
            .chain(forger.map_pages().into_iter().map(|page| page.1))
            .collect();
        let which = rng.usize(0..runs.len());
        let run = runs[which].clone();
        // Mostly where something is.
        let used = run
            .clone()
            .step_by(4)
            .filter(|&at| u32_at(&bytes, at) != 0)
            .collect::<Vec<_>>();
        let at = if rng.u32(0..8) > 0 {
            used[rng.usize(0..used.len())]
        } else {
            run.start + rng.usize(0..1000) * 4
        };
        let at = at.min(run.end - 8);
        let absurd = if rng.bool() {
            ABSURD[rng.usize(0..ABSURD.len())]
        } else {
            u64_at(&bytes, at) ^ (1 << rng.u32(0..64))
        };
        forger.bytes[at..at + 8].copy_from_slice(&absurd.to_le_bytes());
        match which {
            0 => forger.seal_manifest(),
            _ => forger.seal_map(),
        }
        use_anyhow(
            &forger.bytes,
            &trees,
            &format!("round {round}: {absurd:#x} at {at}, run {which}"),
        );
    }
}

#[test]
fn absurd_tree_pages_with_right_checksums_are_refused() {
    let _watchdog = watchdog("absurd pages");
    let (bytes, trees) = sample();
    let mut rng = Rng::with_seed(seed(6));
    let pages = Forger::new(&bytes).pages();
    for round in 0..scaled(1200, 100) {
        let mut forger = Forger::new(&bytes);
        let (page, run) = pages[rng.usize(0..pages.len())].clone();
        let mut what = format!("round {round}, page {page}:");
        for _ in 0..rng.usize(1..3) {
            // Mostly head and slots, where the structure is.
            let word = if rng.u32(0..4) > 0 {
                rng.usize(0..40)
            } else {
                rng.usize(0..run.len() / 8)
            };
            let at = run.start + word * 8;
            let old = u64_at(&bytes, at);
            let absurd = match rng.u32(0..4) {
                0 => ABSURD[rng.usize(0..ABSURD.len())],
                1 => old ^ (0xffff << (16 * rng.u32(0..4))),
                2 => old.wrapping_add(1 << rng.u32(0..64)),
                // Another page's word: well formed in itself.
                _ => {
                    let other = &pages[rng.usize(0..pages.len())].1;
                    u64_at(&bytes, other.start + word * 8 % other.len())
                }
            };
            what += &format!(" word {word} = {absurd:#x}");
            forger.bytes[at..at + 8].copy_from_slice(&absurd.to_le_bytes());
        }
        forger.seal();
        use_anyhow(&forger.bytes, &trees, &what);
    }
}

#[test]
fn pages_that_stand_for_each_other_with_right_checksums_are_noticed() {
    let _watchdog = watchdog("exchanged pages");
    let (bytes, trees) = sample();
    let pages = Forger::new(&bytes).pages();
    let mut rng = Rng::with_seed(seed(7));
    for round in 0..scaled(300, 40) {
        let mut forger = Forger::new(&bytes);
        let (a, b) = (
            &pages[rng.usize(0..pages.len())],
            &pages[rng.usize(0..pages.len())],
        );
        let len = a.1.len().min(b.1.len());
        let (from, to) = (a.1.start, b.1.start);
        forger.bytes.copy_within(from..from + len, to);
        if rng.bool() {
            // With the id of the place it stands in, so that only its content is foreign.
            let word = (u64_at(&forger.bytes, to + 8) & !((1 << 40) - 1)) | b.0;
            forger.bytes[to + 8..to + 16].copy_from_slice(&word.to_le_bytes());
        }
        forger.seal();
        use_anyhow(
            &forger.bytes,
            &trees,
            &format!("round {round}: page {} in the place of {}", a.0, b.0),
        );
    }
}
