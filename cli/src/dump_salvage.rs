//! `latchkv dump --keep-going`: everything that can be read of a damaged database.
//!
//! The text is that of `dump_out`, with the records left out that cannot be read. Each gap is a line on standard
//! error, also with `-q`, since it is no remark but a loss:
//!
//! ```text
//! gap in tree "main", page 17: keys from "k100" to below "k131" are lost: damaged DB/data, offset 643072, ...
//! gap in tree "main", page 90: the value of key "k200" is lost: ...
//! gap in the catalog, page 1: ...
//! ```
//!
//! Keys are written as on the command line. A tree whose name lies in a gap of the catalog is written under
//! the name `latchkv.lost.TREE.PAGE`, after the tree's id and root page.
//!
//! Tested in `tests/damage.rs`.

use crate::args::Global;
use crate::dump_out::{FOOTER, Style, header, record_into};
use crate::exit::{Failure, Outcome};
use crate::keys::escaped;
use crate::load::PROGRESS_TREE;
use crate::open;
use crate::progress::{Progress, Unit};
use crate::words::counted;
use latchkv::{Db, Gap, Lost, Salvaged, SalvagedTree};
use std::io::{self, Write};

/// What could not be written.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    gaps: u64,
    written: u64,
    /// Records that the trees had when they were whole.
    counted: u64,
}

impl Losses {
    /// How the command ends.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.gaps == 0 {
            return Ok(());
        }
        let (gaps, of) = (counted(self.gaps, "gap"), counted(self.counted, "record"));
        Err(Failure::Error(format!(
            "{gaps}: {} of {of} were written, what lies in the gaps is lost: look for it in a backup",
            self.written
        )))
    }

    fn gap(&mut self, progress: &Progress, place: &str, gap: &Gap) {
        self.gaps += 1;
        progress.line(&format!(
            "gap in {place}, page {}: {} lost: {}",
            gap.page,
            what(&gap.lost),
            gap.cause
        ));
    }
}

/// What is lost, with its verb.
fn what(lost: &Lost) -> String {
    let key = |key: &[u8]| format!("\"{}\"", escaped(key));
    match lost {
        Lost::Value { key: lost } => format!("the value of key {} is", key(lost)),
        Lost::Range { lower, upper } => match (&lower[..], upper) {
            (b"", None) => "all keys are".into(),
            (b"", Some(upper)) => format!("keys from the first to below {} are", key(upper)),
            (lower, None) => format!("keys from {} to the last are", key(lower)),
            (lower, Some(upper)) => {
                format!("keys from {} to below {} are", key(lower), key(upper))
            }
        },
    }
}

/// Writes all trees, or the one called `only`. The outer result is about the database, the inner about the
/// output.
pub(crate) fn write(
    global: &Global,
    db: &Db,
    only: Option<&str>,
    style: Style,
    losses: &mut Losses,
    out: &mut dyn Write,
) -> Outcome<io::Result<()>> {
    let salvage = db.salvage()?;
    let mut trees: Vec<(String, &SalvagedTree)> =
        salvage.trees.iter().map(|tree| (name_of(tree), tree)).collect();
    if let Some(only) = only {
        trees.retain(|(name, _)| name == only);
        if trees.is_empty() && salvage.gaps.is_empty() {
            // Says which there are.
            open::tree(db, only)?;
        }
    } else {
        trees.retain(|(name, _)| name != PROGRESS_TREE);
    }
    losses.counted = trees.iter().map(|(_, tree)| tree.counted()).sum();
    let mut progress =
        Progress::start(global.quiet, "dumping", Unit::Records, Some(losses.counted));
    // Who wants one tree and gets it has lost nothing with the names of others.
    if only.is_none() || trees.is_empty() {
        for gap in &salvage.gaps {
            losses.gap(&progress, "the catalog, which names the trees", gap);
        }
    }
    if let Some(only) = only
        && trees.is_empty()
    {
        return Err(Failure::Error(format!(
            "no tree is named {only:?} in what can be read of the names: without --tree, trees that have lost their \
             names are written too"
        )));
    }
    for (name, tree) in &trees {
        if tree.name().is_none() {
            let (id, root) = (tree.id(), tree.root());
            progress.line(&format!(
                "tree {id} with root page {root} has lost its name and is called {name:?}"
            ));
        }
        if let Err(error) = write_tree(name, tree, style, &mut progress, losses, out)? {
            return Ok(Err(error));
        }
    }
    Ok(out.flush())
}

fn name_of(tree: &SalvagedTree) -> String {
    match tree.name() {
        Some(name) => name.to_owned(),
        None => format!("latchkv.lost.{}.{}", tree.id(), tree.root()),
    }
}

fn write_tree(
    name: &str,
    tree: &SalvagedTree,
    style: Style,
    progress: &mut Progress,
    losses: &mut Losses,
    out: &mut dyn Write,
) -> Outcome<io::Result<()>> {
    if let Err(error) = out.write_all(&header(name, style)) {
        return Ok(Err(error));
    }
    let mut lines = Vec::new();
    for found in tree.records() {
        let entry = match found? {
            Salvaged::Record(entry) => entry,
            Salvaged::Gap(gap) => {
                losses.gap(progress, &format!("tree {name:?}"), &gap);
                continue;
            }
        };
        lines.clear();
        record_into(&mut lines, entry.key(), entry.value(), style);
        if let Err(error) = out.write_all(&lines) {
            return Ok(Err(error));
        }
        losses.written += 1;
        progress.add(1);
    }
    Ok(out.write_all(FOOTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_names_its_bounds_as_the_command_line_takes_them() {
        let range = |lower: &[u8], upper: Option<&[u8]>| {
            what(&Lost::Range { lower: lower.to_vec(), upper: upper.map(<[u8]>::to_vec) })
        };
        assert_eq!(range(b"", None), "all keys are");
        assert_eq!(range(b"", Some(b"b\xff")), "keys from the first to below \"b\\xff\" are");
        assert_eq!(range(b"a", None), "keys from \"a\" to the last are");
        assert_eq!(
            range("\u{e4}".as_bytes(), Some(b"b")),
            "keys from \"\u{e4}\" to below \"b\" are"
        );
        let value = Lost::Value { key: b"k\t".to_vec() };
        assert_eq!(what(&value), "the value of key \"k\\t\" is");
    }

    #[test]
    fn no_gap_is_a_success_and_one_is_an_error() {
        assert!(Losses::default().outcome().is_ok());
        let failure = Losses { gaps: 1, written: 0, counted: 1 }.outcome().expect_err("a gap");
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().starts_with("1 gap: 0 of 1 record "), "{failure}");
    }
}
