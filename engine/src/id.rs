//! The names of things: one newtype each, so that a page is never mistaken for a frame or a block.

use std::fmt;

/// Bytes of one disk block, the unit in which `data` is given out. Independent of the page size and of
/// the memory page of the operating system.
pub const BLOCK_BYTES: usize = 4096;

/// Smallest tree page, in bytes.
pub(crate) const PAGE_BYTES_MIN: usize = 4 << 10;
/// Greatest tree page, in bytes.
pub(crate) const PAGE_BYTES_MAX: usize = 64 << 10;

/// A page of the page map: a tree page or a large value. 40 bits; 0 names nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PageId(pub u64);

impl PageId {
    /// Names nothing: an empty child slot, a free frame.
    pub const NONE: PageId = PageId(0);
    /// The root of the catalog tree in every database.
    pub const CATALOG: PageId = PageId(1);
    /// Greatest page id that fits a child word.
    pub const MAX: PageId = PageId((1 << 40) - 1);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in memory that holds one tree page. 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(pub u32);

impl FrameId {
    /// Greatest number of frames of a pool; the id above it is the hint that hints at nothing.
    pub const COUNT_MAX: usize = (1 << 24) - 1;
    /// The hint that hints at nothing.
    pub const NO_HINT: FrameId = FrameId((1 << 24) - 1);
}

/// A place in `data`, in units of [`BLOCK_BYTES`] from its start. 40 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockId(pub u64);

impl BlockId {
    /// Byte offset in `data`.
    pub fn offset(self) -> u64 {
        self.0 * BLOCK_BYTES as u64
    }
}

/// A tree, for as long as the database lives; names may change, ids do not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TreeId(pub u32);

impl TreeId {
    /// The catalog.
    pub const CATALOG: TreeId = TreeId(0);
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The interval between two checkpoints. Starts at 1; 0 means "clean" where a dirty epoch is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);
