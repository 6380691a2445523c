//! Hands down how the program was built, so that every report can say it.

use std::process::Command;

fn main() {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(var("RUSTC")).arg("--version").output();
    let rustc = rustc.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!("cargo::rustc-env=BENCH_RUSTC={}", rustc.unwrap_or_default());
    println!("cargo::rustc-env=BENCH_TARGET={}", var("TARGET"));
    println!("cargo::rustc-env=BENCH_PROFILE={} opt-level={}", var("PROFILE"), var("OPT_LEVEL"));
    println!("cargo::rustc-env=BENCH_FEATURES={}", var("CARGO_CFG_TARGET_FEATURE"));
    let flags = var("CARGO_ENCODED_RUSTFLAGS").replace('\x1f', " ");
    println!("cargo::rustc-env=BENCH_RUSTFLAGS={flags}");
    println!("cargo::rerun-if-changed=build.rs");
}
