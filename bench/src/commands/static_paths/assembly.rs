//! The fast path of a function, out of a compiler's assembly.
//!
//! The fast path is the way with the fewest instructions from the entry to the return that leaves the file
//! nowhere: a call is followed if the assembly has the function called, and is no way if it has not, nor are jumps
//! to addresses out of memory, and traps. It is the way through the instructions, whatever is in the registers: where
//! a shorter one would not do the work (a page that is none), or there are two kinds of work (two kinds of look-up,
//! told apart at run time), instructions are named that have to be on it.
//!
//! It is found breadth first over the instructions, calls with a stack of where to return to.
//!
//! ```text
//! .type f,@function      names a function      f: ... .Lfunc_end0:   its body
//! .set g, f              another name for it   .LBB0_2:              where a jump goes
//! ```
//!
//! Understood is what LLVM prints for ELF: AT&T syntax for x86-64, and that of ARM64. Tested on short samples of
//! both.

use std::collections::{HashMap, HashSet, VecDeque};

/// Calls within calls that are followed.
const DEPTH_MAX: usize = 8;

/// An instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arch {
    Aarch64,
    X86_64,
}

/// Where control goes behind an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// To the next one.
    Next,
    Jump(String),
    /// To the label or to the next one.
    Branch(String),
    Call(String),
    Return,
    /// Nowhere that can be known.
    Nowhere,
}

/// What an instruction does that other processors may notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Nothing beyond loads and stores.
    Plain,
    /// Nothing: saves or restores a register, or moves the stack pointer. Not there where the path is inlined.
    Frame,
    /// An atomic read-modify-write; of a pair of exclusive load and store, the store.
    Rmw,
    Fence,
    /// A load or store that is ordered by itself.
    Ordered,
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Instruction {
    /// As printed, without comment.
    pub(crate) text: String,
    pub(crate) flow: Flow,
    pub(crate) effect: Effect,
}

impl Instruction {
    fn mnemonic(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }
}

/// The functions of a file.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    functions: Vec<Function>,
    /// Also of other names.
    by_name: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Function {
    instructions: Vec<Instruction>,
    labels: HashMap<String, usize>,
}

/// What is next, and where to go when the function is done.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    at: (usize, usize),
    stack: Vec<(usize, usize)>,
    /// Which of what has to be on the way was, a bit each.
    through: u32,
}

impl Assembly {
    pub(crate) fn parse(text: &str, arch: Arch) -> Assembly {
        let comment = match arch {
            Arch::Aarch64 => "//",
            Arch::X86_64 => "#",
        };
        let mut assembly = Assembly::default();
        let mut typed: HashSet<&str> = HashSet::new();
        let mut aliases: Vec<(&str, &str)> = Vec::new();
        let mut open: Option<usize> = None;
        for line in text.lines() {
            let line = line.split(comment).next().unwrap_or_default().trim();
            if let Some(label) = line.strip_suffix(':') {
                if typed.contains(label) {
                    open = Some(assembly.functions.len());
                    assembly.by_name.insert(label.into(), assembly.functions.len());
                    assembly.functions.push(Function::default());
                } else if label.starts_with(".Lfunc_end") {
                    open = None;
                } else if let Some(open) = open {
                    let function = &mut assembly.functions[open];
                    function.labels.insert(label.into(), function.instructions.len());
                }
            } else if let Some(rest) = line.strip_prefix(".type") {
                if let Some((name, "@function")) =
                    rest.split_once(',').map(|(name, kind)| (name.trim(), kind.trim()))
                {
                    typed.insert(name);
                }
            } else if let Some(rest) = line.strip_prefix(".set") {
                aliases.extend(rest.split_once(',').map(|(new, old)| (new.trim(), old.trim())));
            } else if let Some(open) = open
                && !line.is_empty()
                && !line.starts_with('.')
            {
                assembly.functions[open].instructions.push(instruction(line, arch));
            }
        }
        for (new, old) in aliases {
            if let Some(&function) = assembly.by_name.get(old) {
                assembly.by_name.insert(new.into(), function);
            }
        }
        assembly
    }

    /// The fast path of `name` that has, for each of `through`, an instruction whose name starts with it. `None` if
    /// there is none, or no such function.
    pub(crate) fn fast_path(&self, name: &str, through: &[&str]) -> Option<Vec<Instruction>> {
        let all = (1 << through.len()) - 1;
        let entry = (*self.by_name.get(name)?, 0);
        let mut ways: Vec<(State, Option<usize>)> = Vec::new();
        let mut seen: HashSet<State> = HashSet::new();
        let mut queue: VecDeque<(State, Option<usize>)> = VecDeque::new();
        queue.push_back((State { at: entry, stack: Vec::new(), through: 0 }, None));
        while let Some((mut state, before)) = queue.pop_front() {
            let Some(instruction) = self.functions[state.at.0].instructions.get(state.at.1) else {
                continue;
            };
            for (bit, with) in through.iter().enumerate() {
                let is_it = instruction.mnemonic().starts_with(with);
                state.through |= u32::from(is_it) << bit;
            }
            if !seen.insert(state.clone()) {
                continue;
            }
            let here = ways.len();
            ways.push((state.clone(), before));
            if instruction.flow == Flow::Return && state.stack.is_empty() {
                if state.through == all {
                    return Some(self.walked(&ways, here));
                }
                continue;
            }
            queue.extend(self.followers(&state, instruction).into_iter().map(|s| (s, Some(here))));
        }
        None
    }

    /// The instructions that lead to the last state.
    fn walked(&self, ways: &[(State, Option<usize>)], last: usize) -> Vec<Instruction> {
        let mut path = Vec::new();
        let mut next = Some(last);
        while let Some(at) = next {
            let (state, before) = &ways[at];
            path.push(self.functions[state.at.0].instructions[state.at.1].clone());
            next = *before;
        }
        path.reverse();
        path
    }

    fn followers(&self, state: &State, instruction: &Instruction) -> Vec<State> {
        let (function, at) = state.at;
        let next = (function, at + 1);
        let to = |at| State { at, ..state.clone() };
        let target = |label: &str| {
            let here = self.functions[function].labels.get(label).map(|&at| (function, at));
            here.or_else(|| self.by_name.get(label).map(|&function| (function, 0)))
        };
        match &instruction.flow {
            Flow::Next => vec![to(next)],
            Flow::Jump(label) => target(label).map(to).into_iter().collect(),
            Flow::Branch(label) => {
                [Some(next), target(label)].into_iter().flatten().map(to).collect()
            }
            Flow::Call(name) if state.stack.len() < DEPTH_MAX => {
                let mut stack = state.stack.clone();
                stack.push(next);
                let enter = |&function| State { at: (function, 0), stack, through: state.through };
                self.by_name.get(name).map(enter).into_iter().collect()
            }
            Flow::Return => {
                let mut stack = state.stack.clone();
                let back = stack.pop();
                back.map(|at| State { at, stack, through: state.through }).into_iter().collect()
            }
            Flow::Call(_) | Flow::Nowhere => Vec::new(),
        }
    }
}

fn instruction(line: &str, arch: Arch) -> Instruction {
    let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (name, operands) = text.split_once(' ').unwrap_or((&text, ""));
    let (flow, effect) = match arch {
        Arch::Aarch64 => (aarch64_flow(name, operands), aarch64_effect(name, operands)),
        Arch::X86_64 => (x86_64_flow(name, operands), x86_64_effect(name, operands)),
    };
    Instruction { flow, effect, text }
}

fn aarch64_flow(name: &str, operands: &str) -> Flow {
    let last = || operands.rsplit(',').next().unwrap_or_default().trim().to_owned();
    match name {
        "b" => Flow::Jump(last()),
        "bl" => Flow::Call(last()),
        "cbz" | "cbnz" | "tbz" | "tbnz" => Flow::Branch(last()),
        "ret" | "retaa" | "retab" => Flow::Return,
        "br" | "blr" | "brk" | "udf" | "hlt" => Flow::Nowhere,
        _ if name.starts_with("b.") || name.starts_with("bc.") => Flow::Branch(last()),
        _ => Flow::Next,
    }
}

fn aarch64_effect(name: &str, operands: &str) -> Effect {
    const RMW: [&str; 19] = [
        "cas", "swp", "ldadd", "ldclr", "ldset", "ldeor", "ldsmax", "ldsmin", "ldumax", "ldumin",
        "stadd", "stclr", "stset", "steor", "stsm", "stum", "stxr", "stlxr", "stxp",
    ];
    const MOVES: [&str; 3] = ["add", "sub", "mov"];
    const SAVES: [&str; 4] = ["stp", "ldp", "str", "ldr"];
    let starts = |with: &&str| name.starts_with(*with);
    let of_stack = operands.split(", ").any(|operand| operand == "sp");
    if MOVES.contains(&name) && of_stack || SAVES.contains(&name) && operands.contains("[sp") {
        return Effect::Frame;
    }
    if RMW.iter().any(starts) {
        Effect::Rmw
    } else if ["dmb", "dsb", "isb"].contains(&name) {
        Effect::Fence
    } else if ["ldar", "ldapr", "ldapur", "stlr", "stlur"].iter().any(starts) {
        Effect::Ordered
    } else {
        Effect::Plain
    }
}

fn x86_64_flow(name: &str, operands: &str) -> Flow {
    // `f`, `f@PLT`, or `*f@GOTPCREL(%rip)`: a function; any other `*` is an address out of memory.
    let target = || {
        let direct = operands.strip_suffix("@PLT").unwrap_or(operands);
        match direct.strip_prefix('*') {
            None => Some(direct.to_owned()),
            Some(by) => by.strip_suffix("@GOTPCREL(%rip)").map(str::to_owned),
        }
    };
    match name {
        "jmp" | "jmpq" => target().map_or(Flow::Nowhere, Flow::Jump),
        "call" | "callq" => target().map_or(Flow::Nowhere, Flow::Call),
        "ret" | "retq" => Flow::Return,
        "ud2" | "int3" | "hlt" => Flow::Nowhere,
        _ if name.starts_with('j') => Flow::Branch(operands.to_owned()),
        _ => Flow::Next,
    }
}

fn x86_64_effect(name: &str, operands: &str) -> Effect {
    // An exchange with memory locks without being told.
    let exchanges = name.starts_with("xchg") && operands.contains('(');
    match name {
        "lock" => Effect::Rmw,
        _ if exchanges => Effect::Rmw,
        "mfence" => Effect::Fence,
        _ if name.starts_with("push") || name.starts_with("pop") => Effect::Frame,
        "addq" | "subq" if operands.ends_with(", %rsp") => Effect::Frame,
        _ => Effect::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: &str = include_str!("samples/x86_64.s");
    const AARCH64: &str = include_str!("samples/aarch64.s");

    fn texts(path: &[Instruction]) -> Vec<&str> {
        path.iter().map(|instruction| instruction.text.as_str()).collect()
    }

    fn count(path: &[Instruction], effect: Effect) -> usize {
        path.iter().filter(|instruction| instruction.effect == effect).count()
    }

    #[test]
    fn the_path_goes_round_calls_that_leave_the_file_and_takes_no_turn_of_a_loop() {
        let path = Assembly::parse(X86_64, Arch::X86_64).fast_path("take", &[]).expect("a path");
        assert_eq!(
            texts(&path),
            [
                "movq (%rdi), %rax",
                "testb $1, %al",
                "jne .LBB0_3",
                "leaq 16(%rax), %rcx",
                "lock cmpxchgq %rcx, (%rdi)",
                "jne .LBB0_1",
                "retq",
            ]
        );
        assert_eq!(count(&path, Effect::Rmw), 1);
    }

    #[test]
    fn calls_and_jumps_within_the_file_are_followed() {
        let assembly = Assembly::parse(X86_64, Arch::X86_64);
        let path = assembly.fast_path("calls", &[]).expect("a path");
        assert_eq!(
            texts(&path),
            [
                "pushq %rbx",
                "callq chosen",
                "testl %eax, %eax",
                "je .LBB1_2",
                "xorl %eax, %eax",
                "retq",
                "popq %rbx",
                "retq"
            ]
        );
        assert_eq!(assembly.fast_path("also_calls", &[]), Some(path), "another name for it");
    }

    #[test]
    fn of_two_ways_the_one_with_the_instruction_asked_for_is_taken() {
        let assembly = Assembly::parse(X86_64, Arch::X86_64);
        let path = assembly.fast_path("calls", &["div"]).expect("a path");
        assert!(texts(&path).contains(&"divq %rcx"), "{path:?}");
        assert_eq!(assembly.fast_path("calls", &["movl", "div"]), Some(path));
        assert_eq!(assembly.fast_path("calls", &["div", "lock"]), None);
        assert_eq!(assembly.fast_path("calls", &["mul"]), None);
    }

    #[test]
    fn functions_that_are_not_there_or_only_fail_have_no_path() {
        let assembly = Assembly::parse(X86_64, Arch::X86_64);
        assert_eq!(assembly.fast_path("nothing", &[]), None);
        assert_eq!(assembly.fast_path("fails", &[]), None);
    }

    #[test]
    fn arm_branches_atomics_fences_and_ordered_loads_are_known() {
        let assembly = Assembly::parse(AARCH64, Arch::Aarch64);
        let path = assembly.fast_path("take", &[]).expect("a path");
        assert_eq!(
            texts(&path),
            [
                "ldr x8, [x0]",
                "tbnz w8, #0, .LBB0_3",
                "add x9, x8, #16",
                "mov x10, x8",
                "casa x10, x9, [x0]",
                "cmp x10, x8",
                "b.ne .LBB0_1",
                "dmb ishld",
                "mov w9, #-16",
                "ldaddl x9, x8, [x0]",
                "ret",
            ]
        );
        assert_eq!((count(&path, Effect::Rmw), count(&path, Effect::Fence)), (2, 1));
        let path = assembly.fast_path("begin", &[]).expect("a path");
        assert_eq!(texts(&path), ["ldapr x0, [x0]", "cbz x0, .LBB1_2", "b tail", "ret"]);
        assert_eq!(count(&path, Effect::Ordered), 1);
    }

    #[test]
    fn an_exclusive_pair_is_one_atomic_and_an_exchange_of_registers_is_none() {
        let effect = |text, arch| instruction(text, arch).effect;
        assert_eq!(effect("ldaxr x8, [x0]", Arch::Aarch64), Effect::Plain);
        assert_eq!(effect("stlxr w9, x8, [x0]", Arch::Aarch64), Effect::Rmw);
        assert_eq!(effect("xchgq %rax, (%rdi)", Arch::X86_64), Effect::Rmw);
        assert_eq!(effect("xchgq %rax, %rdi", Arch::X86_64), Effect::Plain);
    }

    #[test]
    fn saved_registers_and_the_stack_pointer_are_frame_and_other_moves_are_not() {
        let effect = |text, arch| instruction(text, arch).effect;
        for frame in ["pushq %rbx", "popq %rbx", "addq $8, %rsp"] {
            assert_eq!(effect(frame, Arch::X86_64), Effect::Frame, "{frame}");
        }
        for frame in
            ["stp x29, x30, [sp, #-16]!", "ldr x19, [sp, #16]", "mov x29, sp", "sub sp, sp, #64"]
        {
            assert_eq!(effect(frame, Arch::Aarch64), Effect::Frame, "{frame}");
        }
        assert_eq!(effect("movq (%rdi), %rax", Arch::X86_64), Effect::Plain);
        assert_eq!(effect("ldr x8, [x0]", Arch::Aarch64), Effect::Plain);
        assert_eq!(effect("mov x8, x9", Arch::Aarch64), Effect::Plain);
    }

    #[test]
    fn calls_by_the_global_offset_table_have_a_name_and_others_have_none() {
        let flow = |text| instruction(text, Arch::X86_64).flow;
        assert_eq!(flow("callq *slow@GOTPCREL(%rip)"), Flow::Call("slow".into()));
        assert_eq!(flow("jmpq *(%rax)"), Flow::Nowhere);
        assert_eq!(flow("jmp slow@PLT"), Flow::Jump("slow".into()));
    }
}
