//! Space: what was freed comes back.

use super::*;

#[test]
fn the_file_shrinks_once_nothing_reaches_its_end() {
    let disk = Arc::new(SimDisk::new(70));
    let store = new_store(&disk);
    let value = vec![3; 1 << 20];
    let pages: Vec<PageId> = (0..12).map(|_| store.write_value(&value).expect("room")).collect();
    store.adopt(&pages);
    checkpoint(&store).expect("room");
    let full = store.usage().file_bytes;
    assert!(full >= 12 << 20);
    for &page in &pages {
        store.free_page(page);
    }
    checkpoint(&store).expect("room");
    let usage = store.usage();
    assert!(usage.file_bytes < 3 << 20, "{usage:?}");
    assert_eq!(disk.len_bytes().expect("a length"), usage.file_bytes);
    assert_eq!(usage.pages, 0);
    assert_audit(&store);
    assert_audit(&reopen(&disk));
}

#[test]
fn rewriting_the_same_pages_takes_room_for_two_states_at_most() {
    let disk = Arc::new(SimDisk::new(71));
    let store = new_store(&disk);
    let pages: Vec<PageId> = (0..200).map(|_| store.allocate_page().expect("ids")).collect();
    let mut largest = 0;
    for round in 0..30 {
        for (index, &page) in pages.iter().enumerate() {
            put(&store, page, round * 4 + 3, store.epoch()).expect("room");
            if index % 3 == 0 {
                put(&store, page, round * 4 + 7, store.epoch()).expect("room");
            }
        }
        checkpoint(&store).expect("room");
        largest = largest.max(store.usage().file_bytes);
    }
    let state_bytes = (pages.len() * 4 * BLOCK_BYTES) as u64;
    assert!(largest <= 2 * state_bytes + (3 << 20), "{largest} bytes");
    assert_audit(&store);
}

#[test]
fn superseded_images_of_one_epoch_are_free_at_once() {
    let disk = Arc::new(SimDisk::new(72));
    let store = new_store(&disk);
    let page = store.allocate_page().expect("ids");
    put(&store, page, 4, store.epoch()).expect("room");
    let used = store.usage().used_blocks;
    for stamp in 2..50 {
        put(&store, page, stamp * 4, store.epoch()).expect("room");
        assert_eq!(store.usage().used_blocks, used);
    }
}

#[test]
fn room_that_was_made_takes_that_many_blocks_without_growth() {
    use crate::io::sim::OpKind;
    let disk = Arc::new(SimDisk::new(74));
    let store = new_store(&disk);
    for blocks in [0, 1, 300, 299, 10_000] {
        store.ensure_room(blocks, 1).expect("room");
        assert!(store.usage().free_blocks >= blocks);
    }
    assert_eq!(disk.len_bytes().expect("a length"), store.usage().file_bytes);
    let lengthened = disk.op_count(OpKind::Allocate);
    store.ensure_room(10_000, 1).expect("there already");
    for _ in 0..10_000 {
        store.give_out(&[1]).expect("room");
    }
    assert_eq!(disk.op_count(OpKind::Allocate), lengthened);
    assert_audit(&store);
    drop(store);
    let store = Store::open(disk.clone(), Path::new("data"), true).expect("whole");
    assert!(matches!(store.ensure_room(0, 1), Err(Error::Denied(_))));
}

/// What is refused here is never refused by a write: the old way, a longer file, took no room.
#[test]
fn what_room_was_made_for_is_written_though_the_disk_is_full_by_then() {
    let disk = Arc::new(SimDisk::new(76));
    let store = new_store(&disk);
    let pages: Vec<PageId> = (0..300).map(|_| store.allocate_page().expect("ids")).collect();
    store.ensure_room(pages.len() as u64, 4).expect("room");
    disk.set_capacity(Some(0));
    for (stamp, &page) in (0..).zip(&pages) {
        put(&store, page, stamp, store.epoch()).expect("its room");
    }
    assert_audit(&store);
}

#[test]
fn room_that_cannot_be_made_is_a_full_disk_and_can_be_asked_for_again() {
    let disk = Arc::new(SimDisk::new(75));
    let store = new_store(&disk);
    disk.set_capacity(Some(4 << 20));
    let len_bytes = disk.len_bytes().expect("a length");
    assert!(matches!(store.ensure_room(2000, 1), Err(Error::Full { .. })));
    assert!(matches!(store.ensure_room(500, 4), Err(Error::Full { .. })));
    assert!(matches!(store.ensure_room(u64::MAX, 4), Err(Error::Full { .. })));
    assert_eq!(disk.len_bytes().expect("a length"), len_bytes, "a part of the room is given back");
    store.health().expect("a full disk poisons nothing");
    store.ensure_room(900, 1).expect("less than the capacity");
    assert!(matches!(store.ensure_room(2000, 1), Err(Error::Full { .. })));
    assert_audit(&store);
    disk.set_capacity(None);
    store.ensure_room(2000, 1).expect("room again");
    assert!(store.usage().free_blocks >= 2000);
    assert_audit(&store);
}

#[test]
fn readers_beside_rewriting_writers_never_see_another_page() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let disk = Arc::new(SimDisk::new(73));
    let store = new_store(&disk);
    let pages: Vec<PageId> = (0..8).map(|_| store.allocate_page().expect("ids")).collect();
    for &page in &pages {
        put(&store, page, 4, store.epoch()).expect("room");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buf = AlignedBuf::new(PAGE_BYTES as usize);
                // Relaxed: a flag that orders nothing.
                while !done.load(Ordering::Relaxed) {
                    for &page in &pages {
                        // Rewritten in a tight loop it may move too often; what is given is right.
                        if let Ok(bytes) = store.read_page(page, &mut buf) {
                            let stamps = (4..=204).step_by(4);
                            assert_eq!(bytes, BLOCK_BYTES);
                            assert!(
                                stamps.into_iter().any(|stamp| buf[..8] == image(page, stamp)[..8]),
                                "page {page}"
                            );
                        }
                    }
                }
            });
        }
        for stamp in (8..=204).step_by(4) {
            for &page in &pages {
                put(&store, page, stamp, store.epoch()).expect("room");
            }
            if stamp % 40 == 0 {
                checkpoint(&store).expect("room");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_audit(&store);
}
