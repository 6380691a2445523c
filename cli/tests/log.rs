//! `log`: what is in the log of a database that was closed, killed, torn or damaged.

mod common;
use common::{NONE, Place, files_below, kill, program};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

fn committing(place: &Place) -> Child {
    let mut command = program();
    command.arg("commit-until-killed").arg(place.path("db")).args(["--threads", "1"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts")
}

/// A database whose process was killed after some commits.
fn killed(place: &Place) {
    place.ok("put", &["k", "v"]);
    let mut child = committing(place);
    // Open until the kill, lest it ends because nobody reads.
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert_eq!(lines.by_ref().take(9).count(), 9);
    kill(&mut child, &place.path("db"));
}

#[test]
fn commits_are_printed_in_order_with_their_operations_and_nothing_is_written() {
    let place = Place::new();
    killed(&place);
    let before = files_below(&place.path("db"));
    let text = place.ok("log", &NONE);
    assert!(before == files_below(&place.path("db")), "it was written to");
    let lines: Vec<&str> = text.lines().collect();
    let checkpoint = lines[0].strip_prefix("checkpoint\t").expect("first");
    let checkpoint: u64 = checkpoint.parse().expect("a number");
    let create = lines.iter().position(|line| line.ends_with("\tcommits")).expect("created");
    assert!(lines[create].starts_with("\tcreate\ttree "), "{}", lines[create]);
    assert!(lines[create + 2].ends_with("\t0.0.00000000.0\t75 bytes"), "{}", lines[create + 2]);
    // Commit 2 is a transaction of three puts.
    let of_2 = |line: &&&str| line.contains("\t0.0.00000002.");
    assert_eq!(lines.iter().filter(of_2).count(), 3);
    let at = lines.iter().position(|line| line.contains("00000002.0")).expect("there");
    assert!(lines[at - 1].contains("\tcommit\t") && lines[at + 3].contains("\tcommit\t"));
    let lsns: Vec<u64> =
        lines.iter().filter_map(|line| line.split('\t').next()?.parse().ok()).collect();
    assert!(lsns.len() >= 10 && lsns.is_sorted() && lsns[0] >= checkpoint, "{lsns:?}");
    let last = lines.last().expect("some");
    assert!(last.starts_with("end\t") && last.contains("\tclean"), "{last}");

    // A part of it.
    let from = lsns[3].to_string();
    let part = place.ok("log", &["--from", &from, "--limit", "2", "--values"]);
    let heads = part.lines().filter(|line| line.contains("\tcommit\t"));
    assert_eq!(heads.clone().count(), 2);
    assert!(heads.clone().next().expect("two").starts_with(&from));
    assert!(part.contains("\t0.0.00000002.0=....") && !part.contains("\nend"), "{part}");
    // Recovered and closed, the checkpoint has it all.
    place.ok("recover", &NONE);
    let text = place.ok("log", &NONE);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.ends_with("\tclean\n"));
}

#[test]
fn a_torn_end_is_told_with_its_place_and_damage_is_an_error() {
    let place = Place::new();
    killed(&place);
    let path = place.path("db/log");
    let log = fs::read(&path).expect("there");
    let at = |key: &[u8]| log.windows(key.len()).position(|window| window == key);
    let flipped = |place: usize| {
        let mut log = log.clone();
        log[place] ^= 1;
        fs::write(&path, log).expect("room");
    };
    let last = (0..).map_while(|n| at(format!("0.0.{n:08}.0").as_bytes())).last().expect("some");
    flipped(last);
    let text = place.ok("log", &NONE);
    let end = text.lines().last().expect("some");
    assert!(end.contains("torn: the record at offset "), "{end}");
    place.ok("recover", &NONE);

    let other = Place::new();
    killed(&other);
    let path = other.path("db/log");
    let mut bytes = fs::read(&path).expect("there");
    let key = b"0.0.00000001.1";
    let at = bytes.windows(key.len()).position(|window| window == key).expect("logged");
    bytes[at] ^= 1;
    fs::write(&path, &bytes).expect("room");
    let ran = other.run("log", &NONE);
    assert_eq!(ran.code, 3, "{}", ran.text());
    assert!(ran.text().contains("0.0.00000000.0"), "what is before it is printed: {}", ran.text());
    assert!(ran.err.contains("damaged ") && ran.err.contains("restore a backup"), "{}", ran.err);
    // Nothing is cut by an opening either.
    assert_eq!(other.run("recover", &NONE).code, 3);
    assert!(bytes == fs::read(&path).expect("there"));
}

#[test]
fn a_log_whose_database_is_open_elsewhere_says_so() {
    let place = Place::new();
    place.ok("put", &["k", "v"]);
    let mut child = committing(&place);
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("a pipe");
    let message = place.fails(3, "log", &NONE);
    assert!(message.contains("is open in another process: close it there"), "{message}");
    kill(&mut child, &place.path("db"));
    place.ok("log", &NONE);
    assert!(place.path("none").metadata().is_err());
    let ran = place.run_on("none", "log", &NONE, b"");
    assert!(ran.code == 3 && ran.err.contains("no database at "), "{}", ran.err);
}
