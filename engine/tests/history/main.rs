//! Isolation, shown in two ways: by the anomalies that the literature names, one script each, and by random
//! concurrent histories that a checker searches for them.
//!
//! ```text
//! anomalies     scripts of two or three transactions, what each level allows in one table
//!
//! workload, lane ---> history ---> digest ---> checker, graph    from values alone: versions, cycles
//!                                    |
//!                                    +-------> replay            from lsns: each read is of the state it names
//!
//! concurrent    histories in roomy databases and in such as are short of everything
//! crashes       power cuts in the middle: a prefix is found, with all that was acknowledged
//! ```
//!
//! A value is written once, and most keys hold lists that transactions append to, so that a list tells the order
//! in which its versions were made. The checker believes nothing else that the database says; the replay believes
//! the lsns too, and is exact. Both have to find hand-made histories of each kind that are wrong: `checker_tests`,
//! `replay_tests`.
//!
//! `LATCHKV_TEST_SCALE` makes more histories (in percent); `LATCHKV_TEST_SEED` others. The interleaving of threads
//! is not part of the seed.

mod anomalies;
mod checker;
mod checker_tests;
#[path = "../common/mod.rs"]
mod common;
mod concurrent;
mod crashes;
mod digest;
mod graph;
mod history;
mod lane;
mod replay;
mod replay_tests;
mod workload;
