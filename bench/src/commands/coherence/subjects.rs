//! What is recorded: look-ups in the page hash, and point reads of a whole engine.
//!
//! | subject | latch of a page's cell | shipped |
//! |---|---|---|
//! | one latch | one for all cells, taken shared: a reader count on one word | |
//! | 16 latches, 1024 latches | in an array apart, 128 bytes each, taken shared | |
//! | per cell, shared | in the cell, taken shared | |
//! | per cell, optimistic | in the cell, read | as the page hash is |
//! | frame hints | as before, but the hash is asked only where a hint is wrong | as the engine is |
//!
//! * \[M1] The region of a hash is zeroed, as long and aligned as the hash asks for, and dropped after it.

use super::record::{self, Number};
use super::replay::Trace;
use crate::Fail;
use crate::data::Data;
use crate::engines::Touch;
use crate::engines::ours::{self, Access, Order, Ours};
use crate::engines::store::Reader as _;
use crate::report::Report;
use latchkv::{Options, PageHashLatches};
use latchkv_alloc::{Region, RegionOptions};
use latchkv_latch::{LatchPlacement, Line64, PageHash};
use std::path::Path;

/// Numbers of latches apart that are tried.
const APART: [usize; 3] = [1, 16, 1024];

/// The name of so many latches apart.
fn apart(count: usize) -> String {
    if count == 1 { "one latch, shared".into() } else { format!("{count} latches, shared") }
}

/// A page hash that holds pages `1..=pages`, and how it is asked.
pub(crate) struct Hash {
    pub(crate) name: String,
    shared: bool,
    hash: PageHash<Line64>,
    /// Where the cells of `hash` lie: at the same place in its lines in every run.
    _region: Region,
}

impl Hash {
    fn new(
        name: impl Into<String>,
        pages: u32,
        placement: LatchPlacement,
        shared: bool,
    ) -> Result<Hash, Fail> {
        let bytes = PageHash::<Line64>::bytes_needed(pages as usize);
        let region = Region::map(bytes, RegionOptions { huge_pages: false, prefault: false })?;
        // SAFETY: [M1].
        let hash = unsafe {
            PageHash::<Line64>::with_memory(region.ptr(), region.len(), pages as usize, placement)
        };
        for frame in 0..pages {
            hash.insert(u64::from(frame) + 1, frame)
                .map_err(|_| "a page is in the hash that was not put there")?;
        }
        Ok(Hash { name: name.into(), shared, hash, _region: region })
    }

    /// All subjects, the slowest idea first.
    pub(crate) fn all(pages: u32) -> Result<Vec<Hash>, Fail> {
        let mut all = Vec::new();
        for count in APART {
            all.push(Hash::new(apart(count), pages, LatchPlacement::Outside { count }, true)?);
        }
        all.push(Hash::new("per cell, shared", pages, LatchPlacement::PerCell, true)?);
        all.push(Hash::new("per cell, optimistic", pages, LatchPlacement::PerCell, false)?);
        Ok(all)
    }

    /// The frame of page `number + 1`.
    #[inline]
    pub(crate) fn lookup(&self, number: Number) -> Result<u32, Fail> {
        let page = number + 1;
        let frame =
            if self.shared { self.hash.lookup_shared(page) } else { self.hash.lookup(page) };
        frame.ok_or_else(|| "a page is not in the hash".into())
    }

    /// What look-ups of these pages do, a list a core.
    pub(crate) fn traces(&self, numbers: &[Vec<Number>]) -> Result<Vec<Trace>, Fail> {
        record::traces(numbers, |number| self.lookup(number).map(|_| ()))
    }
}

/// A database of which everything is in memory.
pub(crate) struct Reads {
    engine: Ours,
    data: Data,
}

/// How a database is opened to be read.
pub(crate) struct Way {
    pub(crate) name: String,
    latches: PageHashLatches,
    hints: bool,
}

impl Way {
    /// All subjects, the slowest idea first.
    pub(crate) fn all() -> Vec<Way> {
        let hash = |name, latches| Way { name, latches, hints: false };
        let apart = APART.map(|count| hash(apart(count), PageHashLatches::Outside { count }));
        let mut all = Vec::from(apart);
        all.push(hash("per cell, optimistic".into(), PageHashLatches::PerCell));
        let name = "frame hints".into();
        all.push(Way { name, latches: PageHashLatches::PerCell, hints: true });
        all
    }
}

/// Makes the database that [`Reads::open`] opens.
pub(crate) fn load(
    path: &Path,
    options: &Options,
    data: &Data,
    report: &mut Report,
) -> Result<(), Fail> {
    ours::load(path, options, data, Order::Sorted)?.tell(data, report)
}

impl Reads {
    /// Opens it, and reads all of it by point reads, so that all pages are in frames and all hints right.
    pub(crate) fn open(
        path: &Path,
        options: &Options,
        way: &Way,
        data: Data,
    ) -> Result<Reads, Fail> {
        let options = options.clone().page_hash_latches(way.latches).frame_hints(way.hints);
        let engine = Ours::open(&way.name, path, &options, Access::Read)?;
        let keys: Vec<_> = (0..data.records).map(|at| data.key(at)).collect();
        engine.reads(&keys, Touch::Ends)?;
        let loads = engine.db.stats().pool.loads;
        engine.reads(&keys, Touch::Ends)?;
        if engine.db.stats().pool.loads != loads {
            return Err(
                "the cache does not hold the database: give it a greater --cache-mib".into()
            );
        }
        Ok(Reads { engine, data })
    }

    /// What point reads of these records do, a list a core.
    pub(crate) fn traces(&self, numbers: &[Vec<Number>]) -> Result<Vec<Trace>, Fail> {
        record::traces(numbers, |number| {
            let key = self.data.key(number);
            match self.engine.tree.get_with(key, <[u8]>::len)? {
                Some(_) => Ok(()),
                None => Err("a record is absent".into()),
            }
        })
    }
}
