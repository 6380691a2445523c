//! How the program ends: what scripts see.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | found, or done; also when the reader of our output went away (`... \| head`) |
//! | 1 | not found: the key, or the tree that was to be read |
//! | 2 | the command line was wrong |
//! | 3 | an error: malformed input, damage, a file that cannot be read or written |
//!
//! Every message says what to do. Tested here for the codes and in `tests/` through the program.

use crate::words::plain;
use latchkv::{Error, OpenError, Usage};
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
            | Failure::NotClosed(message) => f.write_str(message),
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let message = error.to_string();
        match error {
            Error::Usage(Usage::NoSuchTree(_)) => Failure::NotFound(message),
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
                     or check the path"
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
        assert_eq!(Failure::from(Error::Closed).code(), 3);
    }
}
