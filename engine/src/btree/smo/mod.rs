//! Structure modifications: splits and merges.
//!
//! Each is one pass from above over at most two levels, inside the gate for the whole of it, so that a
//! checkpoint sees all of it or nothing. A split enters the gate with its reservation of frames and page ids,
//! before it latches anything ([T3]); after the touches nothing can fail but damage in memory ([T4]).

mod merge;
mod split;

/// A node less full than this asks for a merge, in percent.
pub(super) const SPARSE_PERCENT: usize = 40;
