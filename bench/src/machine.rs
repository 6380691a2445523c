//! What the numbers were measured on.

use serde_json::{Value, json};
use std::fs::read_to_string;

fn first_line(path: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// The value behind `name:` in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A field of /proc/self/status in bytes, as `VmRSS` and `VmHWM`.
pub(crate) fn status_bytes(name: &str) -> Option<u64> {
    let kib: u64 = field("/proc/self/status", name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The machine, how busy it is, and how the program was built.
pub(crate) fn describe() -> Value {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "not told".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "system": first_line("/proc/sys/kernel/ostype"),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "cpu": cpu,
        "cores": cores,
        "memory": field("/proc/meminfo", "MemTotal"),
        "transparent_huge_pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_average": first_line("/proc/loadavg"),
        "rustc": env!("BENCH_RUSTC"),
        "target": env!("BENCH_TARGET"),
        "profile": env!("BENCH_PROFILE"),
        "rustflags": env!("BENCH_RUSTFLAGS"),
    })
}
