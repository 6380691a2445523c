//! Large values: a page of its own for each, of as many blocks as it needs, in one run.
//!
//! ```text
//!   block 0            1                  ...  n-1
//!   [ value bytes ....................................|0]     one map entry; checksum over all n blocks
//! ```
//!
//! The length in bytes is kept by whoever names the value (its leaf), not here. A value is written once, as a
//! provisional page, and never changed; replacing it frees the page and writes another. Transfers are of 1
//! MiB through an aligned buffer, so the memory used does not grow with the value.
//!
//! Tested here: lengths around blocks and chunks, damage, lengths that do not fit.

use super::Store;
use super::pages::CHUNK_BYTES;
use super::place::Placement;
use crate::error::{Error, Result, Usage};
use crate::id::{BLOCK_BYTES, BlockId, PageId};
use crate::io::{AlignedBuf, Write};
use xxhash_rust::xxh3::Xxh3;

/// Greatest length of a large value in bytes: 1 GiB.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;

/// Blocks of a value of that many bytes; an empty one has a block too.
fn blocks_of(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_BYTES).max(1)
}

impl Store {
    /// Writes a value of up to [`VALUE_BYTES_MAX`] as a new provisional page, to be [adopted](Store::adopt)
    /// or [freed](Store::free_page).
    ///
    /// # Errors
    /// [`Error::Usage`] for a length over the limit; [`Error::Full`]: nothing is kept; [`Error::Denied`],
    /// [`Error::Poisoned`].
    pub(crate) fn write_value(&self, value: &[u8]) -> Result<PageId> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::Usage(Usage::ValueTooLarge {
                actual: value.len(),
                maximum: VALUE_BYTES_MAX,
            }));
        }
        let page = self.allocate_page_provisional()?;
        match self.write_value_at(page, value) {
            Ok(placement) => {
                let epoch = self.epoch();
                self.install(page, placement, epoch);
                Ok(page)
            }
            Err(error) => {
                self.unallocate_page(page);
                Err(error)
            }
        }
    }

    fn write_value_at(&self, page: PageId, value: &[u8]) -> Result<Placement> {
        let blocks = blocks_of(value.len());
        let runs = self.give_out(&[blocks as u64])?;
        let start = BlockId(runs[0].start);
        let mut hash = Xxh3::with_seed(page.0);
        let mut buf = AlignedBuf::new((blocks * BLOCK_BYTES).min(CHUNK_BYTES));
        for at in (0..blocks * BLOCK_BYTES).step_by(CHUNK_BYTES) {
            let part = &value[at.min(value.len())..(at + CHUNK_BYTES).min(value.len())];
            let padded = blocks_of(part.len()) * BLOCK_BYTES;
            buf[..part.len()].copy_from_slice(part);
            buf[part.len()..padded].fill(0);
            hash.update(&buf[..padded]);
            let write = Write { offset: start.offset() + at as u64, bytes: &buf[..padded] };
            self.write_runs(&[write], &runs, "write a value")?;
        }
        Ok(Placement { block: start, blocks: blocks as u32, checksum: hash.digest() })
    }

    /// Reads a large value of `bytes` bytes into `out`, which is cleared first and holds nothing after an
    /// error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page has no place, does not have the blocks of a value of that length
    /// (nothing is allocated for it then), or its checksum is wrong; [`Error::Io`].
    pub(crate) fn read_value(&self, page: PageId, bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let placement = self.must_be_mapped(page)?;
        if bytes > VALUE_BYTES_MAX || blocks_of(bytes) != placement.blocks as usize {
            return Err(self.corrupt(
                page,
                "length of a large value",
                format!("{bytes} bytes"),
                format!("{} blocks", placement.blocks),
            ));
        }
        out.reserve_exact(bytes);
        let read = self.read_value_from(page, placement, bytes, out);
        if read.is_err() {
            out.clear();
        }
        read
    }

    fn read_value_from(
        &self,
        page: PageId,
        placement: Placement,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut hash = Xxh3::with_seed(page.0);
        let mut buf = AlignedBuf::new(placement.bytes().min(CHUNK_BYTES));
        for at in (0..placement.bytes()).step_by(CHUNK_BYTES) {
            let chunk = &mut buf[..(placement.bytes() - at).min(CHUNK_BYTES)];
            self.read_run(page, placement, at, chunk)?;
            hash.update(chunk);
            out.extend_from_slice(&chunk[..chunk.len().min(bytes - at.min(bytes))]);
        }
        match hash.digest() {
            digest if digest == placement.checksum => Ok(()),
            digest => Err(self.wrong_checksum(page, placement, digest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Disk, SimDisk};
    use std::path::Path;
    use std::sync::Arc;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[test]
    fn values_around_block_and_chunk_boundaries_read_back() {
        let store = Store::create(Arc::new(SimDisk::new(1)), Path::new("data"), 4096)
            .expect("an empty disk");
        let mut out = Vec::new();
        for len in [
            0,
            1,
            4095,
            4096,
            4097,
            CHUNK_BYTES - 1,
            CHUNK_BYTES,
            CHUNK_BYTES + 1,
            3 * CHUNK_BYTES - 4096,
        ] {
            let value = bytes(len);
            let page = store.write_value(&value).expect("room");
            store.read_value(page, len, &mut out).expect("whole");
            assert!(out == value, "{len} bytes");
            store.verify_page(page).expect("whole");
            for wrong in [len + 4097, usize::MAX] {
                assert!(store.read_value(page, wrong, &mut out).is_err());
                assert!(out.is_empty());
            }
        }
        assert!(store.audit().is_empty());
    }

    #[test]
    fn a_damaged_value_is_an_error_that_names_its_page() {
        let disk = Arc::new(SimDisk::new(1));
        let store = Store::create(disk.clone(), Path::new("data"), 4096).expect("an empty disk");
        let page = store.write_value(&bytes(10_000)).expect("room");
        let placement = store.placement(page).expect("written");
        let mut block = AlignedBuf::new(BLOCK_BYTES);
        let offset = placement.block.offset() + 2 * BLOCK_BYTES as u64;
        disk.read(offset, &mut block).expect("in the file");
        block[4000] ^= 1; // beyond the value: the padding counts too
        disk.write(&[Write { offset, bytes: &block }]).expect("in the file");
        let mut out = vec![1];
        match store.read_value(page, 10_000, &mut out) {
            Err(Error::Corrupt(corruption)) => {
                assert_eq!(corruption.page, Some(page));
                assert_eq!(corruption.offset, Some(placement.block.offset()));
            }
            other => panic!("{other:?}"),
        }
        assert!(out.is_empty());
    }
}
