//! What names stand for while sessions use them: the state and lock of a namespace, the lock of a tree.
//!
//! Each is found by the ready hash of a [`Name`]. Namespaces stay, since their states are asked for without a look at
//! the records. The lock of a tree lives as long as somebody holds it; the table keeps a weak reference.
//!
//! | row | write site | read site | edge | without it |
//! |---|---|---|---|---|
//! | \[N-a] | `set_state`: Relaxed, under the namespace's X | `is_writable`, `state`: Relaxed, under its IX | none of its own: the lock has it | a lock that failed to would let writes straddle a change, [S1] |
//!
//! Tested below; [S1] by `loom-tests` and `engine/tests/sessions/read_only.rs`.

use crate::accounts::ReadOnly;
use crate::name::{Name, NameRef, Named, ReadyHash};
use latchkv_latch::metadata::MetadataLock;
use latchkv_latch::primitives::{AtomicU32, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What sessions share of a namespace.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) name: Box<str>,
    pub(super) lock: Arc<MetadataLock>,
    /// The code of a [`ReadOnly`]. Stored under the X of `lock`, loaded under its IX.
    state: AtomicU32,
}

impl Namespace {
    fn new(name: &str, state: ReadOnly) -> Namespace {
        Namespace {
            name: name.into(),
            lock: MetadataLock::scope(),
            state: AtomicU32::new(state.code().into()),
        }
    }

    /// Nothing keeps anybody from writing.
    #[inline(always)]
    pub(super) fn is_writable(&self) -> bool {
        // Relaxed: [N-a].
        self.state.load(Ordering::Relaxed) == u32::from(ReadOnly::No.code())
    }

    /// The state. The caller holds IX, S or X, or only wants to tell it.
    pub(super) fn state(&self) -> ReadOnly {
        // Relaxed: [N-a].
        ReadOnly::from_code(self.state.load(Ordering::Relaxed) as u8)
    }

    /// The caller holds X.
    pub(super) fn set_state(&self, state: ReadOnly) {
        // Relaxed: [N-a].
        self.state.store(state.code().into(), Ordering::Relaxed);
    }
}

/// Names that are used.
#[derive(Debug, Default)]
pub(super) struct Names {
    namespaces: Mutex<HashMap<u64, Vec<Arc<Namespace>>, ReadyHash>>,
    trees: Mutex<Trees>,
}

#[derive(Debug, Default)]
struct Trees {
    locks: HashMap<Name, Weak<MetadataLock>, ReadyHash>,
    /// The table is swept when it is as long as this.
    sweep_at: usize,
}

/// A table is not swept while it is shorter.
const SWEEP_MIN: usize = 256;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change of the tables is one insertion or removal: they are whole after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    /// The namespace of a name; `state` gives what its record says, if it is not known here yet.
    ///
    /// # Errors
    /// Those of `state`.
    pub(super) fn namespace<E>(
        &self,
        name: NameRef<'_>,
        state: impl FnOnce() -> Result<ReadOnly, E>,
    ) -> Result<Arc<Namespace>, E> {
        let mut namespaces = held(&self.namespaces);
        let same_hash = namespaces.entry(name.hash_of_namespace()).or_default();
        if let Some(known) = same_hash.iter().find(|known| *known.name == *name.namespace()) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(Namespace::new(name.namespace(), state()?));
        same_hash.push(Arc::clone(&new));
        Ok(new)
    }

    /// The lock of a tree.
    pub(super) fn tree(&self, name: NameRef<'_>) -> Arc<MetadataLock> {
        let mut trees = held(&self.trees);
        if let Some(lock) = trees.locks.get(&name as &dyn Named).and_then(Weak::upgrade) {
            return lock;
        }
        if trees.locks.len() >= trees.sweep_at.max(SWEEP_MIN) {
            trees.locks.retain(|_, lock| lock.strong_count() > 0);
            trees.sweep_at = trees.locks.len() * 2;
        }
        let lock = MetadataLock::tree();
        trees.locks.insert(name.to_name(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn name(text: &str) -> NameRef<'_> {
        NameRef::new(text).expect("a name")
    }

    fn state(of: ReadOnly) -> impl FnOnce() -> Result<ReadOnly, Infallible> {
        move || Ok(of)
    }

    #[test]
    fn a_namespace_is_made_once_and_asked_for_its_record_once() {
        let names = Names::default();
        let Ok(first) = names.namespace(name("shop/a"), state(ReadOnly::Super));
        let Ok(again) = names.namespace(name("shop/b"), state(ReadOnly::No));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(again.state(), ReadOnly::Super);
        let Ok(other) = names.namespace(name("a"), state(ReadOnly::No));
        assert!(other.is_writable() && other.name.is_empty());
        assert_eq!(names.namespace(name("x/y"), || Err(5)).expect_err("unreadable"), 5);
    }

    #[test]
    fn a_lock_is_shared_while_it_is_held_and_forgotten_after() {
        let names = Names::default();
        let lock = names.tree(name("shop/a"));
        assert!(Arc::ptr_eq(&lock, &names.tree(name("shop/a"))));
        assert!(!Arc::ptr_eq(&lock, &names.tree(name("shop/b"))));
        for i in 0..10 * SWEEP_MIN {
            names.tree(name(&format!("t{i}")));
        }
        assert!(held(&names.trees).locks.len() <= 2 * SWEEP_MIN);
        assert!(Arc::ptr_eq(&lock, &names.tree(name("shop/a"))), "held, so not swept");
    }
}
