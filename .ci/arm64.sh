#!/usr/bin/env bash
# ARM64: built for Kunpeng 920 (tsv110) by Debian's cross tools, and tested in emulation.
#
# rustup's toolchain has no standard library for ARM64, Debian has: rustc-web of amd64 compiles,
# libstd-rust-web-dev of arm64 is its standard library. Cargo stays rustup's.
#
# Emulation shows that the code is right for ARM64's instructions, sizes and alignments, and, since
# it refuses io_uring, that the other backends carry everything. It shows neither speed nor faults of
# memory ordering, as it runs on the ordering of this processor: those are what loom looks for.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/steps.sh

packages() {
    dpkg --print-foreign-architectures | grep -qx arm64 || as_root dpkg --add-architecture arm64
    ensure_packages rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    $RUSTC --version
    qemu-aarch64 --version | sed -n 1p
}

target=aarch64-unknown-linux-gnu
export RUSTC=/usr/bin/rustc
export CARGO_TARGET_DIR=target/arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# No `-L /usr/aarch64-linux-gnu`: it would take the loader from libc6-arm64-cross and the C library
# from libc6:arm64, which libstd-rust-web-dev brings. They are of different releases, and a program
# made of both loops when it starts its first thread.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-cpu=tsv110"
# Percent of the size that tests have on the processor itself.
export LATCHKV_TEST_SCALE=${LATCHKV_TEST_SCALE:-10}
export PROPTEST_CASES=${PROPTEST_CASES:-32}

emulated_tests() {
    # Examples in the documentation have run on this processor already.
    cargo test --locked --target $target --lib --tests \
        -p latchkv-latch -p latchkv-alloc -p latchkv
}

programs() {
    cargo build --locked --target $target -p latchkv-cli
    # Beside it the program of this machine, unless it is built already.
    env -u RUSTC CARGO_TARGET_DIR=target cargo build --locked --release -p latchkv-cli
}

step "ARM64 packages" packages
step "ARM64 tests in emulation" emulated_tests
step "programs of both architectures" programs
step "files move between architectures" bash .ci/cross-files.sh \
    target/release/latchkv "$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER target/arm64/$target/debug/latchkv"
