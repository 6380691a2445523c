//! Group commit: who waits for a mark either leads a flush for all, or is woken by the one who does.
//!
//! ```text
//!   waiting for `written` or `durable` to reach `end`
//!
//!   nobody leads            -> lead: flush all that is copied
//!   the flush now on its way covers `end` -> follow it
//!   else                    -> join the group that gathers; the next flush is for it
//!
//!   time -->
//!   A  lead 1 ...............done
//!   B     join 2                 baton: lead 2 ...............done
//!   C          join 2            (sleeps on)                  woken
//!   D                                      join 3                  baton: lead 3 ...
//! ```
//!
//! A flush that ends wakes its own group, all of it, and hands the lead to *one* of the group that gathered
//! meanwhile; the others sleep until that one has flushed. So a commit is woken once, with two groups two
//! condition variables are enough, and nothing is timed: groups are as large as a flush is long.
//!
//! # Invariants
//!
//! - \[T1] `leading` is set from when somebody takes the lead until nobody waits: at most one thread flushes.
//!   While `baton` is set the lead is on its way to a member of the gathering group, of which there is one at
//!   least, and it was notified.
//! - \[T2] Who finds its mark reached when it gets the baton passes it on.
//! - \[T3] A member of a group whose flush has ended looks again at its mark; it may have to wait once more, if a
//!   record before its own was not copied in time.
//! - \[T4] A wait for durability above a held lsn leads nothing and joins nothing: no flush could help it.
//!
//! # Stopping
//!
//! A failed flush poisons the log first and then ends like any other, so everybody looks and leaves.
//!
//! Tested in `tests::threads`.

use super::flush::Wish;
use super::{Durability, Log, LogUsage};
use crate::error::Result;
use latchkv_latch::backoff::Backoff;
use latchkv_latch::primitives::Ordering::{Acquire, Relaxed, Release};
use latchkv_latch::primitives::{AtomicU64, nap, yield_now};
use std::sync::{MutexGuard, PoisonError};

/// Times that a leader lets others run while each time brings more records.
const GATHER_YIELDS_MAX: u32 = 64;

/// Who leads, and for whom. Under one lock.
#[derive(Debug)]
pub(super) struct Turn {
    /// Somebody leads, or is about to \[T1].
    leading: bool,
    /// The lead is free for the first member of the gathering group that takes it \[T1].
    baton: bool,
    /// Number of the group that gathers.
    gathering: u64,
    /// Its members.
    members: u64,
    /// The most that one of them wants.
    wish: Wish,
    /// Greatest group whose flush has ended.
    served: u64,
    /// Members that the last flush was for, the leader included.
    served_members: u64,
    /// What the flush on its way writes up to; 0 when there is none.
    flushing_to: u64,
    /// What it does beside writing.
    flushing: Wish,
    /// lsns that `durable` must not pass.
    held: Vec<u64>,
    /// What the flusher has done.
    pub(super) usage: LogUsage,
    /// Waits that were not over at once.
    pub(super) waits: u64,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn {
            leading: false,
            baton: false,
            gathering: 1,
            members: 0,
            wish: Wish::Write,
            served: 0,
            served_members: 0,
            flushing_to: 0,
            flushing: Wish::Write,
            held: Vec::new(),
            usage: LogUsage::default(),
            waits: 0,
        }
    }
}

/// What somebody waits for.
#[derive(Clone, Copy, Debug)]
struct Goal<'a> {
    mark: &'a AtomicU64,
    end: u64,
    wish: Wish,
    /// A held lsn stands in the way: the least of them.
    held_from: Option<&'a AtomicU64>,
}

impl Goal<'_> {
    fn is_reached(&self) -> bool {
        // Acquire: L-a.
        self.mark.load(Acquire) >= self.end && !self.is_held()
    }

    fn is_held(&self) -> bool {
        // Relaxed: L-f.
        self.held_from.is_some_and(|held_from| held_from.load(Relaxed) < self.end)
    }
}

impl Log {
    /// Waits until the commit whose record ends at `end` can be acknowledged: whoever begins next sees it, and it is
    /// as durable as `level` says. The record is marked applied. 0 = there is none.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`]: it may survive a crash or not; and if a commit before it was given up half
    /// applied, nobody sees it before the log is opened again.
    pub(crate) fn acknowledge(&self, end: u64, level: Durability) -> Result<()> {
        self.wait_visible(end);
        if self.visible() < end {
            // L-c: who gave a commit up has poisoned the log before it let others pass.
            self.health()?;
        }
        self.wait(end, level)
    }

    /// Waits until the record that ends at `end` is as durable as `level` says. The record is marked applied, or
    /// will be by another thread.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`]: the record may survive a crash or not.
    pub(super) fn wait(&self, end: u64, level: Durability) -> Result<()> {
        let goal = match level {
            // What will never be written is not acknowledged, little as was asked for.
            Durability::None if self.written() < end => return self.health(),
            Durability::None => return Ok(()),
            Durability::Buffered => self.written_goal(end),
            Durability::Sync => {
                let held_from = Some(&self.held_from);
                Goal { mark: &self.marks.durable, end, wish: Wish::Sync, held_from }
            }
        };
        if goal.is_reached() { Ok(()) } else { self.reach(goal) }
    }

    /// Waits until all records below `lsn`, which are applied, are durable, and no lsn below it is held.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`].
    pub(crate) fn wait_durable(&self, lsn: u64) -> Result<()> {
        self.wait(lsn, Durability::Sync)
    }

    /// Gives the operating system all that is reserved by now. Waits for what is reserved and not copied yet,
    /// so the caller must hold nothing reserved.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`].
    pub(crate) fn flush(&self) -> Result<()> {
        self.wait(self.tail(), Durability::Buffered)
    }

    /// Makes all that is reserved by now durable. Waits for what is reserved and not copied yet, so the caller
    /// must hold nothing reserved; and for held lsns to be let go.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.wait(self.tail(), Durability::Sync)
    }

    /// Syncs all records below `lsn`, whatever is held: for a checkpoint, on which those that hold something
    /// wait. Acknowledges nothing that is held.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`].
    pub(crate) fn harden(&self, lsn: u64) -> Result<()> {
        let goal = Goal { mark: &self.marks.synced, end: lsn, wish: Wish::Sync, held_from: None };
        if goal.is_reached() { Ok(()) } else { self.reach(goal) }
    }

    /// Keeps [`Log::durable`] from passing `lsn` until [`Log::let_durable_go`]; who waits for more, be it only to be
    /// written, waits until then: opening after a crash of the process may end the log there. Called between reserving
    /// and copying the record at `lsn`, so that nothing of it is synced yet. Several may be held.
    pub(crate) fn hold_durable(&self, lsn: u64) {
        let mut turn = self.turn();
        turn.held.push(lsn);
        self.publish_held(&turn);
    }

    /// Ends one [`Log::hold_durable`] of `lsn`.
    pub(crate) fn let_durable_go(&self, lsn: u64) {
        let mut turn = self.turn();
        if let Some(index) = turn.held.iter().position(|held| *held == lsn) {
            turn.held.swap_remove(index);
        }
        self.publish_held(&turn);
        self.publish_durable(&turn);
        drop(turn);
        self.let_go.notify_all();
    }

    /// Flushes what nobody waited for, and lets go of memory that is not needed any more. To be called by a
    /// background thread every few tens of milliseconds. True if there was something to do.
    ///
    /// It also prepares the next slot ahead, so that committers seldom do; a full disk is no failure here.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`].
    pub(crate) fn background(&self) -> Result<bool> {
        self.health()?;
        let grew = self.prepare_ahead()?;
        let idle = self.written() >= self.tail() && self.ring.retired() >= self.written();
        if idle && !grew {
            return Ok(false);
        }
        // The sync makes new zeros durable outside of anybody's commit.
        let led = self.flush_now(if grew { Wish::SyncAnyway } else { Wish::Write });
        self.health()?;
        Ok(led)
    }

    /// Leads one flush of what is copied, unless somebody else is leading. Whether it did.
    pub(super) fn flush_now(&self, wish: Wish) -> bool {
        let mut turn = self.turn();
        if turn.leading {
            return false;
        }
        turn.leading = true;
        drop(turn);
        self.lead(0, wish);
        true
    }

    fn written_goal(&self, end: u64) -> Goal<'_> {
        let held_from = Some(&self.held_from);
        Goal { mark: &self.marks.written, end, wish: Wish::Write, held_from }
    }

    #[cold]
    fn reach(&self, goal: Goal<'_>) -> Result<()> {
        let mut turn = self.turn();
        turn.waits += 1;
        loop {
            if goal.is_reached() {
                return Ok(());
            }
            self.health()?;
            if goal.is_held() {
                // T4.
                turn = self.let_go.wait(turn).unwrap_or_else(PoisonError::into_inner);
            } else if turn.leading {
                turn = self.follow(turn, goal);
            } else {
                turn.leading = true;
                drop(turn);
                self.lead(goal.end, goal.wish);
                turn = self.turn();
            }
        }
    }

    /// Waits for the flush that covers the goal, or for that of the next group; leads that if the baton comes.
    fn follow<'a>(
        &'a self,
        mut turn: MutexGuard<'a, Turn>,
        goal: Goal<'_>,
    ) -> MutexGuard<'a, Turn> {
        let covered = goal.end <= turn.flushing_to && goal.wish <= turn.flushing;
        let group = if covered {
            turn.gathering - 1
        } else {
            turn.members += 1;
            turn.wish = turn.wish.max(goal.wish);
            turn.gathering
        };
        let woken = &self.gathered[(group % 2) as usize];
        loop {
            turn = woken.wait(turn).unwrap_or_else(PoisonError::into_inner);
            if turn.served >= group {
                return turn;
            }
            if turn.baton && turn.gathering == group {
                turn.members -= 1;
                if goal.is_reached() || self.health().is_err() {
                    // T2.
                    self.hand_over(&mut turn);
                    return turn;
                }
                turn.baton = false;
                drop(turn);
                self.lead(goal.end, goal.wish);
                return self.turn();
            }
        }
    }

    /// Flushes for the group that gathers now, as who leads. Never fails: a failure poisons.
    fn lead(&self, end: u64, wish: Wish) {
        let mut flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        self.gather(flusher.end(), end);
        let copied = self.ring.copied_end(flusher.end());

        let mut turn = self.turn();
        // Once more, under the lock: who comes after it sees whether this flush covers it.
        let to = self.ring.copied_end(copied);
        let group = turn.gathering;
        let wish = wish.max(turn.wish);
        turn.served_members = turn.members + u64::from(end > 0);
        turn.gathering += 1;
        turn.members = 0;
        turn.wish = Wish::Write;
        turn.flushing_to = to;
        turn.flushing = wish;
        drop(turn);

        let flushed = match self.health() {
            Ok(()) => flusher.flush(self, to, wish),
            Err(error) => Err(error),
        };
        let usage = flusher.usage();
        drop(flusher);
        if let Err(cause) = flushed {
            self.poison(cause);
        }

        let mut turn = self.turn();
        turn.usage = usage;
        turn.served = group;
        turn.flushing_to = 0;
        turn.flushing = Wish::Write;
        self.publish_durable(&turn);
        self.hand_over(&mut turn);
        drop(turn);
        self.gathered[(group % 2) as usize].notify_all();
    }

    /// Gives the lead to one of the gathering group, or to nobody if there is none \[T1].
    fn hand_over(&self, turn: &mut Turn) {
        turn.baton = turn.members > 0;
        turn.leading = turn.baton;
        if turn.baton {
            self.gathered[(turn.gathering % 2) as usize].notify_one();
        }
    }

    /// Lets copies come in before a flush: the leader's own must, as far as a little patience helps, and where
    /// the last flush was for several, its members are probably about to come again.
    fn gather(&self, written: u64, end: u64) {
        let mut backoff = Backoff::new();
        while self.ring.copied_end(written) < end {
            if !backoff.wait() {
                if self.ring.copied_end(written) == written {
                    // Nothing to write at all: somebody was interrupted while it copied.
                    nap();
                }
                return;
            }
        }
        if self.turn().served_members > 1 {
            let mut tail = self.tail();
            for _ in 0..GATHER_YIELDS_MAX {
                yield_now();
                let now = self.tail();
                if now == tail {
                    break;
                }
                tail = now;
            }
        }
    }

    /// Moves `durable` to what is synced and not held.
    fn publish_durable(&self, turn: &Turn) {
        // Relaxed: L-b; stored by a leader, whose lock this thread has taken since.
        let synced = self.marks.synced.load(Relaxed);
        let durable = turn.held.iter().copied().fold(synced, u64::min);
        // Relaxed: only stored under the lock that is held here.
        if durable > self.marks.durable.load(Relaxed) {
            // L-a.
            self.marks.durable.store(durable, Release);
        }
    }

    fn publish_held(&self, turn: &Turn) {
        let least = turn.held.iter().copied().min().unwrap_or(u64::MAX);
        // Relaxed: L-f.
        self.held_from.store(least, Relaxed);
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, Turn> {
        // What is changed under the lock is whole between any two steps that can panic.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
