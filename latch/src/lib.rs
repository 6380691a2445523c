//! Latches, parking, the page hash, and the protocols of commits and snapshots of latchkv.
//!
//! **The problem.** Every step down a B+-tree asks two questions: is this page still what I think it is, and
//! where in memory is it? Asked with an ordinary read-write lock, each question writes to a cache line that
//! every other processor wants too. Here a reader writes nothing: it notes a version, reads, and looks
//! whether the version moved. Commits and snapshots ask the same way for little: a commit takes its place in
//! the log with one read-modify-write, and a snapshot begins with none.
//!
//! **What is here**, in order of descent:
//!
//! * [`residency`]: how a page becomes resident, is reached and leaves: the protocols over the two structures
//!   below;
//! * [`page_hash`]: page -> frame, made of cache-line [`cell`]s with a latch each;
//! * [`header`]: the 64 bytes that say what a frame holds;
//! * [`gate`]: lets writers in by a plain store, and lets a checkpoint shut them out;
//! * [`metadata`]: locks that keep definitions as they are while somebody uses them;
//! * [`log_ring`]: the log's memory: gives commits their lsns, and knows what is copied, applied, written;
//! * [`snapshots`]: what readers may still ask for, and so what may be dropped;
//! * [`latch`]: one word, held optimistically, shared or exclusively; its bits are in `word`;
//! * [`per_thread`], [`mod@thread_index`], [`backoff`], [`prefetch`]: small things the above stand on; `hint`,
//!   with the feature `measure` only, has other ways to wait, for measurements;
//! * [`primitives`]: the atomics, and the switch to loom.
//!
//! No I/O and no engine types: a page is a `u64` below 2^40, a frame a `u32` below 2^24 - 1, an lsn a `u64`
//! below 2^48.
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
#[cfg(all(feature = "measure", not(latchkv_loom)))]
pub mod hint;
pub mod latch;
pub mod log_ring;
pub mod metadata;
mod order;
pub mod page_hash;
pub mod per_thread;
pub mod prefetch;
pub mod primitives;
pub mod residency;
pub mod snapshots;
mod spare;
pub mod thread_index;
mod word;

pub use cell::{Line64, Line64Padded128, Line128, Stride};
pub use gate::{ClosedGate, Gate, Inside};
pub use header::FrameHeader;
pub use latch::{Exclusive, Latch, Shared};
pub use log_ring::{LogRing, RECORD_BYTES_MIN};
pub use page_hash::{LatchPlacement, PageHash};
pub use per_thread::PerThread;
pub use snapshots::{SnapshotSlot, Snapshots};
pub use thread_index::thread_index;
pub use word::Version;
