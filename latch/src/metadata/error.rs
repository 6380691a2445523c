//! Why a metadata lock was not given.

use super::kind::Kind;

/// Why a metadata lock was not given. Nothing is held of it; what was held before is held still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The time was up.
    #[error("{kind} was not free in time; try again, or see who holds it")]
    Timeout {
        /// What was asked for.
        kind: Kind,
    },
    /// The owner waited in a circle with others, and held the least of them.
    #[error("waiting for {kind} was a deadlock; release what is held and try again")]
    Deadlock {
        /// What was asked for.
        kind: Kind,
    },
    /// No lock of this class has this kind, or it does not strengthen what is held.
    #[error("{kind} {what}")]
    Misuse {
        /// What was asked for.
        kind: Kind,
        /// What is wrong with that.
        what: &'static str,
    },
}
