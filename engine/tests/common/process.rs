//! Tests that need a process of their own: they start their program anew, for one test of it, which acts only
//! when it finds the variable that it is started with.

use std::process::{Command, Output};

/// This program, to run `test` alone.
pub(crate) fn this_program(test: &str) -> Command {
    let this = std::env::current_exe().expect("this test binary");
    // In emulation the kernel cannot start it by itself: cargo's runner can.
    let arch = std::env::consts::ARCH.to_uppercase();
    let runner = std::env::var(format!("CARGO_TARGET_{arch}_UNKNOWN_LINUX_GNU_RUNNER"));
    let runner = runner.unwrap_or_default();
    let mut words = runner.split_whitespace();
    let mut command = match words.next() {
        Some(program) => Command::new(program),
        None => Command::new(&this),
    };
    if !runner.is_empty() {
        command.args(words).arg(&this);
    }
    command.args(["--exact", "--nocapture", test]);
    command
}

/// Fails with what the other process wrote unless its test passed, and was run at all.
#[track_caller]
pub(crate) fn assert_passed(output: &Output) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}
