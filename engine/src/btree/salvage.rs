//! Reading a tree that has damaged pages: everything that can be read comes out, and every part that cannot is
//! named.
//!
//! A scan ends at the first page that cannot be read. This walk knows, when it comes down, between which
//! separators each page lies, and so steps past a bad one to the upper of them:
//!
//! ```text
//!   root      |      a       g       p      |
//!              \      \       \       \
//!   leaves    [..a)  [a..g)  [g..p)  [p..)        [a..g) cannot be read: a gap from a to g, go on at g
//! ```
//!
//! * [V1] Steps cover the key space from the least key up, without hole or overlap: each is a leaf's records or
//!   a gap, and the next begins at the upper bound that the parent gives. So whatever was there all the time is
//!   handed out exactly once or lies in exactly one gap.
//! * [V2] What a parent says of a child is believed if the parent was still at its version once the child was
//!   begun, or once reading the child had failed. A page freed or moved by others is thus no gap.
//! * [V3] A child is taken for damaged also if it can be read but is of another tree, of another level or
//!   between other fences than its parent says. Each bound is above the one before, so no damaged file leads
//!   the walk in a circle.
//!
//! Not a repair: nothing is written. What lies below an unreadable inner page is one gap, though its leaves may
//! be whole.
//!
//! Tested by `api/salvage_tests.rs`, which damages every page of a tree in turn.

use super::{Btree, NodeAt};
use crate::error::{Error, Result};
use crate::id::PageId;
use crate::node::{LeafPayload, Page, bytes_of};

/// Keys that cannot be read, since this page cannot.
#[derive(Debug)]
pub(crate) struct LostRange {
    /// The page.
    pub(crate) page: PageId,
    /// The least key that may be lost.
    pub(crate) lower: Vec<u8>,
    /// Above every key that may be lost; `None`: nothing is above.
    pub(crate) upper: Option<Vec<u8>>,
    /// Why it cannot be read.
    pub(crate) cause: Error,
}

/// A record of a leaf.
#[derive(Debug)]
pub(crate) struct SalvagedRecord {
    /// The key.
    pub(crate) key: Vec<u8>,
    /// The value.
    pub(crate) value: SalvagedValue,
}

/// A value as a leaf has it.
#[derive(Debug)]
pub(crate) enum SalvagedValue {
    /// The value.
    Inline(Vec<u8>),
    /// It lies in this extent, and is to be read by its key.
    Extent(PageId),
}

/// What the next part of the key space gave.
#[derive(Debug)]
pub(crate) enum Step {
    /// Records, ascending; there may be none.
    Leaf(Vec<SalvagedRecord>),
    /// A part that is lost.
    Gap(LostRange),
    /// There are no more parts.
    End,
}

/// Where the walk stands.
#[derive(Debug)]
pub(crate) struct SalvageCursor {
    /// The next part begins here; `None`: all parts were seen.
    from: Option<Vec<u8>>,
}

impl SalvageCursor {
    /// Before the least key.
    pub(crate) fn new() -> SalvageCursor {
        SalvageCursor { from: Some(Vec::new()) }
    }
}

/// What is known of a page before it is read.
struct Place {
    page: PageId,
    /// The root has any level.
    level: Option<u8>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// What one try gave: a step, and where the next begins.
type Tried = Option<(Step, Option<Vec<u8>>)>;

/// Whether an error says that a page cannot be read, and not that nothing can be done at all.
pub(crate) fn is_of_a_page(error: &Error) -> bool {
    matches!(error, Error::Corrupt(_) | Error::Io { .. })
}

impl<'p> Btree<'p> {
    /// The next part of the tree.
    ///
    /// # Errors
    /// What has nothing to do with the bytes of a page of this tree: a pool that cannot make room; damage, if
    /// the tree was dropped meanwhile.
    pub(crate) fn salvage_step(self, cursor: &mut SalvageCursor) -> Result<Step> {
        let Some(from) = &cursor.from else { return Ok(Step::End) };
        let mut attempts = self.attempts();
        loop {
            if let Some((step, next)) = self.try_salvage(from)? {
                if next.as_ref().is_some_and(|next| next <= from) {
                    // [V3]; such pages are not let in, so this is damage in memory.
                    return Err(self.damage(self.core.root, "separators out of order"));
                }
                cursor.from = next;
                return Ok(step);
            }
            attempts.again()?;
        }
    }

    /// One descent to the part that begins at `from`. `None`: start again.
    fn try_salvage(self, from: &[u8]) -> Result<Tried> {
        let mut place = Place { page: self.core.root, level: None, lower: Vec::new(), upper: None };
        let mut parent = None;
        loop {
            let reached = self.pool.reach(place.page);
            if parent.is_some_and(|parent| !self.valid(parent)) {
                return Ok(None); // [V2]
            }
            let (frame, version) = match reached {
                Ok(reached) => reached,
                Err(cause) => return self.lost(place, from, cause),
            };
            let node = NodeAt { frame, version };
            let page = self.page(node);
            let wrong = self.misplaced(page, &place);
            if !self.valid(node) {
                return Ok(None);
            }
            if let Some(cause) = wrong {
                return self.lost(place, from, cause);
            }
            let below = if page.level() == 0 {
                let records = records_from(page, from);
                if !self.valid(node) {
                    return Ok(None);
                }
                match records {
                    Some(records) => return Ok(Some((Step::Leaf(records), place.upper))),
                    None => None,
                }
            } else {
                let below = child_place(page, &place, from);
                if !self.valid(node) {
                    return Ok(None);
                }
                below
            };
            match below {
                Some(below) => place = below,
                None => {
                    let cause = self.damage(place.page, "record lies outside the page");
                    return self.lost(place, from, cause);
                }
            }
            parent = Some(node);
        }
    }

    /// The part of the tree that `place` holds is lost, if `cause` is about its page.
    fn lost(self, place: Place, from: &[u8], cause: Error) -> Result<Tried> {
        self.check_alive()?;
        if !is_of_a_page(&cause) {
            return Err(cause);
        }
        // Something below `from` was handed out already, by a leaf that was merged into this one since.
        let lower = if place.lower[..] < *from { from.to_vec() } else { place.lower };
        let cause = cause.in_tree(self.core.id);
        let upper = place.upper.clone();
        Ok(Some((Step::Gap(LostRange { page: place.page, lower, upper, cause }), place.upper)))
    }

    /// What is wrong with a page that can be read ([V3]). To be validated.
    fn misplaced(self, page: Page<'p>, place: &Place) -> Option<Error> {
        let store = self.pool.store();
        let (tree, level) = (page.tree(), page.level());
        if tree != self.core.id {
            let (expected, got) = (self.core.id.to_string(), tree.to_string());
            return Some(store.corrupt(place.page, "tree of the page", expected, got));
        }
        if let Some(expected) = place.level
            && expected != level
        {
            let (expected, got) = (expected.to_string(), level.to_string());
            return Some(store.corrupt(place.page, "level of the page", expected, got));
        }
        let fences = page.lower().zip(page.upper());
        if fences.is_none_or(|(lower, upper)| lower != place.lower || upper != place.upper) {
            let expected = "those of its parent".to_owned();
            return Some(store.corrupt(place.page, "fence keys", expected, "others".to_owned()));
        }
        None
    }
}

/// The child of an inner page that holds `from`. `None`: torn.
fn child_place(page: Page<'_>, place: &Place, from: &[u8]) -> Option<Place> {
    let at = page.find_child(from);
    let lower = match at.checked_sub(1) {
        Some(before) => page.key(before)?,
        None => place.lower.clone(),
    };
    let upper = match at < page.count() {
        true => Some(page.key(at)?),
        false => place.upper.clone(),
    };
    let level = Some(page.level().checked_sub(1)?);
    Some(Place { page: page.child(at).page(), level, lower, upper })
}

/// The records of a leaf from `from` on. `None`: torn.
pub(crate) fn records_from(page: Page<'_>, from: &[u8]) -> Option<Vec<SalvagedRecord>> {
    let mut words = Vec::new();
    let mut records = Vec::new();
    for at in page.find(from).at..page.count() {
        let record = page.record(at)?;
        if record.meta.is_tombstone() {
            continue;
        }
        let start = page.copy_payload(record, &mut words);
        let payload = bytes_of(&words).get(start..start + record.meta.payload_len())?;
        let value = match record.meta.is_extent() {
            false => SalvagedValue::Inline(payload.to_vec()),
            true => SalvagedValue::Extent(LeafPayload::extent_of(payload)?.0),
        };
        records.push(SalvagedRecord { key: page.key(at)?, value });
    }
    Some(records)
}
