//! Random concurrent histories at each level, in roomy databases and in such as are short of everything.

use crate::common::{assert_whole, least_cache_bytes, place, scaled, seed, watchdog};
use crate::history::Fault;
use crate::workload::{Level, Plan, run};
use crate::{checker, replay};
use latchkv::io::sim::{OpKind, SimMachine};
use latchkv::{Db, Durability, Options};

const PLAN: Plan = Plan {
    level: Level::Snapshot,
    threads: 4,
    lanes: 2,
    rounds: 24,
    places: 5,
    durabilities: &[Durability::None],
    checkpoints: false,
    definitions: false,
};

/// Every durability, checkpoints and definitions beside.
const BUSY: Plan = Plan {
    durabilities: &[Durability::None, Durability::Buffered, Durability::Sync],
    checkpoints: true,
    definitions: true,
    ..PLAN
};

fn roomy() -> Options {
    Options::new().cache_bytes(8 << 20).durability(Durability::None)
}

/// Sixteen frames, the least log buffer and slots, hardly any memory for old versions.
fn scanty() -> Options {
    Options::new()
        .page_bytes(4096)
        .huge_pages(false)
        .cache_bytes(least_cache_bytes(4096))
        .log_buffer_bytes(64 << 10)
        .log_slot_bytes(64 << 10)
        .version_bytes(1)
        .checkpoint_log_bytes(256 << 10)
        .durability(Durability::None)
}

/// What histories were like.
#[derive(Debug, Default)]
struct Sum {
    committed: usize,
    failed: usize,
    /// Histories that are not serializable, as snapshot isolation allows.
    skewed: usize,
}

/// Runs a plan once, checks it, and adds it up.
fn history(db: &Db, plan: &Plan, seed: u64, disk_calls: &(dyn Fn() -> u64 + Sync), sum: &mut Sum) {
    let history = run(db, plan, seed, disk_calls);
    let right = |checked: Result<(), Fault>, by: &str| {
        checked.unwrap_or_else(|fault| panic!("{by}, seed {seed} of {plan:?}: {fault}"));
    };
    right(replay::check(&history), "by lsn");
    right(checker::check(&history, plan.level == Level::Serializable), "by values");
    let committed = history.txns.iter().filter(|txn| txn.committed).count();
    sum.committed += committed;
    sum.failed += history.txns.len() - committed;
    sum.skewed += usize::from(checker::check(&history, true).is_err());
}

fn histories(salt: u64, count: usize, plan: &Plan, options: impl Fn() -> Options) -> Sum {
    let mut rng = fastrand::Rng::with_seed(seed(salt));
    let mut sum = Sum::default();
    let count = scaled(count, 1);
    for round in 0..count {
        let _watchdog = watchdog("a history");
        let seed = rng.u64(..);
        let machine = SimMachine::new(seed);
        let db = options().open_disks(machine.data(), machine.log()).expect("empty disks");
        history(&db, plan, seed, &|| machine.op_count(OpKind::Any), &mut sum);
        if round % 4 == 0 {
            assert_whole(&db);
        }
    }
    println!("{count} histories: {sum:?}");
    assert!(sum.committed > 0 && sum.failed > 0, "nothing was committed, or nothing taken back");
    sum
}

#[test]
fn snapshot_isolation_holds_in_concurrent_histories() {
    histories(1, 16, &PLAN, roomy);
}

#[test]
fn serializable_histories_have_no_cycle() {
    histories(2, 16, &Plan { level: Level::Serializable, ..PLAN }, roomy);
}

#[test]
fn levels_hold_for_each_transaction_where_they_are_mixed() {
    histories(3, 12, &Plan { level: Level::Mixed, ..PLAN }, roomy);
}

#[test]
fn two_lists_and_many_threads_make_conflicts_and_nothing_else() {
    let plan = Plan { threads: 8, lanes: 3, rounds: 10, places: 2, ..PLAN };
    histories(4, 8, &plan, roomy);
    histories(5, 8, &Plan { level: Level::Serializable, ..plan }, roomy);
}

#[test]
fn snapshot_isolation_holds_with_sixteen_frames_and_no_room_for_anything() {
    histories(6, 6, &Plan { places: 8, ..BUSY }, scanty);
}

#[test]
fn serializable_histories_have_no_cycle_with_sixteen_frames_and_no_room_for_anything() {
    histories(7, 6, &Plan { level: Level::Serializable, places: 8, ..BUSY }, scanty);
}

#[test]
fn levels_hold_beside_checkpoints_and_definitions() {
    histories(8, 8, &Plan { level: Level::Mixed, ..BUSY }, roomy);
}

#[test]
fn levels_hold_for_transactions_that_are_too_large_for_their_memory() {
    let plan = Plan { level: Level::Mixed, ..PLAN };
    histories(12, 8, &plan, || roomy().write_set_bytes(512));
    histories(13, 4, &Plan { level: Level::Serializable, ..BUSY }, || {
        scanty().write_set_bytes(512)
    });
}

#[test]
fn one_thread_that_runs_many_transactions_at_once_is_no_different() {
    let plan = Plan { threads: 1, lanes: 12, rounds: 20, ..PLAN };
    let sum = histories(9, 8, &plan, roomy);
    assert!(sum.skewed > 0, "twelve transactions at once make no write skew");
    histories(10, 8, &Plan { level: Level::Serializable, ..plan }, scanty);
}

#[test]
fn levels_hold_in_real_files() {
    let _watchdog = watchdog("real files");
    let seed = seed(11);
    for (round, level) in [Level::Snapshot, Level::Serializable].into_iter().enumerate() {
        let place = place();
        let db = scanty().create(&place.path).expect("nothing there");
        let plan = Plan { level, ..BUSY };
        history(&db, &plan, seed + round as u64, &|| 0, &mut Sum::default());
        assert_whole(&db);
        db.close().expect("room");
    }
}
