//! The primitives under loom.
//!
//! # Every access is a scheduling point that loom remembers
//!
//! loom 0.7 decides where to switch threads by partial-order reduction, and for that remembers only the
//! *last* access to an atomic. A thread that loads a word before it changes it, as every compare-exchange
//! loop does, so hides its change from an earlier load by another thread, and whole interleavings are never
//! run (tokio-rs/loom issues 166 and 392). The atomics here therefore carry a shadow, and touch it before
//! every access by a compare-exchange that always fails. That counts as a dependent access, and has no effect
//! in the memory model: the shadow never holds but its first value.
//!
//! # Parking
//!
//! One mutex and condvar stand for all buckets: they are made anew in each execution, and a wake goes to the
//! address asked for only, so a lost wake-up shows as a deadlock.

use super::Mutant;
use loom::sync::atomic;
use std::fmt;
use std::sync::atomic::{AtomicU32 as StdAtomicU32, Ordering};
use std::time::Instant;

pub use loom::sync::atomic::fence;
pub use loom::thread::yield_now;

/// The mutation of the running test: not part of the model, so not a loom atomic.
static MUTANT: StdAtomicU32 = StdAtomicU32::new(Mutant::None as u32);

/// Whether the running model leaves this out.
pub fn mutant(which: Mutant) -> bool {
    MUTANT.load(Ordering::Relaxed) == which as u32
}

/// Chooses what the models to come leave out. Process-wide: the caller keeps other models from running.
pub fn set_mutant(which: Mutant) {
    MUTANT.store(which as u32, Ordering::Relaxed);
}

/// Not counted under loom.
pub fn rmw_count() -> u64 {
    0
}

/// Lets another thread run: a spin loop makes no progress in a model otherwise.
pub fn spin_loop() {
    yield_now();
}

/// As [`yield_now`].
pub fn nap() {
    yield_now();
}

/// See the module head.
#[derive(Debug)]
struct Shadow(atomic::AtomicBool);

impl Shadow {
    fn touch(&self) {
        let _ = self.0.compare_exchange(true, true, Ordering::Relaxed, Ordering::Relaxed);
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// loom's atomic of that name, with its shadow.
        pub struct $name {
            shadow: Shadow,
            word: atomic::$name,
        }

        impl $name {
            /// An atomic that holds `value`.
            pub fn new(value: $value) -> Self {
                let shadow = Shadow(atomic::AtomicBool::new(false));
                Self { shadow, word: atomic::$name::new(value) }
            }

            fn word(&self) -> &atomic::$name {
                self.shadow.touch();
                &self.word
            }

            fn stored_word(&self) -> &atomic::$name {
                self.word()
            }

            fn rmw_word(&self) -> &atomic::$name {
                self.word()
            }
        }

        forward!($name, $value);

        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // To look at the value would be a step of the model.
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicU32, u32);
atomic!(AtomicUsize, usize);
atomic!(AtomicBool, bool);
forward_arithmetic!(AtomicU64, u64);
forward_arithmetic!(AtomicU32, u32);
forward_arithmetic!(AtomicUsize, usize);

/// Who sleeps where.
struct Bucket {
    /// Address and ticket of each sleeper.
    sleepers: Mutex<(u64, Vec<(usize, u64)>)>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref BUCKET: Bucket = Bucket {
        sleepers: Mutex::new((0, Vec::new())),
        woken: Condvar::new(),
    };
}

/// As in a normal build.
pub fn park(address: usize, still_blocked: impl FnOnce() -> bool) {
    let mut guard = BUCKET.sleepers.lock();
    if !still_blocked() {
        return;
    }
    guard.0 += 1;
    let ticket = (address, guard.0);
    guard.1.push(ticket);
    while guard.1.contains(&ticket) {
        guard = BUCKET.woken.wait(guard, None);
    }
}

/// As in a normal build.
pub fn wake_all(address: usize, clear: impl FnOnce()) {
    let mut guard = BUCKET.sleepers.lock();
    clear();
    guard.1.retain(|&(sleeper, _)| sleeper != address);
    drop(guard);
    BUCKET.woken.wake_all();
}

/// As in a normal build.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

/// As in a normal build.
pub type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// As in a normal build.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// As in a normal build.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no model panics in here")
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

/// As in a normal build, but that no time passes: a wait ends by a wake.
#[derive(Debug)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// As in a normal build.
    #[expect(clippy::new_without_default, reason = "as in a normal build, where it is derived")]
    pub fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    /// As in a normal build.
    pub fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _deadline: Option<Instant>,
    ) -> MutexGuard<'a, T> {
        self.0.wait(guard).expect("no model panics in here")
    }

    /// As in a normal build.
    pub fn wake_all(&self) {
        self.0.notify_all();
    }
}
