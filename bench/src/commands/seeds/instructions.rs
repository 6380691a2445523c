//! Instructions of an operation, by callgrind.
//!
//! ```text
//! seeds --instructions            ---valgrind---->   seeds --count alloc
//!                                                      for each benchmark and way:
//!   reads the total of each  <---- files ---------       load, warm up, counted_by_callgrind { operations }
//! ```
//!
//! callgrind collects only inside [`counted_by_callgrind`] (`--toggle-collect`), on the one thread that runs it, so loading
//! and opening do not show, and writes a file each time that has returned (`--dump-after`). The number differs from run to
//! run only by what is random in the work: addresses, and what it does for background threads. It says nothing about
//! memory: a missed cache line is one instruction.
//!
//! Tested below, but for valgrind itself.

use super::{Experiment, alloc, name_hash, page_hash, privilege};
use crate::Fail;
use crate::workloads::sysbench::Micro;
use clap::ValueEnum;
use std::path::Path;
use std::process::{Command, Stdio};

/// Rows of the table, or records of the tree, while instructions are counted.
pub(super) const ROWS: u32 = 5_000;

/// Operations that are counted, where each looks at one row.
pub(super) const OPERATIONS: usize = 1_000;

/// Events of a microbenchmark that are counted.
pub(super) fn events(micro: Micro) -> usize {
    (OPERATIONS / micro.rows_an_event()).max(20)
}

/// Does `work`, which callgrind counts. Not inlined: it is found by its name, which with debug information is all that
/// callgrind has of it.
#[inline(never)]
pub(super) fn counted_by_callgrind(
    work: &mut dyn FnMut() -> Result<u64, Fail>,
) -> Result<u64, Fail> {
    std::hint::black_box(work())
}

/// Whether valgrind is there; says so if it is not.
pub(super) fn can_be_counted() -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("\ninstructions are not counted: install valgrind (Debian: apt install valgrind)");
    }
    found
}

/// What a child does: all ways of an experiment, in the order in which [`of`] gives them.
pub(super) fn count(experiment: Experiment, dir: &Path) -> Result<(), Fail> {
    match experiment {
        Experiment::Privilege => privilege::count(dir),
        Experiment::PageHash => page_hash::count(dir),
        Experiment::Alloc => alloc::count(dir),
        Experiment::NameHash => name_hash::count(dir),
    }
}

/// Instructions of each call of [`counted_by_callgrind`] in an experiment, in their order.
///
/// # Errors
/// A child that fails, with what it said; fewer files of callgrind than calls.
pub(super) fn of(experiment: Experiment, calls: usize, dir: &Path) -> Result<Vec<u64>, Fail> {
    let value = experiment.to_possible_value().expect("no experiment is hidden");
    let name = value.get_name();
    let files = tempfile::tempdir_in(dir)?;
    let file = files.path().join("callgrind");
    let function = "*counted_by_callgrind";
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--dump-after={function}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args(["seeds", "--count", name, "--dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("counting {name} failed: {}", said.trim()).into());
    }
    let counted = |call: usize| {
        let file = file.with_extension(call.to_string());
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        let total = total(&text).filter(|&total| total > 0);
        total.ok_or_else(|| Fail::from(format!("callgrind has counted nothing in call {call}")))
    };
    (1..=calls).map(counted).collect()
}

/// The instructions of all functions in a file of callgrind.
fn total(file: &str) -> Option<u64> {
    let total = |line: &str| line.strip_prefix("totals:")?.split_whitespace().next()?.parse().ok();
    file.lines().find_map(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_a_file_of_callgrind() {
        let file = "version: 1\nevents: Ir\nsummary: 12\n\nfn=(1) main\n3 4\n\ntotals: 4711\n";
        assert_eq!(total(file), Some(4711));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn each_experiment_can_be_counted() {
        for &experiment in Experiment::value_variants() {
            let dir = tempfile::tempdir().expect("a directory");
            count(experiment, dir.path()).expect("runs");
        }
    }
}
