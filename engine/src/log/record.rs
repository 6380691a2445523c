//! The bytes of one record.
//!
//! ```text
//!  byte   0                              8         16               24        32
//!         [ kind:8 pad:8 0:16 bytes:32 ][ lsn:64 ][ synced lsn:64 ][ check ][ ops | padding ]
//!           most significant first                                          |<- bytes - 32 ->|
//! ```
//!
//! All numbers are little-endian. `bytes` counts the whole record, a multiple of 8; `pad`, 0 to 7, is how much
//! of its end is no operation but zeros. `check` is xxh3-64 of all the rest, seeded with the salt of the run.
//! The low half of the first word is the record's length, which the ring stands on.
//!
//! # Whole
//!
//! A record at lsn `x` is *whole* when (1) `bytes` is a multiple of 8, at least 32, at most
//! [`RECORD_BYTES_MAX`], (2) `pad` is below 8 and not more than `bytes - 32`, and the zero bits are zero, (3) it
//! says lsn `x`, (4) it claims nothing above `x` synced, (5) all of it is there, (6) the check is right.
//!
//! A void record has the same form; its operations are zeros.
//!
//! Tested in `tests::records`.

use latchkv_latch::LogRing;
use xxhash_rust::xxh3::{Xxh3Builder, xxh3_64_with_seed};

/// Bytes before the operations.
pub(super) const HEADER_BYTES: usize = 32;
/// Greatest record that anybody writes or reads, whatever the buffer is.
pub(super) const RECORD_BYTES_MAX: u32 = 4 << 20;
/// Bytes of the header that come before the check.
const CHECKED_BYTES: usize = 24;
/// A record is copied in pieces of this many bytes; most have one.
const PIECE_BYTES: usize = 1024;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    /// A commit: all of its operations, or what says in which `Part` records they are.
    Commit,
    /// Some operations of a later commit.
    Part,
    /// A reservation that came to nothing.
    Void,
}

impl RecordKind {
    const fn code(self) -> u8 {
        match self {
            RecordKind::Commit => 1,
            RecordKind::Part => 2,
            RecordKind::Void => 3,
        }
    }

    /// The kind that a whole record has; `None` for one that this program does not know.
    pub(super) fn from_code(code: u8) -> Option<RecordKind> {
        [RecordKind::Commit, RecordKind::Part, RecordKind::Void]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// A whole record, as recovery reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    /// Where it begins: the timestamp of a commit.
    pub(crate) lsn: u64,
    /// Where it ends.
    pub(crate) end: u64,
    /// What it is.
    pub(crate) kind: RecordKind,
    /// All before this was synced when the record was copied.
    pub(crate) synced: u64,
    /// The operations.
    pub(crate) ops: &'a [u8],
}

/// Bytes of the record with that many bytes of operations.
pub(super) fn record_bytes(ops_len: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(ops_len).next_multiple_of(8)
}

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: u8,
    pub(super) pad: u8,
    pub(super) zero: u16,
    pub(super) bytes: u32,
    pub(super) lsn: u64,
    pub(super) synced: u64,
    pub(super) check: u64,
}

impl Header {
    /// The header of a record to be written; the check is for [`put`].
    pub(super) fn new(kind: RecordKind, lsn: u64, ops_len: u32, synced: u64) -> Header {
        let bytes = record_bytes(ops_len) as u32;
        let pad = (bytes - HEADER_BYTES as u32 - ops_len) as u8;
        Header { kind: kind.code(), pad, zero: 0, bytes, lsn, synced, check: 0 }
    }

    /// What 32 bytes say; nothing is checked.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let first = word(0);
        Header {
            kind: (first >> 56) as u8,
            pad: (first >> 48) as u8,
            zero: (first >> 32) as u16,
            bytes: first as u32,
            lsn: word(1),
            synced: word(2),
            check: word(3),
        }
    }

    fn words(&self) -> [u64; 4] {
        let first = u64::from(self.kind) << 56
            | u64::from(self.pad) << 48
            | u64::from(self.zero) << 32
            | u64::from(self.bytes);
        [first, self.lsn, self.synced, self.check]
    }

    /// The bytes.
    #[cfg(test)]
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words()) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Conditions (1) to (4) of a whole record at `lsn`.
    pub(super) fn is_plausible(&self, lsn: u64) -> bool {
        let body = self.bytes.wrapping_sub(HEADER_BYTES as u32);
        self.lsn == lsn
            && self.synced <= lsn
            && self.bytes >= HEADER_BYTES as u32
            && self.bytes <= RECORD_BYTES_MAX
            && self.bytes.is_multiple_of(8)
            && self.zero == 0
            && self.pad < 8
            && u32::from(self.pad) <= body
    }

    /// Condition (6): the check over this header and the body, padding included.
    pub(super) fn is_right(&self, body: &[u8], salt: u64) -> bool {
        let mut head = [0; CHECKED_BYTES];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(self.words()) {
            *place = word.to_le_bytes();
        }
        let mut all = [0; PIECE_BYTES];
        let check = match all.get_mut(..CHECKED_BYTES + body.len()) {
            // In one go, as that costs a fraction.
            Some(all) => {
                all[..CHECKED_BYTES].copy_from_slice(&head);
                all[CHECKED_BYTES..].copy_from_slice(body);
                xxh3_64_with_seed(all, salt)
            }
            None => {
                let mut hasher = Xxh3Builder::new().with_seed(salt).build();
                hasher.update(&head);
                hasher.update(body);
                hasher.digest()
            }
        };
        check == self.check
    }

    /// Where the record ends.
    pub(super) fn end(&self) -> u64 {
        self.lsn + u64::from(self.bytes)
    }

    /// Bytes of operations, of a plausible record.
    pub(super) fn ops_len(&self) -> usize {
        self.bytes as usize - HEADER_BYTES - usize::from(self.pad)
    }
}

/// Copies a record to its place in the ring, check and padding included. `ops` holds together as many bytes as
/// the header says, or less: then zeros follow.
pub(super) fn put(ring: &LogRing, salt: u64, mut header: Header, ops: &[&[u8]]) {
    let mut source = Source { slices: ops, at: 0 };
    let body = header.bytes as usize - HEADER_BYTES;
    let mut piece = [0; PIECE_BYTES];
    for (place, word) in piece.as_chunks_mut::<8>().0.iter_mut().zip(header.words()) {
        *place = word.to_le_bytes();
    }
    if CHECKED_BYTES + body <= PIECE_BYTES {
        let all = &mut piece[..CHECKED_BYTES + body];
        all[CHECKED_BYTES..].fill(0);
        source.take(&mut all[CHECKED_BYTES..]);
        header.check = xxh3_64_with_seed(all, salt);
        copy(ring, header.lsn, HEADER_BYTES, &all[CHECKED_BYTES..]);
    } else {
        let mut hasher = Xxh3Builder::new().with_seed(salt).build();
        hasher.update(&piece[..CHECKED_BYTES]);
        let mut done = 0;
        while done < body {
            let piece = &mut piece[..PIECE_BYTES.min(body - done)];
            let taken = source.take(piece);
            piece[taken..].fill(0);
            hasher.update(piece);
            copy(ring, header.lsn, HEADER_BYTES + done, piece);
            done += piece.len();
        }
        header.check = hasher.digest();
    }
    ring.copy(header.lsn, 0, &header.words());
}

/// Copies whole words to a place in a record.
fn copy(ring: &LogRing, lsn: u64, at: usize, bytes: &[u8]) {
    let mut words = [0; PIECE_BYTES / 8];
    let (chunks, _) = bytes.as_chunks::<8>();
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*chunk);
    }
    ring.copy(lsn, at as u32, &words[..chunks.len()]);
}

/// Several slices, taken one after the other.
struct Source<'a> {
    slices: &'a [&'a [u8]],
    /// Bytes of the first that were taken.
    at: usize,
}

impl Source<'_> {
    /// Fills `out` as far as there is something; how far.
    fn take(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while let [first, rest @ ..] = self.slices {
            let bytes = (first.len() - self.at).min(out.len() - filled);
            out[filled..filled + bytes].copy_from_slice(&first[self.at..self.at + bytes]);
            filled += bytes;
            self.at += bytes;
            if self.at < first.len() {
                break;
            }
            self.slices = rest;
            self.at = 0;
        }
        filled
    }
}
