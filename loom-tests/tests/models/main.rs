//! All models, in one program: see the crate's head for how to run them.

#![cfg(latchkv_loom)]

mod clean_and_downgrade;
mod commit;
mod exclusion;
mod gate;
mod log_ring;
mod metadata;
mod mutants;
mod page_hash;
mod primitives;
mod residency;
mod seqlock;
mod setup;
mod snapshots;
mod upgrade;
