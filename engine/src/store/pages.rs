//! Reading and writing page images: bytes between buffers and blocks, with checksums on both ways.
//!
//! ```text
//!   write_images: checksum -> runs -> one batch -> placements       install: into the map (see `state`)
//!   read_page:    map -> bounds -> read -> checksum                 discard: back to free
//!   read_pages:   the same of many, read as one batch
//! ```
//!
//! An image that was written and not installed is named by nothing; a crash forgets it.
//!
//! A reader looks a placement up and then reads without a lock on it, so the run may be superseded, freed and
//! written again meanwhile. The checksum, seeded by the page, shows that; then the map says something else,
//! and the reader tries again. The file is not cut while blocks are read.
//!
//! Tested here and in `store::tests`.

use super::blocks::Run;
use super::place::{Placement, RUN_BLOCKS_MAX, page_checksum};
use super::{NO_PANIC, Store};
use crate::error::{Error, Result};
use crate::id::{BLOCK_BYTES, BlockId, Epoch, PageId};
use crate::io::{AlignedBuf, Read, Write};
use xxhash_rust::xxh3::Xxh3;

/// How often a read starts again because its page moved meanwhile.
const MOVES_MAX: usize = 16;
/// Bytes of one transfer of a run of unknown length.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// One page image to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image<'a> {
    /// The page.
    pub(crate) page: PageId,
    /// Its bytes: a multiple of [`BLOCK_BYTES`], not empty, at an address that is one too.
    pub(crate) bytes: &'a [u8],
}

/// One tree page to be read.
#[derive(Debug)]
pub(crate) struct PageRead<'a> {
    /// The page.
    pub(crate) page: PageId,
    /// Where its image goes: room for [`Store::page_bytes`].
    pub(crate) buf: &'a mut AlignedBuf,
}

impl Store {
    /// Reads a tree page into `buf`, which has room for [`Store::page_bytes`], and verifies its checksum.
    /// Gives the bytes of the image, a multiple of [`BLOCK_BYTES`]; those beyond are left as they were.
    ///
    /// A page that is freed meanwhile may be reported as damaged or be found with the content of another page
    /// of the same id: the caller validates the way it came before it believes either.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page has no place, is greater than a tree page, or its checksum is wrong;
    /// [`Error::Io`].
    pub(crate) fn read_page(&self, page: PageId, buf: &mut AlignedBuf) -> Result<usize> {
        let mut moves = 0;
        loop {
            let placement = self.place_in(page, buf)?;
            let image = &mut buf[..placement.bytes()];
            let read = self.read_run(page, placement, 0, image);
            let failure = match read.and_then(|()| self.check_image(page, placement, image)) {
                Ok(()) => return Ok(placement.bytes()),
                Err(error) => error,
            };
            if moves == MOVES_MAX || self.placement(page) == Some(placement) {
                return Err(failure);
            }
            moves += 1;
        }
    }

    /// Reads tree pages as one batch and verifies each. Gives for each, in the order of `reads`, what
    /// [`Store::read_page`] gives for one: a page that fails leaves the others as they are.
    pub(crate) fn read_pages(&self, reads: &mut [PageRead<'_>]) -> Vec<Result<usize>> {
        // Placements are looked up under this lock, so the file is not cut before they are read.
        let uncut = self.cut.read().expect(NO_PANIC);
        let placements: Vec<Result<Placement>> =
            reads.iter().map(|read| self.place_in(read.page, read.buf)).collect();
        let mut batch: Vec<Read<'_>> = reads
            .iter_mut()
            .zip(&placements)
            .filter_map(|(read, placement)| {
                let placement = placement.as_ref().ok()?;
                let buf = &mut read.buf[..placement.bytes()];
                Some(Read { offset: placement.block.offset(), buf })
            })
            .collect();
        let mut outcomes = self.disk.read_many(&mut batch).into_iter();
        drop(uncut);
        let pages = reads.iter_mut().zip(placements).map(|(PageRead { page, buf }, placement)| {
            let (page, placement) = (*page, placement?);
            let read = match outcomes.next() {
                Some(outcome) => outcome.map_err(|error| self.disk_error("read a page", error)),
                // A disk that says nothing of a read has not read.
                None => return self.read_page(page, buf),
            };
            let image = &buf[..placement.bytes()];
            match read.and_then(|()| self.check_image(page, placement, image)) {
                Ok(()) => Ok(placement.bytes()),
                Err(error) if self.placement(page) == Some(placement) => Err(error),
                // It moved meanwhile.
                Err(_) => self.read_page(page, buf),
            }
        });
        pages.collect()
    }

    /// Where the tree page lies, if its image has room in `buf`.
    fn place_in(&self, page: PageId, buf: &AlignedBuf) -> Result<Placement> {
        let placement = self.must_be_mapped(page)?;
        let room = buf.len().min(self.page_bytes as usize);
        let bytes = placement.bytes();
        if bytes > room {
            return Err(self.corrupt(
                page,
                "page greater than the page size",
                format!("at most {room} bytes"),
                format!("{bytes} bytes"),
            ));
        }
        Ok(placement)
    }

    /// Whether the image is what was written there.
    fn check_image(&self, page: PageId, placement: Placement, image: &[u8]) -> Result<()> {
        match page_checksum(page, image) {
            checksum if checksum == placement.checksum => Ok(()),
            checksum => Err(self.wrong_checksum(page, placement, checksum)),
        }
    }

    /// Writes images to runs of their own, as one batch, and gives where they lie. They are in no map: each
    /// is to be [installed](Store::install) or [discarded](Store::discard).
    ///
    /// # Errors
    /// [`Error::Full`]: nothing is written. [`Error::Denied`]; [`Error::Poisoned`], now or from an earlier
    /// failure.
    pub(crate) fn write_images(&self, images: &[Image<'_>]) -> Result<Vec<Placement>> {
        self.writable("write a page")?;
        if images.is_empty() {
            return Ok(Vec::new());
        }
        let lens: Vec<u64> = images
            .iter()
            .map(|image| {
                let bytes = image.bytes.len();
                debug_assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "whole blocks");
                debug_assert!(bytes / BLOCK_BYTES <= RUN_BLOCKS_MAX as usize, "one run");
                (bytes / BLOCK_BYTES) as u64
            })
            .collect();
        let checksums: Vec<u64> =
            images.iter().map(|image| page_checksum(image.page, image.bytes)).collect();
        let runs = self.give_out(&lens)?;
        let writes: Vec<Write<'_>> = images
            .iter()
            .zip(&runs)
            .map(|(image, run)| Write { offset: BlockId(run.start).offset(), bytes: image.bytes })
            .collect();
        self.write_runs(&writes, &runs, "write pages")?;
        let placements = runs.iter().zip(checksums).map(|(run, checksum)| Placement {
            block: BlockId(run.start),
            blocks: run.len as u32,
            checksum,
        });
        Ok(placements.collect())
    }

    /// Puts an image into the map: the current one, the frozen one or both, by the epoch in which its page
    /// was first changed (rules \[I1] to \[I3] of `state`). If the page was freed meanwhile and no checkpoint
    /// wants the image, its run is given back.
    ///
    /// The caller sees to it that images of one page are installed in the order of their contents, and that
    /// those of the frozen epoch are installed before [`Store::publish`].
    pub(crate) fn install(&self, page: PageId, placement: Placement, image_epoch: Epoch) {
        debug_assert!(placement.is_mapped(), "an image that was written");
        self.state_mut().install(page, placement, image_epoch);
    }

    /// Gives back an image that was written, never installed, and is not wanted.
    pub(crate) fn discard(&self, placement: Placement) {
        if placement.is_mapped() {
            self.state_mut()
                .blocks
                .release(Run { start: placement.block.0, len: u64::from(placement.blocks) });
        }
    }

    /// Reads all blocks of a page, of whatever kind, and compares the checksum.
    ///
    /// # Errors
    /// As [`Store::read_page`].
    pub(crate) fn verify_page(&self, page: PageId) -> Result<()> {
        let placement = self.must_be_mapped(page)?;
        let mut hash = Xxh3::with_seed(page.0);
        let mut buf = AlignedBuf::new(placement.bytes().min(CHUNK_BYTES));
        for at in (0..placement.bytes()).step_by(CHUNK_BYTES) {
            let bytes = (placement.bytes() - at).min(CHUNK_BYTES);
            self.read_run(page, placement, at, &mut buf[..bytes])?;
            hash.update(&buf[..bytes]);
        }
        match hash.digest() {
            digest if digest == placement.checksum => Ok(()),
            digest => Err(self.wrong_checksum(page, placement, digest)),
        }
    }

    /// Where the page lies.
    pub(super) fn must_be_mapped(&self, page: PageId) -> Result<Placement> {
        self.placement(page).ok_or_else(|| {
            self.corrupt(page, "page is not in the map", "a place".into(), "none".into())
        })
    }

    /// Reads from byte `at` of a run on, as long as the page still lies there: the file is not cut meanwhile.
    pub(super) fn read_run(
        &self,
        page: PageId,
        placement: Placement,
        at: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let _uncut = self.cut.read().expect(NO_PANIC);
        if self.placement(page) != Some(placement) {
            return Err(self.corrupt(
                page,
                "page was moved or freed while it was read",
                String::new(),
                String::new(),
            ));
        }
        self.disk
            .read(placement.block.offset() + at as u64, out)
            .map_err(|error| self.disk_error("read a page", error))
    }

    pub(super) fn wrong_checksum(&self, page: PageId, placement: Placement, got: u64) -> Error {
        Error::from(crate::error::Corruption {
            file: self.path.clone(),
            offset: Some(placement.block.offset()),
            page: Some(page),
            tree: None,
            what: "checksum",
            expected: format!("{:016x}", placement.checksum),
            got: format!("{got:016x}"),
        })
    }

    /// Writes a batch to runs that were given out for it. A full disk gives them back; any other failure
    /// poisons.
    pub(super) fn write_runs(
        &self,
        writes: &[Write<'_>],
        runs: &[Run],
        op: &'static str,
    ) -> Result<()> {
        match self.disk.write(writes).map_err(|error| self.disk_error(op, error)) {
            Ok(()) => Ok(()),
            Err(full @ Error::Full { .. }) => {
                let mut state = self.state_mut();
                for &run in runs {
                    state.blocks.release(run);
                }
                Err(full)
            }
            Err(error) => Err(self.poison(error)),
        }
    }
}
