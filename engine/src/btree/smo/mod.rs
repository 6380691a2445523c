//! Structure modifications: splits and merges.
//!
//! Each is one pass from above over at most two levels, inside the gate for the whole of it, so that a checkpoint
//! sees all of it or nothing. Frames and page ids are reserved before the gate is entered ([T3]), after which
//! nothing can fail but damage in memory.

mod merge;
mod split;
