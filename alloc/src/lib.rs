//! Memory of latchkv: three arenas for three lifetimes.
//!
//! An engine that lives on fixed memory needs three kinds, and the general allocator fits none of them:
//!
//! - [`Region`]: one mapping for the whole life of the pool, in huge pages where the system grants them;
//! - [`Bump`]: what one operation or write set needs, handed out by moving a pointer and dropped as a whole;
//! - [`SegmentArena`]: versions in the order in which they become useless, dropped a segment at a time. A
//!   [`SegmentSource`] gives it memory, and mapped temporary files once a budget is used up.
//!
//! No type here knows pages, trees or logs, and none runs destructors of what is stored in it.

mod bump;
mod exhausted;
#[cfg(feature = "measure")]
mod measure;
mod region;
mod segments;
mod segment_source;
mod spill;

pub use bump::Bump;
pub use exhausted::Exhausted;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub use measure::ask_for_each_piece;
pub use region::{HugePages, REGION_ALIGN, Region, RegionOptions, page_bytes};
pub use segment_source::SegmentSource;
pub use segments::{Record, SEGMENT_BYTES_MAX, SegmentArena, Slot};
