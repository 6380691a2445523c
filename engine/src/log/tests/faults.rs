//! A failure at every call.

use super::*;
use crate::io::sim::{Fault, OpKind};

/// A workload that creates, grows, recycles and syncs; gives what was acknowledged as durable and the lsn of
/// the checkpoint, and the first error.
fn workload(disk: &Arc<SimDisk>) -> (Vec<u64>, u64, Option<Error>) {
    let mut acknowledged = Vec::new();
    let mut checkpoint = 0;
    let created = try_create(Arc::clone(disk) as Arc<dyn Disk>, SMALL);
    let log = match created {
        Ok(log) => log,
        Err(error) => return (acknowledged, checkpoint, Some(error)),
    };
    for number in 0..24 {
        let result = commit(&log, &body(number, 9000)).and_then(|end| match number % 3 {
            0 => log.wait(end, Durability::Buffered),
            _ => log.wait(end, Durability::Sync).map(|()| acknowledged.push(number)),
        });
        if let Err(error) = result {
            stays_stopped(&log, disk, &error);
            return (acknowledged, checkpoint, Some(error));
        }
        if number == 16 {
            checkpoint = log.tail();
            if let Err(error) = log.sync() {
                return (acknowledged, 0, Some(error));
            }
            log.release(checkpoint);
            acknowledged.clear();
        }
    }
    (acknowledged, checkpoint, log.sync().err())
}

/// After a failure nothing is written or synced any more, unless the disk was only full.
fn stays_stopped(log: &Log, disk: &SimDisk, error: &Error) {
    if matches!(error, Error::Full { .. }) {
        log.health().expect("a full disk stops nothing");
        return;
    }
    let Error::Poisoned { cause } = error else { panic!("{error:?}") };
    let calls = (disk.op_count(OpKind::Write), disk.op_count(OpKind::Sync));
    for again in [
        commit(log, b"again").err(),
        log.sync().err().or_else(|| log.health().err()),
        log.background().err(),
    ] {
        let Some(Error::Poisoned { cause: again }) = again else { panic!("{again:?}") };
        assert!(Arc::ptr_eq(cause, &again), "the first cause is kept");
    }
    assert_eq!(calls, (disk.op_count(OpKind::Write), disk.op_count(OpKind::Sync)));
}

fn all_is_there(disk: &Arc<SimDisk>, (acknowledged, checkpoint): (&[u64], u64), what: &str) {
    let (found, log) = recover(disk, checkpoint).expect(what);
    let numbers: Vec<u64> = found.iter().map(|(_, _, ops)| number_of(ops)).collect();
    assert!(numbers.is_sorted(), "{what}: {numbers:?}");
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{what}: no gap");
    assert!(acknowledged.iter().all(|number| numbers.contains(number)), "{what}: {numbers:?}");
    for (_, _, ops) in &found {
        assert_eq!(*ops, body(number_of(ops), 9000), "{what}");
    }
    commit_durably(&log, b"go on").expect(what);
}

fn number_of(ops: &[u8]) -> u64 {
    ops.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

#[test]
fn a_failure_at_any_call_loses_nothing_that_was_acknowledged() {
    let disk = Arc::new(SimDisk::new(1));
    assert!(workload(&disk).2.is_none());
    let calls = disk.op_count(OpKind::Any);
    assert!(calls > 50);
    let mut stopped = 0;
    for fault in [Fault::Eio, Fault::Enospc] {
        for index in 0..calls {
            let what = format!("{fault:?} at call {index}");
            let disk = Arc::new(SimDisk::new(index));
            disk.fail_at(index, fault, OpKind::Any);
            let (acknowledged, checkpoint, error) = workload(&disk);
            stopped += u64::from(error.is_some());
            disk.clear_faults();
            all_is_there(&after_kill(&disk), (&acknowledged, checkpoint), &what);
            for seed in 0..3 {
                let crashed = Arc::new(disk.crash(seed, CrashMode::Random));
                all_is_there(&crashed, (&acknowledged, checkpoint), &what);
            }
        }
    }
    assert!(stopped > calls, "most failures are seen");
}

#[test]
fn a_failure_at_any_call_of_a_recovery_leaves_it_to_the_next() {
    let disk = Arc::new(SimDisk::new(1));
    let (acknowledged, checkpoint, _) = workload(&disk);
    for fault in [Fault::Eio, Fault::Enospc] {
        for index in 0.. {
            let disk = Arc::new(disk.crash(index, CrashMode::Random));
            disk.fail_at(index, fault, OpKind::Any);
            let opened = recover(&disk, checkpoint);
            let met = disk.op_count(OpKind::Any) > index;
            disk.clear_faults();
            if let Ok((_, log)) = opened {
                drop(log);
                if !met {
                    break;
                }
            }
            let what = format!("{fault:?} at call {index} of a recovery");
            all_is_there(&after_kill(&disk), (&acknowledged, checkpoint), &what);
            let crashed = Arc::new(disk.crash(index, CrashMode::Random));
            all_is_there(&crashed, (&acknowledged, checkpoint), &what);
        }
    }
}

#[test]
fn a_crash_at_any_call_even_in_recovery_keeps_what_was_acknowledged() {
    let disk = Arc::new(SimDisk::new(1));
    disk.record_history(crate::io::sim::Record::Changes);
    let log = create(&disk);
    let mut acknowledged = Vec::new();
    for number in 0..20 {
        commit_durably(&log, &body(number, 9000)).expect("a healthy disk");
        acknowledged.push((disk.op_count(OpKind::Any), number));
    }
    for snapshot in disk.history() {
        let promised: Vec<u64> = acknowledged
            .iter()
            .filter(|(op, _)| *op <= snapshot.op())
            .map(|(_, number)| *number)
            .collect();
        let first = Arc::new(snapshot.crash(snapshot.op(), CrashMode::Random));
        first.record_history(crate::io::sim::Record::Changes);
        all_is_there(&first, (&promised, 0), "the first crash");
        for (seed, second) in first.history().iter().enumerate() {
            let second = Arc::new(second.crash(seed as u64, CrashMode::Random));
            let (found, _) = recover(&second, 0).expect("the second crash");
            let numbers: Vec<u64> = found.iter().map(|(_, _, ops)| number_of(ops)).collect();
            assert!(promised.iter().all(|number| numbers.contains(number)), "the second crash");
        }
    }
}

#[test]
fn a_power_cut_in_the_recovery_after_a_kill_is_no_damage_and_keeps_what_it_showed() {
    for seed in 0..20 {
        let disk = Arc::new(SimDisk::new(seed));
        let log = create(&disk);
        for number in 0..10 {
            commit(&log, &body(number, 9000)).expect("room");
            if number == 3 {
                log.sync().expect("a healthy disk");
            }
        }
        log.flush().expect("a healthy disk");
        // Killed: what was written is there, and most of it not synced.
        drop(log);
        disk.record_history(crate::io::sim::Record::Changes);
        let (shown, log) = recover(&disk, 0).expect("whole");
        assert_eq!(shown.len(), 10);
        let opened = disk.op_count(OpKind::Any);
        commit_durably(&log, &body(10, 9000)).expect("a healthy disk");
        for snapshot in disk.history() {
            for mode in [CrashMode::Random, CrashMode::LoseAll] {
                let crashed = Arc::new(snapshot.crash(seed, mode));
                let promised: Vec<u64> =
                    if snapshot.op() >= opened { (0..10).collect() } else { (0..4).collect() };
                all_is_there(&crashed, (&promised, 0), "a cut in the recovery");
            }
        }
    }
}
