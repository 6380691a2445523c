//! The one switch between the processor and loom: every atomic, fence, wait and wake of a protocol comes from
//! here.
//!
//! What it is for: protocol code (in this crate and in the engine) names `primitives::AtomicU64` and so runs
//! both as machine code and under loom's exhaustive scheduler, unchanged. What it is not: a portability
//! layer. There is one real backend and one model.
//!
//! The methods of the atomics are the same in both, and written once, in `forward.rs`.
//!
//! | | normal build (`real.rs`) | `--cfg latchkv_loom` (`model.rs`) |
//! |---|---|---|
//! | atomics | `#[repr(transparent)]` over `core`, forwarded inline | loom's |
//! | `rmw_count` | counts read-modify-writes of the thread in debug builds | always 0 |
//! | `park`, `wake_all` | `parking_lot_core`, keyed by address | one loom mutex and condvar |
//! | `Mutex`, `Condvar` | `std`'s, without poisoning | loom's; no deadline passes |
//! | `mutant` | `const fn`, false: folds away | a process-wide choice of the running test |
//! | `trace` | with the feature of that name: writes accesses down | none |
//!
//! Invariants that unsafe code elsewhere may stand on, in a normal build:
//!
//! * \[P1] `AtomicU64`, `AtomicU32`, `AtomicUsize` and `AtomicBool` have the size, alignment and validity of
//!   the `core` atomic of that name, so zeroed memory holds valid zeroes (false).
//!
//! Tested by the unit tests below and by everything above.

mod mutant;
pub use mutant::Mutant;

#[macro_use]
mod forward;

#[cfg(all(feature = "trace", not(latchkv_loom)))]
pub mod trace;

#[cfg(not(latchkv_loom))]
mod real;
#[cfg(not(latchkv_loom))]
pub use real::*;

#[cfg(latchkv_loom)]
mod model;
#[cfg(latchkv_loom)]
pub use model::*;

pub use core::sync::atomic::Ordering;
