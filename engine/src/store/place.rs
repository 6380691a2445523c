//! [`Placement`]: where a page lies and what its bytes must hash to. The only pointer format of `data`.
//!
//! ```text
//!  byte 0                          8                         16
//!       [ block : 40 | blocks : 24 ][ checksum : 64          ]     little-endian
//!         bits 0-39    bits 40-63     xxh3-64 of all bytes of the blocks
//! ```
//!
//! The checksum is seeded, so that an image found in the wrong place is as wrong as a damaged one:
//!
//! | what | seed |
//! |---|---|
//! | page (tree page or large value) | its page id, below 2^40 |
//! | map page | [`seed_map_page`]: 2^63 + its index |
//! | manifest | [`seed_manifest`]: 2^62 + the sequence number of its checkpoint |
//!
//! - [E1] An entry of 16 zero bytes, and only that one, is *unmapped*. `blocks == 0` with anything else
//!   beside it is damage.
//! - [E2] A mapped entry lies in `RESERVED_BLOCKS .. file blocks`; checked before it is used.

use crate::id::{BLOCK_BYTES, BlockId, PageId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Blocks at the start of `data` that hold the superblock slots and are never given out.
pub(super) const RESERVED_BLOCKS: u64 = 32;

/// Bytes of one entry on disk.
pub(super) const PLACEMENT_BYTES: usize = 16;

/// Greatest number of blocks of one run; 24 bits.
pub(super) const RUN_BLOCKS_MAX: u32 = (1 << 24) - 1;

const BLOCK_BITS: u32 = 40;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;

/// A run of blocks that holds one page, and the checksum of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Placement {
    /// First block.
    pub(crate) block: BlockId,
    /// Number of blocks; 0 means that there is no such page.
    pub(crate) blocks: u32,
    /// xxh3-64 of all bytes of the blocks, by the seed of the module head.
    pub(crate) checksum: u64,
}

impl Placement {
    /// No place at all.
    pub(crate) const NONE: Placement = Placement { block: BlockId(0), blocks: 0, checksum: 0 };

    /// Whether there is a page.
    pub(crate) fn is_mapped(&self) -> bool {
        self.blocks != 0
    }

    /// The block after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.block.0 + u64::from(self.blocks)
    }

    /// Bytes of the run.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks as usize * BLOCK_BYTES
    }

    /// The two words that stand for it, on disk and in the map.
    pub(super) fn pack(&self) -> [u64; 2] {
        debug_assert!(self.block.0 <= BLOCK_MASK && self.blocks <= RUN_BLOCKS_MAX);
        let word = (self.block.0 & BLOCK_MASK) | (u64::from(self.blocks) << BLOCK_BITS);
        [word, self.checksum]
    }

    /// The opposite of [`Placement::pack`]; checks nothing.
    pub(super) fn unpack([word, checksum]: [u64; 2]) -> Placement {
        Placement {
            block: BlockId(word & BLOCK_MASK),
            blocks: (word >> BLOCK_BITS) as u32,
            checksum,
        }
    }

    /// The 16 bytes on disk.
    pub(super) fn encode(&self, out: &mut [u8]) {
        let [word, checksum] = self.pack();
        out[..8].copy_from_slice(&word.to_le_bytes());
        out[8..16].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads 16 bytes; says what is wrong with them, given the length of the file in blocks ([E1], [E2]).
    pub(super) fn decode(bytes: &[u8], file_blocks: u64) -> Result<Placement, &'static str> {
        let placement = Placement::unpack([get_u64(bytes, 0), get_u64(bytes, 8)]);
        if placement == Placement::NONE {
            return Ok(placement);
        }
        if !placement.is_mapped() {
            return Err("run of no blocks");
        }
        if placement.block.0 < RESERVED_BLOCKS {
            return Err("run among the reserved blocks");
        }
        if placement.end() > file_blocks {
            return Err("run past the end of the file");
        }
        Ok(placement)
    }
}

/// The checksum of a page, over all bytes of its blocks.
pub(super) fn page_checksum(page: PageId, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, page.0)
}

/// The seed of the map page of that index.
pub(super) fn seed_map_page(index: usize) -> u64 {
    (1 << 63) + index as u64
}

/// The seed of the manifest of that checkpoint.
pub(super) fn seed_manifest(sequence: u64) -> u64 {
    (1 << 62) ^ sequence
}

/// Little-endian u64 at `at`; 0 beyond the end, which no caller reaches.
pub(super) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(from) = bytes.get(at..at + 8) {
        word.copy_from_slice(from);
    }
    u64::from_le_bytes(word)
}

/// Little-endian u32 at `at`; 0 beyond the end, which no caller reaches.
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    if let Some(from) = bytes.get(at..at + 4) {
        word.copy_from_slice(from);
    }
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(placement: Placement, file_blocks: u64) -> Result<Placement, &'static str> {
        let mut bytes = [0; 16];
        placement.encode(&mut bytes);
        Placement::decode(&bytes, file_blocks)
    }

    #[test]
    fn entries_keep_forty_and_twenty_four_bits() {
        let placement = Placement {
            block: BlockId(BLOCK_MASK - u64::from(RUN_BLOCKS_MAX)),
            blocks: RUN_BLOCKS_MAX,
            checksum: u64::MAX,
        };
        assert_eq!(round_trip(placement, u64::MAX), Ok(placement));
        assert_eq!(round_trip(Placement::NONE, 0), Ok(Placement::NONE));
    }

    #[test]
    fn entries_outside_the_file_are_refused() {
        let run = |block, blocks| Placement { block: BlockId(block), blocks, checksum: 1 };
        assert!(round_trip(run(32, 8), 40).is_ok());
        assert!(round_trip(run(32, 9), 40).is_err());
        assert!(round_trip(run(31, 1), 40).is_err());
        assert!(round_trip(run(33, 0), 40).is_err());
        assert!(round_trip(run(0, 0), 40).is_err());
    }
}
