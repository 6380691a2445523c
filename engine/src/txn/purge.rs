//! Tombstones that nobody needs: removed from their leaves once the horizon has passed them.
//!
//! A delete leaves a hint. Where there are too many hints, the whole tree is gone through instead.

use super::{Ledger, Target};
use crate::btree::Btree;
use crate::error::Result;
use crate::pool::Pool;
use crossbeam_queue::ArrayQueue;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Hints that are kept.
const HINTS_MAX: usize = 16 << 10;
/// Hints, or leaves, that one call goes through.
const STEPS: usize = 256;

/// A leaf that has a tombstone.
#[derive(Debug)]
struct Hint {
    target: Target,
    key: Box<[u8]>,
    lsn: u64,
}

/// A tree that is gone through, from a key on.
#[derive(Debug)]
struct Round {
    target: Target,
    from: Vec<u8>,
    /// Tombstones from here on came after the round was asked for.
    lsn: u64,
}

/// Where tombstones are.
#[derive(Debug)]
pub(super) struct Purge {
    hints: ArrayQueue<Hint>,
    rounds: Mutex<Vec<Round>>,
}

impl Default for Purge {
    fn default() -> Purge {
        Purge { hints: ArrayQueue::new(HINTS_MAX), rounds: Mutex::new(Vec::new()) }
    }
}

impl Purge {
    /// A tombstone was written.
    pub(super) fn note(&self, target: &Target, key: &[u8], lsn: u64) {
        let hint = Hint { target: target.clone(), key: key.into(), lsn };
        if let Err(hint) = self.hints.push(hint) {
            self.note_tree(hint.target, lsn);
        }
    }

    /// A tree has tombstones below `lsn`, who knows where.
    pub(super) fn note_tree(&self, target: Target, lsn: u64) {
        let mut rounds = self.rounds();
        match rounds.iter_mut().find(|round| round.target.core.id == target.core.id) {
            // A round under way has passed keys already: it begins anew, later.
            Some(round) => {
                round.lsn = round.lsn.max(lsn);
                round.from.clear();
            }
            None => rounds.push(Round { target, from: Vec::new(), lsn }),
        }
    }

    fn rounds(&self) -> MutexGuard<'_, Vec<Round>> {
        // A list of wishes: whole after any panic.
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Asks for a round through a tree of which nobody knows whether it has tombstones.
    pub(crate) fn purge_all_of(&self, target: Target) {
        self.purge.note_tree(target, self.log.tail());
    }

    /// Removes some tombstones. False: there is nothing to do now.
    ///
    /// # Errors
    /// Those of changing a leaf. What was not done is forgotten: the tombstones stay and do no harm.
    pub(crate) fn purge(&self, pool: &Pool) -> Result<bool> {
        let horizon = self.last_horizon();
        for step in 0..STEPS {
            let Some(hint) = self.purge.hints.pop() else {
                return self.purge_round(pool, horizon).map(|found| found || step > 0);
            };
            if hint.lsn >= horizon {
                // The queue is in the order of lsns but for what commits at once.
                if let Err(hint) = self.purge.hints.push(hint) {
                    self.purge.note_tree(hint.target, hint.lsn);
                }
                return self.purge_round(pool, horizon).map(|found| found || step > 0);
            }
            if hint.target.core.is_dropped() {
                continue;
            }
            Btree::new(pool, &hint.target.core).purge_leaf(&hint.key, horizon)?;
        }
        Ok(true)
    }

    /// Goes on with a round through a whole tree.
    fn purge_round(&self, pool: &Pool, horizon: u64) -> Result<bool> {
        let Some(mut round) = self.purge.rounds().pop() else { return Ok(false) };
        if round.lsn >= horizon {
            self.purge.rounds().push(round);
            return Ok(false);
        }
        for _ in 0..STEPS {
            if round.target.core.is_dropped() {
                return Ok(true);
            }
            let tree = Btree::new(pool, &round.target.core);
            match tree.purge_leaf(&round.from, horizon)? {
                Some(next) => round.from = next,
                None => return Ok(true),
            }
        }
        let mut rounds = self.purge.rounds();
        // Asked for anew meanwhile: that one begins at the start.
        if !rounds.iter().any(|other| other.target.core.id == round.target.core.id) {
            rounds.push(round);
        }
        Ok(true)
    }
}
