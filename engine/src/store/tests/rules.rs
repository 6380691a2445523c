//! The install rules, one situation each. Stamps that are multiples of 4 make images of one block.

use super::*;
use crate::io::sim::CrashMode;

fn fixture() -> (Arc<SimDisk>, Store) {
    let disk = Arc::new(SimDisk::new(1));
    let store = new_store(&disk);
    (disk, store)
}

#[test]
fn the_first_page_of_a_store_is_the_catalog() {
    let (disk, store) = fixture();
    assert_eq!(store.allocate_page().expect("ids"), PageId::CATALOG);
    drop(store);
    assert_eq!(
        reopen(&disk).allocate_page().expect("ids"),
        PageId::CATALOG,
        "also after a crash before the first checkpoint"
    );
}

#[test]
fn a_checkpoint_holds_the_epoch_of_its_freeze_and_no_later_one() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    let old = store.epoch();
    put(&store, page, 4, old).expect("room");
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    assert_eq!((store.frozen_epoch(), store.epoch()), (old, Epoch(old.0 + 1)));
    put(&store, page, 8, store.epoch()).expect("room");
    store.publish(|| Ok(0)).expect("room");
    assert_eq!(store.frozen_epoch(), Epoch(0));
    assert!(holds(&store, page, 8));
    assert!(holds(&reopen(&disk), page, 4));
    checkpoint(&store).expect("room");
    assert!(holds(&reopen(&disk), page, 8));
}

#[test]
fn an_image_put_aside_goes_to_the_frozen_map_alone() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    let old = store.epoch();
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    put(&store, page, 8, store.epoch()).expect("room");
    put(&store, page, 4, old).expect("room");
    assert!(holds(&store, page, 8), "the current map keeps the newer image");
    store.publish(|| Ok(0)).expect("room");
    assert!(holds(&reopen(&disk), page, 4));
    assert!(holds(&store, page, 8));
    assert_audit(&store);
    checkpoint(&store).expect("room");
    assert_eq!(store.usage().pending_blocks, 0);
    assert_audit(&store);
}

#[test]
fn a_page_freed_during_a_checkpoint_is_in_that_checkpoint_and_not_in_the_next() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    let old = store.epoch();
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    store.free_page(page);
    put(&store, page, 4, old).expect("room");
    assert!(!store.knows(page) && store.placement(page).is_none());
    store.publish(|| Ok(0)).expect("room");
    assert!(holds(&reopen(&disk), page, 4));
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(page));
    assert_audit(&store);
}

#[test]
fn an_image_of_a_page_freed_before_the_freeze_is_given_back() {
    let (_, store) = fixture();
    let page = store.allocate_page().expect("ids");
    store.free_page(page);
    let free = store.usage().free_blocks;
    put(&store, page, 4, store.epoch()).expect("room");
    let grown = store.usage();
    assert_eq!(grown.pages, 0);
    assert!(grown.free_blocks >= free);
    assert_audit(&store);
}

#[test]
fn provisional_pages_are_left_out_until_adopted() {
    let (disk, store) = fixture();
    let page = store.allocate_page_provisional().expect("ids");
    let value = store.write_value(&[7; 9000]).expect("room");
    put(&store, page, 4, store.epoch()).expect("room");
    checkpoint(&store).expect("room");
    let crashed = reopen(&disk);
    assert_eq!(crashed.usage().pages, 0);
    assert_audit(&crashed);
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    store.adopt(&[page, value]);
    put(&store, page, 8, Epoch(store.epoch().0 - 1)).expect("room");
    store.publish(|| Ok(0)).expect("room");
    assert_eq!(reopen(&disk).usage().pages, 0, "adopted after the freeze");
    checkpoint(&store).expect("room");
    let crashed = reopen(&disk);
    assert!(holds(&crashed, page, 8));
    let mut out = Vec::new();
    crashed.read_value(value, 9000, &mut out).expect("whole");
    assert_eq!(out, [7; 9000]);
}

#[test]
fn adopting_alone_brings_a_page_into_the_next_checkpoint() {
    let (disk, store) = fixture();
    let page = store.allocate_page_provisional().expect("ids");
    put(&store, page, 4, store.epoch()).expect("room");
    checkpoint(&store).expect("room");
    store.adopt(&[page]);
    checkpoint(&store).expect("room");
    assert!(holds(&reopen(&disk), page, 4));
}

#[test]
fn an_image_put_aside_of_a_provisional_page_does_not_replace_a_newer_one() {
    let (_, store) = fixture();
    let page = store.allocate_page_provisional().expect("ids");
    let old = store.epoch();
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    put(&store, page, 8, store.epoch()).expect("room");
    store.adopt(&[page]);
    put(&store, page, 4, old).expect("room");
    assert!(holds(&store, page, 8));
    assert_audit(&store);
}

#[test]
fn freed_ids_come_back_after_the_publish_that_follows() {
    let (_, store) = fixture();
    let [a, b] = [(); 2].map(|()| store.allocate_page().expect("ids"));
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    store.free_page(a);
    assert_ne!(store.allocate_page().expect("ids"), a);
    store.publish(|| Ok(0)).expect("room");
    assert_ne!(store.allocate_page().expect("ids"), a, "freed after that freeze");
    checkpoint(&store).expect("room");
    assert_eq!(store.allocate_page().expect("ids"), a);
    store.unallocate_page(b);
    assert_eq!(store.allocate_page().expect("ids"), b, "never used: at once");
}

#[test]
fn an_aborted_checkpoint_is_made_up_for_by_the_next() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    put(&store, page, 4, store.epoch()).expect("room");
    checkpoint(&store).expect("room");
    put(&store, page, 8, store.epoch()).expect("room");
    let old = store.epoch();
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
    put(&store, page, 12, old).expect("room");
    store.abort();
    assert_eq!(store.frozen_epoch(), Epoch(0));
    assert!(holds(&reopen(&disk), page, 4), "its block was not given out");
    for stamp in [16, 20, 24] {
        let other = store.allocate_page().expect("ids");
        put(&store, other, stamp, store.epoch()).expect("room");
    }
    assert!(holds(&reopen(&disk), page, 4), "its block was not given out");
    checkpoint(&store).expect("room");
    assert!(holds(&reopen(&disk), page, 12));
    assert_eq!(store.usage().pending_blocks, 0);
    assert_audit(&store);
}

#[test]
fn a_page_read_under_another_id_or_from_elsewhere_is_damage() {
    let (disk, store) = fixture();
    let [a, b] = [(); 2].map(|()| store.allocate_page().expect("ids"));
    let place_a = put(&store, a, 4, store.epoch()).expect("room");
    let place_b = put(&store, b, 4, store.epoch()).expect("room");
    let mut block = AlignedBuf::new(BLOCK_BYTES);
    disk.read(place_a.block.offset(), &mut block).expect("there");
    let write = crate::io::Write { offset: place_b.block.offset(), bytes: &block };
    disk.write(&[write]).expect("room");
    let mut buf = AlignedBuf::new(PAGE_BYTES as usize);
    match store.read_page(b, &mut buf) {
        Err(Error::Corrupt(corruption)) => {
            assert_eq!(corruption.page, Some(b));
            assert_eq!(corruption.offset, Some(place_b.block.offset()));
            assert_eq!(corruption.what, "checksum");
        }
        other => panic!("{other:?}"),
    }
    assert!(store.verify_page(b).is_err() && store.verify_page(a).is_ok());
    assert!(matches!(store.read_page(PageId(999), &mut buf), Err(Error::Corrupt(_))));
}

#[test]
fn lengths_and_tree_ids_are_those_of_the_newest_checkpoint() {
    let (disk, store) = fixture();
    assert_eq!((store.lengths(), store.next_tree()), (vec![], TreeId(1)));
    let lengths = vec![(TreeId(7), 70), (TreeId(0), 3)];
    store.freeze(lengths, TreeId(8), 0).expect("writable");
    store.publish(|| Ok(0)).expect("room");
    let store = reopen(&disk);
    assert_eq!(store.lengths(), [(TreeId(0), 3), (TreeId(7), 70)]);
    assert_eq!(store.next_tree(), TreeId(8));
    assert_eq!(store.uuid(), reopen(&disk).uuid());
    assert_ne!(store.uuid(), fixture().1.uuid(), "drawn anew for each database");
}

#[test]
fn the_lsn_of_a_store_is_that_of_its_newest_durable_checkpoint() {
    let (disk, store) = fixture();
    assert_eq!(store.checkpoint_lsn(), 0);
    store.freeze(Vec::new(), TreeId(1), 4096).expect("writable");
    assert_eq!(store.checkpoint_lsn(), 0, "not durable yet");
    store.publish(|| Ok(0)).expect("room");
    assert_eq!((store.checkpoint_lsn(), reopen(&disk).checkpoint_lsn()), (4096, 4096));
    store.freeze(Vec::new(), TreeId(1), 5000).expect("writable");
    store.abort();
    assert_eq!((store.checkpoint_lsn(), reopen(&disk).checkpoint_lsn()), (4096, 4096));
}

#[test]
fn what_comes_before_the_superblock_finds_the_pages_synced_and_the_older_checkpoint() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    put(&store, page, 4, store.epoch()).expect("room");
    checkpoint(&store).expect("room");
    put(&store, page, 8, store.epoch()).expect("room");
    store.freeze(Vec::new(), TreeId(1), 8).expect("writable");
    let mut called = false;
    store
        .publish(|| {
            called = true;
            let now = disk.snapshot();
            assert_eq!(now.pending_count(), 0);
            let crashed = reopen(&Arc::new(now.crash(0, CrashMode::KeepAll)));
            assert!(holds(&crashed, page, 4) && crashed.checkpoint_lsn() == 0);
            Ok(5 << 20)
        })
        .expect("room");
    assert!(called);
    let crashed = reopen(&Arc::new(disk.crash(0, CrashMode::LoseAll)));
    assert!(holds(&crashed, page, 8) && crashed.checkpoint_lsn() == 8);
    assert_eq!((store.log_bytes(), crashed.log_bytes()), (5 << 20, 5 << 20));
}

#[test]
fn a_failure_before_the_superblock_gives_the_checkpoint_up_and_poisons_nothing() {
    let (disk, store) = fixture();
    let page = store.allocate_page().expect("ids");
    put(&store, page, 4, store.epoch()).expect("room");
    checkpoint(&store).expect("room");
    put(&store, page, 8, store.epoch()).expect("room");
    store.freeze(Vec::new(), TreeId(1), 8).expect("writable");
    assert!(matches!(store.publish(|| Err(Error::Closed)), Err(Error::Closed)));
    store.health().expect("not the store's failure");
    assert_eq!((store.frozen_epoch(), store.checkpoint_lsn()), (Epoch(0), 0));
    assert_audit(&store);
    assert!(holds(&store, page, 8));
    assert!(holds(&reopen(&disk), page, 4), "the older checkpoint stands");
    store.freeze(Vec::new(), TreeId(1), 16).expect("writable");
    store.publish(|| Ok(0)).expect("room");
    assert!(holds(&reopen(&disk), page, 8));
    assert_eq!(reopen(&disk).checkpoint_lsn(), 16);
    assert_audit(&store);
}

#[test]
fn nothing_is_called_before_the_superblock_without_a_checkpoint_in_progress() {
    let (_, store) = fixture();
    store.publish(|| panic!("no checkpoint was begun")).expect("nothing to do");
}
