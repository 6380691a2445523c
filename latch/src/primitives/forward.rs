//! The methods of an atomic, written once for both kinds.
//!
//! A kind says what a type is made of and what precedes an access, by three private methods:
//!
//! | | `word` | `stored_word` | `rmw_word` |
//! |---|---|---|---|
//! | for | loads | stores | read-modify-writes |
//! | `real.rs` | `core`'s atomic | the same | the same, after counting |
//! | `real.rs` with feature `trace` | noted first | noted first | noted first |
//! | `model.rs` | loom's atomic, after touching its shadow | the same | the same |
//!
//! What it is not: a trait. Its methods could not be called without an import.

/// Implements what every atomic has.
macro_rules! forward {
    ($name:ident, $value:ty) => {
        impl $name {
            /// As `core`'s.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.word().load(order)
            }

            /// As `core`'s.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                self.stored_word().store(value, order);
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
                self.rmw_word().compare_exchange(current, new, success, failure)
            }

            /// As `core`'s. Under loom it never fails without a reason.
            #[inline(always)]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.rmw_word().compare_exchange_weak(current, new, success, failure)
            }
        }

        forward!(@fetch $name, $value, swap, fetch_and, fetch_or);
    };
    (@fetch $name:ident, $value:ty, $($method:ident),*) => {
        impl $name {
            $(
                /// As `core`'s: gives the value before, wraps where it computes.
                #[inline(always)]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    self.rmw_word().$method(value, order)
                }
            )*
        }
    };
}

/// Implements what integers have beside that.
macro_rules! forward_arithmetic {
    ($name:ident, $value:ty) => {
        forward!(@fetch $name, $value, fetch_add, fetch_sub, fetch_max);
    };
}
