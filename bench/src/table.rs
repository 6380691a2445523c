//! Tables of a report, and what their columns are.
//!
//! | kind of a column | is | on an emulated machine |
//! |---|---|---|
//! | key | names a row, with the other keys; keys come first | told |
//! | told | a count, a size, words: the same on a machine that is slower | told |
//! | time | a time, a rate, and whatever comes from one: a verdict, a quotient | withheld |
//!
//! A column is of the last kind unless the table says otherwise, so what somebody forgets is withheld and not told. Rows of
//! two machines are put side by side by their keys. So a figure that was measured is no key, and no two rows of a table have
//! the same keys; a table without keys has one row.
//!
//! Tested below; `render::side` tests what is made of it.

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

/// In the place of a figure that means nothing, as its machine was emulated.
pub(crate) const WITHHELD: &str = "withheld";

/// What the cells of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Names of the rows.
    Key,
    /// What does not depend on the speed of the machine.
    Told,
    /// What does.
    Time,
}

/// A column; its name ends with its unit in brackets.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

impl Column {
    pub(crate) fn new(name: impl Into<String>, kind: Kind) -> Column {
        Column { name: name.into(), kind }
    }

    /// Takes away what an emulated machine cannot know.
    pub(crate) fn withhold(&self, cell: &mut Cell) {
        if self.kind == Kind::Time && *cell != Cell::None {
            *cell = WITHHELD.into();
        }
    }
}

/// Whether the name of a column has a unit of time in it: then it is no column that may be told.
fn names_time(name: &str) -> bool {
    let unit =
        name.strip_suffix(']').and_then(|name| name.rsplit_once('[')).map_or("", |both| both.1);
    let units = ["ns", "us", "ms", "s", "min", "h"];
    units.contains(&unit)
        || units.iter().any(|of| unit.starts_with(&format!("{of}/")))
        || [name, unit].iter().any(|text| text.ends_with("/s") || text.ends_with("/min"))
}

/// Rows of cells below named columns.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table of times; [`keys`](Self::keyed_by) and what is [`told`](Self::told) come by further calls.
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&name| Column::new(name, Kind::Time)).collect();
        Table { title: title.into(), note: String::new(), columns, rows: Vec::new() }
    }

    /// The first `count` columns name the rows.
    pub(crate) fn keyed_by(mut self, count: usize) -> Table {
        self.columns.iter_mut().take(count).for_each(|column| column.kind = Kind::Key);
        self
    }

    /// These columns do not depend on the speed of the machine.
    pub(crate) fn told(mut self, names: &[&str]) -> Table {
        for name in names {
            debug_assert!(!names_time(name), "{}: {name} is a time", self.title);
            let column = self.columns.iter_mut().find(|column| column.name == *name);
            column.expect("a table tells columns that it has").kind = Kind::Told;
        }
        self
    }

    /// No column but the keys depends on the speed of the machine.
    pub(crate) fn all_told(mut self) -> Table {
        for column in self.columns.iter_mut().filter(|column| column.kind == Kind::Time) {
            debug_assert!(!names_time(&column.name), "{}: {} is a time", self.title, column.name);
            column.kind = Kind::Told;
        }
        self
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

    /// That its rows have names of their own, and each has a cell a column.
    ///
    /// # Errors
    /// What is wrong, with the title.
    pub(crate) fn check(&self) -> Result<(), String> {
        let title = &self.title;
        if self.rows.iter().any(|row| row.len() != self.columns.len()) {
            return Err(format!("table \"{title}\" has rows of another length"));
        }
        if self.columns.iter().skip(self.keys()).any(|column| column.kind == Kind::Key) {
            return Err(format!("table \"{title}\" has keys that do not come first"));
        }
        for (at, row) in self.rows.iter().enumerate() {
            let key = &row[..self.keys()];
            if self.rows[..at].iter().any(|other| other.starts_with(key)) {
                let name = key.iter().map(Cell::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "table \"{title}\" has two rows \"{name}\": ask for each thing once"
                ));
            }
        }
        Ok(())
    }

    /// How many columns name the rows.
    pub(crate) fn keys(&self) -> usize {
        self.columns.iter().take_while(|column| column.kind == Kind::Key).count()
    }

    /// The same without what an emulated machine cannot know.
    pub(crate) fn withheld(&self) -> Table {
        let mut table = self.clone();
        for row in &mut table.rows {
            for (column, cell) in self.columns.iter().zip(row) {
                column.withhold(cell);
            }
        }
        table
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
                cells.chain([self.columns[at].name.chars().count()]).max().unwrap_or(0)
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
        line(&mut self.columns.iter().map(|column| column.name.clone()));
        for row in &self.rows {
            line(&mut row.iter().map(Cell::to_string));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_numbers_are_aligned_to_the_right() {
        let mut table = Table::new("t", &["name", "n"]);
        table.push(["a".into(), 5_u64.into()]);
        table.push(["bcdef".into(), 1234_u64.into()]);
        assert_eq!(table.lines(), "  name      n\n  a         5\n  bcdef  1234\n");
    }

    /// As the report of calls that sync, and that of puts beside checkpoints.
    fn shapes() -> [Table; 2] {
        let mut syncs = Table::new("syncs", &["engine", "writers", "calls"]).keyed_by(2).all_told();
        for writers in [1_u64, 64] {
            syncs.push(["latchkv".into(), writers.into(), "fdatasync 1.000".into()]);
        }
        let columns = ["durability", "checkpoints", "puts", "p50 [us]"];
        let mut stalls = Table::new("stalls", &columns).keyed_by(2).told(&["puts"]);
        for checkpoints in ["all the time", "none"] {
            stalls.push(["Sync".into(), checkpoints.into(), 50_u64.into(), 1.5.into()]);
        }
        [syncs, stalls]
    }

    #[test]
    fn rows_need_keys_of_their_own() {
        for mut table in shapes() {
            table.check().expect("two rows, two keys");
            table.push(table.rows[0].clone());
            assert!(table.check().expect_err("twice").contains("two rows"));
        }
        let mut alone = Table::new("alone", &["time [s]"]);
        alone.push([1.0.into()]);
        alone.check().expect("one row needs no key");
        alone.push([2.0.into()]);
        assert!(alone.check().is_err());
    }

    #[test]
    fn what_is_not_said_to_be_told_is_withheld() {
        let [syncs, stalls] = shapes().map(|table| table.withheld());
        assert_eq!(syncs.rows, shapes()[0].rows);
        assert_eq!(stalls.rows[0][..3], shapes()[1].rows[0][..3]);
        assert_eq!(stalls.rows[0][3], Cell::from(WITHHELD));
        let mut forgotten = Table::new("t", &["name", "verdict", "ratio", "none"]).keyed_by(1);
        forgotten.push(["a".into(), "slower".into(), 1.5.into(), Cell::None]);
        let cells = [Cell::from("a"), WITHHELD.into(), WITHHELD.into(), Cell::None];
        assert_eq!(forgotten.withheld().rows[0], cells);
    }

    #[test]
    fn no_unit_of_time_passes_for_something_that_may_be_told() {
        let times = ["p50 [us]", "rate [op/s]", "cost [ns/op]", "cpu [us/transaction]", "events/s"];
        assert!(times.into_iter().chain(["New-Orders [1/min]", "time [s]"]).all(names_time));
        let told = ["writes", "lines [transfers/op]", "size [MiB]", "readers [%]", "read/write"];
        assert!(!told.into_iter().any(names_time));
    }

    #[test]
    fn keys_come_first() {
        let mut table = Table::new("t", &["a", "b"]);
        table.columns[1].kind = Kind::Key;
        assert!(table.check().expect_err("a key behind").contains("come first"));
    }
}
