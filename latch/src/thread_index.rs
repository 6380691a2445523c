//! A small number for each living thread, so that per-thread slots can lie in arrays.
//!
//! What it is for: [`crate::gate`] slots, counters in stripes. What it is not: an identity; the index of a
//! thread that ended is given to a later one, the smallest free one first, so that arrays stay as short as
//! the greatest number of threads alive at once.
//!
//! * \[T1] No two threads have the same index at the same time.
//! * \[T2] Whatever the old owner of an index did happens before its new owner gets it: both take the mutex.
//!
//! A thread that asks while its thread-locals are being destroyed, after it gave its index back, gets a new
//! one that is never given back.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// Indices that are not in use.
struct Indices {
    /// Given back.
    free: BinaryHeap<Reverse<usize>>,
    /// Smallest never given out.
    next: usize,
}

static INDICES: Mutex<Indices> = Mutex::new(Indices { free: BinaryHeap::new(), next: 0 });

/// Says that no index has been taken yet.
const NONE: usize = usize::MAX;

thread_local! {
    /// Has no destructor, so it can be read at any time.
    static INDEX: Cell<usize> = const { Cell::new(NONE) };
    /// Gives the index back.
    static OWNER: Owner = const { Owner };
}

struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        let index = INDEX.replace(NONE);
        if index != NONE {
            lock().free.push(Reverse(index));
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Indices> {
    // Pushes and pops leave the heap whole even if an allocation fails.
    INDICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index of the calling thread: small, dense, the same for as long as the thread lives.
#[inline]
pub fn thread_index() -> usize {
    match INDEX.get() {
        NONE => take(),
        index => index,
    }
}

#[cold]
fn take() -> usize {
    let index = {
        let mut indices = lock();
        match indices.free.pop() {
            Some(Reverse(index)) => index,
            None => {
                indices.next += 1;
                indices.next - 1
            }
        }
    };
    INDEX.set(index);
    // Registers the destructor. An error says that it has run already: then the index is never given back.
    let _ = OWNER.try_with(|_| ());
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn living_threads_have_different_indices_and_dead_ones_give_theirs_back() {
        const THREADS: usize = 8;
        let mut greatest = 0;
        for _ in 0..20 {
            let barrier = Barrier::new(THREADS);
            let indices: Vec<usize> = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(|| {
                            let index = thread_index();
                            barrier.wait();
                            assert_eq!(thread_index(), index);
                            index
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            assert_eq!(indices.iter().collect::<HashSet<_>>().len(), THREADS);
            greatest = greatest.max(*indices.iter().max().expect("not empty"));
        }
        // 160 threads have lived. Other tests of this process hold some indices, but far fewer than that.
        assert!(greatest < 100, "indices are not reused: {greatest}");
    }
}
