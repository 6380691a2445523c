//! How the program ends: what scripts see.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | found, or done; also when the reader of our output went away (`... \| head`) |
//! | 1 | not found: the key, the tree that was to be read, the account or the namespace |
//! | 2 | the command line was wrong |
//! | 3 | an error: malformed input, damage, a file that cannot be read or written |
//! | 4 | not allowed: the login failed, a right is missing, the namespace is read-only |
//! | 130 | interrupted by Ctrl-C |
//!
//! Every message says what to do. Tested here for the codes and in `tests/` through the program.

use crate::args::UNNAMED;
use crate::interrupt;
use crate::words::{counted, plain};
use latchkv::{Denied, Error, OpenError, Usage};
use std::fmt;
use std::io;
use std::path::Path;

/// Why a command did not end with 0 (except for [`Failure::BrokenPipe`], which does).
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for is not there.
    NotFound(String),
    /// The command line asks for something impossible.
    Usage(String),
    /// Something went wrong.
    Error(String),
    /// The database was not closed, and this command only reads.
    NotClosed(String),
    /// The account may not do this.
    Denied(String),
    /// The user wanted it to end.
    Interrupted(String),
    /// Nobody reads standard output any more: end quietly.
    BrokenPipe,
}

/// What commands give.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::BrokenPipe => 0,
            Failure::NotFound(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Error(_) | Failure::NotClosed(_) => 3,
            Failure::Denied(_) => 4,
            Failure::Interrupted(_) => interrupt::EXIT_CODE,
        }
    }

    /// A failed write to standard output.
    pub(crate) fn output(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::BrokenPipe
        } else {
            Failure::Error(format!("writing to standard output failed: {error}"))
        }
    }

    /// A failed operation on a file that is no part of a database.
    pub(crate) fn file(doing: &str, path: &Path, error: io::Error) -> Failure {
        Failure::Error(format!("{doing} {} failed: {}", path.display(), plain(&error)))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotFound(message)
            | Failure::Usage(message)
            | Failure::Error(message)
            | Failure::NotClosed(message)
            | Failure::Denied(message)
            | Failure::Interrupted(message) => f.write_str(message),
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        match error {
            Error::Usage(Usage::NoSuchTree(_) | Usage::NoSuchAccount(_)) => Failure::NotFound(message),
            Error::Usage(Usage::NoSuchNamespace(_)) => Failure::NotFound(format!(
                "{message}: `latchkv namespace list` prints those that there are, `latchkv namespace create` makes one"
            )),
            Error::Usage(Usage::NoAccounts) => Failure::Usage(
                "the database has no accounts: `latchkv user add DB NAME` without --user makes the first, the \
                 administrator; until then leave --user out"
                    .into(),
            ),
            Error::Usage(Usage::AccountsExist) => Failure::Usage(
                "the database has accounts: give --user and the name of an administrator to add another".into(),
            ),
            Error::Usage(Usage::BadOption { option, actual, allowed }) => {
                let option = match option {
                    "cache_bytes" => "--cache",
                    "page_bytes" => "--page-size",
                    other => other,
                };
                Failure::Usage(format!("{option} is {actual}, allowed is {allowed}"))
            }
            Error::Usage(_) => Failure::Usage(message),
            Error::Open(OpenError::NotFound(path)) => {
                let path = path.display();
                Failure::Error(format!(
                    "no database at {path}: create one with `latchkv load {path} INPUT` or `latchkv put {path} KEY VALUE`, \
                     without --user, or check the path"
                ))
            }
            Error::Open(OpenError::Locked { path, by }) => Failure::Error(format!(
                "{} is open in {by}: close it there, or wait until that ends, and run this again",
                path.display()
            )),
            Error::Open(OpenError::NeedsRecovery(path)) => {
                // The engine names the file that has to be applied.
                let path =
                    path.parent().filter(|_| path.ends_with("log")).unwrap_or(&path).display();
                Failure::NotClosed(format!(
                    "{path} was not closed: `latchkv recover {path}` applies what its log has, which `latchkv log {path}` \
                     shows"
                ))
            }
            Error::Open(OpenError::NotWritable { path, reason }) => {
                let path = path.display();
                Failure::Error(match reason {
                    io::ErrorKind::ReadOnlyFilesystem => format!(
                        "{path} lies on a read-only file system: copy it elsewhere to change it; commands that only read \
                         work here"
                    ),
                    _ => format!(
                        "{path} cannot be written ({reason}): run this as the user who owns it, or have that user let you \
                         write it (`ls -ld {path} {path}/*` shows who may do what)"
                    ),
                })
            }
            Error::Io { op, path, source } if source.kind() == io::ErrorKind::PermissionDenied => {
                let path = path.display();
                Failure::Error(format!(
                    "no permission to {op} {path}: run this as the user who owns it, or have that user let you use it \
                     (`ls -ld {path}` shows who may do what)"
                ))
            }
            Error::Corrupt(corruption) if corruption.page.is_some() => Failure::Error(format!(
                "{message}\n`latchkv check` lists all damage, `latchkv dump --keep-going` writes everything that can be read"
            )),
            Error::Denied(denied) => denied_by(&denied, message),
            Error::Locked { name, .. } => Failure::Error(format!(
                "{name:?} is in use by another session: run this again when less is going on"
            )),
            Error::Conflict { .. } => {
                Failure::Error(format!("{message}; nothing was written, so run this again"))
            }
            Error::Timeout => {
                Failure::Error(format!("{message}: run this again when less is going on"))
            }
            Error::SnapshotEnded { .. } => Failure::Error(format!(
                "{message}; what was printed is right but not complete: run this again"
            )),
            Error::Poisoned { cause } => Failure::Error(format!(
                "writing stopped after a failure: {cause}\nonce this is mended, run this again: what was durable is found \
                 in the log"
            )),
            _ => Failure::Error(message),
        }
    }
}

/// What is not allowed, and what would help.
fn denied_by(denied: &Denied, message: String) -> Failure {
    Failure::Denied(match denied {
        Denied::Login => format!(
            "{message}: see whether --user is right, and the file, the variable LATCHKV_PASSWORD or the line that the \
             password came from"
        ),
        Denied::LoginLocked { retry_after } => format!(
            "too many failed logins by this name: run this again in {}",
            counted(retry_after.as_secs_f64().ceil() as u64, "second")
        ),
        Denied::NeedsRights { account, rights, object } => format!(
            "account {account:?} needs {rights} on {object:?}: `latchkv grant` by one who may gives it"
        ),
        Denied::NamespaceReadOnly { namespace, state } => {
            let namespace = if namespace.is_empty() { UNNAMED } else { namespace };
            format!(
                "namespace {namespace:?} is read-only ({state}): `latchkv namespace read-only` by one who may ends that"
            )
        }
        Denied::SystemTree(name) => format!(
            "{name:?} is a tree of the system: `latchkv user`, `role`, `grant`, `revoke` and `namespace` change what is \
             in those"
        ),
        // The database is open for reading only, which no account changes.
        Denied::ReadOnly { .. } => return Failure::Error(message),
        _ => message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_ends_with_zero_and_other_output_errors_with_three() {
        let gone = Failure::output(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(gone.code(), 0);
        let full = Failure::output(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.code(), 3);
    }

    #[test]
    fn a_refused_file_says_what_to_do() {
        let source = std::sync::Arc::new(io::Error::from(io::ErrorKind::PermissionDenied));
        let refused = Error::Io { op: "open", path: "db/lock".into(), source };
        let message = Failure::from(refused).to_string();
        for part in ["no permission to open db/lock", "run this as", "ls -ld db/lock"] {
            assert!(message.contains(part), "{message}");
        }
        for (reason, part) in [
            (io::ErrorKind::PermissionDenied, "run this as"),
            (io::ErrorKind::ReadOnlyFilesystem, "copy it elsewhere"),
        ] {
            let refused = OpenError::NotWritable { path: "db".into(), reason };
            let message = Failure::from(Error::from(refused)).to_string();
            assert!(message.starts_with("db ") && message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_database_that_was_not_closed_names_the_command_that_helps() {
        let left = OpenError::NeedsRecovery("db/log".into());
        let message = Failure::from(Error::from(left)).to_string();
        assert!(message.starts_with("db was not closed"), "{message}");
        assert!(message.contains("`latchkv recover db`"), "{message}");
    }

    #[test]
    fn what_may_go_well_next_time_says_so() {
        let age_max = std::time::Duration::from_secs(1);
        for error in [
            Error::Conflict { tree: "t".into(), key: None },
            Error::Timeout,
            Error::SnapshotEnded { name: None, age_max },
            Error::Poisoned { cause: std::sync::Arc::new(Error::Closed) },
        ] {
            let failure = Failure::from(error);
            assert_eq!(failure.code(), 3);
            assert!(failure.to_string().contains("run this again"), "{failure}");
        }
    }

    #[test]
    fn a_wrong_call_is_a_usage_error_and_a_missing_tree_is_not_found() {
        let large = Error::from(Usage::KeyTooLarge { actual: 9, maximum: 8 });
        assert_eq!(Failure::from(large).code(), 2);
        let missing = Error::from(Usage::NoSuchTree("t".into()));
        assert_eq!(Failure::from(missing).code(), 1);
        for missing in [Usage::NoSuchAccount("a".into()), Usage::NoSuchNamespace("n".into())] {
            assert_eq!(Failure::from(Error::from(missing)).code(), 1);
        }
        assert_eq!(Failure::from(Error::Closed).code(), 3);
    }

    #[test]
    fn what_is_not_allowed_ends_with_four_and_says_what_helps() {
        let account = || "ada".to_owned();
        let retry_after = std::time::Duration::from_millis(1200);
        for (denied, part) in [
            (Denied::Login, "wrong name or password: see"),
            (Denied::LoginLocked { retry_after }, "run this again in 2 seconds"),
            (
                Denied::NeedsRights {
                    account: account(),
                    rights: "READ".into(),
                    object: "t".into(),
                },
                "`latchkv grant`",
            ),
            (
                Denied::NamespaceReadOnly { namespace: String::new(), state: "yes".into() },
                "namespace \"/\" is read-only (yes): `latchkv namespace read-only`",
            ),
            (Denied::SystemTree("latchkv/accounts".into()), "`latchkv user`"),
            (Denied::OwnAccount(account()), "another administrator"),
            (Denied::OwnSuper(account()), "another administrator"),
            (Denied::LastAdministrator, "grant it to another"),
            (Denied::AccountDropped, "log in by another"),
        ] {
            let failure = Failure::from(Error::from(denied));
            assert_eq!(failure.code(), 4, "{failure}");
            assert!(failure.to_string().contains(part), "{failure}");
        }
        let opened_for_reading = Error::from(Denied::ReadOnly { op: "put" });
        assert_eq!(Failure::from(opened_for_reading).code(), 3);
    }
}
