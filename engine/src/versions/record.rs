//! The bytes of one old version, as the arena keeps them.
//!
//! ```text
//!   arena   superseded : 64           the commit that replaced the version
//!           length     : 64
//!     0     lsn : 48 | kind : 16      the commit that made it; Tombstone, Inline, Extent
//!     8     below      : 64           slot: newest version of the next key of the bucket     see `shard`
//!    16     previous   : 64           slot: the version before this one
//!    24     jump       : 64           slot: a version further back
//!    32     depth : 32 | key bytes : 32
//!    40     tag : 32 | tree : 32      tag: high half of the key's hash
//!    48     key, then: nothing | the value | page : 64, len : 64
//! ```
//!
//! 64 bytes with the arena's head. All numbers in the byte order of the machine: nothing here outlives the
//! process. Only `below` changes after the record is written.
//!
//! Not part of this: what the links mean, and which versions are kept.

use super::{Old, Seen, SeenKind};
use crate::id::{PageId, TreeId};
use latchkv_alloc::{Record, Slot};

/// Bytes before the key.
const HEAD_BYTES: usize = 48;
const BELOW_AT: usize = 8;

const LSN_BITS: u32 = 48;
const KIND_TOMBSTONE: u64 = 0;
const KIND_INLINE: u64 = 1;
const KIND_EXTENT: u64 = 2;

/// The key of a tree that a version belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) tree: TreeId,
    pub(super) key: &'a [u8],
    pub(super) tag: u32,
}

/// Where a version stands among the others.
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub(super) below: Slot,
    pub(super) previous: Slot,
    pub(super) jump: Slot,
    pub(super) depth: u32,
}

/// A version, read in place.
#[derive(Clone, Copy)]
pub(super) struct Version<'a> {
    superseded: u64,
    head: &'a [u8; HEAD_BYTES],
    body: &'a [u8],
}

impl<'a> Version<'a> {
    /// Reads what [`lay_out`] laid out. `None` for other bytes.
    #[inline]
    pub(super) fn of(record: Record<'a>) -> Option<Version<'a>> {
        let (head, body) = record.bytes.split_first_chunk()?;
        Some(Version { superseded: record.lsn, head, body })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.head[at..at + 8].try_into().expect("a word is 8 bytes"))
    }

    #[inline(always)]
    pub(super) fn lsn(&self) -> u64 {
        self.word(0) >> (64 - LSN_BITS)
    }

    #[inline(always)]
    pub(super) fn superseded(&self) -> u64 {
        self.superseded
    }

    #[inline(always)]
    pub(super) fn below(&self) -> Slot {
        Slot::from_bits(self.word(BELOW_AT))
    }

    #[inline(always)]
    pub(super) fn previous(&self) -> Slot {
        Slot::from_bits(self.word(16))
    }

    #[inline(always)]
    pub(super) fn jump(&self) -> Slot {
        Slot::from_bits(self.word(24))
    }

    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        (self.word(32) >> 32) as u32
    }

    #[inline(always)]
    fn key_bytes(&self) -> usize {
        (self.word(32) & u64::from(u32::MAX)) as usize
    }

    /// Whether this is a version of that key. Compares the tag first.
    #[inline(always)]
    pub(super) fn belongs_to(&self, owner: &Owner<'_>) -> bool {
        self.word(40) == tag_and_tree(owner)
            && self.key_bytes() == owner.key.len()
            && self.body.starts_with(owner.key)
    }

    /// What the key was; bytes of a value are appended to `out`.
    pub(super) fn copy_to(&self, out: &mut Vec<u8>) -> Option<Seen> {
        let content = self.body.get(self.key_bytes()..)?;
        let kind = match self.word(0) & ((1 << (64 - LSN_BITS)) - 1) {
            KIND_TOMBSTONE => SeenKind::Tombstone,
            KIND_INLINE => {
                let start = out.len();
                out.extend_from_slice(content);
                SeenKind::Inline(start..out.len())
            }
            _ => {
                let (page, rest) = content.split_first_chunk()?;
                let (len, _) = rest.split_first_chunk()?;
                let page = PageId(u64::from_ne_bytes(*page));
                SeenKind::Extent { page, len: u64::from_ne_bytes(*len) }
            }
        };
        Some(Seen { lsn: self.lsn(), kind })
    }
}

/// Hands the pieces of a record, in order, to `keep`.
pub(super) fn lay_out<R>(
    owner: &Owner<'_>,
    lsn: u64,
    old: Old<'_>,
    links: &Links,
    keep: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    debug_assert!(lsn >> LSN_BITS == 0, "an lsn has 48 bits");
    let mut extent = [0; 16];
    let (kind, content) = match old {
        Old::Tombstone => (KIND_TOMBSTONE, &[][..]),
        Old::Inline(value) => (KIND_INLINE, value),
        Old::Extent { page, len } => {
            extent[..8].copy_from_slice(&page.0.to_ne_bytes());
            extent[8..].copy_from_slice(&len.to_ne_bytes());
            (KIND_EXTENT, &extent[..])
        }
    };
    let words = [
        lsn << (64 - LSN_BITS) | kind,
        links.below.to_bits(),
        links.previous.to_bits(),
        links.jump.to_bits(),
        u64::from(links.depth) << 32 | owner.key.len() as u64,
        tag_and_tree(owner),
    ];
    let mut head = [0; HEAD_BYTES];
    for (bytes, word) in head.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    keep(&[&head, owner.key, content])
}

/// Changes the link `below` of a record in place.
pub(super) fn set_below(record: &mut [u8], below: Slot) {
    if let Some(word) = record.get_mut(BELOW_AT..BELOW_AT + 8) {
        word.copy_from_slice(&below.to_bits().to_ne_bytes());
    }
}

#[inline(always)]
fn tag_and_tree(owner: &Owner<'_>) -> u64 {
    u64::from(owner.tag) << 32 | u64::from(owner.tree.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(owner: &Owner<'_>, old: Old<'_>) -> Vec<u8> {
        let slot = |bits| Slot::from_bits(bits);
        let links = Links { below: slot(5), previous: slot(6), jump: slot(7), depth: u32::MAX };
        lay_out(owner, (1 << 48) - 2, old, &links, |parts| parts.concat())
    }

    #[test]
    fn a_version_reads_as_it_was_laid_out() {
        let owner = Owner { tree: TreeId(u32::MAX - 1), key: b"key", tag: 0x8000_0001 };
        let other = Owner { key: b"ke", ..owner };
        let page = PageId::MAX;
        for (old, kind) in [
            (Old::Tombstone, SeenKind::Tombstone),
            (Old::Inline(b"value"), SeenKind::Inline(3..8)),
            (Old::Inline(b""), SeenKind::Inline(3..3)),
            (Old::Extent { page, len: 1 << 30 }, SeenKind::Extent { page, len: 1 << 30 }),
        ] {
            let mut bytes = laid_out(&owner, old);
            set_below(&mut bytes, Slot::from_bits(99));
            let version = Version::of(Record { lsn: 77, bytes: &bytes }).expect("whole");
            assert!(version.belongs_to(&owner) && !version.belongs_to(&other));
            assert_eq!((version.superseded(), version.depth()), (77, u32::MAX));
            let links = [version.below(), version.previous(), version.jump()];
            assert_eq!(links.map(Slot::to_bits), [99, 6, 7]);
            let mut out = b"abc".to_vec();
            assert_eq!(version.copy_to(&mut out), Some(Seen { lsn: (1 << 48) - 2, kind }));
            let value = if let Old::Inline(value) = old { value } else { b"" };
            assert_eq!(&out[3..], value);
        }
    }

    #[test]
    fn bytes_that_are_cut_off_give_nothing() {
        let owner = Owner { tree: TreeId(1), key: b"key", tag: 3 };
        let bytes = laid_out(&owner, Old::Extent { page: PageId(9), len: 9 });
        for len in 0..bytes.len() {
            let version = Version::of(Record { lsn: 1, bytes: &bytes[..len] });
            assert!(version.and_then(|version| version.copy_to(&mut Vec::new())).is_none());
        }
    }
}
