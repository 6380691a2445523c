//! What the numbers were measured on.

use crate::emulation;
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::time::{Duration, Instant};

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

/// Load averages over 1, 5 and 15 minutes, and what runs now, as Linux tells them.
pub(crate) fn load_average() -> String {
    first_line("/proc/loadavg")
}

/// How many threads ran at the same time, of as many as the system says it has processors: the work that
/// all of them did in a tenth of a second, over the work of one alone. Below the number of cores others use the
/// machine, or the cores share what they run on.
fn parallel_cores(cores: usize) -> f64 {
    fn spin(until: Instant) -> u64 {
        let (mut turns, mut word) = (0, 1_u64);
        while Instant::now() < until {
            for _ in 0..1000 {
                word = std::hint::black_box(word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word >> 29);
            }
            turns += 1;
        }
        turns
    }
    const FOR: Duration = Duration::from_millis(100);
    let alone = spin(Instant::now() + FOR).max(1);
    let until = Instant::now() + FOR;
    let together: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(move || spin(until))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    (together as f64 / alone as f64 * 100.0).round() / 100.0
}

/// The machine, how busy it is, and how the program was built.
pub(crate) fn describe() -> Value {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "not told".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        "system": first_line("/proc/sys/kernel/ostype"),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "cpu": cpu,
        "cores": cores,
        "cores_that_run_in_parallel": parallel_cores(cores),
        "emulated": emulation::emulated(),
        "governor": if governor.is_empty() { "not told".into() } else { governor },
        "memory": field("/proc/meminfo", "MemTotal"),
        "transparent_huge_pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load_average": load_average(),
        "rustc": env!("BENCH_RUSTC"),
        "target": env!("BENCH_TARGET"),
        "target_features": env!("BENCH_FEATURES"),
        "profile": env!("BENCH_PROFILE"),
        "rustflags": env!("BENCH_RUSTFLAGS"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_a_part_of_a_core_runs() {
        let parallel = parallel_cores(2);
        assert!(parallel > 0.0, "{parallel}");
    }
}
