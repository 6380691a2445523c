//! Latches of keys: a key is committed by who holds the latch that its hash names.
//!
//! Many keys share a latch, so who takes several takes them in ascending order, each once.
//!
//! Model-checked as `commit::*` in `loom-tests`.

use latchkv_latch::{Exclusive, Latch};

/// How many. A commit of a few keys meets another's by chance once in a thousand times.
const STRIPES: usize = 4096;

/// A latch in a line of its own.
#[repr(align(64))]
#[derive(Debug)]
struct Stripe(Latch);

/// The latches of all keys.
#[derive(Debug)]
pub(super) struct Stripes(Box<[Stripe]>);

impl Stripes {
    pub(super) fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Stripe(Latch::new())).collect())
    }

    /// Waits for the latch of one key, by its hash.
    #[inline]
    pub(super) fn one(&self, hash: u64) -> Exclusive<'_> {
        self.0[hash as usize % STRIPES].0.exclusive()
    }

    /// Waits for all latches.
    pub(super) fn every(&self) -> Vec<Exclusive<'_>> {
        self.0.iter().map(|stripe| stripe.0.exclusive()).collect()
    }

    /// Waits for the latches of many keys, by their hashes, in any order and number.
    pub(super) fn all(&self, hashes: impl Iterator<Item = u64>) -> Vec<Exclusive<'_>> {
        let mut wanted: Vec<u16> = hashes.map(|hash| (hash as usize % STRIPES) as u16).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.into_iter().map(|index| self.0[usize::from(index)].0.exclusive()).collect()
    }
}
