//! A pool in miniature over a real store, single-threaded, and a record of what each checkpoint must hold.

use super::*;
use crate::io::sim::CrashMode;
use std::collections::BTreeMap;

/// What a page holds: the stamp of a tree page or the bytes of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Stamp(u64),
    Value(u64),
}

pub(super) fn value(seed: u64) -> Vec<u8> {
    let len = (seed * 977) % 30_000;
    (0..len).map(|at| (at.wrapping_mul(seed | 1) >> 3) as u8).collect()
}

/// One durable state.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) pages: BTreeMap<PageId, Content>,
    pub(super) lengths: Vec<(TreeId, u64)>,
    pub(super) lsn: u64,
}

impl State {
    /// Fails unless the store holds exactly this.
    pub(super) fn assert_held_by(&self, store: &Store) {
        let found = store.pages_from(PageId(0), usize::MAX);
        let expected: Vec<PageId> = self.pages.keys().copied().collect();
        assert_eq!(found, expected, "the pages that have a place");
        for (&page, content) in &self.pages {
            assert_content(store, page, content);
        }
        assert_eq!(store.lengths(), self.lengths);
        assert_eq!(store.checkpoint_lsn(), self.lsn);
        assert_audit(store);
    }
}

pub(super) fn assert_content(store: &Store, page: PageId, content: &Content) {
    match content {
        Content::Stamp(stamp) => assert!(holds(store, page, *stamp), "page {page}, {content:?}"),
        Content::Value(seed) => {
            let expected = value(*seed);
            let mut out = Vec::new();
            let read = store.read_value(page, expected.len(), &mut out);
            read.unwrap_or_else(|error| panic!("value {page}: {error}"));
            assert!(out == expected, "value {page}");
        }
    }
}

/// A page as the model's memory has it.
#[derive(Clone, Debug)]
struct Frame {
    content: Content,
    /// 0 = clean.
    dirty: Epoch,
    /// Provisional or condemned.
    left_out: bool,
}

/// A checkpoint that was begun with `publish`.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) state: State,
    /// Calls of the disk before `publish`, and when it had returned without an error.
    pub(super) begun_at: u64,
    pub(super) done_at: Option<u64>,
}

/// A checkpoint that a full disk refused: its superblock may have been written all the same.
#[derive(Debug)]
struct Refused {
    /// Where it would be in `commits`.
    index: usize,
    commit: Commit,
}

/// The model.
pub(super) struct World {
    pub(super) disk: Arc<SimDisk>,
    pub(super) store: Store,
    pub(super) rng: fastrand::Rng,
    /// By sequence number, from `first_sequence` on.
    pub(super) commits: Vec<Commit>,
    first_sequence: u64,
    refused: Vec<Refused>,
    frames: BTreeMap<PageId, Frame>,
    aside: Vec<(PageId, u64, Epoch)>,
    frozen: Option<State>,
    next_stamp: u64,
    lsn: u64,
}

fn disk_full() -> Error {
    Error::Full { op: "sync the log", source: Arc::new(io::ErrorKind::StorageFull.into()) }
}

fn calls(disk: &SimDisk) -> u64 {
    disk.op_count(crate::io::sim::OpKind::Any)
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let disk = Arc::new(SimDisk::new(seed));
        let store = new_store(&disk);
        World::resume(disk, store, State::default(), seed)
    }

    /// Goes on from an opened store that holds `state`.
    pub(super) fn resume(disk: Arc<SimDisk>, store: Store, state: State, seed: u64) -> World {
        let frames = state.pages.iter().map(|(&page, content)| {
            let frame = Frame { content: content.clone(), dirty: Epoch(0), left_out: false };
            (page, frame)
        });
        World {
            frames: frames.collect(),
            lsn: state.lsn,
            first_sequence: store.usage().sequence,
            commits: vec![Commit { state, begun_at: 0, done_at: Some(calls(&disk)) }],
            rng: fastrand::Rng::with_seed(seed),
            refused: Vec::new(),
            aside: Vec::new(),
            frozen: None,
            next_stamp: seed << 32,
            disk,
            store,
        }
    }

    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    fn some_page(&mut self) -> Option<PageId> {
        let count = self.frames.len();
        if count == 0 {
            return None;
        }
        let index = self.rng.usize(..count);
        self.frames.keys().nth(index).copied()
    }

    /// Puts the image aside if a checkpoint still has to write it.
    fn before_change(&mut self, page: PageId) {
        let frame = &self.frames[&page];
        let frozen = self.store.frozen_epoch();
        if frame.dirty != Epoch(0)
            && frame.dirty <= frozen
            && let Content::Stamp(stamp) = frame.content
        {
            self.aside.push((page, stamp, frame.dirty));
        }
    }

    /// One random act. A full disk undoes it; other errors are given.
    pub(super) fn act(&mut self) -> Result<()> {
        let epoch = self.store.epoch();
        let acted = match self.rng.u32(..100) {
            0..18 => self.create(epoch),
            18..45 => {
                if let Some(page) = self.some_page()
                    && matches!(self.frames[&page].content, Content::Stamp(_))
                {
                    self.before_change(page);
                    let stamp = self.stamp();
                    let frozen = self.store.frozen_epoch();
                    let frame = self.frames.get_mut(&page).expect("just chosen");
                    frame.content = Content::Stamp(stamp);
                    if frame.dirty <= frozen {
                        frame.dirty = epoch;
                    }
                }
                Ok(())
            }
            45..65 => match self.some_page() {
                Some(page) => self.evict(page),
                None => Ok(()),
            },
            65..70 => {
                if let Some(page) = self.some_page() {
                    self.store.condemn(page);
                    assert!(self.store.is_provisional(page));
                    self.frames.get_mut(&page).expect("just chosen").left_out = true;
                }
                Ok(())
            }
            70..78 => {
                if let Some(page) = self.some_page() {
                    self.before_change(page);
                    self.store.free_page(page);
                    self.frames.remove(&page);
                }
                Ok(())
            }
            78..82 => {
                if let Some(page) = self.some_page() {
                    self.store.adopt(&[page]);
                    self.frames.get_mut(&page).expect("just chosen").left_out = false;
                }
                Ok(())
            }
            82..86 => {
                let seed = self.rng.u64(1..1000);
                self.store.write_value(&value(seed)).map(|page| {
                    let frame =
                        Frame { content: Content::Value(seed), dirty: Epoch(0), left_out: true };
                    self.frames.insert(page, frame);
                })
            }
            86..92 => self.write_an_image_put_aside(),
            92..97 if self.frozen.is_none() => self.freeze(),
            92..95 => self.store.ensure_room(self.rng.u64(..300), self.rng.u64(1..4)),
            95..96 => {
                self.store.abort();
                self.aside.clear();
                self.frozen = None;
                Ok(())
            }
            96..97 => self.publish(|| Err(disk_full())),
            _ => self.publish(|| Ok(0)),
        };
        match acted {
            Err(Error::Full { .. }) => Ok(()),
            other => other,
        }
    }

    fn create(&mut self, epoch: Epoch) -> Result<()> {
        let provisional = self.rng.u32(..3) == 0;
        let page = match provisional {
            true => self.store.allocate_page_provisional()?,
            false => self.store.allocate_page()?,
        };
        assert!(self.store.knows(page) && self.store.placement(page).is_none());
        if self.rng.u32(..5) == 0 {
            self.store.unallocate_page(page);
            assert!(!self.store.knows(page));
            return Ok(());
        }
        let content = Content::Stamp(self.stamp());
        let frame = Frame { content, dirty: epoch, left_out: provisional };
        assert!(self.frames.insert(page, frame).is_none(), "id given out twice");
        Ok(())
    }

    fn evict(&mut self, page: PageId) -> Result<()> {
        let frame = &self.frames[&page];
        if frame.dirty == Epoch(0) {
            assert_content(&self.store, page, &frame.content);
            return Ok(());
        }
        let Content::Stamp(stamp) = frame.content else {
            unreachable!("values are never dirty");
        };
        if self.rng.u32(..6) == 0 {
            let bytes = image(page, stamp);
            let images = [Image { page, bytes: &bytes }];
            for placement in self.store.write_images(&images)? {
                self.store.discard(placement);
            }
            return Ok(());
        }
        put(&self.store, page, stamp, frame.dirty)?;
        self.frames.get_mut(&page).expect("found above").dirty = Epoch(0);
        Ok(())
    }

    fn write_an_image_put_aside(&mut self) -> Result<()> {
        if let Some(&(page, stamp, epoch)) = self.aside.first() {
            put(&self.store, page, stamp, epoch)?;
            self.aside.remove(0);
        }
        Ok(())
    }

    fn freeze(&mut self) -> Result<()> {
        let lengths: Vec<(TreeId, u64)> =
            (0..self.rng.u32(..3)).map(|tree| (TreeId(tree), self.rng.u64(..))).collect();
        let settled = self.frames.iter().filter(|(_, frame)| !frame.left_out);
        let pages = settled.map(|(&page, frame)| (page, frame.content.clone()));
        self.lsn += self.rng.u64(1..4) * 8; // tells the states apart
        let state = State { pages: pages.collect(), lengths: lengths.clone(), lsn: self.lsn };
        self.store.freeze(lengths, TreeId(3), self.lsn)?;
        self.frozen = Some(state);
        Ok(())
    }

    /// Writes all that the frozen epoch still lacks, then publishes, `before_superblock` included. A full disk
    /// there gives the checkpoint up.
    fn publish(&mut self, before_superblock: impl FnOnce() -> Result<u64>) -> Result<()> {
        let Some(state) = self.frozen.clone() else {
            return Ok(());
        };
        while !self.aside.is_empty() {
            self.write_an_image_put_aside()?;
        }
        let frozen = self.store.frozen_epoch();
        let lacking: Vec<(PageId, Frame)> = self
            .frames
            .iter()
            .filter(|(_, frame)| frame.dirty != Epoch(0) && frame.dirty <= frozen)
            .map(|(&page, frame)| (page, frame.clone()))
            .collect();
        for (page, frame) in lacking {
            if let Content::Stamp(stamp) = frame.content {
                put(&self.store, page, stamp, frame.dirty)?;
                self.frames.get_mut(&page).expect("found above").dirty = Epoch(0);
            }
        }
        let before = self.store.usage().sequence;
        self.frozen = None;
        self.commits.push(Commit { state, begun_at: calls(&self.disk), done_at: None });
        let disk = &self.disk;
        let mut reached_superblock = false;
        let published = self.store.publish(|| {
            assert_eq!(disk.snapshot().pending_count(), 0, "all that is written is synced");
            let log_bytes = before_superblock()?;
            reached_superblock = true;
            Ok(log_bytes)
        });
        if published.is_ok() {
            assert_eq!(self.store.usage().sequence, before + 1);
            self.commits.last_mut().expect("just pushed").done_at = Some(calls(&self.disk));
        } else if matches!(published, Err(Error::Full { .. })) {
            let commit = self.commits.pop().expect("just pushed");
            if reached_superblock {
                self.refused.push(Refused { index: self.commits.len(), commit });
            }
            assert_eq!(self.store.frozen_epoch(), Epoch(0));
            assert_eq!(self.store.usage().sequence, before);
        }
        published
    }

    /// The lsn of the newest checkpoint that a full disk refused at its superblock.
    pub(super) fn refused_lsn(&self) -> Option<u64> {
        self.refused.last().map(|refused| refused.commit.state.lsn)
    }

    /// A whole checkpoint, whatever is in progress. Errors are given, a full disk too.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        if self.frozen.is_none() {
            self.freeze()?;
        }
        self.publish(|| Ok(0))
    }

    /// What the memory of the model says of pages that are clean is what the store reads.
    pub(super) fn assert_clean_frames_read_back(&self) {
        for (&page, frame) in &self.frames {
            if frame.dirty == Epoch(0) {
                assert_content(&self.store, page, &frame.content);
            }
        }
    }

    /// Random acts, with an audit now and then.
    pub(super) fn play(&mut self, acts: usize) -> Result<()> {
        for number in 0..acts {
            self.act()?;
            if number % 16 == 0 {
                assert_audit(&self.store);
                self.assert_clean_frames_read_back();
            }
        }
        Ok(())
    }

    /// Opens what a power cut left after that many calls, and fails unless it is the checkpoint that it must
    /// be or the one that was being published.
    pub(super) fn assert_recovers(&self, disk: SimDisk, calls: u64) -> World {
        let disk = Arc::new(disk);
        let store = reopen(&disk);
        let index = (store.usage().sequence - self.first_sequence) as usize;
        let done = |commit: &Commit| commit.done_at.is_some_and(|done| done <= calls);
        let newest_done = self.commits.iter().rposition(done).expect("the first is done");
        let begun = |commit: &Commit| commit.begun_at < calls;
        let refused = self.refused.iter().filter(|refused| refused.index == index);
        let candidates = self.commits.get(index).into_iter().chain(refused.map(|one| &one.commit));
        let found = candidates
            .filter(|commit| {
                index == newest_done && done(commit) || index > newest_done && begun(commit)
            })
            .find(|commit| commit.state.lsn == store.checkpoint_lsn());
        let Some(found) = found else {
            panic!(
                "checkpoint {index} after {calls} calls, {newest_done} was the newest durable one"
            );
        };
        let state = found.state.clone();
        state.assert_held_by(&store);
        World::resume(disk, store, state, calls)
    }

    /// A power cut now.
    pub(super) fn assert_recovers_now(&self, seed: u64, mode: CrashMode) -> World {
        self.assert_recovers(self.disk.crash(seed, mode), calls(&self.disk))
    }
}
