//! Where the stream lies in the file, and the header of a slot.
//!
//! ```text
//!  file    |<------------ slot_bytes ------------>|<------------ slot_bytes ------------>|
//!          [ header ][ data of part 7             ][ header ][ data of part 5             ] ...
//!          |<-4096->|<----- data_bytes ---------->|
//!
//!  lsn     part = lsn / data_bytes        place behind the header = lsn % data_bytes
//! ```
//!
//! The header, all numbers little-endian, twice in its block (at bytes 0 and 2048), the rest zeros:
//!
//! ```text
//!  byte   0      8        12  16    32          40    48    56          64    72            80      88     96
//!         [magic ][version][0 ][uuid][slot bytes][slot][part][first part][salt][previous end][synced][check]
//!                                                            |<------------ run ----------->|
//! ```
//!
//! `slot` is the slot's own number, so a misdirected write is seen. `first part` and `salt` name the run,
//! `previous end` is the lsn at which the run before it was found to end, 0 for the first. Below `synced`
//! everything was synced when the header was written. `check` is xxh3-64 of the 88 bytes before it.
//!
//! A header is *valid* when magic, check and version are right, the slot bytes are a power of two from 64 KiB
//! to 1 GiB, it lies where it says, and `1 <= first part <= part` with all of the part below 2^48.
//!
//! The data area of a slot is written only after a header of it was synced (first of a run) or written, so
//! data without any valid header in the file is damage.
//!
//! Tested below and in `tests::recovery`.

use super::LSN_END;
use crate::id::BLOCK_BYTES;
use crate::io::AlignedBuf;
use xxhash_rust::xxh3::xxh3_64;

/// Least bytes of a slot.
pub(super) const SLOT_BYTES_MIN: u64 = 64 << 10;
/// Greatest bytes of a slot.
pub(super) const SLOT_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a slot before its data.
pub(super) const HEADER_BLOCK_BYTES: u64 = BLOCK_BYTES as u64;
/// The format that this program writes, and the greatest it reads.
pub(super) const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"latchlog";
const CHECK_AT: usize = 88;
const COPY_BYTES: usize = CHECK_AT + 8;
/// Where the two copies lie in the block: in different sectors of any size below 4 KiB.
const COPIES_AT: [usize; 2] = [0, BLOCK_BYTES / 2];

/// How the stream is cut into parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    slot_bytes: u64,
}

impl Geometry {
    /// For slots of that many bytes, a power of two in bounds.
    pub(super) fn new(slot_bytes: u64) -> Geometry {
        Geometry { slot_bytes }
    }

    pub(super) fn slot_bytes(self) -> u64 {
        self.slot_bytes
    }

    /// Bytes of the stream in one part.
    pub(super) fn data_bytes(self) -> u64 {
        self.slot_bytes - HEADER_BLOCK_BYTES
    }

    /// The part that the byte at `lsn` lies in.
    pub(super) fn part(self, lsn: u64) -> u64 {
        lsn / self.data_bytes()
    }

    /// The first lsn of a part.
    pub(super) fn start(self, part: u64) -> u64 {
        part * self.data_bytes()
    }

    /// Offset in the file of a slot.
    pub(super) fn slot_offset(self, slot: u64) -> u64 {
        slot * self.slot_bytes
    }

    /// Offset in the file of the byte at `lsn`, whose part is in `slot`.
    pub(super) fn offset(self, slot: u64, lsn: u64) -> u64 {
        self.slot_offset(slot) + HEADER_BLOCK_BYTES + lsn % self.data_bytes()
    }
}

/// What one opening of the log writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// The part that it begins with.
    pub(super) first_part: u64,
    /// Seeds the checks of its records.
    pub(super) salt: u64,
    /// Where the run before it was found to end; 0 if there was none.
    pub(super) previous_end: u64,
}

/// What the header of a slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotHeader {
    pub(super) uuid: [u8; 16],
    pub(super) slot_bytes: u64,
    pub(super) slot: u64,
    pub(super) part: u64,
    pub(super) run: Run,
    pub(super) synced: u64,
}

/// What a header block was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Valid(SlotHeader),
    /// Of a format that a newer program wrote.
    Newer(u32),
    Nothing,
}

impl SlotHeader {
    /// The header block.
    pub(super) fn encode(&self) -> AlignedBuf {
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        let mut copy = [0; COPY_BYTES];
        let mut put = |at: usize, bytes: &[u8]| copy[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &FORMAT_VERSION.to_le_bytes());
        put(16, &self.uuid);
        let numbers = [
            self.slot_bytes,
            self.slot,
            self.part,
            self.run.first_part,
            self.run.salt,
            self.run.previous_end,
            self.synced,
        ];
        for (index, number) in numbers.into_iter().enumerate() {
            put(32 + 8 * index, &number.to_le_bytes());
        }
        let check = xxh3_64(&copy[..CHECK_AT]);
        copy[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        for at in COPIES_AT {
            block[at..at + COPY_BYTES].copy_from_slice(&copy);
        }
        block
    }

    /// What a block at byte `offset` of the file says, by the first of its copies that says something.
    pub(super) fn decode(block: &[u8], offset: u64) -> Found {
        let mut copies = COPIES_AT.iter().filter_map(|&at| block.get(at..at + COPY_BYTES));
        copies
            .find_map(|copy| match SlotHeader::decode_copy(copy, offset) {
                Found::Nothing => None,
                found => Some(found),
            })
            .unwrap_or(Found::Nothing)
    }

    fn decode_copy(copy: &[u8], offset: u64) -> Found {
        let number = |at: usize| {
            copy[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        if copy[..8] != MAGIC || xxh3_64(&copy[..CHECK_AT]) != number(CHECK_AT) {
            return Found::Nothing;
        }
        let version = number(8) as u32;
        if version > FORMAT_VERSION {
            return Found::Newer(version);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&copy[16..32]);
        let header = SlotHeader {
            uuid,
            slot_bytes: number(32),
            slot: number(40),
            part: number(48),
            run: Run { first_part: number(56), salt: number(64), previous_end: number(72) },
            synced: number(80),
        };
        let sizes = SLOT_BYTES_MIN..=SLOT_BYTES_MAX;
        let fits = sizes.contains(&header.slot_bytes)
            && header.slot_bytes.is_power_of_two()
            && header.slot.checked_mul(header.slot_bytes) == Some(offset)
            && header.run.first_part >= 1
            && header.run.first_part <= header.part
            && header.part < LSN_END / header.slot_bytes - 1;
        if version == 0 || !fits { Found::Nothing } else { Found::Valid(header) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SlotHeader {
        SlotHeader {
            uuid: [7; 16],
            slot_bytes: 64 << 10,
            slot: 3,
            part: 9,
            run: Run { first_part: 8, salt: 11, previous_end: 12 },
            synced: 13,
        }
    }

    #[test]
    fn a_header_survives_the_loss_of_one_copy_and_lies_only_where_it_says() {
        let (header, offset) = (sample(), 3 << 16);
        let block = header.encode();
        assert_eq!(SlotHeader::decode(&block, offset), Found::Valid(header));
        assert_eq!(SlotHeader::decode(&block, 2 << 16), Found::Nothing);
        for at in 0..COPY_BYTES {
            let mut torn = block.clone();
            torn[at] ^= 4;
            assert_eq!(SlotHeader::decode(&torn, offset), Found::Valid(header), "byte {at}");
            torn[COPIES_AT[1] + at] ^= 4;
            assert_eq!(SlotHeader::decode(&torn, offset), Found::Nothing, "byte {at}");
        }
        assert_eq!(SlotHeader::decode(&block[..90], offset), Found::Nothing, "a short file");
    }

    #[test]
    fn absurd_headers_are_none() {
        let absurd: [fn(&mut SlotHeader); 5] = [
            |header| header.slot_bytes = 3 << 16,
            |header| header.slot = u64::MAX,
            |header| header.part = u64::MAX / 2,
            |header| header.run.first_part = 0,
            |header| header.part = 1,
        ];
        for change in absurd {
            let mut header = sample();
            change(&mut header);
            assert_eq!(SlotHeader::decode(&header.encode(), 3 << 16), Found::Nothing);
        }
    }

    #[test]
    fn places_of_the_stream_follow_each_other_behind_the_headers() {
        let geometry = Geometry::new(64 << 10);
        let data = geometry.data_bytes();
        assert_eq!(geometry.part(data - 1), 0);
        assert_eq!(geometry.part(data), 1);
        assert_eq!(geometry.offset(5, geometry.start(9)), (5 << 16) + 4096);
        assert_eq!(geometry.offset(5, geometry.start(10) - 8), (6 << 16) - 8);
    }
}
