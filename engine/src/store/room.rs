//! Blocks for what is to be written: from the free ones, or from a longer file.
//!
//! ```text
//!   give_out: adjacent runs | one by one | grow, then one by one          all or none
//!   grow:     by a sixteenth of the file, 1 to 16 MiB | by what is short | a full disk
//! ```
//!
//! Growing gets room on the medium for all of it ([`Disk::allocate`](crate::io::Disk::allocate)), so that a full disk
//! is met here, where it can be refused, and not by a write of what cannot be given up any more. Where the file system
//! cannot do that, or writes elsewhere than it was told, a write may still find the disk full; the runs are given back
//! then. A file that could not grow is as long as it was, and the next caller asks again: after a full disk nothing
//! has to be mended once there is room.
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
/// Blocks by which it grows at most, unless more are short, as they take room: 16 MiB.
const GROW_BLOCKS_MAX: u64 = 4096;
/// Blocks that a file may have: 40 bits name them.
const FILE_BLOCKS_MAX: u64 = 1 << 40;

/// How many free blocks a file of that many keeps at its end.
pub(super) fn kept_blocks(end: u64) -> u64 {
    GROW_BLOCKS_MIN.max(end / 16)
}

impl Store {
    /// Sees to it that the file has room for `runs` runs of up to `run_blocks` blocks each, by lengthening it if need
    /// be. The blocks stay free until somebody takes them; a checkpoint that cuts the file leaves
    /// [`GROW_BLOCKS_MIN`] at its end. With enough of them, this is a look under the lock.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Denied`], [`Error::Poisoned`], and [`Error::Io`] if the file cannot be
    /// lengthened.
    pub(crate) fn ensure_room(&self, runs: u64, run_blocks: u64) -> Result<()> {
        self.writable("make room")?;
        if self.state().blocks.runs_short(runs, run_blocks) == 0 {
            return Ok(());
        }
        let mut state = self.state_mut();
        match state.blocks.runs_short(runs, run_blocks) {
            0 => Ok(()),
            short => self.grow(&mut state, short.saturating_mul(run_blocks)),
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
        let step = kept_blocks(end).min(GROW_BLOCKS_MAX);
        let generous = (end + short.max(step)).min(FILE_BLOCKS_MAX);
        let mut grown = Err(io::ErrorKind::StorageFull.into());
        for to in [generous, end + short] {
            let offset = |blocks: u64| blocks * BLOCK_BYTES as u64;
            grown = self.disk.allocate(offset(end), offset(to - end)).map(|()| to);
            if grown.is_ok() {
                break;
            }
            // A part of it may be there: others may want the room. A file that stays long does no harm.
            let _ = self.disk.set_len(offset(end));
        }
        state.blocks.grown(grown.map_err(|error| self.disk_error(OP, error))?);
        Ok(())
    }
}
