//! The primitives under loom.
//!
//! One mutex and condvar stand for all buckets: they are made anew in each execution, and a wake goes to the address
//! asked for only, so a lost wake-up shows as a deadlock.

use super::Mutant;
use loom::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU32 as StdAtomicU32, Ordering as StdOrdering};

pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use loom::thread::yield_now;

/// The mutation of the running test: not part of the model, so not a loom atomic.
static MUTANT: StdAtomicU32 = StdAtomicU32::new(Mutant::None as u32);

/// Whether the running model leaves this out.
pub fn mutant(which: Mutant) -> bool {
    MUTANT.load(StdOrdering::Relaxed) == which as u32
}

/// Chooses what the models to come leave out. Process-wide: the caller keeps other models from running.
pub fn set_mutant(which: Mutant) {
    MUTANT.store(which as u32, StdOrdering::Relaxed);
}

/// Not counted under loom.
pub fn rmw_count() -> u64 {
    0
}

/// Lets another thread run: a spin loop makes no progress in a model otherwise.
pub fn spin_loop() {
    yield_now();
}

/// As [`yield_now`].
pub fn nap() {
    yield_now();
}

/// Who sleeps where.
struct Bucket {
    /// Address and ticket of each sleeper.
    sleepers: Mutex<(u64, Vec<(usize, u64)>)>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref BUCKET: Bucket = Bucket {
        sleepers: Mutex::new((0, Vec::new())),
        woken: Condvar::new(),
    };
}

/// As in a normal build.
pub fn park(address: usize, still_blocked: impl FnOnce() -> bool) {
    let mut guard = BUCKET.sleepers.lock().expect("no model panics in here");
    if !still_blocked() {
        return;
    }
    guard.0 += 1;
    let ticket = (address, guard.0);
    guard.1.push(ticket);
    while guard.1.contains(&ticket) {
        guard = BUCKET.woken.wait(guard).expect("no model panics in here");
    }
}

/// As in a normal build.
pub fn wake_all(address: usize, clear: impl FnOnce()) {
    let mut guard = BUCKET.sleepers.lock().expect("no model panics in here");
    clear();
    guard.1.retain(|&(sleeper, _)| sleeper != address);
    drop(guard);
    BUCKET.woken.notify_all();
}
