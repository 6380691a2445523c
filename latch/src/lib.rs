//! Latches, parking and the page hash of latchkv.
//!
//! **The problem.** Every step down a B+-tree asks two questions: is this page still what I think it is, and
//! where in memory is it? Asked with an ordinary read-write lock, each question writes to a cache line that
//! every other processor wants too. Here a reader writes nothing: it notes a version, reads, and looks
//! whether the version moved.
//!
//! **What is here**, in order of descent:
//!
//! * [`residency`]: how a page becomes resident, is reached and leaves: the protocols over the two structures
//!   below;
//! * [`page_hash`]: page -> frame, made of cache-line [`cell`]s with a latch each;
//! * [`header`]: the 64 bytes that say what a frame holds;
//! * [`gate`]: lets writers in by a plain store, and lets a checkpoint shut them out;
//! * [`latch`]: one word, held optimistically, shared or exclusively; its bits are in `word`;
//! * [`mod@thread_index`], [`backoff`], [`prefetch`]: small things the above stand on;
//! * [`primitives`]: the atomics, and the switch to loom.
//!
//! No I/O and no engine types: a page is a `u64` below 2^40, a frame a `u32` below 2^24 - 1.
//!
//! **How it is tested.** Unit tests here run with real threads. The crate `latchkv-loom-tests` runs the same
//! code, not a copy, under loom with `--cfg latchkv_loom`, and each model again with mutants that it must
//! notice.
//!
//! ```
//! use latchkv_latch::Latch;
//! use latchkv_latch::primitives::{AtomicU64, Ordering::Relaxed};
//!
//! let latch = Latch::new();
//! let word = AtomicU64::new(1);
//!
//! let at = latch.begin();
//! let seen = word.load(Relaxed);
//! assert!(latch.validate(at), "nobody wrote in between, so `seen` can be believed");
//!
//! let x = latch.upgrade(at).expect("the version has not moved");
//! word.store(seen + 1, Relaxed);
//! drop(x);
//! assert!(!latch.validate(at));
//! ```

pub mod backoff;
pub mod cell;
pub mod gate;
pub mod header;
pub mod latch;
mod order;
pub mod page_hash;
pub mod prefetch;
pub mod primitives;
pub mod residency;
mod spare;
pub mod thread_index;
mod word;

pub use cell::{Line64, Line64Padded128, Line128, Stride};
pub use gate::{ClosedGate, Gate, Inside};
pub use header::FrameHeader;
pub use latch::{Exclusive, Latch, Shared};
pub use page_hash::{LatchPlacement, PageHash};
pub use thread_index::thread_index;
pub use word::Version;
