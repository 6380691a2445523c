//! The replay finds each kind of wrong lsn, and lets right histories pass.

use crate::checker_tests::{append, committed, history, put, read};
use crate::history::{Key, Step, Txn, Wrong};
use crate::replay::check;

const X: Key = Key::list(0);
const Y: Key = Key::list(1);
const OWN: Key = Key::owned(0, 1);

fn lsns(reads_at: u64, lsn: u64, txn: Txn) -> Txn {
    Txn { reads_at: Some(reads_at), lsn: Some(lsn), ..txn }
}

fn reads_at(reads_at: u64, txn: Txn) -> Txn {
    Txn { reads_at: Some(reads_at), ..txn }
}

#[track_caller]
fn assert_found<const N: usize>(wrong: Wrong, txns: [Txn; N]) {
    let fault = check(&history(txns)).expect_err("it is wrong");
    assert_eq!(fault.wrong, wrong, "{fault}");
}

#[test]
fn a_right_history_passes() {
    let delete = committed([read(OWN, &[3]), Step::Delete { key: OWN }]);
    let right = history([
        lsns(0, 10, committed([read(X, &[]), append(X, 1), append(X, 2), put(OWN, 3)])),
        lsns(11, 20, delete),
        reads_at(11, committed([read(X, &[1, 2]), read(OWN, &[3])])),
        reads_at(10, committed([read(X, &[]), read(OWN, &[])])),
        reads_at(21, committed([read(X, &[1, 2]), read(OWN, &[])])),
        lsns(11, 30, committed([read(X, &[1, 2]), append(X, 4)])),
    ]);
    check(&right).expect("right");
}

#[test]
fn a_read_of_another_state_is_found() {
    let writer = || lsns(0, 10, committed([append(X, 1)]));
    assert_found(Wrong::NotThatState, [writer(), reads_at(10, committed([read(X, &[1])]))]);
    assert_found(Wrong::NotThatState, [writer(), reads_at(11, committed([read(X, &[])]))]);
    let aborted = Txn { committed: false, ..reads_at(11, committed([read(X, &[])])) };
    assert_found(Wrong::NotThatState, [writer(), aborted]);
}

#[test]
fn a_deletion_that_is_not_seen_is_found() {
    let delete = lsns(11, 20, committed([Step::Delete { key: OWN }]));
    let reader = reads_at(21, committed([read(OWN, &[1])]));
    assert_found(Wrong::NotThatState, [lsns(0, 10, committed([put(OWN, 1)])), delete, reader]);
}

#[test]
fn a_second_committer_is_found() {
    assert_found(
        Wrong::SecondCommitter,
        [lsns(0, 10, committed([append(X, 1)])), lsns(0, 20, committed([append(X, 2)]))],
    );
    let guard = committed([Step::Guard { key: X }, append(Y, 2)]);
    assert_found(
        Wrong::SecondCommitter,
        [lsns(0, 10, committed([append(X, 1)])), lsns(0, 20, guard)],
    );
}

#[test]
fn a_read_that_does_not_hold_is_found_if_it_has_to() {
    let writer = || lsns(0, 10, committed([append(X, 1)]));
    let reader = || lsns(0, 20, committed([read(X, &[]), append(Y, 2)]));
    check(&history([writer(), reader()])).expect("snapshot isolation allows it");
    let serializable = Txn { serializable: true, ..reader() };
    assert_found(Wrong::ReadsChanged, [writer(), serializable]);
}

#[test]
fn lsns_that_are_not_in_order_are_found() {
    let at = |lsn| lsns(0, lsn, committed([append(X, lsn)]));
    assert_found(Wrong::Lsn, [at(10), at(10)]);
    assert_found(Wrong::Lsn, [lsns(20, 10, committed([append(X, 1)]))]);
    let first = Txn { began: 0, ended: 1, ..lsns(0, 20, committed([append(X, 1)])) };
    let blind = Txn { began: 2, ended: 3, lsn: Some(10), ..committed([append(X, 2)]) };
    assert_found(Wrong::Time, [first.clone(), blind]);
    let late = Txn { began: 2, ended: 3, ..reads_at(20, committed([read(Y, &[])])) };
    assert_found(Wrong::Time, [first, late]);
}
