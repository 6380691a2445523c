//! Files of one command side by side: each section once, with a column a machine and their ratios.
//!
//! Machines are called A, B, C .. in the order of the files. Sections belong together by kind and title, rows of a
//! table by its keys. A section that a file does not have leaves its column empty. What an emulated machine cannot know is
//! withheld by the kind of its column, and the times of facts are.
//!
//! Rounds of two machines are not pairs. The ratio of two medians has an interval all the same, from those of both.

use super::file::{File, Section, plain};
use super::plot::{Bar, Bars, Chart, Line, Lines};
use crate::interval::{self, Ratio, unpaired};
use crate::rounds::Series;
use crate::table::{Cell, Column, Kind, Table, WITHHELD};

/// Rows that a plot of bars has at most.
const BARS_MAX: usize = 40;

/// A section of all files: the table, and what to plot of it.
#[derive(Debug)]
pub(crate) struct Sided {
    pub(crate) table: Table,
    pub(crate) chart: Option<Chart>,
}

/// What the machine of file number `at` is called.
pub(crate) fn letter(at: usize) -> String {
    u8::try_from(at)
        .ok()
        .filter(|&at| at < 26)
        .map_or_else(|| format!("M{}", at + 1), |at| char::from(b'A' + at).to_string())
}

/// Columns of a table that is made here: what was to be withheld is by then.
fn columns(names: impl IntoIterator<Item = String>) -> Vec<Column> {
    names.into_iter().map(|name| Column::new(name, Kind::Told)).collect()
}

/// What was compared: a row a file.
pub(crate) fn machines(files: &[File]) -> Table {
    let columns = ["", "file", "cpu", "cores", "kernel", "target", "date", "mind"];
    let mut table = Table::new("machines", &columns);
    for (at, file) in files.iter().enumerate() {
        let fields = ["cpu", "cores", "kernel", "target", "date"].map(|name| file.machine(name));
        let names = [letter(at), file.name.clone()];
        let cells = names.into_iter().chain(fields).chain([file.warning()]);
        table.push(cells.map(Cell::from));
    }
    table
}

/// The options in which the files differ; `None` if in none.
pub(crate) fn options(files: &[File]) -> Option<Table> {
    let mut names: Vec<&String> = files.iter().flat_map(|file| file.options.keys()).collect();
    names.sort();
    names.dedup();
    let mut table = Table::new("options in which they differ", &[]);
    table.columns = columns(["option".into()].into_iter().chain((0..files.len()).map(letter)));
    for name in names {
        let of = |file: &File| file.options.get(name).map(plain);
        if files.iter().any(|file| of(file) != of(&files[0])) {
            let cells = files.iter().map(|file| Cell::from(of(file)));
            table.push([name.as_str().into()].into_iter().chain(cells));
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// All sections, in the order in which they come first.
pub(crate) fn sections(files: &[File]) -> Vec<Sided> {
    let mut order: Vec<(String, usize)> = Vec::new();
    let mut of: Vec<Vec<Option<&Section>>> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let mut seen: Vec<String> = Vec::new();
        for section in &file.sections {
            let name = name(section);
            let key = (name.clone(), seen.iter().filter(|&other| *other == name).count());
            seen.push(name);
            let place = order.iter().position(|other| *other == key).unwrap_or_else(|| {
                order.push(key);
                of.push(vec![None; files.len()]);
                order.len() - 1
            });
            of[place][at] = Some(section);
        }
    }
    let emulated: Vec<bool> = files.iter().map(|file| file.emulated().is_some()).collect();
    of.iter().filter_map(|sections| sided(sections, &emulated)).collect()
}

/// What sections that belong together have in common.
fn name(section: &Section) -> String {
    match section {
        Section::Series(series) => format!("series {}", series.title),
        Section::Table(table) => format!("table {}", table.title),
        Section::Facts { .. } => "facts".into(),
    }
}

fn sided(sections: &[Option<&Section>], emulated: &[bool]) -> Option<Sided> {
    match sections.iter().flatten().next()? {
        Section::Series(first) => {
            let all: Vec<Option<Series>> = sections
                .iter()
                .map(|section| match section {
                    Some(Section::Series(series)) => Some(series.series()),
                    _ => None,
                })
                .collect();
            Some(sided_series(&first.title, &all, emulated))
        }
        Section::Table(first) => {
            let all: Vec<Option<&Table>> = sections
                .iter()
                .map(|section| match section {
                    Some(Section::Table(table)) => Some(table),
                    _ => None,
                })
                .collect();
            Some(sided_tables(first, &all, emulated))
        }
        Section::Facts { .. } => Some(sided_facts(sections, emulated)),
    }
}

fn sided_facts(sections: &[Option<&Section>], emulated: &[bool]) -> Sided {
    let mut table = Table::new("facts", &[]);
    table.columns = columns(["what".into()].into_iter().chain((0..sections.len()).map(letter)));
    // The two maps of a file, which have no name in common.
    let maps = |at: usize| {
        let both = match sections[at] {
            Some(Section::Facts { facts, times }) => Some([(facts, false), (times, true)]),
            _ => None,
        };
        both.into_iter().flatten()
    };
    let mut names: Vec<&String> = Vec::new();
    for name in (0..sections.len()).flat_map(maps).flat_map(|(map, _)| map.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let of = |at: usize| {
            let mut found = maps(at).filter_map(|(map, is_time)| Some((map.get(name)?, is_time)));
            match found.next() {
                Some((_, true)) if emulated[at] => WITHHELD.into(),
                found => Cell::from(found.map(|(value, _)| plain(value))),
            }
        };
        table.push([name.as_str().into()].into_iter().chain((0..sections.len()).map(of)));
    }
    Sided { table, chart: None }
}

fn with_interval(ratio: Ratio) -> Cell {
    ratio.to_string().into()
}

fn sided_series(title: &str, all: &[Option<Series>], emulated: &[bool]) -> Sided {
    let mut names: Vec<&String> = Vec::new();
    for name in all.iter().flatten().flat_map(|series| &series.names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut headings = vec!["variant".to_owned()];
    for at in 0..all.len() {
        headings.push(format!("{} [ns/op]", letter(at)));
        headings.push(format!("{}, time x first", letter(at)));
    }
    headings.extend((1..all.len()).map(|at| format!("{}/A", letter(at))));
    let note = "in brackets the 95 % interval; above 1 is slower";
    let mut table = Table::new(title, &[]).note(note);
    table.columns = columns(headings);
    let mut bars = Bars { label: "nanoseconds an operation".into(), rows: Vec::new() };
    for name in names {
        let rounds_of = |at: usize| {
            let series = all[at].as_ref().filter(|_| !emulated[at])?;
            let which = series.names.iter().position(|other| other == name)?;
            Some((series, which))
        };
        let mut row = vec![Cell::from(name.as_str())];
        let mut row_bars = Vec::new();
        for at in 0..all.len() {
            row_bars.push(rounds_of(at).map(|(series, which)| {
                let Ratio { median, low, high, .. } = interval::of_median(&series.ns[which]);
                Bar { value: median, low, high }
            }));
            match rounds_of(at) {
                Some((series, which)) => {
                    let ratio = (which > 0).then(|| with_interval(series.ratio(which, 0)));
                    row.extend([series.median(which).into(), ratio.unwrap_or(Cell::None)]);
                }
                None if emulated[at] && all[at].is_some() => {
                    row.extend([WITHHELD.into(), Cell::None])
                }
                None => row.extend([Cell::None, Cell::None]),
            }
        }
        for at in 1..all.len() {
            row.push(match (rounds_of(0), rounds_of(at)) {
                (Some((a, in_a)), Some((b, in_b))) => {
                    with_interval(unpaired(&a.ns[in_a], &b.ns[in_b]))
                }
                _ => Cell::None,
            });
        }
        table.push(row);
        bars.rows.push((name.clone(), row_bars));
    }
    Sided { table, chart: bars.some() }
}

/// The unit in the brackets at the end of a column's name.
fn unit(column: &str) -> Option<&str> {
    column.strip_suffix(']')?.rsplit_once('[').map(|(_, unit)| unit)
}

fn number(cell: &Cell) -> Option<f64> {
    match *cell {
        Cell::Count(count) => Some(count as f64),
        Cell::Number(number) => Some(number),
        Cell::Text(_) | Cell::None => None,
    }
}

/// The cell of a file in a row: by the row's keys, the name of the column, and whether it may be told.
fn cell_of(table: Option<&Table>, key: &[Cell], column: &str, emulated: bool) -> Cell {
    let found = table.and_then(|table| {
        let at = table.columns.iter().position(|other| other.name == column)?;
        let row = table.rows.iter().find(|row| row[..table.keys()] == *key)?;
        let mut cell = row[at].clone();
        if emulated {
            table.columns[at].withhold(&mut cell);
        }
        Some(cell)
    });
    found.unwrap_or(Cell::None)
}

fn sided_tables(first: &Table, all: &[Option<&Table>], emulated: &[bool]) -> Sided {
    let keys = first.keys();
    let mut rows: Vec<&[Cell]> = Vec::new();
    for table in all.iter().flatten() {
        for row in &table.rows {
            let key = &row[..table.keys()];
            if !rows.contains(&key) {
                rows.push(key);
            }
        }
    }
    // A table of another shape has no row in common with the first one.
    rows.retain(|key| key.len() == keys);
    let cell = |at: usize, key: &[Cell], column: &str| cell_of(all[at], key, column, emulated[at]);
    let values = &first.columns[keys..];
    let mut table = Table::new(first.title.clone(), &[]).note(first.note.clone());
    table.columns = first.columns[..keys].to_vec();
    if all.len() == 1 {
        table.columns.extend_from_slice(values);
        for key in &rows {
            let cells = values.iter().map(|column| cell(0, key, &column.name));
            table.push(key.iter().cloned().chain(cells));
        }
    } else {
        let letters = (0..all.len()).map(letter);
        let ratios = (1..all.len()).map(|at| format!("{}/A", letter(at)));
        table.columns.push(Column::new("figure", Kind::Key));
        table.columns.extend(columns(letters.chain(ratios)));
        for key in &rows {
            for Column { name, .. } in values {
                let cells: Vec<Cell> = (0..all.len()).map(|at| cell(at, key, name)).collect();
                let ratio = |at: usize| Some(number(&cells[at])? / number(&cells[0])?);
                let ratios: Vec<Cell> = (1..all.len()).map(|at| ratio(at).into()).collect();
                let figure = [Cell::from(name.as_str())];
                table.push(key.iter().cloned().chain(figure).chain(cells).chain(ratios));
            }
        }
    }
    let figure = |at: usize, key: &[Cell], column: &str| number(&cell(at, key, column));
    Sided { table, chart: chart(first, keys, &rows, all.len(), &figure) }
}

/// The figure of a file in a row and a column, if it may be told.
type Figure<'a> = dyn Fn(usize, &[Cell], &str) -> Option<f64> + 'a;

/// Lines over the first column if that is a number and nothing is named; bars of the first figure otherwise.
fn chart(
    table: &Table,
    keys: usize,
    rows: &[&[Cell]],
    files: usize,
    figure: &Figure<'_>,
) -> Option<Chart> {
    let values: Vec<&String> = table.columns[keys..].iter().map(|column| &column.name).collect();
    let &shown = values.iter().find(|column| {
        rows.iter().any(|key| (0..files).any(|at| figure(at, key, column).is_some()))
    })?;
    let x_of = |key: &[Cell]| key.first().and_then(number);
    if keys == 1 && rows.len() > 1 && rows.iter().all(|key| x_of(key).is_some()) {
        let mut lines = Vec::new();
        let same_unit = values.iter().filter(|column| unit(column) == unit(shown));
        for (which, &column) in same_unit.enumerate() {
            for file in 0..files {
                let points = rows
                    .iter()
                    .filter_map(|key| Some((x_of(key)?, figure(file, key, column)?)))
                    .collect();
                let name =
                    if files > 1 { format!("{}: {column}", letter(file)) } else { column.clone() };
                lines.push(Line { name, figure: which, file, points });
            }
        }
        let y = unit(shown).unwrap_or(shown).to_owned();
        return Lines { x: table.columns[0].name.clone(), y, lines }.some();
    }
    if keys == 0 || rows.len() > BARS_MAX {
        return None;
    }
    let mut bars = Bars { label: shown.clone(), rows: Vec::new() };
    for key in rows {
        let label = key.iter().map(Cell::to_string).collect::<Vec<_>>().join(", ");
        let row = (0..files).map(|at| figure(at, key, shown).map(Bar::exact)).collect();
        bars.rows.push((label, row));
    }
    bars.some()
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::sample;
    use super::*;

    fn files(samples: &[serde_json::Value]) -> Vec<File> {
        samples.iter().map(|value| serde_json::from_value(value.clone()).expect("a file")).collect()
    }

    fn text(table: &Table, row: usize, column: &str) -> String {
        let at = table.columns.iter().position(|of| of.name == column).expect("a column");
        table.rows[row][at].to_string()
    }

    fn names(table: &Table) -> Vec<&str> {
        table.columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn each_section_comes_once_with_a_column_a_machine_and_ratios() {
        let sided = sections(&files(&[sample(1.0, None, true), sample(2.0, None, true)]));
        assert_eq!(sided.len(), 4);
        let series = &sided[0].table;
        assert_eq!(
            (text(series, 1, "A [ns/op]"), text(series, 1, "B [ns/op]")),
            ("20.0".into(), "40.0".into())
        );
        assert!(text(series, 1, "B/A").starts_with("2.000 ("));
        assert!(text(series, 1, "B, time x first").starts_with("2.000 ("));
        let waits = &sided[1].table;
        assert_eq!(names(waits), ["threads", "lock", "figure", "A", "B", "B/A"]);
        assert_eq!((text(waits, 0, "B"), text(waits, 0, "B/A")), ("3.000".into(), "2.000".into()));
        assert_eq!((text(waits, 2, "A"), text(waits, 2, "B/A")), ("-".into(), "-".into()));
        assert!(matches!(sided[2].chart, Some(Chart::Lines(_))));
    }

    #[test]
    fn times_of_an_emulated_machine_are_withheld_and_counts_are_not() {
        let sided = sections(&files(&[sample(1.0, None, true), sample(2.0, Some("q"), true)]));
        let series = &sided[0].table;
        assert_eq!(
            (text(series, 0, "B [ns/op]"), text(series, 0, "B/A")),
            (WITHHELD.into(), "-".into())
        );
        let Some(Chart::Bars(bars)) = &sided[0].chart else { panic!("bars of a series") };
        assert!(bars.rows.iter().all(|(_, row)| row[0].is_some() && row[1].is_none()));
        let waits = &sided[1].table;
        assert_eq!((text(waits, 0, "B"), text(waits, 0, "B/A")), (WITHHELD.into(), "-".into()));
        assert_eq!((text(waits, 1, "figure"), text(waits, 1, "B")), ("writes".into(), "7".into()));
        assert_eq!(text(&sided[2].table, 2, "B"), "3.000");
    }

    #[test]
    fn a_section_that_one_file_lacks_leaves_its_column_empty() {
        let mut short = sample(1.0, None, false);
        short["sections"].as_array_mut().expect("sections").truncate(1);
        let sided = sections(&files(&[short, sample(1.0, None, true)]));
        assert_eq!(sided.len(), 4);
        assert_eq!(
            (text(&sided[1].table, 0, "A"), text(&sided[1].table, 0, "B")),
            ("-".into(), "1.500".into())
        );
    }

    #[test]
    fn one_file_keeps_the_columns_of_its_tables() {
        let sided = sections(&files(&[sample(1.0, None, true)]));
        assert_eq!(names(&sided[1].table), ["threads", "lock", "p50 [us]", "writes"]);
        assert_eq!(sided[1].table.rows.len(), 2);
    }

    #[test]
    fn only_options_that_differ_are_told() {
        let mut other = sample(1.0, None, true);
        assert!(options(&files(&[sample(1.0, None, true), other.clone()])).is_none());
        other["options"]["slice_ms"] = 4.into();
        let table = options(&files(&[sample(1.0, None, true), other])).expect("one differs");
        assert_eq!((text(&table, 0, "A"), text(&table, 0, "B")), ("20".into(), "4".into()));
    }

    /// A report with this table alone.
    fn with(table: &Table, emulated: Option<&str>) -> serde_json::Value {
        let mut file = sample(1.0, emulated, true);
        let mut section = serde_json::to_value(table).expect("a table");
        section["kind"] = "table".into();
        file["sections"] = vec![section].into();
        file
    }

    #[test]
    fn rows_that_differ_in_a_later_key_are_all_kept_and_meet() {
        let mut table = Table::new("syncs", &["engine", "writers", "calls"]).keyed_by(2).all_told();
        for writers in [1_u64, 64] {
            table.push(["latchkv".into(), writers.into(), 1.5.into()]);
        }
        let alone = sections(&files(&[with(&table, None)]));
        assert_eq!(alone[0].table.rows, table.rows);
        table.rows[1][2] = 3.0.into();
        let both = sections(&files(&[with(&table, None), with(&table, None)]));
        assert_eq!(both[0].table.rows.len(), 2);
        assert_eq!(
            (text(&both[0].table, 1, "writers"), text(&both[0].table, 1, "B/A")),
            ("64".into(), "1.000".into())
        );
    }

    #[test]
    fn rates_of_two_machines_meet_in_the_one_row_of_a_table_without_keys() {
        let of = |rate: f64| {
            let mut table = Table::new("all", &["rate [1/s]", "pages"]).told(&["pages"]);
            table.push([rate.into(), 7_u64.into()]);
            table
        };
        let both = sections(&files(&[with(&of(100.0), None), with(&of(50.0), None)]));
        assert_eq!((names(&both[0].table)[0], both[0].table.rows.len()), ("figure", 2));
        assert_eq!(text(&both[0].table, 0, "B/A"), "0.500");
        let emulated = sections(&files(&[with(&of(100.0), Some("q"))]));
        assert_eq!(emulated[0].table.rows, [[Cell::from(WITHHELD), 7_u64.into()]]);
    }

    #[test]
    fn times_among_facts_of_an_emulated_machine_are_withheld() {
        let mut file = sample(1.0, Some("q"), true);
        file["sections"][3]["times"] = serde_json::json!({"seconds": 2.5});
        let facts = &sections(&files(&[file]))[3].table;
        assert_eq!((text(facts, 0, "A"), text(facts, 1, "A")), ("yes".into(), WITHHELD.into()));
    }
}
