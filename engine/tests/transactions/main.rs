//! What transactions, snapshots, batches, watches and recovery promise, one fact at a time.

#[path = "../common/mod.rs"]
mod common;

mod backup;
mod batches;
mod hostile;
mod isolation;
mod large;
mod rebuild;
mod recovery;
mod savepoints;
mod snapshots;
mod watching;
mod writes;

use latchkv::io::sim::SimMachine;
use latchkv::{Db, Durability, Options};

/// A database on simulated disks, with commits that wait for nothing.
fn fast() -> Db {
    on(&SimMachine::new(1), &small().durability(Durability::None))
}

/// A small cache, and a log that costs little to make.
fn small() -> Options {
    Options::new().cache_bytes(4 << 20).log_slot_bytes(64 << 10)
}

/// A database on the disks of `machine`.
fn on(machine: &SimMachine, options: &Options) -> Db {
    options.open_disks(machine.data(), machine.log()).expect("it opens")
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}
