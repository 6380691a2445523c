//! The primitives of a normal build: `core` atomics, and `parking_lot_core` to wait.

use super::Mutant;
#[cfg(feature = "trace")]
use super::trace::{self, Access};
use core::sync::atomic::{self, Ordering};
use std::fmt;
use std::sync::PoisonError;
use std::time::Instant;

/// Whether the running model asked for this mutation of a protocol: never, in a normal build.
#[inline(always)]
pub const fn mutant(_which: Mutant) -> bool {
    false
}

#[cfg(debug_assertions)]
thread_local! {
    static RMW: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Counts one read-modify-write of this thread; nothing in a release build.
#[inline(always)]
fn count_rmw() {
    #[cfg(debug_assertions)]
    RMW.with(|count| count.set(count.get() + 1));
}

/// How many read-modify-writes (compare-exchange attempts, `fetch_*`, `swap`) the calling thread has done on
/// atomics of this module. Counts in builds with debug assertions; always 0 in others. Tests take the
/// difference of two calls.
pub fn rmw_count() -> u64 {
    #[cfg(debug_assertions)]
    return RMW.with(|count| count.get());
    #[cfg(not(debug_assertions))]
    0
}

/// `core`'s fence.
#[inline(always)]
pub fn fence(order: Ordering) {
    atomic::fence(order);
}

/// Tells the processor that this is a spin loop: `pause` on x86_64, `isb` on aarch64.
#[inline(always)]
pub fn spin_loop() {
    core::hint::spin_loop();
}

/// Gives the processor to another thread.
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

/// Sleeps for some tens of microseconds: for a wait that nobody ends by a wake.
#[cold]
pub fn nap() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!(
            "`core`'s [`", stringify!($name), "`](core::sync::atomic::", stringify!($name), ") ",
            "that counts its read-modify-writes in debug builds."
        )]
        #[repr(transparent)]
        #[derive(Default)]
        pub struct $name(atomic::$name);

        impl $name {
            /// An atomic that holds `value`.
            #[inline(always)]
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            #[inline(always)]
            fn word(&self) -> &atomic::$name {
                #[cfg(feature = "trace")]
                trace::note(&self.0, Access::Read);
                &self.0
            }

            #[inline(always)]
            fn stored_word(&self) -> &atomic::$name {
                #[cfg(feature = "trace")]
                trace::note(&self.0, Access::Write);
                &self.0
            }

            #[inline(always)]
            fn rmw_word(&self) -> &atomic::$name {
                count_rmw();
                #[cfg(feature = "trace")]
                trace::note(&self.0, Access::ReadModifyWrite);
                &self.0
            }
        }

        forward!($name, $value);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        const _: () = assert!(size_of::<$name>() == size_of::<atomic::$name>());
        const _: () = assert!(align_of::<$name>() == align_of::<atomic::$name>());
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicU32, u32);
atomic!(AtomicUsize, usize);
atomic!(AtomicBool, bool);
forward_arithmetic!(AtomicU64, u64);
forward_arithmetic!(AtomicU32, u32);
forward_arithmetic!(AtomicUsize, usize);

/// Waits until [`wake_all`] is called with the same address. `still_blocked` runs under the lock of the
/// address's bucket: on false the call returns at once. It must not panic, park or wake.
#[cold]
pub fn park(address: usize, still_blocked: impl FnOnce() -> bool) {
    let mut still_blocked = Some(still_blocked);
    let validate = || still_blocked.take().is_some_and(|check| check());
    // SAFETY: the key is the address of a word owned by the caller's protocol, which nobody else parks on;
    // the callbacks neither panic nor call into parking_lot, as this function demands of `still_blocked`.
    unsafe {
        parking_lot_core::park(
            address,
            validate,
            || {},
            |_, _| {},
            parking_lot_core::DEFAULT_PARK_TOKEN,
            None,
        );
    }
}

/// Wakes every thread parked on `address`. `clear` runs under the lock of the address's bucket, before the
/// threads run: what it stores is seen by every later `still_blocked`. It must not panic, park or wake.
#[cold]
pub fn wake_all(address: usize, clear: impl FnOnce()) {
    let mut clear = Some(clear);
    let callback = |_| {
        if let Some(clear) = clear.take() {
            clear();
        }
        parking_lot_core::DEFAULT_UNPARK_TOKEN
    };
    // SAFETY: as in `park`; `clear` neither panics nor calls into parking_lot.
    unsafe {
        parking_lot_core::unpark_filter(address, |_| parking_lot_core::FilterOp::Unpark, callback);
    }
}

/// `std`'s mutex without poisoning: no state behind it is left halfway by a panic of this crate.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// A [`Mutex`] held.
pub type MutexGuard<'a, T> = std::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Takes it, waiting as long as that needs.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `std`'s condition variable, to be used with one [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Nobody waits.
    pub const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    /// Lets the mutex go, waits for a wake or `deadline` (none: for ever), and takes it again. May end for no
    /// reason.
    pub fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, T> {
        match deadline {
            None => self.0.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                self.0.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Wakes all who wait.
    pub fn wake_all(&self) {
        self.0.notify_all();
    }
}
