//! The bytes of one operation, and of a commit's list of them.
//!
//! ```text
//!   Put            [ 1 ][ tree ][ key bytes ][ value bytes ][ key ][ value ]
//!   Delete         [ 2 ][ tree ][ key bytes ][ key ]
//!   Create, Rename [ 3 ] or [ 5 ] [ tree ][ name bytes ][ name ]
//!   Drop, Clear, Fill   [ 4 ], [ 6 ] or [ 7 ]  [ tree ]
//!   Parts          [ 8 ][ first lsn ][ bytes ]
//! ```
//!
//! Numbers in brackets are bytes; tree, lengths and lsn are varints: 7 bits a byte, least significant first,
//! the top bit says that another follows. A varint has at most 10 bytes and no useless zeros at its end, so an
//! operation has one spelling.
//!
//! What this is not: part of the log. To the log a record's operations are bytes; this is how those above
//! spell them.
//!
//! # Commits of several records
//!
//! The operations of a large commit are one stream, cut anywhere into `Part` records, between which records of
//! others may lie. So a part's operations begin with a [`PartHead`], which names the first part of its commit
//! (itself, in the first). The `Commit` record then holds nothing but [`Op::Parts`].
//!
//! ```text
//!   Part 100 [ 100 | ops.. ]   Commit 180 of another   Part 240 [ 100 | ..ops ]   Commit 320 [ Parts 100, n ]
//! ```
//!
//! Bad bytes are a [`BadOps`], never a panic; nothing is allocated by a length that was read. Tested in `ops_tests.rs`.

use super::record::{Record, RecordKind};
use super::recover::Recovering;
use crate::error::{Error, Result};
use crate::id::TreeId;

/// Greatest key or name that is believed.
const KEY_BYTES_MAX: u64 = 64 << 10;
/// Greatest value that is believed.
const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Greatest varint.
const VARINT_BYTES_MAX: usize = 10;

/// One operation of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op<'a> {
    /// The key has this value now.
    Put {
        /// Where.
        tree: TreeId,
        /// At most 64 KiB.
        key: &'a [u8],
        /// At most 1 GiB.
        value: &'a [u8],
    },
    /// The key is no more.
    Delete {
        /// Where.
        tree: TreeId,
        /// At most 64 KiB.
        key: &'a [u8],
    },
    /// A tree was made, empty.
    Create {
        /// Its id from now on.
        tree: TreeId,
        /// Its name.
        name: &'a [u8],
    },
    /// A tree was dropped.
    Drop {
        /// Which.
        tree: TreeId,
    },
    /// A tree has this name now.
    Rename {
        /// Which.
        tree: TreeId,
        /// The new name.
        name: &'a [u8],
    },
    /// A tree holds nothing now.
    Clear {
        /// Which.
        tree: TreeId,
    },
    /// A tree, empty before, holds what is not in the log.
    Fill {
        /// Which.
        tree: TreeId,
    },
    /// The operations are in `Part` records.
    Parts {
        /// lsn of the first of them.
        first: u64,
        /// Bytes of operations in all of them, heads not counted.
        bytes: u64,
    },
}

/// Bytes that are no operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("bytes {at} and on are no operation: {what}")]
pub(crate) struct BadOps {
    /// Where the operation begins, in bytes from the start of the stream.
    pub(crate) at: u64,
    /// What is wrong with it.
    pub(crate) what: &'static str,
}

/// The start of a `Part` record's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartHead {
    /// lsn of the first part of the same commit; the part's own in the first.
    pub(crate) first: u64,
}

impl PartHead {
    /// Bytes of a head.
    pub(crate) const BYTES: usize = 8;

    /// The bytes.
    pub(crate) fn encode(self) -> [u8; PartHead::BYTES] {
        self.first.to_le_bytes()
    }

    /// Splits a part's operations; `None` if they are too short.
    pub(crate) fn split(ops: &[u8]) -> Option<(PartHead, &[u8])> {
        let (head, rest) = ops.split_first_chunk()?;
        Some((PartHead { first: u64::from_le_bytes(*head) }, rest))
    }
}

impl<'a> Op<'a> {
    /// Appends the operation.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let (kind, number) = self.head();
        out.push(kind);
        push_varint(out, number);
        match *self {
            Op::Put { key, value, .. } => {
                push_varint(out, key.len() as u64);
                push_varint(out, value.len() as u64);
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            Op::Delete { key: bytes, .. }
            | Op::Create { name: bytes, .. }
            | Op::Rename { name: bytes, .. } => {
                push_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Op::Drop { .. } | Op::Clear { .. } | Op::Fill { .. } => {}
            Op::Parts { bytes, .. } => push_varint(out, bytes),
        }
    }

    /// Bytes that [`Op::encode_into`] appends.
    pub(crate) fn encoded_len(&self) -> usize {
        let length = |bytes: usize| varint_len(bytes as u64) + bytes;
        let (_, number) = self.head();
        let rest = match *self {
            Op::Put { key, value, .. } => length(key.len()) + length(value.len()),
            Op::Delete { key: bytes, .. }
            | Op::Create { name: bytes, .. }
            | Op::Rename { name: bytes, .. } => length(bytes.len()),
            Op::Drop { .. } | Op::Clear { .. } | Op::Fill { .. } => 0,
            Op::Parts { bytes, .. } => varint_len(bytes),
        };
        1 + varint_len(number) + rest
    }

    fn head(&self) -> (u8, u64) {
        match *self {
            Op::Put { tree, .. } => (1, tree.0.into()),
            Op::Delete { tree, .. } => (2, tree.0.into()),
            Op::Create { tree, .. } => (3, tree.0.into()),
            Op::Drop { tree } => (4, tree.0.into()),
            Op::Rename { tree, .. } => (5, tree.0.into()),
            Op::Clear { tree } => (6, tree.0.into()),
            Op::Fill { tree } => (7, tree.0.into()),
            Op::Parts { first, .. } => (8, first),
        }
    }

    /// The operation that `bytes` begin with and its length; `None` if they end before it does.
    fn decode(bytes: &'a [u8]) -> Result<Option<(Op<'a>, usize)>, &'static str> {
        let mut reader = Reader { bytes, at: 0 };
        let op = reader.op()?;
        Ok(op.map(|op| (op, reader.at)))
    }
}

/// The operations of a stream that is in memory as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Ops<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Ops<'a> {
    /// The operations of a `Commit` record.
    pub(crate) fn new(bytes: &'a [u8]) -> Ops<'a> {
        Ops { bytes, at: 0 }
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, BadOps>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let at = self.at as u64;
        let what = match Op::decode(rest) {
            Ok(Some((op, used))) => {
                self.at += used;
                return Some(Ok(op));
            }
            Ok(None) => "it is cut short",
            Err(what) => what,
        };
        self.at = self.bytes.len();
        Some(Err(BadOps { at, what }))
    }
}

/// Takes a stream of operations in pieces, cut anywhere. Holds what is there of one operation, no more.
#[derive(Debug, Default)]
pub(crate) struct OpStream {
    /// The start of an operation that is not whole.
    pending: Vec<u8>,
    /// The next time that looking at `pending` is worth it.
    wanted: usize,
    /// Bytes of whole operations so far.
    at: u64,
}

impl OpStream {
    /// Nothing taken yet.
    pub(crate) fn new() -> OpStream {
        OpStream::default()
    }

    /// Takes the next piece, and hands on the operations that are whole by now.
    ///
    /// # Errors
    /// What `each` gives; [`BadOps`], converted, for bad bytes. Not to be called again then.
    pub(crate) fn feed<E: From<BadOps>>(
        &mut self,
        mut piece: &[u8],
        mut each: impl FnMut(Op<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // What is left from before, completed by as little of the piece as will do.
        while !self.pending.is_empty() {
            let missing = self.wanted.saturating_sub(self.pending.len()).max(1);
            let Some((now, later)) = piece.split_at_checked(missing) else {
                self.pending.extend_from_slice(piece);
                return Ok(());
            };
            self.pending.extend_from_slice(now);
            piece = later;
            match Op::decode(&self.pending).map_err(|what| BadOps { at: self.at, what })? {
                Some((op, used)) => {
                    debug_assert_eq!(used, self.pending.len(), "it was completed byte by byte");
                    each(op)?;
                    self.at += used as u64;
                    self.pending.clear();
                }
                None => self.wanted = wanted(&self.pending),
            }
        }
        while !piece.is_empty() {
            match Op::decode(piece).map_err(|what| BadOps { at: self.at, what })? {
                Some((op, used)) => {
                    each(op)?;
                    self.at += used as u64;
                    piece = &piece[used..];
                }
                None => {
                    self.wanted = wanted(piece);
                    self.pending.extend_from_slice(piece);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The stream is over.
    ///
    /// # Errors
    /// If it ends within an operation.
    pub(crate) fn finish(self) -> Result<u64, BadOps> {
        match self.pending.is_empty() {
            true => Ok(self.at),
            false => Err(BadOps { at: self.at, what: "it is cut short" }),
        }
    }
}

/// Bytes that the operation which `bytes` begin with has at least.
fn wanted(bytes: &[u8]) -> usize {
    let mut reader = Reader { bytes, at: 0 };
    match reader.op() {
        Ok(None) => reader.at.max(bytes.len() + 1),
        _ => bytes.len() + 1,
    }
}

/// Hands on the pieces of a commit of several records: the operations of the parts from `first` to the commit
/// at `commit`, in order, without their heads. Together they are `bytes` bytes.
///
/// # Errors
/// What `each` gives; [`Error::Corrupt`] if parts are missing; [`Error::Io`].
pub(crate) fn read_parts(
    recovering: &mut Recovering,
    (first, bytes): (u64, u64),
    commit: u64,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut lsn, mut found) = (first, 0);
    while lsn < commit {
        let Record { end, kind, ops, .. } = recovering.read_at(lsn)?;
        if kind == RecordKind::Part
            && let Some((head, ops)) = PartHead::split(ops)
            && head.first == first
        {
            found += ops.len() as u64;
            each(ops)?;
        }
        lsn = end;
    }
    if lsn != commit || found != bytes {
        return Err(recovering.corrupt(commit, "parts of a commit are missing", bytes, found));
    }
    Ok(())
}

/// The damage that bad operations of the record at `lsn` are.
pub(crate) fn bad_ops(recovering: &Recovering, lsn: u64, bad: BadOps) -> Error {
    recovering.corrupt(lsn, "a record holds what is no operation", "operations", bad)
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// What is read; after `None`, what would have to be there.
    at: usize,
}

impl<'a> Reader<'a> {
    fn op(&mut self) -> Result<Option<Op<'a>>, &'static str> {
        let Some(&kind) = self.bytes.first() else { return Ok(None) };
        self.at = 1;
        if kind == 0 || kind > 8 {
            return Err("its kind is unknown");
        }
        let Some(number) = self.varint()? else { return Ok(None) };
        if kind == 8 {
            let bytes = self.varint()?;
            return Ok(bytes.map(|bytes| Op::Parts { first: number, bytes }));
        }
        let tree = TreeId(u32::try_from(number).map_err(|_| "its tree has more than 32 bits")?);
        Ok(match kind {
            1 => {
                let Some(key_bytes) = self.length(KEY_BYTES_MAX)? else { return Ok(None) };
                let Some(value_bytes) = self.length(VALUE_BYTES_MAX)? else { return Ok(None) };
                let key = self.take(key_bytes);
                let value = self.take(value_bytes);
                key.zip(value).map(|(key, value)| Op::Put { tree, key, value })
            }
            2 | 3 | 5 => {
                let Some(length) = self.length(KEY_BYTES_MAX)? else { return Ok(None) };
                self.take(length).map(|bytes| match kind {
                    2 => Op::Delete { tree, key: bytes },
                    3 => Op::Create { tree, name: bytes },
                    _ => Op::Rename { tree, name: bytes },
                })
            }
            4 => Some(Op::Drop { tree }),
            6 => Some(Op::Clear { tree }),
            _ => Some(Op::Fill { tree }),
        })
    }

    fn length(&mut self, maximum: u64) -> Result<Option<usize>, &'static str> {
        match self.varint()? {
            Some(length) if length > maximum => Err("its length is absurd"),
            length => Ok(length.map(|length| length as usize)),
        }
    }

    fn varint(&mut self) -> Result<Option<u64>, &'static str> {
        let mut number = 0;
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        for (index, &byte) in rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && byte > 1 || index > 0 && byte == 0 {
                return Err("a number in it is misspelt");
            }
            number |= bits << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(Some(number));
            }
        }
        self.at += rest.len() + 1;
        Ok(None)
    }

    /// The next bytes; `at` moves on even when they are not there.
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at + bytes);
        self.at += bytes;
        taken
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint_len(number: u64) -> usize {
    (64 - number.leading_zeros()).div_ceil(7).max(1) as usize
}

#[cfg(test)]
#[path = "ops_tests.rs"]
mod tests;
