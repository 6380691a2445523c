//! The assembly of the fast paths for a processor: finds a compiler that has the standard library of the target, and
//! runs Cargo with it.

use super::assembly::Arch;
use crate::Fail;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The package that has the fast paths, and its library.
const PACKAGE: &str = "latchkv-fast-paths";
const LIBRARY: &str = "latchkv_fast_paths";

/// A compiler for an instruction set.
#[derive(Clone, Debug)]
pub(crate) struct Compiler {
    pub(crate) arch: Arch,
    program: PathBuf,
    pub(crate) version: String,
    /// Processors that it can compile for.
    processors: Vec<String>,
}

impl Arch {
    pub(crate) const ALL: [Arch; 2] = [Arch::Aarch64, Arch::X86_64];

    fn target(self) -> &'static str {
        match self {
            Arch::Aarch64 => "aarch64-unknown-linux-gnu",
            Arch::X86_64 => "x86_64-unknown-linux-gnu",
        }
    }

    /// The Debian package with the standard library, for the compiler of rustc-web.
    fn package(self) -> &'static str {
        match self {
            Arch::Aarch64 => "libstd-rust-web-dev:arm64",
            Arch::X86_64 => "libstd-rust-web-dev:amd64",
        }
    }
}

/// What a program prints, if it is there and succeeds.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

impl Compiler {
    /// The first of the usual compiler and Debian's that has the standard library.
    ///
    /// # Errors
    /// One that says what to install.
    pub(crate) fn find(arch: Arch) -> Result<Compiler, Fail> {
        let usual = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let programs = [PathBuf::from(usual), PathBuf::from("/usr/bin/rustc")];
        programs.into_iter().find_map(|program| Compiler::at(program, arch)).ok_or_else(|| {
            format!(
                "no Rust compiler here has the standard library for {target}: install {}, {}; \
                 or: rustup target add {target}",
                "rustc-web",
                arch.package(),
                target = arch.target(),
            )
            .into()
        })
    }

    fn at(program: PathBuf, arch: Arch) -> Option<Compiler> {
        let print = |what: &str| {
            printed(Command::new(&program).args(["--target", arch.target(), "--print", what]))
        };
        let libraries = print("target-libdir")?;
        let is_core = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
        };
        std::fs::read_dir(libraries.trim()).ok()?.any(is_core).then_some(())?;
        let processors = listed(&print("target-cpus")?);
        let version = printed(Command::new(&program).arg("--version"))?.trim().to_owned();
        Some(Compiler { arch, program, version, processors })
    }

    pub(crate) fn knows(&self, cpu: &str) -> bool {
        self.processors.iter().any(|known| known == cpu)
    }

    /// The assembly of the fast paths for `cpu`. What is built goes to `target_dir`.
    pub(crate) fn assembly(
        &self,
        workspace: &Path,
        target_dir: &Path,
        cpu: &str,
    ) -> Result<String, Fail> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output: Output = Command::new(cargo)
            .current_dir(workspace)
            .args(["rustc", "--quiet", "--locked", "--release", "--lib", "-p", PACKAGE])
            .args(["--target", self.arch.target(), "--target-dir"])
            .arg(target_dir)
            .args(["--", "--emit=asm", "-Ccodegen-units=1", "-Cdebuginfo=0"])
            .arg(format!("-Ctarget-cpu={cpu}"))
            .env("RUSTC", &self.program)
            // A library is not linked; with these, the compiler would leave the machine code to the linker.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .map_err(|error| format!("cargo cannot be run: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the fast paths do not compile for {cpu}:\n{said}").into());
        }
        let dir = target_dir.join(self.arch.target()).join("release/deps");
        let file = newest(&dir)?;
        Ok(std::fs::read_to_string(file)?)
    }
}

/// The newest assembly of the library in `dir`: flags make names, so there may be one for each processor.
fn newest(dir: &Path) -> Result<PathBuf, Fail> {
    let mut newest = None;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(LIBRARY) && name.ends_with(".s") {
            newest = newest.max(Some((entry.metadata()?.modified()?, entry.path())));
        }
    }
    let missing = || format!("the compiler left no assembly in {}", dir.display());
    Ok(newest.ok_or_else(missing)?.1)
}

/// The names in what `rustc --print target-cpus` prints: the first word of each indented line.
fn listed(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| line.starts_with(' '));
    lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_from_the_compilers_list() {
        let printed = "Available CPUs for this target:\n    native    - Select the CPU (currently \
                       znver3).\n    tsv110\n    x86-64-v3\n";
        assert_eq!(listed(printed), ["native", "tsv110", "x86-64-v3"]);
    }

    #[test]
    fn a_compiler_that_is_not_there_is_passed_over() {
        assert!(Compiler::at("/nonexistent/rustc".into(), Arch::Aarch64).is_none());
    }
}
