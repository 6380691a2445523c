//! What a command prints and, if asked, writes as JSON.

use crate::{Fail, machine};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Options that every command has.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Output {
    /// Write everything that was measured to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Directory for the databases, which are removed in the end; by default a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

impl Output {
    /// An empty directory that goes when it is dropped.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, Fail> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("latchkv-bench-");
        Ok(match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)?;
                builder.tempdir_in(dir)?
            }
            None => builder.tempdir()?,
        })
    }
}

/// A report under way.
#[derive(Debug)]
pub(crate) struct Report {
    fields: Map<String, Value>,
    sections: Vec<Value>,
}

impl Report {
    /// Prints what runs where.
    pub(crate) fn start(command: &str, options: Value) -> Report {
        let machine = machine::describe();
        println!("latchkv-bench {command} {options}");
        if let Value::Object(fields) = &machine {
            for (name, value) in fields {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                println!("  {name:<26}{text}");
            }
        }
        let mut fields = Map::new();
        fields.insert("command".into(), json!(command));
        fields.insert("options".into(), options);
        fields.insert("machine".into(), machine);
        Report { fields, sections: Vec::new() }
    }

    /// Adds a section; the caller has printed it.
    pub(crate) fn add(&mut self, section: Value) {
        self.sections.push(section);
    }

    /// Writes the file, if one was asked for.
    pub(crate) fn finish(mut self, output: &Output) -> Result<(), Fail> {
        let load = machine::describe()["load_average"].clone();
        self.fields.insert("load_average_at_end".into(), load);
        self.fields.insert("sections".into(), Value::Array(self.sections));
        if let Some(path) = &output.json {
            std::fs::write(path, serde_json::to_string_pretty(&Value::Object(self.fields))?)?;
            println!("\nwritten to {}", path.display());
        }
        Ok(())
    }
}

/// Bytes of the files under `path`, by their lengths. A file that goes meanwhile counts nothing.
pub(crate) fn file_bytes(path: &std::path::Path) -> Result<u64, Fail> {
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
