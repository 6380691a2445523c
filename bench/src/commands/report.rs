//! `report`: all files that commands wrote with `--json` to one directory, as a page, as Markdown, and as the tables of
//! a document.
//!
//! A file that cannot be read is an error before anything is written: a page that leaves something out would pass for a
//! whole one. Files of one command come side by side, the newest first. `render` does the work.

use crate::render::file::{File, newest_first};
use crate::render::{html, markdown};
use crate::{Fail, report};
use std::path::{Path, PathBuf};

/// Options of `report`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Directory of files that commands wrote with --json
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The page, by default report.html in the directory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The Markdown, by default report.md in the directory
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Make the tables of this document anew, between its marks, instead of a page and Markdown
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "markdown"])]
    update: Option<PathBuf>,
    /// With --update: change nothing, and fail if anything would change
    #[arg(long, requires = "update")]
    check: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let groups = groups(&args.dir)?;
    if let Some(path) = &args.update {
        return update(path, &groups, args.check);
    }
    let title = "latchkv-bench";
    let page = html::page(title, &groups)?;
    let text = markdown::document(title, &groups)?;
    let or = |path: &Option<PathBuf>, name| path.clone().unwrap_or_else(|| args.dir.join(name));
    for (path, text) in
        [(or(&args.html, "report.html"), page), (or(&args.markdown, "report.md"), text)]
    {
        report::write_whole(&path, text.as_bytes())?;
        println!("written to {}", path.display());
    }
    Ok(())
}

/// All files of the directory, those of one command together.
fn groups(dir: &Path) -> Result<Vec<Vec<File>>, Fail> {
    let unread = |error: std::io::Error| format!("{} cannot be read: {error}", dir.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(format!(
            "{} has no files *.json: write some with --json of other commands",
            dir.display()
        )
        .into());
    }
    paths.sort();
    let mut groups: Vec<Vec<File>> = Vec::new();
    for path in &paths {
        let file = File::read(path)?;
        match groups.iter_mut().find(|files| files[0].command == file.command) {
            Some(files) => files.push(file),
            None => groups.push(vec![file]),
        }
    }
    for files in &mut groups {
        files.sort_by(newest_first);
    }
    Ok(groups)
}

fn update(path: &Path, groups: &[Vec<File>], check: bool) -> Result<(), Fail> {
    let before = std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let after = markdown::updated(&before, groups)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if before == after {
        println!("{} is as the files say", path.display());
        return Ok(());
    }
    if check {
        return Err(format!(
            "{} is not as the files say: run this without --check",
            path.display()
        )
        .into());
    }
    report::write_whole(path, after.as_bytes())?;
    println!("written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::file::tests::{put, sample};

    fn args(dir: &Path) -> Args {
        Args { dir: dir.to_owned(), html: None, markdown: None, update: None, check: false }
    }

    #[test]
    fn a_directory_becomes_a_page_and_markdown() {
        let dir = tempfile::tempdir().expect("a directory");
        put(dir.path(), "a.json", &sample(1.0, None, true));
        let mut other = sample(1.0, None, true);
        other["command"] = "kv".into();
        put(dir.path(), "b.json", &other);
        run(&args(dir.path())).expect("written");
        for name in ["report.html", "report.md"] {
            let text = std::fs::read_to_string(dir.path().join(name)).expect("written");
            assert!(
                text.contains("latchkv-bench latch") && text.contains("latchkv-bench kv"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_report_leaves_nothing_half_written() {
        let dir = tempfile::tempdir().expect("a directory");
        put(dir.path(), "a.json", &sample(1.0, None, true));
        std::fs::write(dir.path().join("b.json"), "{").expect("written");
        let error = run(&args(dir.path())).expect_err("damaged").to_string();
        assert!(error.contains("b.json is not JSON"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 2);
    }

    #[test]
    fn an_empty_directory_is_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = run(&args(dir.path())).expect_err("empty").to_string();
        assert!(error.contains("--json"), "{error}");
    }

    #[test]
    fn a_document_is_checked_and_updated() {
        let dir = tempfile::tempdir().expect("a directory");
        put(dir.path(), "a.json", &sample(1.0, None, true));
        let document = dir.path().join("README.md");
        let text = "x\n<!-- latchkv-bench: latch / waits -->\n<!-- latchkv-bench: end -->\n";
        std::fs::write(&document, text).expect("written");
        let with = |check| Args { update: Some(document.clone()), check, ..args(dir.path()) };
        assert!(run(&with(true)).is_err());
        assert_eq!(std::fs::read_to_string(&document).expect("there"), text);
        run(&with(false)).expect("updated");
        run(&with(true)).expect("as the files say");
    }
}
