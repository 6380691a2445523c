//! Damaged bytes: an error with its place or the right answer; never a wrong answer, never a panic.

use super::*;
use crate::io::Write;

const SECTOR: usize = 512;

/// Pages with their stamps.
type Stamped = Vec<(PageId, u64)>;

/// A small store with a few map entries, a value (with its length) and two checkpoints.
fn small() -> (Arc<SimDisk>, Stamped, (PageId, usize)) {
    let disk = Arc::new(SimDisk::new(60));
    let store = new_store(&disk);
    let mut pages = Vec::new();
    for stamp in 0..6 {
        let page = store.allocate_page().expect("room");
        put(&store, page, stamp, store.epoch()).expect("room");
        pages.push((page, stamp));
    }
    checkpoint(&store).expect("room");
    let value = store.write_value(&[9; 5000]).expect("room");
    store.adopt(&[value]);
    put(&store, pages[2].0, 77, store.epoch()).expect("room");
    pages[2].1 = 77;
    store.freeze(vec![(TreeId(0), 6)], TreeId(4), 0).expect("writable");
    store.publish(|| Ok(0)).expect("room");
    (disk, pages, (value, 5000))
}

/// Opens and reads all; gives how many reads failed, or `None` if it did not open.
fn survey(
    disk: &Arc<SimDisk>,
    pages: &[(PageId, u64)],
    (value, len): (PageId, usize),
) -> Option<usize> {
    let store = Store::open(disk.clone(), Path::new("data"), false).ok()?;
    let mut buf = AlignedBuf::new(PAGE_BYTES as usize);
    let mut failed = 0;
    for &(page, stamp) in pages {
        match store.read_page(page, &mut buf) {
            Ok(bytes) => assert!(buf[..bytes] == image(page, stamp)[..], "page {page}"),
            Err(Error::Corrupt(corruption)) => {
                assert!(corruption.offset.is_some() && corruption.page == Some(page));
                failed += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let mut out = Vec::new();
    match store.read_value(value, len, &mut out) {
        Ok(()) => assert_eq!(out, vec![9; len]),
        Err(_) => failed += 1,
    }
    Some(failed)
}

/// The block after the last one that the newest checkpoint reaches.
fn reach(disk: &Arc<SimDisk>) -> u64 {
    reopen(disk).durable().superblock.file_blocks
}

fn block(disk: &SimDisk, number: u64) -> AlignedBuf {
    let mut buf = AlignedBuf::new(BLOCK_BYTES);
    disk.read(BlockId(number).offset(), &mut buf).expect("in the file");
    buf
}

fn set_block(disk: &SimDisk, number: u64, bytes: &AlignedBuf) {
    let write = Write { offset: BlockId(number).offset(), bytes };
    disk.write(&[write]).expect("in the file");
}

#[test]
fn a_damaged_sector_is_an_error_and_never_a_wrong_answer() {
    let (disk, pages, value) = small();
    let mut seen = [0; 3];
    for number in 0..reach(&disk) {
        let whole = block(&disk, number);
        for sector in 0..BLOCK_BYTES / SECTOR {
            for zero in [false, true] {
                let mut bad = whole.clone();
                let at = sector * SECTOR;
                match zero {
                    true => bad[at..at + SECTOR].fill(0),
                    false => bad[at + (number as usize * 31) % SECTOR] ^= 0x40,
                }
                set_block(&disk, number, &bad);
                seen[match survey(&disk, &pages, value) {
                    Some(0) => 0,
                    Some(_) => 1,
                    None => 2,
                }] += 1;
            }
        }
        set_block(&disk, number, &whole);
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    assert_eq!(survey(&disk, &pages, value), Some(0));
}

#[test]
fn either_superblock_may_be_lost() {
    let (disk, pages, value) = small();
    let sequence = reopen(&disk).usage().sequence;
    for slot in SLOT_BLOCKS {
        let whole = block(&disk, slot.0);
        set_block(&disk, slot.0, &AlignedBuf::new(BLOCK_BYTES));
        assert_eq!(survey(&disk, &pages, value), Some(0));
        let store = reopen(&disk);
        assert_eq!(store.usage().sequence, sequence, "the newest, from the copy");
        set_block(&disk, slot.0, &whole);
    }
}

#[test]
fn a_lost_superblock_is_mended_by_the_next_checkpoint() {
    for slot in SLOT_BLOCKS {
        let (disk, pages, value) = small();
        set_block(&disk, slot.0, &AlignedBuf::new(BLOCK_BYTES));
        let store = reopen(&disk);
        checkpoint(&store).expect("room");
        drop(store);
        for lost in SLOT_BLOCKS {
            let whole = block(&disk, lost.0);
            set_block(&disk, lost.0, &AlignedBuf::new(BLOCK_BYTES));
            assert_eq!(survey(&disk, &pages, value), Some(0));
            set_block(&disk, lost.0, &whole);
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let (disk, pages, value) = small();
    let reach = reach(&disk) * BLOCK_BYTES as u64;
    let mut len = disk.len_bytes().expect("a length") / SECTOR as u64 * SECTOR as u64;
    while len > 0 {
        len -= SECTOR as u64;
        disk.set_len(len).expect("shorter");
        let expected = (len >= reach).then_some(0);
        assert_eq!(survey(&disk, &pages, value), expected, "{len} bytes");
        if len > reach + (1 << 16) {
            len -= 60 * SECTOR as u64; // free blocks: a few will do
        }
    }
}

#[test]
fn two_entries_of_one_block_are_damage_at_open() {
    let disk = Arc::new(SimDisk::new(61));
    let store = new_store(&disk);
    let [a, b] = [(); 2].map(|()| store.allocate_page().expect("ids"));
    let placement = put(&store, a, 4, store.epoch()).expect("room");
    store.state_mut().install(b, placement, store.epoch());
    assert!(!store.audit().is_empty());
    checkpoint(&store).expect("room");
    match Store::open(disk, Path::new("data"), false) {
        Err(Error::Corrupt(corruption)) => {
            assert_eq!(corruption.what, "blocks used twice");
            assert_eq!(corruption.offset, Some(placement.block.offset()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_of_others_are_told_from_damaged_ones() {
    use crate::error::OpenError;
    let open = |disk| Store::open(Arc::new(disk), Path::new("data"), false);
    assert!(matches!(open(SimDisk::new(0)), Err(Error::Open(OpenError::NotADatabase { .. }))));
    let foreign = SimDisk::new(0);
    let mut text = AlignedBuf::new(40 * BLOCK_BYTES);
    text.fill(b'x');
    let write = Write { offset: 0, bytes: &text };
    foreign.write(&[write]).expect("room");
    assert!(matches!(open(foreign), Err(Error::Open(OpenError::NotADatabase { .. }))));
    for page_bytes in [0, 2048, 12288, 131072] {
        assert!(matches!(
            Store::create(Arc::new(SimDisk::new(0)), Path::new("data"), page_bytes),
            Err(Error::Usage(_))
        ));
    }
}
