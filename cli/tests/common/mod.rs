//! Runs the program as a user would.
#![allow(dead_code, reason = "every test program uses a part of this")]

use latchkv::{PasswordCost, Rights, SessionOptions};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder of its own for a test, with a place for a database in it.
pub(crate) struct Place {
    folder: TempDir,
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("printed text is UTF-8")
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).expect("write a file of the test");
        path
    }

    /// Runs `latchkv COMMAND DB ARGUMENTS` on the database `db` of this place. A command may be two words.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, command: &str, arguments: &[A]) -> Ran {
        self.run_on("db", command, arguments, b"")
    }

    /// The same with standard input.
    pub(crate) fn run_with_input<A: AsRef<OsStr>>(
        &self,
        command: &str,
        arguments: &[A],
        input: &[u8],
    ) -> Ran {
        self.run_on("db", command, arguments, input)
    }

    /// The same on another database.
    pub(crate) fn run_on<A: AsRef<OsStr>>(
        &self,
        db: &str,
        command: &str,
        arguments: &[A],
        input: &[u8],
    ) -> Ran {
        let mut program = program();
        program.args(command.split(' ')).arg(self.path(db)).args(arguments);
        run(program, input)
    }

    /// Runs as an account, whose password is that of [`password_of`].
    pub(crate) fn run_as<A: AsRef<OsStr>>(
        &self,
        user: &str,
        command: &str,
        arguments: &[A],
    ) -> Ran {
        let mut program = program();
        program.args(command.split(' ')).arg(self.path("db")).args(arguments);
        program.args(["--user", user]).env("LATCHKV_PASSWORD", password_of(user));
        run(program, b"")
    }

    /// The same, and wants exit code 0; gives standard output.
    pub(crate) fn ok_as<A: AsRef<OsStr>>(
        &self,
        user: &str,
        command: &str,
        arguments: &[A],
    ) -> String {
        let ran = self.run_as(user, command, arguments);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        ran.text().to_string()
    }

    /// The same, and wants this exit code; gives standard error.
    pub(crate) fn fails_as<A: AsRef<OsStr>>(
        &self,
        code: i32,
        user: &str,
        command: &str,
        arguments: &[A],
    ) -> String {
        let ran = self.run_as(user, command, arguments);
        assert_eq!(ran.code, code, "{command}: {}{}", ran.text(), ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran.err
    }

    /// A database with accounts: `root` may do everything, `ada` may read in the namespace `shop`, `bob` may read and
    /// write `shop/orders`. Their passwords cost little to try.
    ///
    /// ```text
    /// shop/orders  1 -> apples, 2 -> pears        lab/secret  k -> v
    /// shop/items   a -> b                         main        k -> v
    /// ```
    pub(crate) fn with_accounts() -> Place {
        let place = Place::new();
        place.fill_accounts().expect("a new database takes accounts");
        place
    }

    fn fill_accounts(&self) -> latchkv::Result<()> {
        let db = latchkv::Options::new().cache_bytes(8 << 20).open(self.path("db"))?;
        let cheap = SessionOptions::new().password_cost(PasswordCost::least());
        let sessions = db.sessions_with(cheap)?;
        sessions.create_administrator("root", password_of("root").as_bytes())?;
        let root = sessions.login("root", password_of("root").as_bytes())?;
        for namespace in ["shop", "lab"] {
            root.create_namespace(namespace)?;
        }
        for (tree, key, value) in [
            ("shop/orders", "1", "apples"),
            ("shop/orders", "2", "pears"),
            ("shop/items", "a", "b"),
            ("lab/secret", "k", "v"),
            ("main", "k", "v"),
        ] {
            db.tree(tree)?.put(key, value)?;
        }
        for user in ["ada", "bob"] {
            root.create_user(user, password_of(user).as_bytes())?;
        }
        root.grant("ada", &"shop/*".parse()?, Rights::READ)?;
        root.grant("bob", &"shop/orders".parse()?, Rights::READ | Rights::WRITE)?;
        drop(root);
        db.close()
    }

    /// Runs and wants exit code 0; gives standard output.
    pub(crate) fn ok<A: AsRef<OsStr>>(&self, command: &str, arguments: &[A]) -> String {
        let ran = self.run(command, arguments);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
        ran.text().to_string()
    }

    /// Runs and wants this exit code; gives standard error.
    pub(crate) fn fails<A: AsRef<OsStr>>(
        &self,
        code: i32,
        command: &str,
        arguments: &[A],
    ) -> String {
        let ran = self.run(command, arguments);
        assert_eq!(ran.code, code, "{command}: {}{}", ran.text(), ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran.err
    }
}

/// The password of an account of a test, which is found in no other text.
pub(crate) fn password_of(user: &str) -> String {
    format!("xyzzy plugh of {user}")
}

/// The program with a small cache, so that the tests can run side by side.
pub(crate) fn program() -> Command {
    let mut command = bare_program();
    command.args(["--cache", "8M"]);
    command
}

/// The program, through an emulator if cargo was told to use one.
pub(crate) fn bare_program() -> Command {
    let binary = env!("CARGO_BIN_EXE_latchkv");
    let target =
        format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER", std::env::consts::ARCH.to_uppercase());
    let mut command = match std::env::var(target) {
        Ok(runner) if !runner.trim().is_empty() => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().expect("a word, as it is not empty"));
            command.args(words).arg(binary);
            command
        }
        _ => Command::new(binary),
    };
    command.env_remove("LATCHKV_PASSWORD").env_remove("LATCHKV_NEW_PASSWORD");
    command
}

/// Runs a command with this input.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A program that ends early does not read its input.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("the program ends").into()
}

/// Paths and contents of all files below a folder.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push((path.clone(), std::fs::read(&path).expect("a file")));
        }
    }
    files.sort();
    files
}

/// No arguments.
pub(crate) const NONE: [&str; 0] = [];

/// The size that a test is to have: `usual`, or that times the percentage in LATCHKV_TEST_SCALE; 1 at least.
pub(crate) fn scaled(usual: usize) -> usize {
    let percent = std::env::var("LATCHKV_TEST_SCALE").ok().and_then(|text| text.parse().ok());
    (usual * percent.unwrap_or(100) / 100).max(1)
}

/// Kills the program as with kill -9, and waits until nothing of it holds the database any more.
pub(crate) fn kill(child: &mut Child, db: &Path) {
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().expect("it ends");
    // The kernel may have to finish what was under way before it gives up the lock.
    loop {
        let mut command = bare_program();
        command.arg("log").arg(db).args(["--limit", "0"]);
        if !run(command, b"").err.contains("is open in") {
            return;
        }
    }
}
