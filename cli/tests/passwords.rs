//! Where passwords come from, and where they never are.

mod common;
use common::{NONE, Place, Ran, password_of, program, run};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// The command in a session of its own, which has no terminal.
fn without_terminal(command: &Command) -> Command {
    wrapped(&["setsid", "--wait"], command)
}

fn wrapped(around: &[&str], command: &Command) -> Command {
    let mut other = Command::new(around[0]);
    other.args(&around[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

fn get_as(place: &Place, user: &str) -> Command {
    let mut get = program();
    get.arg("get").arg(place.path("db")).args(["1", "--tree", "shop/orders", "--user", user]);
    get
}

fn secret_file(place: &Place, name: &str, contents: &str, mode: u32) -> std::path::PathBuf {
    let file = place.file(name, contents);
    fs::set_permissions(&file, Permissions::from_mode(mode)).expect("own file");
    file
}

#[test]
fn a_file_or_the_environment_is_enough_where_there_is_no_terminal() {
    let place = Place::with_accounts();
    let file = secret_file(&place, "secret", &format!("{}\n", password_of("ada")), 0o600);
    let mut by_file = get_as(&place, "ada");
    by_file.arg("--password-file").arg(&file);
    let ran = run(without_terminal(&by_file), b"");
    assert_eq!((ran.code, ran.text(), &*ran.err), (0, "apples\n", ""));
    let mut by_environment = get_as(&place, "ada");
    by_environment.env("LATCHKV_PASSWORD", password_of("ada"));
    let ran = run(without_terminal(&by_environment), b"");
    assert_eq!((ran.code, ran.text(), &*ran.err), (0, "apples\n", ""));
    let mut by_standard_input = get_as(&place, "ada");
    by_standard_input.args(["--password-file", "-"]);
    let ran = run(without_terminal(&by_standard_input), password_of("ada").as_bytes());
    assert_eq!((ran.code, ran.text(), &*ran.err), (0, "apples\n", ""));
    let ran = run(without_terminal(&get_as(&place, "ada")), b"");
    let says = ran.err.contains("--password-file FILE or set LATCHKV_PASSWORD");
    assert!(ran.code == 2 && says, "{}", ran.err);
}

#[test]
fn a_file_counts_before_the_environment_and_nothing_but_one_line_end_is_cut() {
    let place = Place::with_accounts();
    for (contents, code) in [
        (password_of("ada"), 0),
        (format!("{}\n", password_of("ada")), 0),
        (format!("{}\n\n", password_of("ada")), 4),
        (format!("{} ", password_of("ada")), 4),
        (format!("{}\r\n", password_of("ada")), 0),
        (format!("{}\r\r\n", password_of("ada")), 4),
        (String::new(), 2),
    ] {
        let file = secret_file(&place, "secret", &contents, 0o600);
        let mut get = get_as(&place, "ada");
        get.arg("--password-file").arg(file).env("LATCHKV_PASSWORD", password_of("ada"));
        assert_eq!(run(get, b"").code, code, "{contents:?}");
    }
    let mut get = get_as(&place, "ada");
    get.arg("--password-file").arg(place.path("none")).env("LATCHKV_PASSWORD", password_of("ada"));
    let ran = run(get, b"");
    assert!(ran.code == 3 && ran.err.contains("reading the password from"), "{}", ran.err);
}

#[test]
fn a_password_is_any_bytes() {
    let place = Place::with_accounts();
    let bytes = b"\xff\xfe not UTF-8 \\x00".to_vec();
    let new = place.file("new", &bytes);
    let mut passwd = program();
    passwd.args(["user", "passwd"]).arg(place.path("db")).args(["ada", "--user", "root"]);
    passwd.arg("--new-password-file").arg(new).env("LATCHKV_PASSWORD", password_of("root"));
    assert_eq!(run(passwd, b"").code, 0);
    let mut get = get_as(&place, "ada");
    get.env("LATCHKV_PASSWORD", std::ffi::OsString::from_vec(bytes));
    assert_eq!(run(get, b"").text(), "apples\n");
}

#[test]
fn a_file_that_others_may_read_is_used_with_a_warning() {
    let place = Place::with_accounts();
    for (mode, warns) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        let _ = fs::remove_file(place.path("secret"));
        let file = secret_file(&place, "secret", &password_of("ada"), mode);
        let mut get = get_as(&place, "ada");
        get.arg("--password-file").arg(&file);
        let ran = run(get, b"");
        assert_eq!((ran.code, ran.text()), (0, "apples\n"), "{}", ran.err);
        let warning = format!("`chmod 600 {}`", file.display());
        assert_eq!(ran.err.contains(&warning), warns, "{mode:o}: {}", ran.err);
    }
}

#[test]
fn passwords_are_in_no_argument_help_or_message() {
    let place = Place::with_accounts();
    // No option takes one.
    for command in ["get", "load", "user add", "user passwd", "grant"] {
        let mut help = program();
        help.args(command.split(' ')).arg("--help");
        let help = run(help, b"").text().to_owned();
        assert!(!help.contains("--password ") && !help.contains("--password="), "{help}");
        let mut given = program();
        given.args(command.split(' ')).arg(place.path("db")).args(["x", "--password", "secret"]);
        assert_eq!(run(given, b"").code, 2);
    }
    let visible = |ran: &Ran| {
        ran.err.contains("xyzzy") || String::from_utf8_lossy(&ran.out).contains("xyzzy")
    };
    for (user, command, arguments) in [
        ("root", "user list", &[][..]),
        ("root", "user list", &["--json"]),
        ("root", "dump", &["--print"]),
        ("ada", "put", &["k", "v"]),
        ("nobody", "trees", &[]),
        ("root", "stat", &["--json"]),
        ("root", "user passwd", &["nobody"]),
    ] {
        let mut program = program();
        program.args(command.split(' ')).arg(place.path("db")).args(arguments);
        program.args(["--user", user]).env("LATCHKV_PASSWORD", password_of(user));
        program.env("LATCHKV_NEW_PASSWORD", password_of("new"));
        let ran = run(program, b"");
        assert!(!visible(&ran), "{command}: {}{}", ran.text(), ran.err);
    }
    let refused = password_of("ada").repeat(300);
    let file = secret_file(&place, "secret", &refused, 0o600);
    let mut get = get_as(&place, "ada");
    get.arg("--password-file").arg(file);
    let ran = run(get, b"");
    assert!(ran.code == 2 && !visible(&ran), "{}", ran.err);
    // Nor in the files, the log included.
    for (path, bytes) in common::files_below(&place.path("db")) {
        assert!(!bytes.windows(5).any(|part| part == b"xyzzy"), "{}", path.display());
    }
}

/// What a terminal showed, and how the program ended.
struct AtTerminal {
    shown: String,
    ran: Ran,
    echoes_after: bool,
}

/// Runs at a terminal of its own: waits for each prompt, and then types the answer.
fn at_terminal(command: &Command, typed: &[(&str, &str)]) -> AtTerminal {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("own terminal");
    let name = ptsname(&controller, Vec::new()).expect("it has a name").into_string();
    let name = name.expect("names of terminals are ASCII");
    // Keeps the terminal alive between the program's end and the last look at it.
    let terminal = OpenOptions::new().read(true).write(true).open(&name).expect("own terminal");
    let mut child = wrapped(&["setsid", "--ctty", "--wait"], command)
        .stdin(Stdio::from(terminal.try_clone().expect("a handle")))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setsid is part of every Linux");
    let mut controller = File::from(controller);
    let mut shown = String::new();
    let mut from = 0;
    let mut buffer = [0; 256];
    for (prompt, answer) in typed {
        while !shown[from..].contains(prompt) {
            let read = controller.read(&mut buffer).expect("the terminal is open");
            shown += std::str::from_utf8(&buffer[..read]).expect("prompts are ASCII");
        }
        from = shown.len();
        controller.write_all(answer.as_bytes()).expect("the terminal is open");
    }
    let mut out = Vec::new();
    let mut err = String::new();
    child.stdout.take().expect("piped").read_to_end(&mut out).expect("readable");
    child.stderr.take().expect("piped").read_to_string(&mut err).expect("UTF-8");
    let code = child.wait().expect("it ends").code().unwrap_or(-1);
    let echoes_after =
        tcgetattr(&terminal).expect("a terminal").local_modes.contains(LocalModes::ECHO);
    // A mark behind all that the program has written.
    (&terminal).write_all(b"#").expect("the terminal is open");
    while !shown.ends_with('#') {
        let read = controller.read(&mut buffer).expect("the terminal is open");
        shown += std::str::from_utf8(&buffer[..read]).expect("prompts are ASCII");
    }
    AtTerminal { shown, ran: Ran { code, out, err }, echoes_after }
}

#[test]
fn a_terminal_is_asked_and_does_not_show_the_answer() {
    let place = Place::with_accounts();
    let answer = format!("{}\n", password_of("ada"));
    let ran = at_terminal(&get_as(&place, "ada"), &[("Password of ada: ", &answer)]);
    assert_eq!((ran.ran.code, ran.ran.text()), (0, "apples\n"), "{}", ran.ran.err);
    assert_eq!(ran.shown, "Password of ada: \r\n#");
    assert!(ran.echoes_after);
    // What was typed is erased as in any line: backspace, and the whole of it.
    let answer = format!("wrong\u{15}{}x\u{7f}\n", password_of("ada"));
    let ran = at_terminal(&get_as(&place, "ada"), &[("Password of ada: ", &answer)]);
    assert_eq!((ran.ran.code, &*ran.shown), (0, "Password of ada: \r\n#"), "{}", ran.ran.err);
    let ran = at_terminal(&get_as(&place, "ada"), &[("Password of ada: ", "wrong\n")]);
    assert!(ran.ran.code == 4 && ran.ran.err.contains("wrong name or password"));
}

#[test]
fn a_new_password_is_asked_for_twice() {
    let place = Place::with_accounts();
    let passwd = |user: &str| {
        let mut passwd = program();
        passwd.args(["user", "passwd"]).arg(place.path("db")).args(["ada", "--user", user]);
        passwd.env("LATCHKV_PASSWORD", password_of(user));
        passwd
    };
    let first = ("New password of ada: ", "plover\n");
    let ran = at_terminal(&passwd("root"), &[first, ("The same again: ", "plovre\n")]);
    assert!(ran.ran.code == 2 && ran.ran.err.contains("not the same"), "{}", ran.ran.err);
    place.ok_as("ada", "trees", &NONE);
    let ran = at_terminal(&passwd("ada"), &[first, ("The same again: ", "plover\n")]);
    assert_eq!(ran.ran.code, 0, "{}", ran.ran.err);
    assert_eq!(ran.shown, "New password of ada: \r\nThe same again: \r\n#");
    let mut get = get_as(&place, "ada");
    get.env("LATCHKV_PASSWORD", "plover");
    assert_eq!(run(get, b"").text(), "apples\n");
}

#[test]
fn a_prompt_that_is_left_does_nothing_and_leaves_the_terminal_as_it_was() {
    let place = Place::with_accounts();
    for key in ["\u{3}", "half a pass\u{3}", "\u{1c}", "\u{4}"] {
        let ran = at_terminal(&get_as(&place, "ada"), &[("Password of ada: ", key)]);
        assert_eq!((ran.ran.code, ran.ran.text()), (2, ""), "{key:?}");
        assert!(ran.ran.err.contains("no password was given"), "{}", ran.ran.err);
        assert!(ran.echoes_after && !ran.shown.contains("half"), "{}", ran.shown);
    }
}

#[test]
fn nothing_is_asked_where_a_password_is_given() {
    let place = Place::with_accounts();
    let mut get = get_as(&place, "ada");
    get.env("LATCHKV_PASSWORD", password_of("ada"));
    let ran = at_terminal(&get, &[]);
    assert_eq!((ran.ran.code, &*ran.shown), (0, "#"));
    // Standard input is that terminal, and would show what is typed.
    let mut get = get_as(&place, "ada");
    get.args(["--password-file", "-"]);
    let ran = at_terminal(&get, &[]);
    assert!(ran.ran.code == 2 && ran.ran.err.contains("would show"), "{}", ran.ran.err);
}
