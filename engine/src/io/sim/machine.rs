//! [`SimMachine`]: the disks of one machine. They share a lock, the order of all their calls, and the power.
//!
//! ```text
//!   calls      data.write  log.write  data.sync  log.sync  data.write  ...
//!   joint op       1           2          3         4          5         counted over both
//!   own op         1           1          2         2          3         counted for each
//!   history        |           |          |         |          |         both disks, at one instant
//! ```
//!
//! A call meets what was planned for its disk and what was planned for the machine; each plan counts for
//! itself. The same goes for room: what a file takes is bounded by its own capacity and by what the other files
//! leave of the machine's.
//!
//! Tested in `tests`.

use super::crash::Snapshot;
use super::fault::{Fault, Faults, OpKind};
use super::file::File;
use super::image::Image;
use super::rng::Rng;
use super::{CrashMode, Record, SimDisk};
use crate::io::Write;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// All disks at one instant.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    op: u64,
    files: Vec<Snapshot>,
}

impl Moment {
    pub(super) fn file(&self, index: usize) -> Snapshot {
        self.files[index].clone()
    }
}

/// What the disks of a machine share.
#[derive(Debug)]
pub(super) struct Machine {
    files: Vec<File>,
    faults: Faults,
    capacity_bytes: Option<u64>,
    record: Record,
    history: Vec<Moment>,
}

impl Machine {
    /// Disks with these contents, all durable.
    pub(super) fn new(disks: impl IntoIterator<Item = (Rng, Image)>) -> Machine {
        Machine {
            files: disks.into_iter().map(|(rng, image)| File::new(rng, image)).collect(),
            faults: Faults::default(),
            capacity_bytes: None,
            record: Record::Nothing,
            history: Vec::new(),
        }
    }

    pub(super) fn file(&mut self, index: usize) -> &mut File {
        &mut self.files[index]
    }

    pub(super) fn record_history(&mut self, record: Record) {
        self.record = record;
        self.history.clear();
    }

    pub(super) fn history(&self) -> impl Iterator<Item = &Moment> {
        self.history.iter()
    }

    fn moment(&self) -> Moment {
        Moment {
            op: self.faults.count(OpKind::Any),
            files: self.files.iter().map(File::snapshot).collect(),
        }
    }

    fn record(&mut self, when: Record) {
        if self.record == when {
            let moment = self.moment();
            self.history.push(moment);
        }
    }

    /// Counts a call; the fault that it is to meet, if any. A plan for the disk goes before one for the machine.
    fn meet(&mut self, index: usize, op: OpKind) -> Option<Fault> {
        let joint = self.faults.meet(op);
        self.files[index].faults.meet(op).or(joint)
    }

    /// How much room a file may take.
    fn room_bytes_max(&self, index: usize) -> u64 {
        let others = self.files.iter().enumerate().filter(|(other, _)| *other != index);
        let others: u64 = others.map(|(_, file)| file.room_bytes()).sum();
        let joint = self.capacity_bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(others));
        self.files[index].capacity_bytes.unwrap_or(u64::MAX).min(joint)
    }

    pub(super) fn read(&mut self, index: usize, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let fault = self.meet(index, OpKind::Read);
        self.files[index].read(offset, buf, fault)
    }

    pub(super) fn write(&mut self, index: usize, writes: &[Write<'_>]) -> io::Result<()> {
        let fault = self.meet(index, OpKind::Write);
        let room_bytes_max = self.room_bytes_max(index);
        let written = self.files[index].write(writes, fault, room_bytes_max);
        self.record(Record::Changes);
        written
    }

    pub(super) fn sync(&mut self, index: usize) -> io::Result<()> {
        self.record(Record::Syncs);
        let fault = self.meet(index, OpKind::Sync);
        let synced = self.files[index].sync(fault);
        self.record(Record::Syncs);
        self.record(Record::Changes);
        synced
    }

    pub(super) fn set_len(&mut self, index: usize, bytes: u64) -> io::Result<()> {
        let fault = self.meet(index, OpKind::SetLen);
        let set = self.files[index].set_len(bytes, fault);
        self.record(Record::Changes);
        set
    }

    pub(super) fn allocate(&mut self, index: usize, offset: u64, bytes: u64) -> io::Result<()> {
        let fault = self.meet(index, OpKind::Allocate);
        let room_bytes_max = self.room_bytes_max(index);
        let allocated = self.files[index].allocate(offset, bytes, fault, room_bytes_max);
        self.record(Record::Changes);
        allocated
    }
}

/// Which disk of a [`SimMachine`].
const DATA: usize = 0;
const LOG: usize = 1;

/// A simulated machine with a disk for the data and one for the log. See the head of [`sim`](super).
///
/// A clone is another handle of the same machine.
#[derive(Clone, Debug)]
pub struct SimMachine {
    data: Arc<SimDisk>,
    log: Arc<SimDisk>,
}

impl SimMachine {
    /// Two empty disks. The seed decides what failing calls leave behind.
    pub fn new(seed: u64) -> SimMachine {
        SimMachine::with_images(&mut Rng::new(seed), [Image::default(), Image::default()])
    }

    fn with_images(rng: &mut Rng, images: [Image; 2]) -> SimMachine {
        let disks = images.map(|image| (Rng::new(rng.next()), image));
        let machine = Arc::new(Mutex::new(Machine::new(disks)));
        let disk = |index| Arc::new(SimDisk { machine: Arc::clone(&machine), index });
        SimMachine { data: disk(DATA), log: disk(LOG) }
    }

    /// The disk for the data. What is asked of it concerns it alone: its calls, its faults, its capacity.
    pub fn data(&self) -> Arc<SimDisk> {
        Arc::clone(&self.data)
    }

    /// The disk for the log. What is asked of it concerns it alone: its calls, its faults, its capacity.
    pub fn log(&self) -> Arc<SimDisk> {
        Arc::clone(&self.log)
    }

    /// Lets one call of that kind fail: the `index`-th of either disk from now, from 0.
    pub fn fail_at(&self, index: u64, fault: Fault, kind: OpKind) {
        self.machine().faults.plan(kind, index, true, fault);
    }

    /// Lets all calls of that kind fail, from the `index`-th of either disk from now on, until
    /// [`SimMachine::clear_faults`].
    pub fn fail_from(&self, index: u64, fault: Fault, kind: OpKind) {
        self.machine().faults.plan(kind, index, false, fault);
    }

    /// Forgets all planned failures, those of a single disk too; capacities stay.
    pub fn clear_faults(&self) {
        let mut machine = self.machine();
        machine.faults.clear();
        for file in &mut machine.files {
            file.faults.clear();
        }
    }

    /// Greatest room that both files may take together, in bytes: what would take more fails with `ENOSPC`. `None` = no
    /// limit but those of the disks.
    pub fn set_capacity(&self, bytes_max: Option<u64>) {
        self.machine().capacity_bytes = bytes_max;
    }

    /// How many calls of that kind there were of both disks, failed ones included.
    pub fn op_count(&self, kind: OpKind) -> u64 {
        self.machine().faults.count(kind)
    }

    /// What to collect from now on. Forgets what was collected before.
    pub fn record_history(&self, record: Record) {
        self.machine().record_history(record);
    }

    /// What was collected since [`SimMachine::record_history`], oldest first.
    pub fn history(&self) -> Vec<MachineSnapshot> {
        let machine = self.machine();
        machine.history().map(|moment| MachineSnapshot(moment.clone())).collect()
    }

    /// The present state of both disks, at one instant.
    pub fn snapshot(&self) -> MachineSnapshot {
        MachineSnapshot(self.machine().moment())
    }

    /// The machine found after a power cut now: [`MachineSnapshot::crash`] of the present state.
    pub fn crash(&self, seed: u64, mode: CrashMode) -> SimMachine {
        self.snapshot().crash(seed, mode)
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.data.machine()
    }
}

/// The state of a [`SimMachine`] at one moment. Cheap to copy.
#[derive(Clone, Debug)]
pub struct MachineSnapshot(Moment);

impl MachineSnapshot {
    /// How many calls of any kind had been made of both disks.
    pub fn op(&self) -> u64 {
        self.0.op
    }

    /// The disk for the data.
    pub fn data(&self) -> &Snapshot {
        &self.0.files[DATA]
    }

    /// The disk for the log.
    pub fn log(&self) -> &Snapshot {
        &self.0.files[LOG]
    }

    /// The machine found after a power cut at this moment: no faults planned, no limit of room, all of it
    /// durable. What each disk keeps is drawn apart. The same seed and mode give the same machine.
    pub fn crash(&self, seed: u64, mode: CrashMode) -> SimMachine {
        let mut rng = Rng::new(seed);
        let images =
            [self.data(), self.log()].map(|disk| disk.image_after(&mut Rng::new(rng.next()), mode));
        SimMachine::with_images(&mut rng, images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BLOCK_BYTES;
    use crate::io::Disk;
    use std::collections::BTreeSet;

    const BLOCK: u64 = BLOCK_BYTES as u64;

    fn put(disk: &SimDisk, number: u64, fill: u8) -> io::Result<()> {
        let bytes = [fill; BLOCK_BYTES];
        disk.write(&[Write { offset: number * BLOCK, bytes: &bytes }])
    }

    fn get(disk: &SimDisk, number: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; BLOCK_BYTES];
        disk.read(number * BLOCK, &mut bytes).expect("inside the file");
        bytes
    }

    fn is_full(result: io::Result<()>) -> bool {
        result.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
    }

    /// Both disks hold a synced block of ones.
    fn synced() -> SimMachine {
        let machine = SimMachine::new(1);
        for disk in [machine.data(), machine.log()] {
            put(&disk, 0, 1).expect("no fault");
            disk.sync().expect("no fault");
        }
        machine
    }

    #[test]
    fn both_disks_lose_power_and_what_each_keeps_is_drawn_apart() {
        let machine = synced();
        put(&machine.data(), 0, 2).expect("no fault");
        put(&machine.log(), 0, 3).expect("no fault");
        let fills = |machine: &SimMachine| {
            [machine.data(), machine.log()]
                .map(|disk| get(&disk, 0))
                .map(|block| block.iter().all(|byte| byte == &block[0]).then_some(block[0]))
        };
        assert_eq!(fills(&machine.crash(5, CrashMode::LoseAll)), [Some(1), Some(1)]);
        assert_eq!(fills(&machine.crash(5, CrashMode::KeepAll)), [Some(2), Some(3)]);
        let found: BTreeSet<_> =
            (0..300).map(|seed| fills(&machine.crash(seed, CrashMode::Random))).collect();
        for data in [Some(1), Some(2), None] {
            for log in [Some(1), Some(3), None] {
                assert!(found.contains(&[data, log]), "{data:?}, {log:?} never found");
            }
        }
        assert_eq!(found.len(), 9);
    }

    #[test]
    fn a_sync_of_one_disk_saves_nothing_of_the_other() {
        let machine = synced();
        put(&machine.data(), 0, 2).expect("no fault");
        put(&machine.log(), 0, 3).expect("no fault");
        machine.log().sync().expect("no fault");
        let found = machine.crash(0, CrashMode::LoseAll);
        assert_eq!((get(&found.data(), 0)[0], get(&found.log(), 0)[0]), (1, 3));
    }

    #[test]
    fn history_shows_both_disks_at_one_instant_in_the_order_of_calls() {
        let machine = SimMachine::new(1);
        let (data, log) = (machine.data(), machine.log());
        machine.record_history(Record::Changes);
        put(&data, 0, 1).expect("no fault");
        put(&log, 0, 2).expect("no fault");
        get(&log, 0);
        log.sync().expect("no fault");
        put(&log, 1, 3).expect("no fault");
        data.sync().expect("no fault");
        let pending = |at: &MachineSnapshot| (at.data().pending_count(), at.log().pending_count());
        let history = machine.history();
        assert_eq!(history.iter().map(MachineSnapshot::op).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        let states: Vec<_> = history.iter().map(pending).collect();
        assert_eq!(states, [(1, 0), (1, 1), (1, 0), (1, 1), (0, 1)]);
        let found = history[2].crash(0, CrashMode::LoseAll);
        assert_eq!((found.data().len_bytes().expect("a length"), get(&found.log(), 0)[0]), (0, 2));
        assert_eq!(data.history().len(), 5, "a disk shows its part of the same history");

        machine.record_history(Record::Syncs);
        log.sync().expect("no fault");
        data.sync().expect("no fault");
        let states: Vec<_> = machine.history().iter().map(pending).collect();
        assert_eq!(states, [(0, 1), (0, 0), (0, 0), (0, 0)]);
        assert_eq!(machine.snapshot().op(), 8);
    }

    #[test]
    fn faults_are_planned_for_calls_of_either_disk_or_of_one() {
        let machine = SimMachine::new(1);
        let (data, log) = (machine.data(), machine.log());
        machine.fail_at(2, Fault::Eio, OpKind::Write);
        log.fail_at(1, Fault::Enospc, OpKind::Write);
        put(&log, 0, 1).expect("write 0 of the machine, 0 of the log");
        put(&data, 0, 1).expect("write 1 of the machine");
        let failed = put(&data, 0, 1).expect_err("write 2 of the machine");
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
        assert!(is_full(put(&log, 0, 1)), "write 1 of the log");
        put(&log, 0, 1).expect("write 2 of the log");
        assert_eq!((data.op_count(OpKind::Write), log.op_count(OpKind::Write)), (2, 3));
        assert_eq!(machine.op_count(OpKind::Write), 5);

        machine.fail_from(1, Fault::Enospc, OpKind::Change);
        data.fail_from(0, Fault::Eio, OpKind::Sync);
        put(&data, 0, 1).expect("change 0");
        assert!(is_full(put(&data, 0, 1)) && is_full(put(&log, 0, 1)) && is_full(log.sync()));
        let failed = data.sync().expect_err("the plan for the disk goes first");
        assert_eq!(failed.raw_os_error(), Some(libc::EIO));
        machine.clear_faults();
        assert!(data.sync().is_ok() && put(&log, 0, 1).is_ok());
    }

    #[test]
    fn files_share_the_room_of_their_machine() {
        let machine = SimMachine::new(1);
        let (data, log) = (machine.data(), machine.log());
        machine.set_capacity(Some(4 * BLOCK));
        log.allocate(0, 3 * BLOCK).expect("fits");
        put(&data, 0, 1).expect("fits");
        assert!(is_full(put(&data, 1, 1)) && is_full(log.allocate(3 * BLOCK, BLOCK)));
        put(&log, 2, 1).expect("takes no more room");
        log.set_len(2 * BLOCK).expect("shorter");
        put(&data, 1, 1).expect("fits now");
        machine.set_capacity(None);
        data.set_capacity(Some(2 * BLOCK));
        assert!(is_full(put(&data, 2, 1)), "its own limit");
        put(&log, 9, 1).expect("none");
    }

    #[test]
    fn the_same_seed_and_calls_find_the_same_machine_whatever_the_other_disk_does() {
        let play = |log_calls: usize| {
            let machine = SimMachine::new(9);
            let (data, log) = (machine.data(), machine.log());
            for number in 0..8 {
                data.fail_at(0, Fault::Eio, OpKind::Write);
                assert!(put(&data, number, 7).is_err(), "leaves some of its sectors");
                for call in 0..log_calls {
                    log.fail_at(0, Fault::Eio, OpKind::Write);
                    assert!(put(&log, call as u64, 8).is_err(), "leaves some of its sectors");
                }
            }
            machine
        };
        for seed in 0..20 {
            let [one, two, other] =
                [3, 3, 1].map(|calls| play(calls).crash(seed, CrashMode::Random));
            let bytes = |disk: &SimDisk| {
                let mut bytes = vec![0; disk.len_bytes().expect("a length") as usize];
                disk.read(0, &mut bytes).expect("inside the file");
                bytes
            };
            assert_eq!(bytes(&one.data()), bytes(&two.data()));
            assert_eq!(bytes(&one.log()), bytes(&two.log()));
            assert_eq!(bytes(&one.data()), bytes(&other.data()));
        }
    }

    #[test]
    fn a_machine_found_after_a_power_cut_can_lose_power_again() {
        let machine = synced();
        put(&machine.log(), 0, 2).expect("no fault");
        machine.set_capacity(Some(2 * BLOCK));
        machine.fail_from(0, Fault::Eio, OpKind::Any);
        let second = machine.crash(3, CrashMode::KeepAll);
        put(&second.log(), 5, 3).expect("no fault is planned, there is room");
        let third = second.crash(4, CrashMode::LoseAll);
        assert_eq!(get(&third.log(), 0)[0], 2, "what was found once is durable");
        assert_eq!(third.log().len_bytes().expect("a length"), BLOCK);
        assert_eq!(third.op_count(OpKind::Change), 0);
    }
}
