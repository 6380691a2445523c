//! Which trees there are, if the catalog itself is damaged.
//!
//! ```text
//!   readable leaves of the catalog                 names with their roots
//!   if there are gaps: every page on disk
//!     leaf of the catalog inside a gap             more names (its parent cannot be read)
//!     page without bounds, below no other          root of a tree whose name is lost
//! ```
//!
//! A root is known by its fences: it alone has neither a lower nor an upper bound, but for the only child of
//! a page without separators, which that page names. Two things cannot be told from a tree whose name is lost:
//! what is left of a tree that was just being dropped or cleared, if the record that says so is lost too, and a
//! large value that was made to look like the image of the page that it lies in.
//!
//! Tested by `api/salvage_tests.rs`.

use super::Catalog;
use super::records::{self, Meaning, Record};
use crate::btree::{
    LostRange, SalvageCursor, SalvageStep, SalvagedRecord, SalvagedValue, TreeCore, is_of_a_page,
    records_from,
};
use crate::error::{Error, Result};
use crate::id::{PageId, TreeId};
use crate::name::NameRef;
use crate::node::{Kind, Page};
use crate::pool::Pool;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Pages asked of the page map at once.
const PAGES_AT_ONCE: usize = 1024;

/// What was found of the catalog.
#[derive(Debug, Default)]
pub(crate) struct CatalogSalvage {
    /// Trees by name.
    pub(crate) named: Vec<(String, Arc<TreeCore>)>,
    /// Trees whose names are lost.
    pub(crate) unnamed: Vec<Arc<TreeCore>>,
    /// Parts of the catalog that cannot be read.
    pub(crate) gaps: Vec<LostRange>,
    /// Records of the catalog that make no sense, with their keys.
    pub(crate) senseless: Vec<(Vec<u8>, Error)>,
}

/// What records and pages say, before handles are made of it.
#[derive(Default)]
struct Found {
    names: BTreeMap<String, Record>,
    dropping: HashSet<PageId>,
    roots: Vec<(TreeId, PageId)>,
    /// Pages without bounds that another such page names.
    below: HashSet<PageId>,
}

impl Catalog {
    /// Finds all trees that can be found.
    ///
    /// # Errors
    /// If the pool has no room for pages. Damage is in the result.
    pub(crate) fn salvage(&self, pool: &Pool) -> Result<CatalogSalvage> {
        let mut salvage = CatalogSalvage::default();
        let mut found = Found::default();
        let mut cursor = SalvageCursor::new();
        if !self.present {
            return Ok(salvage);
        }
        loop {
            match self.tree(pool).salvage_step(&mut cursor)? {
                SalvageStep::Leaf(leaf) => self.note(pool, leaf, &mut found, &mut salvage),
                SalvageStep::Gap(gap) => salvage.gaps.push(gap),
                SalvageStep::End => break,
            }
        }
        if !salvage.gaps.is_empty() || !salvage.senseless.is_empty() {
            self.search(pool, &mut found, &mut salvage)?;
        }
        let named: HashSet<PageId> = found.names.values().map(|record| record.root).collect();
        let lengths: BTreeMap<TreeId, u64> = pool.store().lengths().into_iter().collect();
        let length = |tree| lengths.get(&tree).copied().unwrap_or(0);
        for (name, record) in found.names {
            let core = match NameRef::stored(&name).and_then(|name| self.get(pool, name)) {
                Ok(Some(core)) => core,
                Ok(None) => continue, // Dropped since.
                // Its leaf was not reached by way of the catalog.
                Err(error) if is_of_a_page(&error) => {
                    Arc::new(TreeCore::new(record.tree, record.root, length(record.tree)))
                }
                Err(error) => return Err(error),
            };
            salvage.named.push((name, core));
        }
        for (tree, root) in found.roots {
            let known = named.contains(&root) || found.dropping.contains(&root);
            if !known && !found.below.contains(&root) {
                salvage.unnamed.push(Arc::new(TreeCore::new(tree, root, length(tree))));
            }
        }
        Ok(salvage)
    }

    fn note(
        &self,
        pool: &Pool,
        leaf: Vec<SalvagedRecord>,
        found: &mut Found,
        salvage: &mut CatalogSalvage,
    ) {
        for record in leaf {
            let meaning = match &record.value {
                SalvagedValue::Inline(value) => records::meaning(&record.key, value),
                SalvagedValue::Extent(_) => None,
            };
            match meaning {
                Some(Meaning::Name(name, record)) => {
                    found.names.insert(name, record);
                }
                Some(Meaning::Dropping(_, root)) => {
                    found.dropping.insert(root);
                }
                None => salvage.senseless.push((record.key, self.damaged(pool))),
            }
        }
    }

    /// Looks at every page on disk.
    fn search(&self, pool: &Pool, found: &mut Found, salvage: &mut CatalogSalvage) -> Result<()> {
        let store = pool.store();
        let mut from = PageId(1);
        loop {
            let pages = store.pages_from(from, PAGES_AT_ONCE);
            let Some(&last) = pages.last() else { return Ok(()) };
            for page in pages {
                if page == PageId::CATALOG || store.is_provisional(page) {
                    continue;
                }
                if let Some(leaf) = look(pool, page, found, &salvage.gaps)? {
                    self.note(pool, leaf, found, salvage);
                }
            }
            from = PageId(last.0 + 1);
        }
    }
}

/// Notes a page that may be a root, and gives the records of one that is a leaf of the catalog inside a gap.
fn look(
    pool: &Pool,
    id: PageId,
    found: &mut Found,
    gaps: &[LostRange],
) -> Result<Option<Vec<SalvagedRecord>>> {
    loop {
        let (frame, version) = match pool.reach(id) {
            Ok(reached) => reached,
            // A large value, or a page that is damaged itself.
            Err(error) if is_of_a_page(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let page = pool.page(frame);
        let (tree, kind, count) = (page.tree(), page.kind(), page.count());
        let unbounded = page.lower().is_some_and(|lower| lower.is_empty())
            && matches!(page.upper(), Some(None));
        let child = page.child(count).page();
        let leaf = (tree == TreeId::CATALOG && kind == Some(Kind::Leaf) && is_lost(page, gaps))
            .then(|| records_from(page, b""));
        if !pool.latch(frame).validate(version) {
            continue;
        }
        if tree != TreeId::CATALOG && unbounded {
            found.roots.push((tree, id));
            if kind == Some(Kind::Inner) && count == 0 {
                found.below.insert(child);
            }
        }
        return Ok(leaf.flatten());
    }
}

/// Whether a page begins inside a gap.
fn is_lost(page: Page<'_>, gaps: &[LostRange]) -> bool {
    let Some(lower) = page.lower() else { return false };
    gaps.iter()
        .any(|gap| gap.lower <= lower && gap.upper.as_ref().is_none_or(|upper| lower < *upper))
}
