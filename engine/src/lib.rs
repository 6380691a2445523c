//! latchkv: an embedded, concurrent key-value storage engine.
//!
//! A database is a directory with named trees in it, each an ordered map from byte strings to byte strings.
//! Readers of pages in memory take no latch and do no read-modify-write; writers of different leaves do not
//! meet; a checkpoint makes one consistent state durable without overwriting the last.
//!
//! ```
//! # fn main() -> latchkv::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! let db = latchkv::Db::open(&path)?;
//! let fruit = db.tree("fruit")?;
//! fruit.put("apple", "red")?;
//! fruit.put("banana", "yellow")?;
//! for entry in fruit.iter().rev() {
//!     let entry = entry?;
//!     println!("{} is {}", entry.key().escape_ascii(), entry.value().escape_ascii());
//! }
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The layers, each using only those below it: [`api`](Db), `check`, `catalog`, `btree`, `pool`, `node`,
//! `store`, [`io`]. ARCHITECTURE.md says how they fit.

mod api;
mod check;
mod catalog;
mod btree;
mod pool;
mod node;
mod store;
pub mod io;
mod error;
mod id;

pub use api::encode;
pub use api::{CheckpointReport, CompareAndSwap, Db, Entry, Limits, Options, Range, Stats, Tree};
pub use api::{Gap, Lost, Salvage, Salvaged, SalvagedTree, TreeSalvage};
pub use check::{CheckProgress, CheckReport};
pub use error::{Corruption, Denied, Error, OpenError, Result, Usage};
pub use id::{BLOCK_BYTES, BlockId, Epoch, FrameId, PageId, TreeId};
pub use io::{Backend, BackendReport};
pub use pool::{PageHashLatches, PoolStats};
pub use store::StoreUsage;
