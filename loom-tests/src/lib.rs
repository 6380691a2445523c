//! Loom models of the protocols of `latchkv-latch`, and the mutants that prove that the models can fail.
//!
//! The models run the crate's own code: `--cfg latchkv_loom` changes only what its `primitives` stand for.
//! Without that cfg this crate and its tests are empty.
//!
//! ```text
//! RUSTFLAGS="--cfg latchkv_loom" CARGO_TARGET_DIR=target/loom cargo test -p latchkv-loom-tests --release
//! ```
//!
//! Each file in `tests/models/` is one protocol, each test in it one edge, and its comment says what it would
//! falsify. A test runs its model unchanged, which must hold, and then with each of its mutants, which must
//! fail: `check`. The file `mutants.rs` looks that every mutant is used.
//!
//! What loom explores: every interleaving with at most so many preemptions, and every value that a Relaxed
//! load may return. What it does not: load buffering, spurious failures of weak compare-exchanges, more than
//! four threads beside the main one. It does not know that a read-modify-write comes right behind the store
//! that it read, so that one may seem to come after later plain stores to the same word. Its `fence(SeqCst)`
//! is modelled; a SeqCst access would not be, and there is none.

#![cfg(latchkv_loom)]

use latchkv_latch::primitives::{Mutant, set_mutant};
use std::env;
use std::process::Command;

/// Says to a child process which of the mutants of its test it runs.
const MUTANT_INDEX: &str = "LATCHKV_MUTANT_INDEX";

/// Explores `model` with at most `preemptions` preemptions in one execution: it must hold as the code is, and
/// fail with each of `mutants`. To be called once, from a test.
///
/// A mutant runs in a child process of the same test, as a model that fails unwinds through latches that are
/// held, and what they do in an execution that is over may abort.
///
/// # Panics
///
/// If the model fails, or holds under a mutant.
pub fn check(preemptions: usize, mutants: &[Mutant], model: fn()) {
    if let Ok(index) = env::var(MUTANT_INDEX) {
        let index: usize = index.parse().expect("the parent gave a number");
        set_mutant(mutants[index]);
        return explore(preemptions, model);
    }
    explore(preemptions, model);
    let test = std::thread::current().name().expect("a test's thread has its name").to_owned();
    for (index, mutant) in mutants.iter().enumerate() {
        let output = Command::new(env::current_exe().expect("the test runs"))
            .args(["--exact", &test, "--nocapture", "--test-threads=1"])
            .env(MUTANT_INDEX, index.to_string())
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("the test can be run again");
        let said = String::from_utf8_lossy(&output.stderr);
        let noticed = !output.status.success() && said.contains("panicked at");
        assert!(noticed, "the model does not notice {mutant:?}\n{said}");
    }
}

fn explore(preemptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
