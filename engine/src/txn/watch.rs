//! Committed changes, handed on in the order of their commits.
//!
//! The log calls [`Watchers::record`] for each record in turn, once it is written (and synced, if anybody asked)
//! and applied. Each watcher has a queue of bounded length; what does not fit is left out and marked, so that a
//! slow watcher costs nobody anything.
//!
//! * [Y1] Records come one at a time and in order, so the queues have one pusher.
//! * [Y2] After a mark of overflow nothing is pushed until the mark has been taken: what is missing is missing
//!   at one place.

use crate::id::TreeId;
use crate::log::ops::{Op, Ops};
use crate::log::{RecordKind, Retired};
use crossbeam_queue::ArrayQueue;
use latchkv_latch::primitives::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Something that happened to a watched part of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A key has a value.
    Put {
        /// The commit.
        lsn: u64,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A key was removed, if it was there.
    Delete {
        /// The commit.
        lsn: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// All keys were removed, or the tree was dropped or bulk loaded: what is known of it no longer holds.
    Reset {
        /// The commit.
        lsn: u64,
    },
    /// Changes of this commit, and maybe of later ones, were left out: the queue was full, or the commit too
    /// large. Read the tree to go on from what it holds.
    Overflow {
        /// The first commit of which something is missing.
        lsn: u64,
    },
}

/// The queue between the log and one watcher.
#[derive(Debug)]
pub(crate) struct WatchQueue {
    tree: TreeId,
    prefix: Vec<u8>,
    /// Commits below it were visible before.
    from: u64,
    events: ArrayQueue<Event>,
    /// Lsn of the first commit that was left out; 0 = none. Release and Acquire: a mark is seen after the events
    /// before it were pushed.
    overflow: AtomicU64,
    /// The database was closed. Release and Acquire, as `overflow`.
    closed: AtomicBool,
    sleeping: Mutex<()>,
    awake: Condvar,
}

impl WatchQueue {
    fn push(&self, event: Event, lsn: u64) {
        // Relaxed: [Y1], only this thread sets it; that it was taken may be seen late.
        if self.overflow.load(Ordering::Relaxed) == 0 && self.events.push(event).is_err() {
            self.overflow.store(lsn, Ordering::Release);
        }
    }

    fn overflow(&self, lsn: u64) {
        // Relaxed: as in `push`.
        if self.overflow.load(Ordering::Relaxed) == 0 {
            self.overflow.store(lsn, Ordering::Release);
        }
    }

    fn wake(&self) {
        let _sleeping = self.lock();
        self.awake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // Guards nothing but the moment of falling asleep.
        self.sleeping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event, if there is one.
    pub(crate) fn try_next(&self) -> Option<Event> {
        self.events.pop().or_else(|| {
            // Acquire: see the field. Pushed before the mark: they come first.
            let lsn = self.overflow.load(Ordering::Acquire);
            if lsn == 0 {
                return None;
            }
            self.events.pop().or_else(|| {
                // Release: as the field says, though nothing hangs on it here: the queue orders its own events.
                self.overflow.store(0, Ordering::Release);
                Some(Event::Overflow { lsn })
            })
        })
    }

    /// The next event, waiting until `deadline` if there is one. `None`: the time is up, or the database closed.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Option<Event> {
        let mut sleeping = self.lock();
        loop {
            // Acquire: see the field.
            let closed = self.closed.load(Ordering::Acquire);
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if closed {
                return None;
            }
            sleeping = match deadline {
                None => self.awake.wait(sleeping).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left == Duration::ZERO {
                        return None;
                    }
                    let waited = self.awake.wait_timeout(sleeping, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// All watchers of a database.
#[derive(Default, Debug)]
pub(crate) struct Watchers {
    queues: Mutex<Vec<Weak<WatchQueue>>>,
}

impl Watchers {
    fn queues(&self) -> MutexGuard<'_, Vec<Weak<WatchQueue>>> {
        // Whole after any panic.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue for changes of keys that begin with `prefix`, by commits from lsn `from` on.
    pub(crate) fn add(
        &self,
        tree: TreeId,
        prefix: &[u8],
        from: u64,
        events_max: usize,
    ) -> Arc<WatchQueue> {
        let queue = Arc::new(WatchQueue {
            tree,
            prefix: prefix.to_vec(),
            from,
            events: ArrayQueue::new(events_max.max(1)),
            overflow: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            sleeping: Mutex::new(()),
            awake: Condvar::new(),
        });
        self.queues().push(Arc::downgrade(&queue));
        queue
    }

    /// Nobody watches any more.
    pub(crate) fn is_idle(&self) -> bool {
        let mut queues = self.queues();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.is_empty()
    }

    /// Hands a record on.
    pub(crate) fn record(&self, record: Retired<'_>) {
        if record.kind != RecordKind::Commit {
            return;
        }
        let lsn = record.lsn;
        let queues: Vec<_> = self.queues().iter().filter_map(Weak::upgrade).collect();
        for queue in queues.iter().filter(|queue| queue.from <= lsn) {
            for op in Ops::new(record.ops) {
                match op {
                    Ok(op) => hand_on(queue, lsn, op),
                    // Bytes that this process has written: there are none such.
                    Err(_) => queue.overflow(lsn),
                }
            }
            queue.wake();
        }
    }

    /// The database is closed: nothing more will come.
    pub(crate) fn close(&self) {
        for queue in self.queues().drain(..).filter_map(|queue| queue.upgrade()) {
            queue.closed.store(true, Ordering::Release);
            queue.wake();
        }
    }
}

fn hand_on(queue: &WatchQueue, lsn: u64, op: Op<'_>) {
    match op {
        Op::Put { tree, key, value } if tree == queue.tree && key.starts_with(&queue.prefix) => {
            queue.push(Event::Put { lsn, key: key.to_vec(), value: value.to_vec() }, lsn);
        }
        Op::Delete { tree, key } if tree == queue.tree && key.starts_with(&queue.prefix) => {
            queue.push(Event::Delete { lsn, key: key.to_vec() }, lsn);
        }
        Op::Drop { tree } | Op::Clear { tree } | Op::Fill { tree } if tree == queue.tree => {
            queue.push(Event::Reset { lsn }, lsn);
        }
        // The changes themselves lie in records before this one.
        Op::Parts { .. } => queue.overflow(lsn),
        _ => {}
    }
}
