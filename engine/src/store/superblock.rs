//! The superblock: the one thing of `data` that is written in place, twice over.
//!
//! ```text
//!  byte   0      8        12    13     16      32        40     48        56      64      68   72
//!         [magic ][version][shift][0   ][uuid  ][sequence][epoch][ckpt lsn][m.block][m.blks][0  ][m.bytes ...
//!  byte  80          88           96         104                                  4088        4096
//!         [m.checksum][file blocks][log bytes][ zeros                            ][ xxh3-64   ]
//! ```
//!
//! All numbers are little-endian. `m.` is the manifest. `file blocks` is the end of the highest block that
//! the checkpoint reaches, so a file shorter than that has lost something. `ckpt lsn` is where the log is to be
//! read from: the checkpoint holds exactly the commits below it. It is below 2^48. `log bytes` is how long the file
//! of the log was at least, durable, when the checkpoint was made; 0 = not said. It is not cut shorter before a later
//! checkpoint is durable, so a shorter file has lost something.
//!
//! | version | what it says |
//! |---|---|
//! | 1 | there is no log: `ckpt lsn` is 0, and read as 0 |
//! | 2 | what is above |
//!
//! Slot 0 is block 0, slot 1 is block 16; 64 KiB apart, so that no sector or stripe unit of usual size holds
//! both.
//!
//! # Validity
//!
//! A slot is *valid* when (1) the magic is there, (2) the checksum over bytes 0..4088 is right, (3) the
//! version is one that is understood, (4) the page shift is 12 to 16, (5) sequence, epoch and lsn are below
//! their limits. The valid slot with the greatest sequence is the database.
//!
//! | slots | answer |
//! |---|---|
//! | at least one valid | the one of greatest sequence |
//! | a right checksum, but a greater version | [`OpenError::NewerVersion`] |
//! | no magic in either | [`OpenError::NotADatabase`] |
//! | magic, and no slot valid | [`Error::Corrupt`] |
//!
//! The place of magic, version and checksum is the same in every version of the format.
//!
//! # What an open database finds in a slot
//!
//! Making a database writes both slots and syncs them, so neither is ever empty.
//!
//! | slot | how it comes about |
//! |---|---|
//! | the newest checkpoint | the usual: a checkpoint writes both slots |
//! | another of this database | a crash or a full disk before the second slot was written; a poisoned checkpoint |
//! | none | damage, or a crash that tore the second slot; the next checkpoint writes this slot first |
//!
//! Tested below, and by flipping and zeroing every sector of a database in `store::tests`.

use super::place::{Placement, get_u32, get_u64};
use crate::error::{Corruption, Error, OpenError, Result};
use crate::id::{BLOCK_BYTES, BlockId, Epoch};
use crate::io::AlignedBuf;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The first eight bytes of every database.
pub(super) const MAGIC: [u8; 8] = *b"latchkv\0";
/// The format that this program writes, and the greatest it reads.
pub(super) const FORMAT_VERSION: u32 = 2;
/// The last format without a log.
const VERSION_WITHOUT_LOG: u32 = 1;
/// Every lsn is below this.
pub(super) const LSN_END: u64 = 1 << 48;
/// Where the two slots lie.
pub(super) const SLOT_BLOCKS: [BlockId; 2] = [BlockId(0), BlockId(16)];

const CHECKSUM_AT: usize = BLOCK_BYTES - 8;

/// What one slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Superblock {
    /// Format of this checkpoint, up to [`FORMAT_VERSION`].
    pub(super) version: u32,
    /// log2 of the page size in bytes, 12 to 16.
    pub(super) page_shift: u8,
    /// Drawn at random when the database was made.
    pub(super) uuid: [u8; 16],
    /// Number of the checkpoint; 1 is the empty database.
    pub(super) sequence: u64,
    /// The epoch that the checkpoint closed.
    pub(super) epoch: Epoch,
    /// Where the log is to be read from.
    pub(super) checkpoint_lsn: u64,
    /// Where the manifest lies.
    pub(super) manifest: Placement,
    /// Bytes of the manifest before its padding.
    pub(super) manifest_bytes: u64,
    /// End of the highest block that this checkpoint reaches.
    pub(super) file_blocks: u64,
    /// How long the file of the log is at least, in bytes; 0 = not said.
    pub(super) log_bytes: u64,
}

/// What a slot was found to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Valid(Superblock),
    Newer(u32),
    Damaged,
    Foreign,
}

/// Greatest sequence and epoch that are believed: no database gets there, and adding to them cannot overflow.
const COUNT_MAX: u64 = u64::MAX / 2;

impl Superblock {
    /// Whether there is a log beside this checkpoint: it is made before the first one of version 2.
    pub(super) fn has_log(&self) -> bool {
        self.version > VERSION_WITHOUT_LOG
    }

    /// One block of bytes, checksum included.
    pub(super) fn encode(&self) -> AlignedBuf {
        let mut buf = AlignedBuf::new(BLOCK_BYTES);
        let mut put = |at: usize, bytes: &[u8]| buf[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &self.version.to_le_bytes());
        put(12, &[self.page_shift]);
        put(16, &self.uuid);
        put(32, &self.sequence.to_le_bytes());
        put(40, &self.epoch.0.to_le_bytes());
        put(48, &self.checkpoint_lsn.to_le_bytes());
        put(56, &self.manifest.block.0.to_le_bytes());
        put(64, &self.manifest.blocks.to_le_bytes());
        put(72, &self.manifest_bytes.to_le_bytes());
        put(80, &self.manifest.checksum.to_le_bytes());
        put(88, &self.file_blocks.to_le_bytes());
        put(96, &self.log_bytes.to_le_bytes());
        let checksum = xxh3_64(&buf[..CHECKSUM_AT]);
        buf[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        buf
    }

    fn decode(bytes: &[u8]) -> Slot {
        if bytes.len() < BLOCK_BYTES || bytes[..8] != MAGIC {
            return Slot::Foreign;
        }
        if xxh3_64(&bytes[..CHECKSUM_AT]) != get_u64(bytes, CHECKSUM_AT) {
            return Slot::Damaged;
        }
        let version = get_u32(bytes, 8);
        if version > FORMAT_VERSION {
            return Slot::Newer(version);
        }
        let page_shift = bytes[12];
        let counted = get_u64(bytes, 32).max(get_u64(bytes, 40));
        let (checkpoint_lsn, log_bytes) = match version {
            VERSION_WITHOUT_LOG => (0, 0),
            _ => (get_u64(bytes, 48), get_u64(bytes, 96)),
        };
        if version == 0
            || !(12..=16).contains(&page_shift)
            || counted > COUNT_MAX
            || checkpoint_lsn >= LSN_END
        {
            return Slot::Damaged;
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[16..32]);
        Slot::Valid(Superblock {
            version,
            page_shift,
            uuid,
            sequence: get_u64(bytes, 32),
            epoch: Epoch(get_u64(bytes, 40)),
            checkpoint_lsn,
            manifest: Placement {
                block: BlockId(get_u64(bytes, 56)),
                blocks: get_u32(bytes, 64),
                checksum: get_u64(bytes, 80),
            },
            manifest_bytes: get_u64(bytes, 72),
            file_blocks: get_u64(bytes, 88),
            log_bytes,
        })
    }
}

/// Chooses between the blocks found in the two slots (shorter than a block if the file is) by the table of
/// the module head; gives the superblock and the number of its slot.
pub(super) fn choose(slots: [&[u8]; 2], path: &Path) -> Result<(Superblock, usize)> {
    let found = slots.map(Superblock::decode);
    let mut best: Option<(Superblock, usize)> = None;
    for (number, slot) in found.iter().enumerate() {
        match slot {
            Slot::Newer(version) => {
                return Err(OpenError::NewerVersion {
                    path: path.to_owned(),
                    found: *version,
                    supported: FORMAT_VERSION,
                }
                .into());
            }
            Slot::Valid(superblock)
                if best.is_none_or(|(other, _)| superblock.sequence > other.sequence) =>
            {
                best = Some((*superblock, number));
            }
            _ => {}
        }
    }
    if let Some(best) = best {
        return Ok(best);
    }
    let damaged = found.iter().position(|slot| *slot == Slot::Damaged);
    let Some(number) = damaged else {
        return Err(OpenError::NotADatabase {
            path: path.to_owned(),
            why: "it does not begin with a superblock",
        }
        .into());
    };
    Err(Error::from(Corruption {
        file: path.to_owned(),
        offset: Some(SLOT_BLOCKS[number].offset()),
        page: None,
        tree: None,
        what: "no superblock is whole",
        expected: "a valid slot".into(),
        got: "two slots that are none".into(),
    }))
}

/// What an open database finds in a slot: see the module head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotState {
    /// The newest checkpoint.
    Newest,
    /// Another checkpoint of this database.
    Other,
    /// No superblock of this database.
    Damaged,
}

/// Compares the bytes of a slot with the newest superblock.
pub(super) fn compare(slot: &[u8], newest: &Superblock) -> SlotState {
    match Superblock::decode(slot) {
        Slot::Valid(found) if found == *newest => SlotState::Newest,
        Slot::Valid(found) if found.uuid == newest.uuid && found.sequence != newest.sequence => {
            SlotState::Other
        }
        _ => SlotState::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sequence: u64) -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            page_shift: 14,
            uuid: [7; 16],
            sequence,
            epoch: Epoch(9),
            checkpoint_lsn: 0x1234_5678_9abc,
            manifest: Placement { block: BlockId(77), blocks: 2, checksum: 0x0123_4567_89ab_cdef },
            manifest_bytes: 5000,
            file_blocks: 100,
            log_bytes: 32 << 20,
        }
    }

    fn pick(a: &[u8], b: &[u8]) -> Result<(Superblock, usize)> {
        choose([a, b], Path::new("data"))
    }

    #[test]
    fn greatest_sequence_wins_in_either_slot() {
        let (old, new) = (sample(4), sample(5));
        assert_eq!(pick(&old.encode(), &new.encode()).expect("both are valid"), (new, 1));
        assert_eq!(pick(&new.encode(), &old.encode()).expect("both are valid"), (new, 0));
    }

    #[test]
    fn one_damaged_slot_leaves_the_other() {
        let whole = sample(4).encode();
        for at in (0..BLOCK_BYTES).step_by(97) {
            let mut torn = sample(5).encode();
            torn[at] ^= 0x10;
            assert_eq!(pick(&torn, &whole).expect("one is valid"), (sample(4), 1), "byte {at}");
        }
        assert_eq!(
            pick(&whole, &[]).expect("one is valid"),
            (sample(4), 0),
            "a file cut after the first slot"
        );
    }

    #[test]
    fn version_1_has_no_log_whatever_its_lsn_field_says() {
        let old = Superblock { version: 1, ..sample(7) }.encode();
        let expected = Superblock { version: 1, checkpoint_lsn: 0, log_bytes: 0, ..sample(7) };
        assert!(!expected.has_log() && sample(7).has_log());
        assert_eq!(pick(&old, &sample(6).encode()).expect("both are valid"), (expected, 0));
        assert_eq!(pick(&old, &sample(8).encode()).expect("both are valid"), (sample(8), 1));
    }

    #[test]
    fn an_lsn_past_the_greatest_is_damage() {
        for lsn in [LSN_END, u64::MAX] {
            let bytes = Superblock { checkpoint_lsn: lsn, ..sample(7) }.encode();
            assert_eq!(pick(&bytes, &sample(6).encode()).expect("one is valid"), (sample(6), 1));
            assert!(matches!(pick(&bytes, &bytes), Err(Error::Corrupt(_))));
        }
    }

    #[test]
    fn a_slot_is_compared_with_the_newest_superblock() {
        let newest = sample(5);
        assert_eq!(compare(&newest.encode(), &newest), SlotState::Newest);
        assert_eq!(compare(&sample(4).encode(), &newest), SlotState::Other);
        let foreign = Superblock { uuid: [8; 16], ..sample(4) };
        let second_of_that_number = Superblock { epoch: Epoch(10), ..newest };
        let mut torn = newest.encode();
        torn[700] ^= 1;
        for damaged in [foreign.encode(), second_of_that_number.encode(), torn] {
            assert_eq!(compare(&damaged, &newest), SlotState::Damaged);
        }
        assert_eq!(compare(&[0; BLOCK_BYTES], &newest), SlotState::Damaged);
        assert_eq!(compare(&[], &newest), SlotState::Damaged);
    }

    #[test]
    fn damage_foreign_files_and_newer_versions_are_told_apart() {
        let mut damaged = sample(1).encode();
        damaged[20] ^= 1;
        assert!(matches!(pick(&damaged, &[0; BLOCK_BYTES]), Err(Error::Corrupt(_))));
        assert!(matches!(
            pick(&[0; BLOCK_BYTES], b"short"),
            Err(Error::Open(OpenError::NotADatabase { .. }))
        ));
        let newer = Superblock { version: 3, ..sample(1) }.encode();
        assert!(matches!(
            pick(&newer, &sample(1).encode()),
            Err(Error::Open(OpenError::NewerVersion { found: 3, supported: 2, .. }))
        ));
    }
}
