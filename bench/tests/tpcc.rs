//! `tpcc` as a program: it runs, and what it durably did survives SIGKILL.

use std::process::Command;

/// The program's output, which is to have no error.
fn tpcc(args: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_latchkv-bench"))
        .args(["tpcc", "--warehouses", "1", "--scale", "0.01", "--cache-mib", "64", "--dir"])
        .arg(dir.path())
        .args(args)
        .output()
        .expect("the program starts");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    out.into_owned()
}

#[test]
fn every_acknowledged_order_survives_a_kill_and_the_conditions_hold() {
    let out = tpcc(&["--kill", "2", "--kill-ms", "100", "--threads", "2,1"]);
    assert!(out.contains("consistency conditions 1 to 4 hold"), "{out}");
}

#[test]
fn both_apis_run_a_number_of_transactions_and_the_conditions_hold() {
    for api in ["plain", "session"] {
        let out = tpcc(&["--transactions", "300", "--threads", "2", "--api", api]);
        assert!(out.contains("consistency conditions 1 to 4 hold"), "{out}");
    }
}
