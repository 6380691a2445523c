//! Loading sorted records: at once into an empty tree, else one by one.
//!
//! A tree that is filled at once is not in the log: its record says only that it was filled. So what is durable
//! does not pass that record before a checkpoint has the tree. One checkpoint is made before, so that the second
//! finds little to write and a full disk is met in time. If the second fails the database is poisoned: what came
//! after the record rests on what a crash would take back.

use super::commit::lock;
use super::{Ledger, Target};
use crate::btree::{Btree, Journal, Stamp};
use crate::error::{Result, Usage};
use crate::log::ops::Op;
use crate::log::{Applying, Durability, RecordKind};
use crate::pool::Pool;
use crate::versions::Old;

/// Room for the manifest and what else a checkpoint writes beside pages, in blocks.
const ROOM_BLOCKS: u64 = 64;
/// Pages that a block of the page map names, at least.
const PAGES_A_BLOCK: u64 = 128;

/// The journal of filling a tree.
struct Filling<'a> {
    ledger: &'a Ledger,
    ops: Vec<u8>,
    applying: Option<Applying<'a>>,
    lsn: u64,
}

impl Journal for Filling<'_> {
    const VERSIONED: bool = true;

    fn stamp(&mut self) -> Result<Stamp> {
        let Some(reserved) = self.ledger.log.try_reserve(self.ops.len() as u32)? else {
            return Ok(Stamp::Later);
        };
        let lsn = reserved.lsn();
        self.lsn = lsn;
        // Before it is copied, so that nobody makes it durable in between.
        self.ledger.log.hold_durable(lsn);
        self.applying = Some(reserved.copy(RecordKind::Commit, &[&self.ops]));
        Ok(Stamp::At(lsn))
    }

    fn keep(&mut self, _key: &[u8], _since: u64, _old: Old<'_>) {}

    fn applied(&mut self) {
        if let Some(applying) = self.applying.take() {
            applying.applied();
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.ledger.log.wait_room(self.ops.len() as u32)
    }
}

/// Blocks that a checkpoint writes beside pages, if that many pages are new.
pub(super) fn checkpoint_blocks(pages: usize) -> u64 {
    ROOM_BLOCKS + pages as u64 / PAGES_A_BLOCK
}

/// Before a tree of so many pages is filled: writes them, so that the checkpoint that has to follow needs next to no
/// room, and makes sure of that. A full disk is met here, when nothing has happened yet.
pub(super) fn make_ready(
    pool: &Pool,
    pages: usize,
    checkpoint: impl Fn() -> Result<()>,
) -> Result<()> {
    checkpoint()?;
    pool.store().ensure_room(checkpoint_blocks(pages), 1)
}

impl Ledger {
    /// Loads strictly ascending records; gives their number. `checkpoint` makes a checkpoint.
    pub(crate) fn load_sorted<K, V>(
        &self,
        pool: &Pool,
        target: &Target,
        mut records: impl Iterator<Item = (K, V)>,
        checkpoint: impl Fn() -> Result<()>,
    ) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let tree = Btree::new(pool, &target.core);
        if tree.is_empty()? {
            // Not before all records are there: where they come from may load or commit too.
            let mut filling = None;
            let mut ops = Vec::new();
            Op::Fill { tree: target.core.id }.encode_into(&mut ops);
            let mut journal = Filling { ledger: self, ops, applying: None, lsn: 0 };
            let ready = |pages| {
                filling = Some(lock(&self.filling));
                make_ready(pool, pages, &checkpoint)?;
                // Who has looked for conflicts in the empty tree commits before, or looks again.
                Ok(self.stripes.every())
            };
            if let Some(loaded) = tree.bulk_load(&mut records, ready, &mut journal)? {
                if let Err(error) = checkpoint() {
                    return Err(pool.store().poison(self.log.poison(error)));
                }
                self.log.let_durable_go(journal.lsn);
                return Ok(loaded);
            }
        }
        self.load_one_by_one(pool, target, records)
    }

    fn load_one_by_one<K, V>(
        &self,
        pool: &Pool,
        target: &Target,
        records: impl Iterator<Item = (K, V)>,
    ) -> Result<u64>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut count = 0;
        let mut last: Option<Vec<u8>> = None;
        for (key, value) in records {
            let key = key.as_ref();
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(Usage::Unsorted { position: count }.into());
            }
            self.put(pool, target, key, value.as_ref(), Durability::None)?;
            last = Some(key.to_vec());
            count += 1;
        }
        self.log.sync()?;
        Ok(count)
    }
}
