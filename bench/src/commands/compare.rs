//! `compare`: files that one command wrote with `--json`, on two machines or more, side by side.
//!
//! Each section comes once: a column a machine, and how many times the first machine's figure the others' are. What
//! it is not: a verdict on machines, which differ in more than one thing. `render` does the work; a file that cannot
//! be compared is an error before anything is printed or written.

use crate::render::file::File;
use crate::render::{html, side};
use crate::{Fail, report};
use std::path::PathBuf;

/// Options of `compare`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Files that the same command wrote with --json
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write a page with plots to this file, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let files: Vec<File> =
        args.files.iter().map(|path| File::read(path)).collect::<Result<_, _>>()?;
    of_one_command(&files)?;
    println!("latchkv-bench {}, {} files", files[0].command, files.len());
    side::machines(&files).print();
    if let Some(options) = side::options(&files) {
        options.print();
    }
    side::sections(&files).iter().for_each(|section| section.table.print());
    if let Some(path) = &args.html {
        let page = html::page(&format!("latchkv-bench {}", files[0].command), &[files])?;
        report::write_whole(path, page.as_bytes())?;
        println!("\nwritten to {}", path.display());
    }
    Ok(())
}

fn of_one_command(files: &[File]) -> Result<(), Fail> {
    let Some(first) = files.first() else { return Ok(()) };
    match files.iter().find(|file| file.command != first.command) {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} is of `{}` and {} of `{}`: compare files of one command",
            first.name, first.command, other.name, other.command
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::file::tests::{put, sample};
    use std::path::Path;

    fn compare(dir: &Path, other: &serde_json::Value) -> (Result<(), Fail>, PathBuf) {
        let page = dir.join("page.html");
        let files = vec![put(dir, "a.json", &sample(1.0, None, true)), put(dir, "b.json", other)];
        (run(&Args { files, html: Some(page.clone()) }), page)
    }

    #[test]
    fn two_files_of_one_command_become_a_page() {
        let dir = tempfile::tempdir().expect("a directory");
        let (result, page) = compare(dir.path(), &sample(3.0, None, false));
        result.expect("compared");
        let page = std::fs::read_to_string(page).expect("a page");
        assert!(page.trim_end().ends_with("</html>") && page.contains("B: partial"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 3);
    }

    #[test]
    fn files_of_two_commands_are_an_error_and_leave_no_page() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut other = sample(1.0, None, true);
        other["command"] = "kv".into();
        let (result, page) = compare(dir.path(), &other);
        let error = result.expect_err("two commands").to_string();
        assert!(error.contains("`latch`") && error.contains("`kv`"), "{error}");
        assert!(!page.exists());
    }

    #[test]
    fn a_file_of_another_version_leaves_no_page() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut other = sample(1.0, None, true);
        other["version"] = 0.into();
        let (result, page) = compare(dir.path(), &other);
        assert!(result.expect_err("another version").to_string().contains("version 0"));
        assert!(!page.exists());
    }

    #[test]
    fn a_page_that_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = vec![put(dir.path(), "a.json", &sample(1.0, None, true)); 2];
        let html = Some(dir.path().join("none").join("page.html"));
        let error = run(&Args { files, html }).expect_err("no such directory").to_string();
        assert!(error.contains("cannot be written"), "{error}");
    }
}
