//! Every page size, and every page size over every backend: what a test runs at, each combination a test of its
//! own, so that a failure names it.
//!
//! ```text
//! over_every_backend! {
//!     readers_beside_writers => run;      fn run(case: Case)     15 tests: real files
//! }
//! at_every_page_size! {
//!     power_cuts => cuts;                 fn cuts(case: Case)    5 tests: the simulated disk, or none
//! }
//! ```
//!
//! A test has the more data the greater its pages are ([`Case::units`]), so that it splits and evicts at every
//! size, and does less of what takes time ([`Case::share`]).

#![allow(unused_macros, unused_imports, reason = "each test binary uses a part of it")]

use super::{scaled, seed, tiny};
use latchkv::{Backend, Db, Options};
use std::path::Path;

/// The page size that sizes of keys, values and trees in tests are meant for; see [`Case::units`].
const UNIT_BYTES: usize = 4096;

/// One combination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Bytes of a page.
    pub(crate) page_bytes: u32,
    /// The way to the file; `None` where there is no file.
    pub(crate) backend: Option<Backend>,
}

impl Case {
    /// [`tiny`] options for this combination.
    pub(crate) fn options(self) -> Options {
        let options = tiny(self.page_bytes);
        match self.backend {
            Some(backend) => options.backend(backend),
            None => options,
        }
    }

    /// A new database at `path`, with sixteen frames.
    pub(crate) fn create(self, path: &Path) -> Db {
        let db = self.options().create(path).expect("nothing there");
        assert_eq!(db.stats().pool.frames, 16);
        self.assert_used_by(&db);
        db
    }

    /// The database runs at this page size and over this backend, or says why it does not.
    #[track_caller]
    pub(crate) fn assert_used_by(self, db: &Db) {
        let stats = db.stats();
        assert_eq!(stats.page_bytes, self.page_bytes);
        let name = match self.backend {
            Some(Backend::Uring) => "uring",
            Some(Backend::Mmap) => "mmap",
            Some(Backend::Pread) => "pread",
            None => "sim",
            Some(other) => panic!("{other:?} is no backend of its own"),
        };
        let report = stats.backend;
        assert!(report.name == name || report.note.is_some(), "{report:?} in place of {name}");
    }

    /// How many times the page size of a test made for pages of 4 KiB this is: values so many times as long
    /// need about as many pages.
    pub(crate) fn units(self) -> usize {
        self.page_bytes as usize / UNIT_BYTES
    }

    /// The share of this combination in the work of a test: `count` at the scale of this run, less with pages
    /// above 8 KiB, as each of them is as much work as several; at least `least`.
    pub(crate) fn share(self, count: usize, least: usize) -> usize {
        let pages = match self.page_bytes {
            ..=8192 => 1,
            16384 => 2,
            _ => 4,
        };
        (scaled(count, 0) / pages).max(least)
    }

    /// [`seed`] for this combination; `salt` below 1000 makes the test's own.
    pub(crate) fn seed(self, salt: u64) -> u64 {
        let backend = self.backend.map_or(0, |backend| backend as u64 + 1);
        println!("{self:?}");
        seed(salt + 1000 * (u64::from(self.page_bytes.ilog2()) + 100 * backend))
    }
}

/// A test for each page size over each backend. See the module head.
macro_rules! over_every_backend {
    ($($name:ident => $run:path;)*) => {$(
        mod $name {
            $crate::common::matrix::cases! { $run;
                uring_4_kib: 4, Some(latchkv::Backend::Uring);
                uring_8_kib: 8, Some(latchkv::Backend::Uring);
                uring_16_kib: 16, Some(latchkv::Backend::Uring);
                uring_32_kib: 32, Some(latchkv::Backend::Uring);
                uring_64_kib: 64, Some(latchkv::Backend::Uring);
                mmap_4_kib: 4, Some(latchkv::Backend::Mmap);
                mmap_8_kib: 8, Some(latchkv::Backend::Mmap);
                mmap_16_kib: 16, Some(latchkv::Backend::Mmap);
                mmap_32_kib: 32, Some(latchkv::Backend::Mmap);
                mmap_64_kib: 64, Some(latchkv::Backend::Mmap);
                pread_4_kib: 4, Some(latchkv::Backend::Pread);
                pread_8_kib: 8, Some(latchkv::Backend::Pread);
                pread_16_kib: 16, Some(latchkv::Backend::Pread);
                pread_32_kib: 32, Some(latchkv::Backend::Pread);
                pread_64_kib: 64, Some(latchkv::Backend::Pread);
            }
        }
    )*};
}

/// A test for each page size. See the module head.
macro_rules! at_every_page_size {
    ($($name:ident => $run:path;)*) => {$(
        mod $name {
            $crate::common::matrix::cases! { $run;
                pages_of_4_kib: 4, None;
                pages_of_8_kib: 8, None;
                pages_of_16_kib: 16, None;
                pages_of_32_kib: 32, None;
                pages_of_64_kib: 64, None;
            }
        }
    )*};
}

/// The tests of one of the above.
macro_rules! cases {
    ($run:path; $($name:ident: $kib:literal, $backend:expr;)*) => {$(
        #[test]
        fn $name() {
            let case = $crate::common::matrix::Case { page_bytes: $kib << 10, backend: $backend };
            $run(case);
        }
    )*};
}

pub(crate) use {at_every_page_size, cases, over_every_backend};
