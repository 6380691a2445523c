//! What `load` reads: five formats, one shape of result.
//!
//! ```text
//! dir     a folder: key = path below it, value = contents
//! tsv     key TAB value, escaped as `keys` has it
//! csv     two columns, or two named columns of many
//! jsonl   {"key": .., "value": ..} a line
//! dump    db_dump and mdb_dump
//!            |
//!            v
//!   Sink: tree / record / bad / skipped / bytes_read
//! ```
//!
//! A reader decides what a record is; the [`Sink`] decides what becomes of it. Readers know nothing of
//! databases.
//!
//! Invariants:
//! - \[I1\] An input can be read any number of times: what is no regular file is first copied to a
//!   temporary file.
//! - \[I2\] Whatever cannot be understood reaches [`Sink::bad`] with its place; nothing is guessed.
//! - \[I3\] A reader goes on after a bad record exactly if the sink says so.
//!
//! Each format tests its own bad lines; the tests here are about choosing a format.

mod csv;
mod dir;
mod dump;
mod jsonl;
mod lines;
mod tsv;

use crate::exit::{Failure, Outcome};
use crate::words::counted;
use clap::ValueEnum;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// Format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A folder: keys are paths, values are contents
    Dir,
    /// Lines of key, TAB, value with escapes
    Tsv,
    /// Comma-separated values
    Csv,
    /// A JSON object a line
    Jsonl,
    /// Text of db_dump, mdb_dump or `latchkv dump`
    Dump,
}

/// Where in the input something is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// Line, counted from 1.
    Line(u64),
    /// File of a folder.
    Path(&'a Path),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Path(path) => path.display().fmt(f),
        }
    }
}

/// A value, or only its length where the sink does not want the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// The bytes.
    Bytes(&'a [u8]),
    /// A file that can be opened and has this many bytes.
    Unread(u64),
}

/// What is left out by design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Skipped {
    /// The database that is loaded into.
    Database,
    /// A symbolic link.
    SymbolicLink,
    /// A device, a pipe or a socket.
    Special,
    /// A record of an account or a namespace.
    Account,
}

impl Skipped {
    /// So many of it, in words.
    pub(crate) fn told(self, count: u64) -> String {
        match (self, count) {
            (Skipped::Database, _) => "the database itself".into(),
            (Skipped::SymbolicLink, _) => counted(count, "symbolic link"),
            (Skipped::Special, 1) => "1 device, pipe or socket".into(),
            (Skipped::Account, _) => {
                format!("{} of accounts and namespaces", counted(count, "record"))
            }
            (Skipped::Special, _) => format!("{count} devices, pipes and sockets"),
        }
    }
}

/// Takes in what a reader finds. An error ends the reading and is passed on.
pub(crate) trait Sink {
    /// The records that follow belong to this tree; `None` is the database without a name.
    fn tree(&mut self, name: Option<&str>) -> Outcome;
    /// A record.
    fn record(&mut self, place: Place<'_>, key: &[u8], value: Value<'_>) -> Outcome;
    /// Something that is no record.
    fn bad(&mut self, place: Place<'_>, why: String) -> Outcome;
    /// Something that is left out by design, such as a symbolic link.
    fn skipped(&mut self, what: Skipped);
    /// Bytes of input read since the last call, for the progress.
    fn bytes_read(&mut self, bytes: u64);
    /// Whether values are wanted, or their lengths will do. Only asked where reading them can be saved.
    fn wants_values(&self) -> bool;
    /// Greatest length of a value in bytes, so that no reader reads more of a file than can be stored.
    fn value_bytes_max(&self) -> u64;
}

/// Columns of a csv file that has a header.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Name of the column of keys.
    pub(crate) key: String,
    /// Name of the column of values.
    pub(crate) value: String,
}

/// What is to be loaded.
#[derive(Debug)]
pub(crate) struct Input {
    format: Format,
    source: Source,
    columns: Option<Columns>,
    bytes: Option<u64>,
}

#[derive(Debug)]
enum Source {
    Dir { root: PathBuf, leave_out: PathBuf },
    File { file: File, path: PathBuf },
}

impl Input {
    /// Opens `path` (`-` is standard input). `database` is left out of a folder that contains it.
    pub(crate) fn open(
        path: &Path,
        format: Option<Format>,
        columns: Option<Columns>,
        database: &Path,
    ) -> Outcome<Input> {
        let stdin = path == Path::new("-");
        if !stdin && let Err(error) = fs::metadata(path) {
            return Err(Failure::file("opening", path, error));
        }
        let is_dir = !stdin && path.is_dir();
        let format = match format.or_else(|| guess(path, is_dir)) {
            Some(format) => format,
            None => {
                let path = path.display();
                return Err(Failure::Usage(format!(
                    "the format of {path} is not clear from its name: say --format tsv, csv, jsonl or dump"
                )));
            }
        };
        if (format == Format::Dir) != is_dir {
            let (path, kind) = (path.display(), if is_dir { "a folder" } else { "no folder" });
            let advice = if is_dir { "use --format dir" } else { "--format dir wants a folder" };
            return Err(Failure::Usage(format!("{path} is {kind}: {advice}")));
        }
        if columns.is_some() && format != Format::Csv {
            return Err(Failure::Usage("--key-column and --value-column are for csv".into()));
        }
        if is_dir {
            let source = Source::Dir { root: path.into(), leave_out: database.into() };
            return Ok(Input { format, source, columns, bytes: None });
        }
        let file = if stdin {
            spool(&mut io::stdin().lock())?
        } else {
            let mut file = File::open(path).map_err(|e| Failure::file("opening", path, e))?;
            let metadata = file.metadata().map_err(|e| Failure::file("opening", path, e))?;
            if metadata.is_file() { file } else { spool(&mut file)? }
        };
        let bytes = file.metadata().ok().map(|metadata| metadata.len());
        Ok(Input { format, source: Source::File { file, path: path.into() }, columns, bytes })
    }

    /// Bytes to read, if known beforehand.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Whether this is a dump, which names its own trees.
    pub(crate) fn names_trees(&self) -> bool {
        self.format == Format::Dump
    }

    /// Gives every record to `sink`, from the start.
    pub(crate) fn read(&self, sink: &mut dyn Sink) -> Outcome {
        let (file, path) = match &self.source {
            Source::Dir { root, leave_out } => return dir::read(root, leave_out, sink),
            Source::File { file, path } => (file, path),
        };
        let mut reader = file;
        reader.rewind().map_err(|e| Failure::file("reading", path, e))?;
        let outcome = match self.format {
            Format::Tsv => tsv::read(reader, sink),
            Format::Csv => csv::read(reader, self.columns.as_ref(), sink),
            Format::Jsonl => jsonl::read(reader, sink),
            Format::Dump => dump::read(reader, sink),
            Format::Dir => unreachable!("a folder was handled above"),
        };
        outcome.map_err(|error| match error {
            ReadError::Io(error) => Failure::file("reading", path, error),
            ReadError::Sink(failure) => failure,
        })
    }
}

/// Why a reader stopped early.
#[derive(Debug)]
enum ReadError {
    /// The input could not be read.
    Io(io::Error),
    /// The sink had enough.
    Sink(Failure),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> ReadError {
        ReadError::Sink(failure)
    }
}

/// The format that the name of `path` speaks for.
fn guess(path: &Path, is_dir: bool) -> Option<Format> {
    if is_dir {
        return Some(Format::Dir);
    }
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "tsv" => Some(Format::Tsv),
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        "dump" => Some(Format::Dump),
        _ => None,
    }
}

/// Copies what can be read only once to an unnamed temporary file (\[I1\]).
fn spool(reader: &mut dyn Read) -> Outcome<File> {
    let folder = std::env::temp_dir();
    let failed = |error| {
        let folder = folder.display();
        Failure::Error(format!(
            "copying the input to a temporary file in {folder} failed: {error} (TMPDIR names another folder)"
        ))
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(failed)?;
    io::copy(reader, &mut file).map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
pub(super) mod testing {
    //! A sink that writes down what it is given.

    use super::*;

    /// One call of the sink.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Seen {
        Tree(Option<String>),
        Record(Vec<u8>, Vec<u8>),
        Bad(String, String),
        Skipped(Skipped),
    }

    /// Collects; stops at the first bad record unless told to go on.
    #[derive(Default)]
    pub(crate) struct Notes {
        pub(crate) seen: Vec<Seen>,
        pub(crate) strict: bool,
        pub(crate) bytes: u64,
    }

    impl Notes {
        /// Keys and values, lossily as text.
        pub(crate) fn records(&self) -> Vec<(String, String)> {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let record = |seen: &Seen| match seen {
                Seen::Record(key, value) => Some((text(key), text(value))),
                _ => None,
            };
            self.seen.iter().filter_map(record).collect()
        }

        /// Places of what was bad, and why.
        pub(crate) fn bad(&self) -> Vec<(&str, &str)> {
            let mut bad = Vec::new();
            for seen in &self.seen {
                if let Seen::Bad(place, why) = seen {
                    bad.push((place.as_str(), why.as_str()));
                }
            }
            bad
        }
    }

    impl Sink for Notes {
        fn tree(&mut self, name: Option<&str>) -> Outcome {
            self.seen.push(Seen::Tree(name.map(String::from)));
            Ok(())
        }
        fn record(&mut self, _: Place<'_>, key: &[u8], value: Value<'_>) -> Outcome {
            let value = match value {
                Value::Bytes(bytes) => bytes.to_vec(),
                Value::Unread(bytes) => format!("{bytes} bytes").into_bytes(),
            };
            self.seen.push(Seen::Record(key.to_vec(), value));
            Ok(())
        }
        fn bad(&mut self, place: Place<'_>, why: String) -> Outcome {
            self.seen.push(Seen::Bad(place.to_string(), why.clone()));
            if self.strict { Err(Failure::Error(format!("{place}: {why}"))) } else { Ok(()) }
        }
        fn skipped(&mut self, what: Skipped) {
            self.seen.push(Seen::Skipped(what));
        }
        fn bytes_read(&mut self, bytes: u64) {
            self.bytes += bytes;
        }
        fn wants_values(&self) -> bool {
            true
        }
        fn value_bytes_max(&self) -> u64 {
            1 << 20
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Notes;
    use super::*;

    #[test]
    fn the_name_tells_the_format() {
        assert_eq!(guess(Path::new("x/a.TSV"), false), Some(Format::Tsv));
        assert_eq!(guess(Path::new("a.ndjson"), false), Some(Format::Jsonl));
        assert_eq!(guess(Path::new("a.dump"), false), Some(Format::Dump));
        assert_eq!(guess(Path::new("a.csv"), true), Some(Format::Dir));
        assert_eq!(guess(Path::new("a.txt"), false), None);
        assert_eq!(guess(Path::new("-"), false), None);
    }

    #[test]
    fn an_input_is_read_from_its_start_each_time() {
        let mut file = tempfile::NamedTempFile::with_suffix(".tsv").expect("temporary file");
        io::Write::write_all(&mut file, b"a\t1\nb\t2\n").expect("write");
        let input = Input::open(file.path(), None, None, Path::new("db")).expect("opens");
        for _ in 0..2 {
            let mut notes = Notes::default();
            input.read(&mut notes).expect("reads");
            assert_eq!(notes.records().len(), 2);
            assert_eq!(Some(notes.bytes), input.bytes());
        }
    }

    #[test]
    fn a_folder_and_a_file_format_do_not_go_together() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let refused = Input::open(folder.path(), Some(Format::Tsv), None, Path::new("db"));
        assert_eq!(refused.expect_err("a folder is no tsv").code(), 2);
        let missing = folder.path().join("none.tsv");
        let refused = Input::open(&missing, None, None, Path::new("db"));
        assert_eq!(refused.expect_err("nothing there").code(), 3);
    }
}
