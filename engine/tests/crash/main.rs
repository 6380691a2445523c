//! Power cuts, full disks and failing disks, on a simulated machine whose two disks lose power together.
//!
//! One thread does random calls and remembers what the trees held after each commit, and which calls said that it
//! lasts. The machine remembers its state after every call of a disk. Whatever a power cut leaves of any of these
//! states must open, be whole, and hold what one of the commits left:
//!
//! ```text
//!   commits      0 ... checkpoint ... | ... acknowledged ... | ... begun ... | not begun
//!   None                              ^----------------------------------^
//!   Buffered     process killed                            ^-------------^    power cut: as None
//!   Sync                                                   ^-------------^
//! ```
//!
//! The database's own background thread writes in between, so that runs of one seed may differ in the order of
//! writes; what is asserted holds for all of them.
//!
//! - `state`: what a database holds, and a sum of it.
//! - `run`: the random calls, and what may be left of them.
//! - `cuts`: the power fails, at every sync, after any call, and again while the first cut is recovered from.
//! - `faults`: the disks are full or give errors, at every call.

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod faults;
mod run;
mod state;
