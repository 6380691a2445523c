//! The thread behind a database: flushes what nobody waits for, moves the horizon, makes checkpoints by bytes
//! dirtied and logged, writes back ahead of the clock hand, and finishes drops.

use super::shared::Shared;
use crate::error::{Error, Result};
use latchkv_latch::primitives::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps when there is nothing to do.
const NAP: Duration = Duration::from_millis(20);
/// How long it sleeps after a failure, which is most likely a full disk.
const NAP_AFTER_FAILURE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Background {
    /// Relaxed: set before the unpark, which carries the edge; a nap ends by itself in any case.
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Background {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Background> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        // Weak: the thread does not keep the database open.
        let weak = Arc::downgrade(shared);
        let spawned = std::thread::Builder::new()
            .name("latchkv-pages".into())
            .spawn(move || run(&weak, &told));
        match spawned {
            Ok(thread) => Ok(Background { stop, thread: Mutex::new(Some(thread)) }),
            Err(error) => Err(Error::Io {
                op: "start the background thread",
                path: shared.pool.store().path().to_owned(),
                source: Arc::new(error),
            }),
        }
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop(&self) {
        // Relaxed: see the field.
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            if thread.thread().id() == std::thread::current().id() {
                // A callback let go of the last handle: the thread ends when it comes back from it.
                return;
            }
            thread.thread().unpark();
            // A panic of the thread was reported by the panic hook; there is nothing left to wait for.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Weak<Shared>, stop: &AtomicBool) {
    // Relaxed: see the field.
    while !stop.load(Ordering::Relaxed) {
        let Some(shared) = shared.upgrade() else { return };
        let done = work(&shared);
        drop(shared);
        match done {
            Ok(true) => {}
            Ok(false) => std::thread::park_timeout(NAP),
            // Whoever writes next meets the same failure and reports it.
            Err(_) => std::thread::park_timeout(NAP_AFTER_FAILURE),
        }
    }
}

/// One round of everything there is to do. False: there was nothing that wants another at once.
fn work(shared: &Shared) -> Result<bool> {
    let Some(ledger) = &shared.ledger else { return Ok(false) };
    let mut busy = ledger.log.background()?;
    shared.readers.look(ledger);
    ledger.sweep(&shared.pool);
    ledger.rest_watch();
    if shared.pool.dirtied_bytes() >= shared.checkpoint_bytes || shared.is_log_long() {
        shared.checkpoint()?;
        busy = true;
    }
    busy |= shared.pool.clean_ahead()?;
    busy |= ledger.purge(&shared.pool)?;
    Ok(busy || shared.catalog.finish_interrupted_drop(&shared.pool)?)
}
