//! The public face: thin, and all of it usable from many threads at once.

mod background;
mod db;
pub mod encode;
#[cfg(feature = "measure")]
mod measure;
mod options;
mod range;
mod stats;
mod tree;

pub use db::{CheckpointReport, Db};
pub use options::{Limits, Options};
pub use range::{Entry, Range};
pub use stats::Stats;
pub use tree::{CompareAndSwap, Tree};
