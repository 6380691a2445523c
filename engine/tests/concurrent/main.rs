//! Many threads on one database, most of the time with sixteen frames, so that everything is evicted, split
//! and merged under everybody's feet.
//!
//! Each thread that writes owns its keys and knows what they hold; what is shared is counted, or never
//! changes. A watchdog turns a hang into a failure. Nothing here depends on how long anything takes.
//!
//! - `records`: reads, scans and writes of records, beside splits and merges.
//! - `definitions`: trees dropped, cleared and renamed beside their readers and writers.
//! - `commits`: commits of several changes, beside each other and beside clears, rebuilds and fills.
//! - `checkpoints`: what a checkpoint beside writers holds.

mod checkpoints;
mod commits;
#[path = "../common/mod.rs"]
mod common;
mod definitions;
mod records;

use latchkv::Db;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

/// Set when the writers are done; also when one of them panics, so that the others end and the panic is seen.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `again` in a thread until the writers are done, and once at least.
fn until_done<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    done: &'scope AtomicBool,
    mut again: impl FnMut() + Send + 'scope,
) {
    scope.spawn(move || {
        loop {
            let last = done.load(Ordering::Relaxed);
            again();
            if last {
                return;
            }
        }
    });
}

fn checkpoint(db: &Db) {
    db.checkpoint().expect("room");
}
