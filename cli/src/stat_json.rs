//! What `latchkv stat --json` prints: one object, the fields of [`Stats`] under their own names.
//!
//! Fields may be added; those that are there keep name, unit and meaning.

use latchkv::{LogUsage, Stats};
use serde_json::{Map, Value, json};

/// Everything that `latchkv stat` knows. `log_bytes` is the length of the file `log`, `trees` are names and
/// numbers of records. Where nothing is in use, as the log of a database that is open for reading, there is 0.
pub(crate) fn object(stats: &Stats, log_bytes: u64, trees: &[(String, u64)]) -> Value {
    let Stats { page_bytes, backend, pool, store, log, snapshots, .. } = stats;
    let log = log.unwrap_or(LogUsage { file_bytes: log_bytes, ..LogUsage::default() });
    let trees: Map<String, Value> =
        trees.iter().map(|(name, records)| (name.clone(), json!(records))).collect();
    json!({
        "page_bytes": page_bytes,
        "trees": trees,
        "backend": {
            "name": backend.name,
            "direct": backend.direct,
            "note": backend.note,
        },
        "store": {
            "file_bytes": store.file_bytes,
            "used_blocks": store.used_blocks,
            "free_blocks": store.free_blocks,
            "pending_blocks": store.pending_blocks,
            "pages": store.pages,
            "map_bytes": store.map_bytes,
            "sequence": store.sequence,
        },
        "log": {
            "file_bytes": log.file_bytes,
            "live_bytes": log.live_bytes,
            "tail": log.tail,
            "visible": log.visible,
            "written": log.written,
            "durable": log.durable,
            "flushes": log.flushes,
            "syncs": log.syncs,
            "records": log.records,
            "bytes_written": log.bytes_written,
            "waits": log.waits,
        },
        "snapshots": {
            "count": snapshots.count,
            "oldest_age_ms": snapshots.oldest_age.map(|age| age.as_millis() as u64),
            "oldest_behind_bytes": snapshots.oldest_behind_bytes,
            "versions": snapshots.versions,
            "version_bytes": snapshots.version_bytes,
            "version_spilled_bytes": snapshots.version_spilled_bytes,
        },
        "pool": {
            "total_bytes": pool.total_bytes,
            "frames": pool.frames,
            "frames_free": pool.frames_free,
            "frames_dirty": pool.frames_dirty,
            "huge_pages": format!("{:?}", pool.huge_pages),
            "huge_bytes": pool.huge_bytes,
            "loads": pool.loads,
            "loads_ahead": pool.loads_ahead,
            "evictions": pool.evictions,
            "hash_hits": pool.hash_hits,
        },
    })
}
