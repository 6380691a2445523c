//! Keys and values as the maps of a write set have them: pointers into its arena, without a lifetime.
//!
//! The invariants [B1] and [B2] are in the module above, which alone makes and keeps them. Tested through it.

use std::cmp::Ordering;
use std::ptr::NonNull;

/// Bytes in the arena of the write set that holds this.
#[derive(Clone, Copy)]
pub(super) struct Held(NonNull<[u8]>);

// SAFETY: [B1], [B2]: plain bytes that nobody changes, owned by the write set with which this moves.
unsafe impl Send for Held {}
// SAFETY: as above; shared reading of bytes that nobody changes.
unsafe impl Sync for Held {}

impl Held {
    /// Of bytes in the arena, which [B1] and [B2] are to hold of.
    pub(super) fn of(bytes: &[u8]) -> Held {
        Held(NonNull::from(bytes))
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: [B1], [B2].
        unsafe { self.0.as_ref() }
    }
}

/// A key with its first bytes beside it, by which most comparisons are decided without a look at the arena.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// The first eight bytes, big-endian, zeros behind a shorter key.
    head: u64,
    bytes: Held,
}

impl Key {
    /// A key to look up by: not to be kept, as its bytes are the caller's.
    #[inline]
    pub(super) fn lent(bytes: &[u8]) -> Key {
        Key::of(Held::of(bytes))
    }

    #[inline]
    pub(super) fn of(held: Held) -> Key {
        let bytes = held.bytes();
        let mut head = [0; 8];
        let len = bytes.len().min(8);
        head[..len].copy_from_slice(&bytes[..len]);
        Key { head: u64::from_be_bytes(head), bytes: held }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        self.head == other.head && self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        // Zeros behind a shorter key sort it no higher than a longer one with the same head.
        self.head.cmp(&other.head).then_with(|| self.bytes().cmp(other.bytes()))
    }
}
