//! Instructions of an operation, by callgrind.
//!
//! ```text
//! seeds --instructions            ---valgrind---->   seeds --count alloc/arena/read-only
//!   reads the total  <---- file ----------------       load, warm up, counted { operations }
//! ```
//!
//! callgrind collects only inside [`counted`] (`--toggle-collect`), on the one thread that runs it, so loading and opening
//! do not show. The number differs from run to run only by what is random in the work: addresses, and what it does for
//! background threads. It says nothing about memory: a missed cache line is one instruction.

use super::alloc::{self, Source};
use super::name_hash::{self, Hashing};
use super::page_hash::{self, Place};
use super::privilege::{self, Check};
use crate::Fail;
use crate::workloads::sysbench::Micro;
use clap::ValueEnum;
use std::path::Path;
use std::process::{Command, Stdio};

/// Rows of the table, or records of the tree, while instructions are counted.
pub(super) const ROWS: u32 = 5_000;

/// One thing to be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Privilege(Check, Micro),
    PageHash(Place),
    Alloc(Source, Micro),
    NameHash(Hashing),
}

impl What {
    /// Operations that are counted.
    fn operations(self) -> usize {
        let rows = match self {
            What::Privilege(_, micro) | What::Alloc(_, micro) => micro.rows_an_event(),
            What::PageHash(_) => 20,
            What::NameHash(_) => 1,
        };
        (1_000 / rows).max(20)
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Privilege(check, micro) => write!(f, "privilege/{}/{}", name(check), name(micro)),
            What::PageHash(place) => write!(f, "page-hash/{}", name(place)),
            What::Alloc(source, micro) => write!(f, "alloc/{}/{}", name(source), name(micro)),
            What::NameHash(hashing) => write!(f, "name-hash/{}", name(hashing)),
        }
    }
}

impl std::str::FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<What, String> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            ["privilege", check, micro] => {
                Ok(What::Privilege(Check::from_str(check, false)?, Micro::from_str(micro, false)?))
            }
            ["page-hash", place] => Ok(What::PageHash(Place::from_str(place, false)?)),
            ["alloc", source, micro] => {
                Ok(What::Alloc(Source::from_str(source, false)?, Micro::from_str(micro, false)?))
            }
            ["name-hash", hashing] => Ok(What::NameHash(Hashing::from_str(hashing, false)?)),
            _ => Err("an experiment, a way and, but for page-hash and name-hash, a microbenchmark"
                .into()),
        }
    }
}

/// Does `work`, which callgrind counts. Not inlined: it is found by its name.
#[inline(never)]
pub(super) fn counted(work: &mut dyn FnMut() -> Result<u64, Fail>) -> Result<u64, Fail> {
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

/// What a child does.
pub(super) fn count(what: What, dir: &Path) -> Result<(), Fail> {
    let operations = what.operations();
    let sum = match what {
        What::Privilege(check, micro) => privilege::count(check, micro, operations, dir)?,
        What::PageHash(place) => page_hash::count(place, operations, dir)?,
        What::Alloc(source, micro) => alloc::count(source, micro, operations, dir)?,
        What::NameHash(hashing) => name_hash::count(hashing, operations, dir)?,
    };
    println!("{what}, {operations} operations, sum {sum}");
    Ok(())
}

/// Instructions of an operation.
///
/// # Errors
/// A child that fails, with what it said; a file of callgrind without a total.
pub(super) fn of(what: What, dir: &Path) -> Result<f64, Fail> {
    let file = dir.join("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*seeds*instructions*counted*")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe()?)
        .args(["seeds", "--count", &what.to_string(), "--dir"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("counting {what} failed: {}", said.trim()).into());
    }
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    let total = total(&text).filter(|&total| total > 0);
    let total = total.ok_or_else(|| format!("callgrind has counted nothing of {what}"))?;
    Ok(total as f64 / what.operations() as f64)
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
    fn what_is_counted_is_named_and_read_back() {
        let every = [
            What::Privilege(Check::Eager, Micro::ReadWrite100),
            What::PageHash(Place::Apart16384),
            What::Alloc(Source::Arena, Micro::PointSelect),
            What::NameHash(Hashing::Ready),
        ];
        for what in every {
            assert_eq!(what.to_string().parse(), Ok(what));
        }
        for bad in ["", "alloc", "alloc/arena", "alloc/arena/none", "name-hash/ready/insert"] {
            assert!(bad.parse::<What>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_total_is_read_from_a_file_of_callgrind() {
        let file = "version: 1\nevents: Ir\nsummary: 12\n\nfn=(1) main\n3 4\n\ntotals: 4711\n";
        assert_eq!(total(file), Some(4711));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn each_thing_that_is_counted_can_be_done() {
        let ways = [Check::Eager, Check::Lazy].map(|way| What::Privilege(way, Micro::WriteOnly));
        let sources = <Source as ValueEnum>::value_variants().iter();
        let sources = sources.map(|&source| What::Alloc(source, Micro::ReadWrite10));
        let hashings = <Hashing as ValueEnum>::value_variants().iter();
        let hashings = hashings.map(|&hashing| What::NameHash(hashing));
        let places = <Place as ValueEnum>::value_variants().iter();
        let places = places.map(|&place| What::PageHash(place));
        for what in ways.into_iter().chain(places).chain(sources).chain(hashings) {
            let dir = tempfile::tempdir().expect("a directory");
            count(what, dir.path()).expect("runs");
        }
    }
}
