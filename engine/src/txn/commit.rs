//! Several changes at once.
//!
//! ```text
//! stage large values -> stripes -> room in the leaves, conflicts? -> gate -> parts -> lsn
//!   -> serializable: everything below the lsn applied; reads unchanged? -> copy -> apply -> leave -> durable
//! ```
//!
//! Until the record is copied everything can fail, and then nothing has happened: staged values are given back,
//! the reservation becomes a Void. After it nothing may ([X4]).

use super::{Change, Ledger, Reads, Target, Write};
use crate::btree::{Applying, Btree, Journal, Prepared, Stamp};
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::log::ops::Op;
use crate::pool::Pool;
use crate::txn::record::Recorder;
use crate::versions::{Old, key_hash};
use latchkv_latch::SnapshotSlot;

/// Under which conditions a commit is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// How long it waits.
    pub(crate) durability: Durability,
    /// The snapshot since which nobody may have changed what it writes. `None`: whatever was there.
    pub(crate) since: Option<u64>,
    /// Who reads at `since`, if that may be ended from outside: then it is not known what was changed since.
    pub(crate) reader: Option<SnapshotSlot>,
    /// What it read, if that has to hold until its own lsn.
    pub(crate) reads: Option<&'a Reads>,
}

/// What an operation takes in the log beside key and value, at most.
pub(super) const OP_HEAD_BYTES_MAX: usize = 32;

/// Pools of fewer frames take one commit of several changes at a time: each may need the pages of two levels
/// while it is inside the gate, where it cannot give way.
const NARROW_FRAMES: usize = 256;

/// The journal of a change of a commit whose record is in the log.
pub(super) struct Applied<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) write: Write<'a>,
    pub(super) hash: u64,
    pub(super) lsn: u64,
}

impl Journal for Applied<'_> {
    const VERSIONED: bool = true;

    fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp::At(self.lsn))
    }

    fn keep(&mut self, key: &[u8], since: u64, old: Old<'_>) {
        let target = self.write.target;
        self.ledger.versions.push(target.core.id, key, self.hash, since, old, self.lsn);
        if matches!(self.write.change, Change::Delete) {
            self.ledger.purge.note(target, key, self.lsn);
        }
    }
}

/// The changes that writes make, one each; a guard makes none, and its is left alone. Values on disk that no leaf
/// names yet are given back unless they were handed over.
struct Changes<'p, 'w> {
    pool: &'p Pool,
    list: Vec<Applying<'w>>,
}

impl Drop for Changes<'_, '_> {
    fn drop(&mut self) {
        if self.pool.store().health().is_err() {
            // Leaves may name some of them, and nothing durable will.
            return;
        }
        let values = self.list.iter().filter_map(|change| change.value);
        for page in values.filter_map(|staged| staged.unnamed) {
            self.pool.free_unloaded(page);
        }
    }
}

impl Ledger {
    /// Commits `writes`, ascending by tree and key and each key once; gives the commit's lsn, or 0 if nothing
    /// was to be written.
    ///
    /// # Errors
    /// [`Error::Conflict`]; `Full` and others before anything was changed;
    /// `Poisoned` if it is not known what a crash would leave.
    pub(crate) fn commit(
        &self,
        pool: &Pool,
        writes: &[Write<'_>],
        terms: Terms<'_>,
    ) -> Result<u64> {
        let mut changes = Changes { pool, list: Vec::with_capacity(writes.len()) };
        for write in writes {
            let value = match write.change {
                Change::Put(value) => {
                    Some(Btree::new(pool, &write.target.core).stage(write.key, value)?)
                }
                Change::Delete | Change::Guard => None,
            };
            changes.list.push(Applying { key: write.key, value, place: None });
        }
        let hashes: Vec<u64> =
            writes.iter().map(|write| key_hash(write.target.core.id, write.key)).collect();
        hashes.iter().for_each(|hash| self.versions.prefetch(*hash));
        let stripes = self.stripes.all(hashes.iter().copied());
        self.prepare(pool, writes, &mut changes.list, terms.since)?;
        let made = self.make(pool, writes, &hashes, &mut changes.list, terms);
        stripes.into_iter().for_each(|stripe| {
            stripe.release_clean();
        });
        let Some((lsn, end)) = made? else { return Ok(0) };
        self.log.acknowledge(end, terms.durability)?;
        Ok(lsn)
    }

    /// Brings the leaves in, makes room in them, and looks for conflicts. The stripes are held.
    fn prepare(
        &self,
        pool: &Pool,
        writes: &[Write<'_>],
        changes: &mut [Applying<'_>],
        since: Option<u64>,
    ) -> Result<()> {
        let bytes = changes.iter().map(|change| change.key.len() + change.payload_bytes()).sum();
        pool.ready_for(writes.len(), bytes)?;
        let mut changes = changes.iter_mut();
        for of_tree in writes.chunk_by(|a, b| a.target.core.id == b.target.core.id) {
            let tree = Btree::new(pool, &of_tree[0].target.core);
            let mut ahead = tree.ahead();
            let mut near = None;
            for (at, (write, change)) in of_tree.iter().zip(&mut changes).enumerate() {
                ahead.come_to(at, of_tree, |write| write.key);
                let prepared = tree.prepare(write.key, change.payload_bytes(), near);
                let Prepared { lsn, place } =
                    prepared.map_err(|error| explain(error, write.target))?;
                if let (Some(since), Some(lsn)) = (since, lsn)
                    && lsn >= since
                {
                    return Err(write.target.conflict(Some(write.key)));
                }
                near = Some(place);
                change.place = near;
            }
        }
        Ok(())
    }

    /// What is done inside the gate; gives where the record begins and ends. `None`: there was nothing to write.
    fn make(
        &self,
        pool: &Pool,
        writes: &[Write<'_>],
        hashes: &[u64],
        list: &mut [Applying<'_>],
        terms: Terms<'_>,
    ) -> Result<Option<(u64, u64)>> {
        let changes = || writes.iter().filter(|write| !matches!(write.change, Change::Guard));
        let bytes: usize = changes().map(|write| op_of(write).encoded_len()).sum();
        let _large = (bytes > self.log.ops_bytes_max() as usize / 2).then(|| lock(&self.large));
        let _narrow = (pool.frame_count() < NARROW_FRAMES).then(|| lock(&self.narrow));
        let _inside = pool.gate().enter();
        for write in writes {
            if write.target.core.is_dropped() {
                return Err(write.target.dropped());
            }
            let tree = Btree::new(pool, &write.target.core);
            if terms.since.is_some_and(|since| tree.changed_as_a_whole(since)) {
                return Err(write.target.conflict(None));
            }
        }
        if changes().next().is_none() && terms.reads.is_none() {
            return Ok(None);
        }
        let mut recorder = Recorder::new(&self.log);
        for write in changes() {
            recorder.push(op_of(write))?;
        }
        let ready = recorder.reserve()?;
        let (lsn, end) = (ready.reserved.lsn(), ready.reserved.end());
        if let (Some(reads), Some(since)) = (terms.reads, terms.since) {
            // Everything before is applied or void: what they wrote is seen here, and they never wait for this.
            self.log.wait_visible(lsn);
            reads.validate(pool, &self.versions, since, lsn)?;
        }
        self.check_reader(terms, writes.first().map(|write| write.target))?;
        let applying = ready.copy();
        if let Err(error) = self.apply(pool, writes, hashes, list, lsn) {
            // [X4]. First, so that this is the cause that is kept.
            let poisoned = self.log.poison(error);
            // What is applied of it never becomes visible to a snapshot.
            drop(applying);
            return Err(pool.store().poison(poisoned));
        }
        applying.applied();
        Ok(Some((lsn, end)))
    }

    /// To be asked when all conflicts were looked for, and before the commit is made: tombstones that would have
    /// told of one may be gone if the reader was ended meanwhile ([H2](super::snapshot)).
    pub(super) fn check_reader(&self, terms: Terms<'_>, target: Option<&Target>) -> Result<()> {
        match (terms.reader, target) {
            (Some(slot), Some(target)) if self.is_ended(slot) => Err(target.conflict(None)),
            _ => Ok(()),
        }
    }

    fn apply(
        &self,
        pool: &Pool,
        writes: &[Write<'_>],
        hashes: &[u64],
        changes: &mut [Applying<'_>],
        lsn: u64,
    ) -> Result<()> {
        let mut at = 0;
        while let Some(first) = writes.get(at) {
            // A guard changes nothing.
            let changing = |write: &&Write<'_>| {
                write.target.core.id == first.target.core.id
                    && !matches!(write.change, Change::Guard)
            };
            let part = at..at + writes[at..].iter().take_while(changing).count();
            let tree = Btree::of_commit(pool, &first.target.core);
            let mut done = at;
            while done < part.end {
                done += tree.apply(&changes[done..part.end], &mut |offset| {
                    let index = done + offset;
                    Applied { ledger: self, write: writes[index], hash: hashes[index], lsn }
                })?;
            }
            // Leaves name their values now.
            changes[part.clone()].iter_mut().for_each(|change| change.value = None);
            at = part.end.max(at + 1);
        }
        Ok(())
    }
}

/// What looks like damage in a tree that was dropped meanwhile is none.
pub(super) fn explain(error: Error, target: &Target) -> Error {
    match error {
        Error::Corrupt(_) if target.core.is_dropped() => target.dropped(),
        error => error,
    }
}

fn op_of<'a>(write: &Write<'a>) -> Op<'a> {
    let (tree, key) = (write.target.core.id, write.key);
    match write.change {
        Change::Put(value) => Op::Put { tree, key, value },
        Change::Delete | Change::Guard => Op::Delete { tree, key },
    }
}

/// These locks guard no data: who panicked left nothing behind.
pub(super) fn lock(mutex: &std::sync::Mutex<()>) -> std::sync::MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
