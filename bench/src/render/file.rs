//! The one reader of what [`crate::report`] writes.

use crate::Fail;
use crate::report;
use crate::rounds::Series;
use crate::table::Table;
use serde_json::{Map, Value};
use std::path::Path;

/// A report, read back.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct File {
    /// Its path, as it was given.
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) options: Map<String, Value>,
    pub(crate) machine: Map<String, Value>,
    /// Whether the command ended; otherwise the sections are those that had ended.
    pub(crate) complete: bool,
    pub(crate) sections: Vec<Section>,
}

/// A section of a report.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Section {
    Series(Variants),
    Table(Table),
    Facts {
        facts: Map<String, Value>,
        /// Those of them that depend on the speed of the machine.
        times: Map<String, Value>,
    },
}

/// A series, as written. What can be computed from the rounds is not read.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Variants {
    pub(crate) title: String,
    variants: Vec<Rounds>,
}

#[derive(Clone, Debug, serde::Deserialize)]
struct Rounds {
    name: String,
    ns_per_op_rounds: Vec<f64>,
}

impl Variants {
    pub(crate) fn series(&self) -> Series {
        Series {
            names: self.variants.iter().map(|variant| variant.name.clone()).collect(),
            ns: self.variants.iter().map(|variant| variant.ns_per_op_rounds.clone()).collect(),
        }
    }
}

/// A value as a person reads it: text without its quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is not there, no report, of another version, or damaged: a message that says which.
    pub(crate) fn read(path: &Path) -> Result<File, Fail> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{name} cannot be read: {error}"))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{name} is not JSON: {error}"))?;
        if value["format"] != "latchkv-bench" {
            return Err(format!(
                "{name} is no report of latchkv-bench: write one with --json, by this version"
            )
            .into());
        }
        if value["version"] != report::VERSION {
            return Err(format!(
                "{name} is of version {} of the format, and this program reads version {}: \
                 measure again, or use the program that wrote it",
                value["version"],
                report::VERSION
            )
            .into());
        }
        let file: File = serde_json::from_value(value)
            .map_err(|error| format!("{name} is a damaged report: {error}"))?;
        file.check().map_err(|what| format!("{name} is a damaged report: {what}"))?;
        Ok(File { name, ..file })
    }

    /// What the types do not say: that tables are whole, and variants of a series have the same rounds.
    fn check(&self) -> Result<(), String> {
        for section in &self.sections {
            match section {
                Section::Table(table) => table.check()?,
                Section::Series(series) => {
                    let rounds = |variant: &Rounds| variant.ns_per_op_rounds.len();
                    let first = series.variants.first().map_or(0, rounds);
                    if series.variants.iter().any(|variant| rounds(variant) != first) {
                        return Err(format!("series \"{}\" has gaps", series.title));
                    }
                }
                Section::Facts { .. } => {}
            }
        }
        Ok(())
    }

    /// What emulated the machine, if anything did.
    pub(crate) fn emulated(&self) -> Option<&str> {
        self.machine.get("emulated").and_then(Value::as_str)
    }

    /// A field of the machine; empty if it was not told.
    pub(crate) fn machine(&self, name: &str) -> String {
        self.machine.get(name).filter(|value| !value.is_null()).map_or_else(String::new, plain)
    }

    /// What a reader has to know before the figures; empty if all is well.
    pub(crate) fn warning(&self) -> String {
        let mut warnings = Vec::new();
        if let Some(by) = self.emulated() {
            warnings.push(format!("emulated, times are withheld: {by}"));
        }
        if !self.complete {
            warnings.push("partial: the command was interrupted".into());
        }
        let option = |name: &str| self.options.get(name);
        if option("quick").and_then(Value::as_bool) == Some(true) {
            warnings.push("of --quick: shows that it runs, and no more".into());
        }
        if self.machine("profile").starts_with("debug") {
            warnings.push("of a debug build".into());
        }
        if let Some(scale) = option("scale").and_then(Value::as_f64).filter(|&scale| scale < 1.0) {
            warnings.push(format!("scaled to {scale}: more fits the caches"));
        }
        let in_memory =
            ["tmpfs", "ramfs"].iter().any(|of| self.machine("file_system").starts_with(of));
        if in_memory && option("durability").and_then(Value::as_str) != Some("None") {
            warnings.push("on a file system in memory, where a sync costs nothing".into());
        }
        warnings.join("; ")
    }
}

/// The order of files by age: the newest first, and of equally old ones that with the last name.
pub(crate) fn newest_first(one: &File, other: &File) -> std::cmp::Ordering {
    let age = |file: &File| (file.machine("date"), file.name.clone());
    age(other).cmp(&age(one))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A report of `latch` with a section of each kind, its times `slower` times those of 1.0.
    pub(crate) fn sample(slower: f64, emulated: Option<&str>, complete: bool) -> Value {
        let rounds = |ns: f64| json!([ns * slower, ns * slower * 1.01, ns * slower * 0.99]);
        fn columns<const N: usize>(names: [&str; N], kinds: [&str; N]) -> Value {
            names
                .into_iter()
                .zip(kinds)
                .map(|(name, kind)| json!({"name": name, "kind": kind}))
                .collect()
        }
        json!({
            "format": "latchkv-bench", "version": report::VERSION, "command": "latch",
            "options": {"slice_ms": 20}, "complete": complete,
            "machine": {"cpu": "Some <CPU>", "cores": 2, "emulated": emulated},
            "sections": [
                {"kind": "series", "title": "reads & more", "rounds": 3, "variants": [
                    {"name": "latch", "ns_per_op_median": 10.0, "ns_per_op_rounds": rounds(10.0)},
                    {"name": "std", "ns_per_op_median": 20.0, "ns_per_op_rounds": rounds(20.0)},
                ]},
                {"kind": "table", "title": "waits", "note": "a note",
                 "columns": columns(["threads", "lock", "p50 [us]", "writes"], ["key", "key", "time", "told"]),
                 "rows": [[2, "latch", 1.5 * slower, 7], [2, "std", null, 7]]},
                {"kind": "table", "title": "model", "note": "",
                 "columns": columns(["cores", "striped [lines]", "per cell [lines]"], ["key", "told", "told"]),
                 "rows": [[1, 0.5, 0.0], [64, 3.0, 0.0]]},
                {"kind": "facts", "facts": {"huge_pages": "yes"}, "times": {}},
            ],
        })
    }

    /// Writes the value beside others and gives its path.
    pub(crate) fn put(dir: &Path, name: &str, value: &Value) -> std::path::PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, value.to_string()).expect("written");
        path
    }

    fn error_of(text: &str) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.json");
        std::fs::write(&path, text).expect("written");
        File::read(&path).expect_err("bad input").to_string()
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = put(dir.path(), "a.json", &sample(1.0, None, true));
        let file = File::read(&path).expect("a report");
        assert_eq!((file.command.as_str(), file.sections.len()), ("latch", 4));
        assert_eq!((file.machine("cores"), file.machine("governor")), ("2".into(), String::new()));
        assert_eq!(file.warning(), "");
        let Section::Series(series) = &file.sections[0] else { panic!("a series comes first") };
        assert_eq!(series.series().median(1), 20.0);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_in_words() {
        let missing = File::read(Path::new("/nonexistent/a.json")).expect_err("not there");
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
        assert!(error_of("{\"format\": ").contains("is not JSON"));
        assert!(error_of("[1, 2]").contains("is no report of latchkv-bench"));
        assert!(error_of("{\"command\": \"latch\"}").contains("is no report of latchkv-bench"));
        let other = error_of("{\"format\": \"latchkv-bench\", \"version\": 999}");
        assert!(other.contains("version 999") && other.contains("measure again"), "{other}");
        let damaged =
            error_of(&json!({"format": "latchkv-bench", "version": report::VERSION}).to_string());
        assert!(damaged.contains("damaged"), "{damaged}");
        let mut ragged = sample(1.0, None, true);
        ragged["sections"][1]["rows"][0] = json!([1]);
        assert!(error_of(&ragged.to_string()).contains("rows of another length"));
        let mut twice = sample(1.0, None, true);
        twice["sections"][1]["rows"][1] = twice["sections"][1]["rows"][0].clone();
        assert!(error_of(&twice.to_string()).contains("two rows \"2, latch\""));
        let older = sample(1.0, None, true).to_string().replace("\"version\":2", "\"version\":1");
        assert!(error_of(&older).contains("of version 1 of the format"));
        let mut gaps = sample(1.0, None, true);
        gaps["sections"][0]["variants"][0]["ns_per_op_rounds"] = json!([1.0]);
        assert!(error_of(&gaps.to_string()).contains("has gaps"));
    }

    #[test]
    fn partial_and_emulated_files_say_so() {
        let file: File = serde_json::from_value(sample(1.0, Some("by qemu"), false)).expect("one");
        let warning = file.warning();
        assert!(warning.contains("by qemu") && warning.contains("partial"), "{warning}");
    }

    #[test]
    fn what_should_not_count_is_marked() {
        let warned = |change: &dyn Fn(&mut Value)| {
            let mut value = sample(1.0, None, true);
            change(&mut value);
            serde_json::from_value::<File>(value).expect("a report").warning()
        };
        assert_eq!(warned(&|_| {}), "");
        assert!(warned(&|file| file["options"]["quick"] = true.into()).contains("--quick"));
        let debug = warned(&|file| file["machine"]["profile"] = "debug opt-level=0".into());
        assert!(debug.contains("debug build"), "{debug}");
        assert!(warned(&|file| file["options"]["scale"] = 0.1.into()).contains("scaled to 0.1"));
        let tmpfs = |file: &mut Value| file["machine"]["file_system"] = "tmpfs, none".into();
        assert!(warned(&tmpfs).contains("in memory"));
        let lazy = |file: &mut Value| {
            tmpfs(file);
            file["options"]["durability"] = "None".into();
        };
        assert_eq!(warned(&lazy), "");
    }

    #[test]
    fn the_newest_is_so_by_the_second_and_of_equals_the_last_name() {
        let file = |name: &str, date: &str| {
            let mut value = sample(1.0, None, true);
            value["machine"]["date"] = date.into();
            let file: File = serde_json::from_value(value).expect("a report");
            File { name: name.into(), ..file }
        };
        let mut files = [
            file("a", "2026-01-02T03:04:05Z"),
            file("c", "2026-01-02T03:04:05Z"),
            file("b", "2026-01-02T03:04:06Z"),
        ];
        files.sort_by(newest_first);
        assert_eq!(files.map(|file| file.name), ["b", "c", "a"]);
    }
}
