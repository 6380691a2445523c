//! How a page comes into a frame, is reached there, and leaves: the protocols between frame headers and page
//! hash.
//!
//! What it is for: these few steps are the ones whose order matters, so they are here, apart from I/O and
//! replacement, and loom runs them. What it is not: a pool. Free frames, reading, writing and the choice of
//! victims are the caller's.
//!
//! ```text
//!              claim (insert, ident = page)         the caller reads the page, releases X
//!   free, X --------------------------------> loading, X --------------------------------> resident
//!     ^                                           | unclaim (the read failed)                 |
//!     +-------------------------------------------+                                           |
//!     +---------------------------------------------------------------------------------------+
//!                              try_evict, or unclaim (the page is gone for good)
//! ```
//!
//! # Invariants
//!
//! * \[R1] If the hash says that frame f has page p, then `headers[f].ident` is p, or X of f is held.
//! * \[R2] `ident` changes only under X of the frame, and X is then released with the version moved.
//! * \[R3] Nobody waits for a frame while holding a cell. Waiting for a cell while holding a frame is
//!   allowed, as cells are held for a few stores only; `try_evict`, run where many frames may be held, only
//!   tries.
//!
//! Why single flight: \[R1] and the search of the hash under the cell's X let one loader enter its frame;
//! every later one finds the entry, and waits for X of that frame to end.
//!
//! Why a reader never accepts foreign bytes: it begins the frame, then compares ident, then reads, then
//! validates. By \[R2] a frame that changed its page has moved its version. Ordering rows O1 and O2 of
//! [`latch`](crate::latch).
//!
//! # Hints
//!
//! A child word carries the frame where the child was last seen. It is tried first ([`begin_hinted`]),
//! confirmed by the frame's ident, and repaired by [`repair_hint`]. The caller revalidates the *parent* after
//! it began the child: a page id may have been given to another page meanwhile.
//!
//! # Tests
//!
//! Below, and loom models `residency::*`.

use crate::backoff::Backoff;
use crate::cell::Stride;
use crate::header::FrameHeader;
use crate::latch::{Exclusive, Latch};
use crate::page_hash::PageHash;
use crate::primitives::Ordering::Relaxed;
use crate::primitives::{AtomicU64, Mutant, mutant, yield_now};
use crate::word::Version;

/// What [`lookup`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The page is in this frame, and reading has begun at this version: whatever is read, the ident that was
    /// compared included, is believed once the version has been validated.
    Resident(u32, Version),
    /// There was an instant during the call at which no frame had the page.
    Absent,
}

/// Begins to read `page` in the frame of the hint, if it is there and X is not held. No read-modify-write, no
/// waiting; a hint out of range, and a page of 0, give `None`.
#[inline(always)]
pub fn begin_hinted(headers: &[FrameHeader], page: u64, hint: u32) -> Option<(u32, Version)> {
    let header = headers.get(hint as usize)?;
    if mutant(Mutant::IdentBeforeBegin) {
        let ident = header.ident.load(Relaxed);
        return (ident == page && page != 0).then_some((hint, header.latch.try_begin()?));
    }
    let at = header.latch.try_begin()?;
    // Relaxed: it is part of what is read at `at`.
    let ident = header.ident.load(Relaxed);
    if ident == page && page != 0 { Some((hint, at)) } else { None }
}

/// Asks the hash for `page` and begins to read it; waits while it is being loaded. The caller holds no latch.
/// No read-modify-write unless it waits or the hash has its latches outside.
pub fn lookup<S: Stride>(headers: &[FrameHeader], hash: &PageHash<S>, page: u64) -> Lookup {
    let mut backoff = Backoff::new();
    loop {
        let Some(frame) = hash.lookup(page) else {
            return Lookup::Absent;
        };
        // A hash entry is always of a frame that exists; a caller with the wrong headers is told that there
        // is none.
        let Some(header) = headers.get(frame as usize) else {
            return Lookup::Absent;
        };
        let at = header.latch.begin();
        // Relaxed: it is part of what is read at `at`.
        if header.ident.load(Relaxed) == page || mutant(Mutant::LookupIgnoresIdent) {
            return Lookup::Resident(frame, at);
        }
        // By R1 the entry was on its way out, or the ident is on its way here.
        if !backoff.wait() {
            yield_now();
        }
    }
}

/// Makes a free frame, whose X the caller holds in `x`, the frame of `page`. On success the caller fills the
/// frame while everybody who looks for the page waits for `x`. If a frame has the page already, `Err` gives
/// `x` back with that frame; nothing was stored, so `release_clean` is right.
///
/// May wait for a cell. `x` must be X of `headers[frame]`.
pub fn claim<'a, S: Stride>(
    headers: &[FrameHeader],
    hash: &PageHash<S>,
    page: u64,
    frame: u32,
    x: Exclusive<'a>,
) -> Result<Exclusive<'a>, (Exclusive<'a>, u32)> {
    let header = held(headers, frame, &x);
    debug_assert_eq!(header.ident.load(Relaxed), 0, "claimed a frame that is not free");
    // First the hash, then the ident: a claim that fails has then stored nothing that a reader could have
    // seen.
    match hash.insert(page, frame) {
        Ok(()) => {
            header.ident.store(page, Relaxed);
            Ok(x)
        }
        Err(existing) => Err((x, existing)),
    }
}

/// Takes the page out of a frame whatever it takes: a load that failed, or a page that is gone for good.
/// Gives the page id; the frame is then free and unlatched. Those who waited for it look again.
///
/// May wait for a cell. `x` must be X of `headers[frame]`.
pub fn unclaim<S: Stride>(
    headers: &[FrameHeader],
    hash: &PageHash<S>,
    frame: u32,
    x: Exclusive<'_>,
) -> u64 {
    let header = held(headers, frame, &x);
    let page = header.ident.load(Relaxed);
    if page != 0 {
        let removed = hash.remove(page, frame);
        debug_assert!(removed, "R1: page {page} is in frame {frame} but not in the hash");
    }
    header.ident.store(0, Relaxed);
    drop(x);
    page
}

/// Takes the page out of a frame if that needs no waiting. Gives the page id; the frame is then free and
/// unlatched. `Err` gives `x` back if the cell is busy or the frame was free; nothing was stored, so
/// `release_clean` is right.
///
/// `x` must be X of `headers[frame]`, and the page must not be needed any more: written, if it was dirty.
pub fn try_evict<'a, S: Stride>(
    headers: &[FrameHeader],
    hash: &PageHash<S>,
    frame: u32,
    x: Exclusive<'a>,
) -> Result<u64, Exclusive<'a>> {
    let header = held(headers, frame, &x);
    let page = header.ident.load(Relaxed);
    if page == 0 {
        return Err(x);
    }
    match hash.try_remove(page, frame) {
        None => Err(x),
        Some(removed) => {
            debug_assert!(removed, "R1: page {page} is in frame {frame} but not in the hash");
            header.ident.store(0, Relaxed);
            if mutant(Mutant::EvictKeepsVersion) {
                let _ = x.release_clean();
            } else {
                // R2.
                drop(x);
            }
            Ok(page)
        }
    }
}

/// Puts a better hint into a child word: `old` becomes `new` if the parent is still at the version `at` at
/// which `old` was read. The parent's version does not move. False if it was not to be: somebody else has
/// changed the word or the parent, or holds it.
///
/// A bare compare-exchange would not do: a split may have turned the word into bytes of a key that happen to
/// be equal to `old`. Under S taken at `at` it is still the same word.
#[cold]
pub fn repair_hint(parent: &Latch, at: Version, word: &AtomicU64, old: u64, new: u64) -> bool {
    if mutant(Mutant::RepairBareCas) {
        return word.compare_exchange(old, new, Relaxed, Relaxed).is_ok();
    }
    let Some(_shared) = parent.shared_at(at) else {
        return false;
    };
    // Relaxed: a hint is a guess, and the page id beside it stays the same.
    word.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
}

/// The header whose X the caller holds.
fn held<'h>(headers: &'h [FrameHeader], frame: u32, x: &Exclusive<'_>) -> &'h FrameHeader {
    let header = &headers[frame as usize];
    debug_assert!(std::ptr::eq(x.latch(), &header.latch), "X of another frame");
    header
}

#[cfg(all(test, not(latchkv_loom)))]
mod tests {
    use super::*;
    use crate::page_hash::LatchPlacement;
    use crate::primitives::rmw_count;
    use std::thread;

    fn pool(frames: usize) -> (Vec<FrameHeader>, PageHash) {
        let headers = (0..frames).map(|_| FrameHeader::new()).collect();
        (headers, PageHash::new(frames, LatchPlacement::PerCell))
    }

    #[test]
    fn page_is_claimed_reached_and_evicted() {
        let (headers, hash) = pool(4);
        assert_eq!(lookup(&headers, &hash, 7), Lookup::Absent);
        let x = claim(&headers, &hash, 7, 2, headers[2].latch.exclusive()).expect("absent");
        assert_eq!(begin_hinted(&headers, 7, 2), None, "X is held");
        let at = x.release();
        let before = rmw_count();
        assert_eq!(begin_hinted(&headers, 7, 2), Some((2, at)));
        assert_eq!(lookup(&headers, &hash, 7), Lookup::Resident(2, at));
        assert_eq!(rmw_count(), before, "reaching a resident page writes nothing");
        assert_eq!(
            try_evict(&headers, &hash, 2, headers[2].latch.exclusive()).expect("not busy"),
            7
        );
        assert!(!headers[2].latch.validate(at));
        assert_eq!(begin_hinted(&headers, 7, 2), None);
        assert_eq!(lookup(&headers, &hash, 7), Lookup::Absent);
    }

    #[test]
    fn second_claim_gets_the_first_frame_and_its_own_latch_back() {
        let (headers, hash) = pool(4);
        drop(claim(&headers, &hash, 7, 2, headers[2].latch.exclusive()).expect("absent"));
        let at = headers[3].latch.begin();
        let (x, existing) =
            claim(&headers, &hash, 7, 3, headers[3].latch.exclusive()).expect_err("present");
        assert_eq!(existing, 2);
        assert_eq!(x.release_clean(), at);
        assert_eq!(headers[3].ident.load(Relaxed), 0);
    }

    #[test]
    fn failed_load_leaves_nothing_behind() {
        let (headers, hash) = pool(4);
        let x = claim(&headers, &hash, 7, 2, headers[2].latch.exclusive()).expect("absent");
        assert_eq!(unclaim(&headers, &hash, 2, x), 7);
        assert_eq!(lookup(&headers, &hash, 7), Lookup::Absent);
        assert_eq!(headers[2].ident.load(Relaxed), 0);
    }

    #[test]
    fn free_frames_bad_hints_and_page_zero_are_never_reached() {
        let (headers, hash) = pool(4);
        for hint in [0, 3, 4, u32::MAX] {
            assert_eq!(begin_hinted(&headers, 0, hint), None);
            assert_eq!(begin_hinted(&headers, 9, hint), None);
        }
        assert_eq!(lookup(&headers, &hash, 0), Lookup::Absent);
        assert!(try_evict(&headers, &hash, 1, headers[1].latch.exclusive()).is_err());
    }

    #[test]
    fn repair_changes_the_word_only_at_the_version_it_was_read_at() {
        let parent = Latch::new();
        let word = AtomicU64::new(10);
        let at = parent.begin();
        assert!(repair_hint(&parent, at, &word, 10, 11));
        assert!(parent.validate(at), "the version has not moved");
        assert!(!repair_hint(&parent, at, &word, 10, 12), "the word has changed");
        drop(parent.exclusive());
        assert!(!repair_hint(&parent, at, &word, 11, 12), "the parent has changed");
        assert_eq!(word.load(Relaxed), 11);
    }

    #[test]
    fn threads_that_load_and_evict_a_few_pages_in_fewer_frames_see_only_their_page() {
        const FRAMES: usize = 3;
        const PAGES: u64 = 6;
        let (headers, hash) = pool(FRAMES);
        let contents = [const { AtomicU64::new(0) }; FRAMES];
        thread::scope(|scope| {
            for seed in 0..4u64 {
                let (headers, hash, contents) = (&headers[..], &hash, &contents);
                scope.spawn(move || {
                    let mut number = seed;
                    let mut read = 0;
                    while read < 2_000 {
                        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(11);
                        let page = 1 + (number >> 33) % PAGES;
                        let frame = (number >> 50) as usize % FRAMES;
                        match lookup(headers, hash, page) {
                            Lookup::Resident(frame, at) => {
                                let seen = contents[frame as usize].load(Relaxed);
                                if headers[frame as usize].latch.validate(at) {
                                    assert_eq!(seen, page);
                                    read += 1;
                                }
                            }
                            Lookup::Absent => {
                                let Some(x) = headers[frame].latch.try_exclusive() else {
                                    continue;
                                };
                                let x = match try_evict(headers, hash, frame as u32, x) {
                                    Ok(_) => continue,
                                    Err(x) if headers[frame].ident.load(Relaxed) != 0 => {
                                        let _ = x.release_clean();
                                        continue;
                                    }
                                    Err(x) => x,
                                };
                                match claim(headers, hash, page, frame as u32, x) {
                                    Ok(x) => {
                                        contents[frame].store(page, Relaxed);
                                        drop(x);
                                    }
                                    Err((x, _)) => {
                                        let _ = x.release_clean();
                                    }
                                }
                            }
                        }
                    }
                });
            }
        });
    }
}
