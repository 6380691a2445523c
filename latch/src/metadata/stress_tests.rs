//! Many threads that take, strengthen and release at random, against an oracle that only knows the table.

use super::{Kind, Lease, LockError, MetadataLock, MetadataLocks, Owner, ScopeKind, TreeKind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const SCOPE: [ScopeKind; 3] = [ScopeKind::Ix, ScopeKind::S, ScopeKind::X];
const TREE: [TreeKind; 5] = [TreeKind::Sr, TreeKind::Sw, TreeKind::Su, TreeKind::Snw, TreeKind::X];
/// Trees; the lock before them is that of their namespace.
const TREES: usize = 3;
const THREADS: u64 = 4;

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn scope_kind(&mut self) -> Kind {
        // Mostly unobtrusive.
        SCOPE[if self.below(8) > 0 { 0 } else { self.below(SCOPE.len()) }].into()
    }

    fn tree_kind(&mut self) -> Kind {
        TREE[if self.below(4) > 0 { self.below(2) } else { self.below(TREE.len()) }].into()
    }
}

/// Who holds what of each lock, noted behind taking and before releasing.
struct Oracle {
    held: Vec<Mutex<Vec<(u64, Kind)>>>,
}

impl Oracle {
    fn took(&self, lock: usize, owner: u64, kind: Kind) {
        let mut held = self.held[lock].lock().unwrap();
        let clash = held.iter().find(|(other, has)| *other != owner && !has.goes_with(kind));
        assert!(clash.is_none(), "owner {owner} got {kind} of lock {lock} beside {clash:?}");
        held.push((owner, kind));
    }

    fn releases(&self, lock: usize, owner: u64, kind: Kind) {
        let mut held = self.held[lock].lock().unwrap();
        let at = held.iter().position(|has| *has == (owner, kind)).expect("it was noted");
        held.swap_remove(at);
    }
}

struct Worker<'s> {
    number: u64,
    owner: &'s Owner,
    locks: &'s [Arc<MetadataLock>],
    leases: Vec<Lease>,
    oracle: &'s Oracle,
    random: Random,
}

impl Worker<'_> {
    fn timeout(&mut self) -> Option<Duration> {
        let micros = [0, 100, 10_000_000][self.random.below(3)];
        Some(Duration::from_micros(micros))
    }

    /// Takes something, does the same again inside, releases it.
    fn step(&mut self, depth: u32) {
        match self.random.below(3) {
            0 => self.ticket(depth),
            _ => self.lease(depth),
        }
    }

    fn inside(&mut self, depth: u32) {
        if self.random.below(4) == 0 {
            thread::yield_now();
        }
        if depth > 0 && self.random.below(2) == 0 {
            self.step(depth - 1);
        }
    }

    fn ticket(&mut self, depth: u32) {
        let (owner, locks) = (self.owner, self.locks);
        let at = self.random.below(TREES + 1);
        let kind = if at == 0 { self.random.scope_kind() } else { self.random.tree_kind() };
        let timeout = self.timeout();
        let mut ticket = match owner.lock(&locks[at], kind, timeout) {
            Ok(ticket) => ticket,
            Err(LockError::Timeout { .. } | LockError::Deadlock { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        self.oracle.took(at, self.number, kind);
        self.inside(depth);
        let x = if at == 0 { Kind::Scope(ScopeKind::X) } else { Kind::Tree(TreeKind::X) };
        let timeout = self.timeout();
        if self.random.below(4) == 0 && owner.upgrade(&mut ticket, x, timeout).is_ok() {
            self.oracle.took(at, self.number, x);
            self.inside(depth);
            self.oracle.releases(at, self.number, x);
        }
        self.oracle.releases(at, self.number, kind);
    }

    fn lease(&mut self, depth: u32) {
        let at = self.random.below(self.leases.len());
        let lease = self.leases.swap_remove(at);
        // The lease is out of reach inside: a worker uses its others there.
        let write = self.random.below(2) == 0;
        let timeout = self.timeout();
        let begin = if write { Lease::write } else { Lease::read };
        if let Ok(in_use) = begin(&lease, timeout) {
            let kind = if write { TreeKind::Sw } else { TreeKind::Sr }.into();
            let tree = lease_tree(&lease, self.locks);
            self.oracle.took(0, self.number, ScopeKind::Ix.into());
            self.oracle.took(tree, self.number, kind);
            if !self.leases.is_empty() {
                self.inside(depth);
            }
            let again = lease.write(self.timeout());
            if again.is_ok() {
                self.oracle.took(tree, self.number, TreeKind::Sw.into());
                self.oracle.releases(tree, self.number, TreeKind::Sw.into());
            }
            drop(again);
            self.oracle.releases(tree, self.number, kind);
            self.oracle.releases(0, self.number, ScopeKind::Ix.into());
            drop(in_use);
        }
        self.leases.push(lease);
    }
}

/// The number of the lock of a lease's tree.
fn lease_tree(lease: &Lease, locks: &[Arc<MetadataLock>]) -> usize {
    locks.iter().position(|lock| Arc::ptr_eq(lock, lease.tree())).expect("it is one of them")
}

#[test]
fn two_owners_never_hold_what_does_not_go_together_and_nobody_is_stuck() {
    for seed in 1..=4 {
        println!("seed {seed}");
        run(seed);
    }
}

fn run(seed: u64) {
    let manager = MetadataLocks::new();
    let locks: Vec<_> = std::iter::once(MetadataLock::scope())
        .chain((0..TREES).map(|_| MetadataLock::tree()))
        .collect();
    let oracle = Oracle { held: locks.iter().map(|_| Mutex::default()).collect() };
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (manager, locks, oracle) = (&manager, &locks, &oracle);
            scope.spawn(move || {
                let owner = manager.owner();
                let leases = locks[1..].iter().map(|tree| owner.lease(&locks[0], tree)).collect();
                let random = Random(seed * THREADS + number + 1);
                let owner = &owner;
                let mut worker = Worker { number, owner, locks, leases, oracle, random };
                for _ in 0..1_000 {
                    worker.step(3);
                }
            });
        }
    });
    let usage = manager.usage();
    assert_eq!((usage.holders, usage.waiters, usage.leases), (0, 0, 0), "{usage:?}");
    assert!(usage.obtrusive_grants > 0 && usage.waits > 0, "{usage:?}");
    // All is free.
    let owner = manager.owner();
    assert!(owner.try_lock(&locks[0], ScopeKind::X).is_some());
    assert!(locks[1..].iter().all(|tree| owner.try_lock(tree, TreeKind::X).is_some()));
}
