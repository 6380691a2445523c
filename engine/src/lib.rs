//! latchkv: an embedded, concurrent key-value storage engine.
//!
//! A database is a directory with named trees in it, each an ordered map from byte strings to byte strings.
//! Readers of pages in memory take no latch and do no read-modify-write; writers of different leaves do not
//! meet; a checkpoint makes one consistent state durable without overwriting the last, and a log has what was
//! committed since. [Transactions](Transaction), [batches](WriteBatch) and single calls are commits alike; a
//! [`Snapshot`] reads one state for as long as it likes.
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
//! The layers, each using only those below it: [`session`](Session), `accounts`, [`api`](Db), `recovery`, `check`, `txn`,
//! `catalog`, `btree`, `versions`, `pool`, `log`, `node`, `store`, [`io`], [`name`](Name). ARCHITECTURE.md says how they
//! fit.

mod session;
mod accounts;
mod api;
mod recovery;
mod check;
mod txn;
mod catalog;
mod btree;
mod versions;
mod pool;
mod log;
mod node;
mod store;
pub mod io;
mod name;
mod error;
mod id;

pub use accounts::{AccountInfo, AccountName, Object, PasswordCost, ReadOnly, Rights};
pub use api::encode;
pub use api::{
    BackupReport, CheckpointReport, CompareAndSwap, Db, Entry, Isolation, Limits, Lsn, Options,
    Range, ReadAt, SlowReader, Snapshot, Stats, Transaction, TransactionOptions, TransactionRange,
    Tree, Watch, WriteBatch,
};
pub use api::{Gap, Lost, Salvage, Salvaged, SalvagedTree, TreeSalvage};
pub use api::{LogEnd, LogReader, LoggedKind, LoggedOp, LoggedRecord};
pub use check::{CheckProgress, CheckReport};
pub use error::{Corruption, Denied, Error, OpenError, Result, Usage};
pub use id::{BLOCK_BYTES, BlockId, Epoch, FrameId, PageId, TreeId};
pub use io::{Backend, BackendReport};
pub use latchkv_latch::metadata::{LockError, LockUsage};
pub use log::{Durability, LogUsage};
#[cfg(feature = "measure")]
#[doc(hidden)]
pub use name::hash_of_part;
#[doc(hidden)]
pub use name::names_hashed;
pub use name::{AsName, Name, NameRef};
pub use pool::{PageHashLatches, PoolStats};
pub use recovery::RecoveryProgress;
pub use session::{
    AuditEvent, AuditKind, Policy, Session, SessionBatch, SessionOptions, SessionRange,
    SessionSnapshot, SessionTransaction, SessionTree, SessionWatch, Sessions,
};
pub use store::StoreUsage;
pub use txn::{Event, Savepoint, SnapshotUsage};
