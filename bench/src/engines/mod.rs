//! The engines under one trait, [`Store`](store::Store): opened, filled, read, changed, compacted and closed.
//!
//! In order of descent: `kind` names the engines of this build and opens them, `store` says what each can do, the
//! others are the engines, one a file. `ours` is latchkv, with what experiments on latchkv alone need besides; `api` is
//! its plain API and that of sessions under one trait. `guard` makes errors of panics.

pub(crate) mod api;
#[cfg(feature = "peers")]
mod fjall;
pub(crate) mod guard;
pub(crate) mod kind;
#[cfg(feature = "peers")]
mod lmdb;
pub(crate) mod ours;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peer-rocksdb")]
mod rocksdb;
#[cfg(feature = "peers")]
mod sled;
pub(crate) mod store;

/// What is done with bytes that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Touch {
    /// Length, first and last byte
    Ends,
    /// Every byte
    All,
}

impl Touch {
    /// A sum over `bytes` that touches as much of them as asked.
    #[inline(always)]
    pub(crate) fn sum(self, bytes: &[u8]) -> u64 {
        let ends = match bytes {
            [first, .., last] => u64::from(*first) << 8 | u64::from(*last),
            _ => 0,
        };
        let length = bytes.len() as u64;
        match self {
            Touch::Ends => length << 16 ^ ends,
            Touch::All => {
                let (words, rest) = bytes.as_chunks::<8>();
                let sum = words
                    .iter()
                    .fold(length, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)));
                rest.iter().fold(sum, |sum, &byte| sum.wrapping_add(u64::from(byte)))
            }
        }
    }
}
