//! What the numbers were measured on.

use crate::emulation;
use serde_json::{Value, json};
use std::fs::read_to_string;
use std::path::Path;
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
    // The better of two, before and after: the first may run on a core that has yet to raise its clock.
    let before = spin(Instant::now() + FOR);
    let until = Instant::now() + FOR;
    let together: u64 = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().spawn_scoped(scope, move || spin(until));
        let threads: Vec<_> = (0..cores).filter_map(|_| thread().ok()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    let alone = spin(Instant::now() + FOR).max(before).max(1);
    (together as f64 / alone as f64 * 100.0).round() / 100.0
}

/// Threads that can run at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores of ARM that servers have: implementer and part, as the architecture numbers them.
const ARM_PARTS: [(&str, &str, &str); 5] = [
    ("0x48", "0xd01", "HiSilicon TSV110 (Kunpeng 920)"),
    ("0x41", "0xd0c", "ARM Neoverse N1"),
    ("0x41", "0xd40", "ARM Neoverse V1"),
    ("0x41", "0xd49", "ARM Neoverse N2"),
    ("0x41", "0xd4f", "ARM Neoverse V2"),
];

/// The processor's name: what the kernel says, or on ARM, where it says none, what the numbers stand for.
fn cpu_name(cpuinfo: &str) -> String {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    if let Some(name) = value("model name") {
        return name.to_owned();
    }
    let Some((implementer, part)) = value("CPU implementer").zip(value("CPU part")) else {
        return "not told".into();
    };
    let known = ARM_PARTS.iter().find(|known| (known.0, known.1) == (implementer, part));
    match known {
        Some((_, _, name)) => (*name).to_owned(),
        None => format!("ARM, implementer {implementer}, part {part}"),
    }
}

/// Type and device of the file system that `path` lies on, of those that /proc/self/mountinfo lists.
///
/// ```text
/// 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw
///                  5th                              ^ type device, behind a lone hyphen
/// ```
fn file_system(path: &Path, mountinfo: &str) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, what) = line.split_once(" - ")?;
        // Blanks in paths are written as octal numbers.
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        path.starts_with(&point).then(|| (Path::new(&point).components().count(), what.to_owned()))
    });
    // The longest is where it lies; of equals the last was mounted over the others.
    let (_, what) = mounts.max_by_key(|(length, _)| *length)?;
    let mut words = what.split(' ');
    Some(format!("{}, {}", words.next()?, words.next()?))
}

/// The machine, how busy it is, what `dir` lies on, and how the program was built.
pub(crate) fn describe(dir: &Path) -> Value {
    let cpu = cpu_name(&read_to_string("/proc/cpuinfo").unwrap_or_default());
    let cores = cores();
    // What is not there yet will lie where its parent does.
    let place = dir.ancestors().find_map(|dir| dir.canonicalize().ok());
    let mounts = read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let file_system = place.and_then(|place| file_system(&place, &mounts));
    let governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "system": first_line("/proc/sys/kernel/ostype"),
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "cpu": cpu,
        "cores": cores,
        "cores_that_run_in_parallel": parallel_cores(cores),
        "emulated": emulation::emulated(),
        "governor": if governor.is_empty() { "not told".into() } else { governor },
        "file_system": file_system.unwrap_or_else(|| "not told".into()),
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
    fn cores_of_servers_on_arm_have_names() {
        let arm = |implementer: &str, part: &str| {
            cpu_name(&format!(
                "processor\t: 0\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n"
            ))
        };
        assert!(arm("0x48", "0xd01").contains("Kunpeng 920"));
        assert_eq!(arm("0x41", "0xd0c"), "ARM Neoverse N1");
        assert_eq!(arm("0x61", "0x022"), "ARM, implementer 0x61, part 0x022");
        assert_eq!(cpu_name("processor\t: 0\nmodel name\t: Some CPU\n"), "Some CPU");
        assert_eq!(cpu_name(""), "not told");
    }

    #[test]
    fn a_directory_lies_on_the_file_system_that_is_mounted_nearest() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      30 22 0:25 / /tmp rw,nosuid shared:5 - tmpfs none rw\n\
                      31 22 0:26 / /mnt/a\\040disk rw - xfs /dev/sdb rw\n";
        let of = |path: &str| file_system(Path::new(path), mounts);
        assert_eq!(of("/home/a").as_deref(), Some("ext4, /dev/sda1"));
        assert_eq!(of("/tmp/b").as_deref(), Some("tmpfs, none"));
        assert_eq!(of("/tmpfile").as_deref(), Some("ext4, /dev/sda1"));
        assert_eq!(of("/mnt/a disk/c").as_deref(), Some("xfs, /dev/sdb"));
        assert_eq!(file_system(Path::new("/"), ""), None);
    }

    #[test]
    fn at_least_a_part_of_a_core_runs() {
        let parallel = parallel_cores(2);
        assert!(parallel > 0.0, "{parallel}");
    }
}
