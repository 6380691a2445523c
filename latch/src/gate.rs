//! A gate that is cheap to enter and can be closed: writers are inside from their first change to their last,
//! and a checkpoint closes it to see a moment without writers.
//!
//! What it is for: many threads that enter often, one that closes rarely. What it is not: a read-write lock
//! for data; closing costs a walk over the slots of all threads.
//!
//! ```text
//!   enter:  slot = 1;  fence(SeqCst);  closed?  --no-->  inside
//!                                         |
//!                                         +--yes-->  slot = 0;  park until open;  again
//!   leave:  slot = 0
//!   close:  closed = 1;  fence(SeqCst);  wait until every slot is 0
//! ```
//!
//! A slot ([`crate::per_thread`]) is a counter of its own 128 bytes, written by one thread alone, so entering
//! needs no read-modify-write.
//!
//! # Invariants
//!
//! * \[G1] A slot is stored to by its thread alone ([`mod@crate::thread_index`]); it counts how deep the
//!   thread is inside.
//! * \[G2] While a [`ClosedGate`] lives no thread is inside. Of the two fences one comes first: if the
//!   closer's, the enterer sees `closed`; if the enterer's, the closer sees the slot.
//! * \[G3] A thread that is inside may enter again, closing or not: it would otherwise wait for a closer that
//!   waits for it.
//! * \[G4] `closed` becomes 0 under the bucket's lock, where whoever is about to park looks at it again.
//!
//! # Orderings
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[G-a] | enter: slot Relaxed, `fence(SeqCst)` | close: `fence(SeqCst)`, slot | \[G2] | a writer inside a closed gate |
//! | \[G-b] | close: `closed`, `fence(SeqCst)` | enter: `fence(SeqCst)`, `closed` | \[G2] | the same |
//! | \[G-c] | leave: slot Release | close: slot Acquire | what was done inside is seen by the closer | the checkpoint misses a change |
//! | \[G-d] | open: `closed` Release | enter: `closed` Acquire | what the closer did is seen by whoever enters after it | a writer dirties a page in the old epoch |
//!
//! Leaving has no fence, so it cannot tell whether a closer waits; the closer therefore polls: it spins,
//! yields, and then naps some tens of microseconds at a time.
//!
//! A leaked [`Inside`] keeps the gate from ever closing.
//!
//! # Tests
//!
//! Threads below; loom models `gate::*`.

use crate::backoff::Backoff;
use crate::per_thread::PerThread;
use crate::primitives::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::primitives::{self, AtomicU32, AtomicU64, Mutant, fence, mutant};
use crate::thread_index::thread_index;
use std::fmt;
use std::marker::PhantomData;

/// One thread's depth inside.
#[repr(align(128))]
#[derive(Default)]
struct Slot(AtomicU64);

/// Times that the closer yields to one thread inside before it naps.
const YIELDS: u32 = 64;

/// A gate, open when made. See the module head.
pub struct Gate {
    /// 1 while closing or closed.
    closed: AtomicU32,
    slots: PerThread<Slot>,
}

/// Being inside; leaves when dropped. Belongs to the thread that entered.
#[must_use = "the gate is left when this is dropped"]
pub struct Inside<'a> {
    slot: &'a Slot,
    /// \[G1].
    _not_send: PhantomData<*const ()>,
}

/// The gate closed and nobody inside; opens when dropped.
#[must_use = "the gate opens when this is dropped"]
#[derive(Debug)]
pub struct ClosedGate<'a> {
    gate: &'a Gate,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate { closed: AtomicU32::new(0), slots: PerThread::new() }
    }

    /// Enters. Waits while the gate is closed or closing, unless this thread is inside already. No
    /// read-modify-write unless it waits.
    #[inline]
    pub fn enter(&self) -> Inside<'_> {
        self.enter_slot(thread_index())
    }

    /// Enters as the owner of a slot: loom's threads share one thread of the operating system, so a model
    /// names them.
    #[cfg(latchkv_loom)]
    pub fn enter_as(&self, index: usize) -> Inside<'_> {
        self.enter_slot(index)
    }

    #[inline]
    fn enter_slot(&self, index: usize) -> Inside<'_> {
        let slot = self.slots.get(index);
        // Relaxed: G1, nobody else stores to it.
        let depth = slot.0.load(Relaxed);
        if depth > 0 {
            // Relaxed: not 0 before, not 0 after, and that is all a closer looks at. G3.
            slot.0.store(depth + 1, Relaxed);
        } else if !self.try_enter(slot) {
            self.enter_slow(slot);
        }
        Inside { slot, _not_send: PhantomData }
    }

    /// Enters from outside, or is outside still.
    #[inline(always)]
    fn try_enter(&self, slot: &Slot) -> bool {
        // Relaxed: G-a, the fence follows.
        slot.0.store(1, Relaxed);
        if !mutant(Mutant::EnterWithoutFence) {
            // G-a and G-b.
            fence(SeqCst);
        }
        // G-d.
        if self.closed.load(Acquire) == 0 || mutant(Mutant::EnterIgnoresClosed) {
            return true;
        }
        // Release as for any leave: what was done inside an earlier time must be seen by a closer that sees
        // this 0.
        slot.0.store(0, Release);
        false
    }

    #[cold]
    fn enter_slow(&self, slot: &Slot) {
        loop {
            self.park();
            if self.try_enter(slot) {
                return;
            }
        }
    }

    /// Closes the gate, waiting for another closer to open it first, and then until everybody has left.
    ///
    /// # Panics
    ///
    /// If this thread is inside: it would wait for itself.
    pub fn close(&self) -> ClosedGate<'_> {
        #[cfg(not(latchkv_loom))]
        // Relaxed: G1, this thread's own slot.
        let inside = self.slots.get(thread_index()).0.load(Relaxed) > 0;
        #[cfg(latchkv_loom)]
        let inside = false;
        assert!(!inside, "closed the gate from inside");
        // Acquire: G-d, between closers.
        while self.closed.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.park();
        }
        if !mutant(Mutant::CloseWithoutFence) {
            // G-a and G-b. Slots that are made after this fence (PT2) are of threads that will see `closed`.
            fence(SeqCst);
        }
        for (_, slot) in self.slots.iter() {
            self.wait_for_leave(slot);
        }
        ClosedGate { gate: self }
    }

    fn wait_for_leave(&self, slot: &Slot) {
        let mut backoff = Backoff::new();
        let mut yields = 0;
        // G-c.
        while slot.0.load(Acquire) > 0 {
            if backoff.wait() {
                continue;
            }
            if yields < YIELDS {
                yields += 1;
                primitives::yield_now();
            } else {
                primitives::nap();
            }
        }
    }

    /// Waits until the gate opens.
    #[cold]
    fn park(&self) {
        primitives::park(self.address(), || {
            // Relaxed: G4, under the bucket's lock.
            self.closed.load(Relaxed) != 0 || mutant(Mutant::GateParkWithoutRecheck)
        });
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.closed).addr()
    }
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a picture of a moment.
        f.debug_struct("Gate")
            .field("closed", &(self.closed.load(Relaxed) != 0))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").finish_non_exhaustive()
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: G1.
        let depth = self.slot.0.load(Relaxed);
        // G-c.
        let order = if mutant(Mutant::LeaveRelaxed) { Relaxed } else { Release };
        self.slot.0.store(depth - 1, order);
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        // G-d, and G4 by being inside `wake_all`.
        let order = if mutant(Mutant::OpenRelaxed) { Relaxed } else { Release };
        if mutant(Mutant::OpenForgetsWake) {
            return self.gate.closed.store(0, order);
        }
        primitives::wake_all(self.gate.address(), || self.gate.closed.store(0, order));
    }
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;
    use crate::primitives::{AtomicBool, rmw_count};
    use std::thread;

    #[test]
    fn entering_an_open_gate_does_no_read_modify_write() {
        let gate = Gate::new();
        drop(gate.enter());
        let before = rmw_count();
        let outer = gate.enter();
        drop(gate.enter());
        drop(outer);
        assert_eq!(rmw_count(), before);
    }

    #[test]
    fn a_thread_inside_may_enter_again_while_another_closes() {
        let gate = Gate::new();
        let outer = gate.enter();
        let closed = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _closed = gate.close();
                closed.store(true, Release);
            });
            while gate.closed.load(Acquire) == 0 {
                thread::yield_now();
            }
            drop(gate.enter());
            assert!(!closed.load(Acquire), "closed with a thread inside");
            drop(outer);
        });
        assert!(closed.load(Acquire));
        drop(gate.enter());
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn closing_from_inside_panics() {
        let gate = Gate::new();
        let _inside = gate.enter();
        let _closed = gate.close();
    }

    #[test]
    fn nobody_is_inside_a_closed_gate_and_everybody_gets_in_again() {
        let gate = Gate::new();
        // Two words that writers move together, and that a closer must find equal.
        let words = [const { AtomicU64::new(0) }; 2];
        let running = AtomicU32::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let _inside = gate.enter();
                        words[0].fetch_add(1, Relaxed);
                        let _again = gate.enter();
                        words[1].fetch_add(1, Relaxed);
                    }
                    running.fetch_sub(1, Release);
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while running.load(Acquire) > 0 {
                        let closed = gate.close();
                        assert_eq!(words[0].load(Relaxed), words[1].load(Relaxed));
                        drop(closed);
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(words[0].load(Relaxed), 2_000);
    }
}
