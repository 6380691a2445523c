//! Panics inside of an engine become errors of what was asked of it.
//!
//! What it is for: a round of an engine among others, which are to go on if this one panics. What it is not: a way to
//! go on with the engine that has panicked. What its work has left half done stays so, and it is asked for nothing more.
//! The message of the panic goes to standard error as well. A store that the work owns is dropped on the way; if that
//! panics too, the program ends, as Rust has it.
//!
//! Tested below.

use crate::Fail;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`. A panic in it is an error with its message.
pub(crate) fn guarded<R>(work: impl FnOnce() -> Result<R, Fail>) -> Result<R, Fail> {
    // Whoever gets the error has nothing more to do with what the work has changed.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Err(format!("panicked: {}", text.unwrap_or("without a message")).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(work: impl FnOnce() -> Result<(), Fail>) -> String {
        guarded(work).expect_err("it fails").to_string()
    }

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(message(|| panic!("out of order")), "panicked: out of order");
        let number = 7;
        assert_eq!(message(|| panic!("page {number}")), "panicked: page 7");
        assert_eq!(message(|| std::panic::panic_any(7)), "panicked: without a message");
    }

    #[test]
    fn what_does_not_panic_is_as_it_was() {
        assert_eq!(guarded(|| Ok(7)).expect("no panic"), 7);
        assert_eq!(message(|| Err("closed".into())), "closed");
    }
}
