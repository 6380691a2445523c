//! Which map an image goes to, and what becomes of the place it had: the current map, the frozen map of a
//! checkpoint in progress, and the blocks, as one state under one lock. No I/O.
//!
//! # Example
//!
//! Page 7 lies at A. In epoch 4 it is changed in memory. A checkpoint freezes epoch 4; the epoch is 5.
//!
//! ```text
//!                                  current  frozen  A                B                C
//!  freeze                          7 -> A   7 -> A  durable
//!  checkpoint writes it at B       7 -> B   7 -> B  pending.frozen   in both maps
//!  changed, evicted to C           7 -> C   7 -> B  pending.frozen   pending.next     fresh
//!  publish                         7 -> C     -     free             pending.next     fresh
//!
//!  or, if the writer of epoch 5 was first (the image of epoch 4 was put aside before the change):
//!  changed, evicted to C           7 -> C   7 -> A  pending.next                      fresh
//!  checkpoint writes the image, B  7 -> C   7 -> B  pending.next     pending.next     fresh
//! ```
//!
//! # Rules
//!
//! Let `f` be the frozen epoch, `was` what the frozen map says of the page, `now` what the current map says.
//! *Left out* is a page that was provisional or condemned at the freeze.
//!
//! - [I1] No checkpoint in progress, or image epoch > `f`, or the page is left out: current := image; `now`
//!   is superseded. If the page is not live (freed meanwhile), or is left out and an image of a later epoch
//!   came first (so this one was put aside), nobody wants the image: its run is released.
//! - [I2] Image epoch <= `f`, page live and `now == was`: frozen := current := image, which is not fresh;
//!   `was` waits in pending.frozen, as the checkpoint no longer names it.
//! - [I3] Image epoch <= `f`, and `now != was` or the page was freed since the freeze: frozen := image,
//!   current stays; the image waits in pending.next. `was` is there already, put by the change that made
//!   `now` differ.
//! - [I4] Freeing: current := unmapped, `now` is superseded, the id is held until the publish that follows
//!   the next freeze. So an image with epoch <= `f` always means the page of the freeze.
//! - [I5] *Superseded* is: released if the page is provisional; else free at once if fresh; else
//!   pending.next. A condemned page is not provisional here: the durable map or the frozen one may name its
//!   run.
//! - [I6] `now == was` proves that the current map was not changed since the freeze: a run that the frozen
//!   map names is not fresh, so it is not given out again while the checkpoint lasts.
//! - [I7] A map page is kept for the frozen map before its first change after the freeze, without what is
//!   left out. So a freeze costs a reference count for each dirty map page, and a copy only where provisional
//!   pages are.
//! - [I8] Once sealed (publish has begun) the frozen map does not change. An image that [I2] would take then
//!   goes to the current map alone; one that [I3] would take is released.
//! - [I9] *Condemned* is a page that nothing of the current state names, but whose content is still read.
//!   Condemning changes no entry: it makes the map page dirty, so that the next freeze writes it without the
//!   page; a checkpoint in progress keeps the page. When a checkpoint that left it out is published, no map but
//!   the current one names its run any more, and the page is as provisional as any. Before, freeing it takes
//!   the way of every page that was in a checkpoint ([I5]).
//!
//! Tested by `store::tests`, which plays random traffic against a model and cuts the power at every sync.

use super::blocks::{Blocks, Run};
use super::page_map::{Bits, Entries, PageMap, place_of};
use super::place::Placement;
use crate::id::{Epoch, PageId, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The map of a checkpoint in progress, as far as it differs from the current map or from the durable one.
#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) epoch: Epoch,
    /// Kept by [I7]; all of `dirty` and more.
    saved: BTreeMap<usize, Arc<Entries>>,
    /// Map pages to be written.
    dirty: BTreeSet<usize>,
    left_out: BTreeMap<usize, Bits>,
    /// Pages left out of which an image of a later epoch is installed.
    overtaken: BTreeSet<PageId>,
    sealed: bool,
    pub(super) lengths: Vec<(TreeId, u64)>,
    pub(super) next_tree: TreeId,
    pub(super) checkpoint_lsn: u64,
}

impl Frozen {
    /// Keeps a map page as it was at the freeze, if that has not been done ([I7]).
    fn save(&mut self, index: usize, map: &PageMap) {
        if let Some(slot) = map.slots().get(index) {
            self.saved.entry(index).or_insert_with(|| match self.left_out.get(&index) {
                Some(left_out) => Arc::new(slot.entries.without(left_out)),
                None => slot.entries.clone(),
            });
        }
    }

    fn is_left_out(&self, page: PageId) -> bool {
        let (index, entry) = place_of(page);
        let bits = self.left_out.get(&index);
        bits.is_some_and(|bits| bits.get(entry))
    }

    /// The map pages that the checkpoint has to write, ascending; the frozen map is sealed ([I8]).
    pub(super) fn seal(&mut self) -> Vec<(usize, Arc<Entries>)> {
        self.sealed = true;
        let saved = &self.saved;
        self.dirty.iter().filter_map(|index| Some((*index, saved.get(index)?.clone()))).collect()
    }
}

/// Everything of a store that changes, but the numbers of the superblock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) map: PageMap,
    pub(super) blocks: Blocks,
    pub(super) frozen: Option<Frozen>,
    /// Where the durable checkpoint keeps its manifest.
    pub(super) manifest: Placement,
    dirty: BTreeSet<usize>,
    held_next: BTreeSet<PageId>,
    held_frozen: BTreeSet<PageId>,
}

fn run(placement: Placement) -> Run {
    Run { start: placement.block.0, len: u64::from(placement.blocks) }
}

impl State {
    /// The state as of a checkpoint.
    pub(super) fn new(map: PageMap, blocks: Blocks, manifest: Placement) -> State {
        State {
            map,
            blocks,
            manifest,
            frozen: None,
            dirty: BTreeSet::new(),
            held_next: BTreeSet::new(),
            held_frozen: BTreeSet::new(),
        }
    }

    /// Puts an image that was written into the maps: [I1], [I2], [I3].
    pub(super) fn install(&mut self, page: PageId, image: Placement, image_epoch: Epoch) {
        self.blocks.named(run(image));
        let (index, entry) = place_of(page);
        let live = self.map.is_live(page);
        let now = self.map.get(page);
        if let Some(frozen) = &mut self.frozen
            && image_epoch <= frozen.epoch
            && !frozen.is_left_out(page)
            && (live || self.held_next.contains(&page))
        {
            frozen.save(index, &self.map);
            if let Some(saved) = frozen.saved.get_mut(&index) {
                let was = saved.get(entry);
                let unchanged = live && now == was; // [I6]
                debug_assert!(!frozen.sealed, "an image of the checkpoint comes too late");
                if frozen.sealed {
                    if !unchanged {
                        return self.blocks.release(run(image));
                    }
                } else {
                    Arc::make_mut(saved).set(entry, image);
                    frozen.dirty.insert(index);
                    self.blocks.not_fresh(run(image));
                    if unchanged {
                        self.map.set(page, image);
                        if was.is_mapped() {
                            self.blocks.pend_frozen(run(was));
                        }
                    } else {
                        self.blocks.pend_next(run(image));
                        self.dirty.insert(index); // the two maps differ here from now on: [P3]
                    }
                    return;
                }
            }
        }
        let mut wanted = live;
        if let Some(frozen) = &mut self.frozen
            && frozen.is_left_out(page)
        {
            if image_epoch > frozen.epoch {
                frozen.overtaken.insert(page);
            } else {
                wanted &= !frozen.overtaken.contains(&page);
            }
        }
        match wanted {
            true => self.change(page, image),
            false => self.blocks.release(run(image)),
        }
    }

    /// The page left its tree: [I4].
    pub(super) fn free(&mut self, page: PageId) {
        if self.map.is_live(page) {
            self.change(page, Placement::NONE);
            self.map.free(page);
            self.held_next.insert(page);
        }
    }

    /// Replaces what the current map says of a live page: [I1], [I5].
    fn change(&mut self, page: PageId, to: Placement) {
        let (index, _) = place_of(page);
        if let Some(frozen) = &mut self.frozen {
            frozen.save(index, &self.map);
        }
        let old = self.map.set(page, to);
        let provisional = self.map.is_provisional(page) && !self.map.is_condemned(page);
        if !provisional && old != to {
            self.dirty.insert(index);
        }
        match (old.is_mapped(), provisional) {
            (false, _) => {}
            (true, true) => self.blocks.release(run(old)),
            (true, false) => self.blocks.supersede(run(old)),
        }
    }

    /// The page is part of the next freeze.
    pub(super) fn adopt(&mut self, page: PageId) {
        if self.map.adopt(page) {
            self.dirty.insert(place_of(page).0);
        }
    }

    /// The page is part of no freeze from the next on, and stays what it is until it is freed: [I9].
    pub(super) fn condemn(&mut self, page: PageId) {
        if self.map.condemn(page) {
            self.dirty.insert(place_of(page).0);
        }
    }

    /// A checkpoint of this epoch begins.
    pub(super) fn freeze(
        &mut self,
        epoch: Epoch,
        lengths: Vec<(TreeId, u64)>,
        next_tree: TreeId,
        checkpoint_lsn: u64,
    ) {
        let mut frozen = Frozen {
            epoch,
            saved: BTreeMap::new(),
            dirty: std::mem::take(&mut self.dirty),
            left_out: self.map.provisional().clone(),
            overtaken: BTreeSet::new(),
            sealed: false,
            lengths,
            next_tree,
            checkpoint_lsn,
        };
        for index in frozen.dirty.clone() {
            frozen.save(index, &self.map);
        }
        self.frozen = Some(frozen);
        self.blocks.freeze();
        self.held_frozen.append(&mut self.held_next);
    }

    /// The checkpoint is durable: its map pages and its manifest lie where it says, and what it superseded is
    /// free.
    pub(super) fn published(&mut self, written: &[(usize, Placement, u64)], manifest: Placement) {
        for &(index, placement, reach) in written {
            let old = self.map.set_on_disk(index, placement, reach);
            self.blocks.named(run(placement));
            self.blocks.not_fresh(run(placement));
            if old.is_mapped() {
                self.blocks.release(run(old));
            }
        }
        let old = std::mem::replace(&mut self.manifest, manifest);
        self.blocks.named(run(manifest));
        self.blocks.not_fresh(run(manifest));
        if old.is_mapped() {
            self.blocks.release(run(old));
        }
        self.blocks.published();
        for page in std::mem::take(&mut self.held_frozen) {
            self.map.unhold(page);
        }
        if let Some(frozen) = self.frozen.take() {
            self.map.forget_condemned(|page| frozen.is_left_out(page)); // [I9]
        }
    }

    /// The checkpoint was given up before anything named it: all that it was to make durable waits for the
    /// next.
    pub(super) fn aborted(&mut self) {
        if let Some(mut frozen) = self.frozen.take() {
            self.dirty.append(&mut frozen.dirty);
            self.blocks.aborted();
            self.held_next.append(&mut self.held_frozen);
        }
    }

    /// Every run that the current map, the map pages on disk or the manifest name, in no order.
    pub(super) fn used_runs(&self) -> Vec<Run> {
        let slots = self.map.slots();
        let pages = slots.iter().flat_map(|slot| slot.entries.mapped());
        pages
            .map(|(_, placement)| placement)
            .chain(slots.iter().map(|slot| slot.on_disk))
            .chain([self.manifest])
            .filter(Placement::is_mapped)
            .map(run)
            .collect()
    }
}
