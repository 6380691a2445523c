//! Full and failing disks: `ENOSPC` and `EIO` at every call of a kind, once or from then on. Nothing
//! acknowledged is lost, and either work goes on when the disk does, or writing ends and reopening recovers.

use crate::common::assert_whole;
use crate::common::matrix::{Case, at_every_page_size};
use crate::{Run, assert_recovers, contents};
use latchkv::io::Disk;
use latchkv::io::sim::{CrashMode, Fault, OpKind};
use latchkv::{Error, Options};
use std::sync::Arc;

/// Calls of one kind that a run of `steps` makes, to know where to plan failures.
fn calls(case: Case, options: &Options, seed: u64, steps: usize, kind: OpKind) -> u64 {
    let mut run = Run::new(case, options, seed);
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
    run.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    let disk = Arc::new(run.disk.crash(1, CrashMode::LoseAll));
    assert_recovers(options, disk, &[&run.trees], what);
}

/// Writing has ended; what was done is still read, and reopening finds a checkpoint.
#[track_caller]
fn assert_poisoned(options: &Options, run: &Run, all_resident: bool, what: &str) {
    assert!(matches!(run.db.health(), Err(Error::Poisoned { .. })), "{what}");
    match contents(&run.db) {
        Ok(found) => assert!(found == run.trees, "{what}: something was lost"),
        Err(error) => assert!(!all_resident, "{what}: reads go on, but {error}"),
    }
    assert!(matches!(run.db.tree("new"), Err(Error::Poisoned { .. })), "{what}");
    assert!(matches!(run.db.checkpoint(), Err(Error::Poisoned { .. })), "{what}");
    if let Some(name) = run.trees.keys().next() {
        let tree = run.db.open_tree(name).expect("resident").expect("there");
        let put = tree.put(b"k", b"v");
        assert!(matches!(put, Err(Error::Poisoned { .. })), "{what}: {put:?}");
        let deleted = tree.delete(b"k");
        assert!(matches!(deleted, Err(Error::Poisoned { .. })), "{what}: {deleted:?}");
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

/// Lets the calls of `kind` from `index` on fail, one or all of them until the first error is seen (and a
/// little longer).
fn with_fault(
    mut run: Run,
    steps: usize,
    index: u64,
    fault: Fault,
    kind: OpKind,
    once: bool,
) -> Run {
    match once {
        true => run.disk.fail_at(index, fault, kind),
        false => run.disk.fail_from(index, fault, kind),
    }
    let mut errors = 0;
    for step in 0..=steps {
        let stepped = if step < steps { run.step() } else { run.checkpoint() };
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

fn full_at_any_write(case: Case) {
    let options = case.options();
    let seed = case.seed(20);
    let steps = case.share(250, 80);
    for (kind, once) in [
        (OpKind::Write, true),
        (OpKind::Write, false),
        (OpKind::SetLen, true),
        (OpKind::SetLen, false),
    ] {
        let mut poisoned = 0;
        for index in spread(calls(case, &options, seed, steps, kind), case.share(60, 6)) {
            let what = format!("full from {kind:?} {index} on, once: {once}");
            let mut run =
                with_fault(Run::new(case, &options, seed), steps, index, Fault::Enospc, kind, once);
            if run.db.health().is_err() {
                // A superblock is written in place: where even that finds no room, the medium cannot be
                // trusted.
                poisoned += 1;
                assert_poisoned(&options, &run, false, &what);
            } else {
                assert_kept(&options, &mut run, &what);
            }
        }
        if kind == OpKind::SetLen {
            assert_eq!(poisoned, 0, "lengthening the file is no reason to stop writing");
        }
    }
}

fn limited_size(case: Case) {
    let options = case.options();
    let seed = case.seed(21);
    let mut run = Run::new(case, &options, seed);
    for _ in 0..case.share(6, 2) {
        let len_bytes = run.disk.len_bytes().expect("simulated");
        run.disk.set_capacity(Some(len_bytes + 8 * u64::from(case.page_bytes)));
        let mut full = 0;
        for _ in 0..case.share(600, 300) {
            match run.step() {
                Ok(()) => {}
                Err(Error::Full { .. }) => full += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        println!("{full} calls met a full disk");
        assert!(run.db.health().is_ok());
        let found = contents(&run.db).expect("reads need no room");
        assert!(found == run.trees, "something was lost while the disk was full");
        let op = run.disk.op_count(OpKind::Any);
        let disk = Arc::new(run.disk.crash(seed, CrashMode::Random));
        assert_recovers(&options, disk, &run.allowed_at(op), "a power cut of a full disk");
        run.disk.set_capacity(None);
        assert_kept(&options, &mut run, "after there was room again");
    }
}

fn no_byte_to_spare(case: Case) {
    let options = case.options();
    let mut run = Run::new(case, &options, case.seed(22));
    for _ in 0..300 {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let disk = Arc::new(run.disk.crash(1, CrashMode::LoseAll));
    disk.set_capacity(Some(0));
    disk.fail_from(0, Fault::Enospc, OpKind::Write);
    let db = options.open_disk(disk.clone()).expect("opening writes nothing");
    assert!(contents(&db).expect("reads need no room") == run.trees);
    assert_whole(&db);
    let name = run.trees.keys().next().expect("some tree");
    let full = db.tree(name).expect("there").put(b"k", vec![1; 50_000]);
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert!(db.health().is_ok());
    disk.set_capacity(None);
    disk.clear_faults();
    db.tree(name).expect("there").put(b"k", vec![1; 50_000]).expect("room");
    db.close().expect("room");
}

fn io_errors(case: Case) {
    for (salt, cache_bytes) in [(23, None), (24, Some(8 << 20 << case.units().ilog2()))] {
        let mut options = case.options();
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let seed = case.seed(salt);
        let steps = case.share(250, 80);
        for kind in [OpKind::Write, OpKind::Sync, OpKind::SetLen] {
            for index in spread(calls(case, &options, seed, steps, kind), case.share(50, 6)) {
                let what = format!("EIO at {kind:?} {index}, cache {cache_bytes:?}");
                let mut run = with_fault(
                    Run::new(case, &options, seed),
                    steps,
                    index,
                    Fault::Eio,
                    kind,
                    true,
                );
                match run.db.health() {
                    Ok(()) => {
                        assert!(kind != OpKind::Sync, "{what}: a failed sync must end writing");
                        assert_kept(&options, &mut run, &what);
                    }
                    Err(_) => assert_poisoned(&options, &run, cache_bytes.is_some(), &what),
                }
            }
        }
    }
}

fn failed_syncs(case: Case) {
    let options = case.options().cache_bytes(4 << 20 << case.units().ilog2());
    for index in 0..2 {
        let mut run = Run::new(case, &options, case.seed(25));
        for _ in 0..100 {
            run.step().expect("no fault is planned");
        }
        run.disk.fail_at(index, Fault::Eio, OpKind::Sync);
        let syncs = run.disk.op_count(OpKind::Sync);
        let first = run.checkpoint().expect_err("a sync fails");
        assert!(matches!(first, Error::Poisoned { .. } | Error::Io { .. }), "{first:?}");
        for _ in 0..3 {
            let Err(Error::Poisoned { cause }) = run.db.checkpoint() else { panic!("retried") };
            assert!(matches!(&*cause, Error::Io { .. }), "{cause:?}");
        }
        let disk = run.disk.clone();
        assert!(matches!(run.db.clone().close(), Err(Error::Poisoned { .. })), "close reports it");
        assert_eq!(disk.op_count(OpKind::Sync), syncs + index + 1, "sync {index} was retried");
    }
}

fn read_errors(case: Case) {
    let options = case.options();
    let seed = case.seed(26);
    let mut run = Run::new(case, &options, seed);
    for _ in 0..case.share(300, 100) {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let mut failed = 0;
    for index in 0..case.share(40, 10) as u64 {
        run.disk.fail_at(index, Fault::Eio, OpKind::Read);
        match contents(&run.db) {
            Ok(found) => assert!(found == run.trees),
            Err(Error::Io { .. }) => failed += 1,
            Err(error) => panic!("{error:?}"),
        }
        run.disk.clear_faults();
    }
    assert!(failed > 0, "sixteen frames do not hold the data");
    assert!(run.db.health().is_ok(), "a failed read is no reason to stop writing");
    for _ in 0..case.share(100, 30) {
        run.disk.fail_at(3, Fault::Eio, OpKind::Read);
        match run.step() {
            Ok(()) | Err(Error::Io { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    run.disk.clear_faults();
    assert_kept(&options, &mut run, "after failed reads");
}

at_every_page_size! {
    a_disk_that_is_full_at_any_write_loses_nothing_and_serves_on_once_there_is_room =>
        super::full_at_any_write;
    a_disk_of_limited_size_takes_what_fits_and_more_once_it_grows =>
        super::limited_size;
    a_full_disk_opens_with_no_byte_to_spare =>
        super::no_byte_to_spare;
    an_io_error_at_any_write_or_sync_ends_writing_or_harms_nothing_and_reopening_recovers =>
        super::io_errors;
    a_failed_sync_is_never_followed_by_another_one =>
        super::failed_syncs;
    read_errors_are_reported_and_pass_when_the_disk_reads_again =>
        super::read_errors;
}
