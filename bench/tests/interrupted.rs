//! A command that is interrupted leaves a report that says so, and no databases.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Begins a run that takes far longer than these tests, and waits until it has begun to measure.
fn begun(dir: &Path, json: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_latchkv-bench"))
        .args(["kv", "--engines", "latchkv", "--only", "writes", "--records", "200000"])
        .args(["--cache-mib", "64", "--writes", "100000"])
        .arg("--dir")
        .arg(dir)
        .arg("--json")
        .arg(json)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    while !json.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it measured");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// Sends a signal, and gives the exit code.
fn ended_by(signal: &str, mut child: Child) -> Option<i32> {
    let kill = format!("kill -{signal} {}", child.id());
    let sent = Command::new("sh").arg("-c").arg(kill).status().expect("a shell");
    assert!(sent.success());
    child.wait().expect("it ends").code()
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a directory").count()
}

fn report(json: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(json).expect("a file")).expect("JSON")
}

#[test]
fn sigterm_leaves_a_partial_report_and_no_databases() {
    let temporary = tempfile::tempdir().expect("a directory");
    let (dir, json) = (temporary.path().join("databases"), temporary.path().join("out.json"));
    let child = begun(&dir, &json);
    assert_eq!(entries(&dir), 1);
    assert_eq!(ended_by("TERM", child), Some(143));
    assert_eq!(report(&json)["complete"], json!(false));
    assert_eq!(entries(&dir), 0);
}

#[test]
fn what_sigkill_leaves_is_removed_by_the_next_command() {
    let temporary = tempfile::tempdir().expect("a directory");
    let dir = temporary.path().join("databases");
    let [killed, next] = ["killed.json", "next.json"].map(|name| temporary.path().join(name));
    let mut child = begun(&dir, &killed);
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert_eq!(report(&killed)["complete"], json!(false));
    assert_eq!(entries(&dir), 1);
    let child = begun(&dir, &next);
    assert_eq!(entries(&dir), 1);
    assert_eq!(ended_by("INT", child), Some(130));
    assert_eq!(entries(&dir), 0);
}
