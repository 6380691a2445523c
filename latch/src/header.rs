//! The header of a frame: 64 bytes, in an array of its own, so that a page's identity costs one line to
//! check.
//!
//! ```text
//! word  0       1       2             3       4 .. 7
//!       latch   ident   dirty_epoch   clock   spare
//! ```
//!
//! * \[H1] All-zero bytes are a valid header: free, unlatched, clean. An array may lie in zeroed memory.
//! * \[H2] `ident` and `dirty_epoch` are stored only under X of `latch`, with Relaxed: the latch
//!   orders them as it orders the words of the page. A load without S or X is believed only after validation,
//!   or is a guess that something else confirms.
//! * \[H3] `clock` is stored by anyone with Relaxed. It is advice to the replacement and protects nothing.

use crate::latch::Latch;
use crate::primitives::AtomicU64;

/// What a frame holds, and the latch of both.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct FrameHeader {
    /// Protects the header and the page in the frame.
    pub latch: Latch,
    /// Page id, 0 while the frame is free. Stored under X.
    pub ident: AtomicU64,
    /// Epoch in which the page was first changed since it was last written, 0 while clean. Stored under X.
    pub dirty_epoch: AtomicU64,
    /// Reference, probation and inner bits, as the replacement defines them. Stored by anyone.
    pub clock: AtomicU64,
    /// Room for more, 0. Stored under X.
    pub spare: [AtomicU64; 4],
}

#[cfg(not(latchkv_loom))]
const _: () = assert!(size_of::<FrameHeader>() == 64 && align_of::<FrameHeader>() == 64);

impl FrameHeader {
    /// A free frame.
    #[cfg(not(latchkv_loom))]
    pub const fn new() -> FrameHeader {
        FrameHeader {
            latch: Latch::new(),
            ident: AtomicU64::new(0),
            dirty_epoch: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            spare: [const { AtomicU64::new(0) }; 4],
        }
    }

    /// A free frame.
    #[cfg(latchkv_loom)]
    pub fn new() -> FrameHeader {
        FrameHeader::default()
    }
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;
    use crate::primitives::Ordering::Relaxed;

    #[test]
    fn zeroed_memory_is_a_free_unlatched_header() {
        // SAFETY: [H1].
        let header: FrameHeader = unsafe { std::mem::zeroed() };
        assert_eq!(header.ident.load(Relaxed), 0);
        assert!(header.latch.try_exclusive().is_some());
    }
}
