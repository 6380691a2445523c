//! Whether the processor that runs this is a program: then times say how fast that program is, and nothing else.
//!
//! Three questions, the first that is answered by yes counts:
//!
//! 1. Which program does the *kernel* run? An emulator of user programs (qemu-user, box64, Rosetta), and valgrind
//!    too, answers `/proc/self/exe` with the name of what it emulates, for itself as for everybody; we ask
//!    through `/proc/thread-self`, which goes to the kernel. Another file than the one that we are told we are
//!    was put between, and a file for another architecture can only be an emulator.
//! 2. Does `/proc/cpuinfo` describe a processor of the architecture that this was compiled for?
//! 3. Does the processor say that it is emulated? Whole machines in qemu without KVM do, by their names.
//!
//! What it is not: a search for virtual machines. Those run on the processor itself.
//!
//! Unit tests give each question what files say here and there; that the whole works in emulation shows when
//! this runs there.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Machines of ELF headers, as `elf.h` numbers them, beside Rust's names for them.
const ELF_MACHINES: [(u16, &str); 5] =
    [(3, "x86"), (40, "arm"), (62, "x86_64"), (183, "aarch64"), (243, "riscv64")];

/// What emulates this processor, or runs this program in steps of its own; `None` if it seems to be the
/// processor itself.
pub(crate) fn emulated() -> Option<String> {
    let runner = Path::new("/proc/thread-self/exe");
    let told = std::fs::read_link("/proc/self/exe").ok();
    let real = std::fs::read_link(runner).ok();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    run_by(told.as_deref(), real.as_deref(), elf_machine(runner))
        .or_else(|| other_processor(std::env::consts::ARCH, &cpuinfo))
        .or_else(|| names_itself(&cpuinfo))
}

/// The machine that the ELF file at `path` is for.
fn elf_machine(path: &Path) -> Option<u16> {
    let mut head = [0; 20];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    // Bytes 18 and 19 of an ELF file, in the order that byte 5 says.
    let machine = [head[18], head[19]];
    match (&head[..4], head[5]) {
        (b"\x7fELF", 1) => Some(u16::from_le_bytes(machine)),
        (b"\x7fELF", 2) => Some(u16::from_be_bytes(machine)),
        _ => None,
    }
}

/// Question 1, of the program that we are told is ours and the one that the kernel runs.
fn run_by(told: Option<&Path>, real: Option<&Path>, machine: Option<u16>) -> Option<String> {
    let name = real.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "another program".into());
    let arch = std::env::consts::ARCH;
    if let Some((_, other)) = ELF_MACHINES.iter().find(|(number, _)| Some(*number) == machine)
        && *other != arch
    {
        return Some(format!("{name}, a program for {other}, runs this one for {arch}"));
    }
    if told.is_some() && real.is_some() && told != real {
        return Some(format!("{name} runs this program in steps of its own"));
    }
    None
}

/// Question 2: `arch` is Rust's name of the one that was compiled for.
fn other_processor(arch: &str, cpuinfo: &str) -> Option<String> {
    let has = |name: &str| cpuinfo.lines().any(|line| line.starts_with(name));
    let is = if has("vendor_id") && has("flags") {
        "x86_64"
    } else if has("CPU implementer") {
        "aarch64"
    } else {
        return None;
    };
    if matches!(arch, "x86_64" | "aarch64") && arch != is {
        return Some(format!("this program is for {arch}, and the processor one of {is}"));
    }
    None
}

/// Question 3: names that qemu gives processors that it emulates. ARM keeps implementer 0 for software.
fn names_itself(cpuinfo: &str) -> Option<String> {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim())
    };
    if let Some(model) = value("model name").filter(|model| model.contains("TCG")) {
        return Some(format!("the processor says that it is {model}"));
    }
    let software = value("CPU implementer").filter(|&number| matches!(number, "0x0" | "0x00"));
    software.map(|_| "the processor says that it is software (implementer 0)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str =
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu\n";
    const ARM: &str = "processor\t: 0\nBogoMIPS\t: 200.00\nCPU implementer\t: 0x48\n";

    #[test]
    fn a_program_for_another_architecture_between_the_kernel_and_us_is_an_emulator() {
        let other = if std::env::consts::ARCH == "riscv64" { 62 } else { 243 };
        let here = Path::new("/bin/bench");
        let said = run_by(Some(here), Some(Path::new("/usr/bin/qemu-x")), Some(other));
        assert!(said.is_some_and(|said| said.starts_with("qemu-x, a program for")));
        // Even one that hides its name.
        assert!(run_by(Some(here), Some(here), Some(other)).is_some());
    }

    #[test]
    fn a_program_between_the_kernel_and_us_is_told() {
        let (told, real) = (Path::new("/bin/bench"), Path::new("/usr/lib/callgrind-amd64-linux"));
        assert!(
            run_by(Some(told), Some(real), None).is_some_and(|said| said.contains("callgrind"))
        );
        assert_eq!(run_by(Some(told), Some(told), None), None);
        assert_eq!(run_by(None, None, None), None);
    }

    #[test]
    fn a_processor_of_another_architecture_is_told() {
        assert_eq!(other_processor("x86_64", X86), None);
        assert_eq!(other_processor("aarch64", ARM), None);
        assert!(other_processor("aarch64", X86).is_some());
        assert!(other_processor("x86_64", ARM).is_some());
        assert_eq!(other_processor("riscv64", "hart\t: 0\n"), None);
    }

    #[test]
    fn a_processor_that_says_it_is_software_is_believed() {
        assert_eq!(names_itself(X86), None);
        assert_eq!(names_itself(ARM), None);
        assert!(names_itself(&ARM.replace("0x48", "0x00")).is_some());
        assert!(names_itself(&X86.replace("Xeon", "QEMU TCG CPU version 2.5+")).is_some());
    }

    #[test]
    fn this_program_is_an_elf_file_for_this_architecture() {
        let machine = elf_machine(Path::new("/proc/self/exe"));
        let arch = ELF_MACHINES.iter().find(|(number, _)| Some(*number) == machine);
        assert_eq!(arch.map(|&(_, name)| name), Some(std::env::consts::ARCH));
    }
}
