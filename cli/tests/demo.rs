//! `demo` proves its own result; here it runs on a folder of the test.

mod common;
use common::{Place, program, run};
use std::fs;

#[test]
fn the_demo_ends_with_ok_and_leaves_nothing() {
    let place = Place::new();
    let folder = place.path("files");
    fs::create_dir_all(folder.join("sub")).expect("create");
    for number in 0..50usize {
        let name = if number % 2 == 0 { format!("f{number}") } else { format!("sub/f{number}") };
        fs::write(folder.join(name), vec![number as u8; number * 997]).expect("write");
    }
    let temporary = place.path("tmp");
    fs::create_dir(&temporary).expect("create");
    let mut command = program();
    command.env("TMPDIR", &temporary).args(["demo", "--seconds", "1", "--dir"]).arg(&folder);
    let ran = run(command, b"");
    assert_eq!(ran.code, 0, "{}{}", ran.text(), ran.err);
    assert!(ran.text().contains("50 files equal the disk's"), "{}", ran.text());
    assert!(ran.text().contains(" found, each whole; "), "{}", ran.text());
    assert!(ran.text().lines().any(|line| line.starts_with("OK")), "{}", ran.text());
    assert_eq!(fs::read_dir(&temporary).expect("folder").count(), 0);

    let empty = place.path("empty");
    fs::create_dir(&empty).expect("create");
    let mut command = program();
    command.args(["demo", "--dir"]).arg(&empty);
    let ran = run(command, b"");
    assert_eq!(ran.code, 3);
    assert!(ran.text().contains("FAILED"));
}
