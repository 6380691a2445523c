//! What is done to a store, apart from how it is timed and printed.
//!
//! A workload draws its operations from seeds, so that several variants can be given the same ones, and does them
//! through a trait, so that it does not know whose store it is. Nothing here looks at a clock or prints.

pub(crate) mod sysbench;
pub(crate) mod tpcc;
pub(crate) mod ycsb;
pub(crate) mod zipf;
