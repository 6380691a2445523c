//! What a command prints and, if asked, writes as JSON.
//!
//! ```text
//! { "format": "latchkv-bench", "version": 2, "command", "options", "machine",
//!   "complete": false until the command has ended,
//!   "sections": [ {"kind": "series", "title", "rounds", "variants": [..]},
//!                 {"kind": "table", "title", "note", "columns": [{"name", "kind"}, ..], "rows": [[cell, ..], ..]},
//!                 {"kind": "facts", "facts": {name: value, ..}, "times": {name: value, ..}} ] }
//! ```
//!
//! What a reader has to see first comes first ([`Report::headline`]), also in a file that is incomplete.
//!
//! The file is written anew after each section: beside it first, then moved to its place, so there is always one
//! that can be read. What was interrupted leaves one that says so (`complete`), with the sections that had ended.

use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::table::WITHHELD;
pub(crate) use crate::table::{Cell, Table};
use crate::{Fail, machine};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What `version` of a file says; a reader takes no other.
pub(crate) const VERSION: u64 = 2;

/// Options that every command has.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Output {
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Directory for the databases, which are removed in the end; by default a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Small and short, about a minute: shows that everything runs; the intervals say what it is worth
    #[arg(long)]
    pub(crate) quick: bool,
}

impl Output {
    /// An empty directory that goes when it is dropped, or when the process is asked to end.
    pub(crate) fn scratch(&self) -> Result<Scratch, Fail> {
        Scratch::new(self.dir.as_deref())?.gone_at_signals()
    }
}

/// Fails if the file system of `dir` has less than `bytes` free, before anything is written there. `smaller` is the option
/// that would need less.
pub(crate) fn need_room(dir: &Path, bytes: u64, smaller: &str) -> Result<(), Fail> {
    let system = rustix::fs::statvfs(dir)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free >= bytes {
        return Ok(());
    }
    Err(format!(
        "{} has {} MiB free, and this needs about {}: take a smaller {smaller}, or another --dir",
        dir.display(),
        free >> 20,
        bytes >> 20
    )
    .into())
}

/// A report under way.
#[derive(Debug)]
pub(crate) struct Report {
    file: Option<PathBuf>,
    fields: Map<String, Value>,
    /// Comes before the sections.
    headline: Option<Value>,
    sections: Vec<Value>,
}

impl Report {
    /// Prints what runs where.
    ///
    /// # Errors
    /// If the file that was asked for cannot be written: before anything is measured.
    pub(crate) fn start(command: &str, options: Value, output: &Output) -> Result<Report, Fail> {
        let machine = machine::describe(output.dir.as_deref().unwrap_or(&std::env::temp_dir()));
        let mut options = options;
        options["quick"] = json!(output.quick);
        println!("latchkv-bench {command} {options}");
        if let Value::Object(fields) = &machine {
            for (name, value) in fields {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                println!("  {name:<28}{text}");
            }
        }
        let mut fields = Map::new();
        fields.insert("format".into(), json!("latchkv-bench"));
        fields.insert("version".into(), json!(VERSION));
        fields.insert("command".into(), json!(command));
        fields.insert("options".into(), options);
        fields.insert("machine".into(), machine);
        let file = output.json.clone();
        let report = Report { file, fields, headline: None, sections: Vec::new() };
        report.save(false)?;
        Ok(report)
    }

    /// Prints the series, each variant compared with the first, and keeps it.
    pub(crate) fn series(&mut self, title: &str, series: &Series) -> Result<(), Fail> {
        if self.tells_times() {
            series.print(title);
        } else {
            println!("\n{title}\n  times are {WITHHELD}: {}", series.names.join(", "));
        }
        self.keep("series", series.to_json(title))
    }

    /// Prints the table and keeps it.
    ///
    /// # Errors
    /// If two of its rows have the same name: somebody asked for one thing twice.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Fail> {
        table.check()?;
        self.show(table);
        self.keep("table", serde_json::to_value(table)?)
    }

    /// Keeps names and values: facts that do not depend on the speed of the machine, and times that do. The caller
    /// prints them, times if they are told.
    pub(crate) fn facts(&mut self, facts: Value, times: Value) -> Result<(), Fail> {
        self.keep("facts", json!({ "facts": facts, "times": times }))
    }

    /// Whether times mean anything on this machine. What it measures is written all the same; readers withhold it.
    pub(crate) fn tells_times(&self) -> bool {
        self.fields.get("machine").is_none_or(|machine| machine["emulated"].is_null())
    }

    /// Prints the table, without times where they mean nothing.
    pub(crate) fn show(&self, table: &Table) {
        if self.tells_times() { table.print() } else { table.withheld().print() }
    }

    /// Keeps the table before all sections, in place of the last one that was kept there. The caller prints it, when
    /// it is the last.
    pub(crate) fn headline(&mut self, table: &Table) -> Result<(), Fail> {
        table.check()?;
        self.headline = Some(section("table", serde_json::to_value(table)?));
        self.save(false)
    }

    fn keep(&mut self, kind: &str, of: Value) -> Result<(), Fail> {
        self.sections.push(section(kind, of));
        self.save(false)
    }

    /// Writes the file, if one was asked for, as that of a command that has ended.
    pub(crate) fn finish(mut self) -> Result<(), Fail> {
        let load = machine::load_average();
        self.fields.insert("load_average_at_end".into(), json!(load));
        self.save(true)?;
        if let Some(path) = &self.file {
            println!("\nwritten to {}", path.display());
        }
        Ok(())
    }

    fn save(&self, complete: bool) -> Result<(), Fail> {
        let Some(path) = &self.file else { return Ok(()) };
        let mut fields = self.fields.clone();
        fields.insert("complete".into(), json!(complete));
        let sections: Vec<&Value> = self.headline.iter().chain(&self.sections).collect();
        fields.insert("sections".into(), json!(sections));
        let text = serde_json::to_string_pretty(&Value::Object(fields))?;
        write_whole(path, text.as_bytes())
    }
}

fn section(kind: &str, mut section: Value) -> Value {
    section["kind"] = json!(kind);
    section
}

/// Writes a file that is there as a whole or not at all. A link stays one, and what it leads to is written; what is no
/// regular file, such as a device or a pipe, is written to and not replaced.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fail> {
    let write = || -> std::io::Result<()> {
        let target = match path.canonicalize() {
            Ok(target) => target,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        if std::fs::metadata(&target).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
            return std::fs::OpenOptions::new().write(true).open(&target)?.write_all(bytes);
        }
        let beside = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        let beside = beside.unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(beside)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(target)?;
        Ok(())
    };
    write().map_err(|error| format!("{} cannot be written: {error}", path.display()).into())
}

/// As any new file: what the process masks is masked.
fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Bytes of the files under `path`, by their lengths. A file that goes meanwhile counts nothing.
pub(crate) fn file_bytes(path: &Path) -> Result<u64, Fail> {
    let mut bytes = 0;
    let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes += file_bytes(&entry.path())?,
            Ok(meta) => bytes += meta.len(),
            Err(error) if gone(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(dir: &Path) -> Output {
        Output { json: Some(dir.join("out.json")), dir: None, quick: true }
    }

    fn written(dir: &Path) -> Value {
        let text = std::fs::read_to_string(dir.join("out.json")).expect("a file");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn a_run_that_was_interrupted_leaves_a_file_that_says_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut report = Report::start("some", json!({}), &output(dir.path())).expect("a report");
        assert_eq!(written(dir.path())["complete"], json!(false));
        let mut table = Table::new("t", &["a", "b [ns]"]).keyed_by(1);
        table.push(["x".into(), 1.5.into()]);
        report.table(&table).expect("kept");
        let partial = written(dir.path());
        assert_eq!(partial["sections"][0]["rows"][0], json!(["x", 1.5]));
        assert_eq!(partial["complete"], json!(false));
        report.finish().expect("written");
        assert_eq!(written(dir.path())["complete"], json!(true));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn the_last_headline_comes_before_all_sections_also_while_incomplete() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut report = Report::start("some", json!({}), &output(dir.path())).expect("a report");
        let table = |title: &str| Table::new(title, &["a"]);
        report.table(&table("section")).expect("kept");
        report.headline(&table("first")).expect("kept");
        report.headline(&table("second")).expect("kept");
        let partial = written(dir.path());
        let titles: Vec<&Value> = (0..2).map(|at| &partial["sections"][at]["title"]).collect();
        assert_eq!(titles, [&json!("second"), &json!("section")]);
        assert_eq!(partial["sections"].as_array().map(Vec::len), Some(2));
        assert_eq!(partial["complete"], json!(false));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_before_anything_is_measured() {
        let dir = tempfile::tempdir().expect("a directory");
        let error =
            Report::start("some", json!({}), &output(&dir.path().join("none"))).expect_err("none");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }

    #[test]
    fn room_that_is_not_there_is_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        need_room(dir.path(), 1, "--records").expect("a byte");
        let error = need_room(dir.path(), 1 << 60, "--records").expect_err("that much");
        assert!(error.to_string().contains("--records"), "{error}");
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write_whole(&link, b"new").expect("written");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(std::fs::read(&file).expect("there"), b"new");
        let null = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).expect("linked");
        write_whole(&null, b"gone").expect("written");
        assert!(null.symlink_metadata().expect("there").is_symlink());
        let error = write_whole(dir.path(), b"x").expect_err("a directory").to_string();
        assert!(error.contains("cannot be written"), "{error}");
    }

    #[test]
    fn a_table_with_two_rows_of_one_name_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut report = Report::start("some", json!({}), &output(dir.path())).expect("a report");
        let mut table = Table::new("t", &["a", "b [ns]"]).keyed_by(1);
        table.push(["x".into(), 1.5.into()]);
        table.push(["x".into(), 2.5.into()]);
        assert!(report.table(&table).expect_err("twice").to_string().contains("two rows \"x\""));
        assert_eq!(written(dir.path())["options"]["quick"], json!(true));
        assert!(written(dir.path())["machine"]["file_system"].is_string());
    }
}
