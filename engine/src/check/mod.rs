//! Is this database whole?
//!
//! Writers are kept out while it runs, so that one state is looked at; readers and evictors go on. In order:
//!
//! 1. page map and block allocator against each other; both superblocks;
//! 2. every page on disk against its checksum;
//! 3. every tree from its root: each page well formed, one level below its parent, of its tree, its fences
//!    those that the parent says; large values readable; the number of records as counted;
//! 4. every page reached exactly once, and no page left over.
//!
//! Damage is collected, not returned as an error, so that one bad page does not hide the next. A superblock slot
//! that is damaged while the other holds the newest checkpoint is a *warning*: the database is whole, and its
//! next checkpoint writes that slot first. It is not passed over, since it was the spare, and since a checkpoint
//! that only it held would be lost: the older one then opened.
//!
//! Tested by `engine/tests/damage`, which damages what each step looks at; every other test of the engine
//! ends with it. Superblocks: `tests.rs`.

#[cfg(test)]
mod tests;
mod walk;

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::id::PageId;
use crate::pool::Pool;
use crate::store::Store;
use walk::Walk;

/// Problems kept; more are counted only.
const PROBLEMS_KEPT: usize = 1000;
/// Pages asked of the page map at once.
const PAGES_AT_ONCE: usize = 1024;

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckProgress {
    /// Pages looked at, each twice: on disk and in its tree.
    pub pages_done: u64,
    /// Pages to look at.
    pub pages_total: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Trees walked, the catalog included.
    pub trees: u64,
    /// Pages reached, large values included.
    pub pages: u64,
    /// Records of all trees but the catalog.
    pub records: u64,
    /// Everything that is wrong, up to a thousand.
    pub problems: Vec<Error>,
    /// Number of problems.
    pub problem_count: u64,
    /// What is not as it should be though nothing is lost: a damaged copy of the superblock while the other
    /// holds the newest checkpoint. The next checkpoint mends it.
    pub warnings: Vec<Error>,
}

impl CheckReport {
    /// Nothing is wrong; there may be warnings.
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, error: Error) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_KEPT {
            self.problems.push(error);
        }
    }
}

/// Runs the whole check.
pub(crate) fn run(
    pool: &Pool,
    catalog: &Catalog,
    progress: impl FnMut(CheckProgress),
) -> Result<CheckReport> {
    pool.between_checkpoints(|| run_alone(pool, catalog, progress))
}

fn run_alone(
    pool: &Pool,
    catalog: &Catalog,
    mut progress: impl FnMut(CheckProgress),
) -> Result<CheckReport> {
    let store = pool.store();
    let mut report = CheckReport::default();
    let closed = pool.gate().close();
    let trees = catalog.trees_with_lengths(pool).unwrap_or_else(|error| {
        report.problem(error);
        Vec::new()
    });
    let superblocks = store.audit_superblocks();
    report.warnings = superblocks.warnings;
    for error in store.audit().into_iter().chain(superblocks.problems) {
        report.problem(error);
    }
    let total = 2 * store.usage().pages;
    let mut done = 0;
    let mut tick = |by: u64| {
        done += by;
        progress(CheckProgress { pages_done: done.min(total), pages_total: total });
    };
    let mut from = PageId(1);
    loop {
        let pages = store.pages_from(from, PAGES_AT_ONCE);
        let Some(&last) = pages.last() else { break };
        for &page in &pages {
            if let Err(error) = verify_page(store, page) {
                report.problem(error);
            }
        }
        tick(pages.len() as u64);
        from = PageId(last.0 + 1);
    }
    let mut walk = Walk::new(pool, &mut report, &mut tick);
    if store.knows(PageId::CATALOG) {
        walk.tree(catalog.core().id, PageId::CATALOG, Some(catalog.core().lengths.sum()));
    }
    walk.forget_records();
    for &(tree, root, length) in &trees {
        walk.tree(tree, root, Some(length));
    }
    // An error of this is damage of the catalog tree, which was walked already.
    if let Ok(dropping) = catalog.dropping(pool) {
        let named: Vec<PageId> = trees.iter().map(|&(_, root, _)| root).collect();
        for (tree, root) in dropping {
            if store.knows(root) && !named.contains(&root) {
                walk.detached(tree, root);
            }
        }
    }
    walk.unreached();
    drop(walk);
    drop(closed);
    tick(total);
    Ok(report)
}

/// Compares a page on disk with its checksum. Evictors may move it meanwhile: then it is looked at where it
/// is now.
fn verify_page(store: &Store, page: PageId) -> Result<()> {
    loop {
        let before = store.placement(page);
        match store.verify_page(page) {
            Err(_) if before.is_some() && store.placement(page) != before => {}
            verified => return verified,
        }
    }
}
