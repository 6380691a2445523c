//! The microbenchmarks of sysbench, by the names under which Mark Callaghan reports them, on a table with an index.
//!
//! ```text
//! sbtest       id -> k, c, pad        tree "rows": 4-byte key, 184-byte value
//! k_1          (k, id) -> nothing     tree "k": 8-byte key
//! ```
//!
//! An *event* is what sysbench counts: a transaction. What each does, after the scripts of sysbench 1.0 and of
//! mdcallag/mytools (`bench/sysbench.lua`, `run.sh`); ids are drawn uniformly from those of the loaded table, k too:
//!
//! | name | an event |
//! |---|---|
//! | `delete` | `DELETE WHERE id = ?`, which may find nothing |
//! | `insert` | `INSERT` of the next id |
//! | `update-index` | `SET k = k + 1 WHERE id = ?`: row and index change |
//! | `update-nonindex` | `SET c = ? WHERE id = ?` |
//! | `update-inlist` | `SET c = ? WHERE id IN (..)`, ten ids |
//! | `update-one` | as `update-nonindex`, on a table of one row |
//! | `update-zipf` | as `update-nonindex`, ids by Zipf with exponent 0.8, the frequent ones beside each other |
//! | `write-only` | an index update, a non-index update, a delete and insert of one id |
//! | `point-select` | `SELECT c WHERE id = ?`, outside of a transaction |
//! | `read-only` | ten point selects, then four selects of 100 ids: `c`, `SUM(k)`, `c ORDER BY c`, `DISTINCT c ORDER BY c` |
//! | `read-write_range=N` | as `read-only` with ranges of N ids, then as `write-only` |
//!
//! `read-write` is `read-write_range=100`, the default of sysbench.
//!
//! What differs from a server: no SQL is parsed and nothing crosses a network, so what an engine spends is a far larger
//! part of an event. An update is a transaction that reads the row and puts it back, at snapshot isolation; where a
//! server would wait for the lock of a row, it is begun again. The strings are slices of a pool of random digits, so
//! that making one costs a copy.
//!
//! | module | for |
//! |---|---|
//! | `table` | rows, loading, putting back what was deleted, and whether rows and index agree |
//! | `event` | the microbenchmarks |
//! | `results` | rows on their way to a client, in memory of the caller's choice |
//!
//! Tested in `event`: rows and index agree after each microbenchmark, on both APIs, and events repeat.

mod event;
mod results;
mod table;

pub(crate) use event::{Events, Worker};
pub(crate) use results::{Arena, Hidden, Known, Referenced};
pub(crate) use table::{TREES, Table};

/// A microbenchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Micro {
    /// Deletes
    Delete,
    /// Inserts of new ids
    Insert,
    /// Ten point selects, four selects of a hundred rows, four changes
    #[value(name = "read-write_range=100", alias = "read-write")]
    ReadWrite100,
    /// The same with selects of ten rows
    #[value(name = "read-write_range=10")]
    ReadWrite10,
    /// Updates of an indexed column
    UpdateIndex,
    /// Updates of ten rows each
    UpdateInlist,
    /// Updates of a column without index
    UpdateNonindex,
    /// Updates of one row, always the same
    UpdateOne,
    /// Updates of which few rows get most
    UpdateZipf,
    /// Four changes
    WriteOnly,
    /// Ten point selects and four selects of a hundred rows
    ReadOnly,
    /// One row
    PointSelect,
}

impl Micro {
    /// Those that write, in the order of the report on privileges.
    pub(crate) const WRITING: [Micro; 10] = [
        Micro::Delete,
        Micro::Insert,
        Micro::ReadWrite100,
        Micro::ReadWrite10,
        Micro::UpdateIndex,
        Micro::UpdateInlist,
        Micro::UpdateNonindex,
        Micro::UpdateOne,
        Micro::UpdateZipf,
        Micro::WriteOnly,
    ];

    /// The name, as on the command line.
    pub(crate) fn name(self) -> String {
        use clap::ValueEnum;
        let value = self.to_possible_value().expect("no microbenchmark is hidden");
        value.get_name().to_owned()
    }

    /// Rows of the table that it runs on, of those asked for.
    pub(crate) fn rows(self, asked: u32) -> u32 {
        if self == Micro::UpdateOne { 1 } else { asked.max(1) }
    }

    /// About how many rows an event looks at: to give each microbenchmark about as much work a round.
    pub(crate) fn rows_an_event(self) -> usize {
        match self {
            Micro::ReadWrite100 | Micro::ReadOnly => 400,
            Micro::ReadWrite10 => 50,
            Micro::UpdateInlist => 10,
            Micro::WriteOnly => 4,
            _ => 1,
        }
    }
}
