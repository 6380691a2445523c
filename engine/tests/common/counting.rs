//! An allocator that counts, for tests that bound memory or allocations. It counts for the test binary that
//! declares it:
//!
//! ```text
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting::new();
//! ```
//!
//! Exact for [`allocations`], which each thread counts for itself. Bytes are those of all threads, so tests
//! that bound them run one after another or leave room.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}
static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Heap allocations of the calling thread so far.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes of the heap that all threads have in use.
pub(crate) fn in_use_bytes() -> usize {
    IN_USE_BYTES.load(Ordering::Relaxed)
}

/// The most that was in use since [`reset_peak_bytes`].
pub(crate) fn peak_bytes() -> usize {
    PEAK_BYTES.load(Ordering::Relaxed)
}

/// Lets the peak begin anew, from what is in use.
pub(crate) fn reset_peak_bytes() {
    PEAK_BYTES.store(in_use_bytes(), Ordering::Relaxed);
}

/// The system's allocator, counted.
pub(crate) struct Counting {
    request_bytes_max: usize,
}

impl Counting {
    /// Passes every request on.
    pub(crate) const fn new() -> Counting {
        Counting::refusing_over(usize::MAX)
    }

    /// Fails requests beyond a number of bytes, so that an absurd one ends the test.
    pub(crate) const fn refusing_over(request_bytes_max: usize) -> Counting {
        Counting { request_bytes_max }
    }
}

// SAFETY: all memory comes from `System` and goes back to it with the layout it was asked for; the counters
// are plain atomics and a thread-local without a destructor, which allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > self.request_bytes_max {
            return std::ptr::null_mut();
        }
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        let now = IN_USE_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `ptr` came from `System` by `alloc` above, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}
