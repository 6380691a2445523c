//! One function for each fast path, under a name that is the same in every build, for `latchkv-bench static` to
//! find in the assembly.
//!
//! Whatever is no fast path ends in a call: the library's own slow paths are calls, and what a caller would
//! have to handle ends in `failed`. So the way from entry to return that calls nothing outside of this crate is the
//! fast path, and there is no other.
//!
//! What it is not: code that anybody runs.

use latchkv_latch::primitives::AtomicU64;
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::{Latch, Line64, PageHash};

/// Ends a path that is not the fast one.
#[cold]
#[inline(never)]
fn failed() -> ! {
    std::process::abort()
}

/// Optimistic read of one word.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_latch_optimistic(latch: &Latch, word: &AtomicU64) -> u64 {
    let at = latch.begin();
    let seen = word.load(Relaxed);
    if !latch.validate(at) {
        failed();
    }
    seen
}

/// S taken, one word read, S released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_latch_shared(latch: &Latch, word: &AtomicU64) -> u64 {
    let _shared = latch.shared();
    word.load(Relaxed)
}

/// X taken, one word stored, X released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_latch_exclusive(latch: &Latch, word: &AtomicU64) {
    let _exclusive = latch.exclusive();
    word.store(1, Relaxed);
}

/// Optimistic read of one word, X taken at that version, the word stored, X released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_latch_upgrade(latch: &Latch, word: &AtomicU64) {
    let at = latch.begin();
    let seen = word.load(Relaxed);
    let Some(_exclusive) = latch.upgrade(at) else { failed() };
    word.store(seen + 1, Relaxed);
}

/// Look-up of a page that is in its home cell, optimistic.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_cell_optimistic(hash: &PageHash<Line64>, page: u64) -> u32 {
    hash.lookup(page).unwrap_or_else(|| failed())
}

/// Look-up of a page that is in its home cell, under S: of a latch in the cell, or, by a division, of one in an
/// array apart.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_cell_shared(hash: &PageHash<Line64>, page: u64) -> u32 {
    hash.lookup_shared(page).unwrap_or_else(|| failed())
}

/// parking_lot's lock taken to read, one word read, lock released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_parking_lot_read(lock: &parking_lot::RwLock<u64>) -> u64 {
    *lock.read()
}

/// parking_lot's lock taken to write, one word stored, lock released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_parking_lot_write(lock: &parking_lot::RwLock<u64>) {
    *lock.write() = 1;
}

/// The standard library's lock taken to read, one word read, lock released.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_std_read(lock: &std::sync::RwLock<u64>) -> u64 {
    *lock.read().unwrap_or_else(|_| failed())
}

/// The standard library's lock taken to write, one word stored, lock released. Looks twice whether the thread
/// panics.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn fast_std_write(lock: &std::sync::RwLock<u64>) {
    *lock.write().unwrap_or_else(|_| failed()) = 1;
}
