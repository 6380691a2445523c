//! Passwords: from a file, from the environment, or asked for. Never from an argument, which every process of the
//! machine can read.
//!
//! | | of the one who logs in | of an account that is made or changed |
//! |---|---|---|
//! | 1. a file, `-` for standard input | `--password-file` | `--new-password-file` |
//! | 2. the environment | `LATCHKV_PASSWORD` | `LATCHKV_NEW_PASSWORD` |
//! | 3. the [terminal](crate::terminal), which shows nothing | asked for once | twice |
//!
//! The first of them that is given counts. From a file one line end is cut off its end (a line feed, and a carriage return
//! before it), and nothing else anywhere. The engine takes passwords of 1 to 1024 bytes, whatever they are.
//!
//! Invariants:
//! - \[P1\] A password is in no message, and what is allocated for one here is overwritten with zeros. The environment
//!   keeps its own copy.
//! - \[P2\] A file is read without a buffer of the standard library between, into room that does not move.
//!
//! Tested below, and in `tests/passwords.rs` through the program and at a terminal.

use crate::exit::{Failure, Outcome};
use crate::keys::escaped;
use crate::terminal::Terminal;
use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// A password, which is overwritten when it is dropped.
pub(crate) type Password = Zeroizing<Vec<u8>>;

/// No file with more bytes than this is a password with a line end. The engine has the exact limit.
const FILE_BYTES_MAX: usize = 4096;

/// Bits of a file's mode by which others than its owner may read or change it.
const MODE_OF_OTHERS: u32 = 0o077;

/// Whose password, and where it may come from.
struct Kind {
    option: &'static str,
    variable: &'static str,
}

const OWN: Kind = Kind { option: "--password-file", variable: "LATCHKV_PASSWORD" };
const NEW: Kind = Kind { option: "--new-password-file", variable: "LATCHKV_NEW_PASSWORD" };

/// The path that means standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// The password of the account that logs in.
pub(crate) fn own(quiet: bool, name: &str, file: Option<&Path>) -> Outcome<Password> {
    match OWN.given(quiet, file)? {
        Some(password) => Ok(password),
        None => {
            let prompt = format!("Password of {}: ", escaped(name.as_bytes()));
            OWN.ask(&mut OWN.terminal(name)?, &prompt)
        }
    }
}

/// The password that an account is to get.
pub(crate) fn new(quiet: bool, name: &str, file: Option<&Path>) -> Outcome<Password> {
    if let Some(password) = NEW.given(quiet, file)? {
        return Ok(password);
    }
    let mut terminal = NEW.terminal(name)?;
    let prompt = format!("New password of {}: ", escaped(name.as_bytes()));
    let password = NEW.ask(&mut terminal, &prompt)?;
    if *NEW.ask(&mut terminal, "The same again: ")? != *password {
        return Err(Failure::Usage("the two are not the same: nothing was changed".into()));
    }
    Ok(password)
}

impl Kind {
    fn given(&self, quiet: bool, file: Option<&Path>) -> Outcome<Option<Password>> {
        let (password, from) = match (file, env::var_os(self.variable)) {
            (Some(path), _) => (from_file(quiet, path)?, path.display().to_string()),
            (None, Some(text)) => (Zeroizing::new(text.into_vec()), self.variable.to_owned()),
            (None, None) => return Ok(None),
        };
        if password.is_empty() {
            return Err(Failure::Usage(format!("{from} is empty: a password has a byte at least")));
        }
        Ok(Some(password))
    }

    fn terminal(&self, name: &str) -> Outcome<Terminal> {
        Terminal::open().map_err(|_| {
            Failure::Usage(format!(
                "no password for {name:?}: there is no terminal to ask at, so give {} FILE or set {}",
                self.option, self.variable
            ))
        })
    }

    fn ask(&self, terminal: &mut Terminal, prompt: &str) -> Outcome<Password> {
        match terminal.ask(prompt) {
            Ok(Some(password)) => Ok(password),
            Ok(None) => Err(Failure::Usage("no password was given: nothing was done".into())),
            Err(error) => Err(Failure::Error(format!(
                "reading the password from the terminal failed: {error}; {} FILE or {} gives it otherwise",
                self.option, self.variable
            ))),
        }
    }
}

/// Reads a file, all of it \[P2\].
fn from_file(quiet: bool, path: &Path) -> Outcome<Password> {
    let failed = |error| Failure::file("reading the password from", path, error);
    let mut file = if is_standard_input(path) {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Failure::Usage(
                "standard input is a terminal, which would show the password: leave the option out to be asked for it"
                    .into(),
            ));
        }
        File::from(stdin.as_fd().try_clone_to_owned().map_err(failed)?)
    } else {
        let file = File::open(path).map_err(failed)?;
        warn_if_open_to_others(quiet, path, &file);
        file
    };
    // Room for one byte too many, so that it is seen, and for one more, so that the end is.
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 2));
    let mut limited = file.by_ref().take(FILE_BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Failure::Usage(format!(
            "{} holds more than a password, which has 1 to 1024 bytes: name another file",
            path.display()
        )));
    }
    if bytes.pop_if(|byte| *byte == b'\n').is_some() {
        bytes.pop_if(|byte| *byte == b'\r');
    }
    Ok(bytes)
}

/// A file from which others can take the password works, but not in silence.
fn warn_if_open_to_others(quiet: bool, path: &Path, file: &File) {
    let Ok(metadata) = file.metadata() else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if !quiet && metadata.is_file() && mode & MODE_OF_OTHERS != 0 {
        let path = path.display();
        eprintln!(
            "latchkv: warning: {path} holds a password and others may use it (mode {mode:03o}): `chmod 600 {path}` ends that"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(contents: &[u8]) -> Outcome<Password> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(contents).expect("room");
        from_file(true, file.path())
    }

    #[test]
    fn one_line_end_is_cut_and_nothing_else() {
        for (contents, password) in [
            (&b"secret\n"[..], &b"secret"[..]),
            (b"secret", b"secret"),
            (b"secret\n\n", b"secret\n"),
            (b" two words\t \n", b" two words\t "),
            (b"secret\r\n", b"secret"),
            (b"secret\r\r\n", b"secret\r"),
            (b"secret\r", b"secret\r"),
            (b"\xff\x00", b"\xff\x00"),
            (b"\n", b""),
        ] {
            assert_eq!(**read(contents).expect("a password"), *password);
        }
    }

    #[test]
    fn what_is_longer_than_any_password_is_refused_without_being_read_whole() {
        let refused = read(&vec![b'x'; FILE_BYTES_MAX + 1]).expect_err("too long");
        assert_eq!(refused.code(), 2);
        assert!(refused.to_string().contains("1 to 1024 bytes"), "{refused}");
        assert!(from_file(true, Path::new("/dev/zero")).is_err());
        assert_eq!(read(&[b'x'; FILE_BYTES_MAX]).expect("read").len(), FILE_BYTES_MAX);
    }

    #[test]
    fn room_for_a_password_does_not_move_while_it_is_read() {
        let password = read(&[b'x'; FILE_BYTES_MAX]).expect("read");
        assert_eq!(password.capacity(), FILE_BYTES_MAX + 2);
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let missing = OWN.given(true, Some(Path::new("/none/such"))).expect_err("missing");
        assert!(missing.code() == 3 && missing.to_string().contains("/none/such"), "{missing}");
        let empty = tempfile::NamedTempFile::new().expect("a temporary file");
        let refused = NEW.given(true, Some(empty.path())).expect_err("empty");
        assert!(refused.code() == 2 && refused.to_string().contains("is empty"), "{refused}");
    }
}
