//! Power cuts: at every sync, after any call, twice in a row, and work that goes on afterwards; at every level of
//! durability.

use crate::common::matrix::{Case, at_every_page_size};
use crate::run::{Run, recovered};
use fastrand::Rng;
use latchkv::io::sim::{CrashMode, MachineSnapshot, Record};
use latchkv::{Durability, Options};

/// The levels, each with a salt.
const LEVELS: [(Durability, u64); 3] =
    [(Durability::None, 1), (Durability::Buffered, 2), (Durability::Sync, 3)];

/// A power cut at `moment` in every mode.
fn assert_survives(options: &Options, run: &Run, moment: &MachineSnapshot, salt: u64) {
    for (number, mode) in
        [CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random]
            .into_iter()
            .enumerate()
    {
        let what = format!("{mode:?} after {} calls", moment.op());
        let found = recovered(options, &moment.crash(salt + number as u64, mode), &what);
        run.assert_allowed(&found, moment.op(), mode, &what);
    }
}

/// Some of `history`, about `wanted`, not always the same ones.
fn some<'a>(
    history: &'a [MachineSnapshot],
    wanted: usize,
    rng: &'a mut Rng,
) -> impl Iterator<Item = &'a MachineSnapshot> {
    history.iter().filter(move |_| rng.usize(0..history.len()) < wanted)
}

fn every_sync_boundary(case: Case) {
    let options = case.options();
    // A commit that waits for the disk has boundaries of its own.
    for (level, salt, steps) in [
        (Durability::None, 1, case.share(1200, 200)),
        (Durability::Buffered, 2, case.share(600, 100)),
        (Durability::Sync, 3, case.share(60, 20)),
    ] {
        let seed = case.seed(salt);
        let mut run = Run::new(case, &options, level, seed);
        run.machine.record_history(Record::Syncs);
        for _ in 0..steps {
            run.step().expect("no fault is planned");
        }
        run.checkpoint().expect("no fault is planned");
        let history = run.machine.history();
        assert!(history.len() >= 6, "a checkpoint syncs the log once and the data twice");
        for moment in &history {
            assert_survives(&options, &run, moment, seed);
        }
    }
}

fn any_call(case: Case) {
    let options = case.options();
    for (level, salt) in LEVELS {
        let seed = case.seed(10 + salt);
        let mut run = Run::new(case, &options, level, seed);
        run.machine.record_history(Record::Changes);
        for step in 0..case.share(400, 120) {
            run.step().expect("no fault is planned");
            if step % 150 == 149 {
                run.checkpoint().expect("no fault is planned");
            }
        }
        let history = run.machine.history();
        for moment in some(&history, case.share(60, 8), &mut Rng::with_seed(seed ^ 1)) {
            assert_survives(&options, &run, moment, seed);
        }
    }
}

fn second_cut(case: Case) {
    let options = case.options();
    for (level, salt) in LEVELS {
        let seed = case.seed(20 + salt);
        let mut run = Run::new(case, &options, level, seed);
        run.machine.record_history(Record::Changes);
        for _ in 0..case.share(300, 80) {
            run.step().expect("no fault is planned");
        }
        let history = run.machine.history();
        let mut rng = Rng::with_seed(seed ^ 1);
        for _ in 0..case.share(4, 1) {
            let moment = &history[rng.usize(0..history.len())];
            let machine = moment.crash(rng.u64(..), CrashMode::Random);
            machine.record_history(Record::Changes);
            // Opening applies the log and finishes what was begun, closing makes a checkpoint: all of it writes.
            let found = recovered(&options, &machine, "first");
            run.assert_allowed(&found, moment.op(), CrashMode::Random, "first");
            let recovery = machine.history();
            for again in some(&recovery, case.share(12, 3), &mut rng.fork()) {
                let second = again.crash(rng.u64(..), CrashMode::Random);
                second.record_history(Record::Changes);
                let again = recovered(&options, &second, "second");
                assert!(again.sum == found.sum, "{:?}, {:?}", again.sizes(), found.sizes());
                let recovery = second.history();
                let last = &recovery[rng.usize(0..recovery.len())];
                let third = last.crash(rng.u64(..), CrashMode::Random);
                let again = recovered(&options, &third, "third");
                assert!(again.sum == found.sum, "{:?}, {:?}", again.sizes(), found.sizes());
            }
        }
    }
}

fn work_goes_on(case: Case) {
    let options = case.options();
    for (level, salt) in LEVELS {
        let mut run = Run::new(case, &options, level, case.seed(30 + salt));
        for round in 0..case.share(12, 3) {
            for _ in 0..case.share(150, 40) {
                run.step().expect("no fault is planned");
            }
            let mode = if round % 3 == 2 { CrashMode::KeepAll } else { CrashMode::Random };
            run = run.after_a_cut(&options, mode);
        }
    }
}

at_every_page_size! {
    every_sync_boundary_leaves_all_that_was_promised_and_a_prefix_of_the_rest =>
        super::every_sync_boundary;
    a_power_cut_after_any_call_leaves_all_that_was_promised_and_a_prefix_of_the_rest =>
        super::any_call;
    a_second_and_a_third_power_cut_while_the_first_is_recovered_from_change_nothing =>
        super::second_cut;
    work_goes_on_after_a_power_cut_as_if_nothing_had_been => super::work_goes_on;
}
