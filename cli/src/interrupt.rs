//! Ctrl-C while a load runs: noticed between commits, so that the load ends in good order.
//!
//! The first signal only sets a flag, which the load looks at; it then ends, closes the database, and says how to go on.
//! The second ends the process at once, for those who do not want to wait. Other commands end at the first: whatever they
//! were doing, it is whole, or the log has it.
//!
//! Tested in `tests/resume.rs`, by signals.

use crate::exit::{Failure, Outcome};
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What shells give for a process that Ctrl-C has ended: 128 and the number of the signal.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether the user wants the command to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// From now on Ctrl-C is for [`check`](Self::check) to notice.
    pub(crate) fn watch(&self) -> Outcome {
        // In this order: at the first signal the flag is not set yet, so that the process goes on.
        flag::register_conditional_shutdown(SIGINT, EXIT_CODE.into(), Arc::clone(&self.0))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&self.0)))
            .map_err(|error: io::Error| {
                Failure::Error(format!("watching for Ctrl-C failed: {error}"))
            })?;
        Ok(())
    }

    /// Fails once there was a Ctrl-C.
    pub(crate) fn check(&self) -> Outcome {
        // Relaxed: nothing else is read by it.
        if self.0.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted("interrupted".into()));
        }
        Ok(())
    }
}
