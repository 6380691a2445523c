//! Walking trees, page by page, with the gate closed.
//!
//! Pages are copied out at one version each; with writers kept out only eviction moves them. The stack holds
//! what is still to visit, so it is bounded by the levels and widths of pages; the set of pages reached takes
//! some 16 bytes a page. A page reached twice is not entered twice: no damaged file leads the walk in a
//! circle.
//!
//! Tested through `Db::check`, by `engine/tests/damage`.

use super::CheckReport;
use crate::error::Result;
use crate::id::{PageId, TreeId};
use crate::node::{Kind, LeafPayload, Page, bytes_of};
use crate::pool::Pool;
use latchkv_latch::primitives::AtomicU64;
use std::collections::HashSet;

/// Pages that are read together with the one to be visited, at most.
const PAGES_AHEAD: usize = 31;

/// A page to visit, and what its parent says of it. A detached tree's pages are visited without such claims.
struct Visit {
    page: PageId,
    level: Option<u8>,
    fences: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

/// One walk over all trees.
pub(super) struct Walk<'a> {
    pool: &'a Pool,
    report: &'a mut CheckReport,
    tick: &'a mut dyn FnMut(u64),
    reached: HashSet<PageId>,
    copy: Vec<AtomicU64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        pool: &'a Pool,
        report: &'a mut CheckReport,
        tick: &'a mut dyn FnMut(u64),
    ) -> Walk<'a> {
        let words = pool.store().page_bytes() as usize / 8;
        let copy = (0..words).map(|_| AtomicU64::new(0)).collect();
        Walk { pool, report, tick, reached: HashSet::new(), copy }
    }

    /// The records counted so far are the catalog's own: not the user's.
    pub(super) fn forget_records(&mut self) {
        self.report.records = 0;
    }

    fn wrong(
        &mut self,
        tree: TreeId,
        page: PageId,
        what: &'static str,
        expected: String,
        got: String,
    ) {
        let error = self.pool.store().corrupt(page, what, expected, got);
        self.report.problem(error.in_tree(tree));
    }

    /// Walks a tree from its root.
    pub(super) fn tree(&mut self, tree: TreeId, root: PageId, length: Option<u64>) {
        let before = self.report.records;
        let problems = self.report.problem_count;
        self.report.trees += 1;
        self.visit_all(tree, Visit { page: root, level: None, fences: Some((Vec::new(), None)) });
        let counted = self.report.records - before;
        if let Some(length) = length
            && problems == self.report.problem_count
            && counted != length
        {
            self.wrong(tree, root, "number of records", length.to_string(), counted.to_string());
        }
    }

    /// Walks what is left of a tree that is being taken apart. Its fences have gaps, and its records do not
    /// count.
    pub(super) fn detached(&mut self, tree: TreeId, root: PageId) {
        let records = self.report.records;
        self.visit_all(tree, Visit { page: root, level: None, fences: None });
        self.report.records = records;
    }

    /// Says which pages no tree reaches.
    pub(super) fn unreached(&mut self) {
        if self.report.problem_count > 0 {
            // Behind a damaged page much is unreached; the page itself has been reported.
            return;
        }
        let mut from = PageId(1);
        loop {
            let pages = self.pool.store().pages_from(from, super::PAGES_AT_ONCE);
            let Some(&last) = pages.last() else { return };
            for page in pages {
                if !self.reached.contains(&page) && !self.pool.store().is_provisional(page) {
                    let expected = "a tree that reaches it".to_owned();
                    self.wrong(
                        TreeId::CATALOG,
                        page,
                        "page of no tree",
                        expected,
                        "none".to_owned(),
                    );
                }
            }
            from = PageId(last.0 + 1);
        }
    }

    fn visit_all(&mut self, tree: TreeId, root: Visit) {
        let mut stack = vec![root];
        while let Some(visit) = stack.pop() {
            if !self.reach(tree, visit.page) {
                continue;
            }
            self.read_ahead(&visit, &stack);
            let copy = std::mem::take(&mut self.copy);
            match self.copy_page(visit.page, &copy) {
                Ok(()) => self.look(tree, &visit, Page::new(&copy), &mut stack),
                Err(error) => self.report.problem(error.in_tree(tree)),
            }
            self.copy = copy;
            (self.tick)(1);
        }
    }

    /// Reads a page that is not in memory together with those that come next: its siblings are on top of the stack.
    fn read_ahead(&self, visit: &Visit, stack: &[Visit]) {
        if self.pool.is_absent(visit.page) {
            let siblings = stack.iter().rev().take_while(|next| next.level == visit.level);
            let siblings = siblings.take(PAGES_AHEAD).map(|next| next.page);
            let pages: Vec<PageId> = [visit.page].into_iter().chain(siblings).collect();
            self.pool.read_ahead(&pages);
        }
    }

    /// False: the page was reached before.
    fn reach(&mut self, tree: TreeId, page: PageId) -> bool {
        self.report.pages += 1;
        let first = self.reached.insert(page);
        if !first {
            self.wrong(tree, page, "page reached twice", "one parent".to_owned(), "two".to_owned());
        }
        first
    }

    fn copy_page(&self, page: PageId, copy: &[AtomicU64]) -> Result<()> {
        loop {
            let (frame, version) = self.pool.reach(page)?;
            self.pool.page(frame).copy_words(copy);
            if self.pool.latch(frame).validate(version) {
                return Ok(());
            }
        }
    }

    fn look(&mut self, tree: TreeId, visit: &Visit, page: Page<'_>, stack: &mut Vec<Visit>) {
        if let Err(fault) = page.verify(visit.page) {
            return self.wrong(tree, visit.page, fault.what, fault.expected, fault.got);
        }
        if page.tree() != tree {
            self.wrong(
                tree,
                visit.page,
                "tree of the page",
                tree.to_string(),
                page.tree().to_string(),
            );
        }
        if visit.level.is_some_and(|level| level != page.level()) {
            let expected = visit.level.map(|level| level.to_string()).unwrap_or_default();
            self.wrong(tree, visit.page, "level of the page", expected, page.level().to_string());
        }
        let (lower, upper) = (page.lower().unwrap_or_default(), page.upper().flatten());
        if let Some((low, high)) = &visit.fences
            && (*low != lower || *high != upper)
        {
            let show = |low: &[u8], high: &Option<Vec<u8>>| {
                let high = high.as_ref().map(|high| high.escape_ascii().to_string());
                format!("[{}, {})", low.escape_ascii(), high.as_deref().unwrap_or("end"))
            };
            self.wrong(tree, visit.page, "fence keys", show(low, high), show(&lower, &upper));
        }
        match page.kind() {
            Some(Kind::Leaf) => self.leaf(tree, visit.page, page),
            _ => push_children(visit, page, lower, upper, stack),
        }
    }

    fn leaf(&mut self, tree: TreeId, id: PageId, page: Page<'_>) {
        for at in 0..page.count() {
            let Some(record) = page.record(at) else { continue };
            self.report.records += u64::from(!record.meta.is_tombstone());
            if !record.meta.is_extent() {
                continue;
            }
            let mut name = Vec::new();
            let start = page.copy_payload(record, &mut name);
            let Some((extent, len)) = LeafPayload::extent_of(&bytes_of(&name)[start..]) else {
                continue;
            };
            if !self.reach(tree, extent) {
                continue;
            }
            (self.tick)(1);
            match self.pool.store().placement(extent) {
                Some(place) if place.bytes() as u64 >= len => {}
                place => {
                    let got = place.map_or(0, |place| place.bytes());
                    let expected = format!("at least {len} bytes in page {extent}");
                    self.wrong(tree, id, "large value", expected, format!("{got} bytes"));
                }
            }
        }
    }
}

fn push_children(
    visit: &Visit,
    page: Page<'_>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    stack: &mut Vec<Visit>,
) {
    let keys: Vec<Vec<u8>> = (0..page.count()).filter_map(|at| page.key(at)).collect();
    let detached = visit.fences.is_none();
    for at in (0..=page.count()).rev() {
        let low = at.checked_sub(1).and_then(|at| keys.get(at)).unwrap_or(&lower);
        let high = keys.get(at).or(upper.as_ref());
        stack.push(Visit {
            page: page.child(at).page(),
            level: (!detached).then(|| page.level().wrapping_sub(1)),
            fences: (!detached).then(|| (low.clone(), high.cloned())),
        });
    }
}
