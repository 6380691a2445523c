//! Blocks for what is to be written: from the free ones, or from a longer file.
//!
//! ```text
//!   give_out: adjacent runs | one by one | grow, then one by one          all or none
//!   grow:     by a sixteenth of the file, at least 1 MiB | by what is short | a full disk
//! ```
//!
//! Growing lengthens the file and reserves nothing on the medium, so a write into it can still find the disk
//! full; the runs are given back then. A file that could not grow is as long as it was, and the next caller
//! asks again: after a full disk nothing has to be mended once there is room.
//!
//! Tested in `store::tests`, by `space` and `faults`.

use super::Store;
use super::blocks::Run;
use super::state::State;
use crate::error::Result;
use crate::id::BLOCK_BYTES;
use std::io;

/// Blocks by which the file grows at least: 1 MiB.
const GROW_BLOCKS_MIN: u64 = 256;
/// Blocks that a file may have: 40 bits name them.
const FILE_BLOCKS_MAX: u64 = 1 << 40;

/// By how many blocks a file of that many grows, and how many free ones it keeps at its end.
pub(super) fn grow_blocks(end: u64) -> u64 {
    GROW_BLOCKS_MIN.max(end / 16)
}

impl Store {
    /// Sees to it that the file has at least that many free blocks, not necessarily adjacent, by lengthening it
    /// if need be. They stay free until somebody takes them; a checkpoint that cuts the file leaves
    /// [`GROW_BLOCKS_MIN`] at its end. With enough of them, this is a look under the lock.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Denied`], [`Error::Poisoned`], and [`Error::Io`] if the file cannot be
    /// lengthened.
    pub(crate) fn ensure_room(&self, blocks: u64) -> Result<()> {
        self.writable("make room")?;
        if self.state().blocks.free_blocks() >= blocks {
            return Ok(());
        }
        let mut state = self.state_mut();
        match blocks.saturating_sub(state.blocks.free_blocks()) {
            0 => Ok(()),
            short => self.grow(&mut state, short),
        }
    }

    /// Gives out one run for each length, adjacent if there is room, and lengthens the file as needed. All or
    /// none.
    pub(super) fn give_out(&self, lens: &[u64]) -> Result<Vec<Run>> {
        let mut state = self.state_mut();
        if let Some(runs) = state.blocks.allocate_adjacent(lens) {
            return Ok(runs);
        }
        let mut runs = Vec::with_capacity(lens.len());
        for &len in lens {
            match self.give_out_one(&mut state, len) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    for run in runs {
                        state.blocks.release(run);
                    }
                    return Err(error);
                }
            }
        }
        Ok(runs)
    }

    fn give_out_one(&self, state: &mut State, len: u64) -> Result<Run> {
        if let Some(run) = state.blocks.allocate(len) {
            return Ok(run);
        }
        self.grow(state, state.blocks.blocks_short(len))?;
        Ok(state.blocks.allocate(len).expect("the file has grown by what was short"))
    }

    /// Lengthens the file by `short` blocks, and more if there is room for that.
    fn grow(&self, state: &mut State, short: u64) -> Result<()> {
        const OP: &str = "lengthen the file";
        let end = state.blocks.end();
        if end.saturating_add(short) > FILE_BLOCKS_MAX {
            return Err(self.disk_error(OP, io::ErrorKind::StorageFull.into()));
        }
        let generous = (end + short.max(grow_blocks(end))).min(FILE_BLOCKS_MAX);
        let mut grown = Err(io::ErrorKind::StorageFull.into());
        for to in [generous, end + short] {
            grown = self.disk.set_len(to * BLOCK_BYTES as u64).map(|()| to);
            if grown.is_ok() {
                break;
            }
        }
        state.blocks.grown(grown.map_err(|error| self.disk_error(OP, error))?);
        Ok(())
    }
}
