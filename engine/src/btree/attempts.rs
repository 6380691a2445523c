//! How often an operation was restarted, and what it does about it.

use crate::error::Result;
use crate::pool::{Pool, Ticket};

/// Restarts before the operation gives up its processor between them.
const YIELD_FROM: u32 = 4;
/// Restarts before the operation takes the pool's ticket.
const TICKET_FROM: u32 = 48;
/// An operation restarted so often while dirty pages cannot be written gives up: too few frames are left that a
/// page could leave, so that a child's load takes the frame of its parent, and the other way round.
const GIVE_UP_EVERY: u32 = 256;

/// The restarts of one operation.
#[derive(Debug)]
pub(super) struct Attempts<'p> {
    pool: &'p Pool,
    /// May take the ticket. Not a thread that holds the gate, for which a holder of the ticket may be waiting.
    queues: bool,
    made: u32,
    ticket: Option<Ticket<'p>>,
    /// Last clear of the tree before the descent; only changes ask.
    pub(super) cleared_at: u64,
}

impl<'p> Attempts<'p> {
    #[inline(always)]
    pub(super) fn new(pool: &'p Pool, queues: bool) -> Attempts<'p> {
        Attempts { pool, queues, made: 0, ticket: None, cleared_at: 0 }
    }

    /// The caller starts again. It holds no latch and no reservation.
    ///
    /// # Errors
    /// Why dirty pages cannot be written, if that may be what the restarts come from.
    #[cold]
    pub(super) fn again(&mut self) -> Result<()> {
        self.made += 1;
        if self.made.is_multiple_of(GIVE_UP_EVERY) {
            self.pool.check_writeback()?;
        }
        if self.queues && self.made >= TICKET_FROM && self.ticket.is_none() {
            self.ticket = Some(self.pool.ticket());
        } else if self.made >= YIELD_FROM {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        Ok(())
    }
}
