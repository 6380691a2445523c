//! A change outside of a transaction: the short path.
//!
//! ```text
//! stripe | come down, gate, leaf under X: room? | reserve lsn, copy record | keep old, change leaf | applied
//! ```
//!
//! Everything that can fail is asked with the leaf in hand and before the lsn is reserved, so nothing fails after.
//! If the log has no room just then, the leaf is let go first ([X3]).

use super::Ledger;
use crate::btree::{Btree, Journal, Stamp, Swap};
use crate::error::Result;
use crate::log::ops::Op;
use crate::log::{Applying, Durability, RecordKind};
use crate::pool::Pool;
use crate::txn::commit::OP_HEAD_BYTES_MAX;
use crate::txn::{Change, Target, Terms, Write};
use crate::versions::{Old, key_hash};
use std::cell::Cell;

thread_local! {
    /// The operation of a record under construction.
    static OPS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes of operations that a thread keeps memory for.
const OPS_KEPT_BYTES: usize = 64 << 10;

/// The journal of one change.
struct Single<'a> {
    ledger: &'a Ledger,
    target: &'a Target,
    hash: u64,
    ops: &'a [u8],
    applying: Option<Applying<'a>>,
    lsn: u64,
    end: u64,
    deletes: bool,
}

impl Journal for Single<'_> {
    const VERSIONED: bool = true;

    fn stamp(&mut self) -> Result<Stamp> {
        let Some(reserved) = self.ledger.log.try_reserve(self.ops.len() as u32)? else {
            return Ok(Stamp::Later);
        };
        self.lsn = reserved.lsn();
        self.end = reserved.end();
        self.applying = Some(reserved.copy(RecordKind::Commit, &[self.ops]));
        Ok(Stamp::At(self.lsn))
    }

    fn keep(&mut self, key: &[u8], since: u64, old: Old<'_>) {
        let tree = self.target.core.id;
        self.ledger.versions.push(tree, key, self.hash, since, old, self.lsn);
        if self.deletes {
            self.ledger.purge.note(self.target, key, self.lsn);
        }
    }

    fn applied(&mut self) {
        if let Some(applying) = self.applying.take() {
            applying.applied();
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.ledger.log.wait_room(self.ops.len() as u32)
    }
}

impl Ledger {
    /// Runs one change of `key`, to be logged as `op`, and waits as long as `durability` says.
    #[inline]
    fn change<R>(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        op: Op<'_>,
        durability: Durability,
        run: impl FnOnce(Btree<'_>, &mut Single<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut ops = OPS.take();
        ops.clear();
        op.encode_into(&mut ops);
        let hash = key_hash(target.core.id, key);
        let mut journal = Single {
            ledger: self,
            target,
            hash,
            ops: &ops,
            applying: None,
            lsn: 0,
            end: 0,
            deletes: matches!(op, Op::Delete { .. }),
        };
        let stripe = self.stripes.one(hash);
        let result = run(Btree::new(pool, &target.core), &mut journal);
        // Nobody reads optimistically by this latch.
        stripe.release_clean();
        let end = journal.end;
        drop(journal);
        if ops.capacity() <= OPS_KEPT_BYTES {
            OPS.set(ops);
        }
        let result = result?;
        if end > 0 {
            self.log.acknowledge(end, durability)?;
        }
        Ok(result)
    }

    /// A record that is too large to be reserved with a leaf in hand.
    fn is_large(&self, key: &[u8], value: &[u8]) -> bool {
        key.len() + value.len() + OP_HEAD_BYTES_MAX > self.log.ops_bytes_max() as usize
    }

    fn put_large(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<()> {
        let write = Write { target, key, change: Change::Put(value) };
        self.commit(pool, &[write], Terms { durability, since: None, reader: None, reads: None })
            .map(drop)
    }

    /// Puts a value.
    #[inline]
    pub(crate) fn put(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<()> {
        if self.is_large(key, value) {
            return self.put_large(pool, target, key, value, durability);
        }
        let op = Op::Put { tree: target.core.id, key, value };
        self.change(pool, target, key, op, durability, |tree, journal| {
            tree.put(key, value, journal)
        })
    }

    /// Puts a value if there is none.
    pub(crate) fn insert(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<bool> {
        if self.is_large(key, value) {
            return self
                .swap_large(pool, target, key, None, value, durability)
                .map(|swap| matches!(swap, Swap::Swapped));
        }
        let op = Op::Put { tree: target.core.id, key, value };
        self.change(pool, target, key, op, durability, |tree, journal| {
            tree.insert(key, value, journal)
        })
    }

    /// Removes a key. False: there was none.
    pub(crate) fn delete(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        durability: Durability,
    ) -> Result<bool> {
        let op = Op::Delete { tree: target.core.id, key };
        self.change(pool, target, key, op, durability, |tree, journal| tree.delete(key, journal))
    }

    /// Puts `new` in place of `expected`.
    pub(crate) fn compare_and_swap(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        durability: Durability,
    ) -> Result<Swap> {
        let tree = target.core.id;
        let op = match new {
            Some(value) if self.is_large(key, value) => {
                return self.swap_large(pool, target, key, expected, value, durability);
            }
            Some(value) => Op::Put { tree, key, value },
            None => Op::Delete { tree, key },
        };
        self.change(pool, target, key, op, durability, |tree, journal| {
            tree.compare_and_swap(key, expected, new, journal)
        })
    }

    /// Looks at a state, and commits only if the key did not change since.
    fn swap_large(
        &self,
        pool: &Pool,
        target: &Target,
        key: &[u8],
        expected: Option<&[u8]>,
        new: &[u8],
        durability: Durability,
    ) -> Result<Swap> {
        loop {
            let pin = self.pin();
            let tree = Btree::new(pool, &target.core);
            let current = tree.get_at(key, self.view(pin.lsn()), <[u8]>::to_vec)?;
            if current.as_deref() != expected {
                return Ok(Swap::Mismatch(current));
            }
            let write = Write { target, key, change: Change::Put(new) };
            let terms =
                Terms { durability, since: Some(pin.lsn()), reader: Some(pin.slot()), reads: None };
            match self.commit(pool, &[write], terms) {
                Err(crate::error::Error::Conflict { .. }) => {}
                committed => return committed.map(|_| Swap::Swapped),
            }
        }
    }
}
