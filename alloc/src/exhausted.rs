//! The one error of the arenas.

use std::fmt;

/// An arena could not give that much: the system has no such memory, or the arena's own limit stands
/// before it. The arena is unchanged and goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted {
    /// Bytes asked for in this call.
    pub asked_bytes: usize,
    /// Bytes the arena held at that moment.
    pub held_bytes: usize,
    /// Greatest number of bytes it may hold.
    pub limit_bytes: usize,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exhausted { asked_bytes, held_bytes, limit_bytes } = self;
        write!(f, "arena exhausted: asked for {asked_bytes} bytes while holding {held_bytes}")?;
        match *limit_bytes {
            usize::MAX => Ok(()),
            limit => write!(f, ", limit {limit}"),
        }
    }
}

impl std::error::Error for Exhausted {}
