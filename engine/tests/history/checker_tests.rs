//! The checker finds each kind of wrong history, made by hand, and lets right ones pass.
//!
//! Transactions are numbered from 0 in the order in which they are listed; unless it is said otherwise, all of
//! them run at once, each in a session of its own.

use crate::checker::check;
use crate::history::{History, Key, Step, Txn, Value, Wrong};

const X: Key = Key::list(0);
const Y: Key = Key::list(1);
const OWN: Key = Key::owned(0, 1);
const OTHER: Key = Key::owned(1, 1);

pub(crate) fn read(key: Key, found: &[Value]) -> Step {
    Step::Read { key, found: found.to_vec() }
}

pub(crate) fn append(key: Key, value: Value) -> Step {
    Step::Append { key, value }
}

pub(crate) fn put(key: Key, value: Value) -> Step {
    Step::Put { key, value }
}

/// All keys are read.
pub(crate) fn scan(found: &[(Key, &[Value])]) -> Step {
    let found = found.iter().map(|(key, values)| (*key, values.to_vec())).collect();
    Step::Scan { from: Key::list(0), to: Key::list(u16::MAX), found }
}

pub(crate) fn committed<const N: usize>(steps: [Step; N]) -> Txn {
    Txn { committed: true, steps: steps.to_vec(), ..Txn::new(0) }
}

fn aborted<const N: usize>(steps: [Step; N]) -> Txn {
    Txn { committed: false, ..committed(steps) }
}

fn at(began: u64, ended: u64, txn: Txn) -> Txn {
    Txn { began, ended, ..txn }
}

/// The transactions, each in a session of its own.
pub(crate) fn history<const N: usize>(txns: [Txn; N]) -> History {
    let txns = txns.into_iter().enumerate();
    History { txns: txns.map(|(n, txn)| Txn { session: n as u32, ..txn }).collect() }
}

#[track_caller]
fn assert_found<const N: usize>(wrong: Wrong, txns: [Txn; N]) {
    let history = history(txns);
    for serializable in [false, true] {
        let fault = check(&history, serializable).expect_err("it is wrong");
        assert_eq!(fault.wrong, wrong, "{fault}");
    }
}

#[test]
fn a_right_history_passes_at_both_levels() {
    let history = history([
        at(
            0,
            10,
            committed([read(X, &[]), append(X, 1), read(X, &[1]), append(X, 2), put(OWN, 7)]),
        ),
        at(5, 12, committed([read(X, &[]), read(OWN, &[])])),
        at(
            11,
            20,
            committed([
                read(X, &[1, 2]),
                Step::Mark,
                append(X, 3),
                read(X, &[1, 2, 3]),
                Step::Undo,
                read(X, &[1, 2]),
                append(X, 4),
            ]),
        ),
        at(11, 21, aborted([read(X, &[1, 2]), append(X, 5)])),
        at(22, 30, committed([scan(&[(X, &[1, 2, 4]), (OWN, &[7])])])),
    ]);
    check(&history, false).expect("right");
    check(&history, true).expect("right");
}

#[test]
fn a_value_that_nobody_wrote_is_found() {
    assert_found(Wrong::Garbage, [committed([read(X, &[9])])]);
    assert_found(Wrong::Garbage, [committed([put(OWN, 1)]), committed([read(OTHER, &[1])])]);
    assert_found(Wrong::Garbage, [committed([put(OWN, 1)]), committed([read(OWN, &[1, 1])])]);
}

#[test]
fn an_own_write_that_is_not_seen_is_found() {
    assert_found(Wrong::OwnWrites, [committed([append(X, 1), read(X, &[])])]);
    assert_found(Wrong::OwnWrites, [committed([put(OWN, 1), read(OWN, &[])])]);
    let undone = [Step::Mark, append(X, 1), Step::Undo, append(X, 2), read(X, &[1])];
    assert_found(Wrong::OwnWrites, [committed(undone)]);
}

#[test]
fn a_read_that_cannot_be_repeated_is_found() {
    let writer = || committed([append(X, 1)]);
    assert_found(Wrong::Unrepeatable, [writer(), committed([read(X, &[]), read(X, &[1])])]);
    assert_found(Wrong::Unrepeatable, [writer(), committed([read(X, &[]), scan(&[(X, &[1])])])]);
}

#[test]
fn an_aborted_read_is_found() {
    assert_found(Wrong::AbortedRead, [aborted([append(X, 1)]), committed([read(X, &[1])])]);
    assert_found(Wrong::AbortedRead, [aborted([put(OWN, 1)]), committed([read(OWN, &[1])])]);
    let undone = committed([Step::Mark, append(X, 1), Step::Undo, append(Y, 2)]);
    assert_found(Wrong::AbortedRead, [undone, committed([read(X, &[1]), read(Y, &[2])])]);
}

#[test]
fn an_aborted_read_by_an_aborted_transaction_is_found() {
    assert_found(Wrong::AbortedRead, [aborted([put(OWN, 1)]), aborted([read(OWN, &[1])])]);
}

#[test]
fn an_intermediate_read_is_found() {
    assert_found(
        Wrong::IntermediateRead,
        [
            committed([append(X, 1), append(X, 2)]),
            committed([read(X, &[1])]),
            committed([read(X, &[1, 2])]),
        ],
    );
    let writer = committed([put(OWN, 1), put(OWN, 2)]);
    assert_found(Wrong::IntermediateRead, [writer, committed([read(OWN, &[1])])]);
}

#[test]
fn a_value_that_is_there_twice_is_found() {
    assert_found(Wrong::Duplicate, [committed([append(X, 1)]), committed([read(X, &[1, 1])])]);
}

#[test]
fn lists_that_are_not_beginnings_of_each_other_are_found() {
    assert_found(
        Wrong::Order,
        [
            committed([append(X, 1)]),
            committed([append(X, 2)]),
            committed([read(X, &[1, 2])]),
            committed([read(X, &[2])]),
        ],
    );
}

#[test]
fn a_lost_update_is_found() {
    assert_found(
        Wrong::LostUpdate,
        [
            committed([read(X, &[]), append(X, 1)]),
            committed([read(X, &[]), append(X, 2)]),
            committed([read(X, &[2])]),
        ],
    );
}

#[test]
fn two_writers_of_one_version_are_found() {
    assert_found(
        Wrong::GSingle,
        [
            committed([read(X, &[]), append(X, 1)]),
            committed([read(X, &[]), append(X, 2)]),
            committed([read(X, &[1, 2])]),
        ],
    );
}

#[test]
fn a_write_cycle_is_found() {
    assert_found(
        Wrong::G0,
        [
            committed([append(X, 1), append(Y, 2)]),
            committed([append(X, 3), append(Y, 4)]),
            committed([read(X, &[1, 3]), read(Y, &[4, 2])]),
        ],
    );
    // One that is not written as a whole.
    assert_found(
        Wrong::G0,
        [
            committed([append(X, 1), append(X, 2)]),
            committed([append(X, 3)]),
            committed([read(X, &[1, 3, 2])]),
        ],
    );
}

#[test]
fn circular_information_flow_is_found() {
    assert_found(
        Wrong::G1c,
        [committed([append(X, 1), read(Y, &[2])]), committed([append(Y, 2), read(X, &[1])])],
    );
}

#[test]
fn read_skew_is_found() {
    assert_found(
        Wrong::GSingle,
        [
            committed([append(X, 1), append(Y, 2)]),
            committed([read(X, &[]), read(Y, &[2])]),
            committed([read(X, &[1])]),
        ],
    );
    // Of one that is aborted, too.
    assert_found(
        Wrong::GSingle,
        [
            committed([append(X, 1), append(Y, 2)]),
            aborted([read(X, &[]), read(Y, &[2])]),
            committed([read(X, &[1])]),
        ],
    );
}

#[test]
fn read_skew_by_a_scan_is_found() {
    assert_found(
        Wrong::GSingle,
        [committed([put(OWN, 1), put(OTHER, 2)]), committed([scan(&[(OTHER, &[2])])])],
    );
}

#[test]
fn anti_dependencies_that_do_not_follow_each_other_are_found() {
    // Two readers see two independent writers in different orders.
    assert_found(
        Wrong::GNonadjacent,
        [
            committed([append(X, 1)]),
            committed([append(Y, 2)]),
            committed([read(X, &[1]), read(Y, &[])]),
            committed([read(X, &[]), read(Y, &[2])]),
        ],
    );
}

#[track_caller]
fn assert_write_skew<const N: usize>(txns: [Txn; N]) {
    let history = history(txns);
    check(&history, false).expect("snapshot isolation allows it");
    let fault = check(&history, true).expect_err("it is not serializable");
    assert_eq!(fault.wrong, Wrong::G2, "{fault}");
}

#[test]
fn write_skew_is_found_where_it_is_forbidden() {
    assert_write_skew([
        committed([read(X, &[]), append(Y, 1)]),
        committed([read(Y, &[]), append(X, 2)]),
        committed([read(X, &[2]), read(Y, &[1])]),
    ]);
}

#[test]
fn write_skew_by_predicate_is_found_where_it_is_forbidden() {
    assert_write_skew([committed([scan(&[]), put(OWN, 1)]), committed([scan(&[]), put(OTHER, 2)])]);
}

#[test]
fn a_reader_that_makes_two_others_unserializable_is_found_where_it_is_forbidden() {
    assert_write_skew([
        committed([read(X, &[]), read(Y, &[]), append(X, 1)]),
        committed([read(Y, &[]), append(Y, 2)]),
        committed([read(X, &[]), read(Y, &[2])]),
        committed([read(X, &[1])]),
    ]);
}

#[test]
fn a_read_of_what_was_before_an_older_commit_is_found_unless_it_asked_for_it() {
    let writer = at(0, 10, committed([append(X, 1)]));
    let late = at(11, 20, committed([read(X, &[])]));
    let last = at(30, 40, committed([read(X, &[1])]));
    let stale = Txn { stale: true, ..late.clone() };
    assert_found(Wrong::Time, [writer.clone(), late, last.clone()]);
    let right = history([writer, stale, last]);
    check(&right, true).expect("it asked for it");
}

#[test]
fn a_scan_that_lacks_what_was_put_long_before_is_found() {
    let writer = at(0, 1, committed([put(OWN, 1)]));
    assert_found(Wrong::Time, [writer, at(2, 3, committed([scan(&[])]))]);
}
