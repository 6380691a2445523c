//! What an iterator promises: entries that stay good, errors that stay, both ends that meet, a database that
//! stays open.

mod common;

use common::{assert_whole, open_on, place, tiny};
use latchkv::io::sim::{Fault, OpKind, SimMachine};
use latchkv::{Error, Options, Tree, Usage};
use std::ops::Bound;

fn filled(options: &Options, records: u32) -> (SimMachine, latchkv::Db, Tree) {
    let machine = SimMachine::new(3);
    let db = open_on(&machine, options).expect("empty disks");
    let tree = db.tree("t").expect("made");
    tree.bulk_load((0..records).map(|i| (i.to_be_bytes(), [i as u8; 100]))).expect("ascending");
    db.checkpoint().expect("room");
    (machine, db, tree)
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().expect("keys have four bytes"))
}

#[test]
fn an_iterator_that_met_an_error_gives_it_for_ever_at_both_ends() {
    let (machine, _db, tree) = filled(&tiny(4096), 2000);
    let mut range = tree.iter();
    for expected in 0..10 {
        let entry = range.next().expect("not the end").expect("readable");
        assert_eq!(number(entry.key()), expected);
    }
    machine.fail_from(0, Fault::Eio, OpKind::Read);
    let failed = range.by_ref().find_map(Result::err).expect("most pages are not resident");
    assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
    machine.clear_faults();
    for _ in 0..100 {
        assert!(matches!(range.next(), Some(Err(Error::Io { .. }))));
        assert!(matches!(range.next_back(), Some(Err(Error::Io { .. }))));
    }
    assert_eq!(tree.iter().filter(Result::is_ok).count(), 2000, "a new iterator reads again");
}

#[test]
fn an_error_from_the_back_is_met_by_the_front_too() {
    let (machine, _db, tree) = filled(&tiny(4096), 2000);
    let mut range = tree.iter();
    machine.fail_from(0, Fault::Eio, OpKind::Read);
    let failed = range.by_ref().rev().find_map(Result::err);
    assert!(matches!(failed, Some(Error::Io { .. })));
    machine.clear_faults();
    assert!(matches!(range.next(), Some(Err(Error::Io { .. }))));
}

#[test]
fn entries_stay_as_they_were_after_the_database_moved_on() {
    let (_machine, db, tree) = filled(&tiny(4096), 500);
    let entries: Vec<_> = tree.iter().map(|entry| entry.expect("readable")).collect();
    let one = tree.get_with(7u32.to_be_bytes(), <[u8]>::to_vec).expect("readable");
    tree.clear().expect("room");
    tree.bulk_load((0..500u32).map(|i| (i.to_be_bytes(), [0xee; 90]))).expect("ascending");
    db.drop_tree("t").expect("room");
    db.checkpoint().expect("room");
    for (i, entry) in (0u32..).zip(&entries) {
        assert_eq!((number(entry.key()), entry.value()), (i, &[i as u8; 100][..]));
    }
    assert_eq!(entries.len(), 500);
    assert_eq!(one.as_deref(), Some(&[7; 100][..]));
    let (key, value) = entries[3].clone().into_pair();
    assert_eq!((number(&key), value), (3, vec![3; 100]));
}

#[test]
fn a_range_holds_the_database_open_when_every_handle_is_gone() {
    let place = place();
    let db = tiny(4096).create(&place.path).expect("nothing there");
    let tree = db.tree("t").expect("made");
    tree.bulk_load((0..300u32).map(|i| (i.to_be_bytes(), [1; 50]))).expect("ascending");
    let mut range = tree.iter();
    range.next().expect("not the end").expect("readable");
    drop((tree, db));
    let refused = tiny(4096).open_existing(&place.path);
    assert!(matches!(refused, Err(Error::Open(latchkv::OpenError::Locked { .. }))));
    assert_eq!(range.by_ref().filter(Result::is_ok).count(), 299);
    drop(range);
    let db = tiny(4096).open_existing(&place.path).expect("unlocked with the range");
    assert_eq!(db.tree("t").expect("there").len().expect("open"), 300);
}

#[test]
fn a_range_over_a_closed_database_or_a_dropped_tree_says_so() {
    let (_machine, db, tree) = filled(&tiny(4096), 2000);
    let mut dropped = tree.iter();
    dropped.next().expect("not the end").expect("readable");
    db.drop_tree("t").expect("room");
    let error = dropped.find_map(Result::err).expect("the rest is gone");
    assert!(
        matches!(error, Error::Usage(Usage::TreeDropped(ref name)) if name == "t"),
        "{error:?}"
    );

    let tree = db.tree("u").expect("made");
    tree.bulk_load((0..2000u32).map(|i| (i.to_be_bytes(), [1; 100]))).expect("ascending");
    let mut closed = tree.iter();
    closed.next().expect("not the end").expect("readable");
    db.clone().close().expect("room");
    let error = closed.find_map(Result::err).expect("closed");
    assert!(matches!(error, Error::Closed), "{error:?}");
    assert!(matches!(tree.get(b"x"), Err(Error::Closed)));
    assert!(matches!(tree.put(b"x", b"y"), Err(Error::Closed)));
    assert!(matches!(db.tree("t"), Err(Error::Closed)));
    assert!(matches!(db.health(), Err(Error::Closed)));
}

#[test]
fn both_ends_meet_without_giving_a_record_twice_however_they_alternate() {
    let (_machine, _db, tree) = filled(&tiny(4096), 777);
    let mut rng = fastrand::Rng::with_seed(common::seed(11));
    for front_share in [0, 1, 5, 9, 10] {
        let mut range = tree.iter();
        let (mut front, mut back) = (0u32, 777u32);
        while front < back {
            let entry = if rng.u32(0..10) < front_share {
                front += 1;
                (front - 1, range.next())
            } else {
                back -= 1;
                (back, range.next_back())
            };
            let (expected, Some(Ok(entry))) = entry else { panic!("{entry:?} at {front}..{back}") };
            assert_eq!(number(entry.key()), expected);
        }
        for _ in 0..3 {
            assert!(range.next().is_none());
            assert!(range.next_back().is_none());
        }
    }
}

#[test]
fn what_is_written_behind_both_ends_does_not_come_back() {
    let (_machine, _db, tree) = filled(&tiny(4096), 1000);
    let mut range = tree.iter();
    for _ in 0..400 {
        range.next().expect("not the end").expect("readable");
        range.next_back().expect("not the end").expect("readable");
    }
    // Behind the front, behind the back, and in the middle.
    tree.put([0, 0, 0, 1, 1], b"behind").expect("room");
    tree.put(2000u32.to_be_bytes(), b"behind").expect("room");
    let rest: Vec<u32> = range.map(|entry| number(entry.expect("readable").key())).collect();
    assert_eq!(rest, (400..600).collect::<Vec<_>>());
}

#[test]
fn bounds_above_each_other_and_equal_excluded_bounds_are_empty_ranges() {
    let (_machine, db, tree) = filled(&tiny(4096), 100);
    let key = |i: u32| i.to_be_bytes().to_vec();
    let empty = [
        (Bound::Included(key(9)), Bound::Included(key(3))),
        (Bound::Excluded(key(9)), Bound::Included(key(3))),
        (Bound::Included(key(9)), Bound::Excluded(key(9))),
        (Bound::Excluded(key(9)), Bound::Included(key(9))),
        (Bound::Excluded(key(9)), Bound::Excluded(key(9))),
        (Bound::Excluded(key(9)), Bound::Excluded(key(10))),
        (Bound::Unbounded, Bound::Excluded(Vec::new())),
        (Bound::Included(vec![0xff; 600]), Bound::Unbounded),
    ];
    for (lower, upper) in empty {
        let bounds = (lower, upper);
        let range = || tree.range::<Vec<u8>>(bounds.clone());
        assert_eq!(range().count(), 0, "{bounds:?}");
        assert_eq!(range().rev().count(), 0, "{bounds:?} from the back");
    }
    assert_eq!(tree.range(key(9)..=key(9)).count(), 1);
    assert_eq!(tree.range::<Vec<u8>>(..).count(), 100);
    assert_whole(&db);
}
