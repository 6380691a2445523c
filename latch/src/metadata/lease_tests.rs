//! Leases, and what the fast paths cost.

use super::{LockError, MetadataLock, MetadataLocks, Owner, ScopeKind, TreeKind};
use crate::primitives::rmw_count;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

struct Database {
    locks: MetadataLocks,
    scope: Arc<MetadataLock>,
    tree: Arc<MetadataLock>,
}

impl Database {
    fn new() -> Database {
        Database {
            locks: MetadataLocks::new(),
            scope: MetadataLock::scope(),
            tree: MetadataLock::tree(),
        }
    }

    fn tree_is_free_for(&self, owner: &Owner, kind: TreeKind) -> bool {
        owner.try_lock(&self.tree, kind).is_some()
    }

    /// What another owner could have of the tree: whether somebody reads, and whether somebody writes.
    fn shown(&self, other: &Owner) -> (bool, bool) {
        (!self.tree_is_free_for(other, TreeKind::X), !self.tree_is_free_for(other, TreeKind::Snw))
    }

    fn until_waiting(&self, count: u64) {
        let start = Instant::now();
        while self.locks.usage().waiters != count {
            assert!(start.elapsed() < Duration::from_secs(60), "never {count}: {:?}", self.locks);
            thread::yield_now();
        }
    }
}

/// Longer than any test should take.
fn far() -> Option<Duration> {
    Some(Duration::from_secs(60))
}

/// A timeout that has passed already.
fn past() -> Option<Duration> {
    Some(Duration::ZERO)
}

const IDLE: (bool, bool) = (false, false);
const READING: (bool, bool) = (true, false);
const WRITING: (bool, bool) = (true, true);

#[test]
fn an_unobtrusive_ticket_is_one_read_modify_write_to_take_and_one_to_release() {
    let database = Database::new();
    let owner = database.locks.owner();
    let cost = |act: &mut dyn FnMut()| {
        let before = rmw_count();
        act();
        rmw_count() - before
    };
    let counting = u64::from(cfg!(debug_assertions));
    for kind in [TreeKind::Sr, TreeKind::Sw] {
        let mut ticket = None;
        assert_eq!(cost(&mut || ticket = owner.try_lock(&database.tree, kind)), counting);
        assert_eq!(cost(&mut || drop(ticket.take())), counting);
    }
    let mut ticket = None;
    assert_eq!(cost(&mut || ticket = owner.try_lock(&database.scope, ScopeKind::Ix)), counting);
    assert!(ticket.is_some());
    assert_eq!(cost(&mut || drop(ticket.take())), counting);
    assert_eq!(database.locks.usage().holders, 0);
}

#[test]
fn using_a_lease_is_no_read_modify_write() {
    let database = Database::new();
    let owner = database.locks.owner();
    let lease = owner.lease(&database.scope, &database.tree);
    let before = rmw_count();
    for _ in 0..3 {
        let read = lease.read(None).unwrap();
        let write = lease.write(None).unwrap();
        drop(read);
        drop(write);
    }
    assert_eq!(rmw_count(), before);
    assert_eq!(database.locks.usage().leases, 1);
    drop(lease);
    assert_eq!(database.locks.usage(), Default::default());
}

#[test]
fn a_lease_holds_nothing_unless_it_is_used() {
    let database = Database::new();
    let (owner, other) = (database.locks.owner(), database.locks.owner());
    let lease = owner.lease(&database.scope, &database.tree);
    assert_eq!(database.shown(&other), IDLE);
    assert!(other.try_lock(&database.scope, ScopeKind::X).is_some());
    let read = lease.read(None).unwrap();
    assert_eq!(database.shown(&other), READING);
    assert!(other.try_lock(&database.scope, ScopeKind::S).is_none());
    drop(read);
    assert!(other.try_lock(&database.scope, ScopeKind::X).is_some());
}

/// The same whether the slot shows the uses, or the list, which is so while somebody has SU.
#[test]
fn uses_of_a_lease_nest_and_end_in_any_order() {
    for obtrusive in [false, true] {
        let database = Database::new();
        let (owner, other) = (database.locks.owner(), database.locks.owner());
        let su = || obtrusive.then(|| other.lock(&database.tree, TreeKind::Su, None).unwrap());
        let lease = owner.lease(&database.scope, &database.tree);
        let shown = || database.shown(&other);

        let held = su();
        let write = lease.write(None).unwrap();
        let read = lease.read(None).unwrap();
        assert_eq!(shown(), WRITING);
        drop(write);
        assert_eq!(shown(), READING);
        drop(read);
        assert_eq!(shown(), IDLE);
        drop(held);

        // A read that becomes a write, as the lock becomes obtrusive between and after.
        for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
            let held = first.then(su).flatten();
            let read = lease.read(None).unwrap();
            drop(held);
            let held = second.then(su).flatten();
            let write = lease.write(None).unwrap();
            let again = lease.write(None).unwrap();
            assert_eq!(shown(), WRITING);
            drop(held);
            drop(write);
            assert_eq!(shown(), WRITING);
            drop(again);
            assert_eq!(shown(), READING);
            drop(read);
            assert_eq!(shown(), IDLE);
        }
        assert_eq!(database.locks.usage().holders, 0);
    }
}

#[test]
fn uses_that_are_kept_last_until_they_are_ended() {
    let database = Database::new();
    let (owner, other) = (database.locks.owner(), database.locks.owner());
    let lease = owner.lease(&database.scope, &database.tree);
    let reading = lease.read(None).unwrap().keep();
    let writing = lease.write(None).unwrap().keep();
    drop(lease.write(None).unwrap());
    assert_eq!(database.shown(&other), WRITING);
    let read = lease.read(None).unwrap();
    lease.end_kept(writing);
    assert_eq!(database.shown(&other), READING);
    drop(read);
    assert_eq!(database.shown(&other), READING, "the other kept use lasts");
    let elsewhere = owner.lease(&database.scope, &database.tree);
    lease.end_kept(elsewhere.read(None).unwrap().keep());
    drop(elsewhere);
    assert_eq!(database.shown(&other), READING, "that was another lease's");
    lease.end_kept(reading);
    assert_eq!(database.shown(&other), IDLE);
    drop(lease.write(None).unwrap().keep());
    std::mem::forget(lease.read(None).unwrap());
    drop(lease);
    assert_eq!(database.shown(&other), IDLE);
}

#[test]
fn a_lease_is_refused_while_its_tree_or_namespace_is_taken() {
    let database = Database::new();
    let (owner, other) = (database.locks.owner(), database.locks.owner());
    let lease = owner.lease(&database.scope, &database.tree);
    let late = |kind| LockError::Timeout { kind };

    let x = other.lock(&database.scope, ScopeKind::X, None).unwrap();
    assert_eq!(lease.read(past()).unwrap_err(), late(ScopeKind::Ix.into()));
    drop(x);
    let snw = other.lock(&database.tree, TreeKind::Snw, None).unwrap();
    assert_eq!(lease.write(past()).unwrap_err(), late(TreeKind::Sw.into()));
    let read = lease.read(past()).unwrap();
    assert_eq!(lease.write(past()).unwrap_err(), late(TreeKind::Sw.into()));
    drop(snw);
    let write = lease.write(past()).unwrap();
    drop((read, write));
    assert_eq!(database.shown(&other), IDLE);
    assert_eq!(database.locks.usage().holders, 0);
}

#[test]
fn x_waits_for_a_lease_in_use_and_goes_on_when_it_is_left() {
    let database = Database::new();
    let owner = database.locks.owner();
    let lease = owner.lease(&database.scope, &database.tree);
    let left = AtomicBool::new(false);
    let write = lease.write(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = database.locks.owner();
            let _x = other.lock(&database.scope, ScopeKind::X, far()).unwrap();
            assert!(left.load(Acquire), "X beside a lease in use");
        });
        database.until_waiting(1);
        // What is in use may be used more, though X waits.
        drop(lease.write(past()).unwrap());
        drop(lease.read(past()).unwrap());
        left.store(true, Release);
        drop(write);
    });
    drop(lease.write(past()).unwrap());
}

#[test]
fn a_lease_that_is_read_through_begins_to_write_past_an_x_that_waits_for_it() {
    let database = Database::new();
    let owner = database.locks.owner();
    let lease = owner.lease(&database.scope, &database.tree);
    let read = lease.read(None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = database.locks.owner();
            drop(other.lock(&database.tree, TreeKind::X, far()).unwrap());
        });
        database.until_waiting(1);
        let write = lease.write(past()).unwrap();
        drop(read);
        drop(write);
    });
    assert_eq!(database.locks.usage().deadlocks, 0);
}

#[test]
fn a_circle_through_a_lease_in_use_is_found_whoever_closes_it() {
    for lease_last in [false, true] {
        let database = Database::new();
        let second = MetadataLock::tree();
        let owner = database.locks.owner();
        let lease = owner.lease(&database.scope, &database.tree);
        let write = lease.write(None).unwrap();
        let holds = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let other = database.locks.owner();
                let _x = other.lock(&second, TreeKind::X, far()).unwrap();
                holds.store(true, Release);
                database.until_waiting(u64::from(!lease_last));
                drop(other.lock(&database.tree, TreeKind::X, far()).unwrap());
            });
            while !holds.load(Acquire) {
                thread::yield_now();
            }
            database.until_waiting(u64::from(lease_last));
            let error = owner.lock(&second, TreeKind::Sr, far()).unwrap_err();
            assert_eq!(error, LockError::Deadlock { kind: TreeKind::Sr.into() });
            drop(write);
        });
        assert_eq!(database.locks.usage().deadlocks, 1);
    }
}

#[test]
fn a_lease_outlives_its_owner_and_goes_to_another_thread() {
    let database = Database::new();
    let other = database.locks.owner();
    let lease = {
        let owner = database.locks.owner();
        owner.lease(&database.scope, &database.tree)
    };
    thread::scope(|scope| {
        let database = &database;
        scope.spawn(move || {
            let write = lease.write(None).unwrap();
            assert_eq!(database.shown(&database.locks.owner()), WRITING);
            drop(write);
        });
    });
    assert_eq!(database.shown(&other), IDLE);
}
