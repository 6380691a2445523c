//! Waiting for obtrusive locks: who goes on, in which order, and who gives up.

use super::queue::OBTRUSIVE_IN_ROW;
use super::{
    Kind, Lease, LockError, MetadataLock, MetadataLocks, Owner, ScopeKind, Ticket, TreeKind,
};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any test should take; a test that fails so has failed.
fn far() -> Option<Duration> {
    Some(Duration::from_secs(60))
}

/// Gets a lock that may have to be waited for, by being woken, not by looking again at the deadline.
fn lock<'o>(
    owner: &'o Owner,
    lock: &'o Arc<MetadataLock>,
    kind: impl Into<Kind>,
) -> Result<Ticket<'o>, LockError> {
    let start = Instant::now();
    let result = owner.lock(lock, kind, far());
    assert!(start.elapsed() < Duration::from_secs(30), "nobody has woken it");
    result
}

/// Until so many requests are in queues. Whoever waits is in one before it sleeps.
fn until_waiting(locks: &MetadataLocks, count: u64) {
    let start = Instant::now();
    while locks.usage().waiters != count {
        assert!(start.elapsed() < Duration::from_secs(60), "never {count} waiters: {locks:?}");
        thread::yield_now();
    }
}

/// Who came, in order.
#[derive(Default)]
struct Order(Mutex<Vec<String>>);

impl Order {
    fn note(&self, who: impl Into<String>) {
        self.0.lock().unwrap().push(who.into());
    }

    fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

const fn is_send<T: Send>() {}
const fn is_sync<T: Sync>() {}
const _: () = {
    is_send::<Owner>();
    is_send::<Lease>();
    is_send::<MetadataLocks>();
    is_sync::<MetadataLocks>();
    is_send::<MetadataLock>();
    is_sync::<MetadataLock>();
};

fn takes(owner: &Owner, lock: &Arc<MetadataLock>, kind: impl Into<Kind>) -> bool {
    owner.try_lock(lock, kind).is_some()
}

#[test]
fn every_pair_of_kinds_meets_as_the_table_says_whatever_came_first() {
    let kinds = [
        Kind::from(TreeKind::Sr),
        TreeKind::Sw.into(),
        TreeKind::Su.into(),
        TreeKind::Snw.into(),
        TreeKind::X.into(),
        ScopeKind::Ix.into(),
        ScopeKind::S.into(),
        ScopeKind::X.into(),
    ];
    let locks = MetadataLocks::new();
    let (first, second) = (locks.owner(), locks.owner());
    for held in kinds {
        for wanted in kinds.into_iter().filter(|wanted| wanted.class() == held.class()) {
            let lock = match held {
                Kind::Scope(_) => MetadataLock::scope(),
                Kind::Tree(_) => MetadataLock::tree(),
            };
            let ticket = first.lock(&lock, held, None).unwrap();
            assert_eq!(ticket.kind(), held);
            assert_eq!(takes(&second, &lock, wanted), held.goes_with(wanted), "{held}, {wanted}");
            assert!(takes(&first, &lock, wanted), "{held} in its own owner's way for {wanted}");
            drop(ticket);
            assert!(takes(&second, &lock, wanted), "{held} stays behind");
        }
    }
    assert_eq!(locks.usage().holders, 0);
}

#[test]
fn a_kind_of_the_other_class_is_refused() {
    let locks = MetadataLocks::new();
    let owner = locks.owner();
    let tree = MetadataLock::tree();
    let error = owner.lock(&tree, ScopeKind::Ix, None).unwrap_err();
    assert!(matches!(error, LockError::Misuse { kind: Kind::Scope(ScopeKind::Ix), .. }));
    assert_eq!(error.to_string(), "IX of a namespace is no kind of this lock");
}

#[test]
fn an_upgrade_needs_a_stronger_kind_and_the_own_ticket() {
    let locks = MetadataLocks::new();
    let (owner, other) = (locks.owner(), locks.owner());
    let tree = MetadataLock::tree();
    let mut ticket = owner.lock(&tree, TreeKind::Su, None).unwrap();
    let misused = |result| matches!(result, Err(LockError::Misuse { .. }));
    assert!(misused(owner.upgrade(&mut ticket, TreeKind::Sw, None)));
    assert!(misused(owner.upgrade(&mut ticket, ScopeKind::X, None)));
    assert!(misused(other.upgrade(&mut ticket, TreeKind::X, None)));
    assert_eq!(ticket.kind(), TreeKind::Su.into());
    owner.upgrade(&mut ticket, TreeKind::X, None).unwrap();
    assert_eq!(ticket.kind(), TreeKind::X.into());
    drop(ticket);
    assert!(takes(&other, &tree, TreeKind::X));
}

#[test]
fn a_request_that_is_too_late_leaves_everything_as_it_was() {
    let locks = MetadataLocks::new();
    let (reader, owner) = (locks.owner(), locks.owner());
    let tree = MetadataLock::tree();
    let read = reader.lock(&tree, TreeKind::Sr, None).unwrap();
    let soon = || Some(Duration::from_millis(1));
    let late = LockError::Timeout { kind: TreeKind::X.into() };
    assert_eq!(owner.lock(&tree, TreeKind::X, soon()).unwrap_err(), late);
    let mut ticket = owner.lock(&tree, TreeKind::Su, None).unwrap();
    assert_eq!(owner.upgrade(&mut ticket, TreeKind::X, soon()).unwrap_err(), late);
    assert_eq!(ticket.kind(), TreeKind::Su.into());
    assert!(!takes(&reader, &tree, TreeKind::Su), "the old kind is held still");
    drop((read, ticket));
    let usage = locks.usage();
    assert_eq!((usage.holders, usage.waiters, usage.waits, usage.timeouts), (0, 0, 2, 2));
    // With the flag down again, nothing is listed.
    let _read = reader.lock(&tree, TreeKind::Sr, None).unwrap();
    assert_eq!(locks.usage().holders, 0);
}

#[test]
fn a_waiting_upgrade_passes_those_who_wait_for_its_ticket() {
    let locks = MetadataLocks::new();
    let tree = MetadataLock::tree();
    let order = Order::default();
    let reader = locks.owner();
    let read = reader.lock(&tree, TreeKind::Sr, None).unwrap();
    let has_su = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let owner = locks.owner();
            let mut ticket = lock(&owner, &tree, TreeKind::Su).unwrap();
            has_su.wait();
            until_waiting(&locks, 1);
            owner.upgrade(&mut ticket, TreeKind::X, far()).unwrap();
            order.note("upgrade");
        });
        has_su.wait();
        scope.spawn(|| {
            let other = locks.owner();
            let _x = lock(&other, &tree, TreeKind::X).unwrap();
            order.note("x");
        });
        until_waiting(&locks, 2);
        drop(read);
    });
    assert_eq!(order.seen(), ["upgrade", "x"]);
    assert_eq!(locks.usage().deadlocks, 0);
}

#[test]
fn obtrusive_requests_are_served_in_order_and_before_those_who_came_earlier_and_are_not() {
    let locks = MetadataLocks::new();
    let tree = MetadataLock::tree();
    let order = Order::default();
    let holder = locks.owner();
    let held = holder.lock(&tree, TreeKind::X, None).unwrap();
    thread::scope(|scope| {
        let steps = [TreeKind::Sr, TreeKind::X, TreeKind::Snw, TreeKind::X, TreeKind::Sw];
        for (at, kind) in steps.into_iter().enumerate() {
            let (locks, tree, order) = (&locks, &tree, &order);
            scope.spawn(move || {
                let owner = locks.owner();
                let _ticket = lock(&owner, tree, kind).unwrap();
                order.note(format!("{at}"));
            });
            until_waiting(locks, at as u64 + 1);
        }
        drop(held);
    });
    let seen = order.seen();
    let at = |who: &str| seen.iter().position(|seen| seen == who).unwrap();
    assert!(at("1") < at("2") && at("2") < at("3"), "{seen:?}");
    // SR goes with SNW, but not with the X behind that, to which it yields.
    assert!(at("3") < at("0") && at("3") < at("4"), "{seen:?}");
}

#[test]
fn a_waiting_x_is_not_passed_by_new_readers() {
    let locks = MetadataLocks::new();
    let tree = MetadataLock::tree();
    let (old, new) = (locks.owner(), locks.owner());
    let read = old.lock(&tree, TreeKind::Sr, None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let owner = locks.owner();
            drop(lock(&owner, &tree, TreeKind::X).unwrap());
        });
        until_waiting(&locks, 1);
        assert!(!takes(&new, &tree, TreeKind::Sr));
        assert!(!takes(&new, &tree, TreeKind::Sw));
        assert!(takes(&old, &tree, TreeKind::Sw), "X waits for this owner anyhow");
        drop(read);
    });
    assert!(takes(&new, &tree, TreeKind::Sw));
}

#[test]
fn a_reader_gets_its_turn_in_a_stream_of_x() {
    let locks = MetadataLocks::new();
    let tree = MetadataLock::tree();
    let order = Order::default();
    let holder = locks.owner();
    let held = holder.lock(&tree, TreeKind::X, None).unwrap();
    let writers = 3 * u64::from(OBTRUSIVE_IN_ROW);
    thread::scope(|scope| {
        for name in ["r0", "r1"] {
            let (locks, tree, order) = (&locks, &tree, &order);
            scope.spawn(move || {
                let owner = locks.owner();
                let _ticket = lock(&owner, tree, TreeKind::Sw).unwrap();
                order.note(name);
            });
        }
        until_waiting(&locks, 2);
        for _ in 0..writers {
            scope.spawn(|| {
                let owner = locks.owner();
                let _ticket = lock(&owner, &tree, TreeKind::X).unwrap();
                order.note("x");
            });
        }
        until_waiting(&locks, 2 + writers);
        drop(held);
    });
    let seen = order.seen();
    let turn = OBTRUSIVE_IN_ROW as usize;
    assert!(seen[..turn].iter().all(|who| who == "x"), "{seen:?}");
    assert!(seen[turn..turn + 2].iter().all(|who| who.starts_with('r')), "{seen:?}");
    assert_eq!(locks.usage().obtrusive_grants, writers + 1);
}

/// Owners in a circle: each has SW of its own tree, by the word's count, and asks for X of the next one's, in
/// the order given. Some have an obtrusive lock of something else. Gives who failed.
fn circle(order: &[usize], heavy: &[usize]) -> Vec<usize> {
    let locks = MetadataLocks::new();
    let trees: Vec<_> = order.iter().map(|_| MetadataLock::tree()).collect();
    let others: Vec<_> = order.iter().map(|_| MetadataLock::tree()).collect();
    let all_hold = Barrier::new(order.len());
    let act = &|me: usize| {
        let owner = locks.owner();
        let _own = lock(&owner, &trees[me], TreeKind::Sw).unwrap();
        let _other = heavy.contains(&me).then(|| lock(&owner, &others[me], TreeKind::Su));
        all_hold.wait();
        let turn = order.iter().position(|&who| who == me).unwrap();
        until_waiting(&locks, turn as u64);
        lock(&owner, &trees[(me + 1) % trees.len()], TreeKind::X).map(drop)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..order.len()).map(|me| scope.spawn(move || act(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let kind = TreeKind::X.into();
    assert!(results.iter().all(|r| matches!(r, Ok(()) | Err(LockError::Deadlock { .. }))));
    assert!(results.iter().filter_map(|r| r.err()).all(|e| e == LockError::Deadlock { kind }));
    let failed: Vec<usize> = (0..order.len()).filter(|&me| results[me].is_err()).collect();
    assert_eq!(locks.usage().deadlocks, failed.len() as u64);
    assert_eq!((locks.usage().holders, locks.usage().waiters), (0, 0));
    failed
}

#[test]
fn of_two_that_wait_for_each_other_the_lighter_gives_up() {
    assert_eq!(circle(&[0, 1], &[0]), [1]);
    assert_eq!(circle(&[1, 0], &[0]), [1]);
    assert_eq!(circle(&[0, 1], &[1]), [0]);
}

#[test]
fn of_two_that_weigh_the_same_the_one_that_closes_the_circle_gives_up() {
    assert_eq!(circle(&[0, 1], &[]), [1]);
    assert_eq!(circle(&[1, 0], &[0, 1]), [0]);
}

#[test]
fn of_three_in_a_circle_only_the_lightest_gives_up() {
    assert_eq!(circle(&[0, 1, 2], &[0, 2]), [1]);
    assert_eq!(circle(&[1, 0, 2], &[0, 2]), [1]);
    assert_eq!(circle(&[2, 0, 1], &[0, 1]), [2]);
    assert_eq!(circle(&[2, 1, 0], &[2, 1, 0]), [0]);
}

#[test]
fn a_chain_of_waits_without_a_circle_is_no_deadlock() {
    let locks = MetadataLocks::new();
    let trees: Vec<_> = (0..4).map(|_| MetadataLock::tree()).collect();
    let last = locks.owner();
    let held = last.lock(&trees[3], TreeKind::Snw, None).unwrap();
    let all_hold = Barrier::new(3);
    thread::scope(|scope| {
        for pair in trees.windows(2) {
            let (locks, all_hold) = (&locks, &all_hold);
            scope.spawn(move || {
                let owner = locks.owner();
                let _one = lock(&owner, &pair[0], TreeKind::X).unwrap();
                all_hold.wait();
                let _two = lock(&owner, &pair[1], TreeKind::Sw).unwrap();
            });
        }
        until_waiting(&locks, 3);
        drop(held);
    });
    assert_eq!((locks.usage().waits, locks.usage().deadlocks), (3, 0));
}

#[test]
fn who_gives_up_lets_those_on_that_yielded_to_it() {
    let locks = MetadataLocks::new();
    let tree = MetadataLock::tree();
    let reader = locks.owner();
    let read = reader.lock(&tree, TreeKind::Sr, None).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let owner = locks.owner();
            let soon = Some(Duration::from_millis(50));
            assert!(owner.lock(&tree, TreeKind::X, soon).is_err());
        });
        // Either it comes while X waits, and sleeps, or it does not have to wait at all.
        let start = Instant::now();
        while locks.usage().waits == 0 {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        let other = locks.owner();
        drop(lock(&other, &tree, TreeKind::Sr).unwrap());
    });
    drop(read);
    assert_eq!(locks.usage().timeouts, 1);
}

#[test]
fn a_ticket_that_is_leaked_keeps_its_lock_taken_and_no_other() {
    let locks = MetadataLocks::new();
    let (leaker, other) = (locks.owner(), locks.owner());
    let (counted, listed) = (MetadataLock::tree(), MetadataLock::tree());
    std::mem::forget(leaker.lock(&counted, TreeKind::Sw, None).unwrap());
    std::mem::forget(leaker.lock(&listed, TreeKind::Su, None).unwrap());
    assert!(!takes(&other, &counted, TreeKind::X) && !takes(&other, &listed, TreeKind::X));
    assert!(takes(&other, &counted, TreeKind::Sr) && takes(&other, &listed, TreeKind::Sw));
    drop((leaker, counted, listed));
    let later: Vec<_> = (0..64).map(|_| MetadataLock::tree()).collect();
    assert!(later.iter().all(|lock| takes(&other, lock, TreeKind::X)));
}
