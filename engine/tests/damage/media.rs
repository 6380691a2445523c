//! Damage as media do it: flipped bits, noise, zeroed, exchanged and lost sectors and blocks, files cut
//! short.
//!
//! Every used block must be reported for some damage of it; no damage may go unnoticed and give a wrong
//! record.

use crate::common::matrix::{Case, over_every_backend};
use crate::common::{Place, Watchdog, data_file, place, scaled, watchdog};
use crate::{Trees, assert_names_the_place, bounded, fill};
use fastrand::Rng;
use latchkv::{BLOCK_BYTES, Backend, Db, Error, Options};
use std::fs::File;
use std::os::unix::fs::FileExt;

const SECTOR: usize = 512;

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
        assert!(ended || forward.next().is_none(), "{what}: the scan of {name:?} simply ended");
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
            report.problems.iter().for_each(|problem| assert_names_the_place(problem, what));
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

/// A database on disk, opened for reading by turns with being damaged.
struct Patient {
    case: Case,
    _watchdog: Watchdog,
    _place: Place,
    path: std::path::PathBuf,
    options: Options,
    trees: Trees,
    bytes: Vec<u8>,
    /// Blocks that hold something, the superblocks not included.
    used_blocks: usize,
    file: File,
}

impl Patient {
    fn new(case: Case, test: &'static str) -> Patient {
        let place = place();
        let options = case.options();
        let db = case.create(&place.path);
        let trees = fill(&db);
        db.close().expect("room");
        let db = options.open_read_only(&place.path).expect("closed in order");
        assert_eq!(look(Ok(db.clone()), &trees, "undamaged"), 0);
        let used_blocks = db.stats().store.used_blocks as usize - 32;
        drop(db);
        let path = data_file(&place.path);
        let bytes = std::fs::read(&path).expect("there");
        let file = File::options().write(true).open(&path).expect("there");
        let path = place.path.clone();
        Patient {
            case,
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
        bounded(what, || look(self.options.open_read_only(&self.path), &self.trees, what))
    }

    /// Puts other bytes at an offset, looks, and puts the old ones back.
    fn look_with(&self, changes: &[(usize, &[u8])], what: &str) -> usize {
        for (at, bytes) in changes {
            self.file.write_all_at(bytes, *at as u64).expect("room");
        }
        let errors = self.look(what);
        for (at, bytes) in changes {
            self.file.write_all_at(&self.bytes[*at..*at + bytes.len()], *at as u64).expect("room");
        }
        errors
    }

    /// Every how many-th sector is damaged: all of them in a long run, else at least one of each block, not
    /// always the same one. Fewer in emulation, and over io_uring, where opening is slow and the bytes meet the
    /// same code.
    fn stride(&self) -> usize {
        match (scaled(100, 0), self.case.backend) {
            (1000.., _) => 1,
            (..100, _) | (_, Some(Backend::Uring)) => 29,
            (_, Some(Backend::Pread)) if self.case.page_bytes == 4096 => 3,
            _ => 7,
        }
    }

    /// Whether each block is met.
    fn meets_all(&self) -> bool {
        self.stride() * SECTOR <= BLOCK_BYTES
    }

    fn sectors(&self) -> impl Iterator<Item = usize> {
        (0..self.bytes.len()).step_by(SECTOR * self.stride())
    }

    /// The blocks from `first` on, all of them or every fourth.
    fn blocks(&self, first: usize) -> impl Iterator<Item = usize> {
        let step = if self.meets_all() { 1 } else { 4 };
        (first..self.bytes.len() / BLOCK_BYTES).step_by(step)
    }

    /// Damage of each sector by `damage`, which may leave a sector as it was. Every used block must be
    /// reported for some of them.
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
        if self.meets_all() {
            let (reported, used) = (blocks_reported.len(), self.used_blocks);
            assert!(reported >= used, "{kind}: reported in {reported} of {used} used blocks");
        }
    }
}

fn flips(case: Case) {
    let patient = Patient::new(case, "flip");
    patient.each_sector("flip", |old, at| {
        let mut new = old.to_vec();
        new[at / SECTOR * 131 % SECTOR] ^= 1 << (at / SECTOR % 8);
        new
    });
}

fn noise(case: Case) {
    let patient = Patient::new(case, "noise");
    let seed = case.seed(1);
    patient.each_sector("noise", |old, at| {
        let mut new = old.to_vec();
        Rng::with_seed(seed ^ at as u64).fill(&mut new);
        new
    });
}

fn zeros(case: Case) {
    let patient = Patient::new(case, "zero");
    let mut reported = 0;
    for at in patient.sectors() {
        reported +=
            usize::from(patient.look_with(&[(at, &[0; SECTOR])], &format!("zero at {at}")) > 0);
    }
    assert!(
        reported * 8 >= patient.used_blocks || !patient.meets_all(),
        "{reported} sectors reported"
    );
}

fn cuts(case: Case) {
    let patient = Patient::new(case, "cut");
    let mut first_whole = None;
    for at in patient.sectors() {
        patient.file.set_len(at as u64).expect("it shrinks");
        let errors = patient.look(&format!("cut at {at}"));
        patient.file.write_all_at(&patient.bytes[at..], at as u64).expect("room");
        match first_whole {
            None if errors == 0 => first_whole = Some(at),
            None => {}
            // Free blocks at the end may be missing; once nothing is, a longer file is no worse.
            Some(whole) => assert_eq!(errors, 0, "cut at {at} is worse than at {whole}"),
        }
    }
    let least = (32 + patient.used_blocks) * BLOCK_BYTES;
    assert!(first_whole.is_none_or(|at| at + BLOCK_BYTES > least), "{first_whole:?} < {least}");
}

fn exchanged_sectors(case: Case) {
    let patient = Patient::new(case, "exchange sectors");
    let mut rng = Rng::with_seed(case.seed(2));
    let sectors = patient.bytes.len() / SECTOR;
    for at in patient.sectors() {
        let other = rng.usize(0..sectors) * SECTOR;
        let (a, b) = (&patient.bytes[at..at + SECTOR], &patient.bytes[other..other + SECTOR]);
        if a != b {
            patient.look_with(
                &[(at, b), (other, a)],
                &format!("sectors at {at} and {other} exchanged"),
            );
        }
    }
}

fn exchanged_blocks(case: Case) {
    let patient = Patient::new(case, "exchange blocks");
    let mut rng = Rng::with_seed(case.seed(3));
    let blocks = patient.bytes.len() / BLOCK_BYTES;
    let mut reported = 0;
    for block in patient.blocks(32) {
        for _ in 0..2 {
            let (at, other) = (block * BLOCK_BYTES, rng.usize(0..blocks) * BLOCK_BYTES);
            let (a, b) =
                (&patient.bytes[at..at + BLOCK_BYTES], &patient.bytes[other..other + BLOCK_BYTES]);
            let what = format!("blocks at {at} and {other} exchanged");
            reported += usize::from(a != b && patient.look_with(&[(at, b), (other, a)], &what) > 0);
        }
    }
    assert!(
        reported >= patient.used_blocks || !patient.meets_all(),
        "{reported} exchanges reported"
    );
}

fn lost_writes(case: Case) {
    // The older bytes of a block, whole in themselves: what a disk leaves that acknowledged a write and lost
    // it.
    let patient = Patient::new(case, "lost write");
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
    let patient = Patient { bytes, ..patient };
    for block in patient.blocks(0) {
        let at = block * BLOCK_BYTES;
        if at < older.len() && older[at..at + BLOCK_BYTES] != patient.bytes[at..at + BLOCK_BYTES] {
            patient.look_with(
                &[(at, &older[at..at + BLOCK_BYTES])],
                &format!("lost write of block {block}"),
            );
        }
    }
}

/// Whole blocks lost at the end, a few of them and most of them.
fn lost_ends(case: Case) {
    let patient = Patient::new(case, "lost ends");
    for blocks in [0, 1, 17, 32, 33, 40, patient.used_blocks] {
        patient.file.set_len((blocks * BLOCK_BYTES) as u64).expect("it shrinks");
        assert!(patient.look(&format!("cut to {blocks} blocks")) > 0);
        patient.file.write_all_at(&patient.bytes, 0).expect("room");
    }
}

fn shrinks_while_open(case: Case) {
    let patient = Patient::new(case, "shrinks while open");
    let db = patient.options.open_read_only(&patient.path).expect("whole");
    patient.file.set_len(34 * BLOCK_BYTES as u64).expect("it shrinks");
    let what = format!("shrinks under {case:?}");
    assert!(bounded(&what, || look(Ok(db), &patient.trees, &what)) > 0);
}

over_every_backend! {
    a_flipped_bit_in_any_sector_is_reported_or_harmless => super::flips;
    a_sector_of_noise_is_reported_or_harmless => super::noise;
    a_zeroed_sector_is_reported_or_harmless => super::zeros;
    a_file_cut_at_any_sector_is_reported => super::cuts;
    two_exchanged_sectors_are_reported_or_harmless => super::exchanged_sectors;
    two_exchanged_blocks_are_reported_or_harmless => super::exchanged_blocks;
    a_lost_write_of_any_block_is_reported_or_harmless => super::lost_writes;
    a_file_that_lost_its_end_is_reported => super::lost_ends;
    a_file_that_shrinks_under_an_open_database_gives_errors => super::shrinks_while_open;
}
