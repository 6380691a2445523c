//! Compares what is used with what is free: the store's part of a check of the whole database.
//!
//! What it finds: runs named twice, runs outside of the file, runs both named and free, blocks that nothing
//! names and that are not free either (leaked until the next open). What it does not read: pages; see
//! [`Store::verify_page`].

use super::Store;
use super::blocks::{Blocks, Run};
use super::open::run_fault;
use super::place::RESERVED_BLOCKS;
use crate::error::{Corruption, Error};

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
}
