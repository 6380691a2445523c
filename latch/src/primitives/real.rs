//! The primitives of a normal build: `core` atomics, and `parking_lot_core` to wait.

use super::Mutant;
use core::sync::atomic::{self, Ordering};
use std::fmt;

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

/// How many read-modify-writes (compare-exchange attempts, `fetch_*`, `swap`) the calling thread has done on atomics
/// of this module. Counts in builds with debug assertions; always 0 in others. Tests take the difference of two calls.
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

macro_rules! common {
    ($name:ident, $core:ident, $value:ty) => {
        #[doc = concat!("`core`'s [`", stringify!($core), "`](core::sync::atomic::", stringify!($core), ") that counts its read-modify-writes in debug builds.")]
        #[repr(transparent)]
        #[derive(Default)]
        pub struct $name(atomic::$core);

        impl $name {
            /// An atomic that holds `value`.
            #[inline(always)]
            pub const fn new(value: $value) -> Self {
                Self(atomic::$core::new(value))
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.swap(value, order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                count_rmw();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                count_rmw();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.fetch_and(value, order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.fetch_or(value, order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! integer {
    ($name:ident, $value:ty) => {
        common!($name, $name, $value);

        impl $name {
            /// As `core`'s: wraps.
            #[inline(always)]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.fetch_add(value, order)
            }

            /// As `core`'s: wraps.
            #[inline(always)]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.fetch_sub(value, order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                count_rmw();
                self.0.fetch_max(value, order)
            }
        }

        const _: () = assert!(size_of::<$name>() == size_of::<$value>());
        const _: () = assert!(align_of::<$name>() == align_of::<atomic::$name>());
    };
}

integer!(AtomicU64, u64);
integer!(AtomicU32, u32);
integer!(AtomicUsize, usize);
common!(AtomicBool, AtomicBool, bool);

/// Waits until [`wake_all`] is called with the same address. `still_blocked` runs under the lock of the address's
/// bucket: on false the call returns at once. It must not panic, park or wake.
#[cold]
pub fn park(address: usize, still_blocked: impl FnOnce() -> bool) {
    let mut still_blocked = Some(still_blocked);
    let validate = || still_blocked.take().is_some_and(|check| check());
    // SAFETY: the key is the address of a word owned by the caller's protocol, which nobody else parks on; the
    // callbacks neither panic nor call into parking_lot, as this function demands of `still_blocked`.
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

/// Wakes every thread parked on `address`. `clear` runs under the lock of the address's bucket, before the threads
/// run: what it stores is seen by every later `still_blocked`. It must not panic, park or wake.
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
