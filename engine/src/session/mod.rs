//! Sessions: the plain API for accounts that log in, with rights, read-only namespaces and online definitions.
//!
//! What it is for: many users of one embedded database that must not do everything. What it is not: a wall around the
//! files, or around the program; who calls the plain API may do all but change system trees.
//!
//! ```text
//!   Db --sessions--> Sessions --login--> Session --tree--> SessionTree, SessionTransaction, SessionRange ..
//!                       |                   |                   |
//!                 accounts, locks,       owner of           OpenTree: lease, rights of an epoch
//!                 names, audit        metadata locks
//! ```
//!
//! | module | for |
//! |---|---|
//! | `sessions` | what all sessions share; logging in |
//! | `handle` | who a session is; its trees; what it is denied |
//! | `open` | the short way to a yes: lease, state, epoch, rights |
//! | `names` | locks of trees, locks and states of namespaces |
//! | `tree`, `range`, `watch`, `transaction` | what the plain API gives, asked for |
//! | `define` | definitions, through metadata locks |
//! | `admin` | changes of accounts; care of the database |
//! | `audit` | what happened |
//!
//! * [S1] A write is inside its lease, or its lock, from before it looks at the state of the namespace until it is
//!   committed; who changes the state holds the namespace's X from before that is committed until the state in memory
//!   is changed. So no write straddles a change.
//! * [S2] Rights are those of an epoch, and each call compares the epoch: a change of accounts that has returned is seen
//!   by the next call of every session. So is a tree that was renamed, by either API: rights go by names. A
//!   transaction looks again when it commits.
//! * [S3] A state that cannot be read counts as [`ReadOnly::Yes`](crate::ReadOnly).
//!
//! [S1] is model-checked in `loom-tests` (`metadata::*`). The rest is shown by `engine/tests/sessions`, where every call
//! is made under both policies.

mod sessions;
mod handle;
mod open;
mod names;
mod tree;
mod range;
mod watch;
mod transaction;
mod define;
mod admin;
mod audit;

pub use audit::{AuditEvent, AuditKind};
pub use handle::Session;
pub use range::SessionRange;
pub use sessions::{Policy, SessionOptions, Sessions};
pub use transaction::{SessionBatch, SessionSnapshot, SessionTransaction};
pub use tree::SessionTree;
pub use watch::SessionWatch;
