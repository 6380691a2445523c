//! From nothing to an empty store, and from a superblock to the page map and the free space.
//!
//! ```text
//!   superblock slots --choose--> manifest --> map pages --> every run that is reached --> free space
//! ```
//!
//! Each step checks what it found before the next step uses it (\[S7]), so damage ends in an error with its
//! place and the memory used stays within a small factor of what the file really holds. Opening costs 1 MiB
//! of reading for each GiB of 16 KiB pages, and no page is read.
//!
//! Map pages are read in the order of their places, neighbours together:
//!
//! ```text
//!   directory (by index)   0  1  2  3  4          file   | 3 | 0 | 1 | other | 4 | ........ | 2 |
//!                                                read   |<------- one span ----->|          |<->|
//! ```
//!
//! Tested in `store::tests`, and the cutting into spans below.

use super::blocks::{Blocks, Run, RunFault};
use super::manifest::Manifest;
use super::page_map::{Entries, MAP_PAGE_BLOCKS_MAX, PageMap};
use super::place::{
    PLACEMENT_BYTES, Placement, RESERVED_BLOCKS, RUN_BLOCKS_MAX, seed_manifest, seed_map_page,
};
use super::state::State;
use super::superblock::{self, FORMAT_VERSION, SLOT_BLOCKS, Superblock};
use super::{Durable, Store};
use crate::error::{Corruption, Error, Result, Usage};
use crate::id::{BLOCK_BYTES, BlockId, Epoch, PAGE_BYTES_MAX, PAGE_BYTES_MIN, TreeId};
use crate::io::{AlignedBuf, Disk, Write, disk_error};
use latchkv_latch::primitives::AtomicU64;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Greatest manifest that is believed, in bytes: that of sixty million map pages, some petabyte of data.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Refuses a page size that is no power of two from 4096 to 65536.
pub(crate) fn check_page_bytes(page_bytes: u32) -> Result<()> {
    let in_range = (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&(page_bytes as usize));
    if page_bytes.is_power_of_two() && in_range {
        return Ok(());
    }
    Err(Error::Usage(Usage::BadOption {
        option: "page_bytes",
        actual: page_bytes.to_string(),
        allowed: format!("a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}"),
    }))
}

/// Bytes of a span of map pages at most.
const SPAN_BYTES_MAX: usize = 1 << 20;
/// Bytes of anything else that are read for nothing between two map pages, rather than to read twice.
const GAP_BYTES_MAX: u64 = 32 << 10;

/// Where things are read from while a store is opened.
struct Source<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    file_blocks: u64,
}

impl Source<'_> {
    fn fault(&self, offset: u64, what: &'static str, expected: String, got: String) -> Error {
        Error::from(Corruption {
            file: self.path.to_owned(),
            offset: Some(offset),
            page: None,
            tree: None,
            what,
            expected,
            got,
        })
    }

    fn buffer(&self, bytes: usize) -> Result<AlignedBuf> {
        AlignedBuf::try_new(bytes)
            .map_err(|_| disk_error("read", self.path, std::io::ErrorKind::OutOfMemory.into()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.disk.read(offset, out).map_err(|error| disk_error("read", self.path, error))
    }

    /// Checks the bytes of a run against its placement.
    fn verify(&self, bytes: &[u8], place: Placement, seed: u64, what: &'static str) -> Result<()> {
        let checksum = xxh3_64_with_seed(bytes, seed);
        if checksum == place.checksum {
            return Ok(());
        }
        Err(self.fault(
            place.block.offset(),
            what,
            format!("{:016x}", place.checksum),
            format!("{checksum:016x}"),
        ))
    }

    /// The two slots, as far as the file has them. A slot that the disk refuses to read may hold the newest
    /// checkpoint: for reading the other will do, but writing on from an older one would destroy the newer.
    fn superblock(&self, file_bytes: u64, read_only: bool) -> Result<(Superblock, usize)> {
        let mut slots = SLOT_BLOCKS.map(|_| AlignedBuf::new(BLOCK_BYTES));
        let mut found: [&[u8]; 2] = [&[], &[]];
        let mut failure = None;
        for ((slot, found), block) in slots.iter_mut().zip(&mut found).zip(SLOT_BLOCKS) {
            if block.offset() + BLOCK_BYTES as u64 > file_bytes {
                continue;
            }
            match self.disk.read(block.offset(), slot) {
                Ok(()) => *found = slot,
                Err(error) => failure = Some(disk_error("read", self.path, error)),
            }
        }
        match (superblock::choose(found, self.path), failure) {
            (chosen, Some(failure)) if chosen.is_err() || !read_only => Err(failure),
            (chosen, _) => chosen,
        }
    }

    fn manifest(&self, superblock: &Superblock, slot: usize) -> Result<Manifest> {
        let placement = superblock.manifest;
        let bytes = superblock.manifest_bytes;
        let fits = (1..=RUN_BLOCKS_MAX).contains(&placement.blocks)
            && placement.block.0 >= RESERVED_BLOCKS
            && placement.block.0 < self.file_blocks
            && placement.end() <= self.file_blocks
            && bytes.div_ceil(BLOCK_BYTES as u64) == u64::from(placement.blocks)
            && bytes <= MANIFEST_BYTES_MAX;
        if !fits {
            return Err(self.fault(
                SLOT_BLOCKS[slot].offset(),
                "place of the manifest",
                format!("{bytes} bytes within {} blocks", self.file_blocks),
                format!("{placement:?}"),
            ));
        }
        let seed = seed_manifest(superblock.sequence);
        let offset = placement.block.offset();
        let mut buf = self.buffer(placement.bytes())?;
        self.read(offset, &mut buf)?;
        self.verify(&buf, placement, seed, "checksum of the manifest")?;
        let manifest =
            Manifest::decode(&buf[..bytes as usize], self.file_blocks).map_err(|fault| {
                self.fault(offset + fault.at as u64, fault.what, String::new(), String::new())
            })?;
        if manifest.epoch != superblock.epoch {
            return Err(self.fault(
                offset,
                "epoch of the manifest",
                superblock.epoch.0.to_string(),
                manifest.epoch.0.to_string(),
            ));
        }
        Ok(manifest)
    }

    /// Reads all map pages, by spans; the memory beside the map is that of one span.
    fn page_map(&self, manifest: &Manifest) -> Result<PageMap> {
        let directory = &manifest.directory;
        let mut order: Vec<usize> =
            (0..directory.len()).filter(|&index| directory[index].is_mapped()).collect();
        for &index in &order {
            let placement = directory[index];
            if placement.blocks > MAP_PAGE_BLOCKS_MAX {
                return Err(self.fault(
                    placement.block.offset(),
                    "length of a map page",
                    format!("at most {MAP_PAGE_BLOCKS_MAX} blocks"),
                    format!("{} blocks", placement.blocks),
                ));
            }
        }
        order.sort_unstable_by_key(|&index| directory[index].block);
        let mut found: Vec<Option<Entries>> = Vec::new();
        found.resize_with(directory.len(), || None);
        let mut buf =
            self.buffer(spans(directory, &order).map(|span| span.bytes).max().unwrap_or(0))?;
        for span in spans(directory, &order) {
            self.read(span.offset, &mut buf[..span.bytes])?;
            for &index in span.indexes {
                let placement = directory[index];
                let start = (placement.block.offset() - span.offset) as usize;
                let bytes = &buf[start..start + placement.bytes()];
                found[index] = Some(self.map_page(bytes, index, placement)?);
            }
        }
        let mut map = PageMap::default();
        for (entries, &placement) in found.into_iter().zip(directory) {
            map.push(entries, placement);
        }
        Ok(map)
    }

    /// One map page, verified.
    fn map_page(&self, bytes: &[u8], index: usize, placement: Placement) -> Result<Entries> {
        let seed = seed_map_page(index);
        self.verify(bytes, placement, seed, "checksum of a map page")?;
        Entries::decode(bytes, self.file_blocks).map_err(|(entry, what)| {
            self.fault(
                placement.block.offset() + (entry * PLACEMENT_BYTES) as u64,
                what,
                String::new(),
                String::new(),
            )
        })
    }

    fn state(&self, manifest: &Manifest, placement: Placement) -> Result<State> {
        let map = self.page_map(manifest)?;
        let mut state = State::new(map, Blocks::default(), placement);
        let blocks = Blocks::complement(state.used_runs(), self.file_blocks);
        state.blocks = blocks.map_err(|fault| run_fault(self.path, fault))?;
        Ok(state)
    }
}

/// A piece of the file that is read at once, and the map pages that lie in it.
#[derive(PartialEq, Eq, Debug)]
struct Span<'a> {
    offset: u64,
    bytes: usize,
    indexes: &'a [usize],
}

/// Cuts map pages, whose indexes come in the order of their places, into spans.
fn spans<'a>(directory: &'a [Placement], mut order: &'a [usize]) -> impl Iterator<Item = Span<'a>> {
    std::iter::from_fn(move || {
        let offset = directory[*order.first()?].block.offset();
        let mut end = offset;
        let count = order
            .iter()
            .take_while(|&&index| {
                let place = directory[index];
                let start = place.block.offset();
                // Places that overlap are damage, which is seen later; here they only must not go wrong.
                let longer = end.max(start + place.bytes() as u64);
                let joins = longer - offset <= SPAN_BYTES_MAX as u64
                    && start.saturating_sub(end) <= GAP_BYTES_MAX;
                if joins {
                    end = longer;
                }
                joins
            })
            .count();
        let (indexes, rest) = order.split_at(count);
        order = rest;
        Some(Span { offset, bytes: (end - offset) as usize, indexes })
    })
}

/// The typed form of a fault among the used runs.
pub(super) fn run_fault(path: &Path, fault: RunFault) -> Error {
    let (run, what) = match fault {
        RunFault::Overlap(run) => (run, "blocks used twice"),
        RunFault::Outside(run) => (run, "run outside of the file"),
    };
    let Run { start, len } = run;
    Error::from(Corruption {
        file: path.to_owned(),
        offset: Some(BlockId(start).offset()),
        page: None,
        tree: None,
        what,
        expected: "one owner within the file".into(),
        got: format!("another run of {len} blocks here"),
    })
}

impl Store {
    /// Makes an empty store on an empty disk; durable on return. `path` is for messages. `page_bytes` is a
    /// power of two from 4096 to 65536.
    ///
    /// # Errors
    /// [`Error::Usage`] for the page size, [`Error::Full`], [`Error::Io`].
    pub(crate) fn create(disk: Arc<dyn Disk>, path: &Path, page_bytes: u32) -> Result<Store> {
        check_page_bytes(page_bytes)?;
        let manifest = Manifest { epoch: Epoch(0), next_tree: TreeId(1), ..Manifest::default() };
        let bytes = manifest.encode();
        let superblock = Superblock {
            version: FORMAT_VERSION,
            page_shift: page_bytes.trailing_zeros() as u8,
            uuid: random_uuid(),
            sequence: 1,
            epoch: manifest.epoch,
            checkpoint_lsn: 0,
            manifest: Placement {
                block: BlockId(RESERVED_BLOCKS),
                blocks: (bytes.len() / BLOCK_BYTES) as u32,
                checksum: xxh3_64_with_seed(&bytes, seed_manifest(1)),
            },
            manifest_bytes: manifest.bytes() as u64,
            file_blocks: RESERVED_BLOCKS + (bytes.len() / BLOCK_BYTES) as u64,
            log_bytes: 0,
        };
        let slot = superblock.encode();
        let write = |block: BlockId, bytes| Write { offset: block.offset(), bytes };
        disk.set_len(superblock.file_blocks * BLOCK_BYTES as u64)
            .and_then(|()| {
                disk.write(&[
                    write(superblock.manifest.block, &bytes[..]),
                    write(SLOT_BLOCKS[0], &slot[..]),
                    write(SLOT_BLOCKS[1], &slot[..]),
                ])
            })
            .and_then(|()| disk.sync())
            .map_err(|error| disk_error("create", path, error))?;
        Store::open(disk, path, false)
    }

    /// Opens a store at its newest checkpoint. `path` is for messages. With `read_only` nothing is written,
    /// now or later.
    ///
    /// # Errors
    /// [`OpenError::NotADatabase`](crate::error::OpenError::NotADatabase),
    /// [`OpenError::NewerVersion`](crate::error::OpenError::NewerVersion), [`Error::Corrupt`] with the offset
    /// of the damage, [`Error::Io`].
    pub(crate) fn open(disk: Arc<dyn Disk>, path: &Path, read_only: bool) -> Result<Store> {
        let file_bytes = disk.len_bytes().map_err(|error| disk_error("examine", path, error))?;
        let source = Source { disk: &*disk, path, file_blocks: file_bytes / BLOCK_BYTES as u64 };
        let (superblock, slot) = source.superblock(file_bytes, read_only)?;
        if superblock.file_blocks > source.file_blocks {
            return Err(source.fault(
                file_bytes,
                "length of the file",
                format!("at least {} blocks", superblock.file_blocks),
                format!("{} blocks", source.file_blocks),
            ));
        }
        let manifest = source.manifest(&superblock, slot)?;
        let state = source.state(&manifest, superblock.manifest)?;
        Ok(Store {
            path: path.to_owned(),
            page_bytes: 1 << superblock.page_shift,
            read_only,
            epoch: AtomicU64::new(superblock.epoch.0.saturating_add(1)),
            frozen_epoch: AtomicU64::new(0),
            poison: OnceLock::new(),
            publishing: Mutex::new(()),
            durable: Mutex::new(Durable {
                superblock,
                slot,
                lengths: manifest.lengths,
                next_tree: manifest.next_tree,
            }),
            cut: RwLock::new(()),
            state: RwLock::new(state),
            disk,
        })
    }
}

/// 128 random bits, to tell databases apart; not a secret.
fn random_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the pointer and the length are those of `uuid`, which nothing else refers to.
        let got = unsafe { libc::getrandom(uuid.as_mut_ptr().cast(), uuid.len(), 0) };
        if got == uuid.len() as isize {
            return uuid;
        }
    }
    // The keys of a hasher are drawn at random by the standard library.
    use std::hash::{BuildHasher, RandomState};
    for half in uuid.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(half.as_ptr() as usize).to_ne_bytes());
    }
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = BLOCK_BYTES;

    fn cut(runs: &[(u64, u32)]) -> Vec<(u64, usize, Vec<usize>)> {
        let directory: Vec<Placement> = runs
            .iter()
            .map(|&(block, blocks)| Placement { block: BlockId(block), blocks, checksum: 0 })
            .collect();
        let mut order: Vec<usize> = (0..runs.len()).collect();
        order.sort_by_key(|&index| directory[index].block);
        spans(&directory, &order)
            .map(|span| (span.offset / BLOCK as u64, span.bytes / BLOCK, span.indexes.to_vec()))
            .collect()
    }

    #[test]
    fn neighbours_and_near_map_pages_are_read_together() {
        let gap = GAP_BYTES_MAX / BLOCK as u64;
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[(44, 4), (40, 4), (900, 1)]), [(40, 8, vec![1, 0]), (900, 1, vec![2])]);
        assert_eq!(cut(&[(40, 4), (44 + gap, 4)]), [(40, 8 + gap as usize, vec![0, 1])]);
        assert_eq!(cut(&[(40, 4), (45 + gap, 4)]).len(), 2);
    }

    #[test]
    fn no_span_is_longer_than_its_bound_and_none_is_empty() {
        let many: Vec<(u64, u32)> = (0..1000).map(|at| (32 + at * 4, 4)).collect();
        let spans = cut(&many);
        assert_eq!(spans.len(), (1000 * 4 * BLOCK).div_ceil(SPAN_BYTES_MAX));
        assert!(spans.iter().all(|span| span.1 * BLOCK <= SPAN_BYTES_MAX && !span.2.is_empty()));
        assert_eq!(spans.iter().map(|span| span.2.len()).sum::<usize>(), 1000);
    }

    #[test]
    fn map_pages_in_one_place_share_a_span() {
        assert_eq!(cut(&[(40, 4), (40, 1), (42, 4)]), [(40, 6, vec![0, 1, 2])]);
    }
}
