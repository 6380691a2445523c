//! Power cuts: at every sync, after any call, twice in a row, and work that goes on afterwards.

use crate::common::matrix::{Case, at_every_page_size};
use crate::{Durable, Run, assert_recovers};
use fastrand::Rng;
use latchkv::Options;
use latchkv::io::sim::{CrashMode, OpKind, Record, Snapshot};
use std::sync::Arc;

/// A power cut at `snapshot` in every mode.
fn assert_survives(options: &Options, run: &Run, snapshot: &Snapshot, salt: u64) {
    let op = snapshot.op();
    let allowed = run.allowed_at(op);
    for (number, mode) in
        [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random]
            .into_iter()
            .enumerate()
    {
        let disk = Arc::new(snapshot.crash(salt + number as u64, mode));
        assert_recovers(options, disk, &allowed, &format!("{mode:?} after {op} calls"));
    }
}

fn every_sync_boundary(case: Case) {
    for salt in [1, 2] {
        let options = case.options();
        let seed = case.seed(salt);
        let mut run = Run::new(case, &options, seed);
        run.disk.record_history(Record::Syncs);
        for _ in 0..case.share(1200, 200) {
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

fn any_call(case: Case) {
    for salt in [4, 5] {
        let options = case.options();
        let seed = case.seed(salt);
        let mut run = Run::new(case, &options, seed);
        run.disk.record_history(Record::Changes);
        for step in 0..case.share(500, 160) {
            run.step().expect("no fault is planned");
            if step % 150 == 149 {
                run.checkpoint().expect("no fault is planned");
            }
        }
        let history = run.disk.history();
        let mut rng = Rng::with_seed(seed ^ 1);
        let wanted = case.share(120, 15);
        for snapshot in &history {
            if rng.usize(0..history.len()) < wanted {
                assert_survives(&options, &run, snapshot, seed);
            }
        }
    }
}

fn second_cut(case: Case) {
    let options = case.options();
    let seed = case.seed(6);
    let mut run = Run::new(case, &options, seed);
    run.disk.record_history(Record::Changes);
    for _ in 0..case.share(600, 150) {
        run.step().expect("no fault is planned");
    }
    run.checkpoint().expect("no fault is planned");
    let history = run.disk.history();
    let mut rng = Rng::with_seed(seed ^ 1);
    for _ in 0..case.share(12, 2) {
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

fn work_goes_on(case: Case) {
    let options = case.options();
    let seed = case.seed(7);
    let mut run = Run::new(case, &options, seed);
    let mut rng = Rng::with_seed(seed ^ 1);
    for _ in 0..case.share(12, 3) {
        for _ in 0..case.share(150, 40) {
            run.step().expect("no fault is planned");
        }
        let op = run.disk.op_count(OpKind::Any);
        let disk = Arc::new(run.disk.crash(rng.u64(..), CrashMode::Random));
        let found =
            assert_recovers(&options, disk.clone(), &run.allowed_at(op), "going on").clone();
        let db = options.open_disk(disk.clone()).expect("it opened just now");
        let first = Durable { trees: found.clone(), begun_at: 0, done_at: Some(0) };
        run = Run {
            case,
            disk,
            db,
            trees: found,
            durable: vec![first],
            rng: run.rng.clone(),
            generation: run.generation,
        };
    }
}

at_every_page_size! {
    every_sync_boundary_leaves_the_last_checkpoint_or_the_one_in_progress =>
        super::every_sync_boundary;
    a_power_cut_after_any_call_leaves_the_last_checkpoint_or_the_one_in_progress => super::any_call;
    a_second_power_cut_while_the_first_is_recovered_from_changes_nothing => super::second_cut;
    work_goes_on_after_a_power_cut_as_if_nothing_had_been => super::work_goes_on;
}
