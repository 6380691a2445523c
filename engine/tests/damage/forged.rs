//! Damage as media cannot do it: absurd numbers and foreign words with all checksums made right again, which
//! reaches the code behind the checksums.

use crate::common::matrix::{Case, at_every_page_size};
use crate::common::{data_file, log_file, open_on, place, watchdog};
use crate::{Trees, assert_names_the_place, bounded, fill};
use fastrand::Rng;
use latchkv::io::sim::SimMachine;
use latchkv::{BLOCK_BYTES, Error};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

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
        Forger { bytes: bytes.to_vec(), slot }
    }

    /// Block and length of the manifest.
    fn manifest(&self) -> std::ops::Range<usize> {
        let slot = SLOTS[self.slot];
        run_of(u64_at(&self.bytes, slot + 56), u64::from(u32_at(&self.bytes, slot + 64)))
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
            let map_page = self.map_pages().into_iter().find(|(number, _)| *number == index);
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

/// Uses a forged file in every way, for writing too. Anything but a panic, a hang and a lot of memory will
/// do.
fn use_anyhow(case: Case, bytes: &[u8], sample: &Sample, what: &str) {
    let trees = &sample.trees;
    bounded(what, || {
        let machine = SimMachine::new(1);
        machine.data().damage(0, bytes);
        machine.log().damage(0, &sample.log);
        let db = match open_on(&machine, &case.options()) {
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

/// What a database was made of, beside its data.
struct Sample {
    log: Vec<u8>,
    trees: Trees,
}

/// The bytes of the sample database, whole, and the rest of it.
fn sample(case: Case) -> (Vec<u8>, Sample) {
    let place = place();
    let db = case.options().create(&place.path).expect("nothing there");
    let trees = fill(&db);
    db.close().expect("room");
    let [data, log] =
        [data_file, log_file].map(|file| std::fs::read(file(&place.path)).expect("there"));
    (data, Sample { log, trees })
}

fn forger(case: Case) {
    let (bytes, sample) = sample(case);
    let mut forger = Forger::new(&bytes);
    forger.seal();
    assert!(forger.bytes == bytes, "sealing a whole file changes nothing");
    assert!(forger.pages().len() >= 9, "{} pages", forger.pages().len());
    use_anyhow(case, &bytes, &sample, "undamaged");
}

const ABSURD: [u64; 9] =
    [0, 1, 31, 0x7fff_ffff, 0xffff_ffff, 1 << 39, (1 << 40) - 1, 1 << 63, u64::MAX];

fn superblocks(case: Case) {
    let _watchdog = watchdog("absurd superblocks");
    let (bytes, sample) = sample(case);
    for at in (12..104).step_by(4) {
        for absurd in ABSURD {
            let mut forger = Forger::new(&bytes);
            let slot = SLOTS[forger.slot];
            forger.bytes[slot + at..slot + at + 8].copy_from_slice(&absurd.to_le_bytes());
            forger.seal_superblock();
            use_anyhow(
                case,
                &forger.bytes,
                &sample,
                &format!("superblock byte {at} = {absurd:#x}"),
            );
        }
    }
}

fn manifests_and_map_pages(case: Case) {
    let _watchdog = watchdog("absurd manifests");
    let (bytes, sample) = sample(case);
    let mut rng = Rng::with_seed(case.seed(5));
    for round in 0..case.share(300, 40) {
        let mut forger = Forger::new(&bytes);
        let runs: Vec<_> = std::iter::once(forger.manifest())
            .chain(forger.map_pages().into_iter().map(|page| page.1))
            .collect();
        let which = rng.usize(0..runs.len());
        let run = runs[which].clone();
        // Mostly where something is.
        let used = run.clone().step_by(4).filter(|&at| u32_at(&bytes, at) != 0).collect::<Vec<_>>();
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
            case,
            &forger.bytes,
            &sample,
            &format!("round {round}: {absurd:#x} at {at}, run {which}"),
        );
    }
}

fn tree_pages(case: Case) {
    let _watchdog = watchdog("absurd pages");
    let (bytes, sample) = sample(case);
    let mut rng = Rng::with_seed(case.seed(6));
    let pages = Forger::new(&bytes).pages();
    for round in 0..case.share(400, 60) {
        let mut forger = Forger::new(&bytes);
        let (page, run) = pages[rng.usize(0..pages.len())].clone();
        let mut what = format!("round {round}, page {page}:");
        for _ in 0..rng.usize(1..3) {
            // Mostly head and slots, where the structure is.
            let word =
                if rng.u32(0..4) > 0 { rng.usize(0..40) } else { rng.usize(0..run.len() / 8) };
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
        use_anyhow(case, &forger.bytes, &sample, &what);
    }
}

fn exchanged_pages(case: Case) {
    let _watchdog = watchdog("exchanged pages");
    let (bytes, sample) = sample(case);
    let pages = Forger::new(&bytes).pages();
    let mut rng = Rng::with_seed(case.seed(7));
    for round in 0..case.share(150, 30) {
        let mut forger = Forger::new(&bytes);
        let (a, b) = (&pages[rng.usize(0..pages.len())], &pages[rng.usize(0..pages.len())]);
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
            case,
            &forger.bytes,
            &sample,
            &format!("round {round}: page {} in the place of {}", a.0, b.0),
        );
    }
}

/// The name of a large value was freed while the leaf with it and its parent were latched: where it named one
/// of them, a clear or a drop waited for itself for ever.
fn foreign_names(case: Case) {
    let _watchdog = watchdog("values that are pages");
    let (bytes, sample) = sample(case);
    let large = &sample.trees["large"];
    let len = large.values().next().expect("four of them").len() as u64;
    let pages = Forger::new(&bytes).pages();
    let names = |run: &std::ops::Range<usize>| {
        let is_name = |&at: &usize| {
            let page = u64_at(&bytes, at);
            u64_at(&bytes, at + 8) == len && pages.iter().any(|(other, _)| *other == page)
        };
        (run.start..run.end - 16).filter(is_name).collect::<Vec<_>>()
    };
    let (home, found) = pages
        .iter()
        .map(|(page, run)| (page, names(run)))
        .find(|(_, found)| !found.is_empty())
        .expect("a leaf with large values");
    assert_eq!(found.len(), large.len());
    let own = pages.iter().filter(|(page, _)| page == home);
    for (target, _) in own.chain(&pages) {
        let mut forger = Forger::new(&bytes);
        forger.bytes[found[1]..found[1] + 8].copy_from_slice(&target.to_le_bytes());
        forger.seal();
        let what = format!("page {home} names page {target} as a large value");
        use_anyhow(case, &forger.bytes, &sample, &what);
    }
}

at_every_page_size! {
    a_tree_page_that_is_named_as_a_large_value_hangs_nothing => super::foreign_names;
    the_forger_knows_the_format => super::forger;
    absurd_superblocks_with_right_checksums_are_refused => super::superblocks;
    absurd_manifests_and_map_pages_with_right_checksums_are_refused => super::manifests_and_map_pages;
    absurd_tree_pages_with_right_checksums_are_refused => super::tree_pages;
    pages_that_stand_for_each_other_with_right_checksums_are_noticed => super::exchanged_pages;
}
