//! YCSB, workloads A to F (Cooper et al., "Benchmarking cloud serving systems with YCSB", 2010), with the defaults of its
//! program.
//!
//! | workload | operations | records asked for |
//! |---|---|---|
//! | A | 50 % read, 50 % update | scrambled Zipf |
//! | B | 95 % read, 5 % update | scrambled Zipf |
//! | C | read | scrambled Zipf |
//! | D | 95 % read, 5 % insert | the latest most: Zipf by age |
//! | E | 95 % scan of 1 to 100 records, 5 % insert | scrambled Zipf, lengths alike |
//! | F | 50 % read, 50 % read-modify-write | scrambled Zipf |
//!
//! The exponent is 0.99. A record has ten fields of 100 bytes unless it is told otherwise, in one value; its key is
//! `user` and twenty digits that its number hashes to, so that neighbours in number are none in the store. A read or a
//! scan takes whole records. An update writes one field: it reads the record, changes it and puts it back, as one
//! transaction. A read-modify-write is a read and then an update, as in YCSB, which is not one transaction.
//!
//! What differs from the program: in E, the records asked for are those that were loaded, however many have been
//! inserted since. Nothing crosses a network.
//!
//! | module | for |
//! |---|---|
//! | `record` | keys and values |
//! | `store` | what a store has to do, and latchkv by either API; `commands/kv/ycsb.rs` has the other engines do it |
//! | `client` | which operation comes next, and doing it |
//!
//! Tested in `client`: the shares of the operations, what they ask for, and that what was written is there.

mod client;
mod record;
mod store;

pub(crate) use client::{Client, Numbers, Operation, Workload};
pub(crate) use record::{Shape, key};
pub(crate) use store::{Connected, Store, TREES, load};
