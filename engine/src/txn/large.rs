//! Commits whose writes did not fit the memory of a transaction.
//!
//! All writes but guards are in runs. Since their keys are many, all stripes are taken. What runs without deletions
//! say of a tree that holds nothing is built packed and becomes the tree's content (a Fill, see `fill`); other runs
//! are gone through three times, each time merged: for conflicts, into the log, and into the tree.
//!
//! ```text
//! build -> (checkpoint) -> stripes -> still empty? room? conflicts? -> gate -> parts -> lsn -> copy -> apply, fill
//!   -> leave -> (checkpoint) -> durable
//! ```
//!
//! Room on disk is made for all pages that applying may dirty, by the number and the bytes of what was spilled: nothing
//! may be refused any more then. The checkpoints are made only if a tree is filled (see `fill`). What was built and not
//! used goes back to the pool.
//!
//! Tested by `engine/tests/transactions/large.rs`.

use super::commit::{Applied, Terms, explain, lock};
use super::fill::{checkpoint_blocks, make_ready};
use super::record::Recorder;
use super::write_set::{Amount, Spilled};
use super::{Change, Ledger, Target, Write, WriteSet};
use crate::btree::{Applying, Btree, Conflicts, Content, Filled, Merge, Staged};
use crate::error::Result;
use crate::id::PageId;
use crate::log::ops::Op;
use crate::node::LeafPayload;
use crate::pool::Pool;
use crate::versions::key_hash;

/// Changes that are applied together, at most.
const CHANGES: usize = 256;
/// Bytes of their keys and values, at most.
const CHANGES_BYTES: usize = 1 << 20;

/// How the runs of one tree get into it.
struct Plan<'a> {
    target: &'a Target,
    runs: Merge<'a>,
    /// What the runs say.
    amount: Amount,
    /// What the tree is to hold, if it holds nothing.
    content: Option<Content>,
    /// The large values that go into it.
    extents: Vec<PageId>,
}

/// A commit that is applied, and not yet acknowledged.
struct Made {
    lsn: u64,
    end: u64,
    filled: bool,
}

impl Ledger {
    /// Commits a write set of which some is in runs. `checkpoint` makes a checkpoint.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub(crate) fn commit_spilled(
        &self,
        pool: &Pool,
        set: &mut WriteSet,
        terms: Terms<'_>,
        checkpoint: impl Fn() -> Result<()>,
    ) -> Result<u64> {
        // Nothing goes back any more.
        set.settle();
        set.spill(pool)?;
        let made = {
            let (trees, guards) = (set.spilled(), set.writes());
            let _filling = lock(&self.filling);
            let mut plans = self.plan(pool, &trees)?;
            if let Err(error) = make_plans_ready(pool, &plans, &checkpoint) {
                drop_contents(pool, &plans);
                return Err(error);
            }
            let stripes = self.stripes.every();
            let made = self.make_spilled(pool, &mut plans, &guards, terms);
            stripes.into_iter().for_each(|stripe| {
                stripe.release_clean();
            });
            // Once poisoned, some may be in place; nothing durable will name the others.
            if made.is_err() && pool.store().health().is_ok() {
                drop_contents(pool, &plans);
            }
            let made = made?;
            // What leaves name now is not the runs' any more.
            let used: Vec<PageId> = plans.into_iter().flat_map(|plan| plan.extents).collect();
            if made.filled {
                self.log.wait_visible(made.end);
                if let Err(error) = checkpoint() {
                    return Err(pool.store().poison(self.log.poison(error)));
                }
                self.log.let_durable_go(made.lsn);
            }
            (made, used)
        };
        let (made, used) = made;
        set.discard(pool, &used);
        self.log.acknowledge(made.end, terms.durability)?;
        Ok(made.lsn)
    }

    /// Builds the content of trees that hold nothing. Others may still write to them.
    fn plan<'a>(&self, pool: &'a Pool, trees: &'a [Spilled<'a>]) -> Result<Vec<Plan<'a>>> {
        let mut plans: Vec<Plan<'a>> = Vec::with_capacity(trees.len());
        for tree in trees {
            let target = tree.target;
            let planned = self.plan_tree(pool, tree);
            match planned.map_err(|error| explain(error, target)) {
                Ok(plan) => plans.push(plan),
                Err(error) => {
                    drop_contents(pool, &plans);
                    return Err(error);
                }
            }
        }
        Ok(plans)
    }

    fn plan_tree<'a>(&self, pool: &'a Pool, tree: &'a Spilled<'a>) -> Result<Plan<'a>> {
        let target = tree.target;
        let into = Btree::new(pool, &target.core);
        let runs = Merge::new(pool, tree.runs);
        let mut extents = Vec::new();
        let content = if into.is_empty()? { into.build_from(&runs, &mut extents)? } else { None };
        if content.is_none() {
            extents.clear();
        }
        Ok(Plan { target, runs, amount: tree.amount, content, extents })
    }

    fn make_spilled(
        &self,
        pool: &Pool,
        plans: &mut [Plan<'_>],
        guards: &[Write<'_>],
        terms: Terms<'_>,
    ) -> Result<Made> {
        for plan in &mut *plans {
            let into = Btree::new(pool, &plan.target.core);
            let is_empty = into.is_empty().map_err(|error| explain(error, plan.target))?;
            if let Some(content) = plan.content.take_if(|_| !is_empty) {
                // Somebody was first: change by change, then.
                into.drop_content(&content);
                plan.extents.clear();
            }
        }
        make_room(pool, plans)?;
        if let Some(since) = terms.since {
            check_conflicts(pool, plans, guards, since)?;
        }
        let _large = lock(&self.large);
        let _inside = pool.gate().enter();
        let targets = plans.iter().map(|plan| plan.target);
        for target in targets.chain(guards.iter().map(|guard| guard.target)) {
            if target.core.is_dropped() {
                return Err(target.dropped());
            }
            let tree = Btree::new(pool, &target.core);
            if terms.since.is_some_and(|since| tree.changed_as_a_whole(since)) {
                return Err(target.conflict(None));
            }
        }
        let mut recorder = Recorder::new(&self.log);
        // Fills come first: recovery, which lacks what they brought, applies nothing of such a commit.
        let (fills, others): (Vec<_>, Vec<_>) =
            plans.iter().partition(|plan| plan.content.is_some());
        for plan in fills.into_iter().chain(others) {
            record(pool, plan, &mut recorder)?;
        }
        let ready = recorder.reserve()?;
        let (lsn, end) = (ready.reserved.lsn(), ready.reserved.end());
        if let (Some(reads), Some(since)) = (terms.reads, terms.since) {
            self.log.wait_visible(lsn);
            reads.validate(pool, &self.versions, since, lsn)?;
        }
        self.check_reader(terms, plans.first().map(|plan| plan.target))?;
        let filled = plans.iter().any(|plan| plan.content.is_some());
        if filled {
            self.log.hold_durable(lsn);
        }
        let applying = ready.copy();
        for plan in plans {
            if let Err(error) = self.apply_plan(pool, plan, lsn) {
                // First, so that this is the cause that is kept.
                let poisoned = self.log.poison(error);
                drop(applying);
                return Err(pool.store().poison(poisoned));
            }
        }
        applying.applied();
        Ok(Made { lsn, end, filled })
    }

    fn apply_plan(&self, pool: &Pool, plan: &mut Plan<'_>, lsn: u64) -> Result<()> {
        let target = plan.target;
        let into = Btree::of_commit(pool, &target.core);
        if let Some(content) = &plan.content {
            if into.fill(content, &plan.extents, &mut Filled { lsn })? {
                return Ok(());
            }
            // All stripes are held and no other fill is under way: nobody has written to it.
            let (what, expected) = ("tree that was empty", "no records".to_owned());
            return Err(pool.store().corrupt(target.core.root, what, expected, "some".to_owned()));
        }
        let mut deletes = false;
        let mut gathered = Gathered::default();
        let extents = &mut plan.extents;
        plan.runs.each(|key, payload| {
            deletes |= payload.is_none();
            if let Some(LeafPayload::Extent { page, .. }) = payload {
                extents.push(page);
            }
            gathered.push(key, payload);
            if gathered.is_full() {
                self.apply_gathered(into, target, &mut gathered, lsn)
            } else {
                Ok(())
            }
        })?;
        self.apply_gathered(into, target, &mut gathered, lsn)?;
        if deletes {
            self.purge.note_tree(target.clone(), lsn);
        }
        Ok(())
    }

    fn apply_gathered(
        &self,
        into: Btree<'_>,
        target: &Target,
        gathered: &mut Gathered,
        lsn: u64,
    ) -> Result<()> {
        let changes = gathered.changes();
        let mut ahead = into.ahead();
        let mut done = 0;
        while done < changes.len() {
            ahead.come_to(done, &changes, |change| change.key);
            let rest = &changes[done..];
            done += into.apply(rest, &mut |at| {
                let key = rest[at].key;
                // Tombstones are told of for the whole tree.
                let write = Write { target, key, change: Change::Guard };
                Applied { ledger: self, write, hash: key_hash(target.core.id, key), lsn }
            })?;
        }
        gathered.clear();
        Ok(())
    }
}

/// Gives back what was built for trees and is not in place.
fn drop_contents(pool: &Pool, plans: &[Plan<'_>]) {
    for plan in plans {
        if let Some(content) = &plan.content {
            Btree::new(pool, &plan.target.core).drop_content(content);
        }
    }
}

/// What filling trees asks for beforehand.
fn make_plans_ready(
    pool: &Pool,
    plans: &[Plan<'_>],
    checkpoint: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut fills = plans.iter().filter_map(|plan| Some((plan, plan.content.as_ref()?))).peekable();
    if fills.peek().is_none() {
        return Ok(());
    }
    let pages = fills.map(|(plan, content)| content.pages() + plan.extents.len()).sum();
    make_ready(pool, pages, checkpoint)
}

/// Room on disk for what is applied, and, if a tree is filled, for the checkpoint that has to follow.
fn make_room(pool: &Pool, plans: &[Plan<'_>]) -> Result<()> {
    let changing = plans.iter().filter(|plan| plan.content.is_none()).map(|plan| plan.amount);
    let changes = changing.clone().map(|amount| amount.changes).sum();
    let bytes = changing.map(|amount| amount.bytes).sum();
    if changes == 0 {
        return Ok(());
    }
    pool.ready_for(changes, bytes)?;
    let contents = plans.iter().filter_map(|plan| Some((plan, plan.content.as_ref()?)));
    match contents.map(|(plan, content)| content.pages() + plan.extents.len()).sum() {
        0 => Ok(()),
        pages => {
            let runs = checkpoint_blocks(pages) + pool.pages_changed(changes, bytes);
            pool.store().ensure_room(runs, pool.page_blocks())
        }
    }
}

/// No key that is written or guarded has a record of lsn `since` or later.
fn check_conflicts(
    pool: &Pool,
    plans: &[Plan<'_>],
    guards: &[Write<'_>],
    since: u64,
) -> Result<()> {
    for guard in guards {
        let changed = Btree::new(pool, &guard.target.core).conflicts(since).at(guard.key);
        if changed.map_err(|error| explain(error, guard.target))? {
            return Err(guard.target.conflict(Some(guard.key)));
        }
    }
    for plan in plans.iter().filter(|plan| plan.content.is_none()) {
        let mut conflicts = Btree::new(pool, &plan.target.core).conflicts(since);
        // Keys are enough to know which leaves come next.
        let mut gathered = Gathered::default();
        plan.runs.each(|key, _| {
            gathered.push(key, None);
            if gathered.is_full() {
                check_gathered(plan.target, &mut conflicts, &mut gathered)
            } else {
                Ok(())
            }
        })?;
        check_gathered(plan.target, &mut conflicts, &mut gathered)?;
    }
    Ok(())
}

fn check_gathered(
    target: &Target,
    conflicts: &mut Conflicts<'_>,
    gathered: &mut Gathered,
) -> Result<()> {
    let changes = gathered.changes();
    let mut ahead = conflicts.tree().ahead();
    for (at, change) in changes.iter().enumerate() {
        ahead.come_to(at, &changes, |change| change.key);
        if conflicts.at(change.key).map_err(|error| explain(error, target))? {
            return Err(target.conflict(Some(change.key)));
        }
    }
    gathered.clear();
    Ok(())
}

/// Puts what a plan changes into the log.
fn record(pool: &Pool, plan: &Plan<'_>, recorder: &mut Recorder<'_>) -> Result<()> {
    let tree = plan.target.core.id;
    if plan.content.is_some() {
        return recorder.push(Op::Fill { tree });
    }
    let mut value = Vec::new();
    plan.runs.each(|key, payload| match payload {
        None | Some(LeafPayload::Tombstone) => recorder.push(Op::Delete { tree, key }),
        Some(LeafPayload::Inline(value)) => recorder.push(Op::Put { tree, key, value }),
        Some(LeafPayload::Extent { page, len }) => {
            value.clear();
            pool.store().read_value(page, len as usize, &mut value)?;
            recorder.push(Op::Put { tree, key, value: &value })
        }
    })
}

/// Changes that are to be applied together.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    changes: Vec<GatheredChange>,
}

struct GatheredChange {
    start: usize,
    key_len: usize,
    value: GatheredValue,
}

enum GatheredValue {
    Inline(usize),
    Extent { page: PageId, len: u64 },
    Gone,
}

impl Gathered {
    fn push(&mut self, key: &[u8], payload: Option<LeafPayload<'_>>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value = match payload {
            Some(LeafPayload::Inline(value)) => {
                self.bytes.extend_from_slice(value);
                GatheredValue::Inline(value.len())
            }
            Some(LeafPayload::Extent { page, len }) => GatheredValue::Extent { page, len },
            Some(LeafPayload::Tombstone) | None => GatheredValue::Gone,
        };
        self.changes.push(GatheredChange { start, key_len: key.len(), value });
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= CHANGES || self.bytes.len() >= CHANGES_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    fn changes(&self) -> Vec<Applying<'_>> {
        let changes = self.changes.iter().map(|change| {
            let (key, rest) = self.bytes[change.start..].split_at(change.key_len);
            let payload = match change.value {
                GatheredValue::Inline(len) => Some(LeafPayload::Inline(&rest[..len])),
                GatheredValue::Extent { page, len } => Some(LeafPayload::Extent { page, len }),
                GatheredValue::Gone => None,
            };
            Applying { key, value: payload.map(Staged::of_run), place: None }
        });
        changes.collect()
    }
}
