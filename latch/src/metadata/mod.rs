//! Metadata locks: they keep the definition of a tree or a namespace as it is while somebody uses it.
//!
//! What they are for: sessions, each an [`Owner`], that use trees all the time, and now and then one that drops
//! a tree, rebuilds it, or makes a namespace read-only. What they are not: latches, or locks of data; what is
//! below is safe without them. Nor do they know names: whoever makes a [`MetadataLock`] keeps it under one.
//!
//! ```text
//!   namespace   IX  use a tree in it      S  freeze its definitions      X  change its state, drop it
//!   tree        SR  read   SW  write   SU  look, perhaps X later   SNW  read, and nobody writes   X  alone
//! ```
//!
//! The table of what goes with what is in `kind.rs`. IX, SR and SW all go with each other: they are
//! *unobtrusive*, and nearly all that is ever taken. Three ways lead to a lock:
//!
//! | way | for | costs | where it says so |
//! |---|---|---|---|
//! | a [`Ticket`], counted | IX, SR, SW, one at a time | one read-modify-write to take, one to release | a count in the lock's word |
//! | a [`Lease`] in use | IX with SR or SW, again and again | a store, a fence and two loads; a store to leave | the lease's slot |
//! | listed by the manager | the other kinds; and these, beside them | a mutex for all locks | the manager's list |
//!
//! The word has a flag, *obtrusive*: somebody holds or wants what is not unobtrusive. While it is set the first
//! two ways are shut, and everything goes through the mutex. So is who has what by the first two ways
//! already, until it leaves; it counts as a holder.
//!
//! ```text
//!   Owner ----lock----> word --counted--> Ticket
//!     |                   | obtrusive                     word.rs   the word        queue.rs    one lock's list
//!     |                   v                               owner.rs  tickets         deadlock.rs the search
//!     +---lease--> slot -----> manager -> list, queue     lease.rs  slots           manager.rs  acquire, release
//! ```
//!
//! # Invariants
//!
//! * \[MD1] Two owners never have one lock in kinds that do not go together. An owner is never in its own way.
//! * \[MD2] A word is obtrusive exactly while an obtrusive kind of its lock is held or asked for; it changes
//!   under the mutex. While it is, its counts only fall, and no lease comes into use by its slot alone.
//! * \[MD3] A list, a queue and a set of leases are looked at and changed under the mutex only.
//! * \[MD4] A lease's slot is stored to by who has the lease. It shows at least what its open uses need, or
//!   the list does.
//! * \[MD5] The slots of an owner's tickets are stored to by the owner, never while it waits. Others look at
//!   them under the mutex and while it waits; the owner took the mutex behind its last store.
//! * \[MD6] Who strengthens has the new kind before it lets the old one go.
//! * \[MD7] Who sleeps is woken by all that may let it go on: a release, a count given back, somebody before
//!   it giving up, being the victim of a deadlock. Only leaving a lease tells nobody, as it has no fence to
//!   learn that somebody waits; so who is held up by nothing but leases polls them.
//! * \[MD8] No circle of waiting owners stays (`deadlock.rs`), and nobody is passed for ever (`queue.rs`).
//!
//! Guards that are leaked keep their locks taken, and do nothing worse: what the manager lists, it keeps alive.
//!
//! # Orderings
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[MD-a] | `give_back`: word Release | `count`: Acquire | what was done with a count comes before an obtrusive grant | who has X misses a change |
//! | \[MD-b] | `clear_obtrusive`: word Release | `try_take`, `is_obtrusive`: Acquire | what was done obtrusively comes before the next use | a writer sees the old state |
//! | \[MD-c] | leave a lease: slot Release | `Slot::kind`: Acquire | as MD-a | as MD-a |
//! | \[MD-d] | use a lease: slot, `fence(SeqCst)`; `set_obtrusive`: word, `fence(SeqCst)` | the word behind the one fence, the slots behind the other | one of the two sees the other | a lease in use beside X |
//! | \[MD-e] | use a lease: slot Release | `Slot::kind`: Acquire | who has SNW beside a reader sees what that wrote before | a rebuild misses a change |
//!
//! Later looks at the slots, by any thread, come after the fence of MD-d by the mutex. All else that passes
//! between those who wait passes by the mutex too.
//!
//! # Tests
//!
//! `tables_tests.rs`: the table against its definition. `queue_tests.rs`: waiting, order, turns, deadlocks.
//! `lease_tests.rs`: leases and costs. `stress_tests.rs`: many threads against an oracle. loom models
//! `metadata::*`.
//!
//! ```
//! use latchkv_latch::metadata::{MetadataLock, MetadataLocks, ScopeKind, TreeKind};
//!
//! let locks = MetadataLocks::new();
//! let (namespace, tree) = (MetadataLock::scope(), MetadataLock::tree());
//! let session = locks.owner();
//! let other = locks.owner();
//!
//! let lease = session.lease(&namespace, &tree);
//! let writing = lease.write(None)?;
//! assert!(other.try_lock(&tree, TreeKind::Sr).is_some(), "readers and writers go together");
//! assert!(other.try_lock(&namespace, ScopeKind::X).is_none(), "the namespace is in use");
//! drop(writing);
//! assert!(other.try_lock(&namespace, ScopeKind::X).is_some());
//! # Ok::<(), latchkv_latch::metadata::LockError>(())
//! ```

mod deadlock;
mod error;
mod kind;
mod lease;
mod manager;
mod owner;
mod queue;
mod word;

pub use error::LockError;
pub use kind::{Class, Kind, ScopeKind, TreeKind};
pub use lease::{InUse, Kept, Lease};
pub use manager::{LockUsage, MetadataLocks};
pub use owner::{Owner, Ticket};
pub use word::MetadataLock;

#[cfg(all(test, not(latchkv_loom)))]
mod lease_tests;
#[cfg(all(test, not(latchkv_loom)))]
mod queue_tests;
#[cfg(all(test, not(latchkv_loom)))]
mod stress_tests;
#[cfg(all(test, not(latchkv_loom)))]
mod tables_tests;
