//! The manifest: everything of a checkpoint that grows, in one run of blocks that the superblock names.
//!
//! ```text
//!  byte  0      8      16         20     24        32                  64
//!        [magic ][epoch][next tree][trees][map pages][ zeros, for a log ]
//!        [ tree:32 | 0:32 | length:64 ] x trees
//!        [ placement:128 ] x map pages            directory of the page map, by map page index
//!        [ zeros up to a whole block ]
//! ```
//!
//! Little-endian. The checksum over all of its blocks lies in the superblock. It is written anew by every
//! checkpoint: 16 bytes for each map page, and a map page stands for 1024 pages.
//!
//! - [M1] `64 + 16 * trees + 16 * map pages` equals the byte count in the superblock, so the counts cannot
//!   ask for more memory than the file has given.
//! - [M2] Trees ascend strictly and are below `next tree`.
//!
//! Tested below.

use super::place::{PLACEMENT_BYTES, Placement, get_u32, get_u64};
use crate::id::{BLOCK_BYTES, Epoch, TreeId};
use crate::io::AlignedBuf;

const MAGIC: u64 = u64::from_le_bytes(*b"LKVmanif");
const HEAD_BYTES: usize = 64;
const TREE_BYTES: usize = 16;

/// What a manifest says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Manifest {
    /// The epoch that the checkpoint closed.
    pub(super) epoch: Epoch,
    /// The id that the next new tree gets.
    pub(super) next_tree: TreeId,
    /// Entries of each tree, ascending by tree.
    pub(super) lengths: Vec<(TreeId, u64)>,
    /// Where each map page lies; `Placement::NONE` for one without entries.
    pub(super) directory: Vec<Placement>,
}

/// What is wrong with the bytes of a manifest, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ManifestFault {
    /// Byte offset in the manifest.
    pub(super) at: usize,
    /// What is wrong there.
    pub(super) what: &'static str,
}

impl Manifest {
    /// Bytes without padding.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.lengths.len() * TREE_BYTES + self.directory.len() * PLACEMENT_BYTES
    }

    /// The bytes, padded to whole blocks.
    pub(super) fn encode(&self) -> AlignedBuf {
        let mut buf = AlignedBuf::new(self.bytes().next_multiple_of(BLOCK_BYTES));
        buf[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        buf[8..16].copy_from_slice(&self.epoch.0.to_le_bytes());
        buf[16..20].copy_from_slice(&self.next_tree.0.to_le_bytes());
        buf[20..24].copy_from_slice(&(self.lengths.len() as u32).to_le_bytes());
        buf[24..32].copy_from_slice(&(self.directory.len() as u64).to_le_bytes());
        let mut at = HEAD_BYTES;
        for (tree, length) in &self.lengths {
            buf[at..at + 4].copy_from_slice(&tree.0.to_le_bytes());
            buf[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
            at += TREE_BYTES;
        }
        for placement in &self.directory {
            placement.encode(&mut buf[at..at + PLACEMENT_BYTES]);
            at += PLACEMENT_BYTES;
        }
        buf
    }

    /// Reads a manifest of `bytes.len()` bytes, checked by its checksum already.
    pub(super) fn decode(bytes: &[u8], file_blocks: u64) -> Result<Manifest, ManifestFault> {
        let fault = |at, what| ManifestFault { at, what };
        if bytes.len() < HEAD_BYTES {
            return Err(fault(0, "manifest shorter than its head"));
        }
        if get_u64(bytes, 0) != MAGIC {
            return Err(fault(0, "magic of the manifest"));
        }
        let trees = get_u32(bytes, 20) as usize;
        let map_pages = get_u64(bytes, 24);
        let body = (bytes.len() - HEAD_BYTES) as u64;
        let needed = map_pages
            .checked_mul(PLACEMENT_BYTES as u64)
            .and_then(|directory| directory.checked_add(trees as u64 * TREE_BYTES as u64));
        if needed != Some(body) {
            return Err(fault(20, "counts of the manifest")); // [M1]
        }
        let mut manifest = Manifest {
            epoch: Epoch(get_u64(bytes, 8)),
            next_tree: TreeId(get_u32(bytes, 16)),
            ..Manifest::default()
        };
        let (trees, directory) = bytes[HEAD_BYTES..].split_at(trees * TREE_BYTES);
        for (index, entry) in trees.chunks_exact(TREE_BYTES).enumerate() {
            let tree = TreeId(get_u32(entry, 0));
            let ascends = manifest.lengths.last().is_none_or(|last| last.0 < tree);
            if !ascends || tree >= manifest.next_tree {
                return Err(fault(HEAD_BYTES + index * TREE_BYTES, "order of the trees")); // [M2]
            }
            manifest.lengths.push((tree, get_u64(entry, 8)));
        }
        for (index, entry) in directory.chunks_exact(PLACEMENT_BYTES).enumerate() {
            let at = HEAD_BYTES + trees.len() + index * PLACEMENT_BYTES;
            let placement =
                Placement::decode(entry, file_blocks).map_err(|what| fault(at, what))?;
            manifest.directory.push(placement);
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BlockId;

    fn sample() -> Manifest {
        Manifest {
            epoch: Epoch(3),
            next_tree: TreeId(9),
            lengths: vec![(TreeId(0), 2), (TreeId(8), u64::MAX)],
            directory: (0..300)
                .map(|index| Placement {
                    block: BlockId(32 + index * 4),
                    blocks: 4,
                    checksum: index + 1,
                })
                .chain([Placement::NONE])
                .collect(),
        }
    }

    #[test]
    fn manifest_reads_back_what_was_written() {
        for manifest in [Manifest::default(), sample()] {
            let buf = manifest.encode();
            assert_eq!(buf.len() % BLOCK_BYTES, 0);
            assert_eq!(Manifest::decode(&buf[..manifest.bytes()], 5000), Ok(manifest));
        }
    }

    #[test]
    fn counts_that_do_not_fit_the_bytes_are_refused() {
        let manifest = sample();
        let mut buf = manifest.encode();
        buf[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Manifest::decode(&buf[..manifest.bytes()], 5000).is_err());
        let buf = manifest.encode();
        for cut in [0, 8, 63, 64, 80, manifest.bytes() - 1] {
            assert!(Manifest::decode(&buf[..cut], 5000).is_err(), "cut at {cut}");
        }
        assert!(Manifest::decode(&buf[..manifest.bytes()], 100).is_err(), "places past the end");
    }

    #[test]
    fn trees_out_of_order_are_refused() {
        let mut manifest = sample();
        manifest.lengths.reverse();
        assert!(Manifest::decode(&manifest.encode()[..manifest.bytes()], 5000).is_err());
        let mut manifest = sample();
        manifest.next_tree = TreeId(8);
        assert!(Manifest::decode(&manifest.encode()[..manifest.bytes()], 5000).is_err());
    }
}
