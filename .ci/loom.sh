#!/usr/bin/env bash
# The loom models of every latch protocol, and their mutants. More words after it go to the test
# runner: `.ci/loom.sh --nocapture upgrade`.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/steps.sh

# The cfg flips the whole crate graph, so the models have a target directory of their own. Linking
# a dozen small programs with LTO would take longer than running them.
export RUSTFLAGS="--cfg latchkv_loom"
export CARGO_TARGET_DIR=target/loom
export CARGO_PROFILE_RELEASE_LTO=off
step "loom models" cargo test --locked -p latchkv-loom-tests --release -- "$@"
