//! Metadata locks: tickets and leases against obtrusive requests. What they guard is a loom `UnsafeCell`: two
//! accesses that are not ordered are an error.

use crate::setup::beside;
use latchkv_latch::metadata::{LockError, MetadataLock, MetadataLocks, Owner, ScopeKind, TreeKind};
use latchkv_latch::primitives::Ordering::Relaxed;
use latchkv_latch::primitives::{AtomicBool, Mutant, mutant};
use latchkv_loom_tests::check;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

struct Database {
    locks: MetadataLocks,
    scope: std::sync::Arc<MetadataLock>,
    tree: std::sync::Arc<MetadataLock>,
    /// Written by who has SW, read by who has SR beside SNW, both by who has X.
    data: UnsafeCell<u32>,
    /// Of the namespace: whether it is read-only.
    read_only: AtomicBool,
    /// Whether a write was done; by one writer at most.
    written: AtomicBool,
}

// SAFETY: the data is reached under a metadata lock; that this suffices is what the models check.
unsafe impl Sync for Database {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Database {}

impl Database {
    fn new() -> Arc<Database> {
        Arc::new(Database {
            locks: MetadataLocks::new(),
            scope: MetadataLock::scope(),
            tree: MetadataLock::tree(),
            data: UnsafeCell::new(0),
            read_only: AtomicBool::new(false),
            written: AtomicBool::new(false),
        })
    }

    fn bump(&self) {
        // SAFETY: the caller has SW as the only writer, or X; loom checks that this excludes every other
        // access.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller has SNW or X; loom checks that this excludes writes.
        self.data.with(|data| unsafe { *data })
    }

    /// Writes under SW of the tree.
    fn write_by_ticket(&self, owner: &Owner) {
        let ticket = owner.lock(&self.tree, TreeKind::Sw, None).expect("nobody else waits");
        self.bump();
        drop(ticket);
    }

    /// Writes under X of the tree.
    fn alter(&self, owner: &Owner) {
        let ticket = owner.lock(&self.tree, TreeKind::X, None).expect("nobody else waits");
        self.bump();
        drop(ticket);
    }
}

/// Would falsify: X excludes who holds SW by the word's count, and each sees what the other did.
#[test]
fn fast_path_races_obtrusive() {
    let mutants = [
        Mutant::TakeIgnoresObtrusive,
        Mutant::TakeRelaxed,
        Mutant::GiveBackRelaxed,
        Mutant::ClearObtrusiveRelaxed,
        Mutant::RequestIgnoresCounts,
    ];
    check(3, &mutants, || {
        let database = Database::new();
        let writer = beside(&database, |database| {
            let owner = database.locks.owner();
            database.write_by_ticket(&owner);
            database.write_by_ticket(&owner);
        });
        database.alter(&database.locks.owner());
        writer.join().unwrap();
    });
}

/// Would falsify: no use of a lease overlaps X, and each sees what the other did.
#[test]
fn lease_races_obtrusive() {
    let mutants = [
        Mutant::LeaseWithoutFence,
        Mutant::ObtrusiveWithoutFence,
        Mutant::LeaseIgnoresObtrusive,
        Mutant::LeaseLeaveRelaxed,
        Mutant::ClearObtrusiveRelaxed,
    ];
    check(3, &mutants, || {
        let database = Database::new();
        let owner = database.locks.owner();
        let lease = owner.lease(&database.scope, &database.tree);
        let writer = beside(&database, move |database| {
            for _ in 0..2 {
                let in_use = lease.write(None).expect("nobody waits for this owner");
                database.bump();
                drop(in_use);
            }
        });
        database.alter(&database.locks.owner());
        writer.join().unwrap();
    });
}

/// Would falsify: a lease that is opened while X is asked for, or held, is seen, or sees.
#[test]
fn opening_a_lease_races_obtrusive() {
    check(3, &[Mutant::LeaseIgnoresObtrusive], || {
        let database = Database::new();
        let writer = beside(&database, |database| {
            let owner = database.locks.owner();
            let lease = owner.lease(&database.scope, &database.tree);
            let in_use = lease.write(None).expect("nobody waits for this owner");
            database.bump();
            drop(in_use);
        });
        database.alter(&database.locks.owner());
        writer.join().unwrap();
    });
}

/// Would falsify: who gets SNW beside a lease that reads sees what that lease wrote before.
#[test]
fn snw_beside_a_lease_that_reads_sees_what_it_wrote() {
    check(3, &[Mutant::LeaseBeginRelaxed, Mutant::LeaseLeaveRelaxed], || {
        let database = Database::new();
        let owner = database.locks.owner();
        let lease = owner.lease(&database.scope, &database.tree);
        let writer = beside(&database, move |database| {
            let writing = lease.write(None).expect("nobody waits for this owner");
            database.bump();
            drop(writing);
            let reading = lease.read(None).expect("nobody waits for this owner");
            database.read();
            drop(reading);
        });
        let owner = database.locks.owner();
        let ticket = owner.lock(&database.tree, TreeKind::Snw, None).expect("nobody else waits");
        database.read();
        drop(ticket);
        writer.join().unwrap();
    });
}

/// Would falsify: who sleeps is woken, by a count that is given back and by a release from the list.
#[test]
fn release_wakes_waiter() {
    let mutants = [Mutant::GiveBackForgetsWake, Mutant::ReleaseListedForgetsWake];
    check(3, &mutants, || {
        let database = Database::new();
        let writer = beside(&database, |database| {
            database.write_by_ticket(&database.locks.owner());
        });
        database.alter(&database.locks.owner());
        writer.join().unwrap();
    });
}

/// Would falsify: after the state of a namespace has changed under X, no write that saw the old one is still
/// to come.
#[test]
fn flag_flip_never_straddles() {
    let mutants = [
        Mutant::StateBeforeLease,
        Mutant::StateWithoutLock,
        Mutant::LeaseWithoutFence,
        Mutant::ObtrusiveWithoutFence,
        Mutant::LeaseLeaveRelaxed,
        Mutant::ClearObtrusiveRelaxed,
    ];
    check(3, &mutants, || {
        let database = Database::new();
        let owner = database.locks.owner();
        let lease = owner.lease(&database.scope, &database.tree);
        let writer = beside(&database, move |database| {
            let early = database.read_only.load(Relaxed);
            let in_use = lease.write(None).expect("nobody waits for this owner");
            // Relaxed: it is the lease that orders it.
            let read_only = match mutant(Mutant::StateBeforeLease) {
                true => early,
                false => database.read_only.load(Relaxed),
            };
            if !read_only {
                database.written.store(true, Relaxed);
            }
            drop(in_use);
        });
        let owner = database.locks.owner();
        let alter = || owner.lock(&database.scope, ScopeKind::X, None).expect("nobody else waits");
        let x = (!mutant(Mutant::StateWithoutLock)).then(alter);
        database.read_only.store(true, Relaxed);
        drop(x);
        let before = database.written.load(Relaxed);
        writer.join().unwrap();
        assert_eq!(database.written.load(Relaxed), before, "a write straddles the change");
    });
}

/// Would falsify: SU becomes X only behind those who write, and stays SU until then.
#[test]
fn upgrade_races_readers() {
    let mutants =
        [Mutant::RequestIgnoresCounts, Mutant::GiveBackRelaxed, Mutant::GiveBackForgetsWake];
    check(3, &mutants, || {
        let database = Database::new();
        let writer = beside(&database, |database| {
            database.write_by_ticket(&database.locks.owner());
        });
        let owner = database.locks.owner();
        let mut ticket = owner.lock(&database.tree, TreeKind::Su, None).expect("it goes with SW");
        owner.upgrade(&mut ticket, TreeKind::X, None).expect("nobody waits for this owner");
        database.bump();
        drop(ticket);
        writer.join().unwrap();
        assert_eq!(database.read(), 2);
    });
}

/// Would falsify: of two that wait for each other one looks last and sees the circle, and the lighter gives
/// up, asleep or not.
#[test]
fn a_circle_is_closed_by_one_that_sees_it() {
    check(2, &[Mutant::DoomForgetsWake], || {
        let database = Database::new();
        let other = MetadataLock::tree();
        let theirs = other.clone();
        let light = beside(&database, move |database| {
            let owner = database.locks.owner();
            let _one =
                owner.lock(&theirs, TreeKind::Sw, None).expect("nobody waits for this owner");
            owner.lock(&database.tree, TreeKind::Sr, None).map(drop)
        });
        let owner = database.locks.owner();
        let heavy = {
            let _two = owner.lock(&database.tree, TreeKind::X, None).expect("nor for this one");
            owner.lock(&other, TreeKind::Snw, None).map(drop)
        };
        assert_eq!(heavy, Ok(()));
        let light = light.join().unwrap();
        let kind = TreeKind::Sr.into();
        assert!(light == Ok(()) || light == Err(LockError::Deadlock { kind }), "{light:?}");
    });
}
