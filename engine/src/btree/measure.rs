//! For measurement only, behind the feature `measure`: descents that trust their hints.
//!
//! What verified hints cost is their distance from a descent that takes a child's frame from the parent's
//! word and asks nothing, as pointer swizzling does. It must be the same tree, the same bytes and the same
//! search code, so it is here and not in the benchmark. The shipped path does not know of this file.
//!
//! * \[M1] The caller sees to it that the tree is resident, hinted throughout and not changed meanwhile. If
//!   not, the answer is wrong; it is never undefined, since frames are bounds-checked and pages are words
//!   read atomically.

use super::Btree;
use super::descend::lines_below;
use crate::id::FrameId;
use crate::node::{ChildWord, bytes_of};
use latchkv_latch::Version;
use latchkv_latch::primitives::Ordering;
use std::cell::Cell;

thread_local! {
    static SCRATCH: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

impl Btree<'_> {
    /// As `get_with`, but hints are all there is, and how far they are trusted depends. With `VERSIONS`,
    /// frames are begun and validated, as with swizzled pointers under optimistic lock coupling; without, no
    /// frame header is looked at. With `IDENTS` as well, idents are compared: the shipped way, but without
    /// restarts, loads and repair of hints.
    ///
    /// `None`: the key is absent, its value is an extent, a page is latched, or \[M1] does not hold.
    #[inline]
    pub(crate) fn get_trusting<const VERSIONS: bool, const IDENTS: bool, R>(
        self,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut scratch = SCRATCH.take();
        let value = self.copy_trusting::<VERSIONS, IDENTS>(key, &mut scratch);
        let result = value.map(|(start, len)| f(&bytes_of(&scratch)[start..start + len]));
        SCRATCH.set(scratch);
        result
    }

    /// Place and length of the value in `scratch`.
    #[inline(always)]
    fn copy_trusting<const VERSIONS: bool, const IDENTS: bool>(
        self,
        key: &[u8],
        scratch: &mut Vec<u64>,
    ) -> Option<(usize, usize)> {
        let (mut frame, mut at) = self.begin::<VERSIONS, IDENTS>(self.root_word())?;
        loop {
            let page = self.pool.page(frame);
            if VERSIONS {
                self.pool.reference(frame);
            }
            if page.level() == 0 {
                break;
            }
            let slot = page.child_slot(page.find_child(key))?;
            // Relaxed: R2.
            let child = ChildWord(slot.load(Ordering::Relaxed));
            self.pool.prefetch(child, lines_below(page.level()));
            let next = self.begin::<VERSIONS, IDENTS>(child)?;
            self.still(frame, at)?;
            (frame, at) = next;
        }
        let page = self.pool.page(frame);
        let found = page.find(key);
        let record = page.record(found.at).filter(|_| found.exact)?;
        let start = page.copy_payload(record, scratch);
        self.still(frame, at)?;
        (!record.meta.is_extent()).then_some((start, record.meta.payload_len()))
    }

    /// The frame of a child word, and its version if versions count. `None`: no such frame, latched, or
    /// another ident.
    #[inline(always)]
    fn begin<const VERSIONS: bool, const IDENTS: bool>(
        self,
        child: ChildWord,
    ) -> Option<(FrameId, Option<Version>)> {
        if VERSIONS && IDENTS {
            return self.pool.reach_hinted(child).map(|(frame, at)| (frame, Some(at)));
        }
        let frame = child.hint();
        if frame.0 as usize >= self.pool.frame_count() {
            return None;
        }
        let at = if VERSIONS { Some(self.pool.latch(frame).try_begin()?) } else { None };
        Some((frame, at))
    }

    /// `None`: the frame changed since.
    #[inline(always)]
    fn still(self, frame: FrameId, at: Option<Version>) -> Option<()> {
        at.is_none_or(|at| self.pool.latch(frame).validate(at)).then_some(())
    }
}
