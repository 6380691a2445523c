//! Offsets that need 32 bits and more: pages, values, map pages and the manifest beyond 2 GiB and 4 GiB, and on
//! both sides of either, in a sparse file over each backend for files.
//!
//! What lies below is given out for nothing: a hole. [`SparseFile`] and [`Store::occupy_up_to`] also serve
//! `api::far_tests`.

use super::*;
use crate::io::open_disk;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A file that takes only the room of what was written to it.
pub(crate) struct SparseFile {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl SparseFile {
    /// `None`, and a word on stderr, where files of 8 GiB with holes cannot be had.
    pub(crate) fn new() -> Option<SparseFile> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("data");
        let file = File::create(&path).expect("a place that is writable");
        let refused = file.set_len(8 << 30).err().map(|error| error.to_string());
        let taken = file.metadata().expect("there").blocks() * 512;
        file.set_len(0).expect("it shrinks");
        let why = refused.or((taken > 1 << 20).then(|| format!("a hole took {taken} bytes")));
        if let Some(why) = why {
            use std::io::Write;
            // Past what the test harness keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "SKIPPED offsets beyond 4 GiB: {why}");
            return None;
        }
        Some(SparseFile { _dir: dir, path })
    }

    /// The file over `backend`, or over what that falls back to.
    pub(crate) fn open(&self, backend: Backend) -> Arc<dyn Disk> {
        let options = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = options.expect("just made");
        let disk = open_disk(file, &self.path, backend, false).expect("a plain file");
        println!("{backend:?}: {:?}", disk.backend());
        Arc::from(disk)
    }

    /// Fails if the file takes more than 64 MiB of the file system.
    pub(crate) fn assert_sparse(&self) {
        let taken = std::fs::metadata(&self.path).expect("there").blocks() * 512;
        assert!(taken < 64 << 20, "{taken} bytes taken");
    }
}

/// The backends that have a file.
pub(crate) const FILE_BACKENDS: [Backend; 3] = [Backend::Uring, Backend::Mmap, Backend::Pread];

impl Store {
    /// Gives out all free space below `offset` until this store is dropped, so that what is written next lies
    /// beyond it, but for what fits into gaps between what is there.
    pub(crate) fn occupy_up_to(&self, offset: u64) {
        let (tail, end) = {
            let mut state = self.state_mut();
            let end = offset / BLOCK_BYTES as u64;
            // The store itself would get room for it.
            self.disk.set_len(offset).expect("a sparse file");
            state.blocks.grown(end);
            (state.blocks.end() - state.blocks.tail_free(), end)
        };
        self.give_out(&[end.checked_sub(tail).expect("not so far yet")]).expect("a sparse file");
    }
}

/// The offsets to cross.
const BOUNDARIES: [u64; 2] = [2 << 30, 4 << 30];

#[test]
fn pages_and_values_on_both_sides_of_two_and_four_gib_read_back() {
    for backend in FILE_BACKENDS {
        let Some(file) = SparseFile::new() else { return };
        let store = Store::create(file.open(backend), &file.path, PAGE_BYTES).expect("empty");
        let bytes: Vec<u8> =
            (0..3 << 19).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 23) as u8).collect();
        let mut values = Vec::new();
        let mut pages = Vec::new();
        for boundary in BOUNDARIES {
            // The value begins below the boundary and ends beyond it; so does one of the pages.
            store.occupy_up_to(boundary - (1 << 20));
            let value = store.write_value(&bytes).expect("room");
            let place = store.placement(value).expect("written");
            assert!(place.block.offset() < boundary);
            assert!(place.block.offset() + bytes.len() as u64 > boundary);
            values.push(value);
            for _ in 0..20 {
                let page = store.allocate_page().expect("ids");
                let placement = put(&store, page, page.0, store.epoch()).expect("room");
                assert!(placement.block.offset() >= boundary, "{placement:?}");
                pages.push(page);
            }
        }
        store.occupy_up_to((6 << 30) - 2 * BLOCK_BYTES as u64);
        let across = store.allocate_page().expect("ids");
        // Of four blocks, so that it lies on both sides of 6 GiB.
        assert_eq!(image(across, 3).len(), 4 * BLOCK_BYTES);
        let placement = put(&store, across, 3, store.epoch()).expect("room");
        assert!(placement.block.offset() < 6 << 30 && placement.end() * 4096 > 6 << 30);
        store.adopt(&values);
        checkpoint(&store).expect("room");
        // Map page and manifest came last.
        let manifest = store.durable().superblock.manifest;
        assert!(manifest.block.offset() > 6 << 30, "{manifest:?}");
        assert!(store.usage().file_bytes > 6 << 30);
        drop(store);

        let store = Store::open(file.open(backend), &file.path, false).expect("whole");
        let mut out = Vec::new();
        let assert_there = |store: &Store, stamp_of: &dyn Fn(PageId) -> u64, out: &mut Vec<u8>| {
            assert!(pages.iter().all(|&page| holds(store, page, stamp_of(page))));
            for &value in &values {
                store.read_value(value, bytes.len(), out).expect("whole");
                assert!(*out == bytes);
            }
            assert_audit(store);
        };
        assert_there(&store, &|page| page.0, &mut out);
        assert!(holds(&store, across, 3));
        assert_eq!(store.usage().pages, pages.len() as u64 + 3);
        assert!(store.usage().free_blocks > (5 << 30) / BLOCK_BYTES as u64);
        file.assert_sparse();
        // The hole below is free now: all that is written anew moves there, and the file is cut behind 4 GiB.
        for &page in pages.iter().chain([&across]) {
            put(&store, page, page.0 + 1, store.epoch()).expect("room");
        }
        checkpoint(&store).expect("room");
        checkpoint(&store).expect("room");
        let file_bytes = store.usage().file_bytes;
        assert!((4 << 30..6 << 30).contains(&file_bytes), "the value at 4 GiB stays: {file_bytes}");
        assert_there(&store, &|page| page.0 + 1, &mut out);
        drop(store);
        let store = Store::open(file.open(backend), &file.path, false).expect("whole");
        assert_there(&store, &|page| page.0 + 1, &mut out);
        values.iter().for_each(|&value| store.free_page(value));
        checkpoint(&store).expect("room");
        checkpoint(&store).expect("room");
        // What fits best may be a gap that those left.
        assert!(store.usage().file_bytes < 4 << 30, "{:?}", store.usage());
        file.assert_sparse();
    }
}

/// Damage beyond 4 GiB is found there, not at the offset cut to 32 bits.
#[test]
fn damage_beyond_four_gib_is_named_by_its_offset() {
    use std::os::unix::fs::FileExt;
    for backend in FILE_BACKENDS {
        let Some(file) = SparseFile::new() else { return };
        let store = Store::create(file.open(backend), &file.path, PAGE_BYTES).expect("empty");
        store.occupy_up_to(5 << 30);
        let page = store.allocate_page().expect("ids");
        let offset = put(&store, page, 4, store.epoch()).expect("room").block.offset();
        assert!(offset >= 5 << 30);
        checkpoint(&store).expect("room");
        drop(store);
        let raw = OpenOptions::new().write(true).open(&file.path).expect("there");
        raw.write_all_at(b"damage", offset + 1000).expect("room");
        let store = Store::open(file.open(backend), &file.path, false).expect("whole but for it");
        match store.read_page(page, &mut AlignedBuf::new(PAGE_BYTES as usize)) {
            Err(Error::Corrupt(corruption)) => assert_eq!(corruption.offset, Some(offset)),
            other => panic!("{other:?}"),
        }
    }
}
