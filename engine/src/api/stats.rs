//! Numbers about an open database.

use super::shared::Shared;
use crate::io::BackendReport;
use crate::log::LogUsage;
use crate::pool::PoolStats;
use crate::store::StoreUsage;
use crate::txn::SnapshotUsage;
use std::fmt;

/// Numbers about an open database, read one after the other, not at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of a tree page.
    pub page_bytes: u32,
    /// How the file is read and written, and what had to be given up.
    pub backend: BackendReport,
    /// The buffer pool.
    pub pool: PoolStats,
    /// The file `data`.
    pub store: StoreUsage,
    /// The log; none if the database was opened for reading.
    pub log: Option<LogUsage>,
    /// Snapshots and what they hold.
    pub snapshots: SnapshotUsage,
}

impl Stats {
    pub(super) fn of(shared: &Shared) -> Stats {
        let store = shared.pool.store();
        Stats {
            page_bytes: store.page_bytes(),
            backend: store.disk().backend(),
            pool: shared.pool.stats(),
            store: store.usage(),
            log: shared.ledger.as_ref().map(|ledger| ledger.log.stats()),
            snapshots: shared
                .ledger
                .as_ref()
                .map(|ledger| ledger.snapshot_usage())
                .unwrap_or_default(),
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { page_bytes, backend, pool, store, log, snapshots } = self;
        let mut line = |name: &str, value: String| writeln!(f, "{name:<24}{value}");
        line("page size", format!("{} bytes", grouped(page_bytes)))?;
        let direct = if backend.direct { ", direct" } else { "" };
        line("backend", format!("{}{direct}", backend.name))?;
        if let Some(note) = &backend.note {
            line("", note.clone())?;
        }
        line("file", format!("{} bytes", grouped(store.file_bytes)))?;
        line(
            "blocks used / free",
            format!("{} / {}", grouped(store.used_blocks), grouped(store.free_blocks)),
        )?;
        line("blocks waiting", grouped(store.pending_blocks))?;
        line("pages on disk", grouped(store.pages))?;
        line("page map", format!("{} bytes of memory", grouped(store.map_bytes)))?;
        line("checkpoints ever", grouped(store.sequence))?;
        line("cache", format!("{} bytes, {:?}", grouped(pool.total_bytes), pool.huge_pages))?;
        if let Some(huge) = pool.huge_bytes {
            line("in huge pages", format!("{} bytes", grouped(huge)))?;
        }
        line(
            "frames",
            format!(
                "{} ({} free, {} dirty)",
                grouped(pool.frames),
                grouped(pool.frames_free),
                grouped(pool.frames_dirty)
            ),
        )?;
        line(
            "loads / evictions",
            format!("{} / {}", grouped(pool.loads), grouped(pool.evictions)),
        )?;
        line("loaded ahead", grouped(pool.loads_ahead))?;
        line("page images written", grouped(pool.writebacks))?;
        line("found by page hash", grouped(pool.hash_hits))?;
        line("hints repaired", grouped(pool.hint_repairs))?;
        line(
            "writers kept out",
            format!("{} ns by the last checkpoint", grouped(pool.gate_closed_ns)),
        )?;
        if let Some(log) = log {
            line(
                "log",
                format!("{} bytes, {} live", grouped(log.file_bytes), grouped(log.live_bytes)),
            )?;
            let ahead = log.tail - log.durable.min(log.tail);
            line("log not durable", format!("{} bytes", grouped(ahead)))?;
            line(
                "log flushes / syncs",
                format!("{} / {}", grouped(log.flushes), grouped(log.syncs)),
            )?;
            line("log records", grouped(log.records))?;
        }
        let age = snapshots.oldest_age.unwrap_or_default();
        line("snapshots", format!("{}, the oldest for {age:?}", snapshots.count))?;
        let versions = grouped(snapshots.versions);
        let memory = grouped(snapshots.version_bytes);
        let spilled = grouped(snapshots.version_spilled_bytes);
        line("old versions", format!("{versions} in {memory} bytes, {spilled} spilled"))
    }
}

/// The digits of a whole number in groups of three.
fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_stand_in_groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_048_576, "1,048,576"),
            (123_456, "123,456"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
