//! Compares what is used with what is free: the store's part of a check of the whole database.
//!
//! What it finds: runs named twice, runs outside of the file, runs both named and free, blocks that nothing
//! names and that are not free either (leaked until the next open). What it does not read: pages; see
//! [`Store::verify_page`]. And whether the superblocks on disk are whole: one that is damaged while the other
//! holds the newest checkpoint is worth knowing, but nothing is lost with it.

use super::Store;
use super::blocks::{Blocks, Run};
use super::open::run_fault;
use super::place::RESERVED_BLOCKS;
use super::superblock::{SLOT_BLOCKS, SlotState, compare};
use crate::error::{Corruption, Error};
use crate::id::BLOCK_BYTES;
use crate::io::AlignedBuf;

/// What is wrong with the superblocks on disk.
#[derive(Debug, Default)]
pub(crate) struct SuperblockAudit {
    /// The newest checkpoint is in neither slot.
    pub(crate) problems: Vec<Error>,
    /// A slot holds no superblock, while the other holds the newest checkpoint.
    pub(crate) warnings: Vec<Error>,
}

impl Store {
    /// Says what is wrong with the map, the blocks and the free space, as they are in memory; empty if all is
    /// well. To be called while no checkpoint is in progress, whose images the current map need not name;
    /// evictors may be at work.
    pub(crate) fn audit(&self) -> Vec<Error> {
        let (mut runs, end) = {
            let state = self.state();
            let mut runs = state.used_runs();
            runs.extend(state.blocks.unused_runs());
            runs.extend(state.blocks.runs_on_the_way());
            (runs, state.blocks.end())
        };
        let mut found = Vec::new();
        if let Err(fault) = Blocks::complement(runs.clone(), end) {
            found.push(run_fault(&self.path, fault));
        }
        runs.sort_unstable();
        let mut at = RESERVED_BLOCKS;
        let last = Run { start: end, len: 0 };
        for run in runs.into_iter().chain([last]) {
            if run.start > at {
                found.push(Error::from(Corruption {
                    file: self.path.clone(),
                    offset: Some(crate::id::BlockId(at).offset()),
                    page: None,
                    tree: None,
                    what: "blocks neither used nor free",
                    expected: "0".into(),
                    got: (run.start - at).to_string(),
                }));
            }
            at = at.max(run.end());
        }
        found
    }

    /// Reads both superblock slots. To be called while no checkpoint is in progress.
    pub(crate) fn audit_superblocks(&self) -> SuperblockAudit {
        let newest = self.durable().superblock;
        let mut whole = false;
        let mut faults = Vec::new();
        let mut slot = AlignedBuf::new(BLOCK_BYTES);
        for block in SLOT_BLOCKS {
            let state = match self.disk.read(block.offset(), &mut slot) {
                Ok(()) => compare(&slot, &newest),
                Err(error) => {
                    faults.push(self.disk_error("read a superblock", error));
                    continue;
                }
            };
            whole |= state == SlotState::Newest;
            if state == SlotState::Damaged {
                faults.push(self.superblock_fault(block, newest.sequence, "no superblock"));
            }
        }
        if whole {
            return SuperblockAudit { problems: Vec::new(), warnings: faults };
        }
        faults.push(self.superblock_fault(SLOT_BLOCKS[0], newest.sequence, "it in neither copy"));
        SuperblockAudit { problems: faults, warnings: Vec::new() }
    }

    fn superblock_fault(&self, block: crate::id::BlockId, sequence: u64, got: &str) -> Error {
        Error::from(Corruption {
            file: self.path.clone(),
            offset: Some(block.offset()),
            page: None,
            tree: None,
            what: "copy of the superblock",
            expected: format!("checkpoint {sequence}"),
            got: got.to_owned(),
        })
    }
}
