//! A damaged log. Its end may be torn, which costs what was not acknowledged; damage before a place that was synced
//! is an error that names it, and leaves the file as it is.
//!
//! What nobody can tell is damage to the records at the very end: nothing says that they were ever whole. So a damaged
//! sector may take the commits that end in it or behind it, if it takes all of them, and no other.

use crate::common::{Model, open_on, place, scaled, seed, tiny, value_of, watchdog};
use crate::{assert_names_the_place, bounded};
use fastrand::Rng;
use latchkv::io::Disk;
use latchkv::io::sim::SimMachine;
use latchkv::{Db, Durability, Error, OpenError, Options};
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SECTOR: usize = 512;
const SLOT_BYTES: usize = 64 << 10;
const HEADER_BLOCK_BYTES: usize = 4096;
const DATA_BYTES: usize = SLOT_BYTES - HEADER_BLOCK_BYTES;
const RECORD_HEADER_BYTES: usize = 32;
/// Commits of the sample; all of them lie in one slot.
const COMMITS: usize = 40;

fn options() -> Options {
    tiny(4096).durability(Durability::Sync)
}

fn bytes_of(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![0; disk.len_bytes().expect("simulated") as usize];
    disk.read(0, &mut bytes).expect("no fault is planned");
    bytes
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A database that was not closed, one synced commit after the other behind its checkpoint.
struct Sample {
    data: Vec<u8>,
    log: Vec<u8>,
    /// The log before the last commit.
    log_before: Vec<u8>,
    /// Where in the file the record of each commit lies.
    records: Vec<Range<usize>>,
    /// What the tree holds after none, one, two... of the commits.
    models: Vec<Model>,
}

impl Sample {
    fn new() -> Sample {
        let machine = SimMachine::new(1);
        let db = open_on(&machine, &options()).expect("empty disks");
        let tree = db.tree("t").expect("room");
        db.checkpoint().expect("room");
        let log_usage = || db.stats().log.expect("open for writing");
        // The slot ahead says up to where all was synced when it was made: not up to the last commits.
        while log_usage().file_bytes < 2 * SLOT_BYTES as u64 {
            std::thread::yield_now();
        }
        let tail = || log_usage().tail as usize;
        let mut model = Model::new();
        let (mut records, mut models) = (Vec::new(), vec![model.clone()]);
        let mut log_before = Vec::new();
        for i in 0..COMMITS {
            log_before = bytes_of(&*machine.log());
            let lsn = tail();
            let key = |i: usize| format!("key {:02}", i % 25).into_bytes();
            if i % 9 == 8 {
                let key = key(i - 1);
                assert!(tree.delete(&key).expect("room") && model.remove(&key).is_some());
            } else {
                // The last one spans a few sectors.
                let len = if i % 6 == 3 { 800 } else { 40 };
                let key = key(i);
                let value = value_of(&key, i as u64, len);
                tree.put(&key, &value).expect("room");
                model.insert(key, value);
            }
            let log = bytes_of(&*machine.log());
            let place = HEADER_BLOCK_BYTES + lsn % DATA_BYTES;
            let found = (place..log.len()).step_by(SLOT_BYTES);
            let start = found.into_iter().find(|&at| u64_at(&log, at + 8) == lsn as u64);
            let start = start.expect("a record says where it lies");
            records.push(start..start + tail() - lsn);
            models.push(model.clone());
        }
        let ends = records[0].start / SLOT_BYTES..records[COMMITS - 1].end / SLOT_BYTES;
        assert!(ends.is_empty(), "one slot");
        let [data, log] = [machine.data(), machine.log()].map(|disk| bytes_of(&*disk));
        Sample { data, log, log_before, records, models }
    }

    fn last(&self) -> Range<usize> {
        self.records[COMMITS - 1].clone()
    }

    fn machine(&self, log: &[u8]) -> SimMachine {
        let machine = SimMachine::new(1);
        machine.data().damage(0, &self.data);
        machine.log().damage(0, log);
        machine
    }

    /// Opens the database with this log in place of its own. Gives how many of its commits it holds.
    fn opened(&self, log: &[u8], what: &str) -> Result<usize, Error> {
        let mut result = Ok(0);
        bounded(what, || {
            let machine = self.machine(log);
            result = match open_on(&machine, &options()) {
                Ok(db) => Ok(self.commits_in(&db, what)),
                Err(error) => {
                    assert_names_the_place(&error, what);
                    assert!(bytes_of(&*machine.log()) == log, "{what}: the log was changed");
                    // What was applied before the error was met harmed nothing: with the right log all is there.
                    machine.log().set_len(0).expect("no fault is planned");
                    machine.log().damage(0, &self.log);
                    // The other may be longer.
                    machine.log().set_len(self.log.len() as u64).expect("no fault is planned");
                    let db = open_on(&machine, &options()).expect("the log is whole again");
                    assert_eq!(self.commits_in(&db, what), COMMITS, "{what}: repaired");
                    Err(error)
                }
            };
            0
        });
        result
    }

    /// How many commits the database holds: it must be the first of them.
    fn commits_in(&self, db: &Db, what: &str) -> usize {
        let tree = db.open_tree("t").expect("readable").expect("of the checkpoint");
        let found = crate::common::records(&tree).expect("readable").into_iter().collect();
        let commits = self.models.iter().rposition(|model| *model == found);
        crate::common::assert_whole(db);
        commits.unwrap_or_else(|| panic!("{what}: {} records that never were", found.len()))
    }

    /// `log` with `bytes` at `at`.
    fn with(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut log = self.log.clone();
        log[at..at + bytes.len()].copy_from_slice(bytes);
        log
    }
}

#[test]
fn a_log_torn_at_any_byte_of_its_last_record_holds_all_that_came_before() {
    let _watchdog = watchdog("a log torn");
    let sample = Sample::new();
    assert_eq!(sample.opened(&sample.log, "undamaged").expect("whole"), COMMITS);
    let (last, seed) = (sample.last(), seed(60));
    assert!(last.len() > SECTOR + SECTOR / 2, "{} bytes", last.len());
    for cut in last.clone().step_by(if scaled(100, 0) < 100 { 9 } else { 1 }) {
        let rest = cut..last.end;
        let mut noise = vec![0; rest.len()];
        Rng::with_seed(seed ^ cut as u64).fill(&mut noise);
        for (kind, bytes) in [("as before", &sample.log_before[rest.clone()]), ("noise", &noise)] {
            let torn = sample.with(cut, bytes);
            let what = format!("{kind} from byte {} of the last record on", cut - last.start);
            let commits = sample.opened(&torn, &what).expect("a torn end is no damage");
            let expected = if torn == sample.log { COMMITS } else { COMMITS - 1 };
            assert_eq!(commits, expected, "{what}");
        }
    }
}

#[test]
fn a_log_file_that_was_cut_short_is_told_and_lengthened_it_holds_all_that_came_before() {
    let _watchdog = watchdog("a log file that ends");
    let sample = Sample::new();
    let last = sample.last();
    // Right behind a record, within one, and where all of them are left.
    let ends = [sample.records[7].end, sample.records[20].start + 9, last.end + SECTOR];
    for cut in last.clone().step_by(7).chain(ends) {
        let what = format!("the file ends at byte {cut}, the last record at {}", last.end);
        let opened = sample.opened(&sample.log[..cut], &what);
        if cut > last.end {
            assert_eq!(opened.expect("no commit is lost"), COMMITS, "{what}");
            continue;
        }
        let Err(Error::Corrupt(corruption)) = opened else { panic!("{what}: {opened:?}") };
        assert!(corruption.file.ends_with("log"), "{what}: {corruption}");
        assert_eq!(corruption.offset, Some(cut as u64), "{what}: {corruption}");
        let mut lengthened = sample.log[..cut].to_vec();
        lengthened.resize(sample.log.len(), 0);
        // The last bytes of a record may be zeros.
        let is_whole =
            |record: &&Range<usize>| lengthened[(*record).clone()] == sample.log[(*record).clone()];
        let whole = sample.records.iter().filter(is_whole).count();
        assert_eq!(sample.opened(&lengthened, &what).expect("said to be the end"), whole, "{what}");
    }
}

#[test]
fn damage_before_a_synced_place_is_told_by_file_and_offset_and_nothing_is_cut() {
    let _watchdog = watchdog("damage before a synced place");
    let sample = Sample::new();
    let mut rng = Rng::with_seed(seed(61));
    for (number, record) in sample.records[..COMMITS - 1].iter().enumerate() {
        let at = rng.usize(record.clone());
        let flipped = sample.with(at, &[sample.log[at] ^ 1 << rng.u32(0..8)]);
        let zeroed = sample.with(record.start, &vec![0; record.len()]);
        for (kind, log) in [("flipped", flipped), ("zeroed", zeroed)] {
            let what = format!("record {number} {kind}");
            // The bytes are compared there, and the right log put back.
            let error = sample.opened(&log, &what).expect_err("it was synced");
            let Error::Corrupt(corruption) = &error else { panic!("{what}: {error:?}") };
            assert!(corruption.file.ends_with("log"), "{what}: {error}");
            assert_eq!(corruption.offset, Some(record.start as u64), "{what}: {error}");
        }
    }
}

#[test]
fn a_database_whose_log_is_damaged_is_not_opened_for_reading_either_and_stays_as_it_is() {
    let sample = Sample::new();
    let place = place();
    std::fs::create_dir(&place.path).expect("room");
    let (data, log) = (crate::common::data_file(&place.path), crate::common::log_file(&place.path));
    std::fs::write(&data, &sample.data).expect("room");
    let at = sample.records[3].start + 9;
    let damaged = sample.with(at, &[sample.log[at] ^ 4]);
    std::fs::write(&log, &damaged).expect("room");
    for opened in [options().open(&place.path), options().open_existing(&place.path)] {
        let Err(Error::Corrupt(corruption)) = opened else { panic!("{opened:?}") };
        assert_eq!(corruption.file, log);
        assert_eq!(corruption.offset, Some(sample.records[3].start as u64));
    }
    // Three whole commits come before the damage, so it is enough to know that it needs recovery.
    let opened = options().open_read_only(&place.path);
    assert!(
        matches!(opened, Err(Error::Corrupt(_) | Error::Open(OpenError::NeedsRecovery(_)))),
        "{opened:?}"
    );
    assert!(std::fs::read(&log).expect("there") == damaged, "the log was changed");
    assert!(std::fs::read(&data).expect("there") == sample.data, "the data were changed");
}

/// Every sector that holds something, and a few of those that do not.
fn sectors(sample: &Sample) -> impl Iterator<Item = usize> {
    let slot = sample.last().start / SLOT_BYTES * SLOT_BYTES;
    let used = slot..sample.last().end + 2 * SECTOR;
    let step = if scaled(100, 0) < 100 { 5 } else { 1 };
    (0..sample.log.len())
        .step_by(SECTOR)
        .filter(move |at| {
            used.contains(at) || at % SLOT_BYTES < HEADER_BLOCK_BYTES || at % 16384 == 0
        })
        .step_by(step)
}

/// Damage of each sector by `damage`. Gives how many of them were reported.
fn each_sector(sample: &Sample, kind: &str, damage: impl Fn(&mut [u8], usize)) -> usize {
    let mut reported = 0;
    for at in sectors(sample) {
        let mut log = sample.log.clone();
        damage(&mut log[at..at + SECTOR], at);
        let what = format!("{kind} at {at}");
        let surely = sample.records.iter().filter(|record| record.end <= at).count();
        let touched = sample.records.iter().any(|record| {
            let within = record.start.max(at)..record.end.min(at + SECTOR);
            !within.is_empty() && log[within.clone()] != sample.log[within]
        });
        match sample.opened(&log, &what) {
            Ok(commits) if touched => {
                assert!(commits >= surely, "{what}: {commits} of {surely} before it");
                // All behind is gone with it, so that nobody could tell.
                let end = at + SECTOR;
                let behind = sample.records.iter().rposition(|record| record.start >= end);
                assert!(commits == COMMITS || behind.is_none(), "{what}: {commits} commits");
            }
            Ok(commits) => assert_eq!(commits, COMMITS, "{what}"),
            Err(_) => reported += 1,
        }
    }
    reported
}

#[test]
fn a_damaged_sector_of_the_log_is_reported_or_takes_only_what_nothing_follows() {
    let _watchdog = watchdog("sectors of the log");
    let sample = Sample::new();
    let seed = seed(62);
    let flips = each_sector(&sample, "flip", |sector, at| {
        sector[at / SECTOR * 131 % SECTOR] ^= 1 << (at / SECTOR % 8);
    });
    let zeros = each_sector(&sample, "zeros", |sector, _| sector.fill(0));
    let noise = each_sector(&sample, "noise", |sector, at| {
        Rng::with_seed(seed ^ at as u64).fill(sector);
    });
    let least = (sample.last().start - sample.records[0].start)
        / SECTOR
        / if scaled(100, 0) < 100 { 5 } else { 1 };
    for (kind, reported) in [("flips", flips), ("zeros", zeros), ("noise", noise)] {
        assert!(reported + 1 >= least, "{kind}: {reported} of {least} sectors reported");
    }
}

const ABSURD: [u64; 9] =
    [0, 1, 31, 0x7fff_ffff, 0xffff_ffff, 1 << 39, (1 << 48) - 1, 1 << 63, u64::MAX];

#[test]
fn absurd_headers_of_slots_with_right_checksums_are_refused() {
    let _watchdog = watchdog("absurd headers of slots");
    let sample = Sample::new();
    let slots = sample.log.len() / SLOT_BYTES;
    for slot in 0..slots {
        let block = slot * SLOT_BYTES;
        // Version, slot bytes, slot, part, first part, previous end, synced. The salt is any number.
        for at in [8, 32, 40, 48, 56, 72, 80] {
            let old = u64_at(&sample.log, block + at);
            for absurd in ABSURD.into_iter().chain([old + 1, old.wrapping_sub(1), old * 2]) {
                let mut log = sample.log.clone();
                for copy in [block, block + 2048] {
                    log[copy + at..copy + at + 8].copy_from_slice(&absurd.to_le_bytes());
                    let check = xxh3_64(&log[copy..copy + 88]);
                    log[copy + 88..copy + 96].copy_from_slice(&check.to_le_bytes());
                }
                let what = format!("slot {slot}, byte {at} = {absurd:#x}");
                let machine = sample.machine(&log);
                bounded(&what, || {
                    match open_on(&machine, &options()) {
                        Ok(db) => drop(sample.commits_in(&db, &what)),
                        Err(error) => assert_names_the_place(&error, &what),
                    }
                    0
                });
            }
        }
    }
}

#[test]
fn absurd_records_with_right_checksums_are_refused_or_mean_something() {
    let _watchdog = watchdog("absurd records");
    let sample = Sample::new();
    let slot = sample.last().start / SLOT_BYTES * SLOT_BYTES;
    let salt = u64_at(&sample.log, slot + 64);
    let mut rng = Rng::with_seed(seed(63));
    let seal = |log: &mut [u8], record: &Range<usize>| {
        let body = &log[record.start + RECORD_HEADER_BYTES..record.end];
        let all = [&log[record.start..record.start + 24], body].concat();
        let check = xxh3_64_with_seed(&all, salt);
        log[record.start + 24..record.start + 32].copy_from_slice(&check.to_le_bytes());
    };
    let mut log = sample.log.clone();
    seal(&mut log, &sample.records[5]);
    assert!(log == sample.log, "sealing a whole record changes nothing");
    for round in 0..scaled(600, 60) {
        let mut log = sample.log.clone();
        let record = &sample.records[rng.usize(0..COMMITS)];
        let mut what = format!("round {round}:");
        for _ in 0..rng.usize(1..4) {
            // Mostly where the operation says what it is.
            let most = record.len().min(if rng.u32(0..4) > 0 { 44 } else { usize::MAX });
            let least = if rng.bool() { RECORD_HEADER_BYTES } else { 0 };
            let at = rng.usize(least..most);
            let byte = [0, 1, 0x7f, 0x80, 0xff, log[record.start + at] ^ 1 << rng.u32(0..8)];
            let byte = byte[rng.usize(0..byte.len())];
            what += &format!(" byte {at} of the record at {} = {byte:#x}", record.start);
            log[record.start + at] = byte;
        }
        seal(&mut log, record);
        bounded(&what, || {
            match open_on(&sample.machine(&log), &options()) {
                // What it says was said with a right checksum.
                Ok(db) => {
                    let _ = db.trees().expect("readable");
                    crate::common::assert_whole(&db);
                }
                Err(error) => assert_names_the_place(&error, &what),
            }
            0
        });
    }
}

#[test]
fn a_log_that_is_not_this_database_s_is_refused() {
    let sample = Sample::new();
    let other = Sample::new();
    let what = "the log of another database";
    let error = sample.opened(&other.log, what).expect_err("its ids differ");
    assert!(matches!(error, Error::Open(_) | Error::Corrupt(_)), "{error:?}");
    for (what, log) in [("no log", &[][..]), ("an empty log", &vec![0; 2 * SLOT_BYTES])] {
        let error = sample.opened(log, what).expect_err("the checkpoint says where it goes on");
        assert!(matches!(error, Error::Corrupt(_)), "{what}: {error:?}");
    }
    assert_eq!(sample.opened(&sample.log, "its own").expect("whole"), COMMITS);
}
