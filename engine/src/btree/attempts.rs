//! How often an operation was restarted, and what it does about it.

use crate::pool::{Pool, Ticket};

/// Restarts before the operation gives up its processor between them.
const YIELD_FROM: u32 = 4;
/// Restarts before the operation takes the pool's ticket.
const TICKET_FROM: u32 = 48;

/// The restarts of one operation.
#[derive(Debug)]
pub(super) struct Attempts<'p> {
    /// Whose ticket to take; `None` for a thread that holds the gate, for which a holder of the ticket may be
    /// waiting.
    pool: Option<&'p Pool>,
    made: u32,
    ticket: Option<Ticket<'p>>,
    /// Clears of the tree before the descent; only changes ask.
    pub(super) clears: u64,
}

impl<'p> Attempts<'p> {
    #[inline(always)]
    pub(super) fn new(pool: Option<&'p Pool>) -> Attempts<'p> {
        Attempts { pool, made: 0, ticket: None, clears: 0 }
    }

    /// The caller starts again. It holds no latch and no reservation.
    #[cold]
    pub(super) fn again(&mut self) {
        self.made += 1;
        match self.pool {
            Some(pool) if self.made >= TICKET_FROM && self.ticket.is_none() => {
                self.ticket = Some(pool.ticket());
            }
            _ if self.made >= YIELD_FROM => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}
