//! The public face: thin, and all of it usable from many threads at once.
//!
//! What it is for: handles that keep the parts below alive, argument checks, the words of the errors. What it
//! is not: a place where anything is decided about pages or commits; `catalog`, `btree` and `txn` do that.
//!
//! Tested by `engine/tests`, whole, and by the examples in its documentation. `encode` has tests of its own.

mod background;
mod backup;
mod batch;
mod db;
mod definitions;
pub mod encode;
#[cfg(test)]
mod far_tests;
mod log_reader;
#[cfg(feature = "measure")]
mod measure;
mod options;
mod range;
mod reader;
mod salvage;
#[cfg(test)]
mod salvage_tests;
mod shared;
mod slow;
mod snapshot;
mod stats;
mod transaction;
mod transaction_range;
mod tree;
mod watch;

pub use backup::BackupReport;
pub use batch::WriteBatch;
pub use db::{CheckpointReport, Db};
pub use log_reader::{LogEnd, LogReader, LoggedKind, LoggedOp, LoggedRecord};
pub use options::{Limits, Options};
pub use range::{Entry, Range};
pub use reader::ReadAt;
pub use salvage::{Gap, Lost, Salvage, Salvaged, SalvagedTree, TreeSalvage};
pub(crate) use shared::Attachment;
pub use slow::SlowReader;
pub use snapshot::{Lsn, Snapshot};
pub use stats::Stats;
pub use transaction::{Isolation, Transaction, TransactionOptions};
pub use transaction_range::TransactionRange;
pub use tree::{CompareAndSwap, Tree};
pub use watch::Watch;
