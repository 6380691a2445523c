//! What a checkpoint beside writers holds.

use crate::common::matrix::{Case, at_every_page_size};
use crate::common::{assert_whole, open_on, records, watchdog};
use latchkv::io::sim::{CrashMode, SimMachine};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::scope;

fn checkpoints_beside_writers(case: Case) {
    let _watchdog = watchdog("a_checkpoint_beside_writers");
    let machine = SimMachine::new(5);
    let db = open_on(&machine, &case.options()).expect("empty disks");
    let tree = db.tree("t").expect("made");
    db.checkpoint().expect("room");
    let puts = case.share(1000, 60) as u32;
    // The number of the put, and something behind it.
    let value = |i: u32| [&i.to_be_bytes()[..], &vec![9; 60 * (case.units() - 1)]].concat();
    let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let mut found = BTreeSet::new();
    scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|thread| {
                let (tree, acknowledged) = (&tree, &acknowledged);
                scope.spawn(move || {
                    for i in 0..puts {
                        let mut key = vec![thread];
                        key.extend(i.wrapping_mul(0x9e37_79b9).to_be_bytes());
                        tree.put(&key, value(i)).expect("room");
                        acknowledged[usize::from(thread)]
                            .store(u64::from(i) + 1, Ordering::Release);
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let before: Vec<u64> =
                acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
            db.checkpoint().expect("room");
            let after = machine.crash(1, CrashMode::LoseAll);
            let db = open_on(&after, &case.options()).expect("a whole checkpoint");
            assert_whole(&db);
            let mut counts = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
            for (key, value) in records(&db.tree("t").expect("there")).expect("readable") {
                counts[usize::from(key[0])]
                    .insert(u32::from_be_bytes(value[..4].try_into().expect("four bytes")));
            }
            for (thread, numbers) in counts.iter().enumerate() {
                let len = numbers.len() as u64;
                assert!(
                    numbers.iter().copied().eq(0..len as u32),
                    "thread {thread}: a put is missing in between"
                );
                assert!(
                    len >= before[thread],
                    "thread {thread}: {len} of {} acknowledged",
                    before[thread]
                );
                found.insert(len);
            }
        }
        for writer in writers {
            writer.join().expect("no writer panics");
        }
    });
    assert_eq!(tree.len().expect("open"), 4 * u64::from(puts));
    assert_whole(&db);
}

at_every_page_size! {
    a_checkpoint_beside_writers_holds_each_thread_s_puts_up_to_one_of_them =>
        super::checkpoints_beside_writers;
}
