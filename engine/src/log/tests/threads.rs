//! Many threads.

use super::*;
use crate::io::sim::{OpKind, Record as History};
use crate::io::{Backend, BackendReport, Write, open_disk};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::thread;

/// Threads that each commit some records of random length at random levels; `acknowledged` is called with the
/// record's number and level.
fn commit_in_threads(
    log: &Log,
    (threads, commits): (u64, u64),
    acknowledged: impl Fn(u64, Durability) + Sync,
) {
    thread::scope(|scope| {
        for thread in 0..threads {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for commit_number in 0..commits {
                    let number = thread << 32 | commit_number;
                    let level =
                        [Durability::None, Durability::Buffered, Durability::Sync][rng.usize(..3)];
                    let len =
                        if rng.u8(..10) == 0 { rng.usize(8..12_000) } else { rng.usize(8..300) };
                    if rng.u8(..20) == 0 {
                        drop(log.reserve(len as u32).expect("room"));
                    }
                    let end = commit(log, &body(number, len)).expect("room");
                    log.wait_visible(end);
                    assert!(log.visible() >= end);
                    log.wait(end, level).expect("a healthy disk");
                    if level == Durability::Sync {
                        assert!(log.durable() >= end);
                    }
                    acknowledged(number, level);
                }
            });
        }
    });
}

fn numbers(found: &[Kept]) -> Vec<u64> {
    let commits = found.iter().filter(|(_, kind, _)| *kind == RecordKind::Commit);
    commits
        .map(|(_, _, ops)| {
            let number = u64::from_le_bytes(*ops.first_chunk().expect("eight bytes at least"));
            assert_eq!(*ops, body(number, ops.len()), "not a byte is another's");
            number
        })
        .collect()
}

/// Each number once, and those of each thread in order.
fn are_in_order(numbers: &[u64]) -> bool {
    let mut next = BTreeMap::new();
    numbers.iter().all(|number| {
        let expected = next.entry(number >> 32).or_insert(0);
        *expected += 1;
        *expected == (number & 0xffff_ffff) + 1
    })
}

#[test]
fn what_threads_commit_is_all_there_in_one_order_on_every_backend() {
    for backend in [Backend::Auto, Backend::Mmap, Backend::Pread] {
        let file = tempfile::NamedTempFile::new().expect("a place that is writable");
        let reopen = || -> Arc<dyn Disk> {
            let file_again = file.reopen().expect("just created");
            open_disk(file_again, file.path(), backend, false).expect("any falls back").into()
        };
        let log = try_create(reopen(), SMALL).expect("a healthy disk");
        commit_in_threads(&log, (4, 60), |_, _| ());
        log.sync().expect("a healthy disk");
        let usage = log.stats();
        assert_eq!(usage.durable, usage.tail);
        assert!(usage.records >= 240 && usage.bytes_written >= usage.tail - (64 << 10));
        drop(log);
        let mut recovering =
            Log::open(reopen(), file.path(), UUID, Anchor::default(), SMALL).expect("whole");
        let found = numbers(&read_all(&mut recovering).expect("whole"));
        assert_eq!(found.len(), 240, "{backend:?}");
        assert!(are_in_order(&found));
    }
}

#[test]
fn crash_images_of_a_concurrent_history_hold_a_prefix_with_all_that_was_acknowledged() {
    for seed in 0..3 {
        let disk = Arc::new(SimDisk::new(seed));
        disk.record_history(History::Changes);
        let log = create(&disk);
        let acknowledged = Mutex::new(Vec::new());
        commit_in_threads(&log, (6, 25), |number, level| {
            if level == Durability::Sync {
                let op = disk.op_count(OpKind::Any);
                acknowledged.lock().expect("no panic").push((op, number));
            }
        });
        log.flush().expect("a healthy disk");
        let acknowledged = acknowledged.into_inner().expect("no panic");
        let all = contents(&after_kill(&disk), 0).expect("whole");
        let history = disk.history();
        let step = history.len().div_ceil(60);
        for (index, snapshot) in history.iter().enumerate().step_by(step) {
            for mode in [CrashMode::Random, CrashMode::LoseAll] {
                let crashed = Arc::new(snapshot.crash(index as u64, mode));
                let found = contents(&crashed, 0).expect("a crash is no damage");
                assert_eq!(found, all[..found.len()], "a prefix");
                let found = numbers(&found);
                for (op, number) in &acknowledged {
                    assert!(*op > snapshot.op() || found.contains(number), "{number} is lost");
                }
            }
        }
    }
}

#[test]
fn the_ring_goes_round_many_times_and_slots_are_recycled_under_threads() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        let background = scope.spawn({
            let log = &log;
            move || {
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    log.background().expect("a healthy disk");
                    thread::yield_now();
                }
            }
        });
        commit_in_threads(&log, (4, 400), |_, _| log.release(log.durable()));
        drop(stop);
        background.join().expect("no panic");
    });
    log.sync().expect("a healthy disk");
    let usage = log.stats();
    assert!(usage.tail > 20 * (64 << 10));
    assert_eq!(usage.visible, usage.tail);
    assert!(usage.file_bytes <= usage.tail / 2, "{usage:?}");
    assert_eq!(contents(&after_kill(&disk), log.tail()).expect("whole"), []);
}

/// A disk whose syncs wait for a word of the test.
#[derive(Debug)]
struct Slow {
    disk: Arc<SimDisk>,
    begun: Mutex<Option<mpsc::Sender<()>>>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Disk for Slow {
    fn backend(&self) -> BackendReport {
        self.disk.backend()
    }
    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, buf)
    }
    fn write(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.disk.write(writes)
    }
    fn sync(&self) -> io::Result<()> {
        if let Some(begun) = &*self.begun.lock().expect("no panic") {
            begun.send(()).map_err(io::Error::other)?;
        }
        // Without a sender nobody waits any more.
        let _ = self.go.lock().expect("no panic").recv();
        self.disk.sync()
    }
    fn len_bytes(&self) -> io::Result<u64> {
        self.disk.len_bytes()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.set_len(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.allocate(offset, bytes)
    }
}

#[test]
fn eight_durable_commits_take_two_syncs_when_seven_come_during_the_first() {
    let (disk, log, begun, go) = slow_log();
    let before = disk.op_count(OpKind::Sync);
    thread::scope(|scope| {
        scope.spawn(|| commit_durably(&log, b"first").expect("a healthy disk"));
        begun.recv().expect("a sync begins");
        for _ in 0..7 {
            scope.spawn(|| commit_durably(&log, b"later").expect("a healthy disk"));
        }
        while log.stats().waits < 8 {
            thread::yield_now();
        }
        go.send(()).expect("somebody syncs");
        begun.recv().expect("a second sync begins");
        go.send(()).expect("somebody syncs");
    });
    assert_eq!(disk.op_count(OpKind::Sync) - before, 2);
    let usage = log.stats();
    assert_eq!((usage.syncs, usage.flushes, usage.records), (2, 2, 8));
}

#[test]
fn a_commit_that_the_sync_on_its_way_covers_is_woken_by_it() {
    let (_, log, begun, go) = slow_log();
    // Copied before the flush, waited for during it.
    let early = commit(&log, b"early").expect("room");
    thread::scope(|scope| {
        scope.spawn(|| commit_durably(&log, b"leads").expect("a healthy disk"));
        begun.recv().expect("a sync begins");
        let waits = scope.spawn(|| log.wait(early, Durability::Sync));
        while log.stats().waits < 2 {
            thread::yield_now();
        }
        go.send(()).expect("somebody syncs");
        waits.join().expect("no panic").expect("a healthy disk");
    });
    assert_eq!(log.stats().syncs, 1);
}

#[test]
fn who_waits_only_for_the_system_is_written_by_the_next_flush_without_a_sync() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let syncs = disk.op_count(OpKind::Sync);
    let end = commit(&log, b"one").expect("room");
    log.wait(end, Durability::Buffered).expect("a healthy disk");
    assert_eq!((log.written(), disk.op_count(OpKind::Sync)), (end, syncs));
    assert!(log.durable() < end);
    assert_eq!(contents(&after_kill(&disk), 0).expect("whole").len(), 1);
    let lost = Arc::new(disk.crash(1, CrashMode::LoseAll));
    assert_eq!(contents(&lost, 0).expect("whole"), []);
}

fn slow_log() -> (Arc<SimDisk>, Log, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let disk = Arc::new(SimDisk::new(1));
    drop(create(&disk));
    let (begin, begun) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    // The two syncs of opening.
    for _ in 0..2 {
        go.send(()).expect("kept below");
    }
    let slow = Slow { disk: Arc::clone(&disk), begun: Mutex::new(None), go: Mutex::new(goes) };
    let slow = Arc::new(slow);
    let log = try_create(Arc::clone(&slow) as Arc<dyn Disk>, SMALL).expect("a healthy disk");
    *slow.begun.lock().expect("no panic") = Some(begin);
    (disk, log, begun, go)
}

#[test]
fn a_waiter_learns_of_a_failed_sync_that_another_led() {
    let (disk, log, begun, go) = slow_log();
    let before = disk.op_count(OpKind::Sync);
    thread::scope(|scope| {
        let leads = scope.spawn(|| commit_durably(&log, b"leads"));
        begun.recv().expect("a sync begins");
        let follows: Vec<_> =
            (0..3).map(|_| scope.spawn(|| commit_durably(&log, b"more"))).collect();
        while log.stats().waits < 4 {
            thread::yield_now();
        }
        disk.fail_at(0, crate::io::sim::Fault::Eio, OpKind::Sync);
        go.send(()).expect("somebody syncs");
        for waiter in [leads].into_iter().chain(follows) {
            let failed = waiter.join().expect("no panic").expect_err("nothing was synced");
            assert!(matches!(failed, Error::Poisoned { .. }), "{failed:?}");
        }
    });
    assert_eq!(disk.op_count(OpKind::Sync) - before, 1, "it is not tried again");
}

#[test]
fn a_held_place_is_passed_only_when_it_is_let_go() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let before = commit(&log, b"before").expect("room");
    let fill = log.reserve(4).expect("room");
    let lsn = fill.lsn();
    log.hold_durable(lsn);
    let end = fill.copy(RecordKind::Commit, &[b"fill"]).applied();
    thread::scope(|scope| {
        let after = scope.spawn(|| commit_durably(&log, b"after").expect("a healthy disk"));
        log.wait(before, Durability::Sync).expect("not held");
        let written = scope.spawn(|| log.wait(end, Durability::Buffered));
        log.harden(log.tail()).expect("a checkpoint is not held up");
        assert!(log.written() >= end);
        while log.stats().waits < 3 {
            thread::yield_now();
        }
        assert_eq!(log.durable(), lsn);
        let synced = Arc::new(disk.crash(1, CrashMode::LoseAll));
        assert!(contents(&synced, 0).expect("whole").len() >= 2, "synced, but not acknowledged");
        log.let_durable_go(lsn);
        written.join().expect("no panic").expect("let go");
        let after = after.join().expect("no panic");
        assert!(log.durable() >= after);
    });
}

#[test]
fn a_consumer_gets_every_record_once_in_order_when_it_is_applied_and_written() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    commit_durably(&log, b"nobody listens").expect("a healthy disk");
    let (sender, receiver) = mpsc::channel();
    let from = log.on_retire(Some(Box::new(move |retired: Retired<'_>| {
        let kept = (retired.lsn, retired.kind, retired.ops.to_vec());
        sender.send(kept).expect("the test listens");
    })));
    assert_eq!(from, log.tail());
    commit_in_threads(&log, (3, 100), |_, _| ());
    log.flush().expect("a healthy disk");
    while log.background().expect("a healthy disk") {}
    log.on_retire(None);
    commit_durably(&log, b"nobody listens").expect("a healthy disk");
    let seen: Vec<Kept> = receiver.into_iter().collect();
    let all = contents(&after_kill(&disk), 0).expect("whole");
    assert_eq!(seen, all[1..all.len() - 1]);
}

#[test]
fn the_background_writes_what_nobody_waits_for() {
    let disk = Arc::new(SimDisk::new(1));
    let log = create(&disk);
    let end = commit(&log, b"one").expect("room");
    assert_eq!(contents(&after_kill(&disk), 0).expect("whole"), []);
    assert!(log.background().expect("a healthy disk"));
    assert_eq!(log.written(), end);
    assert_eq!(contents(&after_kill(&disk), 0).expect("whole").len(), 1);
    while log.background().expect("a healthy disk") {}
    let calls = disk.op_count(OpKind::Any);
    assert!(!log.background().expect("a healthy disk"));
    assert_eq!(disk.op_count(OpKind::Any), calls, "an idle log costs nothing");
}

#[test]
fn a_commit_waits_for_none_of_the_levels_below_its_own() {
    assert!(Durability::None < Durability::Buffered && Durability::Buffered < Durability::Sync);
    assert_eq!(Durability::default(), Durability::Sync);
}
