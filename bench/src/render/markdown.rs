//! Tables in Markdown, and the blocks of a document that are made of them.
//!
//! ```text
//! <!-- latchkv-bench: kv / beside the best peer -->      command / first words of a section's title
//! (made anew, with the machine and the date)
//! <!-- latchkv-bench: end -->
//! ```
//!
//! What is outside of the marks stays byte by byte as it is.

use super::file::{File, newest_first};
use super::side::{self, Sided};
use crate::Fail;
use crate::table::{Cell, Table};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- latchkv-bench: ";
const END: &str = "<!-- latchkv-bench: end -->";
const CLOSE: &str = " -->";

/// All files, each group those of one command.
pub(crate) fn document(title: &str, groups: &[Vec<File>]) -> Result<String, Fail> {
    let mut text = format!("# {title}\n");
    for files in groups {
        let Some(first) = files.first() else { continue };
        write!(text, "\n## latchkv-bench {}\n\n", first.command)?;
        text += &table(&side::machines(files));
        if let Some(options) = side::options(files) {
            write!(text, "\n### {}\n\n{}", options.title, table(&options))?;
        }
        for Sided { table: section, .. } in side::sections(files) {
            write!(text, "\n### {}\n\n{}", section.title, table(&section))?;
            if !section.note.is_empty() {
                write!(text, "\n{}\n", section.note)?;
            }
        }
    }
    Ok(text)
}

/// A table: numbers to the right.
fn table(table: &Table) -> String {
    let row = |cells: &mut dyn Iterator<Item = String>| {
        cells.fold("|".to_owned(), |row, cell| row + " " + &cell.replace('|', "\\|") + " |") + "\n"
    };
    let mut text = row(&mut table.columns.iter().map(|column| column.name.clone()));
    let numbers = |at: usize| {
        table.rows.iter().any(|row| matches!(row[at], Cell::Count(_) | Cell::Number(_)))
    };
    let rule = |at| if numbers(at) { "--:".to_owned() } else { "---".to_owned() };
    text += &row(&mut (0..table.columns.len()).map(rule)).replace(' ', "");
    for cells in &table.rows {
        text += &row(&mut cells.iter().map(Cell::to_string));
    }
    text
}

/// The document with each of its blocks made anew from the newest file of its command.
///
/// # Errors
/// A block that does not end, or whose command or section no file has; a document without any.
pub(crate) fn updated(document: &str, groups: &[Vec<File>]) -> Result<String, Fail> {
    let mut text = String::new();
    let mut rest = document;
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        let mark = block[BEGIN.len()..].split_once(CLOSE).map(|(mark, _)| mark);
        let mark = mark.filter(|mark| !mark.contains('\n')).ok_or("a mark has no end")?;
        let inside = &block[BEGIN.len() + mark.len() + CLOSE.len()..];
        let end = inside.find(END).ok_or_else(|| format!("the block \"{mark}\" has no end"))?;
        write!(text, "{before}{BEGIN}{mark}{CLOSE}\n\n{}\n{END}", section(mark, groups)?)?;
        rest = &inside[end + END.len()..];
    }
    if text.is_empty() {
        return Err(
            format!("there is no block: mark one by \"{BEGIN}COMMAND / TITLE{CLOSE}\"").into()
        );
    }
    Ok(text + rest)
}

/// What a block shows.
fn section(mark: &str, groups: &[Vec<File>]) -> Result<String, Fail> {
    let (command, title) =
        mark.split_once(" / ").ok_or_else(|| format!("\"{mark}\" is not \"COMMAND / TITLE\""))?;
    let group = groups.iter().find(|files| files.iter().any(|file| file.command == command));
    let newest = group.and_then(|files| files.iter().min_by(|one, other| newest_first(one, other)));
    let file = newest.ok_or_else(|| format!("there is no file of `{command}`"))?;
    let sections = side::sections(std::slice::from_ref(file));
    let found = sections.iter().find(|sided| sided.table.title.starts_with(title));
    let Sided { table: section, .. } =
        found.ok_or_else(|| format!("{} has no section \"{title}\"", file.name))?;
    let mut text = table(section);
    let of = ["date", "cpu", "cores", "kernel"].map(|name| file.machine(name));
    let [date, cpu, cores, kernel] = of;
    let date = date.split('T').next().unwrap_or_default();
    write!(
        text,
        "\n*{}: `latchkv-bench {command}`, {date}, {cpu}, {cores} cores, Linux {kernel}",
        section.title
    )?;
    if !section.note.is_empty() {
        write!(text, "; {}", section.note)?;
    }
    let warning = file.warning();
    if !warning.is_empty() {
        write!(text, "; {warning}")?;
    }
    text += ".*\n";
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::sample;
    use super::*;

    fn groups(dates: &[&str]) -> Vec<Vec<File>> {
        let files = dates.iter().enumerate().map(|(at, date)| {
            let mut value = sample(1.0 + at as f64, None, true);
            value["machine"]["date"] = (*date).into();
            serde_json::from_value(value).expect("a report")
        });
        vec![files.collect()]
    }

    #[test]
    fn a_document_has_each_section_as_a_table() {
        let text = document("All", &groups(&["2026-01-01"])).expect("written");
        assert!(text.contains("\n### waits\n") && text.contains("\n### reads & more\n"), "{text}");
        assert!(text.contains("| 2 | latch | 1.500 | 7 |"), "{text}");
    }

    #[test]
    fn a_block_is_made_of_the_newest_file_and_the_rest_stays() {
        let before = "a\r\n <!-- latchkv-bench: latch / wai -->old<!-- latchkv-bench: end -->\n  b";
        let after =
            updated(before, &groups(&["2026-01-01", "2026-03-01", "2026-02-01"])).expect("made");
        assert!(after.starts_with("a\r\n <!-- latchkv-bench: latch / wai -->\n\n|"), "{after}");
        assert!(after.ends_with("<!-- latchkv-bench: end -->\n  b") && !after.contains("old"));
        assert!(
            after.contains("2026-03-01") && after.contains("| 2 | latch | 3.000 | 7 |"),
            "{after}"
        );
        let again = updated(&after, &groups(&["2026-01-01", "2026-03-01"])).expect("made");
        assert_eq!(after, again);
    }

    #[test]
    fn blocks_that_cannot_be_made_are_errors_that_name_them() {
        let error = |text: &str| updated(text, &groups(&["d"])).expect_err("bad").to_string();
        assert!(error("no marks").contains("there is no block"));
        assert!(
            error("<!-- latchkv-bench: latch / waits --> ..")
                .contains("\"latch / waits\" has no end")
        );
        let end = "<!-- latchkv-bench: end -->";
        assert!(error(&format!("<!-- latchkv-bench: kv / x -->{end}")).contains("no file of `kv`"));
        assert!(
            error(&format!("<!-- latchkv-bench: latch / x -->{end}")).contains("no section \"x\"")
        );
        assert!(
            error(&format!("<!-- latchkv-bench: latch -->{end}"))
                .contains("is not \"COMMAND / TITLE\"")
        );
    }
}
