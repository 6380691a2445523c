//! What a command prints and, if asked, writes as JSON.
//!
//! ```text
//! { "format": "latchkv-bench", "version": 1, "command", "options", "machine",
//!   "complete": false until the command has ended,
//!   "sections": [ {"kind": "series", "title", "rounds", "variants": [..]},
//!                 {"kind": "table", "title", "note", "columns": ["name [unit]", ..], "rows": [[cell, ..], ..]},
//!                 {"kind": "facts", "facts": {name: value, ..}} ] }
//! ```
//!
//! What a reader has to see first comes first ([`Report::headline`]), also in a file that is incomplete.
//!
//! The file is written anew after each section: beside it first, then moved to its place, so there is always one
//! that can be read. What was interrupted leaves one that says so (`complete`), with the sections that had ended.

use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::{Fail, machine};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What `version` of a file says; a reader takes no other.
pub(crate) const VERSION: u64 = 1;

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

/// Fails if the file system of `dir` has less than `bytes` free, before anything is written there.
pub(crate) fn need_room(dir: &Path, bytes: u64) -> Result<(), Fail> {
    let system = rustix::fs::statvfs(dir)?;
    let free = system.f_bavail * system.f_frsize;
    if free >= bytes {
        return Ok(());
    }
    Err(format!(
        "{} has {} MiB free, and this needs about {}: take a smaller --scale, or another --dir",
        dir.display(),
        free >> 20,
        bytes >> 20
    )
    .into())
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
    /// Not measured, or meaningless here.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::Count(count as u64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(number) } else { Cell::None }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Cell {
        cell.map_or(Cell::None, Into::into)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Text(text) => f.pad(text),
            Cell::Count(count) => f.pad(&count.to_string()),
            Cell::Number(number) if number.abs() >= 1000.0 => f.pad(&format!("{number:.0}")),
            Cell::Number(number) if number.abs() >= 10.0 => f.pad(&format!("{number:.1}")),
            Cell::Number(number) => f.pad(&format!("{number:.3}")),
            Cell::None => f.pad("-"),
        }
    }
}

/// Rows of cells below named columns; a name ends with its unit in brackets.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Table { title: title.into(), note: String::new(), columns, rows: Vec::new() }
    }

    /// What a reader has to know to read it right.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Table {
        self.note = note.into();
        self
    }

    /// Adds a row: a cell a column.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "{}: a cell a column", self.title);
        self.rows.push(cells);
    }

    /// Prints it below its title.
    pub(crate) fn print(&self) {
        print!("\n{}\n{}", self.title, self.lines());
        if !self.note.is_empty() {
            println!("  ({})", self.note);
        }
    }

    /// The table as aligned lines: texts to the left, numbers to the right.
    fn lines(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().map(|row| row[at].to_string().chars().count());
                cells.chain([self.columns[at].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let left: Vec<bool> = (0..self.columns.len())
            .map(|at| self.rows.iter().any(|row| matches!(row[at], Cell::Text(_))))
            .collect();
        let mut lines = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = String>| {
            let mut text = String::new();
            for (at, cell) in cells.enumerate() {
                let width = widths[at];
                text += "  ";
                text +=
                    &if left[at] { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            }
            lines += text.trim_end();
            lines.push('\n');
        };
        line(&mut self.columns.iter().cloned());
        for row in &self.rows {
            line(&mut row.iter().map(Cell::to_string));
        }
        lines
    }
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
        let machine = machine::describe();
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
        series.print(title);
        self.keep("series", series.to_json(title))
    }

    /// Prints the table and keeps it.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Fail> {
        table.print();
        self.keep("table", serde_json::to_value(table)?)
    }

    /// Keeps the table before all sections, in place of the last one that was kept there. The caller prints it, when
    /// it is the last.
    pub(crate) fn headline(&mut self, table: &Table) -> Result<(), Fail> {
        self.headline = Some(section("table", serde_json::to_value(table)?));
        self.save(false)
    }

    /// Keeps names and values; the caller has printed them.
    pub(crate) fn facts(&mut self, facts: Value) -> Result<(), Fail> {
        self.keep("facts", json!({ "facts": facts }))
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

/// Writes a file that is there as a whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Fail> {
    let beside = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new().permissions(readable()).tempfile_in(beside)?;
        file.write_all(bytes)?;
        file.persist(path)?;
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
        let mut table = Table::new("t", &["a", "b [ns]"]);
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
        need_room(dir.path(), 1).expect("a byte");
        let error = need_room(dir.path(), 1 << 60).expect_err("that much");
        assert!(error.to_string().contains("--scale"), "{error}");
    }

    #[test]
    fn columns_of_numbers_are_aligned_to_the_right() {
        let mut table = Table::new("t", &["name", "n"]);
        table.push(["a".into(), 5_u64.into()]);
        table.push(["bcdef".into(), 1234_u64.into()]);
        assert_eq!(table.lines(), "  name      n\n  a         5\n  bcdef  1234\n");
    }
}
