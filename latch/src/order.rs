//! The end of the latch order, checked: nobody parks while it holds a cell of the page hash.
//!
//! Cells come last in the order (gate, frames top-down and left-to-right, cell), so a thread that holds one
//! must never wait for anything: it may only try. A debug build counts the cells that each thread holds and
//! panics before it would park. Release builds and loom (whose threads share one thread of the operating
//! system) check nothing.

#[cfg(all(debug_assertions, not(latchkv_loom)))]
thread_local! {
    static CELLS_HELD: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
}

/// Says that this thread holds a cell, for as long as it lives.
#[derive(Debug)]
pub(crate) struct HoldsCell {
    /// The count is of the thread that made this.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl HoldsCell {
    #[inline(always)]
    pub(crate) fn new() -> HoldsCell {
        #[cfg(all(debug_assertions, not(latchkv_loom)))]
        CELLS_HELD.with(|held| held.set(held.get() + 1));
        HoldsCell { _not_send: std::marker::PhantomData }
    }
}

impl Drop for HoldsCell {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(latchkv_loom)))]
        CELLS_HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Panics, in debug builds, if this thread holds a cell.
#[inline(always)]
pub(crate) fn assert_may_park() {
    #[cfg(all(debug_assertions, not(latchkv_loom)))]
    CELLS_HELD.with(|held| {
        assert_eq!(held.get(), 0, "latch order: about to wait for a latch while holding a cell");
    });
}

#[cfg(all(test, debug_assertions, not(latchkv_loom)))]
mod tests {
    use super::*;
    use crate::Latch;

    #[test]
    #[should_panic(expected = "latch order")]
    fn waiting_for_a_latch_while_holding_a_cell_panics() {
        let latch = Latch::new();
        let held = latch.exclusive();
        let _cell = HoldsCell::new();
        let at = latch.begin();
        drop(held);
        let _ = at;
    }
}
