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
        line("page size", format!("{page_bytes} bytes"))?;
        let direct = if backend.direct { ", direct" } else { "" };
        line("backend", format!("{}{direct}", backend.name))?;
        if let Some(note) = &backend.note {
            line("", note.clone())?;
        }
        line("file", format!("{} bytes", store.file_bytes))?;
        line("blocks used / free", format!("{} / {}", store.used_blocks, store.free_blocks))?;
        line("blocks waiting", store.pending_blocks.to_string())?;
        line("pages on disk", store.pages.to_string())?;
        line("page map", format!("{} bytes of memory", store.map_bytes))?;
        line("checkpoints ever", store.sequence.to_string())?;
        line("cache", format!("{} bytes, {:?}", pool.total_bytes, pool.huge_pages))?;
        if let Some(huge) = pool.huge_bytes {
            line("in huge pages", format!("{huge} bytes"))?;
        }
        line(
            "frames",
            format!("{} ({} free, {} dirty)", pool.frames, pool.frames_free, pool.frames_dirty),
        )?;
        line("loads / evictions", format!("{} / {}", pool.loads, pool.evictions))?;
        line("loaded ahead", pool.loads_ahead.to_string())?;
        line("page images written", pool.writebacks.to_string())?;
        line("found by page hash", pool.hash_hits.to_string())?;
        line("hints repaired", pool.hint_repairs.to_string())?;
        line("writers kept out", format!("{} ns by the last checkpoint", pool.gate_closed_ns))?;
        if let Some(log) = log {
            line("log", format!("{} bytes, {} live", log.file_bytes, log.live_bytes))?;
            let ahead = log.tail - log.durable.min(log.tail);
            line("log not durable", format!("{ahead} bytes"))?;
            line("log flushes / syncs", format!("{} / {}", log.flushes, log.syncs))?;
            line("log records", log.records.to_string())?;
        }
        let age = snapshots.oldest_age.unwrap_or_default();
        line("snapshots", format!("{}, the oldest for {age:?}", snapshots.count))?;
        let (memory, spilled) = (snapshots.version_bytes, snapshots.version_spilled_bytes);
        let versions = snapshots.versions;
        line("old versions", format!("{versions} in {memory} bytes, {spilled} spilled"))
    }
}
