//! A page of its own: no scripts, nothing fetched from elsewhere, light or dark as the reader's system is.
//!
//! ```text
//! title
//! per command   machines, options that differ, and then a section each: plot, table, note
//! ```

use super::file::File;
use super::plot::{self, GRID, INK};
use super::side::{self, Sided};
use crate::Fail;
use crate::table::{Cell, Table};
use std::fmt::Write as _;

/// Tables with more rows are folded, if there is a plot above.
const ROWS_OPEN: usize = 60;

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #222; --grid: #ddd; --paper: #fff; --mind: #a33; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --grid: #444; --paper: #181a1b; --mind: #f88; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 2rem 0 .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th.n, td.n { text-align: right; }
figure { margin: .5rem 0; } svg { max-width: 100%; height: auto; }
.note { font-size: .85rem; opacity: .8; margin: .3rem 0; } .mind { color: var(--mind); }
";

/// A page of groups of files, each group of one command, its files on a machine each.
pub(crate) fn page(title: &str, groups: &[Vec<File>]) -> Result<String, Fail> {
    let mut page = String::new();
    let name = escape(title);
    page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    writeln!(page, "<title>{name}</title>\n<style>\n{STYLE}{}</style>\n</head>", svg_style())?;
    writeln!(page, "<body>\n<h1>{name}</h1>")?;
    for files in groups {
        group(files, &mut page)?;
    }
    page += "</body>\n</html>\n";
    Ok(page)
}

/// What replaces the colours of plots by those of the page.
fn svg_style() -> String {
    let hex = |colour: plotters::style::RGBColor| {
        format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
    };
    let mut style = String::new();
    for (colour, variable) in [(hex(INK), "--ink"), (hex(GRID), "--grid")] {
        for property in ["fill", "stroke"] {
            style +=
                &format!("svg [{property}=\"{colour}\" i] {{ {property}: var({variable}); }}\n");
        }
    }
    style
}

fn group(files: &[File], page: &mut String) -> Result<(), Fail> {
    let Some(first) = files.first() else { return Ok(()) };
    writeln!(page, "<h2>latchkv-bench {}</h2>", escape(&first.command))?;
    for (at, file) in files.iter().enumerate() {
        let warning = file.warning();
        if !warning.is_empty() {
            let (letter, warning) = (side::letter(at), escape(&warning));
            writeln!(page, "<p class=\"mind\">{letter}: {warning}</p>")?;
        }
    }
    table(&side::machines(files), page)?;
    if let Some(options) = side::options(files) {
        writeln!(page, "<h3>{}</h3>", escape(&options.title))?;
        table(&options, page)?;
    }
    side::sections(files).iter().try_for_each(|sided| section(sided, page))
}

fn section(sided: &Sided, page: &mut String) -> Result<(), Fail> {
    let title = escape(&sided.table.title);
    writeln!(page, "<section>\n<h3>{title}</h3>")?;
    if let Some(chart) = &sided.chart {
        let svg = plot::svg(chart)?;
        writeln!(page, "<figure role=\"img\" aria-label=\"{title}\">\n{svg}</figure>")?;
    }
    let rows = sided.table.rows.len();
    let folded = rows > ROWS_OPEN && sided.chart.is_some();
    if folded {
        writeln!(page, "<details><summary>{rows} rows</summary>")?;
    }
    table(&sided.table, page)?;
    if folded {
        page.push_str("</details>\n");
    }
    if !sided.table.note.is_empty() {
        writeln!(page, "<p class=\"note\">{}</p>", escape(&sided.table.note))?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn table(table: &Table, page: &mut String) -> Result<(), Fail> {
    let numeric: Vec<bool> = (0..table.columns.len())
        .map(|at| table.rows.iter().any(|row| matches!(row[at], Cell::Count(_) | Cell::Number(_))))
        .collect();
    let class = |at: usize| if numeric[at] { " class=\"n\"" } else { "" };
    page.push_str("<div class=\"wide\"><table>\n<tr>");
    for (at, column) in table.columns.iter().enumerate() {
        write!(page, "<th{}>{}</th>", class(at), escape(&column.name))?;
    }
    page.push_str("</tr>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            write!(page, "<td{}>{}</td>", class(at), escape(&cell.to_string()))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    Ok(())
}

/// Text that is no markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::sample;
    use super::*;

    fn page_of(samples: &[serde_json::Value]) -> String {
        let files = samples.iter().map(|value| serde_json::from_value(value.clone()).expect("one"));
        page("A <page>", &[files.collect()]).expect("a page")
    }

    #[test]
    fn a_page_has_a_plot_and_a_table_a_section_and_needs_nothing_else() {
        let page = page_of(&[sample(1.0, None, true), sample(2.0, None, true)]);
        assert_eq!(page.matches("<section>").count(), 4);
        assert_eq!(page.matches("<svg").count(), 3);
        assert_eq!(page.matches("</section>").count(), 4);
        assert!(page.contains("A &lt;page&gt;") && page.contains("reads &amp; more"));
        assert!(page.contains("Some &lt;CPU&gt;") && page.contains("prefers-color-scheme: dark"));
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
    }

    #[test]
    fn a_page_says_what_is_partial_and_what_is_withheld() {
        let page = page_of(&[sample(1.0, None, false), sample(2.0, Some("by qemu"), true)]);
        assert!(
            page.contains("A: partial") && page.contains("B: emulated") && page.contains("by qemu")
        );
        assert!(page.contains("<td>withheld</td>"));
    }

    #[test]
    fn colours_of_plots_are_those_that_the_style_replaces() {
        let page = page_of(&[sample(1.0, None, true)]);
        assert!(page.contains("svg [fill=\"#333333\" i]") && page.contains("fill=\"#333333\""));
    }
}
