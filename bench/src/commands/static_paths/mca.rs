//! What LLVM's model of a processor's pipeline makes of a few instructions: runs `llvm-mca` and reads its JSON.
//!
//! The model knows ports, latencies and widths. It does not know branches (what is fed is one way, laid out
//! straight), caches (every load hits), nor what an atomic or a barrier waits for. Calls and returns are left out,
//! for it would guess them at a hundred cycles, and so is the frame of a function, for it has no idea of how
//! processors handle a stack, and the path has no frame where it is inlined.
//!
//! Many models of ARM64 processors know no instruction younger than the first ARM64. Where llvm-mca refuses a path, it
//! is asked again with each LSE atomic as the pair of exclusive load and store that does the same, once, and `ldapr`
//! as `ldar`; the answer says so.
//!
//! Tested on a recorded answer for each of two processors.

use super::assembly::{Arch, Effect, Flow, Instruction};
use crate::Fail;
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// How often the path is run through for the repeated figure.
const ITERATIONS: u32 = 100;

/// What the model says of one run through a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Micro-operations.
    pub(crate) micro_ops: f64,
    /// Cycles of the path alone, from the first instruction to the last one done.
    pub(crate) cycles_alone: f64,
    /// Cycles a time if it is repeated without end and each time may overlap the one before.
    pub(crate) cycles_repeated: f64,
    /// LSE atomics were given as exclusive pairs, and `ldapr` as `ldar`.
    pub(crate) as_first: bool,
    /// The model that LLVM has for the processor, by the name of its parts. Not always the processor's own.
    pub(crate) model: String,
}

impl Arch {
    /// As llvm-mca calls it.
    fn march(self) -> &'static str {
        match self {
            Arch::Aarch64 => "aarch64",
            Arch::X86_64 => "x86-64",
        }
    }
}

/// Asks `program` about a path on `cpu`.
///
/// # Errors
/// If it cannot be run, or does not know the processor or an instruction.
pub(crate) fn cost(
    program: &Path,
    arch: Arch,
    cpu: &str,
    path: &[Instruction],
) -> Result<Cost, Fail> {
    let as_printed = fed(path, |text| text.to_owned());
    let (text, as_first, repeated) = match ask(program, arch, cpu, &as_printed, ITERATIONS) {
        Ok(answer) => (as_printed, false, answer),
        Err(error) => {
            let firsts = fed(path, |text| first(text).unwrap_or_else(|| text.to_owned()));
            if arch != Arch::Aarch64 || firsts == as_printed {
                return Err(error);
            }
            let answer = ask(program, arch, cpu, &firsts, ITERATIONS)?;
            (firsts, true, answer)
        }
    };
    let alone = ask(program, arch, cpu, &text, 1)?;
    Ok(Cost {
        micro_ops: repeated.micro_ops,
        cycles_alone: alone.cycles,
        cycles_repeated: repeated.cycles,
        as_first,
        model: repeated.model,
    })
}

/// Part of an answer, an iteration.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    micro_ops: f64,
    cycles: f64,
    model: String,
}

fn ask(program: &Path, arch: Arch, cpu: &str, text: &str, iterations: u32) -> Result<Answer, Fail> {
    let mut child = Command::new(program)
        .args([format!("-march={}", arch.march()), format!("-mcpu={cpu}")])
        .args(["--json", &format!("-iterations={iterations}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(program, &error))?;
    let mut input = child.stdin.take().ok_or("llvm-mca has no standard input")?;
    // It reads all of its input before it writes anything. One that ended early says why on its way out.
    let _ = input.write_all(text.as_bytes());
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let first = said.lines().next().unwrap_or("it does not say why").trim();
        return Err(format!("{} refuses {cpu}: {first}", program.display()).into());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// What the model is told: all but calls, returns and frame, each as `told` says.
fn fed(path: &[Instruction], told: impl Fn(&str) -> String) -> String {
    let is_fed = |one: &&Instruction| {
        !matches!(one.flow, Flow::Call(_) | Flow::Return) && one.effect != Effect::Frame
    };
    path.iter().filter(is_fed).map(|one| told(&one.text) + "\n").collect()
}

/// An LSE atomic as the pair of exclusives that does the same if nobody comes between, and `ldapr` as `ldar`.
/// `None` for any other instruction, and for those on bytes, half-words and pairs.
fn first(text: &str) -> Option<String> {
    const ORDERS: &[&str] = &["", "a", "l", "al"];
    let (name, operands) = text.split_once(' ')?;
    let mut operands = operands.split(',').map(str::trim);
    let (one, two) = (operands.next()?, operands.next()?);
    // `stadd` and its like have no register for the old value.
    let (new, old, place) = match operands.next() {
        Some(place) => (one, two, place),
        None => (one, if one.starts_with('w') { "w17" } else { "x17" }, two),
    };
    let is = |with: &str, orders: &[&str]| {
        name.strip_prefix(with).is_some_and(|order| orders.contains(&order))
    };
    if name == "ldapr" {
        return Some(format!("ldar {one}, {two}"));
    }
    // Its first register is the one compared, which then has the old value.
    if is("cas", ORDERS) {
        return Some(format!("ldaxr {one}, {place}\nstlxr w16, {two}, {place}"));
    }
    if is("swp", ORDERS) {
        return Some(format!("ldaxr {old}, {place}\nstlxr w16, {new}, {place}"));
    }
    let compute = [("add", "add"), ("clr", "bic"), ("set", "orr"), ("eor", "eor")];
    let of = |&&(lse, _): &&(&str, &str)| {
        is(&format!("ld{lse}"), ORDERS) || is(&format!("st{lse}"), &["", "l"])
    };
    let (_, compute) = compute.iter().find(of)?;
    let sum = if old.starts_with('w') { "w15" } else { "x15" };
    Some(format!("ldaxr {old}, {place}\n{compute} {sum}, {old}, {new}\nstlxr w16, {sum}, {place}"))
}

/// Why it cannot be run.
pub(crate) fn missing(program: &Path, error: &std::io::Error) -> Fail {
    let program = program.display();
    if error.kind() == std::io::ErrorKind::NotFound {
        return format!(
            "{program} is not installed: Debian has it in the package llvm; or say where it is by --llvm-mca"
        )
        .into();
    }
    format!("{program} cannot be run: {error}").into()
}

/// Reads an answer.
fn parse(text: &str) -> Result<Answer, Fail> {
    let answer: Value = serde_json::from_str(text)
        .map_err(|error| format!("llvm-mca answers in no JSON: {error}"))?;
    let summary = &answer["CodeRegions"][0]["SummaryView"];
    let number = |name: &str| {
        let number = summary[name].as_f64();
        number.ok_or_else(|| format!("llvm-mca gives no {name}: it is of another version"))
    };
    let iterations = number("Iterations")?;
    Ok(Answer {
        micro_ops: number("TotaluOps")? / iterations,
        cycles: number("TotalCycles")? / iterations,
        model: model(&answer["TargetInfo"]["Resources"]),
    })
}

/// What the names of all parts of a processor's model begin with.
fn model(resources: &Value) -> String {
    let names: Vec<&str> =
        resources.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(&first) = names.first() else { return "not told".into() };
    let is_common = |end: &usize| {
        first.is_char_boundary(*end) && names.iter().all(|name| name.starts_with(&first[..*end]))
    };
    let end = (0..=first.len()).rev().find(is_common).unwrap_or(0);
    first[..end].trim_end_matches("Unit").to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::assembly::Assembly;
    use super::*;

    #[test]
    fn an_answer_for_arm64_is_read() {
        let answer = parse(include_str!("samples/mca_tsv110.json")).expect("an answer");
        assert_eq!(answer, Answer { micro_ops: 15.0, cycles: 8.11, model: "TSV110".into() });
    }

    #[test]
    fn an_answer_for_x86_64_is_read() {
        let answer = parse(include_str!("samples/mca_x86_64_v3.json")).expect("an answer");
        assert_eq!(answer, Answer { micro_ops: 11.0, cycles: 3.15, model: "HW".into() });
    }

    #[test]
    fn an_answer_without_the_summary_is_an_error_that_says_so() {
        let error = parse(r#"{"CodeRegions": []}"#).expect_err("no summary");
        assert!(error.to_string().contains("another version"), "{error}");
        assert!(parse("error: what").is_err());
    }

    #[test]
    fn calls_returns_and_the_frame_are_not_fed() {
        let assembly = Assembly::parse(include_str!("samples/x86_64.s"), Arch::X86_64);
        let path = assembly.fast_path("calls", &[]).expect("a path");
        assert_eq!(fed(&path, str::to_owned), "testl %eax, %eax\nje .LBB1_2\nxorl %eax, %eax\n");
    }

    #[test]
    fn young_instructions_have_an_older_form_and_others_have_none() {
        let cas = first("casa x10, x9, [x0]").expect("a pair");
        assert_eq!(cas, "ldaxr x10, [x0]\nstlxr w16, x9, [x0]");
        let add = first("ldaddl x9, x8, [x0]").expect("a pair");
        assert_eq!(add, "ldaxr x8, [x0]\nadd x15, x8, x9\nstlxr w16, x15, [x0]");
        let set = first("stset w9, [x0]").expect("a pair");
        assert_eq!(set, "ldaxr w17, [x0]\norr w15, w17, w9\nstlxr w16, w15, [x0]");
        for other in
            ["ldr x8, [x0]", "add x9, x8, #16", "ret", "casab w1, w2, [x0]", "stlr x1, [x0]"]
        {
            assert_eq!(first(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_that_names_the_package() {
        let error = cost(Path::new("/nonexistent/llvm-mca"), Arch::X86_64, "x86-64-v3", &[]);
        assert!(error.expect_err("missing").to_string().contains("package llvm"));
    }
}
