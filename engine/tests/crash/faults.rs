//! Full and failing disks: `ENOSPC` and `EIO` at every call of a kind, of either disk, once or from then on. Nothing
//! acknowledged is lost, and either work goes on when the disks do, or writing ends and reopening recovers.

use crate::common::matrix::{Case, at_every_page_size};
use crate::common::{assert_whole, open_on};
use crate::run::{Run, recovered};
use crate::state::State;
use latchkv::io::Disk;
use latchkv::io::sim::{CrashMode, Fault, OpKind, SimMachine};
use latchkv::{Durability, Error, Options};

/// Calls of one kind that a run of `steps` makes, to know where to plan failures.
fn calls(plan: &Plan, kind: OpKind) -> u64 {
    let mut run = plan.start();
    let before = run.machine.op_count(kind);
    for _ in 0..plan.steps {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    run.machine.op_count(kind) - before
}

/// The same run again and again.
struct Plan {
    case: Case,
    options: Options,
    level: Durability,
    seed: u64,
    steps: usize,
}

impl Plan {
    fn start(&self) -> Run {
        Run::new(self.case, &self.options, self.level, self.seed)
    }

    /// Lets the calls of `kind` from `index` on fail, one or all of them until the first error is seen (and a
    /// little longer). Says whether there were so many calls: the background makes some, or none.
    fn with_fault(&self, index: u64, fault: Fault, kind: OpKind, once: bool) -> (Run, bool) {
        let mut run = self.start();
        let before = run.machine.op_count(kind);
        match once {
            true => run.machine.fail_at(index, fault, kind),
            false => run.machine.fail_from(index, fault, kind),
        }
        let mut errors = 0;
        for step in 0..=self.steps {
            let stepped = if step < self.steps { run.step() } else { run.checkpoint() };
            match stepped {
                Ok(()) => {}
                Err(Error::Full { .. }) if fault == Fault::Enospc => errors += 1,
                Err(Error::Io { .. }) if fault == Fault::Eio => errors += 1,
                Err(Error::Poisoned { cause }) => {
                    let is_first = match &*cause {
                        Error::Full { .. } => fault == Fault::Enospc,
                        Error::Io { .. } => fault == Fault::Eio,
                        _ => false,
                    };
                    assert!(is_first, "{fault:?} is not told as {cause:?}");
                    break;
                }
                Err(error) => panic!("{fault:?} at {kind:?} {index} gave {error:?}"),
            }
            if run.db.health().is_err() {
                break;
            }
            if errors > 20 {
                run.machine.clear_faults();
            }
        }
        run.machine.clear_faults();
        let met = run.machine.op_count(kind) > before + index;
        if kind == OpKind::Sync {
            run.forget_what_was_buffered();
        }
        (run, met)
    }
}

/// The database holds what it is to, now and after a power cut that follows a checkpoint.
#[track_caller]
fn assert_kept(options: &Options, run: &mut Run, what: &str) {
    let found = State::read(&run.db).unwrap_or_else(|error| panic!("{what}: {error}"));
    run.assert_holds(&found, what);
    assert_whole(&run.db);
    run.checkpoint().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = recovered(options, &run.machine.crash(1, CrashMode::LoseAll), what);
    run.assert_holds(&found, what);
}

/// Writing has ended; what was done is still read, and reopening finds all that was promised.
#[track_caller]
fn assert_poisoned(options: &Options, run: &Run, all_resident: bool, what: &str) {
    assert!(matches!(run.db.health(), Err(Error::Poisoned { .. })), "{what}");
    match State::read(&run.db) {
        Ok(found) => run.assert_holds(&found, what),
        Err(error) => assert!(!all_resident, "{what}: reads go on, but {error}"),
    }
    assert!(matches!(run.db.tree("new"), Err(Error::Poisoned { .. })), "{what}");
    assert!(matches!(run.db.checkpoint(), Err(Error::Poisoned { .. })), "{what}");
    // Everything may be durable already, and then it is said.
    let synced = run.db.sync();
    assert!(matches!(synced, Ok(()) | Err(Error::Poisoned { .. })), "{what}: {synced:?}");
    if let Ok(Some(name)) = run.db.trees().map(|names| names.into_iter().next()) {
        let tree = run.db.open_tree(&name).expect("resident").expect("there");
        let put = tree.put(b"k", b"v");
        assert!(matches!(put, Err(Error::Poisoned { .. })), "{what}: {put:?}");
        // Nothing is under that key.
        let deleted = tree.delete(b"k");
        assert!(matches!(deleted, Ok(false) | Err(Error::Poisoned { .. })), "{what}: {deleted:?}");
    }
    let op = run.machine.op_count(OpKind::Any);
    for (salt, mode) in [
        (1, CrashMode::LoseAll),
        (2, CrashMode::KeepAll),
        (3, CrashMode::Random),
        (4, CrashMode::Random),
    ] {
        let what = format!("{what}, reopened after {mode:?}");
        let found = recovered(options, &run.machine.crash(salt, mode), &what);
        run.assert_allowed(&found, op, mode, &what);
        if synced.is_ok() {
            run.assert_holds(&found, &what);
        }
    }
}

fn spread(calls: u64, wanted: usize) -> impl Iterator<Item = u64> {
    let wanted = (wanted as u64).min(calls).max(1);
    (0..wanted).map(move |i| i * calls / wanted)
}

fn full_at_any_write(case: Case) {
    let options = case.options();
    for (level, salt) in [(Durability::None, 40), (Durability::Sync, 41)] {
        let steps = case.share(250, 80);
        let plan = Plan { case, options: options.clone(), level, seed: case.seed(salt), steps };
        for (kind, once) in [
            (OpKind::Write, true),
            (OpKind::Write, false),
            (OpKind::Allocate, true),
            (OpKind::Allocate, false),
        ] {
            for index in spread(calls(&plan, kind), case.share(30, 4)) {
                let what = format!("full from {kind:?} {index} on, once: {once}, {level:?}");
                let (mut run, _) = plan.with_fault(index, Fault::Enospc, kind, once);
                if run.db.health().is_err() {
                    // A superblock and a block of the log are written in place: where even that finds no room,
                    // the medium cannot be trusted.
                    assert_poisoned(&options, &run, false, &what);
                } else {
                    assert_kept(&options, &mut run, &what);
                }
            }
        }
    }
}

fn limited_size(case: Case) {
    let options = case.options();
    for (level, salt) in [(Durability::None, 42), (Durability::Sync, 43)] {
        let seed = case.seed(salt);
        let mut run = Run::new(case, &options, level, seed);
        // A load into an empty tree is visible before the checkpoint that makes it durable: if that finds no room,
        // writing ends.
        run.loads = false;
        let mut full = 0;
        for _ in 0..case.share(6, 2) {
            let data = run.machine.data().len_bytes().expect("simulated");
            let log = run.machine.log().len_bytes().expect("simulated");
            run.machine.set_capacity(Some(data + log + 8 * u64::from(case.page_bytes)));
            let usual = case.share(600, 300);
            let mut steps = 0;
            while steps < usual || (full == 0 && steps < 20 * usual) {
                steps += 1;
                match run.step() {
                    Ok(()) => {}
                    Err(Error::Full { .. }) => full += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            assert!(run.db.health().is_ok());
            let found = State::read(&run.db).expect("reads need no room");
            run.assert_holds(&found, "while the disk was full");
            let op = run.machine.op_count(OpKind::Any);
            let what = "a power cut of a full disk";
            let found = recovered(&options, &run.machine.crash(seed, CrashMode::Random), what);
            run.assert_allowed(&found, op, CrashMode::Random, what);
            run.machine.set_capacity(None);
            assert_kept(&options, &mut run, "after there was room again");
        }
        assert!(full > 0, "no call met a full disk");
    }
}

/// Opening writes a slot of the log: one that a checkpoint has passed, so that no file grows.
fn no_byte_to_spare(case: Case) {
    const LOG_SLOT_BYTES: u64 = 64 << 10;
    let options = case.options().log_slot_bytes(LOG_SLOT_BYTES);
    let mut run = Run::new(case, &options, Durability::None, case.seed(44));
    for _ in 0..300 {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    // The next slot may have been made ready in the background: then a log of two has none that is free.
    while run.machine.log().len_bytes().expect("simulated") < 3 * LOG_SLOT_BYTES {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let machine = run.machine.crash(1, CrashMode::LoseAll);
    machine.set_capacity(Some(0));
    let db = open_on(&machine, &options).expect("a slot of the log is free");
    run.assert_holds(&State::read(&db).expect("reads need no room"), "on a full disk");
    assert_whole(&db);
    let name = run.state.trees.keys().next().expect("some tree");
    let full = db.tree(name).expect("there").put(b"k", vec![1; 500_000]);
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert!(db.health().is_ok());
    machine.set_capacity(None);
    db.tree(name).expect("there").put(b"k", vec![1; 500_000]).expect("room");
    db.close().expect("room");
}

fn io_errors(case: Case) {
    for (salt, cache_bytes, level) in [
        (45, None, Durability::None),
        (46, None, Durability::Sync),
        (47, Some(8 << 20 << case.units().ilog2()), Durability::Buffered),
    ] {
        let mut options = case.options();
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let steps = case.share(250, 80);
        let plan = Plan { case, options: options.clone(), level, seed: case.seed(salt), steps };
        for kind in [OpKind::Write, OpKind::Sync, OpKind::Allocate] {
            for index in spread(calls(&plan, kind), case.share(30, 4)) {
                let what = format!("EIO at {kind:?} {index}, cache {cache_bytes:?}, {level:?}");
                let (mut run, met) = plan.with_fault(index, Fault::Eio, kind, true);
                match run.db.health() {
                    Ok(()) => {
                        assert!(
                            kind != OpKind::Sync || !met,
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

fn failed_syncs(case: Case) {
    let options = case.options().cache_bytes(4 << 20 << case.units().ilog2());
    // Of the pages, of the superblock, of the log.
    for (index, of_log) in [(0, false), (1, false), (0, true)] {
        let mut run = Run::new(case, &options, Durability::None, case.seed(48));
        for _ in 0..100 {
            run.step().expect("no fault is planned");
        }
        let name = run.state.trees.keys().next().expect("some tree").clone();
        let tree = run.db.open_tree(&name).expect("readable").expect("there");
        tree.put(b"one", b"record").expect("room");
        let disk = if of_log { run.machine.log() } else { run.machine.data() };
        let syncs = disk.op_count(OpKind::Sync);
        disk.fail_at(index, Fault::Eio, OpKind::Sync);
        let first = run.checkpoint().expect_err("a sync fails");
        assert!(matches!(first, Error::Poisoned { .. } | Error::Io { .. }), "{first:?}");
        for _ in 0..3 {
            for again in [run.db.checkpoint().map(drop), tree.put(b"two", b"records")] {
                let Err(Error::Poisoned { cause }) = again else { panic!("retried") };
                assert!(matches!(&*cause, Error::Io { .. }), "{cause:?}");
            }
        }
        assert!(matches!(run.db.clone().close(), Err(Error::Poisoned { .. })), "close reports it");
        let all = disk.op_count(OpKind::Sync);
        assert_eq!(all, syncs + index + 1, "sync {index} was retried, of the log: {of_log}");
    }
}

fn read_errors(case: Case) {
    let options = case.options();
    let mut run = Run::new(case, &options, Durability::None, case.seed(49));
    for _ in 0..case.share(300, 100) {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let mut failed = 0;
    for index in 0..case.share(40, 10) as u64 {
        run.machine.fail_at(index, Fault::Eio, OpKind::Read);
        match State::read(&run.db) {
            Ok(found) => run.assert_holds(&found, "with a read that failed elsewhere"),
            Err(Error::Io { .. }) => failed += 1,
            Err(error) => panic!("{error:?}"),
        }
        run.machine.clear_faults();
    }
    assert!(failed > 0, "sixteen frames do not hold the data");
    assert!(run.db.health().is_ok(), "a failed read is no reason to stop writing");
    for _ in 0..case.share(100, 30) {
        run.machine.fail_at(3, Fault::Eio, OpKind::Read);
        match run.step() {
            Ok(()) | Err(Error::Io { .. }) => {}
            // A leaf that a commit brought in, that left its frame, and that could not be read back once the
            // log had the commit.
            Err(Error::Poisoned { .. }) => {
                run.machine.clear_faults();
                return assert_poisoned(&options, &run, false, "a read failed within a commit");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    run.machine.clear_faults();
    assert_kept(&options, &mut run, "after failed reads");
}

/// Opens the disks with a failure planned. Gives what it found if it opened nevertheless.
fn open_with_fault(
    options: &Options,
    machine: &SimMachine,
    (index, fault, kind): (u64, Fault, OpKind),
    what: &str,
) -> Option<State> {
    machine.fail_at(index, fault, kind);
    match open_on(machine, options) {
        // What is done when the database is dropped may meet the failure, and says so to nobody.
        Ok(db) => State::read(&db).ok(),
        Err(error) => {
            let told = matches!(
                (&error, fault),
                (Error::Full { .. }, Fault::Enospc)
                    | (Error::Io { .. }, Fault::Eio)
                    | (Error::Poisoned { .. }, _)
            );
            assert!(told, "{what}: {error:?}");
            None
        }
    }
}

fn failing_recovery(case: Case) {
    let options = case.options();
    let mut run = Run::new(case, &options, Durability::Sync, case.seed(50));
    for _ in 0..case.share(200, 60) {
        run.step().expect("no fault is planned");
    }
    let op = run.machine.op_count(OpKind::Any);
    let crashed = || run.machine.crash(7, CrashMode::Random);
    let whole = crashed();
    let expected = recovered(&options, &whole, "no fault");
    run.assert_allowed(&expected, op, CrashMode::Random, "no fault");
    for kind in [OpKind::Read, OpKind::Write, OpKind::Sync, OpKind::Allocate] {
        let faults = [Fault::Eio, Fault::Enospc];
        for fault in if kind == OpKind::Read { &faults[..1] } else { &faults } {
            for index in spread(whole.op_count(kind), case.share(16, 4)) {
                let what = format!("{fault:?} at {kind:?} {index} of opening");
                let machine = crashed();
                let found = open_with_fault(&options, &machine, (index, *fault, kind), &what);
                assert!(found.is_none_or(|found| found.sum == expected.sum), "{what}");
                machine.clear_faults();
                for machine in [machine.crash(index, CrashMode::Random), machine] {
                    let again = recovered(&options, &machine, &what);
                    assert!(again.sum == expected.sum, "{what}: {:?}", again.sizes());
                }
            }
        }
    }
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
    a_fault_at_any_call_of_recovery_loses_nothing_that_the_next_opening_does_not_find =>
        super::failing_recovery;
    read_errors_are_reported_and_pass_when_the_disk_reads_again =>
        super::read_errors;
}
