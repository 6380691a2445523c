//! Mistakes: the message names what was given and says what to do.

mod common;
use common::{NONE, Place, bare_program, program, run};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_missing_database_says_how_to_make_one() {
    let place = Place::new();
    let path = place.path("db");
    for command in ["scan", "check", "dump"] {
        let message = place.fails(3, command, &NONE);
        assert!(message.contains(&format!("no database at {}", path.display())), "{message}");
        assert!(message.contains(&format!("`latchkv load {} INPUT`", path.display())), "{message}");
    }
    assert!(place.fails(3, "del", &["k"]).contains("create one with"));
}

#[test]
fn a_database_that_is_open_elsewhere_says_so() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    // It has the database open, and waits for the value on its standard input.
    let mut put = program();
    put.arg("put").arg(place.path("db")).arg("other").stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = put.spawn().expect("starts");
    let message = loop {
        // Until the other process has come so far; a reader that comes first only delays it.
        let ran = place.run("count", &NONE);
        if ran.code != 0 {
            break ran.err;
        }
        if child.try_wait().expect("it can be asked").is_some() {
            child = put.spawn().expect("starts");
        }
    };
    let path = place.path("db");
    let open = format!("{} is open in another process: close it", path.display());
    assert!(message.contains(&open), "{message}");
    let message = place.fails(3, "put", &["k", "w"]);
    assert!(message.contains(&open), "{message}");
    drop(child.stdin.take().map(|mut stdin| stdin.write_all(b"value")));
    child.wait().expect("ends");
}

/// Runs a copy of the program as somebody without rights; `None` where that cannot be done.
fn as_nobody(place: &Place, arguments: &[&str]) -> Option<common::Ran> {
    // Root may do everything, whatever the permissions say.
    let root =
        fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    let mut command = program();
    if root {
        let folder = place.path("");
        let binary = place.path("latchkv");
        if !binary.exists() {
            fs::copy(env!("CARGO_BIN_EXE_latchkv"), &binary).expect("room");
        }
        fs::set_permissions(&binary, Permissions::from_mode(0o755)).expect("own file");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("own folder");
        command = through_runner(&command, &binary);
        command.uid(65534).gid(65534);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    loop {
        match command.output() {
            Ok(output) => return Some(output.into()),
            // A process that another test has just forked still has the copy open for writing.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            Err(error) => {
                eprintln!("skipped: the program cannot be run as nobody: {error}");
                return None;
            }
        }
    }
}

/// The same command with another binary.
fn through_runner(command: &Command, binary: &Path) -> Command {
    let given = env!("CARGO_BIN_EXE_latchkv");
    let with = |word: &std::ffi::OsStr| match word == given {
        true => binary.as_os_str().to_owned(),
        false => word.to_owned(),
    };
    let mut other = Command::new(with(command.get_program()));
    other.args(command.get_args().map(with));
    other
}

#[test]
fn files_that_may_not_be_read_or_written_say_what_to_do() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let db = place.path("db");
    let text = db.to_str().expect("UTF-8");
    fs::set_permissions(&db, Permissions::from_mode(0o755)).expect("own folder");
    for name in ["lock", "data", "log"] {
        fs::set_permissions(db.join(name), Permissions::from_mode(0o644)).expect("own file");
    }
    let Some(read) = as_nobody(&place, &["get", text, "k"]) else { return };
    assert_eq!((read.code, read.text()), (0, "v\n"), "{}", read.err);
    // Somebody else's files can be read but not written.
    fs::set_permissions(&db, Permissions::from_mode(0o555)).expect("own folder");
    for name in ["lock", "data", "log"] {
        fs::set_permissions(db.join(name), Permissions::from_mode(0o444)).expect("own file");
    }
    let written = as_nobody(&place, &["put", text, "k", "w"]).expect("it ran before");
    assert_eq!(written.code, 3);
    let says = written.err.contains("run this as the user who owns it");
    assert!(says && written.err.contains(text), "{}", written.err);
    fs::set_permissions(db.join("lock"), Permissions::from_mode(0o000)).expect("own file");
    let read = as_nobody(&place, &["get", text, "k"]).expect("it ran before");
    let message = format!("no permission to open {text}/lock: run this as");
    assert!(read.code == 3 && read.err.contains(&message), "{}", read.err);
    fs::set_permissions(&db, Permissions::from_mode(0o755)).expect("own folder");
}

#[test]
fn a_dump_that_cannot_be_written_names_the_file_that_was_asked_for() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let nowhere = place.path("none/out.dump");
    let message = place.fails(3, "dump", &["-o", nowhere.to_str().expect("UTF-8")]);
    let want = format!("writing {} failed: ", nowhere.display());
    assert!(message.contains(&want) && message.contains("is no folder"), "{message}");
    assert!(!message.contains("none/.tmp"), "{message}");
    let folder = place.path("folder");
    fs::create_dir(&folder).expect("create");
    let message = place.fails(3, "dump", &["-o", folder.to_str().expect("UTF-8")]);
    assert!(message.contains(&format!("writing {} failed: ", folder.display())), "{message}");
    // A disk that is always full.
    let message = place.fails(3, "dump", &["-o", "/dev/full"]);
    assert!(message.contains("writing /dev/full failed: "), "{message}");
    if Path::new("/proc/self/fd").exists() {
        // A folder in which no file can be made, not even by root.
        let message = place.fails(3, "dump", &["-o", "/proc/self/fd/out.dump"]);
        assert!(message.contains("writing /proc/self/fd/out.dump failed: no temp"), "{message}");
        assert!(!message.contains("fd/.tmp"), "{message}");
    }
}

#[test]
fn a_cache_that_is_too_small_names_the_option() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    for arguments in
        [&["put", "new", "k", "v"], &["put", "db", "k", "v"], &["get", "db", "k", "-q"]]
    {
        let mut small = bare_program();
        small.args(["--cache", "1K", arguments[0]]).arg(place.path(arguments[1]));
        let ran = {
            small.args(&arguments[2..]);
            run(small, b"")
        };
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("--cache is 1024, allowed is at least "), "{}", ran.err);
    }
    assert!(!place.path("new").exists());
    let mut wrong = bare_program();
    wrong.args(["get", "db", "k", "--cache", "12X"]);
    let ran = run(wrong, b"");
    assert!(ran.code == 2 && ran.err.contains("--cache"), "{}", ran.err);
}

#[test]
fn a_page_size_for_a_database_of_another_is_refused() {
    let place = Place::new();
    place.ok("put", &["k", "v", "--page-size", "8K"]);
    let before = fs::read(place.path("db/data")).expect("there");
    for arguments in [&["put", "k", "w"][..], &["get", "k"], &["del", "k"], &["count"]] {
        let message =
            place.fails(2, arguments[0], &[&arguments[1..], &["--page-size", "16K"]].concat());
        assert!(message.contains("--page-size is 16K"), "{message}");
        assert!(message.contains("pages of 8K"), "{message}");
    }
    assert!(before == fs::read(place.path("db/data")).expect("there"), "nothing was written");
    assert_eq!(place.ok("get", &["k", "--page-size", "8K"]), "v\n");
    place.ok("put", &["k", "w", "--page-size", "8K"]);
    assert!(place.ok("stat", &NONE).contains("8,192 bytes"));
}

#[test]
fn a_demo_of_a_folder_that_is_not_there_says_so() {
    let place = Place::new();
    let file = place.file("file", "");
    for path in [place.path("none"), file] {
        let mut command = program();
        command.args(["demo", "--dir"]).arg(&path);
        let ran = run(command, b"");
        assert_eq!(ran.code, 3);
        assert!(ran.err.contains(&format!("--dir {}: ", path.display())), "{}", ran.err);
        assert!(ran.err.contains("name a folder") && ran.text().is_empty(), "{}", ran.err);
    }
}

#[test]
fn one_is_not_told_as_many() {
    let place = Place::new();
    let input = place.file("in.tsv", "k\tv\n");
    let ran = place.run("load", &[input.as_os_str()]);
    assert!(ran.err.contains("loaded 1 record, "), "{}", ran.err);
    assert!(ran.err.contains("tree \"main\" has 1 record\n"), "{}", ran.err);
    assert!(place.ok("stat", &NONE).contains("1 record\n"));
    assert!(place.ok("check", &NONE).contains("no problems in 2 pages and 1 record\n"));
    let bad = place.file("bad.tsv", "k\tv\nno tab\nl\tw\n");
    let ran = place.run("load", &[bad.as_os_str(), "--keep-going".as_ref()]);
    assert!(ran.err.contains("1 bad record or file was left out"), "{}", ran.err);
    assert!(ran.err.contains("has 2 records\n"), "{}", ran.err);
}
