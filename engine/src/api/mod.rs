//! The public face: thin, and all of it usable from many threads at once.
//!
//! What it is for: handles that keep the parts below alive, argument checks, the words of the errors. What it
//! is not: a place where anything is decided about pages; `catalog` and `btree` do that.
//!
//! Tested by `engine/tests`, whole, and by the examples in its documentation. `encode` has tests of its own.

mod background;
mod db;
pub mod encode;
#[cfg(test)]
mod far_tests;
#[cfg(feature = "measure")]
mod measure;
mod options;
mod range;
mod salvage;
#[cfg(test)]
mod salvage_tests;
mod stats;
mod tree;

pub use db::{CheckpointReport, Db};
pub use options::{Limits, Options};
pub use range::{Entry, Range};
pub use salvage::{Gap, Lost, Salvage, Salvaged, SalvagedTree, TreeSalvage};
pub use stats::Stats;
pub use tree::{CompareAndSwap, Tree};
