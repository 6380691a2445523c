//! Pages that nothing of the present state names but that are still read: rule \[I9] of `state`, one situation
//! each. The model of `model` condemns at random.

use super::*;

const VALUE: [u8; 9000] = [7; 9000];

/// A value in the newest checkpoint.
fn fixture() -> (Arc<SimDisk>, Store, PageId) {
    let disk = Arc::new(SimDisk::new(1));
    let store = new_store(&disk);
    let value = put_value(&store, &VALUE);
    checkpoint(&store).expect("room");
    (disk, store, value)
}

fn freeze(store: &Store) {
    store.freeze(Vec::new(), TreeId(1), 0).expect("writable");
}

fn publish(store: &Store) {
    store.publish(|| Ok(0)).expect("room");
}

/// Uses all free blocks, so that whatever was given back too early is overwritten.
fn overwrite_free_blocks(store: &Store) {
    let free = store.usage().free_blocks;
    for _ in 0..free {
        let other = store.allocate_page().expect("ids");
        put(store, other, 4, store.epoch()).expect("room");
    }
}

#[test]
fn a_condemned_value_is_left_out_of_the_next_checkpoint_and_stays_readable() {
    let (disk, store, value) = fixture();
    store.condemn(value);
    assert!(store.is_provisional(value) && store.knows(value));
    assert!(holds_value(&reopen(&disk), value, &VALUE), "the durable checkpoint still has it");
    for _ in 0..3 {
        checkpoint(&store).expect("room");
        overwrite_free_blocks(&store);
        assert!(holds_value(&store, value, &VALUE));
        let crashed = reopen(&disk);
        assert!(!crashed.knows(value));
        assert_audit(&crashed);
        assert_audit(&store);
    }
}

#[test]
fn a_condemned_value_is_free_at_once_when_no_checkpoint_names_it() {
    let (_, store, value) = fixture();
    store.condemn(value);
    checkpoint(&store).expect("room");
    assert_eq!(store.usage().pending_blocks, 0);
    let free = store.usage().free_blocks;
    store.free_page(value);
    assert_eq!(store.usage().free_blocks, free + 3);
    assert_audit(&store);
    // One of this epoch, which no checkpoint had.
    let value = put_value(&store, &VALUE);
    store.condemn(value);
    store.free_page(value);
    assert_eq!(store.usage().free_blocks, free + 3);
}

#[test]
fn a_condemned_value_that_the_durable_checkpoint_names_is_not_overwritten_when_freed() {
    let (disk, store, value) = fixture();
    store.condemn(value);
    store.free_page(value);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    assert_eq!(store.usage().pending_blocks, 3);
    checkpoint(&store).expect("room");
    assert_eq!(store.usage().pending_blocks, 0);
    assert_audit(&store);
}

#[test]
fn a_condemned_value_freed_before_the_checkpoint_without_it_is_durable_is_not_overwritten() {
    let (disk, store, value) = fixture();
    store.condemn(value);
    freeze(&store);
    store.free_page(value);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    store.abort();
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(value));
    assert_eq!(store.usage().pending_blocks, 0);
    assert_audit(&store);
}

#[test]
fn a_checkpoint_that_was_given_up_leaves_nothing_out() {
    let (disk, store, value) = fixture();
    store.condemn(value);
    freeze(&store);
    store.abort();
    store.free_page(value);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE), "the durable checkpoint names it");
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(value));
    assert_audit(&store);
}

#[test]
fn a_value_condemned_during_a_checkpoint_is_in_that_one_and_not_in_the_next() {
    let (disk, store, _) = fixture();
    let value = put_value(&store, &VALUE);
    freeze(&store);
    store.condemn(value);
    publish(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(value));
    assert!(holds_value(&store, value, &VALUE));
    assert_audit(&store);
}

#[test]
fn a_value_condemned_during_a_checkpoint_and_freed_after_it_is_not_overwritten() {
    let (disk, store, value) = fixture();
    freeze(&store);
    store.condemn(value);
    publish(&store);
    store.free_page(value);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE), "that checkpoint names it");
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(value));
    assert_audit(&store);
}

#[test]
fn a_value_condemned_and_freed_during_a_checkpoint_is_in_that_one() {
    let (disk, store, value) = fixture();
    freeze(&store);
    store.condemn(value);
    store.free_page(value);
    overwrite_free_blocks(&store);
    publish(&store);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    checkpoint(&store).expect("room");
    assert!(!reopen(&disk).knows(value));
    assert_eq!(store.usage().pending_blocks, 0);
    assert_audit(&store);
}

#[test]
fn a_condemned_value_that_is_adopted_again_is_in_the_next_checkpoint() {
    let (disk, store, value) = fixture();
    store.condemn(value);
    checkpoint(&store).expect("room");
    store.adopt(&[value]);
    assert!(!store.is_provisional(value));
    checkpoint(&store).expect("room");
    assert!(holds_value(&reopen(&disk), value, &VALUE));
    store.free_page(value);
    overwrite_free_blocks(&store);
    assert!(holds_value(&reopen(&disk), value, &VALUE), "as any page of a checkpoint");
}

#[test]
fn a_value_adopted_after_a_freeze_and_condemned_before_its_publish_is_named_by_nothing() {
    let (disk, store, _) = fixture();
    let value = store.write_value(&VALUE).expect("room");
    freeze(&store);
    store.adopt(&[value]);
    store.condemn(value);
    publish(&store);
    assert!(!reopen(&disk).knows(value));
    let free = store.usage().free_blocks;
    store.free_page(value);
    assert_eq!(store.usage().free_blocks, free + 3);
    assert_audit(&store);
}

#[test]
fn condemning_what_is_no_adopted_page_does_nothing() {
    let (_, store, value) = fixture();
    store.free_page(value);
    let provisional = store.write_value(&VALUE).expect("room");
    let free = store.usage().free_blocks;
    for page in [value, PageId(0), PageId(9999), provisional] {
        store.condemn(page);
    }
    store.free_page(provisional);
    assert_eq!(store.usage().free_blocks, free + 3, "as provisional as before");
    assert!(!store.knows(value) && !store.is_provisional(value));
    assert_audit(&store);
}
