//! What can still be read of a damaged database.
//!
//! What it is for: taking everything readable out, and knowing what is missing. What it is not: a repair.
//! [`Db::salvage`](super::Db::salvage) finds the trees, [`Tree::salvage`] reads one; `btree/salvage.rs` and
//! `catalog/salvage.rs` say how. A database whose superblocks, manifest or page map are damaged does not open,
//! and nothing can be salvaged from it this way.
//!
//! Tested by `salvage_tests.rs`.

use super::range::Entry;
use super::tree::Tree;
use crate::btree::{
    LostRange, SalvageCursor, SalvageStep, SalvagedRecord, SalvagedValue, TreeCore, is_of_a_page,
};
use crate::catalog::CatalogSalvage;
use crate::error::{Error, Result};
use crate::id::{PageId, TreeId};
use crate::name::NameRef;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

/// A part of a tree that cannot be read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// The tree; 0 is the catalog, whose keys are `n` and the name of a tree.
    pub tree: TreeId,
    /// The page that cannot be read: a leaf, an inner page, or a large value.
    pub page: PageId,
    /// What is lost with it.
    pub lost: Lost,
    /// Why it cannot be read: [`Error::Corrupt`] or [`Error::Io`].
    pub cause: Error,
}

/// What is lost in a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// All records of a range of keys, however many there were.
    Range {
        /// The least key of the range; empty: nothing is below.
        lower: Vec<u8>,
        /// Above every key of the range; `None`: nothing is above.
        upper: Option<Vec<u8>>,
    },
    /// The value of one record, whose key could be read.
    Value {
        /// The key.
        key: Vec<u8>,
    },
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Value { key } => write!(f, "the value of key \"{}\"", key.escape_ascii()),
            Lost::Range { lower, upper: None } if lower.is_empty() => f.write_str("all keys"),
            Lost::Range { lower, upper: None } => {
                write!(f, "keys from \"{}\" to the last", lower.escape_ascii())
            }
            Lost::Range { lower, upper: Some(upper) } if lower.is_empty() => {
                write!(f, "keys from the first to below \"{}\"", upper.escape_ascii())
            }
            Lost::Range { lower, upper: Some(upper) } => {
                let (lower, upper) = (lower.escape_ascii(), upper.escape_ascii());
                write!(f, "keys from \"{lower}\" to below \"{upper}\"")
            }
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap { tree, page, lost, cause } = self;
        write!(f, "tree {tree}, page {page}: {lost} cannot be read: {cause}")
    }
}

impl Gap {
    fn of_range(tree: TreeId, range: LostRange) -> Gap {
        let LostRange { page, lower, upper, cause } = range;
        Gap { tree, page, lost: Lost::Range { lower, upper }, cause }
    }

    fn of_value(tree: TreeId, page: PageId, key: Vec<u8>, cause: Error) -> Gap {
        // The leaf may have become unreadable since; the cause knows.
        let page = match &cause {
            Error::Corrupt(corruption) => corruption.page.unwrap_or(page),
            _ => page,
        };
        Gap { tree, page, lost: Lost::Value { key }, cause }
    }
}

/// What was found of the trees of a database.
#[derive(Debug)]
#[non_exhaustive]
pub struct Salvage {
    /// Trees that can be read, at least in part: those with a name, ascending, then those without.
    pub trees: Vec<SalvagedTree>,
    /// Parts of the catalog that cannot be read, with the names of the trees in them. Trees of which the root
    /// page can be read are among `trees` all the same, without a name.
    pub gaps: Vec<Gap>,
}

impl Salvage {
    pub(super) fn new(
        found: CatalogSalvage,
        handle_of: impl Fn(Arc<TreeCore>, NameRef<'_>) -> Tree,
    ) -> Salvage {
        let named = found.named.into_iter().map(|(name, core)| {
            let tree = handle_of(core, NameRef::hashed(&name));
            SalvagedTree { name: Some(name), tree }
        });
        let unnamed = found.unnamed.into_iter().map(|core| {
            let name = format!("tree {}", core.id);
            SalvagedTree { name: None, tree: handle_of(core, NameRef::hashed(&name)) }
        });
        let ranges = found.gaps.into_iter().map(|gap| Gap::of_range(TreeId::CATALOG, gap));
        let senseless = found
            .senseless
            .into_iter()
            .map(|(key, cause)| Gap::of_value(TreeId::CATALOG, PageId::CATALOG, key, cause));
        Salvage { trees: named.chain(unnamed).collect(), gaps: ranges.chain(senseless).collect() }
    }
}

/// A tree that was found, with its name or without.
#[derive(Debug)]
pub struct SalvagedTree {
    name: Option<String>,
    /// Not handed out: without a name the catalog does not know this handle, and it must not write.
    tree: Tree,
}

impl SalvagedTree {
    /// Its name; `None` if that is lost.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its id.
    pub fn id(&self) -> TreeId {
        self.tree.core().id
    }

    /// Its root page.
    pub fn root(&self) -> PageId {
        self.tree.core().root
    }

    /// Number of records that it had, as counted while it was whole: what comes out is less if there are gaps.
    pub fn counted(&self) -> u64 {
        self.tree.core().lengths.sum()
    }

    /// Its records and gaps.
    pub fn records(&self) -> TreeSalvage {
        TreeSalvage::new(self.tree.clone())
    }
}

/// What a [`TreeSalvage`] comes by.
#[derive(Clone, Debug)]
pub enum Salvaged {
    /// A record that could be read.
    Record(Entry),
    /// A part that could not.
    Gap(Gap),
}

/// An iterator over everything that can be read of one tree, in ascending order of keys, and over the gaps.
///
/// A record that is there during the whole iteration is given exactly once or lies in a gap that is given
/// exactly once. An `Err` is nothing about the tree's pages ([`Error::Closed`],
/// [`Usage::TreeDropped`](crate::error::Usage::TreeDropped), [`Error::Full`], [`Error::Poisoned`]); after one
/// it gives the same for ever.
#[derive(Debug)]
#[must_use = "nothing is read before the first record is asked for"]
pub struct TreeSalvage {
    tree: Tree,
    cursor: SalvageCursor,
    leaf: std::vec::IntoIter<SalvagedRecord>,
    failed: Option<Error>,
}

impl TreeSalvage {
    pub(super) fn new(tree: Tree) -> TreeSalvage {
        let leaf = Vec::new().into_iter();
        TreeSalvage { tree, cursor: SalvageCursor::new(), leaf, failed: None }
    }

    fn step(&mut self) -> Result<Option<Salvaged>> {
        let id = self.tree.core().id;
        loop {
            if let Some(SalvagedRecord { key, value }) = self.leaf.next() {
                match value {
                    SalvagedValue::Inline(value) => {
                        return Ok(Some(Salvaged::Record(Entry::owned(key, value))));
                    }
                    // A large value is read now, as it is now; or it is gone.
                    SalvagedValue::Extent(page) => match self.tree.get(&key) {
                        Ok(Some(value)) => {
                            return Ok(Some(Salvaged::Record(Entry::owned(key, value))));
                        }
                        Ok(None) => continue,
                        Err(cause) if is_of_a_page(&cause) => {
                            return Ok(Some(Salvaged::Gap(Gap::of_value(id, page, key, cause))));
                        }
                        Err(error) => return Err(error),
                    },
                }
            }
            let btree = self.tree.reading()?;
            match self.tree.explain(btree.salvage_step(&mut self.cursor))? {
                SalvageStep::Leaf(records) => self.leaf = records.into_iter(),
                SalvageStep::Gap(gap) => return Ok(Some(Salvaged::Gap(Gap::of_range(id, gap)))),
                SalvageStep::End => return Ok(None),
            }
        }
    }
}

impl Iterator for TreeSalvage {
    type Item = Result<Salvaged>;

    fn next(&mut self) -> Option<Result<Salvaged>> {
        if let Some(error) = &self.failed {
            return Some(Err(error.clone()));
        }
        let stepped = self.step();
        if let Err(error) = &stepped {
            self.failed = Some(error.clone());
        }
        stepped.transpose()
    }
}

impl FusedIterator for TreeSalvage {}
