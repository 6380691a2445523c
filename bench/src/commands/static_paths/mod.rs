//! What the fast paths are as machine code, for processors that need not be here.
//!
//! ```text
//! bench/fast-paths --cargo rustc--> assembly --fast_path--> instructions --llvm-mca--> micro-operations, cycles
//! ```
//!
//! Instructions and atomics are counted, and exact; micro-operations and cycles are what LLVM's model of the
//! pipeline says, with every load a hit in the first cache and atomics without what they wait for. So the rows of one
//! processor can be compared where they have as many atomics, and the columns of processors hardly at all.
//!
//! [`assembly`] says what the fast path of a function is, [`mca`] what the model is told.

mod assembly;
mod compile;
mod mca;

use crate::Fail;
use crate::progress;
use crate::report::{Cell, Output, Report, Table};
use assembly::{Arch, Assembly, Effect, Instruction};
use compile::Compiler;
use mca::Cost;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Options of `static`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Processors, as the compiler calls them
    #[arg(long, value_delimiter = ',', default_values_t = ["tsv110", "neoverse-n1", "x86-64-v3"].map(String::from))]
    cpu: Vec<String>,
    /// The program llvm-mca; a newer one knows more processors
    #[arg(long, value_name = "PROGRAM", default_value = "llvm-mca")]
    llvm_mca: PathBuf,
    /// The sources of latchkv
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    workspace: PathBuf,
    /// Also print the instructions
    #[arg(long)]
    listing: bool,
    #[command(flatten)]
    output: Output,
}

/// A fast path: a function of the package, and what has to be on the way on ARM64 and on x86-64.
struct Subject {
    what: &'static str,
    function: &'static str,
    through: [&'static [&'static str]; 2],
}

const fn subject(what: &'static str, function: &'static str) -> Subject {
    Subject { what, function, through: [&[], &[]] }
}

const SUBJECTS: [Subject; 11] = [
    subject("latch, optimistic", "fast_latch_optimistic"),
    subject("latch, shared", "fast_latch_shared"),
    subject("latch, exclusive", "fast_latch_exclusive"),
    subject("latch, upgrade", "fast_latch_upgrade"),
    // Pages that are none come back before the multiplication that finds the cell.
    Subject {
        through: [&["mul"], &["imul"]],
        ..subject("look-up, cell read", "fast_cell_optimistic")
    },
    Subject {
        through: [&["mul", "cas"], &["imul", "lock"]],
        ..subject("look-up, cell shared", "fast_cell_shared")
    },
    // A latch apart is chosen by a remainder, and nothing else divides.
    Subject {
        through: [&["udiv", "cas"], &["div", "lock"]],
        ..subject("look-up, latches apart", "fast_cell_shared")
    },
    subject("parking_lot, read", "fast_parking_lot_read"),
    subject("parking_lot, write", "fast_parking_lot_write"),
    subject("std, read", "fast_std_read"),
    subject("std, write", "fast_std_write"),
];

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if !args.workspace.join("bench/fast-paths/Cargo.toml").exists() {
        let dir = args.workspace.display();
        return Err(format!(
            "the sources of latchkv are not in {dir}: say where they are by --workspace"
        )
        .into());
    }
    let version = mca_version(&args.llvm_mca)?;
    let compilers: Vec<Compiler> =
        Arch::ALL.into_iter().filter_map(|arch| Compiler::find(arch).ok()).collect();
    let chosen: Vec<(&str, &Compiler)> =
        args.cpu.iter().map(|cpu| choose(cpu, &compilers)).collect::<Result<_, Fail>>()?;
    let options = json!({ "cpu": args.cpu, "llvm_mca": version, "quick": args.output.quick });
    let mut report = Report::start("static", options, &args.output)?;
    let scratch = args.output.scratch()?;
    for (cpu, compiler) in chosen {
        let bar = progress::bar(SUBJECTS.len() as u64, format!("compile for {cpu}"));
        let text = compiler.assembly(&args.workspace, scratch.path(), cpu)?;
        let assembly = Assembly::parse(&text, compiler.arch);
        let mut rows = Vec::new();
        for subject in &SUBJECTS {
            rows.push(Row::of(subject, &assembly, compiler.arch, cpu, &args.llvm_mca));
            bar.step();
        }
        drop(bar);
        report.table(&table(cpu, compiler, &rows))?;
        if args.listing {
            rows.iter().for_each(Row::print);
        }
    }
    report.finish()
}

/// A compiler for `cpu`.
fn choose<'a>(cpu: &'a str, compilers: &'a [Compiler]) -> Result<(&'a str, &'a Compiler), Fail> {
    if let Some(compiler) = compilers.iter().find(|compiler| compiler.knows(cpu)) {
        return Ok((cpu, compiler));
    }
    // The one that is missing may be the one that would know it.
    for arch in Arch::ALL {
        Compiler::find(arch)?;
    }
    Err(format!("no compiler here knows the processor {cpu}: rustc --print target-cpus lists them")
        .into())
}

/// The line of `llvm-mca --version` that has it.
fn mca_version(program: &Path) -> Result<String, Fail> {
    let output = std::process::Command::new(program)
        .arg("--version")
        .output()
        .map_err(|error| mca::missing(program, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("version"));
    Ok(line.unwrap_or("not told").trim().to_owned())
}

/// What was found out of a subject.
struct Row<'s> {
    subject: &'s Subject,
    /// `None` if it has none: a processor whose atomics are calls, say.
    path: Option<Vec<Instruction>>,
    cost: Result<Cost, String>,
}

impl<'s> Row<'s> {
    fn of(
        subject: &'s Subject,
        assembly: &Assembly,
        arch: Arch,
        cpu: &str,
        program: &Path,
    ) -> Row<'s> {
        let through = match arch {
            Arch::Aarch64 => subject.through[0],
            Arch::X86_64 => subject.through[1],
        };
        let path = assembly.fast_path(subject.function, through);
        let cost = match &path {
            Some(path) => mca::cost(program, arch, cpu, path).map_err(|error| error.to_string()),
            None => Err("every way calls code that is elsewhere".into()),
        };
        Row { subject, path, cost }
    }

    fn count(&self, effect: Effect) -> Option<usize> {
        let path = self.path.as_ref()?;
        Some(path.iter().filter(|instruction| instruction.effect == effect).count())
    }

    fn print(&self) {
        println!("\n{}", self.subject.what);
        for instruction in self.path.iter().flatten() {
            println!("    {}", instruction.text);
        }
    }
}

fn table(cpu: &str, compiler: &Compiler, rows: &[Row<'_>]) -> Table {
    let costs = || rows.iter().filter_map(|row| row.cost.as_ref().ok());
    let model = costs().next().map_or("none", |cost| &cost.model);
    let mut note = format!("{}; model {model}", compiler.version);
    if costs().any(|cost| cost.as_first) {
        note += ", which knows no LSE atomics: each is priced as an exclusive load and store, ldapr as ldar";
    }
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.cost.as_ref().err()?))) {
        note += &format!("; {}: {why}", row.subject.what);
    }
    let columns = [
        "fast path",
        "instructions",
        "of the frame",
        "atomic RMWs",
        "fences",
        "ordered accesses",
        "micro-operations",
        "cycles alone",
        "cycles repeated",
    ];
    let mut table =
        Table::new(format!("fast paths on {cpu}"), &columns).note(note).keyed_by(1).all_told();
    for row in rows {
        let cost = |of: fn(&Cost) -> f64| Cell::from(row.cost.as_ref().ok().map(of));
        table.push([
            Cell::from(row.subject.what),
            row.path.as_ref().map(Vec::len).into(),
            row.count(Effect::Frame).into(),
            row.count(Effect::Rmw).into(),
            row.count(Effect::Fence).into(),
            row.count(Effect::Ordered).into(),
            cost(|cost| cost.micro_ops),
            cost(|cost| cost.cycles_alone),
            cost(|cost| cost.cycles_repeated),
        ]);
    }
    table
}
