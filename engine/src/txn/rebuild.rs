//! A tree built anew, packed, in place of what it was: the same records in fewer pages.
//!
//! ```text
//! pin -> build from the pinned state -> checkpoint, alone -> checkpoint -> all stripes -> unchanged since?
//!   -> gate closed: root moved away, lsn of a Fill, root takes the new content -> open -> checkpoint -> durable
//! ```
//!
//! It is a clear and a fill (see `fill`) in one. The log has a Fill, so recovery that meets it ends before it, where the
//! tree is what it was. Snapshots of before get the error of a cleared tree, since what they saw is not kept.
//!
//! Tested by `engine/tests/transactions/rebuild.rs` and `engine/tests/crash`.

use super::commit::lock;
use super::definition::{Defined, Defining};
use super::fill::make_ready;
use super::{Ledger, Target};
use crate::btree::{Btree, Content};
use crate::catalog::{Catalog, Definition, DefinitionLog};
use crate::error::Result;
use crate::pool::Pool;
use std::ops::Bound;

/// The log, for a rebuild of what was read at `since`.
struct Rebuilding<'a> {
    defining: Defining<'a>,
    ledger: &'a Ledger,
    pool: &'a Pool,
    target: &'a Target,
    since: u64,
}

impl<'a> DefinitionLog for Rebuilding<'a> {
    type Place = Defined<'a>;

    fn reserve(&self, definition: Definition<'_>) -> Result<Defined<'a>> {
        // The gate is closed, and definitions are held: it stays so.
        if Btree::new(self.pool, &self.target.core).changed_as_a_whole(self.since) {
            return Err(self.target.conflict(None));
        }
        let place = self.defining.reserve(definition)?;
        // Before it is copied, so that nobody makes it durable before the checkpoint has the tree.
        self.ledger.log.hold_durable(self.defining.lsn());
        Ok(place)
    }
}

impl Ledger {
    /// Builds a tree anew. `alone` is called when the new content is built, before it is put in place; `checkpoint`
    /// makes a checkpoint.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if somebody wrote to the tree meanwhile; those of `alone`, of reading
    /// and of a bulk load. The tree is as it was then.
    pub(crate) fn rebuild(
        &self,
        pool: &Pool,
        catalog: &Catalog,
        target: &Target,
        alone: impl FnOnce() -> Result<()>,
        checkpoint: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let tree = Btree::new(pool, &target.core);
        let pin = self.pin();
        let content = tree.build_copy(self.view(pin.lsn())).map_err(|error| {
            // What was pinned is gone, and may have looked like damage while it went.
            if tree.changed_as_a_whole(pin.lsn()) { target.conflict(None) } else { error }
        })?;
        let put = || {
            // Most of it is written before anybody is kept waiting.
            checkpoint()?;
            alone()?;
            // Not before: whoever `alone` waits for may be waiting for this.
            let filling = lock(&self.filling);
            make_ready(pool, content.pages(), &checkpoint)?;
            let lsn = self.put_in_place(pool, catalog, target, &content, pin.lsn())?;
            Ok((lsn, filling))
        };
        let (lsn, _filling) = match put() {
            Ok(put) => put,
            Err(error) => {
                // Once poisoned, it may be in place.
                if pool.store().health().is_ok() {
                    tree.drop_content(&content);
                }
                return Err(error);
            }
        };
        drop(pin);
        if let Err(error) = checkpoint() {
            return Err(pool.store().poison(self.log.poison(error)));
        }
        self.log.let_durable_go(lsn);
        Ok(())
    }

    fn put_in_place(
        &self,
        pool: &Pool,
        catalog: &Catalog,
        target: &Target,
        content: &Content,
        since: u64,
    ) -> Result<u64> {
        let tree = Btree::new(pool, &target.core);
        let stripes = self.stripes.every();
        let replaced = (|| {
            // Nobody commits a change of a key until the stripes are let go of.
            let at = self.log.tail();
            self.log.wait_visible(at);
            let all = Bound::Unbounded;
            if tree.changed_between(all, all, since, at, &self.versions)? {
                return Err(target.conflict(None));
            }
            let defining = self.defining();
            let log = Rebuilding { defining, ledger: self, pool, target, since };
            let replaced = catalog.replace(pool, &target.core, &log, content);
            let (lsn, end) = (log.defining.lsn(), log.defining.end());
            match replaced {
                Ok(()) => {
                    self.log.wait_visible(end);
                    Ok(lsn)
                }
                Err(error) if lsn > 0 => {
                    // The old content is on its way out, and the new one may be half in place.
                    Err(pool.store().poison(self.log.poison(error)))
                }
                Err(error) => Err(error),
            }
        })();
        stripes.into_iter().for_each(|stripe| {
            stripe.release_clean();
        });
        replaced
    }
}
