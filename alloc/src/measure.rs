//! For measurement only, behind the feature `measure`: no part of the API, and free to change or go.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What [`ask_for_each_piece`] said last.
static EACH: AtomicBool = AtomicBool::new(false);

/// From now on, arenas without a block ask the global allocator for each piece, and give all of them back as they give
/// back blocks; or no longer. Arenas that have a block go on with it. For all threads.
#[doc(hidden)]
pub fn ask_for_each_piece(on: bool) {
    // Relaxed: who measures sets it before the work begins, on the same thread or one that it starts.
    EACH.store(on, Relaxed);
}

/// Whether they do.
pub(crate) fn asks_for_each_piece() -> bool {
    // Relaxed: as above.
    EACH.load(Relaxed)
}
