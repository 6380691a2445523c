//! Power cuts, full disks and failing disks, on the simulated disk.
//!
//! One thread does random calls and remembers what the trees held at each checkpoint. The disk remembers its state after every
//! call. Whatever a power cut leaves of any of these states must open, be whole, and hold what the last completed checkpoint held, or
//! the one in progress. The database's own background thread writes back in between, so that runs of one seed may differ in the order
//! of writes; what is asserted holds for all of them.

mod common;

use common::{Model, assert_whole, scaled, seed, tiny, value_of};
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, Fault, OpKind, Record, Snapshot};
use latchkv::io::{Disk, SimDisk};
use latchkv::{Db, Error, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All trees by name.
type Trees = BTreeMap<String, Model>;

/// A state that a checkpoint made durable between two counts of disk calls.
struct Durable {
    trees: Trees,
    begun_at: u64,
    /// `None` while it is not known to have succeeded.
    done_at: Option<u64>,
}

struct Run {
    disk: Arc<SimDisk>,
    db: Db,
    trees: Trees,
    durable: Vec<Durable>,
    rng: Rng,
    generation: u64,
}

impl Run {
    fn new(options: &Options, seed: u64) -> Run {
        let disk = Arc::new(SimDisk::new(seed));
        let db = options.open_disk(disk.clone()).expect("an empty disk");
        let first = Durable {
            trees: Trees::new(),
            begun_at: 0,
            done_at: Some(disk.op_count(OpKind::Any)),
        };
        let rng = Rng::with_seed(seed);
        Run {
            disk,
            db,
            trees: Trees::new(),
            durable: vec![first],
            rng,
            generation: 0,
        }
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        let begun_at = self.disk.op_count(OpKind::Any);
        self.durable.push(Durable {
            trees: self.trees.clone(),
            begun_at,
            done_at: None,
        });
        self.db.checkpoint()?;
        let last = self.durable.last_mut().expect("pushed above");
        last.done_at = Some(self.disk.op_count(OpKind::Any));
        Ok(())
    }

    /// One random call. After an error nothing of it may have happened, but that a drop or a clear may have been done
    /// without giving its pages back.
    fn step(&mut self) -> Result<(), Error> {
        let name = ["a", "b", "c"][self.rng.usize(0..3)].to_owned();
        let key = match self.rng.u32(0..20) {
            0 => vec![b'l'; 500],
            _ => self.rng.u32(0..300).to_be_bytes().to_vec(),
        };
        self.generation += 1;
        let len = match self.rng.u32(0..30) {
            0 => self.rng.usize(1000..30_000),
            1 => 0,
            _ => self.rng.usize(0..400),
        };
        let value = value_of(&key, self.generation, len);
        let draw = self.rng.u32(0..1000);
        if draw >= 990 {
            return self.checkpoint();
        }
        let tree = self.db.tree(&name)?;
        let model = self.trees.entry(name.clone()).or_default();
        match draw {
            0..600 => {
                tree.put(&key, &value)?;
                model.insert(key, value);
            }
            600..900 => {
                assert_eq!(
                    tree.delete(&key)?,
                    model.contains_key(&key),
                    "{key:?} of {name:?}"
                );
                model.remove(&key);
            }
            900..960 => assert!(
                tree.get(&key)?.as_ref() == model.get(&key),
                "{key:?} of {name:?}"
            ),
            960..970 => {
                let cleared = tree.clear();
                if cleared.is_ok() || tree.is_empty()? {
                    model.clear();
                }
                cleared?;
            }
            970..975 => {
                let dropped = self.db.drop_tree(&name);
                if dropped.is_ok() || self.db.open_tree(&name)?.is_none() {
                    self.trees.remove(&name);
                }
                assert!(dropped?, "{name:?} was there");
            }
            975..980 => {
                let to = format!("{name}{name}");
                if self.db.open_tree(&to)?.is_none() {
                    self.db.rename_tree(&name, &to)?;
                    let model = self.trees.remove(&name).expect("made above");
                    self.trees.insert(to, model);
                }
            }
            _ => {
                let cleared = tree.clear();
                if cleared.is_ok() || tree.is_empty()? {
                    model.clear();
                }
                cleared?;
                let records = (0..self.rng.u32(0..400))
                    .map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; 150]));
                let records: Model = records.collect();
                tree.bulk_load(records.iter())?;
                *model = records;
            }
        }
        Ok(())
    }

    /// What a power cut after `op` disk calls may leave.
    fn allowed_at(&self, op: u64) -> Vec<&Trees> {
        let surely = self
            .durable
            .iter()
            .rposition(|durable| durable.done_at.is_some_and(|at| at <= op));
        let from = surely.expect("the first state is complete before anything is recorded");
        let maybe = self.durable[from + 1..]
            .iter()
            .filter(|durable| durable.begun_at <= op);
        std::iter::once(&self.durable[from])
            .chain(maybe)
            .map(|durable| &durable.trees)
            .collect()
    }
}

/// Everything a database holds; a tree that is empty is there nevertheless.
fn contents(db: &Db) -> Result<Trees, Error> {
    let names = db.trees()?;
    let trees = names.into_iter().map(|name| {
        let tree = db.open_tree(&name)?.expect("named");
        let model: Model = common::records(&tree)?.into_iter().collect();
        assert_eq!(tree.len()?, model.len() as u64, "length of {name:?}");
        Ok((name, model))
    });
    trees.collect()
}

/// A disk after a power cut opens, is whole, and holds one of the allowed states; gives that.
#[track_caller]
fn assert_recovers<'a>(
    options: &Options,
    disk: Arc<SimDisk>,
    allowed: &[&'a Trees],
    what: &str,
) -> &'a Trees {
    let db = options
        .open_disk(disk)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = contents(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_whole(&db);
    let state = allowed.iter().find(|state| ***state == found);
    state.unwrap_or_else(|| {
        let sizes = |trees: &Trees| {
            trees
                .iter()
                .map(|(name, model)| (name.clone(), model.len()))
                .collect::<Vec<_>>()
        };
        let allowed: Vec<_> = allowed.iter().map(|trees| sizes(trees)).collect();
        panic!("{what}: found {:?}, allowed {allowed:?}", sizes(&found))
    })
}

/// A power cut at `snapshot` in every mode.
fn assert_survives(options: &Options, run: &Run, snapshot: &Snapshot, salt: u64) {
    let op = snapshot.op();
    let allowed = run.allowed_at(op);
    for (number, mode) in [
        CrashMode::LoseAll,
        CrashMode::KeepAll,
        CrashMode::Random,
        CrashMode::Random,
    ]
    .into_iter()
    .enumerate()
    {
        let disk = Arc::new(snapshot.crash(salt + number as u64, mode));
        assert_recovers(
            options,
            disk,
            &allowed,
            &format!("{mode:?} after {op} calls"),
        );
    }
}

#[test]
fn every_sync_boundary_leaves_the_last_checkpoint_or_the_one_in_progress() {
    for (salt, page_bytes) in [(1, 4096), (2, 4096), (3, 16384)] {
        let options = tiny(page_bytes);
        let seed = seed(salt);
        let mut run = Run::new(&options, seed);
        run.disk.record_history(Record::Syncs);
        for _ in 0..scaled(1200, 200) {
            run.step().expect("no fault is planned");
        }
        run.checkpoint().expect("no fault is planned");
        let history = run.disk.history();
        assert!(history.len() >= 4, "a checkpoint syncs twice");
        for snapshot in &history {
            assert_survives(&options, &run, snapshot, seed);
        }
    }
}

#[test]
fn a_power_cut_after_any_call_leaves_the_last_checkpoint_or_the_one_in_progress() {
    for salt in [4, 5] {
        let options = tiny(4096);
        let seed = seed(salt);
        let mut run = Run::new(&options, seed);
        run.disk.record_history(Record::Changes);
        for step in 0..scaled(500, 100) {
            run.step().expect("no fault is planned");
            if step % 150 == 149 {
                run.checkpoint().expect("no fault is planned");
            }
        }
        let history = run.disk.history();
        let mut rng = Rng::with_seed(seed ^ 1);
        let wanted = scaled(120, 15);
        for snapshot in &history {
            if rng.usize(0..history.len()) < wanted {
                assert_survives(&options, &run, snapshot, seed);
            }
        }
    }
}

#[test]
fn a_second_power_cut_while_the_first_is_recovered_from_changes_nothing() {
    let options = tiny(4096);
    let seed = seed(6);
    let mut run = Run::new(&options, seed);
    run.disk.record_history(Record::Changes);
    for _ in 0..scaled(600, 150) {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let history = run.disk.history();
    let mut rng = Rng::with_seed(seed ^ 1);
    for _ in 0..scaled(12, 2) {
        let snapshot = &history[rng.usize(0..history.len())];
        let disk = Arc::new(snapshot.crash(rng.u64(..), CrashMode::Random));
        disk.record_history(Record::Changes);
        let allowed = run.allowed_at(snapshot.op());
        // Opening finishes what was begun, closing makes a checkpoint: both write.
        let found = assert_recovers(&options, disk.clone(), &allowed, "first");
        for again in disk.history() {
            let disk = Arc::new(again.crash(rng.u64(..), CrashMode::Random));
            assert_recovers(&options, disk, &[found], "second");
        }
    }
}

#[test]
fn work_goes_on_after_a_power_cut_as_if_nothing_had_been() {
    let options = tiny(4096);
    let seed = seed(7);
    let mut run = Run::new(&options, seed);
    let mut rng = Rng::with_seed(seed ^ 1);
    for _ in 0..scaled(12, 3) {
        for _ in 0..scaled(150, 40) {
            run.step().expect("no fault is planned");
        }
        let op = run.disk.op_count(OpKind::Any);
        let disk = Arc::new(run.disk.crash(rng.u64(..), CrashMode::Random));
        let found =
            assert_recovers(&options, disk.clone(), &run.allowed_at(op), "going on").clone();
        let db = options.open_disk(disk.clone()).expect("it opened just now");
        let first = Durable {
            trees: found.clone(),
            begun_at: 0,
            done_at: Some(0),
        };
        run = Run {
            disk,
            db,
            trees: found,
            durable: vec![first],
            rng: run.rng.clone(),
            generation: run.generation,
        };
    }
}

/// Calls of one kind that a run of `steps` makes, to know where to plan failures.
fn calls(options: &Options, seed: u64, steps: usize, kind: OpKind) -> u64 {
    let mut run = Run::new(options, seed);
    let before = run.disk.op_count(kind);
    for _ in 0..steps {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    run.disk.op_count(kind) - before
}

/// The database holds `trees`, now and after a power cut that follows a checkpoint.
#[track_caller]
fn assert_kept(options: &Options, run: &mut Run, what: &str) {
    let found = contents(&run.db).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found == run.trees, "{what}: something was lost");
    assert_whole(&run.db);
    run.checkpoint()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let disk = Arc::new(run.disk.crash(1, CrashMode::LoseAll));
    assert_recovers(options, disk, &[&run.trees], what);
}

/// Writing has ended; what was done is still read, and reopening finds a checkpoint.
#[track_caller]
fn assert_poisoned(options: &Options, run: &Run, all_resident: bool, what: &str) {
    assert!(
        matches!(run.db.health(), Err(Error::Poisoned { .. })),
        "{what}"
    );
    match contents(&run.db) {
        Ok(found) => assert!(found == run.trees, "{what}: something was lost"),
        Err(error) => assert!(!all_resident, "{what}: reads go on, but {error}"),
    }
    assert!(
        matches!(run.db.tree("new"), Err(Error::Poisoned { .. })),
        "{what}"
    );
    assert!(
        matches!(run.db.checkpoint(), Err(Error::Poisoned { .. })),
        "{what}"
    );
    if let Some(name) = run.trees.keys().next() {
        let tree = run.db.open_tree(name).expect("resident").expect("there");
        let put = tree.put(b"k", b"v");
        assert!(
            matches!(put, Err(Error::Poisoned { .. })),
            "{what}: {put:?}"
        );
        let deleted = tree.delete(b"k");
        assert!(
            matches!(deleted, Err(Error::Poisoned { .. })),
            "{what}: {deleted:?}"
        );
    }
    let op = run.disk.op_count(OpKind::Any);
    for (salt, mode) in [
        (1, CrashMode::LoseAll),
        (2, CrashMode::KeepAll),
        (3, CrashMode::Random),
        (4, CrashMode::Random),
    ] {
        let disk = Arc::new(run.disk.crash(salt, mode));
        assert_recovers(
            options,
            disk,
            &run.allowed_at(op),
            &format!("{what}, reopened after {mode:?}"),
        );
    }
}

/// Lets the calls of `kind` from `index` on fail, one or all of them until the first error is seen (and a little longer).
fn with_fault(
    options: &Options,
    seed: u64,
    steps: usize,
    index: u64,
    fault: Fault,
    kind: OpKind,
    once: bool,
) -> Run {
    let mut run = Run::new(options, seed);
    match once {
        true => run.disk.fail_at(index, fault, kind),
        false => run.disk.fail_from(index, fault, kind),
    }
    let mut errors = 0;
    for step in 0..=steps {
        let stepped = if step < steps {
            run.step()
        } else {
            run.checkpoint()
        };
        match stepped {
            Ok(()) => {}
            Err(Error::Full { .. }) if fault == Fault::Enospc => errors += 1,
            Err(Error::Io { .. }) if fault == Fault::Eio => errors += 1,
            Err(Error::Poisoned { .. }) => errors += 1,
            Err(error) => panic!("{fault:?} at {kind:?} {index} gave {error:?}"),
        }
        if run.db.health().is_err() {
            break;
        }
        if errors > 20 {
            run.disk.clear_faults();
        }
    }
    run.disk.clear_faults();
    run
}

fn spread(calls: u64, wanted: usize) -> impl Iterator<Item = u64> {
    let wanted = (wanted as u64).min(calls).max(1);
    (0..wanted).map(move |i| i * calls / wanted)
}

#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing_and_serves_on_once_there_is_room() {
    let options = tiny(4096);
    let seed = seed(20);
    let steps = scaled(250, 80);
    for (kind, once) in [
        (OpKind::Write, true),
        (OpKind::Write, false),
        (OpKind::SetLen, true),
        (OpKind::SetLen, false),
    ] {
        let mut poisoned = 0;
        for index in spread(calls(&options, seed, steps, kind), scaled(60, 6)) {
            let what = format!("full from {kind:?} {index} on, once: {once}");
            let mut run = with_fault(&options, seed, steps, index, Fault::Enospc, kind, once);
            if run.db.health().is_err() {
                // A superblock is written in place: where even that finds no room, the medium cannot be trusted.
                poisoned += 1;
                assert_poisoned(&options, &run, false, &what);
            } else {
                assert_kept(&options, &mut run, &what);
            }
        }
        if kind == OpKind::SetLen {
            assert_eq!(
                poisoned, 0,
                "lengthening the file is no reason to stop writing"
            );
        }
    }
}

#[test]
fn a_disk_of_limited_size_takes_what_fits_and_more_once_it_grows() {
    let options = tiny(4096);
    let seed = seed(21);
    let mut run = Run::new(&options, seed);
    for _ in 0..scaled(6, 2) {
        let len_bytes = run.disk.len_bytes().expect("simulated");
        run.disk.set_capacity(Some(len_bytes + 8 * 4096));
        let mut full = 0;
        for _ in 0..scaled(600, 300) {
            match run.step() {
                Ok(()) => {}
                Err(Error::Full { .. }) => full += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        println!("{full} calls met a full disk");
        assert!(run.db.health().is_ok());
        let found = contents(&run.db).expect("reads need no room");
        assert!(
            found == run.trees,
            "something was lost while the disk was full"
        );
        let op = run.disk.op_count(OpKind::Any);
        let disk = Arc::new(run.disk.crash(seed, CrashMode::Random));
        assert_recovers(
            &options,
            disk,
            &run.allowed_at(op),
            "a power cut of a full disk",
        );
        run.disk.set_capacity(None);
        assert_kept(&options, &mut run, "after there was room again");
    }
}

#[test]
fn a_full_disk_opens_with_no_byte_to_spare() {
    let options = tiny(4096);
    let mut run = Run::new(&options, seed(22));
    for _ in 0..300 {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let disk = Arc::new(run.disk.crash(1, CrashMode::LoseAll));
    disk.set_capacity(Some(0));
    disk.fail_from(0, Fault::Enospc, OpKind::Write);
    let db = options
        .open_disk(disk.clone())
        .expect("opening writes nothing");
    assert!(contents(&db).expect("reads need no room") == run.trees);
    assert_whole(&db);
    let name = run.trees.keys().next().expect("some tree");
    let full = db.tree(name).expect("there").put(b"k", vec![1; 50_000]);
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert!(db.health().is_ok());
    disk.set_capacity(None);
    disk.clear_faults();
    db.tree(name)
        .expect("there")
        .put(b"k", vec![1; 50_000])
        .expect("room");
    db.close().expect("room");
}

#[test]
fn an_io_error_at_any_write_or_sync_ends_writing_or_harms_nothing_and_reopening_recovers() {
    for (salt, cache_bytes) in [(23, None), (24, Some(8 << 20))] {
        let mut options = tiny(4096);
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let seed = seed(salt);
        let steps = scaled(250, 80);
        for kind in [OpKind::Write, OpKind::Sync, OpKind::SetLen] {
            for index in spread(calls(&options, seed, steps, kind), scaled(50, 6)) {
                let what = format!("EIO at {kind:?} {index}, cache {cache_bytes:?}");
                let mut run = with_fault(&options, seed, steps, index, Fault::Eio, kind, true);
                match run.db.health() {
                    Ok(()) => {
                        assert!(
                            kind != OpKind::Sync,
                            "{what}: a failed sync must end writing"
                        );
                        assert_kept(&options, &mut run, &what);
                    }
                    Err(_) => assert_poisoned(&options, &run, cache_bytes.is_some(), &what),
                }
            }
        }
    }
}

#[test]
fn a_failed_sync_is_never_followed_by_another_one() {
    let options = tiny(4096).cache_bytes(4 << 20);
    for index in 0..2 {
        let mut run = Run::new(&options, seed(25));
        for _ in 0..100 {
            run.step().expect("no fault is planned");
        }
        run.disk.fail_at(index, Fault::Eio, OpKind::Sync);
        let syncs = run.disk.op_count(OpKind::Sync);
        let first = run.checkpoint().expect_err("a sync fails");
        assert!(
            matches!(first, Error::Poisoned { .. } | Error::Io { .. }),
            "{first:?}"
        );
        for _ in 0..3 {
            let Err(Error::Poisoned { cause }) = run.db.checkpoint() else {
                panic!("retried")
            };
            assert!(matches!(&*cause, Error::Io { .. }), "{cause:?}");
        }
        let disk = run.disk.clone();
        assert!(
            matches!(run.db.clone().close(), Err(Error::Poisoned { .. })),
            "close reports it"
        );
        assert_eq!(
            disk.op_count(OpKind::Sync),
            syncs + index + 1,
            "sync {index} was retried"
        );
    }
}

#[test]
fn read_errors_are_reported_and_pass_when_the_disk_reads_again() {
    let options = tiny(4096);
    let seed = seed(26);
    let mut run = Run::new(&options, seed);
    for _ in 0..scaled(300, 100) {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let mut failed = 0;
    for index in 0..scaled(40, 10) as u64 {
        run.disk.fail_at(index, Fault::Eio, OpKind::Read);
        match contents(&run.db) {
            Ok(found) => assert!(found == run.trees),
            Err(Error::Io { .. }) => failed += 1,
            Err(error) => panic!("{error:?}"),
        }
        run.disk.clear_faults();
    }
    assert!(failed > 0, "sixteen frames do not hold the data");
    assert!(
        run.db.health().is_ok(),
        "a failed read is no reason to stop writing"
    );
    for _ in 0..scaled(100, 30) {
        run.disk.fail_at(3, Fault::Eio, OpKind::Read);
        match run.step() {
            Ok(()) | Err(Error::Io { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    run.disk.clear_faults();
    assert_kept(&options, &mut run, "after failed reads");
}
