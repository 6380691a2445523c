//! The store as a whole.
//!
//! ```text
//!   model      a pool in miniature: pages with stamps, dirty epochs, images put aside; what each checkpoint holds
//!   rules      the install rules, one situation each
//!   condemned  pages that only older snapshots read
//!   crash      the model's traffic with the power cut at every sync and at every write
//!   faults     the model's traffic with a full disk or a failed call at every index
//!   damage     every sector of a small store flipped, zeroed, cut off
//!   log_file   the other file of the directory
//!   space      files shrink, churn is bounded, room is made
//!   far        pages and values on both sides of 2 GiB and 4 GiB, in sparse files, over every backend
//! ```

mod condemned;
mod crash;
mod damage;
pub(crate) mod far;
mod faults;
mod log_file;
mod model;
mod rules;
mod space;

use super::superblock::SLOT_BLOCKS;
use super::*;
use crate::id::{BlockId, PageId};
use crate::io::{AlignedBuf, SimDisk};

const PAGE_BYTES: u32 = 16384;

fn new_store(disk: &Arc<SimDisk>) -> Store {
    Store::create(disk.clone(), Path::new("data"), PAGE_BYTES).expect("an empty disk")
}

fn reopen(disk: &Arc<SimDisk>) -> Store {
    Store::open(disk.clone(), Path::new("data"), false).expect("whole")
}

/// The image of a page with that stamp: 1 to 4 blocks that tell page and stamp in every word.
fn image(page: PageId, stamp: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::new((1 + (stamp % 4) as usize) * BLOCK_BYTES);
    let word = stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ page.0;
    for (index, out) in buf.chunks_exact_mut(8).enumerate() {
        out.copy_from_slice(&(word + index as u64).to_le_bytes());
    }
    buf
}

/// Writes and installs the image of a page.
fn put(store: &Store, page: PageId, stamp: u64, epoch: Epoch) -> Result<Placement> {
    let bytes = image(page, stamp);
    let images = [Image { page, bytes: &bytes }];
    let placement = store.write_images(&images)?[0];
    store.install(page, placement, epoch);
    Ok(placement)
}

/// Writes a large value that is part of the next checkpoint.
fn put_value(store: &Store, bytes: &[u8]) -> PageId {
    let page = store.write_value(bytes).expect("room");
    store.adopt(&[page]);
    page
}

/// Whether the page reads as that value.
fn holds_value(store: &Store, page: PageId, bytes: &[u8]) -> bool {
    let mut out = Vec::new();
    store.read_value(page, bytes.len(), &mut out).is_ok() && out == bytes
}

/// Whether the page reads as the image of that stamp.
fn holds(store: &Store, page: PageId, stamp: u64) -> bool {
    let mut buf = AlignedBuf::new(PAGE_BYTES as usize);
    match store.read_page(page, &mut buf) {
        Ok(bytes) => buf[..bytes] == image(page, stamp)[..],
        Err(_) => false,
    }
}

fn checkpoint(store: &Store) -> Result<()> {
    store.freeze(Vec::new(), TreeId(1), store.checkpoint_lsn())?;
    store.publish(|| Ok(0))
}

fn assert_audit(store: &Store) {
    let found = store.audit();
    assert!(found.is_empty(), "{found:?}");
}
